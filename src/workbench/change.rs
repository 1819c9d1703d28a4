//! What it means for whoever asks that one question gets another answer: more comes through, or less, or it takes other
//! approvals, or a refusal looks otherwise.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::explain::life;
use super::judge::{Ruling, Word};
use super::matrix::text;
use super::recorded::Recorded;
use crate::CapabilityId;
use crate::actor::Surface;
use crate::audit::{PolicyRef, Requirement};
use crate::clock::Timestamp;
use crate::policy::{Decision, Forecast, Gates, Outlook};

/// How many changes are listed. All are counted.
const LISTED: usize = 1_000;

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Class {
    /// More comes through, or with fewer approvals.
    Widening,
    /// Less comes through, or with more approvals.
    Narrowing,
    /// Other approvals, neither fewer nor more; or requests live longer or shorter.
    Gate,
    /// What was denied is hidden, or what was hidden is denied.
    Visibility,
    /// Refused before and after, for another kind of reason.
    Refusal,
    /// It depends on the input, and the policies behind it are others. Only calls can tell.
    Unclear,
}

impl Class {
    /// What it is the other way round.
    pub(super) fn turned(self) -> Self {
        match self {
            Self::Widening => Self::Narrowing,
            Self::Narrowing => Self::Widening,
            Self::Gate | Self::Visibility | Self::Refusal | Self::Unclear => self,
        }
    }

    /// The word alone.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Widening => "widening",
            Self::Narrowing => "narrowing",
            Self::Gate => "gate",
            Self::Visibility => "visibility",
            Self::Refusal => "refusal",
            Self::Unclear => "unclear",
        }
    }
}

/// One question with two answers.
#[derive(Debug, Serialize)]
pub(crate) struct Change {
    pub(crate) class: Class,
    #[serde(flatten)]
    pub(crate) about: About,
    pub(crate) before: Side,
    pub(crate) after: Side,
    /// Only if somebody asked to see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<Value>,
}

/// Which question.
#[derive(Debug, Serialize)]
#[serde(tag = "source", rename_all = "camelCase")]
pub(crate) enum About {
    Case { file: String, line: u64, name: String },
    Matrix { surface: Surface, capability: CapabilityId, actor: String },
    Trail { execution: String, at: Timestamp, capability: CapabilityId, actor: String, exact: bool },
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Side {
    pub(crate) outcome: String,
    /// The policies that make it so, by id.
    pub(crate) policies: Vec<String>,
}

impl Side {
    pub(super) fn new(outcome: String, policies: &[PolicyRef]) -> Self {
        Self { outcome, policies: policies.iter().map(|it| it.id.clone()).collect() }
    }

    pub(super) fn of(ruling: &Ruling) -> Self {
        Self::new(Standing::of(ruling).to_string(), ruling.policies())
    }

    pub(super) fn foretold(forecast: &Forecast) -> Self {
        let outcome = match &forecast.gates {
            Some(gates) => Standing::Gated(Gated::from(gates)).to_string(),
            None => text(&forecast.outlook),
        };
        Self::new(outcome, &forecast.policies)
    }
}

/// Changes: all counted, the first ones listed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) listed: Vec<Change>,
    pub(crate) counts: BTreeMap<Class, usize>,
    /// The policies behind all of them.
    pub(super) policies: BTreeSet<String>,
}

impl Changes {
    pub(super) fn push(&mut self, change: Change) {
        *self.counts.entry(change.class).or_default() += 1;
        let behind = change.before.policies.iter().chain(&change.after.policies);
        self.policies.extend(behind.cloned());
        if self.listed.len() < LISTED {
            self.listed.push(change);
        }
    }

    /// How many there are, listed or not.
    pub(crate) fn count(&self) -> usize {
        self.counts.values().sum()
    }
}

/// An answer, as far as it matters to whoever asks.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Standing {
    Allowed,
    Gated(Gated),
    Refused {
        word: &'static str,
        /// `None`: nobody knows.
        concealed: Option<bool>,
    },
}

/// What lifts the gates.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Gated {
    /// Type -> how many people.
    people: BTreeMap<String, u32>,
    /// How long a request lives; `None` if that is not known.
    seconds: Option<u64>,
}

impl From<&Gates> for Gated {
    fn from(gates: &Gates) -> Self {
        Self::new(&gates.requirements, Some(gates.expires_in.as_secs()))
    }
}

impl Gated {
    fn new(requirements: &[Requirement], seconds: Option<u64>) -> Self {
        Self { people: requirements.iter().map(|it| (it.kind.clone(), it.quorum)).collect(), seconds }
    }

    /// Whether whoever satisfies `other` satisfies these.
    fn is_within(&self, other: &Self) -> bool {
        self.people.iter().all(|(kind, people)| other.people.get(kind).is_some_and(|it| it >= people))
    }

