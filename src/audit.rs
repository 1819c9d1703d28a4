//! Audit events: one type, one shape, whatever the outcome. Ids, hashes, classifications and durations: never input
//! or output (INV-9).

mod policies;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

pub(crate) use self::policies::MAX_NAMED;
pub use self::policies::{PolicyChanges, PolicyOrigin, PolicyOutcome, PolicyView};
use crate::actor::{ActorKind, Client, Identity, Surface};
use crate::capability::{Risk, SideEffect};
use crate::clock::Timestamp;
use crate::outcome::ErrorCode;
use crate::stage::Stage;
use crate::{ApprovalId, CapabilityId, ExecutionId};

/// The most bytes that one event may have in its stored form.
pub(crate) const MAX_EVENT_BYTES: usize = 16 * 1024;

/// Lists in events are cut to this many entries, with a count of all.
pub(crate) const MAX_LIST: usize = 32;

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

/// An actor as events name it: attributes never.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorRef {
    /// The actor's id.
    pub id: String,
    /// Who vouched for the id, if somebody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The actor's kind.
    pub kind: ActorKind,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    /// How many distinct people, 1..=16.
    pub quorum: u32,
    /// The approval's type, `manager`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A person who decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
            | Self::Started { .. }
            | Self::Retried { .. }
            | Self::Reconciled { .. }
            | Self::ManagementDenied { .. }
            | Self::ManagementDone { .. }
            | Self::PolicyLoaded { .. }
            | Self::PolicyRefused { .. }
            | Self::PolicyShadowDifference { .. }
            | Self::AuthFailed { .. } => false,
        }
    }
}

/// An event ready to be stored: its canonical bytes, their leaf hash, and the columns that are searched by.
#[derive(Clone, Debug)]
pub(crate) struct EventRow {
    pub(crate) id: String,
    pub(crate) at: Timestamp,
    pub(crate) kind: &'static str,
    pub(crate) terminal: bool,
    pub(crate) tenant: String,
    pub(crate) execution: Option<String>,
    pub(crate) capability: Option<String>,
    pub(crate) actor: Option<String>,
    /// RFC 8785 text: the bytes that are hashed are the bytes that are stored.
    pub(crate) body: String,
    /// Lower-case hexadecimal of the RFC 6962 leaf hash.
    pub(crate) leaf: String,
}

impl AuditEvent {
    /// The stored form. In too long an event the lists of `data` are cut, each with a count of all; if that does not
    /// help, `data` is left out. It never loses its place.
    pub(crate) fn into_row(self) -> EventRow {
        let mut body = self.text();
        if body.len() > MAX_EVENT_BYTES {
            body = canonical(&self.cut(body.len()));
        }
        let leaf = leaf_hash(body.as_bytes());
        EventRow {
            at: self.at,
            kind: self.kind.name(),
            terminal: self.kind.is_terminal(),
            execution: self.envelope.execution_id.map(|it| it.to_string()),
            capability: self.envelope.capability_id.map(|it| it.to_string()),
            actor: self.envelope.actor.map(|it| it.id),
            tenant: self.envelope.tenant,
            id: self.id,
            body,
            leaf,
        }
    }
}

/// An event with its members in the order of RFC 8785.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InOrder<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<&'a ActorRef>,
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    capability_id: Option<&'a CapabilityId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a Client>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    data: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_id: Option<&'a ExecutionId>,
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_hash: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy_hash: Option<&'a str>,
    surface: Surface,
    tenant: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
}

/// The two members of an [`EventKind`].
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(borrow, rename = "type")]
    name: &'a str,
}

impl AuditEvent {
    /// RFC 8785 text. Every call has three of them, so they are not sorted but written in order.
    fn text(&self) -> String {
        let kind = serde_json::to_string(&self.kind).unwrap_or_default();
        let Ok(Kind { data, name }) = serde_json::from_str(&kind) else { return canonical(self) };
        let Envelope { actor, capability_id, client, correlation_id, execution_id, .. } = &self.envelope;
        let Envelope { input_hash, policy_hash, surface, tenant, .. } = &self.envelope;
        let text = serde_json::to_string(&InOrder {
            actor: actor.as_ref(),
            at: self.at,
            capability_id: capability_id.as_ref(),
            client: client.as_ref(),
            correlation_id: correlation_id.as_deref(),
            data,
            execution_id: execution_id.as_ref(),
            id: &self.id,
            input_hash: input_hash.as_deref(),
            policy_hash: policy_hash.as_deref(),
            surface: *surface,
            tenant,
            kind: name,
        });
        let text = text.unwrap_or_else(|_| canonical(self));
        debug_assert_eq!(text, canonical(self), "the members of events are declared in the order of their names");
        text
    }

