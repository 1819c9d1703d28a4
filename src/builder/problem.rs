//! What is wrong with an engine to be.

use std::fmt;

use crate::store::OpenError;

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
        let count = self.problems.len();
        write!(f, "the engine cannot be built, {count} problem{}", if count == 1 { "" } else { "s" })?;
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

impl From<OpenError> for Problem {
    /// Its text is the cause, a semicolon and the next step; what lies below it belongs to the cause.
    fn from(error: OpenError) -> Self {
        let text = error.to_string();
        let (what, fix) = text.split_once("; ").unwrap_or((&text, "see the cause"));
        let below = std::error::Error::source(&error).map(|it| format!(": {it}")).unwrap_or_default();
        Self::new("the database", format!("{what}{below}"), fix)
    }
}
