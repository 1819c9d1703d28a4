//! How an explanation looks: read from what it is for machines, so that it does not matter who explained.

use serde::Deserialize;

use super::super::super::exit::Exit;
use super::super::super::screen::{ERROR, FAINT, GOOD, STRONG, WARNING, facts, plain};
use super::super::told::{nearest, shown};
use crate::audit::Requirement;
use crate::outcome::Detail;
use crate::policy::{Nearest, Told};
use crate::workbench::{Approving, Word};
use crate::{ActorRef, Client, PolicyError, Surface};

/// Which call was asked about.
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    capability: String,
    #[serde(default)]
    actor: Option<ActorRef>,
    tenant: String,
    surface: Surface,
    #[serde(default)]
    client: Option<Client>,
}

/// What was found out.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explained {
    outcome: Outcome,
    #[serde(default)]
    reasons: Vec<String>,
    #[serde(default)]
    errors: Vec<PolicyError>,
    #[serde(default)]
    details: Vec<Detail>,
    #[serde(default)]
    requirements: Vec<Requirement>,
    #[serde(default)]
    decisive: Vec<Told>,
    #[serde(default)]
    nearest: Option<Nearest>,
    #[serde(default)]
    approvals: Vec<Approving>,
    #[serde(default)]
    when_approved: Option<String>,
}

/// [`Word::as_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Allow,
    Approval,
    Deny,
    Hidden,
    Unexposed,
    Invalid,
    Failed,
}

impl Asked {
    pub(super) fn text(&self, explained: &Explained) -> String {
        let actor = self.actor.as_ref().map(|it| format!("{} ({})", it.id, it.kind.as_str())).unwrap_or_default();
        let client = self.client.as_ref().map(|it| format!(", carried by {}", it.0)).unwrap_or_default();
        let about = format!("{actor} of {} over {}{client}", self.tenant, self.surface.as_str());
        let (headline, capability) = (explained.headline(), plain(&self.capability));
        format!("{headline}: {STRONG}{capability}{STRONG:#} for {}\n", plain(&about))
    }
}

impl Explained {
    pub(super) fn word(&self) -> Word {
        match self.outcome {
            Outcome::Allow => Word::Allow,
            Outcome::Approval => Word::Approval(self.requirements.iter().map(|it| it.kind.clone()).collect()),
            Outcome::Deny => Word::Deny,
            Outcome::Hidden => Word::Hidden,
            Outcome::Unexposed => Word::Unexposed,
            Outcome::Invalid => Word::Invalid,
            Outcome::Failed => Word::Failed,
        }
    }

    /// The word, with what is behind it.
    pub(super) fn headline(&self) -> String {
        let style = match self.outcome {
            Outcome::Allow => GOOD,
            Outcome::Approval => WARNING,
            Outcome::Deny | Outcome::Hidden | Outcome::Unexposed | Outcome::Invalid | Outcome::Failed => ERROR,
        };
        let problem = |it: &Detail| match it {
            Detail::Input { path, keyword, .. } => format!("{} {keyword}", if path.is_empty() { "/" } else { path }),
            Detail::Code { .. } | Detail::Execution { .. } => String::new(),
        };
        let errors = self.errors.iter().map(|it| format!("{}: {}", it.policy, it.kind));
        let behind: Vec<_> = self.details.iter().map(problem).chain(errors).collect();
        let behind = if behind.is_empty() { String::new() } else { format!(" ({})", behind.join(", ")) };
        format!("{style}{}{style:#}", plain(&format!("{}{behind}", self.word())))
    }

    /// Reasons, policies, and what would have to change.
    pub(super) fn whole(&self) -> String {
        let mut text = String::new();
        text.extend(self.reasons.iter().map(|it| format!("  {}\n", plain(it))));
        text.extend(self.told_shortly().map(|why| format!("  {FAINT}{why}{FAINT:#}\n")));
        text.extend(self.decisive.iter().map(shown));
        text.extend(self.nearest.as_ref().map(nearest));
        let approved = self.when_approved.iter();
        text.extend(approved.map(|it| format!("\n{STRONG}with approval{STRONG:#}: {}\n", plain(it))));
        text.extend(self.approvals.iter().map(approving));
        text
    }

    /// What the word alone does not say.
    fn told_shortly(&self) -> Option<&'static str> {
        match self.outcome {
            Outcome::Hidden => Some("a policy conceals it: to the caller it does not exist"),
            Outcome::Unexposed => Some("the capability does not list this surface: to the caller it does not exist"),
            Outcome::Failed => Some("a policy could not be evaluated, so the call is denied"),
            Outcome::Deny if self.decisive.iter().any(|it| it.gate.is_some()) => {
                Some("nobody in particular can wait for an approval, so a gate denies")
            }
            Outcome::Allow | Outcome::Approval | Outcome::Deny | Outcome::Invalid => None,
        }
    }
}

fn approving(it: &Approving) -> String {
    let names = |may: bool| {
        let people = it.people.iter().filter(|it| it.may == may);
        people.map(|it| format!("{}: {}", it.name, it.why)).collect::<Vec<_>>().join("\n")
    };
    let none = |it: String| if it.is_empty() { "nobody of these people".into() } else { it };
    let rule = |it: &Told| format!("{} {} ({})", it.effect, it.id, it.place);
    let policies: Vec<_> = it.policies.iter().map(rule).collect();
    let quorum = it.requirement.quorum;
    let people = if quorum == 1 { "1 person".into() } else { format!("{quorum} people") };
    let mut rows = vec![("needs", people), ("could approve", none(names(true)))];
    rows.push(("could not", none(names(false))));
    rows.push(("by", policies.join("\n")));
    format!("{STRONG}{}{STRONG:#}\n{}", plain(&it.requirement.kind), facts(&rows))
}

/// As the call itself would end.
pub(super) fn exit(word: &Word) -> Exit {
    match word {
        Word::Allow => Exit::Done,
        Word::Approval(_) => Exit::Waiting,
        Word::Invalid => Exit::Invalid,
        Word::Deny | Word::Hidden | Word::Unexposed | Word::Failed => Exit::Denied,
    }
}