    fn cut(&self, bytes: usize) -> Value {
        let mut event = serde_json::to_value(self).unwrap_or_default();
        if let Some(Value::Object(data)) = event.get_mut("data") {
            let long = data.iter_mut().filter_map(|(name, it)| {
                let list = it.as_array_mut().filter(|it| it.len() > MAX_LIST)?;
                let count = list.len();
                list.truncate(MAX_LIST);
                Some((format!("{name}Count"), Value::from(count)))
            });
            let counts: Vec<_> = long.collect();
            data.extend(counts);
        }
        if canonical(&event).len() > MAX_EVENT_BYTES {
            event["data"] = serde_json::json!({"omittedBytes": bytes});
        }
        event
    }
}

/// RFC 8785 text of something that is made of plain data.
pub(crate) fn canonical(value: &impl Serialize) -> String {
    // Only a map with other keys than strings, or a number that JSON has no form for, could fail.
    serde_json_canonicalizer::to_string(value).unwrap_or_else(|_| Value::Null.to_string())
}

/// RFC 8785 text of something that has no fractions and whose members are declared in the order of their names: a debug
/// build checks that. Sorting them takes four times as long.
pub(crate) fn in_order(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_else(|_| Value::Null.to_string());
    debug_assert_eq!(text, canonical(value), "members are declared in the order of their names");
    text
}

/// RFC 6962, section 2.1: `SHA-256(0x00 || leaf)`.
pub(crate) fn leaf_hash(bytes: &[u8]) -> String {
    let mut digest = Sha256::new();
    digest.update([0]);
    digest.update(bytes);
    hex(&digest.finalize())
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    // By hand: the formatter takes longer than the hash itself, and every call has half a dozen of them.
    let digit = |it: u8| char::from(if it < 10 { b'0' + it } else { b'a' + it - 10 });
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(policies: usize, id: &str) -> AuditEvent {
        let policies = (0..policies).map(|n| PolicyRef { id: format!("{id}{n}"), effect: "forbid".into() }).collect();
        let kind = EventKind::Denied {
            reason: DenialReason::PolicyDenied,
            public_code: ErrorCode::PolicyDenied,
            policies,
            errors: Vec::new(),
        };
        let envelope = Envelope::of(&Identity::none());
        AuditEvent { id: "evt-1".into(), at: Timestamp(0), kind, envelope }
    }

    #[test]
    fn a_long_list_is_cut_with_a_count_and_the_event_still_parses() {
        let row = denied(2_000, "a-policy-with-quite-a-long-name-").into_row();
        assert!(row.body.len() <= MAX_EVENT_BYTES);
        let body: Value = serde_json::from_str(&row.body).unwrap();
        assert_eq!(body["data"]["policies"].as_array().unwrap().len(), MAX_LIST);
        assert_eq!(body["data"]["policiesCount"], 2_000);
        let event: AuditEvent = serde_json::from_str(&row.body).unwrap();
        assert_eq!(event.kind.name(), "capability.denied");
    }

    #[test]
    fn an_event_that_cutting_does_not_shorten_keeps_its_place_without_data() {
        let row = denied(10, &"x".repeat(4_000)).into_row();
        assert!(row.body.len() <= MAX_EVENT_BYTES);
        assert!(row.body.contains("omittedBytes") && row.terminal);
    }

    #[test]
    fn names_and_ends_agree_with_what_is_written() {
        let event = denied(1, "p");
        let body = serde_json::to_value(&event).unwrap();
        assert_eq!(body["type"], event.kind.name());
        assert!(event.kind.is_terminal());
    }

    #[test]
    fn leaves_are_hashed_as_rfc_6962_says() {
        // The empty leaf: SHA-256 of one zero byte.
        assert_eq!(leaf_hash(b""), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
    }
}
