//! One decision everywhere: every file of `fixtures/calls/`, step by step, through the library, over HTTP, and through the
//! binary that asks a server, with the same outcomes, codes, effects and trails.
//!
//! An adapter hard-codes its surface, and most fixtures are about `direct`; so that nothing but the way in differs, the
//! server under test claims the surface that the fixture names. What a fixture does and the other ways have no word for
//! stays out: cancelling a call from outside (`until: cancel`), for a client that hangs up stops nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use countersign::{Actor, Surface};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::harness::{Answer, PATIENCE, Request, TestServer, Wire, auth, token};
use crate::calls::{Call, Case, Decision, Step, Until, made, take};
use crate::shop::{ACT_TIMEOUT, App, cast, signal};

/// What a case came to.
#[derive(Debug, PartialEq)]
struct Told {
    before: Vec<Value>,
    outcome: Value,
    effects: Vec<String>,
    trail: Value,
}

/// The way in that is compared with the library.
#[derive(Clone, Copy, Debug)]
enum Way {
    Http,
    Binary,
}

#[test]
fn every_call_is_decided_alike_through_the_library_over_http_and_by_the_binary() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut compared = 0;
    insta::glob!("../../fixtures/calls", "*.yaml", |path| {
        let case = read(path);
        if all(&case).iter().any(|it| matches!(it.until, Some(Until::Cancel))) {
            return;
        }
        let library = runtime.block_on(by_library(&case));
        for way in [Way::Http, Way::Binary] {
            assert_eq!(runtime.block_on(through(way, &case)), library, "{way:?} {}", path.display());
        }
        compared += 1;
    });
    assert!(compared > 50, "{compared}");
}

