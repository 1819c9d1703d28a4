//! Whole policy sets: loading them, deciding with them, and random ones against evaluators that do it by the book.

mod checking;
mod deciding;
mod discovering;
mod erring;
#[cfg(feature = "cli")]
mod explaining;
mod loading;
mod managing;
mod random;
mod reference;
mod stack;
