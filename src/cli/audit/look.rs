//! How events look.

use serde_json::Value;

use super::super::screen::{HINT, table};
use super::Event;
use crate::{AuditEvent, DecisionData, EventKind, PolicyRef, StoredEvent};

/// What is told of each.
pub(super) const HEADINGS: [&str; 6] = ["seq", "at", "event", "actor", "capability", "about"];

pub(super) fn more(events: &[Event], limit: u32) -> String {
    match events.last() {
        Some((last, _)) if u32::try_from(events.len()) == Ok(limit) => {
            format!("{HINT}there may be more:{HINT:#} `--after {last}`\n")
        }
        _ => String::new(),
    }
}

/// An event as it is stored, with its place in the log before it.
pub(in crate::cli) fn numbered(seq: i64, body: &str) -> StoredEvent {
    StoredEvent { seq, body: body.to_owned() }
}

/// Events as a table.
pub(in crate::cli) fn shown(events: &[Event]) -> String {
    let rows: Vec<_> = events.iter().map(|(seq, body)| row(*seq, body)).collect();
    table(&HEADINGS, &rows)
}

pub(super) fn row(seq: i64, body: &str) -> Vec<String> {
    let Ok(event) = serde_json::from_str::<AuditEvent>(body) else {
        // Cut down to its place, or of a type that came later.
        let event: Value = serde_json::from_str(body).unwrap_or_default();
        let text = |name: &str| event[name].as_str().unwrap_or("-").to_owned();
        return vec![seq.to_string(), text("at"), text("type"), "-".into(), text("capabilityId"), "-".into()];
    };
    let actor = event.envelope.actor.as_ref().map_or_else(|| "-".into(), |it| it.id.clone());
    let capability = event.envelope.capability_id.as_ref().map_or_else(|| "-".into(), ToString::to_string);
    let name = event.kind.name().to_owned();
    vec![seq.to_string(), event.at.to_string(), name, actor, capability, gist(&event.kind)]
}

/// What an event says, in a few words.
fn gist(kind: &EventKind) -> String {
    match kind {
        EventKind::Discovered { count, .. } => format!("{count} listed"),
        EventKind::Requested { approval_id: Some(id), .. } => format!("resumes {id}"),
        EventKind::Requested { approval_id: None, .. } => String::new(),
        EventKind::Denied { reason, policies, .. } => {
            format!("{}{}", word(reason), names(policies))
        }
        EventKind::ApprovalRequested { approval_id, requirements, .. } => {
            let types: Vec<_> = requirements.iter().map(|it| &*it.kind).collect();
            format!("{approval_id} needs {}", types.join(", "))
        }
        EventKind::Approved(it) | EventKind::Rejected(it) => decision(it),
        EventKind::ApprovalWithdrawn { approval_id, by } => format!("{approval_id} by {by}"),
        EventKind::ApprovalExpired { approval_id } => approval_id.to_string(),
        EventKind::CommentsErased { approval_id, by, count } => format!("{approval_id}: {count} by {by}"),
        EventKind::Started { approval_id, policies, .. } => {
            let approved = approval_id.as_ref().map(|it| format!("consumes {it}")).unwrap_or_default();
            format!("{approved}{}", names(policies)).trim().to_owned()
        }
        EventKind::Retried { attempt, previous_code } => format!("attempt {attempt} after {previous_code}"),
        EventKind::Completed { duration_us, .. } => format!("in {} ms", duration_us / 1000),
        EventKind::Failed { code, stage, .. } => format!("{code} at {}", word(stage)),
        EventKind::Cancelled { code, .. } => code.to_string(),
        EventKind::Replayed { original_execution_id } => format!("of {original_execution_id}"),
        EventKind::Interrupted { by, .. } => format!("by {by}"),
        EventKind::Reconciled { applied, .. } => (if *applied { "applied" } else { "NOT applied" }).into(),
        EventKind::ManagementDenied { action, code, .. } => format!("{action}: {code}"),
        EventKind::ManagementDone { action, count: Some(count), .. } => format!("{action} ({count})"),
        EventKind::ManagementDone { action, .. } => action.clone(),
        EventKind::PolicyLoaded { files, .. } => format!("{files} files, see `policy history`"),
        EventKind::PolicyRefused { problems, .. } => format!("{problems} problems"),
        EventKind::PolicyShadowDifference { active, candidate, .. } => {
            format!("{} now, {} by the candidate", word(&active.outcome), word(&candidate.outcome))
        }
        EventKind::AuthFailed { reason, count } => format!("{reason}, {count} times"),
        EventKind::AuditDetached { after, through, archive, .. } => format!("{}..{through} to {archive}", after + 1),
    }
}

fn decision(it: &DecisionData) -> String {
    format!("{} by {}, {} {} of {}", it.approval_id, it.approver.id, it.kind, it.have, it.need)
}

fn names(policies: &[PolicyRef]) -> String {
    let names: Vec<_> = policies.iter().map(|it| &*it.id).collect();
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
}

/// As it is written on the record.
fn word(it: &impl serde::Serialize) -> String {
    serde_json::to_value(it).ok().and_then(|it| it.as_str().map(str::to_owned)).unwrap_or_default()
}
