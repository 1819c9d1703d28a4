//! What the data of events is made of.

use serde::{Deserialize, Serialize};

use crate::ApprovalId;
use crate::actor::{ActorKind, Identity};

/// An actor as events name it: attributes never.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ActorRef {
    /// The actor's id.
    pub id: String,
    /// Who vouched for the id, if somebody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The actor's kind.
    pub kind: ActorKind,
}

impl From<&crate::Actor> for ActorRef {
    fn from(actor: &crate::Actor) -> Self {
        Self { issuer: actor.issuer.clone(), id: actor.id.clone(), kind: actor.kind }
    }
}

/// Whether the effect took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "plain words")]
pub enum Executed {
    Yes,
    No,
    Unknown,
}

/// Why a call was refused, for the record. Outside, the first three look the same (INV-7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "document 3 is the table")]
pub enum DenialReason {
    Unknown,
    NotExposed,
    Hidden,
    PolicyDenied,
    PolicyFailed,
}

/// A policy that took part in a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRef {
    /// `permit`, `forbid`, `gate` or `hide`.
    pub effect: String,
    /// Its `@id`.
    pub id: String,
}

/// A policy that could not be evaluated. Never Cedar's own text, which carries input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyError {
    /// The variant of the error, `integer_overflow`.
    pub kind: String,
    /// Its `@id`.
    pub policy: String,
}

impl PolicyError {
    /// By policy, then by kind: Cedar gives them in no order.
    pub(crate) fn sort(errors: &mut [Self]) {
        errors.sort_by(|one, two| (&one.policy, &one.kind).cmp(&(&two.policy, &two.kind)));
    }
}

/// How many people must approve, by type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Requirement {
    /// How many distinct people, 1..=16.
    pub quorum: u32,
    /// The approval's type, `manager`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A person who decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ApproverRef {
    /// The approver's id.
    pub id: String,
    /// Who vouched for the id, `cli:<os user>` on the command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The approver's kind.
    pub kind: ActorKind,
}

impl ApproverRef {
    /// Who that was, as far as it is on record.
    pub(crate) fn identity(&self) -> Identity {
        let actor = crate::Actor::new(self.kind, self.id.clone());
        Identity::new(match &self.issuer {
            Some(issuer) => actor.issuer(issuer.clone()),
            None => actor,
        })
    }
}

/// One decision about an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionData {
    /// Which approval.
    pub approval_id: ApprovalId,
    /// Who decided.
    pub approver: ApproverRef,
    /// The salted digest of the comment, if there was one. Its text is in an erasable side table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// How many distinct people approved this type, with this decision.
    pub have: u32,
    /// How many are needed.
    pub need: u32,
    /// The type that was decided.
    #[serde(rename = "type")]
    pub kind: String,
    /// How the decision came in: a surface, `cli` or `inline`.
    pub via: String,
}

/// Who settled an execution after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "document 3 is the table")]
pub enum ReconciledBy {
    LateFinish,
    Hook,
    Operator,
}

/// What an execution was settled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "plain words")]
pub enum ReconciledTo {
    Completed,
    Failed,
    NotExecuted,
}