    fn change_to(&self, after: &Self) -> Option<Class> {
        let life = match (self.seconds, after.seconds) {
            (Some(before), Some(after)) => after.cmp(&before),
            _ => Ordering::Equal,
        };
        match (after.is_within(self), self.is_within(after), life) {
            (true, true, Ordering::Equal) => None,
            (true, false, Ordering::Equal | Ordering::Greater) => Some(Class::Widening),
            (false, true, Ordering::Equal | Ordering::Less) => Some(Class::Narrowing),
            _ => Some(Class::Gate),
        }
    }
}

impl Standing {
    pub(super) fn of(ruling: &Ruling) -> Self {
        let word = ruling.word().as_str();
        match ruling {
            Ruling::Concealed(_) => Self::Refused { word, concealed: Some(true) },
            Ruling::Decided(Decision::Allow { .. }) => Self::Allowed,
            Ruling::Decided(Decision::RequireApproval(gates)) => Self::Gated(Gated::from(gates)),
            Ruling::Invalid(_) | Ruling::Decided(Decision::Deny { .. } | Decision::Failed(_)) => {
                Self::Refused { word, concealed: Some(false) }
            }
        }
    }

    /// What is on record. How long a request was to live is not: the one that is named may have been filed before.
    pub(super) fn on_record(record: &Recorded) -> Option<Self> {
        Some(match record.word.as_ref()? {
            Word::Allow => Self::Allowed,
            Word::Approval(_) => Self::Gated(Gated::new(&record.requirements, None)),
            word @ (Word::Deny | Word::Hidden | Word::Unexposed | Word::Invalid | Word::Failed) => {
                Self::Refused { word: word.as_str(), concealed: Some(record.concealed) }
            }
        })
    }

    /// What an outlook says of every input, if it says the same of all.
    pub(super) fn certain(outlook: &Outlook) -> Option<Self> {
        let refused = |word, concealed| Some(Self::Refused { word, concealed });
        match outlook {
            Outlook::Allow => Some(Self::Allowed),
            Outlook::Deny => refused("deny", Some(false)),
            Outlook::Hidden => refused("hidden", Some(true)),
            Outlook::Unexposed => refused("unexposed", Some(true)),
            Outlook::Failed => refused("failed", None),
            Outlook::Approval(_) | Outlook::Sometimes(_) => None,
        }
    }

    /// `None`: whoever asks does not notice.
    pub(super) fn change_to(&self, after: &Self) -> Option<Class> {
        match (self, after) {
            (Self::Refused { word, concealed }, Self::Refused { word: other, concealed: other_concealed }) => {
                match (concealed, other_concealed) {
                    (Some(one), Some(other)) if one != other => Some(Class::Visibility),
                    _ if word == other => None,
                    _ => Some(Class::Refusal),
                }
            }
            (Self::Gated(before), Self::Gated(after)) => before.change_to(after),
            (Self::Allowed, Self::Allowed) => None,
            (Self::Refused { .. }, _) | (Self::Gated(_), Self::Allowed) => Some(Class::Widening),
            (_, Self::Refused { .. }) | (Self::Allowed, Self::Gated(_)) => Some(Class::Narrowing),
        }
    }
}

/// As [`Ruling`], with what lifts the gates.
impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Gated(Gated { people, seconds }) = self else {
            return f.write_str(match self {
                Self::Refused { word, .. } => word,
                Self::Allowed | Self::Gated(_) => "allow",
            });
        };
        let kind = |(kind, people): (&String, &u32)| {
            if *people == 1 { kind.clone() } else { format!("{kind} by {people}") }
        };
        let kinds: Vec<_> = people.iter().map(kind).collect();
        let within = seconds.map(|it| format!(", within {}", life(it))).unwrap_or_default();
        write!(f, "approval ({}{within})", kinds.join(", "))
    }
}

/// What is certain of one call between a known answer and an outlook that depends on its input. `presented`: whether it
/// came with an approval, which may lift what is foretold.
pub(super) fn surely(before: &Standing, after: &Outlook, presented: bool) -> Option<Class> {
    match (before, after) {
        (Standing::Refused { concealed: Some(true), .. }, Outlook::Approval(_) | Outlook::Sometimes(_)) => {
            Some(Class::Visibility)
        }
        (Standing::Allowed, Outlook::Approval(_)) if !presented => Some(Class::Narrowing),
        _ => None,
    }
}

