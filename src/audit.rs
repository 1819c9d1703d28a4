//! Audit events: one type, one shape, whatever the outcome. Ids, hashes, classifications and durations: never input
//! or output (INV-9).

mod data;
mod policies;
mod stored;

use serde::{Deserialize, Serialize};

pub use self::data::{
    ActorRef, ApproverRef, DecisionData, DenialReason, Executed, PolicyError, PolicyRef, ReconciledBy, ReconciledTo,
    Requirement,
};
pub(crate) use self::policies::MAX_NAMED;
pub use self::policies::{PolicyChanges, PolicyOrigin, PolicyOutcome, PolicyView};
#[cfg(test)]
pub(crate) use self::stored::leaf_hash;
pub(crate) use self::stored::{EventRow, canonical, hex, in_order};
use crate::actor::{Client, Identity, Surface};
use crate::capability::{Risk, SideEffect};
use crate::clock::Timestamp;
use crate::outcome::ErrorCode;
use crate::stage::Stage;
use crate::{ApprovalId, CapabilityId, ExecutionId};

/// The most bytes that one event may have in its stored form.
pub(crate) const MAX_EVENT_BYTES: usize = 16 * 1024;

/// One audit event as it is stored and hashed. `seq`, its place in the log, is not part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// Unique everywhere.
    pub id: String,
    /// When, to the microsecond.
    pub at: Timestamp,
    /// What happened: the members `type` and `data`.
    #[serde(flatten)]
    pub kind: EventKind,
    /// Who, from where, about what.
    #[serde(flatten)]
    pub envelope: Envelope,
}

/// The part of an event that all events of one execution share, as far as it is known yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// Who; `None` if nobody was authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorRef>,
    /// What was asked for. An id outside the grammar is recorded as its hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability_id: Option<CapabilityId>,
    /// The agent software.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Client>,
    /// The caller's own id of the conversation: 1..=128 visible ASCII bytes, else dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The trip through the pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    /// HMAC of the input hash under the tenant's evidence key, from stage 6 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_hash: Option<String>,
    /// The policy set that decided, from stage 5 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_hash: Option<String>,
    /// Where the call came in.
    pub surface: Surface,
    /// Whose data it is about.
    pub tenant: String,
}

impl Envelope {
    /// What is known of a call before anything is looked up.
    pub(crate) fn of(identity: &Identity) -> Self {
        Self {
            tenant: identity.tenant.to_string(),
            surface: identity.surface,
            actor: identity.actor().map(ActorRef::from),
            client: identity.client.clone(),
            execution_id: None,
            capability_id: None,
            correlation_id: None,
            input_hash: None,
            policy_hash: None,
        }
    }
}

