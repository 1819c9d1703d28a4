//! The schemas of bodies. Of answers they are derived from the types that are serialised; of requests, and of what has no
//! type of its own, they are written here.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::actor::{ActorKind, Surface};
use crate::capability::Descriptor;
use crate::executions::ExecutionView;
use crate::http::policies::Listed;
use crate::http::problem::Transport;
use crate::outcome::{Detail, ErrorCode, Outcome};
use crate::policies::PolicyReload;
use crate::policy::ManageAction;
use crate::reading::AuditPage;
use crate::{ApprovalView, Decided, PolicyProblem};

/// Every one, by name.
pub(super) fn all() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with(|it| it.definitions_path = "/components/schemas".into());
    let mut types = settings.into_generator();
    types.subschema_for::<Descriptor>();
    types.subschema_for::<ApprovalView>();
    types.subschema_for::<Decided>();
    types.subschema_for::<ExecutionView>();
    types.subschema_for::<AuditPage>();
    types.subschema_for::<Listed>();
    types.subschema_for::<PolicyReload>();
    types.subschema_for::<PolicyProblem>();
    types.subschema_for::<Detail>();
    types.subschema_for::<ActorKind>();
    types.subschema_for::<Surface>();
    types.subschema_for::<Outcome>();
    let mut schemas = types.take_definitions(true);
    let outcome = schemas.remove("Outcome").unwrap_or_default();
    for (name, status) in [("Completed", "completed"), ("ApprovalRequired", "approval_required")] {
        schemas.insert(name.to_owned(), variant(&outcome, status));
    }
    schemas.remove("Error"); // outside, it is a problem
    if let Some(id) = schemas.get_mut("CapabilityId") {
        id["description"] = json!("A capability's dot path.");
    }
    schemas.extend(answers().into_iter().chain(requests()).map(|(name, schema)| (name.to_owned(), schema)));
    schemas
}

/// The variant of an outcome with this status.
fn variant(outcome: &Value, status: &str) -> Value {
    let variants = outcome["oneOf"].as_array().into_iter().flatten();
    let mut variants = variants.filter(|it| it["properties"]["status"]["const"] == status);
    variants.next().cloned().unwrap_or_default()
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn list(member: &str, of: &str) -> Value {
    json!({
        "type": "object",
        "required": [member],
        "properties": {member: {"type": "array", "items": reference(of)}},
    })
}

fn answers() -> Vec<(&'static str, Value)> {
    let codes: Vec<_> =
        ErrorCode::ALL.iter().map(|it| it.as_str()).chain(Transport::ALL.map(Transport::as_str)).collect();
    let mut approvals = list("approvals", "ApprovalView");
    approvals["properties"]["next"] =
        json!({"description": "What the next page begins behind; absent at the end.", "type": "string"});
    let execution = json!({"allOf": [reference("ExecutionView")], "properties": {
        "output": {"description": "Redacted as today; absent if there is none, or it may not be seen today."},
    }});
    let problems = json!({"allOf": [reference("Problem")], "properties": {
        "problems": {"description": "What is wrong with the policies, if they do not load.", "type": "array",
                     "items": reference("PolicyProblem")},
    }});
    let explanation = json!({
        "type": "object",
        "required": ["outcome", "policies", "reasons", "errors", "policyHash"],
        "properties": {
            "outcome": {"enum": ["allow", "approval", "deny", "hidden", "unexposed", "invalid", "failed"]},
            "policyHash": {"type": "string"},
            "reasons": {"type": "array", "items": {"type": "string"}},
            "policies": {"type": "array", "items": {"type": "object"}},
            "errors": {"type": "array", "items": {"type": "object"}},
            "decisive": {"description": "The policies that made it so, part by part.", "type": "array",
                         "items": {"type": "object"}},
            "nearest": {"description": "If nothing permits it: the permits that came nearest.", "type": "object"},
            "approvals": {"description": "Who could approve, by type.", "type": "array", "items": {"type": "object"}},
            "whenApproved": {"description": "What would come of it with all approvals.", "type": "string"},
        },
    });
    vec![
        ("Problem", problem(&codes)),
        ("PolicyProblems", problems),
        ("Capabilities", list("capabilities", "Descriptor")),
        ("Approvals", approvals),
        ("Execution", execution),
        ("Explanation", explanation),
        (
            "Health",
            json!({"type": "object", "required": ["status"], "properties": {
                "status": {"enum": ["ok", "ready"]},
                "warnings": {
                    "description": "What an operator should look into, if anything; calls go on.",
                    "type": "array",
                    "items": {"enum": ["log_refused", "log_anchors_failing"]},
                },
            }}),
        ),
        ("Document", json!({"type": "object"})),
        ("Text", json!({"type": "string"})),
        ("AuditEvents", json!({"description": "Each `data` is an AuditEvent.", "type": "string"})),
        ("ApprovalEvents", json!({"description": "Each `data` is an ApprovalView.", "type": "string"})),
    ]
}

/// RFC 9457, with the members of this API.
fn problem(codes: &[&str]) -> Value {
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail", "code", "retryable", "details"],
        "properties": {
            "type": {"description": "`urn:countersign:problem:CODE`", "type": "string"},
            "title": {"description": "The same for every occurrence.", "type": "string"},
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": {"description": "One safe sentence.", "type": "string"},
            "code": {"description": "What programs match on. Stable; meanings are never reused.", "enum": codes},
            "retryable": {"description": "Whether the same request, sent again as it is, may succeed and cannot run twice.",
                          "type": "boolean"},
            "executionId": {"description": "Of a call that went through the pipeline.", "type": "string"},
            "outcome": {"description": "How that call calls its end.", "enum": ["failed", "cancelled"]},
            "details": {"type": "array", "items": reference("Detail")},
        },
    })
}

