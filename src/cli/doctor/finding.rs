//! One thing that a look found.

use serde::Serialize;

use crate::{PolicyProblem, Problem};

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Rank {
    /// As it should be.
    Good,
    /// Works, and somebody should see to it.
    Note,
    /// A server would not start, or not do what it should.
    Problem,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    /// What was looked at.
    pub(super) check: &'static str,
    #[serde(rename = "state")]
    pub(super) rank: Rank,
    pub(super) what: String,
    /// What to do; empty if nothing is.
    pub(super) next: String,
}

impl Finding {
    pub(super) fn good(check: &'static str, what: impl Into<String>) -> Self {
        Self { check, rank: Rank::Good, what: what.into(), next: String::new() }
    }

    pub(super) fn note(check: &'static str, what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { check, rank: Rank::Note, what: what.into(), next: next.into() }
    }

    pub(super) fn bad(check: &'static str, what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { check, rank: Rank::Problem, what: what.into(), next: next.into() }
    }

    pub(super) fn problem(check: &'static str, it: Problem) -> Self {
        Self::bad(check, format!("{}: {}", it.at, it.what), it.fix)
    }

    pub(super) fn of_policy(rank: Rank, it: &PolicyProblem) -> Self {
        let Problem { at, what, fix } = Problem::from(it);
        Self { check: "policies", rank, what: format!("{at}: {what}"), next: fix }
    }

    /// For the table.
    pub(super) fn row(&self) -> Vec<String> {
        let state = match self.rank {
            Rank::Good => "ok",
            Rank::Note => "note",
            Rank::Problem => "PROBLEM",
        };
        let line = |text: &str| text.replace('\n', " ");
        vec![self.check.into(), state.into(), line(&self.what), line(&self.next)]
    }
}
