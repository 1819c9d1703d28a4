//! What a notification says: ids, names and states from the record; never an input or an output (INV-9).

use serde::{Deserialize, Serialize};

use crate::approval::{ApprovalState, Binding};
use crate::audit::{ActorRef, ApproverRef, AuditEvent, Envelope, EventKind, Executed, ReconciledTo, Requirement};
use crate::clock::Timestamp;
use crate::deciding::bound;
use crate::outcome::ErrorCode;
use crate::store::op::ApprovalRecord;
use crate::store::outbox::Due;
use crate::store::{Store, StoreError};
use crate::topic::Topic;

/// The body of a notification.
#[derive(Serialize)]
pub(super) struct Message {
    #[serde(rename = "type")]
    topic: &'static str,
    /// When it happened.
    timestamp: Timestamp,
    data: Data,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    #[serde(skip_serializing_if = "Option::is_none")]
    approval_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capability_id: Option<String>,
    tenant: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    requester: Option<ActorRef>,
    /// Why a person is asked, as policies say it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    requirements: Vec<Requirement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_by: Option<ApproverRef>,
    /// `requester`, `operator` or `superseded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    withdrawn_by: Option<String>,
    /// How an execution ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    /// Whether it took effect, of one that did not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    executed: Option<Executed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<ErrorCode>,
    /// A locator: it leads to the request, and opens nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

/// What there is to say, or that there is nothing.
pub(super) enum Said {
    Message(Box<Message>),
    /// It is not so any more.
    Moot,
    /// The record does not say what it should.
    Unreadable,
}

/// Reads from the record what `due` tells of.
pub(super) async fn message(due: &Due, approval_url: Option<&str>, store: &Store) -> Result<Said, StoreError> {
    let record = match &due.approval {
        Some(id) => store.approval(id).await?,
        None => None,
    };
    if due.topic == Topic::ApprovalExpiring {
        return Ok(warning(due, record.as_ref(), approval_url));
    }
    let Some(Happened { at, kind, envelope }) = due.event.as_deref().and_then(happened) else {
        return Ok(Said::Unreadable);
    };
    let mut data = record.as_ref().map(|it| of_approval(it, approval_url)).unwrap_or_default();
    data.execution_id = envelope.execution_id.as_ref().map(ToString::to_string);
    data.capability_id = envelope.capability_id.map(|it| it.to_string());
    data.tenant = envelope.tenant;
    data.requester = envelope.actor;
    if let (None, Some(execution)) = (&due.approval, &envelope.execution_id) {
        let consumed = store.execution(execution).await?.and_then(|it| it.approval);
        data.approval_id = consumed.map(|it| it.to_string());
    }
    if let Some(kind) = kind {
        data.tell(kind);
    }
    if due.topic == Topic::ExecutionUnknown {
        data.status = Some("unknown");
    }
    Ok(Said::Message(Box::new(Message { topic: due.topic.as_str(), timestamp: at, data })))
}

/// An event as far as it can be told: of one that was too long, `data` may be missing.
struct Happened {
    at: Timestamp,
    kind: Option<EventKind>,
    envelope: Envelope,
}

fn happened(event: &str) -> Option<Happened> {
    #[derive(Deserialize)]
    struct Bare {
        at: Timestamp,
        #[serde(flatten)]
        envelope: Envelope,
    }
    let Bare { at, envelope } = serde_json::from_str(event).ok()?;
    let kind = serde_json::from_str::<AuditEvent>(event).ok().map(|it| it.kind);
    Some(Happened { at, kind, envelope })
}

fn warning(due: &Due, record: Option<&ApprovalRecord>, approval_url: Option<&str>) -> Said {
    let Some(record) = record else { return Said::Unreadable };
    if !matches!(record.state, ApprovalState::Pending | ApprovalState::Approved) {
        return Said::Moot;
    }
    let data = of_approval(record, approval_url);
    let data = Data { status: Some(record.state.as_str()), tenant: record.tenant.clone(), ..data };
    Said::Message(Box::new(Message { topic: due.topic.as_str(), timestamp: due.created_at, data }))
}

fn of_approval(record: &ApprovalRecord, approval_url: Option<&str>) -> Data {
    let binding = bound(record);
    let requester = binding.as_ref().and_then(|it| it.requester.actor()).map(ActorRef::from);
    Data {
        approval_id: Some(record.id.to_string()),
        capability_id: Some(record.capability.clone()),
        requester,
        reasons: binding.map(|Binding { reasons, .. }| reasons).unwrap_or_default(),
        requirements: record.requirements.clone(),
        expires_at: Some(record.expires_at),
        url: approval_url.map(|it| it.replace("{id}", &record.id)),
        ..Data::default()
    }
}

impl Data {
    /// What the event adds.
    fn tell(&mut self, kind: EventKind) {
        match kind {
            EventKind::Approved(it) | EventKind::Rejected(it) => self.decided_by = Some(it.approver),
            EventKind::ApprovalWithdrawn { by, .. } => self.withdrawn_by = Some(by),
            EventKind::Completed { .. } => self.status = Some("completed"),
            EventKind::Failed { code, executed, .. } => self.ended("failed", Some(code), executed),
            EventKind::Cancelled { code, executed, .. } => self.ended("cancelled", Some(code), executed),
            EventKind::Interrupted { executed, .. } => self.ended("cancelled", None, executed),
            EventKind::Reconciled { to, .. } => {
                self.status = Some(match to {
                    ReconciledTo::Completed => "completed",
                    ReconciledTo::Failed => "failed",
                    ReconciledTo::NotExecuted => "not_executed",
                });
            }
            // The request says it all, or nobody is told.
            EventKind::ApprovalRequested { .. }
            | EventKind::ApprovalExpired { .. }
            | EventKind::CommentsErased { .. }
            | EventKind::Discovered { .. }
            | EventKind::Requested { .. }
            | EventKind::Denied { .. }
            | EventKind::Started { .. }
            | EventKind::Retried { .. }
            | EventKind::Replayed { .. }
            | EventKind::ManagementDenied { .. }
            | EventKind::ManagementDone { .. }
            | EventKind::PolicyLoaded { .. }
            | EventKind::PolicyRefused { .. }
            | EventKind::PolicyShadowDifference { .. }
            | EventKind::AuthFailed { .. }
            | EventKind::AuditDetached { .. } => {}
        }
    }

    fn ended(&mut self, status: &'static str, code: Option<ErrorCode>, executed: Executed) {
        (self.status, self.code, self.executed) = (Some(status), code, Some(executed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;

    #[test]
    fn an_event_whose_data_was_too_long_is_told_all_the_same() {
        let kind = EventKind::AuthFailed { count: 1, reason: "expired".into() };
        let envelope = Envelope::of(&Identity::none().tenant("acme"));
        let event = AuditEvent { id: "evt-1".into(), at: Timestamp(0), kind, envelope };
        let whole = event.clone().into_row().body;
        let cut = whole.replace(r#"{"count":1,"reason":"expired"}"#, r#"{"omittedBytes":20000}"#);
        assert_ne!(cut, whole);
        let told = [&whole, &cut].map(|it| happened(it).unwrap());
        assert_eq!(told.each_ref().map(|it| it.kind.is_some()), [true, false]);
        assert!(told.iter().all(|it| it.envelope == event.envelope && it.at == event.at));
        assert!(happened("{}").is_none());
    }
}