/// Request bodies are closed: what nobody knows is refused.
fn closed(required: &[&str], properties: &Value) -> Value {
    let mut schema = json!({"type": "object", "additionalProperties": false, "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn requests() -> Vec<(&'static str, Value)> {
    let name = json!({"type": "string", "minLength": 1, "maxLength": 512});
    let actor = closed(
        &["id", "kind"],
        &json!({
            "id": name, "kind": reference("ActorKind"), "tenant": name, "issuer": {"type": "string"},
            "roles": {"type": "array", "items": {"type": "string"}}, "scopes": {"type": "array", "items": {"type": "string"}},
            "attributes": {"type": "object"},
        }),
    );
    let entity = closed(&["type", "id"], &json!({"type": {"type": "string"}, "id": {"type": "string"}}));
    let mut whole = entity.clone();
    whole["properties"]["attributes"] = json!({"type": "object"});
    whole["properties"]["parents"] = json!({"type": "array", "items": entity});
    let actions = ManageAction::ALL.map(ManageAction::as_str);
    let question = closed(
        &[],
        &json!({
            "actor": {"description": "On whose behalf; the party that asks, if left out.", "$ref": "#/components/schemas/Actor"},
            "approved": {"description": "How many people approved, by type.", "type": "object",
                         "additionalProperties": {"type": "integer", "minimum": 0, "maximum": u32::MAX}},
            "approvedAt": {"type": "string", "format": "date-time"},
            "at": {"description": "When; now, if left out.", "type": "string", "format": "date-time"},
            "capability": {"type": "string"},
            "client": name,
            "entities": {"description": "What the application would give.", "type": "array", "items": whole},
            "input": {"description": "The call's input; `{}` if left out."},
            "manage": {"description": "A management action instead of a call.", "enum": actions},
            "requester": {"description": "Whose request the action is about.", "$ref": "#/components/schemas/Actor"},
            "requirement": {"description": "The type of approval that is decided.", "type": "string"},
            "surface": reference("Surface"),
            "tenant": name,
        }),
    );
    let decision = closed(
        &["decision"],
        &json!({
            "decision": {"enum": ["approve", "reject"]},
            "type": {"description": "May be left out when one is outstanding.", "type": "string"},
            "comment": {"description": "For people to read; can be erased later.", "type": "string", "maxLength": 4096},
        }),
    );
    let resolve = closed(
        &["as"],
        &json!({
            "as": {"enum": ["completed", "failed", "not_executed"]},
            "output": {"description": "What repetitions get; only with `completed`."},
        }),
    );
    vec![
        ("Actor", actor),
        ("Call", closed(&["input"], &json!({"input": {"description": "As the capability's schema wants it."}}))),
        ("Decision", decision),
        ("Nothing", closed(&[], &json!({}))),
        ("Question", question),
        ("Resolve", resolve),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workbench::QUESTION;

    #[test]
    fn a_question_is_described_with_all_its_members() {
        let schemas = all();
        let described: Vec<_> = schemas["Question"]["properties"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(described, QUESTION);
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let schemas = all();
        let text = serde_json::to_string(&schemas).unwrap();
        for name in text.split("#/components/schemas/").skip(1).filter_map(|it| it.split('"').next()) {
            assert!(schemas.get(name).is_some_and(|it| !it.is_null()), "{name}");
        }
        assert_eq!(schemas["Completed"]["properties"]["status"]["const"], "completed");
        assert_eq!(schemas["ApprovalRequired"]["properties"]["status"]["const"], "approval_required");
    }
}