/// What changes before there is input. Between outlooks that depend on it, what could come through is what counts.
pub(super) fn of_forecasts(before: &Forecast, after: &Forecast) -> Option<Class> {
    let is_open = |it: &Outlook| matches!(it, Outlook::Allow | Outlook::Approval(_) | Outlook::Sometimes(_));
    if let (Some(before), Some(after)) = (&before.gates, &after.gates) {
        return Gated::from(before).change_to(&Gated::from(after));
    }
    match (&before.outlook, &after.outlook) {
        (before, after) if before == after => None,
        (before, after) if !is_open(before) && !is_open(after) => {
            Standing::certain(before)?.change_to(&Standing::certain(after)?)
        }
        (before, _) if !is_open(before) => Some(Class::Widening),
        (_, after) if !is_open(after) => Some(Class::Narrowing),
        (Outlook::Sometimes(_), Outlook::Sometimes(_)) => Some(Class::Gate),
        (Outlook::Allow, _) | (Outlook::Sometimes(_), Outlook::Approval(_)) => Some(Class::Narrowing),
        _ => Some(Class::Widening),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gated(people: &[(&str, u32)], seconds: u64) -> Standing {
        let people = people.iter().map(|(kind, people)| ((*kind).to_owned(), *people)).collect();
        Standing::Gated(Gated { people, seconds: Some(seconds) })
    }

    fn refused(word: &'static str, concealed: bool) -> Standing {
        Standing::Refused { word, concealed: Some(concealed) }
    }

    /// Every answer against every other one: the row is before, the column after.
    #[test]
    fn what_a_change_does_depends_on_both_answers() {
        let all = [
            Standing::Allowed,
            gated(&[("m", 1)], 60),
            gated(&[("m", 2)], 60),
            gated(&[("f", 1), ("m", 1)], 60),
            gated(&[("f", 1)], 60),
            gated(&[("m", 1)], 3_600),
            refused("deny", false),
            refused("failed", false),
            refused("hidden", true),
            refused("failed", true),
        ];
        let word = |it: Option<Class>| it.map_or("-", Class::as_str);
        let row = |before: &Standing| {
            let cells: Vec<_> = all.iter().map(|after| format!("{:11}", word(before.change_to(after)))).collect();
            format!("{:32}{}", before.to_string(), cells.concat()).trim_end().to_owned()
        };
        let rows: Vec<_> = all.iter().map(row).collect();
        insta::assert_snapshot!(rows.join("\n"));
        for (one, two) in all.iter().flat_map(|one| all.iter().map(move |two| (one, two))) {
            assert_eq!(two.change_to(one), one.change_to(two).map(Class::turned), "{one} and {two}");
        }
    }

    #[test]
    fn what_changes_without_input_is_what_could_come_through() {
        let types = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let of = |outlook| Forecast { outlook, gates: None, policies: Vec::new(), errors: Vec::new() };
        let gated = |all: &[(&str, u32)]| {
            let requirements = all.iter().map(|(kind, quorum)| Requirement { kind: (*kind).into(), quorum: *quorum });
            let gates = Gates {
                requirements: requirements.collect(),
                expires_in: std::time::Duration::from_mins(1),
                reasons: Vec::new(),
                policies: Vec::new(),
            };
            let kinds: Vec<&str> = all.iter().map(|it| it.0).collect();
            Forecast { gates: Some(gates), ..of(Outlook::Approval(types(&kinds))) }
        };
        let all = [
            of(Outlook::Allow),
            gated(&[("m", 1)]),
            gated(&[("m", 2)]),
            gated(&[("f", 1), ("m", 1)]),
            of(Outlook::Sometimes(types(&[]))),
            of(Outlook::Sometimes(types(&["m"]))),
            of(Outlook::Deny),
            of(Outlook::Hidden),
            of(Outlook::Failed),
        ];
        let word = |it: Option<Class>| it.map_or("-", Class::as_str);
        let row = |before: &Forecast| {
            let cells: Vec<_> = all.iter().map(|after| format!("{:11}", word(of_forecasts(before, after)))).collect();
            format!("{:32}{}", Side::foretold(before).outcome, cells.concat()).trim_end().to_owned()
        };
        let rows: Vec<_> = all.iter().map(row).collect();
        insta::assert_snapshot!(rows.join("\n"));
    }

    #[test]
    fn all_changes_are_counted_and_the_first_ones_listed() {
        let mut changes = Changes::default();
        for at in 0..=LISTED {
            let side = |policy: String| Side { outcome: "deny".into(), policies: vec![policy] };
            let about = About::Case { file: "a.yaml".into(), line: 1, name: at.to_string() };
            let (before, after) = (side(String::from("old")), side(at.to_string()));
            changes.push(Change { class: Class::Refusal, about, before, after, input: None });
        }
        assert_eq!((changes.count(), changes.listed.len(), changes.policies.len()), (LISTED + 1, LISTED, LISTED + 2));
    }
}
