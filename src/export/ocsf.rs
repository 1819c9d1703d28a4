//! OCSF 1.8.0, API Activity: class 6003 of category 6. What an event says and the class has no attribute for is in
//! `unmapped`. The table is in `docs/audit/mapping.md`; a test compares them.

use serde_json::{Map, Value, json};

use super::form::{Said, SaidActor};
use crate::clock::Timestamp;

const VERSION: &str = "1.8.0";

/// What was done, as the class has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    Read,
    Update,
    Delete,
    /// A call of a capability is what its capability is; the name of the activity is the event's type.
    Other,
}

/// How it came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Unknown,
    Success,
    Failure,
    /// Neither: it goes on.
    Other,
}

/// How bad that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    Informational,
    Low,
    Medium,
    High,
}

impl Activity {
    fn word(self) -> (i64, &'static str) {
        match self {
            Self::Read => (2, "Read"),
            Self::Update => (3, "Update"),
            Self::Delete => (4, "Delete"),
            Self::Other => (99, "Other"),
        }
    }
}

impl Status {
    fn word(self) -> (i64, &'static str) {
        match self {
            Self::Unknown => (0, "Unknown"),
            Self::Success => (1, "Success"),
            Self::Failure => (2, "Failure"),
            Self::Other => (99, "Other"),
        }
    }
}

impl Severity {
    fn word(self) -> (i64, &'static str) {
        match self {
            Self::Informational => (1, "Informational"),
            Self::Low => (2, "Low"),
            Self::Medium => (3, "Medium"),
            Self::High => (4, "High"),
        }
    }
}

