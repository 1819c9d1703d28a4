//! What the files of a set say, whatever their layout and whatever the capabilities: by it two sets are compared.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::extend;
use super::hash::{line, ordered};
use super::rules::{Origin, Rule};
use crate::audit::{MAX_NAMED, PolicyChanges, hex};

/// The policies of a set's files, each by the digest of what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    policies: BTreeMap<String, String>,
    digest: String,
}

/// The policies that two sets do not share, by id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Differences {
    pub(crate) added: Vec<String>,
    pub(crate) removed: Vec<String>,
    /// They say something else than before.
    pub(crate) changed: Vec<String>,
}

impl Differences {
    fn of(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Self {
        let other = |one: &BTreeMap<String, String>, two: &BTreeMap<String, String>| {
            one.keys().filter(|it| !two.contains_key(*it)).cloned().collect()
        };
        let differs = |(id, says): &(&String, &String)| before.get(*id).is_some_and(|it| it != *says);
        let changed = after.iter().filter(differs).map(|it| it.0.clone()).collect();
        Self { added: other(after, before), removed: other(before, after), changed }
    }

    /// All of them.
    #[cfg(feature = "cli")]
    pub(crate) fn all(&self) -> impl Iterator<Item = &String> {
        self.added.iter().chain(&self.removed).chain(&self.changed)
    }

    /// Whether this policy is one of them.
    #[cfg(feature = "cli")]
    pub(crate) fn has(&self, id: &str) -> bool {
        self.all().any(|it| it == id)
    }
}

impl Said {
    /// Gates that come from capabilities are in no file.
    pub(super) fn of(rules: &[Rule], texts: &[(String, String)]) -> Result<Self, String> {
        let mut policies = BTreeMap::new();
        for rule in rules.iter().filter(|it| it.origin != Origin::Capability) {
            policies.insert(rule.id.clone(), hex(&Sha256::digest(line(rule)?)));
        }
        let mut digest = Sha256::new();
        let extension = texts.iter().find(|it| it.0 == extend::FILE);
        let extension = extension
            .map(|(_, text)| extend::declared(text).map_or_else(|| text.clone(), |it| ordered(&it)))
            .unwrap_or_default();
        digest.update(format!("countersign/said/v1\n{}\n{extension}", extension.len()));
        for says in policies.values() {
            digest.update(says);
        }
        Ok(Self { policies, digest: hex(&digest.finalize()) })
    }

    /// Of the whole: equal for files that differ in layout and comments only.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Every policy that is other than `before`.
    #[cfg(feature = "cli")]
    pub(crate) fn differences(&self, before: &Self) -> Differences {
        Differences::of(&before.policies, &self.policies)
    }

    /// What is other than `before`, as far as an event has room for it; everything, if there was nothing before.
    pub(crate) fn since(&self, before: Option<&Self>) -> PolicyChanges {
        let nothing = BTreeMap::new();
        let before = before.map_or(&nothing, |it| &it.policies);
        let Differences { mut added, mut removed, mut changed } = Differences::of(before, &self.policies);
        let mut more = 0;
        for ids in [&mut added, &mut removed, &mut changed] {
            more += ids.len().saturating_sub(MAX_NAMED);
            ids.truncate(MAX_NAMED);
        }
        PolicyChanges { added, changed, more, removed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::rules;

    fn of(text: &str) -> Said {
        Said::of(&rules(text), &[]).unwrap()
    }

    #[test]
    fn two_sets_differ_by_policies_and_not_by_layout() {
        let one =
            of("@id(\"a\") permit (principal, action, resource); @id(\"b\") forbid (principal, action, resource);");
        let other =
            of("// c\n@id(\"b\")\nforbid(principal,action,resource);@id(\"a\")permit(principal,action,resource);");
        assert_eq!(one, other);
        assert_eq!(one.since(Some(&other)), PolicyChanges::default());
        let third =
            of("@id(\"b\") permit (principal, action, resource); @id(\"c\") forbid (principal, action, resource);");
        let named = |it: &str| vec![it.to_owned()];
        let changes = PolicyChanges { added: named("c"), removed: named("a"), changed: named("b"), more: 0 };
        assert_eq!(third.since(Some(&one)), changes);
        assert_ne!(third.digest(), one.digest());
        let extended = |text: &str| Said::of(&[], &[(extend::FILE.into(), text.into())]).unwrap();
        assert_ne!(one.digest(), extended("entity Order;").digest());
        assert_ne!(extended("entity Order;"), extended("entity Order = { total: Long };"));
        let (one, other) = ("entity Order; entity Desk;", "// c\nentity Desk;\n\nentity   Order; // d\n");
        assert_eq!(extended(one), extended(other));
    }

    #[test]
    fn an_event_has_room_for_what_is_named_whatever_the_ids_are() {
        let many = |says: &str, from: usize| {
            let one = |n: usize| format!("@id(\"{n:03}{}\") {says} (principal, action, resource);", "\\\"".repeat(197));
            (from..from + 40).map(one).collect::<String>()
        };
        let changes = of(&many("permit", 20)).since(Some(&of(&many("forbid", 0))));
        assert_eq!(
            (changes.added.len(), changes.removed.len(), changes.changed.len()),
            (MAX_NAMED, MAX_NAMED, MAX_NAMED)
        );
        assert_eq!(changes.more, 8 + 8 + 8);
        assert!(serde_json::to_string(&changes).unwrap().len() < crate::audit::MAX_EVENT_BYTES - 1024);
    }
}
