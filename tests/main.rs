//! Whole calls.
