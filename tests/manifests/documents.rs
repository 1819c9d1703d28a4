//! docs/manifests.md: its manifests load, its command runs, its answers are answers, and it says all that there is.

use std::os::unix::fs::PermissionsExt as _;

use countersign::config::Config;
use countersign::{CapabilityId, Filter};
use serde_json::{Value, json};

use super::peer::{Peer, Reply};
use super::{Files, dana, fate, guarded, invoke, manifest};

const PAGE: &str = include_str!("../../docs/manifests.md");

/// The blocks of code whose fence begins so, each with the rest of its fence.
fn blocks(language: &str) -> Vec<(&'static str, &'static str)> {
    let fenced = PAGE.split("\n```").skip(1).step_by(2);
    let parts = fenced.map(|it| it.split_once('\n').unwrap());
    let of = parts.filter_map(|(fence, text)| Some((fence.strip_prefix(language)?.trim(), text)));
    of.collect()
}

/// The files that the page names.
fn written() -> Files {
    let files = Files::of(&[("capabilities/printer-pin", "1234\n")]);
    for language in ["toml", "sh"] {
        for (name, text) in blocks(language).into_iter().filter(|(name, _)| !name.is_empty()) {
            assert!(PAGE.contains(&format!("`{name}`:")), "nobody is told that this is {name}");
            files.write(name, &format!("{text}\n"));
        }
    }
    let script = files.path().join("capabilities/print.sh");
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    files
}

#[tokio::test]
async fn the_manifests_of_the_page_load_and_its_command_runs() {
    let files = written();
    let settings = guarded().endpoints(["https://app.example"]);
    let env = |name: &str| super::env(if name == "COUNTERSIGN_SIGNING_KEY" { "SIGNING_KEY" } else { name });
    let loaded = countersign::manifest::load(&files.path().join("capabilities"), &settings, &env).unwrap();
    let app = super::app(loaded).await;
    let listed = app.on_behalf_of(dana()).capabilities(Filter::all()).await.unwrap();
    let ids: Vec<CapabilityId> = listed.into_iter().map(|it| it.id).collect();
    assert_eq!(ids, [CapabilityId::from("labels.print")], "the other one is not exposed in process");
    let outcome = invoke(&app, "labels.print", json!({})).await;
    assert_eq!(fate(&app, &outcome).await, "completed \"printed\"");
}

#[test]
fn the_configuration_of_the_page_is_one() {
    let all: Vec<Config> = blocks("toml")
        .into_iter()
        .filter(|(name, _)| name.is_empty())
        .map(|(_, text)| toml::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}")))
        .collect();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].capabilities.endpoints, ["https://app.example", "http://127.0.0.1:9000"]);
    assert!(all[1].capabilities.guard.is_some());
}

