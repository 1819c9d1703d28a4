//! How the tree and its anchors are doing, for whoever watches the process.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What an operator must know of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogHealth {
    /// How many events there are.
    pub events: u64,
    /// How many of them are in the tree.
    pub in_tree: u64,
    /// How many of them the last checkpoint covers; 0 if there is none.
    pub signed: u64,
    /// Why nothing is signed or taken into the tree now.
    pub refusal: Option<String>,
    /// Anchors that do not take checkpoints now, each with why. Addresses may be in it, secrets are not.
    pub anchors: BTreeMap<String, String>,
}

#[cfg(feature = "http")]
impl LogHealth {
    /// What an operator should look into, in words of a closed set that anybody may know, called like the metrics.
    pub(crate) fn warnings(&self) -> Vec<&'static str> {
        let warnings = [("log_refused", self.refusal.is_some()), ("log_anchors_failing", !self.anchors.is_empty())];
        warnings.into_iter().filter(|(_, holds)| *holds).map(|(word, _)| word).collect()
    }
}

#[derive(Debug, Default)]
pub(super) struct Health(Mutex<LogHealth>);

impl Health {
    pub(super) fn snapshot(&self) -> LogHealth {
        self.with(|it| it.clone())
    }

    pub(super) fn grown(&self, events: u64, in_tree: u64) {
        self.with(|it| (it.events, it.in_tree) = (events, in_tree));
    }

    pub(super) fn signed(&self, size: u64) {
        self.with(|it| it.signed = size);
    }

    /// Whether that is another refusal than before.
    pub(super) fn refuse(&self, cause: Option<String>) -> bool {
        self.with(|it| {
            let is_new = it.refusal != cause;
            it.refusal = cause;
            is_new
        })
    }

    /// Whether that is another state of this anchor than before.
    pub(super) fn anchored(&self, name: &str, failure: Option<String>) -> bool {
        self.with(|it| match failure {
            Some(failure) => it.anchors.insert(name.to_owned(), failure.clone()) != Some(failure),
            None => it.anchors.remove(name).is_some(),
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut LogHealth) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
