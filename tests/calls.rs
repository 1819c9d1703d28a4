//! Cases as files: `fixtures/calls/*.yaml`, each with the outcomes of its steps and the whole trail as its snapshot.
//!
//! A file names who calls what with which input, and what happened before. See `fixtures/calls/README.md`.

use std::path::Path;
use std::time::Duration;

use countersign::{Caller, Execution, Identity, JsonInput, Surface, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::shop::{ACT_TIMEOUT, App, cast, json_of, signal};
use crate::tamper::alter;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Case {
    /// One line: what the case shows.
    pub(crate) about: String,
    #[serde(default)]
    pub(crate) before: Vec<Step>,
    #[serde(flatten)]
    pub(crate) call: Call,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Call {
    /// One of the cast, or `nobody`.
    pub(crate) actor: String,
    #[serde(default)]
    pub(crate) tenant: Option<String>,
    #[serde(default)]
    pub(crate) surface: Option<Surface>,
    #[serde(default)]
    pub(crate) client: Option<String>,
    /// Absent for a resume.
    #[serde(default)]
    pub(crate) capability: Option<String>,
    #[serde(default)]
    pub(crate) input: Option<Value>,
    #[serde(default)]
    pub(crate) input_text: Option<String>,
    #[serde(default)]
    pub(crate) key: Option<String>,
    #[serde(default)]
    pub(crate) correlation: Option<String>,
    /// An approval's id, `apr-1`, instead of a capability.
    #[serde(default)]
    pub(crate) resume: Option<String>,
    /// `deadline` or `cancel`: what ends a handler that hangs.
    #[serde(default)]
    pub(crate) until: Option<Until>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Until {
    Deadline,
    /// The deadline, and the handler obeys.
    ObeyedDeadline,
    Cancel,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Step {
    Call(Box<Call>),
    /// A call whose handler hangs, and that nobody waits for.
    Start(Box<Call>),
    /// A statement on the database file, behind the engine's back.
    Alter(String),
    Approve(Decision),
    Reject(Decision),
    Withdraw(Decision),
    AdvanceSeconds(u64),
    BreakStore(bool),
    FailContexts(bool),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Decision {
    pub(crate) by: String,
    pub(crate) id: String,
    #[serde(default, rename = "type")]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) comment: Option<String>,
}

#[derive(Serialize)]
struct Told {
    about: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<Value>,
    outcome: Value,
    effects: Vec<String>,
    trail: countersign::testing::Trail,
}

#[test]
fn calls() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    insta::glob!("../fixtures/calls", "*.yaml", |path| {
        insta::assert_yaml_snapshot!(runtime.block_on(told(path)));
    });
}

async fn told(path: &Path) -> Told {
    let text = std::fs::read_to_string(path).unwrap();
    let case: Case = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let app = App::new().await;
    let mut before = Vec::new();
    for step in &case.before {
        before.extend(take(&app, step).await);
    }
    let outcome = made(&app, &case.call).await;
    app.break_store(false);
    let trail = app.trail().await.without_policies().without_hashes();
    Told { about: case.about, before, outcome, effects: app.effects(), trail }
}

fn caller(app: &App, call: &Call) -> Caller {
    let mut identity = if call.actor == "nobody" { Identity::none() } else { Identity::new(cast(&call.actor)) };
    if let Some(tenant) = &call.tenant {
        identity = identity.tenant(tenant.as_str());
    }
    if let Some(client) = &call.client {
        identity = identity.client(client);
    }
    app.over(call.surface.unwrap_or(Surface::Direct), identity)
}

/// A call that has begun.
fn begun(app: &App, call: &Call) -> Execution {
    let caller = caller(app, call);
    if let Some(approval) = &call.resume {
        return caller.resume(approval.as_str());
    }
    let input = match (&call.input, &call.input_text) {
        (Some(value), None) => value.clone().into(),
        (None, Some(text)) => JsonInput::text(text.as_str()),
        other => panic!("one of input and inputText: {other:?}"),
    };
    let mut invoke = caller.invoke(call.capability.as_deref().unwrap(), input);
    if let Some(key) = &call.key {
        invoke = invoke.idempotency_key(key.as_str());
    }
    if let Some(id) = &call.correlation {
        invoke = invoke.correlation_id(id);
    }
    invoke.start()
}

pub(crate) async fn made(app: &App, call: &Call) -> Value {
    let execution = begun(app, call);
    match call.until {
        None => json_of(&execution.await),
        Some(Until::Deadline) => json_of(&tokio::join!(execution, app.expire()).0),
        Some(Until::ObeyedDeadline) => {
            signal(&app.state.entered).await;
            app.clock().advance(ACT_TIMEOUT);
            json_of(&execution.await)
        }
        Some(Until::Cancel) => {
            signal(&app.state.entered).await;
            execution.cancel();
            json_of(&execution.await)
        }
    }
}

pub(crate) async fn take(app: &App, step: &Step) -> Option<Value> {
    match step {
        Step::Call(call) => return Some(made(app, call).await),
        Step::Start(call) => {
            drop(begun(app, call));
            signal(&app.state.entered).await;
        }
        Step::Alter(statement) => assert_eq!(alter(&app.place().database(), statement).await, 1),
        Step::Approve(it) => return Some(decided(app, it, Some(Verdict::Approve)).await),
        Step::Reject(it) => return Some(decided(app, it, Some(Verdict::Reject)).await),
        Step::Withdraw(it) => return Some(decided(app, it, None).await),
        Step::AdvanceSeconds(seconds) => app.clock().advance(Duration::from_secs(*seconds)),
        Step::BreakStore(broken) => app.break_store(*broken),
        Step::FailContexts(fail) => app.fail_contexts(*fail),
    }
    None
}

async fn decided(app: &App, it: &Decision, verdict: Option<Verdict>) -> Value {
    let approvals = app.approvals(cast(&it.by));
    let decided = match verdict {
        Some(verdict) => {
            approvals.decide(&it.id, it.kind.as_deref().unwrap_or("manager"), verdict, it.comment.as_deref()).await
        }
        None => approvals.withdraw(&it.id).await,
    };
    match decided {
        Ok(decided) => json!(decided),
        Err(error) => json!({"status": "failed", "error": error}),
    }
}
