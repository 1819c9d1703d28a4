//! What a security team asks of a policy set: calls that nobody makes, judged by the code that judges real ones. Without
//! effects, and but for what is on record without a store.
//!
//! Reading order: `judge` (one question, one ruling), `case` (questions as people write them), `suite` (many of them, with
//! what is expected), `invariants` (all calls at once), `explain` (why), `matrix` (before there
//! is input), `recorded` (questions that were asked for real), `change` (what another answer means), `diff` (two sets),
//! `trail` (what was asked for real, asked again), `backtest` (another set beside what was decided).

mod backtest;
mod case;
mod change;
mod diff;
mod explain;
mod given;
#[cfg(feature = "prove")]
mod invariants;
mod judge;
mod junit;
mod manage;
mod matrix;
mod recorded;
mod suite;
#[cfg(test)]
mod tests;
mod trail;
mod yaml;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use self::backtest::{Backtest, backtest};
pub(crate) use self::case::Asked;
pub(crate) use self::change::{About, Change, Changes, Class, Side};
pub(crate) use self::diff::{Diff, Pair};
pub(crate) use self::explain::{Approving, Explanation, explain, life};
pub(crate) use self::given::ActorGiven;
#[cfg(feature = "prove")]
pub(crate) use self::invariants::{Answer as Proved, Statements};
pub(crate) use self::judge::{Question, Word};
pub(crate) use self::junit::junit;
pub(crate) use self::matrix::{Cell, matrix, of_capability as matrix_of};
pub(crate) use self::recorded::{Recorded, recorded};
pub(crate) use self::suite::{CaseResult, Coverage, Report, Suite, one as one_case};
pub(crate) use self::trail::{Missing, Replay, Replaying};
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
