//! Playing a scene, and checking what came of it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::script::{Act, Expect, Scene};
use crate::demo::{self, Desk};
use crate::{ApprovalState, AuditEvent, Engine, Error, ErrorCode, Identity, JsonInput, Outcome};

/// What came of a scene.
pub(super) struct Step {
    pub(super) name: &'static str,
    /// As it is printed.
    pub(super) outcome: Value,
}

/// Where scenes are played: the engine, the desk, and what was asked for last.
pub(super) struct Stage<'a> {
    engine: &'a Engine<Desk>,
    desk: Desk,
    approval: String,
    steps: Vec<Step>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(engine: &'a Engine<Desk>) -> Self {
        Self { engine, desk: Desk::default(), approval: String::new(), steps: Vec::new() }
    }

    pub(super) async fn play(&mut self, scene: &Scene) -> Step {
        let outcome = match scene.act {
            Act::Call { actor, capability, input, key } => self.call(actor, capability, input, key).await,
            Act::Approve { actor, kind } => {
                let approvals = self.engine.approvals(who(Some(actor)));
                match approvals.approve(&self.approval, kind).await {
                    Ok(decided) => json!({"status": decided.status}),
                    Err(error) => json!({"status": "failed", "error": error}),
                }
            }
            Act::Resume { actor } => json!(self.caller(Some(actor)).resume(&*self.approval).await),
        };
        Step { name: scene.name, outcome }
    }

    async fn call(&mut self, actor: Option<&str>, capability: &str, input: &str, key: Option<&str>) -> Value {
        let call = self.caller(actor).invoke(capability, JsonInput::text(input));
        let outcome = match key {
            Some(key) => call.idempotency_key(key).await,
            None => call.await,
        };
        if let Outcome::ApprovalRequired { approval, .. } = &outcome {
            self.approval = approval.id.to_string();
        }
        json!(outcome)
    }

    fn caller(&self, actor: Option<&str>) -> crate::Caller {
        let identity = who(actor);
        let desk = self.desk.of_tenant(identity.tenant_name());
        self.engine.on_behalf_of(identity, desk)
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(super) fn keep(&mut self, step: Step) {
        self.steps.push(step);
    }

    pub(super) fn into_steps(self) -> Vec<Step> {
        self.steps
    }
}

fn who(name: Option<&str>) -> Identity {
    name.and_then(demo::actor).unwrap_or_else(Identity::none)
}

/// Whether a step came out as the story says; else how it did.
pub(super) fn check(scene: &Scene, step: &Step, before: &[Step]) -> Result<(), String> {
    let outcome = &step.outcome;
    let error = || serde_json::from_value::<Error>(outcome["error"].clone()).ok();
    let code = error().map(|it| it.code);
    let as_told = match &scene.expect {
        Expect::Completed => outcome["status"] == "completed" && outcome["replayed"] == false,
        Expect::ReplayOf(name) => {
            let first = &find(before, name)["output"];
            outcome["replayed"] == true && !first.is_null() && outcome["output"] == *first
        }
        Expect::Waiting => outcome["status"] == "approval_required",
        Expect::Approved => outcome["status"] == ApprovalState::Approved.as_str(),
        Expect::ApprovedBy(name) => outcome["output"]["approvedBy"] == json!([name]),
        Expect::Without(members) => {
            let output = outcome["output"].as_object();
            output.is_some_and(|it| it.contains_key("name") && members.iter().all(|name| !it.contains_key(*name)))
        }
        Expect::Refused(expected) => code == Some(*expected),
        Expect::WithPaths(expected) => code == Some(*expected) && outcome["error"]["details"][0]["path"].is_string(),
        Expect::Silent(expected, sentence) => {
            error().is_some_and(|it| it.code == *expected && it.message == *sentence && it.details.is_empty())
        }
        Expect::Like(name) => is_like(find(before, name), outcome),
    };
    if as_told { Ok(()) } else { Err(format!("the story says otherwise than {}", short(outcome, code))) }
}

fn short(outcome: &Value, code: Option<ErrorCode>) -> String {
    code.map_or_else(|| outcome["status"].as_str().unwrap_or("nothing").to_owned(), |it| it.to_string())
}

fn find<'a>(steps: &'a [Step], name: &str) -> &'a Value {
    steps.iter().find(|it| it.name == name).map_or(&Value::Null, |it| &it.outcome)
}

/// Byte for byte the same, but for the name asked for and the execution id (INV-7).
fn is_like(one: &Value, two: &Value) -> bool {
    let anonymous = |it: &Value| {
        let message = it["error"]["message"].as_str().unwrap_or_default().to_owned();
        let name = message.split('`').nth(1).unwrap_or_default().to_owned();
        let mut it = it.clone();
        it["executionId"] = Value::Null;
        it["error"]["message"] = message.replace(&name, "").into();
        it
    };
    one["error"]["code"] == "CAPABILITY_NOT_FOUND" && anonymous(one) == anonymous(two)
}

/// The trail has no gaps, every execution has exactly one end, and the approver is on record.
pub(super) fn check_trail(steps: &[Step], trail: &[(i64, String)]) -> Result<(), String> {
    if !trail.iter().map(|(seq, _)| *seq).eq(1..=i64::try_from(trail.len()).unwrap_or(0)) {
        return Err("the trail has gaps".into());
    }
    let events: Vec<AuditEvent> = trail.iter().filter_map(|(_, body)| serde_json::from_str(body).ok()).collect();
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    for event in events.iter().filter(|it| it.kind.is_terminal()) {
        *ends.entry(event.envelope.execution_id.as_deref().unwrap_or_default().to_owned()).or_default() += 1;
    }
    for id in steps.iter().filter_map(|it| it.outcome["executionId"].as_str()) {
        let count = ends.get(id).copied().unwrap_or(0);
        if count != 1 {
            return Err(format!("execution `{id}` has {count} ends on the trail"));
        }
    }
    let approved =
        events.iter().any(|it| matches!(&it.kind, crate::EventKind::Approved(it) if it.approver.id == "priya"));
    if approved { Ok(()) } else { Err("the approver is not on the trail".into()) }
}
