//! The engine: built once, shared by everything.

use std::fmt;

/// One thing that is wrong with an engine to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: a capability's id, a file and line, the database.
    pub at: String,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub fix: String,
}

impl Problem {
    pub(crate) fn new(at: impl Into<String>, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { at: at.into(), what: what.into(), fix: fix.into() }
    }
}

/// Everything that is wrong with an engine to be.
#[derive(Clone, PartialEq, Eq)]
pub struct BuildError {
    /// At least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the engine cannot be built, {} problem(s)", self.problems.len())?;
        self.problems.iter().try_for_each(|it| write!(f, "\n  `{}`: {}; {}", it.at, it.what, it.fix))
    }
}

// What `fn main() -> Result<(), BuildError>` prints.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BuildError {}
