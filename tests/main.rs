//! Whole calls.

#![expect(clippy::unwrap_used, reason = "tests")]

mod cli;
