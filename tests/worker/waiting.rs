//! `Prefer: wait` on a capability that runs on approval: of the call that waits and the worker, one runs it.

use std::time::Duration;

use countersign::{ApprovalState, Surface};
use serde_json::{Value, json};

use super::{App, Says, Today, another_runs, cast, open, refund, state_of, told, until};
use crate::http::harness::{PATIENCE, Request, TestServer, Wire, auth, token};

/// How long a call waits. A worker may come 10 s later.
const WAIT: Duration = Duration::from_secs(40);

/// Works on one call at a time, so that others are served only once a call waits; one call may wait.
async fn server() -> TestServer<App> {
    let (app, _) = open(&Today::says(Says::Known)).await;
    let tokens = ["dana", "priya"].map(|it| token(&format!("demo-{it}"), &cast(it), "default", None, true));
    let gateway = app.gateway();
    let narrow = |it: &mut countersign::http::HttpSettings| (it.max_calls, it.max_waits) = (1, 1);
    TestServer::over(app, gateway, auth(tokens.into()).await, Surface::Http, narrow).await
}

fn call(capability: &str, input: &Value) -> Request {
    let call = Request::new("POST", &format!("/v1/capabilities/{capability}/invoke")).as_who("demo-dana");
    call.json(&json!({ "input": input }))
}

/// A call that waits for Priya.
async fn waiting() -> (TestServer<App>, Wire) {
    let server = server().await;
    let request = call("orders.refund", &refund("ord_1", 60_000)).header("Prefer", "wait=40");
    let mut wire = server.connect().await;
    wire.write(&request.bytes(server.address)).await;
    seen(async || server.get("demo-priya", "/v1/approvals/apr-1").await.status == 200).await;
    (server, wire)
}

async fn seen(holds: impl AsyncFn() -> bool) {
    let held = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, held).await.expect("it comes to hold");
}

/// Whatever the worker had to look at, it has looked at: the first request ran once, and is spent.
async fn ran_once(server: &TestServer<App>) {
    until(&server.app, async || server.app.runs() == 1).await;
    until(&server.app, async || state_of(&server.app, "apr-1").await == ApprovalState::Consumed).await;
    another_runs(&server.app, "ord_2").await;
    until(&server.app, async || told(&server.app, "capability.completed").await == 2).await;
    let started = told(&server.app, "capability.started approvalId=apr-1").await;
    assert_eq!((started, server.app.runs()), (1, 2));
}

#[tokio::test]
async fn apr_8_what_is_approved_while_its_caller_waits_is_the_caller_s_and_runs_once() {
    let (server, mut wire) = waiting().await;
    server.approve("apr-1").await;
    let answer = wire.answer().await;
    assert_eq!((answer.status, &answer.json()["output"]), (200, &json!({"order": "ord_1"})));
    ran_once(&server).await;
}

#[tokio::test]
async fn apr_8_what_is_approved_after_its_caller_hung_up_is_the_worker_s_and_runs_once() {
    let (server, wire) = waiting().await;
    drop(wire);
    // The server has noticed when the one place of those who wait is free.
    let other = call("orders.search", &json!({"query": "x"})).header("Prefer", "wait=0");
    seen(async || server.send(&other).await.header("preference-applied").is_some()).await;
    let before = server.app.runs();
    server.approve("apr-1").await;
    assert_eq!(server.app.runs(), before, "it is left to whoever said that they would wait");
    let refunds = async || told(&server.app, "capability.started approvalId=apr-1").await;
    until(&server.app, async || refunds().await == 1).await;
    until(&server.app, async || state_of(&server.app, "apr-1").await == ApprovalState::Consumed).await;
    another_runs(&server.app, "ord_2").await;
    assert_eq!((refunds().await, server.app.runs()), (1, before + 2));
}

#[tokio::test]
async fn apr_8_what_is_approved_after_the_wait_is_the_worker_s_and_runs_once() {
    let (server, mut wire) = waiting().await;
    server.app.clock().advance(WAIT);
    let answer = wire.answer().await;
    assert_eq!((answer.status, answer.json()["status"].as_str()), (202, Some("approval_required")));
    server.approve("apr-1").await;
    ran_once(&server).await;
}
