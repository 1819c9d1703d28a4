//! What is governed, as a file that belongs into version control, and what each difference between two such files means:
//! a pull request that changes governance by accident fails.
//!
//! [`Governance`] is the file, [`Governance::since`] compares two, [`Drift`] says what came of it. The command line makes
//! and checks it (`countersign capabilities snapshot|check`), and so does the test kit (`testing::drift`).

mod capability;
mod policy;
mod report;
mod schema;
mod survey;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::survey::CapabilityRecord;
use crate::policy::{Outline, PolicySet};
use crate::registry::Registry;

/// What the first line of the file says.
const FORMAT: &str = "countersign/governance/v1";

/// Everything that is governed: capabilities and policies, without code. The same application has the same text on
/// every machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Governance(File);

/// As it is written. A member more is another format, so that nothing is left unread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    format: String,
    /// By id.
    capabilities: Vec<CapabilityRecord>,
    /// By id. Gates that capabilities declare are theirs.
    policies: Vec<Outline>,
    /// Of the types that policies see: it follows the capabilities, and the application's own `schema.cedarschema`.
    policy_schema: String,
}

/// Why a text is no snapshot.
#[derive(Debug, thiserror::Error)]
#[error("the snapshot cannot be read: {0}")]
pub struct Unreadable(String);

impl Governance {
    /// # Errors
    /// A fault of the engine: a policy that loaded cannot be taken apart.
    pub(crate) fn of(registry: &Registry, set: &PolicySet) -> Result<Self, String> {
        let mut capabilities: Vec<_> = registry.all().iter().map(|it| CapabilityRecord::of(it)).collect();
        capabilities.sort_by(|one, two| one.id.cmp(&two.id));
        let policy_schema = crate::canonical::sha256(&[set.schema_text()]);
        Ok(Self(File { format: FORMAT.into(), capabilities, policies: set.outline()?, policy_schema }))
    }

    /// Reads what [`Self::text`] wrote.
    ///
    /// # Errors
    /// If it is something else, another version's format, or names something twice.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        let file: File = serde_json::from_str(text).map_err(|error| Unreadable(error.to_string()))?;
        if file.format != FORMAT {
            return Err(Unreadable(format!("its format is not `{FORMAT}`")));
        }
        let capabilities = file.capabilities.iter().map(|it| &*it.id);
        let policies = file.policies.iter().map(|it| &*it.id);
        if let Some(id) = twice(capabilities).or_else(|| twice(policies)) {
            return Err(Unreadable(format!("`{id}` is there twice")));
        }
        Ok(Self(file))
    }

    /// JSON, with a line for each fact, so that a review sees which changed. Ends with a line feed.
    pub fn text(&self) -> String {
        // Plain data serialises; and an empty file would be no snapshot, which is reported.
        serde_json::to_string_pretty(&self.0).unwrap_or_default() + "\n"
    }

    /// What is other than `before`, and what that means.
    pub fn since(&self, before: &Self) -> Drift {
        let mut differences = Vec::new();
        let (before, after) = (&before.0, &self.0);
        let ids = capability::compare(&before.capabilities, &after.capabilities, &mut differences);
        policy::compare((&before.policies, &after.policies), &ids, &mut differences);
        if before.policy_schema != after.policy_schema && before.capabilities == after.capabilities {
            let says = "the types that policies see are others: the application's own schema, or the engine's";
            differences.push(Difference::new(Class::Review, Subject::Types, "policySchema", says));
        }
        differences.sort_by(|one, two| (one.class, &one.subject).cmp(&(two.class, &two.subject))); // stable
        Drift { differences, capabilities: after.capabilities.len(), policies: after.policies.len() }
    }
}

/// A name that comes twice.
fn twice<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = std::collections::BTreeSet::new();
    names.find(|it| !seen.insert(*it))
}

/// What a difference means for what agents can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Class {
    /// More can come through, with fewer approvals, or more of it is seen. So is whatever takes a guard away.
    Widening,
    /// It may be either: only somebody who reads it can tell.
    Review,
    /// Less can come through, with more approvals, or less of it is seen.
    Narrowing,
    /// Nothing of that.
    Neutral,
}

impl Class {
    /// Every class, the one to look at first coming first.
    pub const ALL: [Self; 4] = [Self::Widening, Self::Review, Self::Narrowing, Self::Neutral];

    /// The word alone.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Widening => "widening",
            Self::Review => "review",
            Self::Narrowing => "narrowing",
            Self::Neutral => "neutral",
        }
    }

    /// Widening, or the other way.
    fn widens(it: bool) -> Self {
        if it { Self::Widening } else { Self::Narrowing }
    }
}

/// What a difference is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Subject {
    /// A capability, by its id.
    Capability(String),
    /// A policy, by its id.
    Policy(String),
    /// The types that policies see.
    Types,
}

/// One thing that is otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// What it means.
    pub class: Class,
    /// What it is about.
    pub subject: Subject,
    /// The member of the snapshot that differs; `added` and `removed` for the whole.
    pub what: &'static str,
    /// One sentence, without a full stop.
    pub says: String,
}

impl Difference {
    fn new(class: Class, subject: Subject, what: &'static str, says: impl Into<String>) -> Self {
        Self { class, subject, what, says: says.into() }
    }
}

/// Everything that is otherwise, what widens coming first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Drift {
    /// None: both are the same.
    pub differences: Vec<Difference>,
    /// How many capabilities there are now.
    pub capabilities: usize,
    /// How many policies there are now.
    pub policies: usize,
}

impl Drift {
    /// Whether nothing is otherwise.
    pub fn is_none(&self) -> bool {
        self.differences.is_empty()
    }

    /// How many differences there are of each class.
    pub fn counts(&self) -> BTreeMap<Class, usize> {
        let mut counts = BTreeMap::new();
        for difference in &self.differences {
            *counts.entry(difference.class).or_default() += 1;
        }
        counts
    }
}
