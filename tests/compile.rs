//! Skipping a stage does not compile.
