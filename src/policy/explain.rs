//! What the workbench shows of a set: where its policies stand, and why they hold or not.

use super::PolicySet;
use super::rules::{Origin, Place, Rule};

impl PolicySet {
    /// Where a policy stands, if the set has it.
    pub(crate) fn place(&self, id: &str) -> Option<&Place> {
        self.rules.get(id).map(|it| &it.place)
    }

    /// Every policy that is written in a file, by id. Capabilities' own gates are not.
    pub(crate) fn written(&self) -> Vec<(&str, &Place)> {
        let in_file = |it: &&Rule| matches!(it.origin, Origin::File { .. });
        let mut all: Vec<_> = self.rules.values().filter(in_file).map(|it| (it.id.as_str(), &it.place)).collect();
        all.sort_unstable_by_key(|it| it.0);
        all
    }
}
