//! What a security team asks of a policy set: calls that nobody makes, judged by the code that judges real ones. Without a
//! store, and without effects.
//!
//! Reading order: `judge` (one question, one ruling), `case` (questions as people write them), `suite` (many of them, with
//! what is expected).

mod case;
mod given;
mod judge;
mod junit;
mod manage;
mod suite;
#[cfg(all(test, feature = "testing"))]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use self::case::{Asked, Case, Fault};
pub(crate) use self::given::ActorGiven;
pub(crate) use self::judge::{Judged, Question, Ruling, Word, judge};
pub(crate) use self::junit::junit;
pub(crate) use self::manage::{Deciding, ManageQuestion, may_decide};
pub(crate) use self::suite::{CaseResult, Coverage, Report, Suite, files as case_files, one as one_case};
use crate::Identity;
use crate::registry::Registry;

/// People and programs by the names that questions give them.
pub(crate) type Cast = BTreeMap<String, Identity>;

/// What the words of a question mean.
pub(crate) struct World {
    pub(crate) registry: Arc<Registry>,
    pub(crate) cast: Cast,
}
