//! What a security team asks of a policy set: calls that nobody makes, judged by the code that judges real ones. Without
//! effects, and but for what is on record without a store.
//!
//! Reading order: `judge` (one question, one ruling), `case` (questions as people write them), `suite` (many of them, with
//! what is expected), `invariants` (all calls at once), `explain` (why), `matrix` (before there
//! is input), `recorded` (questions that were asked for real), `change` (what another answer means), `diff` (two sets),
//! `trail` (what was asked for real, asked again), `backtest` (another set beside what was decided).

#[cfg(feature = "cli")]
mod backtest;
mod case;
#[cfg(feature = "cli")]
mod change;
#[cfg(feature = "cli")]
mod diff;
mod explain;
mod given;
#[cfg(feature = "prove")]
mod invariants;
mod judge;
#[cfg(feature = "cli")]
mod junit;
mod manage;
#[cfg(feature = "cli")]
mod matrix;
mod posed;
#[cfg(feature = "cli")]
mod recorded;
#[cfg(feature = "cli")]
mod suite;
#[cfg(test)]
#[cfg(feature = "cli")]
mod tests;
#[cfg(feature = "cli")]
mod trail;
#[cfg(feature = "cli")]
mod yaml;

use std::collections::BTreeMap;
use std::sync::Arc;

#[cfg(feature = "cli")]
pub(crate) use self::backtest::{Backtest, backtest};
pub(crate) use self::case::Asked;
#[cfg(feature = "cli")]
pub(crate) use self::change::{About, Change, Changes, Class, Side};
#[cfg(feature = "cli")]
pub(crate) use self::diff::{Diff, Pair};
pub(crate) use self::explain::explain;
#[cfg(feature = "cli")]
pub(crate) use self::explain::{Approving, life};
#[cfg(feature = "cli")]
pub(crate) use self::given::ActorGiven;
#[cfg(feature = "prove")]
pub(crate) use self::invariants::{Answer as Proved, Statements};
#[cfg(feature = "cli")]
pub(crate) use self::judge::{Question, Word};
#[cfg(feature = "cli")]
pub(crate) use self::junit::junit;
#[cfg(feature = "cli")]
pub(crate) use self::matrix::{Cell, matrix, of_capability as matrix_of};
pub(crate) use self::posed::QUESTION;
#[cfg(feature = "cli")]
pub(crate) use self::recorded::{Recorded, recorded};
#[cfg(feature = "cli")]
pub(crate) use self::suite::{CaseResult, Coverage, Report, Suite, one as one_case};
#[cfg(feature = "cli")]
pub(crate) use self::trail::{Missing, Replay, Replaying};
#[cfg(feature = "cli")]
pub(crate) use self::yaml::files;
use crate::Identity;
use crate::registry::Registry;

/// People and programs by the names that questions give them.
pub(crate) type Cast = BTreeMap<String, Identity>;

/// What the words of a question mean.
pub(crate) struct World {
    pub(crate) registry: Arc<Registry>,
    pub(crate) cast: Cast,
}
