//! Approvals: what is bound, what is stored, and what people see.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::actor::{Identity, Surface};
use crate::audit::{ApproverRef, Requirement, canonical, hex};
use crate::capability::{Risk, SideEffect};
use crate::clock::Timestamp;
use crate::{ApprovalId, CapabilityId, ExecutionId, IdempotencyKey};

/// Where an approval stands. Only the first two are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "document 5 draws the transitions")]
pub enum ApprovalState {
    Pending,
    Approved,
    Rejected,
    Expired,
    Withdrawn,
    Consumed,
}

impl ApprovalState {
    /// The name in the store and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
            Self::Consumed => "consumed",
        }
    }

    /// Reads [`Self::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Approved, Self::Rejected, Self::Expired, Self::Withdrawn, Self::Consumed]
            .into_iter()
            .find(|it| it.as_str() == text)
    }
}

/// Approve or reject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "plain words")]
pub enum Verdict {
    Approve,
    Reject,
}

impl Verdict {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
        }
    }
}

/// Everything that a decision binds (APR-1). Its canonical text is stored, and hashed again when deciding and running.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Binding {
    pub(crate) approval_id: ApprovalId,
    pub(crate) capability_id: CapabilityId,
    /// Tenant, surface, client, and the requester with its attributes at the time of filing.
    pub(crate) requester: Identity,
    /// Of the normalised input, and of the input before defaults (IDM-3).
    pub(crate) input_hash: String,
    pub(crate) given_hash: String,
    pub(crate) reasons: Vec<String>,
    pub(crate) requirements: Vec<Requirement>,
    pub(crate) risk: Risk,
    pub(crate) side_effect: SideEffect,
    /// The digest of the capability's governance.
    pub(crate) governance: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) idempotency_key: Option<IdempotencyKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) correlation_id: Option<String>,
    /// When it was asked for, by the engine's clock.
    pub(crate) requested_at: Timestamp,
    /// How long it lives, in microseconds of the store's clock (EXE-5).
    pub(crate) life_us: i64,
}

impl Binding {
    /// The canonical text that is stored.
    pub(crate) fn text(&self) -> String {
        canonical(self)
    }
}

/// SHA-256 over a stored binding text, as it is.
pub(crate) fn binding_hash(text: &str) -> String {
    let mut digest = Sha256::new();
    digest.update("countersign/binding/v1\n");
    digest.update(text);
    format!("sha256:{}", hex(&digest.finalize()))
}

/// One person's decision, as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionRecord {
    /// Who.
    pub approver: ApproverRef,
    /// The type that was decided.
    #[serde(rename = "type")]
    pub kind: String,
    /// What was decided.
    pub verdict: Verdict,
    /// How it came in.
    pub via: String,
    /// When, by the store's clock.
    pub at: Timestamp,
}

/// An approval as people see it: what will run, and how far deciding has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalView {
    /// Its id.
    pub id: ApprovalId,
    /// Where it stands now. At the instant of expiry it is expired.
    pub status: ApprovalState,
    /// What will run.
    pub capability_id: CapabilityId,
    /// What that does to the world.
    pub side_effect: SideEffect,
    /// How bad a wrong call is.
    pub risk: Risk,
    /// Whose data it is about.
    pub tenant: String,
    /// Where the call came in.
    pub surface: Surface,
    /// Who asked.
    pub requester: ApproverRef,
    /// The agent software that carried the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The exact input, with the capability's display redaction, and `[masked]` where it looks like a secret. Gone 24 h after the approval's end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// `sha256:` and hexadecimal, of the exact input.
    pub input_hash: String,
    /// Why a person is asked.
    pub reasons: Vec<String>,
    /// What is needed.
    pub requirements: Vec<Requirement>,
    /// What was decided so far.
    pub decisions: Vec<DecisionRecord>,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
    /// The execution that consumed it; shown to its requester.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
}

/// What a decision came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    /// The approval.
    pub id: ApprovalId,
    /// Where it stands after the decision: still `pending` until every type's quorum is reached.
    pub status: ApprovalState,
}
