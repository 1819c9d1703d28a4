//! `[process]` of the configuration.

use std::time::Duration;

use serde::Deserialize;

use crate::{Problem, duration};

/// How processes on one database know that another one is gone. Durations are texts like `30s` or `500ms`.
///
/// What a process that was killed left behind is settled after `lease` and `sweep` together at the latest; until then
/// its keys answer `IDEMPOTENCY_IN_PROGRESS`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ProcessSettings {
    /// How long a process that does not renew counts as alive (default 30 s, 3 s to 10 min; it renews six times as often).
    /// A process that is held up for longer, by a slow disk say, loses what it was about.
    #[serde(deserialize_with = "duration::text")]
    pub lease: Duration,
    /// How often it looks after what others left behind (default 5 s, 500 ms to 10 min).
    #[serde(deserialize_with = "duration::text")]
    pub sweep: Duration,
}

impl Default for ProcessSettings {
    fn default() -> Self {
        Self { lease: Duration::from_secs(30), sweep: Duration::from_secs(5) }
    }
}

impl ProcessSettings {
    /// Everything that no process can keep to.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let most = Duration::from_mins(10);
        let mut problems = Vec::new();
        if !(Duration::from_secs(3)..=most).contains(&self.lease) {
            problems.push(Problem::new("process.lease", "it is out of bounds", "choose 3s to 10m"));
        }
        if !(Duration::from_millis(500)..=most).contains(&self.sweep) {
            problems.push(Problem::new("process.sweep", "it is out of bounds", "choose 500ms to 10m"));
        }
        problems
    }
}