fn read(path: &Path) -> Case {
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Every call of a case.
fn all(case: &Case) -> Vec<&Call> {
    let before = case.before.iter().filter_map(|it| match it {
        Step::Call(it) | Step::Start(it) => Some(&**it),
        _ => None,
    });
    before.chain([&case.call]).collect()
}

async fn by_library(case: &Case) -> Told {
    let app = App::new().await;
    let mut before = Vec::new();
    for step in &case.before {
        before.extend(take(&app, step).await);
    }
    let outcome = made(&app, &case.call).await;
    told(&app, before, outcome).await
}

async fn told(app: &App, before: Vec<Value>, outcome: Value) -> Told {
    app.break_store(false);
    let trail = serde_json::to_value(app.trail().await.without_policies()).unwrap();
    Told { before, outcome, effects: app.effects(), trail }
}

async fn through(way: Way, case: &Case) -> Told {
    let app = App::new().await;
    let surface = case.call.surface.unwrap_or(Surface::Direct);
    let mut tokens = BTreeMap::new();
    for call in all(case) {
        add(&mut tokens, &call.actor, call.tenant.as_deref(), call.client.as_deref());
    }
    for step in &case.before {
        if let Step::Approve(it) | Step::Reject(it) | Step::Withdraw(it) = step {
            add(&mut tokens, &it.by, None, None);
        }
    }
    let gateway = app.gateway();
    let server = TestServer::over(app, gateway, auth(tokens.into_values().collect()).await, surface, |_| {}).await;
    let (mut before, mut open) = (Vec::new(), Vec::new());
    for step in &case.before {
        match step {
            Step::Call(call) => before.push(answered(&server, way, call).await),
            Step::Start(call) => {
                open.push(Sent::new(&server, way, call).await);
                signal(&server.app.state.entered).await;
            }
            Step::Approve(it) => before.push(decided(&server, way, it, "approve").await),
            Step::Reject(it) => before.push(decided(&server, way, it, "reject").await),
            Step::Withdraw(it) => before.push(decided(&server, way, it, "withdraw").await),
            Step::Alter(_) | Step::AdvanceSeconds(_) | Step::BreakStore(_) | Step::FailContexts(_) => {
                assert_eq!(take(&server.app, step).await, None);
            }
        }
    }
    let outcome = answered(&server, way, &case.call).await;
    told(&server.app, before, outcome).await
}

/// A call on its way; given up when it is dropped.
enum Sent {
    Wire(Wire),
    Child(Child),
}

impl Sent {
    async fn new(server: &TestServer<App>, way: Way, call: &Call) -> Self {
        match way {
            Way::Http => Self::Wire(sent(server, call).await),
            Way::Binary => Self::Child(typed(server, call).spawn().unwrap()),
        }
    }

    async fn outcome(self) -> Value {
        match self {
            Self::Wire(mut wire) => outcome_of(&wire.answer().await),
            Self::Child(child) => document(child).await,
        }
    }
}

async fn answered(server: &TestServer<App>, way: Way, call: &Call) -> Value {
    let outcome = Sent::new(server, way, call).await.outcome();
    match call.until {
        None => outcome.await,
        Some(Until::Deadline) => tokio::join!(outcome, server.app.expire()).0,
        Some(Until::ObeyedDeadline) => {
            let obeys = async {
                signal(&server.app.state.entered).await;
                server.app.clock().advance(ACT_TIMEOUT);
            };
            tokio::join!(outcome, obeys).0
        }
        Some(Until::Cancel) => panic!("there is no such request"),
    }
}

async fn decided(server: &TestServer<App>, way: Way, it: &Decision, action: &str) -> Value {
    match way {
        Way::Http => decision_of(&posted(server, it, action).await),
        Way::Binary => {
            let mut command = command(server, &it.by, None, None, &["approvals", action, &it.id]);
            if action != "withdraw" {
                command.args(["--type", it.kind.as_deref().unwrap_or("manager")]);
            }
            if let Some(comment) = &it.comment {
                command.args(["--comment", comment]);
            }
            let told = document(command.spawn().unwrap()).await;
            if told.get("error").is_some() { json!({"status": "failed", "error": told["error"]}) } else { told }
        }
    }
}

/// A command of the binary, in one party's name.
fn command(
    server: &TestServer<App>,
    actor: &str,
    tenant: Option<&str>,
    client: Option<&str>,
    arguments: &[&str],
) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
    command.args(arguments).args(["--json", "--server", &format!("http://{}", server.address)]);
    if actor != "nobody" {
        command.args(["--token", &name(actor, tenant, client)]);
    }
    let variables = std::env::vars().map(|it| it.0).filter(|it| it.starts_with("COUNTERSIGN_"));
    variables.for_each(|it| {
        command.env_remove(it);
    });
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// A call as somebody types it.
fn typed(server: &TestServer<App>, call: &Call) -> Command {
    let command =
        |arguments: &[&str]| command(server, &call.actor, call.tenant.as_deref(), call.client.as_deref(), arguments);
    if let Some(id) = &call.resume {
        return command(&["approvals", "resume", id]);
    }
    let input = call.input_text.clone().or_else(|| call.input.as_ref().map(Value::to_string)).unwrap();
    let mut command = command(&["invoke", call.capability.as_deref().unwrap(), "--input", &input]);
    if let Some(key) = &call.key {
        command.args(["--idempotency-key", key]);
    }
    if let Some(id) = &call.correlation {
        command.args(["--correlation-id", id]);
    }
    command
}

/// What a command printed.
async fn document(child: Child) -> Value {
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("the command ends").unwrap();
    let told = serde_json::from_slice(&output.stdout);
    told.unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The token of one party: its name says all of it.
fn name(actor: &str, tenant: Option<&str>, client: Option<&str>) -> String {
    format!("{actor}.{}.{}", tenant.unwrap_or("default"), client.unwrap_or("-"))
}

fn add(tokens: &mut BTreeMap<String, Value>, actor: &str, tenant: Option<&str>, client: Option<&str>) {
    if actor != "nobody" {
        let (name, actor): (_, Actor) = (name(actor, tenant, client), cast(actor));
        let human = actor.kind == countersign::ActorKind::User;
        tokens.insert(name.clone(), token(&name, &actor, tenant.unwrap_or("default"), client, human));
    }
}

fn request(path: &str, actor: &str, tenant: Option<&str>, client: Option<&str>) -> Request {
    let request = Request::new("POST", path);
    if actor == "nobody" { request } else { request.as_who(&name(actor, tenant, client)) }
}

/// Whatever a path cannot hold.
fn escaped(text: &str) -> String {
    let plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'-' | b'_');
    text.bytes().map(|it| if plain(it) { char::from(it).to_string() } else { format!("%{it:02X}") }).collect()
}

async fn sent(server: &TestServer<App>, call: &Call) -> Wire {
    let path = match (&call.resume, &call.capability) {
        (Some(id), _) => format!("/v1/approvals/{}/resume", escaped(id)),
        (None, Some(id)) => format!("/v1/capabilities/{}/invoke", escaped(id)),
        (None, None) => panic!("one of capability and resume"),
    };
    let mut request = request(&path, &call.actor, call.tenant.as_deref(), call.client.as_deref());
    if let Some(key) = &call.key {
        request = request.header("Idempotency-Key", key);
    }
    if let Some(id) = &call.correlation {
        request = request.header("X-Correlation-Id", id);
    }
    let input = call.input_text.clone().or_else(|| call.input.as_ref().map(Value::to_string));
    if let Some(input) = input {
        request = request.text(&format!(r#"{{"input": {input}}}"#));
    }
    let mut wire = server.connect().await;
    wire.write(&request.bytes(server.address)).await;
    wire
}

async fn posted(server: &TestServer<App>, it: &Decision, action: &str) -> Answer {
    let (end, body) = if action == "withdraw" {
        (action, json!({}))
    } else {
        let mut body = json!({"decision": action, "type": it.kind.as_deref().unwrap_or("manager")});
        if let Some(comment) = &it.comment {
            body["comment"] = json!(comment);
        }
        ("decision", body)
    };
    let path = format!("/v1/approvals/{}/{end}", escaped(&it.id));
    server.send(&request(&path, &it.by, None, None).json(&body)).await
}

fn error_of(problem: &Value) -> Value {
    json!({
        "code": problem["code"], "message": problem["detail"], "retryable": problem["retryable"],
        "details": problem["details"],
    })
}

/// The outcome that an answer tells.
fn outcome_of(answer: &Answer) -> Value {
    if answer.status < 300 {
        return answer.json();
    }
    let problem = answer.json();
    let mut outcome = json!({
        "status": problem["outcome"], "executionId": problem["executionId"], "error": error_of(&problem),
    });
    if answer.header("idempotent-replayed") == Some("true") {
        outcome["replayed"] = json!(true);
    }
    outcome
}

/// What became of a decision.
fn decision_of(answer: &Answer) -> Value {
    if answer.status == 200 { answer.json() } else { json!({"status": "failed", "error": error_of(&answer.json())}) }
}