/// What happened: document 3's catalogue. Later parts add types, and never change one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "document 3 is the table")]
pub enum EventKind {
    #[serde(rename = "capabilities.discovered")]
    Discovered { count: usize, digest: String },
    #[serde(rename = "capability.requested")]
    Requested {
        /// On resume; a malformed one is hashed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        risk: Option<Risk>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        side_effect: Option<SideEffect>,
    },
    #[serde(rename = "capability.denied")]
    Denied {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        errors: Vec<PolicyError>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        policies: Vec<PolicyRef>,
        public_code: ErrorCode,
        reason: DenialReason,
    },
    #[serde(rename = "capability.approval_requested")]
    ApprovalRequested {
        approval_id: ApprovalId,
        /// HMAC of the binding hash under the tenant's evidence key.
        binding_hash: String,
        /// Whether an earlier call had filed it.
        existing: bool,
        expires_at: Timestamp,
        policies: Vec<PolicyRef>,
        reasons: Vec<String>,
        requirements: Vec<Requirement>,
        /// Whether this ended the execution; false while an inline approver is asked.
        suspended: bool,
    },
    #[serde(rename = "capability.approved")]
    Approved(DecisionData),
    #[serde(rename = "capability.rejected")]
    Rejected(DecisionData),
    #[serde(rename = "capability.approval_withdrawn")]
    ApprovalWithdrawn {
        approval_id: ApprovalId,
        /// `requester`, `operator` or `superseded`.
        by: String,
    },
    #[serde(rename = "capability.approval_expired")]
    ApprovalExpired { approval_id: ApprovalId },
    #[serde(rename = "capability.comments_erased")]
    CommentsErased {
        approval_id: ApprovalId,
        /// Who sat there, `cli:ada`.
        by: String,
        /// How many.
        count: u32,
    },
    #[serde(rename = "capability.started")]
    Started {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval_id: Option<ApprovalId>,
        /// The digest of the capability's governance.
        governance: String,
        /// Whether the call has an idempotency key.
        keyed: bool,
        policies: Vec<PolicyRef>,
    },
    #[serde(rename = "capability.retried")]
    Retried { attempt: u32, previous_code: ErrorCode },
    #[serde(rename = "capability.completed")]
    Completed { attempts: u32, duration_us: u64 },
    #[serde(rename = "capability.failed")]
    Failed {
        attempts: u32,
        code: ErrorCode,
        executed: Executed,
        /// Declared paths only.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        paths: Vec<String>,
        retryable: bool,
        stage: Stage,
    },
    #[serde(rename = "capability.cancelled")]
    Cancelled { code: ErrorCode, duration_us: u64, executed: Executed },
    #[serde(rename = "capability.replayed")]
    Replayed { original_execution_id: ExecutionId },
    #[serde(rename = "capability.interrupted")]
    Interrupted {
        /// `sweep` or `takeover`.
        by: String,
        executed: Executed,
    },
    #[serde(rename = "capability.reconciled")]
    Reconciled {
        /// False alerts: it may be a double effect.
        applied: bool,
        by: ReconciledBy,
        to: ReconciledTo,
    },
    #[serde(rename = "management.denied")]
    ManagementDenied {
        action: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval_id: Option<String>,
        code: ErrorCode,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        execution_id: Option<String>,
    },
    #[serde(rename = "management.done")]
    ManagementDone {
        action: String,
        /// How much it was done to, where that is a number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Option<usize>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        execution_id: Option<String>,
    },
    #[serde(rename = "policy.loaded")]
    PolicyLoaded {
        /// Absent if what the set before it said is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changes: Option<PolicyChanges>,
        files: usize,
        /// Counts the changes of the active set from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        generation: Option<i64>,
        #[serde(default)]
        origin: PolicyOrigin,
        policy_hash: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        previous_hash: Option<String>,
        /// How it came in, if somebody brought it: a surface, or `cli`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        via: Option<String>,
    },
    #[serde(rename = "policy.refused")]
    PolicyRefused {
        files: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        previous_hash: Option<String>,
        problems: usize,
    },
    #[serde(rename = "policy.shadow_difference")]
    PolicyShadowDifference { active: PolicyView, candidate: PolicyView, candidate_hash: String },
    #[serde(rename = "auth.failed")]
    AuthFailed { count: u64, reason: String },
    #[serde(rename = "audit.detached")]
    AuditDetached {
        /// The last event that had left before.
        after: i64,
        /// The name of the file that has what left.
        archive: String,
        /// Who sat there, `cli:ada`.
        by: String,
        /// How long the file was: it may go on.
        bytes: u64,
        /// `sha256:` and that of so much of the file.
        digest: String,
        /// The root of the tree of everything up to `through`, as a checkpoint has it.
        root: String,
        /// The last event that may leave.
        through: i64,
    },
}

impl EventKind {
    /// The `type` member.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Discovered { .. } => "capabilities.discovered",
            Self::Requested { .. } => "capability.requested",
            Self::Denied { .. } => "capability.denied",
            Self::ApprovalRequested { .. } => "capability.approval_requested",
            Self::Approved(_) => "capability.approved",
            Self::Rejected(_) => "capability.rejected",
            Self::ApprovalWithdrawn { .. } => "capability.approval_withdrawn",
            Self::ApprovalExpired { .. } => "capability.approval_expired",
            Self::CommentsErased { .. } => "capability.comments_erased",
            Self::Started { .. } => "capability.started",
            Self::Retried { .. } => "capability.retried",
            Self::Completed { .. } => "capability.completed",
            Self::Failed { .. } => "capability.failed",
            Self::Cancelled { .. } => "capability.cancelled",
            Self::Replayed { .. } => "capability.replayed",
            Self::Interrupted { .. } => "capability.interrupted",
            Self::Reconciled { .. } => "capability.reconciled",
            Self::ManagementDenied { .. } => "management.denied",
            Self::ManagementDone { .. } => "management.done",
            Self::PolicyLoaded { .. } => "policy.loaded",
            Self::PolicyRefused { .. } => "policy.refused",
            Self::PolicyShadowDifference { .. } => "policy.shadow_difference",
            Self::AuthFailed { .. } => "auth.failed",
            Self::AuditDetached { .. } => "audit.detached",
        }
    }

    /// Whether it ends its execution. An execution has exactly one such event (INV-13).
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Denied { .. }
            | Self::Completed { .. }
            | Self::Failed { .. }
            | Self::Cancelled { .. }
            | Self::Replayed { .. }
            | Self::Interrupted { .. } => true,
            Self::ApprovalRequested { suspended, .. } => *suspended,
            Self::Discovered { .. }
            | Self::Requested { .. }
            | Self::Approved(_)
            | Self::Rejected(_)
            | Self::ApprovalWithdrawn { .. }
            | Self::ApprovalExpired { .. }
            | Self::CommentsErased { .. }
            | Self::Started { .. }
            | Self::Retried { .. }
            | Self::Reconciled { .. }
            | Self::ManagementDenied { .. }
            | Self::ManagementDone { .. }
            | Self::PolicyLoaded { .. }
            | Self::PolicyRefused { .. }
            | Self::PolicyShadowDifference { .. }
            | Self::AuthFailed { .. }
            | Self::AuditDetached { .. } => false,
        }
    }
}