#[tokio::test]
async fn the_answers_of_the_page_are_answers() {
    let mut fates = Vec::new();
    for (kind, answer) in blocks("json") {
        if kind != "answer" {
            continue;
        }
        let reply: &'static [Reply] = Box::leak(Box::new([Reply::Answer("200 OK", "application/json", answer)]));
        let peer = Peer::new(reply).await;
        let handler = format!("kind = \"http\"\nurl = \"{}\"\nsign = {{ env = \"SIGNING_KEY\" }}", peer.origin);
        let text = manifest("things.change", "write", &handler).replace("TOO_LATE", "NOT_ELIGIBLE");
        let app = Files::of(&[("a.toml", text)]).app(&guarded().endpoints([&peer.origin])).await;
        fates.push(fate(&app, &invoke(&app, "things.change", json!({})).await).await);
    }
    insta::assert_snapshot!(fates.join("\n"), @r#"
    completed {"refundId":"ref_42","gatewayRef":"gw_7"}
    EXECUTION_FAILED (It is too late.), executed unknown: failed
    EXECUTION_FAILED (The order was refunded on Monday.), executed unknown: failed
    EXECUTION_FAILED, retryable, executed no: not_executed
    FORBIDDEN, executed unknown: failed
    UNAUTHENTICATED, executed unknown: failed
    "#);
}

#[tokio::test]
async fn the_document_of_the_page_has_the_members_that_are_sent() {
    let (_, text) = blocks("json").into_iter().find(|(kind, _)| kind.is_empty()).unwrap();
    let shown: Value = serde_json::from_str(text).unwrap();
    let mut peer =
        Peer::new(&[Reply::Answer("200 OK", "application/json", r#"{"status":"completed","output":1}"#)]).await;
    let handler = format!("kind = \"http\"\nurl = \"{}\"\nsign = {{ env = \"SIGNING_KEY\" }}", peer.origin);
    let text =
        manifest("orders.refund", "write", &handler).replace("risk =", "approval = { type = \"manager\" }\nrisk =");
    let app = Files::of(&[("a.toml", text)]).app(&guarded().endpoints([&peer.origin])).await;
    let who = countersign::Identity::new(dana()).client("desk-bot");
    let call = app.on_behalf_of(who.clone()).invoke("orders.refund", shown["input"].clone());
    let approval = call.correlation_id("chat-7").await.approval().unwrap().id.clone();
    let priya = countersign::Actor::user("priya").role("manager");
    app.approvals(priya).approve(&approval, "manager").await.unwrap();
    let outcome = app.on_behalf_of(who).resume(&approval).await;
    assert_eq!(fate(&app, &outcome).await, "completed 1");
    let sent = peer.call().await.json();
    assert_eq!(shape(&sent), shape(&shown));
}

/// Every member, with the sort of its value.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(members) => members.iter().map(|(name, it)| (name.clone(), shape(it))).collect(),
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::String(_) => json!("text"),
        Value::Number(_) => json!("number"),
        Value::Null | Value::Bool(_) => value.clone(),
    }
}

#[test]
fn the_page_names_every_field() {
    let files = Files::of(&[
        ("a.toml", "zzzzzz = 1\nhandler = { kind = \"http\", zzzzzz = 1 }"),
        ("b.toml", "handler = { kind = \"command\", zzzzzz = 1 }"),
        ("c.toml", "retry = { zzzzzz = 1 }\nidempotency = { zzzzzz = 1 }\napproval = { zzzzzz = 1 }"),
        ("e.toml", "reconcile = { kind = \"http\", zzzzzz = 1 }"),
        ("d.toml", "redact = { zzzzzz = 1 }\nresource = { zzzzzz = 1 }"),
    ]);
    let told = files.problems(&guarded());
    let lists = told.lines().filter_map(|it| it.split_once("there are: "));
    let names: Vec<&str> = lists.flat_map(|(_, names)| names.split(", ")).collect();
    assert!(names.len() > 35, "{names:?}");
    let missing: Vec<_> = names.iter().filter(|it| !PAGE.contains(&format!("`{it}`"))).collect();
    // `required` of an approval is shown with its value.
    assert_eq!(missing, [&"required"]);
}

#[test]
fn the_function_of_the_page_is_the_examples() {
    let all = blocks("python");
    assert_eq!(all.len(), 1);
    assert!(include_str!("../../examples/python/server.py").contains(all[0].1), "{}", all[0].1);
}

#[test]
fn the_readmes_of_the_examples_configure_what_their_manifests_need() {
    for (readme, manifest) in [
        (
            include_str!("../../examples/python/README.md"),
            include_str!("../../examples/python/capabilities/stock_get.toml"),
        ),
        (
            include_str!("../../examples/typescript/README.md"),
            include_str!("../../examples/typescript/capabilities/tickets_get.toml"),
        ),
    ] {
        let text = readme.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let config: Config = toml::from_str(text).unwrap();
        assert!(manifest.contains(&format!("url = \"{}/", config.capabilities.endpoints[0])), "{text}");
    }
}