type Row = (&'static str, Activity, Status, Severity);

/// By the type of the event, in the order of `audit.rs`.
const TYPES: [Row; 24] = [
    ("capabilities.discovered", Activity::Read, Status::Success, Severity::Informational),
    ("capability.requested", Activity::Other, Status::Other, Severity::Informational),
    ("capability.denied", Activity::Other, Status::Failure, Severity::Low),
    ("capability.approval_requested", Activity::Other, Status::Other, Severity::Informational),
    ("capability.approved", Activity::Other, Status::Success, Severity::Informational),
    ("capability.rejected", Activity::Other, Status::Failure, Severity::Low),
    ("capability.approval_withdrawn", Activity::Other, Status::Other, Severity::Informational),
    ("capability.approval_expired", Activity::Other, Status::Other, Severity::Informational),
    ("capability.comments_erased", Activity::Delete, Status::Success, Severity::Informational),
    ("capability.started", Activity::Other, Status::Other, Severity::Informational),
    ("capability.retried", Activity::Other, Status::Other, Severity::Low),
    ("capability.completed", Activity::Other, Status::Success, Severity::Informational),
    ("capability.failed", Activity::Other, Status::Failure, Severity::Medium),
    ("capability.cancelled", Activity::Other, Status::Failure, Severity::Medium),
    ("capability.replayed", Activity::Other, Status::Success, Severity::Informational),
    ("capability.interrupted", Activity::Other, Status::Failure, Severity::Medium),
    ("capability.reconciled", Activity::Other, Status::Other, Severity::Low),
    ("management.denied", Activity::Other, Status::Failure, Severity::Low),
    ("management.done", Activity::Other, Status::Success, Severity::Informational),
    ("policy.loaded", Activity::Update, Status::Success, Severity::Informational),
    ("policy.refused", Activity::Update, Status::Failure, Severity::Medium),
    ("policy.shadow_difference", Activity::Other, Status::Other, Severity::Informational),
    ("auth.failed", Activity::Other, Status::Failure, Severity::Medium),
    ("audit.detached", Activity::Delete, Status::Success, Severity::Informational),
];

/// The row of an event; of a type that is not known here, that it is not.
fn outline(said: &Said) -> (Activity, Status, Severity) {
    let row = TYPES.iter().find(|it| it.0 == said.kind);
    let (_, activity, status, severity) =
        row.copied().unwrap_or(("", Activity::Other, Status::Unknown, Severity::Informational));
    // Nobody knows whether it took effect, or it may have done so twice.
    let is_unknown = said.data["executed"] == "unknown";
    let is_double = said.kind == "capability.reconciled" && said.data["applied"] == false;
    match (is_unknown, is_double) {
        (true, _) => (activity, Status::Unknown, Severity::High),
        (false, true) => (activity, status, Severity::High),
        (false, false) => (activity, status, severity),
    }
}

/// How bad an event is.
pub(super) fn severity(said: &Said) -> Severity {
    outline(said).2
}

pub(super) fn line(said: &Said, seq: i64, leaf: &str) -> Option<String> {
    let ((activity_id, activity), (status_id, status), (severity_id, severity)) = {
        let (activity, status, severity) = outline(said);
        (activity.word(), status.word(), severity.word())
    };
    let time = Timestamp::parse(&said.at)?.0.div_euclid(1_000);
    let code = said.data["code"].as_str().or(said.data["publicCode"].as_str());
    let event = present(json!({
        "activity_id": activity_id,
        "activity_name": if activity_id == 99 { &said.kind } else { activity },
        "category_uid": 6,
        "category_name": "Application Activity",
        "class_uid": 6003,
        "class_name": "API Activity",
        "type_uid": 600_300 + activity_id,
        "type_name": format!("API Activity: {activity}"),
        "severity_id": severity_id,
        "severity": severity,
        "status_id": status_id,
        "status": status,
        "status_code": code,
        "message": said.kind,
        "time": time,
        "actor": actor(said),
        "api": api(said, code),
        // The record has no address of whoever called: the agent software, if it said what it is.
        "src_endpoint": {"name": client(said)},
        "metadata": metadata(said, seq),
        "unmapped": present(json!({
            "data": said.data,
            "inputHash": said.input_hash,
            "leaf": leaf,
            "policyHash": said.policy_hash,
            "surface": said.surface,
        })),
    }));
    serde_json::to_string(&event).ok()
}

fn client(said: &Said) -> &str {
    said.client.as_deref().filter(|it| !it.is_empty()).unwrap_or("unknown")
}

fn actor(said: &Said) -> Value {
    let user = said.actor.as_ref().map(|SaidActor { id, issuer, kind }| {
        let (type_id, name) = match kind.as_str() {
            "user" => (1, "User"),
            "service" => (4, "Service"),
            other => (99, other),
        };
        present(json!({"uid": id, "domain": issuer, "type_id": type_id, "type": name}))
    });
    // One of the two must be there.
    let app = (user.is_none() || said.client.is_some()).then(|| client(said));
    present(json!({"user": user, "app_name": app}))
}

fn api(said: &Said, code: Option<&str>) -> Value {
    present(json!({
        "operation": said.capability_id.as_ref().unwrap_or(&said.kind),
        "service": {"name": "countersign"},
        "request": said.execution_id.as_ref().map(|it| json!({"uid": it})),
        "response": code.map(|it| json!({"error": it})),
    }))
}

fn metadata(said: &Said, seq: i64) -> Value {
    present(json!({
        "version": VERSION,
        "product": {
            "name": "Countersign",
            "uid": "countersign",
            "vendor_name": "Countersign",
            "version": env!("CARGO_PKG_VERSION"),
        },
        // One to one: the same event is the same here.
        "uid": said.id,
        "original_event_uid": said.id,
        "original_time": said.at,
        "event_code": said.kind,
        "log_name": "audit",
        "log_provider": "countersign",
        "sequence": seq,
        "tenant_uid": said.tenant,
        "correlation_uid": said.correlation_id,
    }))
}

/// Without the members that are null.
fn present(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            Value::Object(members.into_iter().filter(|it| !it.1.is_null()).collect::<Map<_, _>>())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPPING: &str = include_str!("../../docs/audit/mapping.md");

    #[test]
    fn every_type_of_event_is_mapped_and_no_other() {
        // The engine's own word, as it stands in its source: a new type cannot be forgotten here.
        let source = include_str!("../audit.rs");
        let part = source.split_once("pub fn name").unwrap().1.split_once("\n    }\n").unwrap().0;
        let names: Vec<&str> = part.lines().filter_map(|it| it.split_once("=> \"")?.1.split('"').next()).collect();
        assert_eq!(names, TYPES.map(|it| it.0));
    }

    #[test]
    fn the_page_has_the_table_line_by_line() {
        let rows = TYPES.map(|(name, activity, status, severity)| {
            let (number, text) = severity.number();
            let [(a, activity), (b, status), (c, severity)] = [activity.word(), status.word(), severity.word()];
            format!(
                "| `{name}` | `{}{name}` | {activity} ({a}) | {status} ({b}) | {severity} ({c}) | {text} ({number}) |",
                super::super::cloudevents::PREFIX
            )
        });
        let missing: Vec<_> = rows.iter().filter(|it| !MAPPING.contains(*it)).collect();
        assert_eq!(missing, [&""; 0], "{}", rows.join("\n"));
        assert_eq!(MAPPING.lines().filter(|it| it.contains("| `dev.countersign.")).count(), TYPES.len());
    }
}
