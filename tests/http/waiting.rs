//! `Prefer: wait`: a call is held until somebody decides, and answered as it stands when nobody does.

use std::time::Duration;

use countersign::testing::Place;
use countersign::{Surface, demo};
use serde_json::json;

use super::harness::{PATIENCE, Request, TestServer, Wire, auth, demo_app, demo_tokens, refund};

/// A refund that waits for a manager, and for an answer at most so many seconds.
fn call(seconds: &str) -> Request {
    let call = Request::new("POST", "/v1/capabilities/orders.refund/invoke").as_who("demo-dana");
    call.header("Prefer", &format!("wait={seconds}")).json(&json!({ "input": refund(64_900) }))
}

/// Sends a call and returns once it waits. The server works on one call at a time: others are served only if a waiting
/// one keeps nobody from working.
async fn waits<A>(server: &TestServer<A>, request: &Request) -> Wire {
    let mut wire = server.connect().await;
    wire.write(&request.bytes(server.address)).await;
    let seen = async {
        while server.get("demo-priya", "/v1/approvals/apr-1").await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.expect("the call waits");
    wire
}

async fn narrow() -> TestServer {
    TestServer::tuned(|it| it.max_calls = 1).await
}

#[tokio::test]
async fn a_call_that_waits_is_answered_by_the_request_itself_once_it_is_approved() {
    let server = narrow().await;
    let mut wire = waits(&server, &call("30")).await;
    server.approve("apr-1").await;
    let answer = wire.answer().await;
    assert_eq!((answer.status, answer.header("preference-applied")), (200, Some("wait=30")));
    assert_eq!(answer.json()["output"]["approvedBy"], json!(["priya"]));
    assert_eq!(server.app.effects(), ["orders.refund #1"]);
    wire.write(&Request::new("GET", "/healthz").bytes(server.address)).await;
    assert_eq!(wire.answer().await.status, 200); // the connection goes on
}

#[tokio::test]
async fn a_call_that_waits_is_told_that_it_was_refused_or_taken_back() {
    for (who, end, body, code) in [
        ("demo-priya", "decision", json!({"decision": "reject"}), "APPROVAL_REJECTED"),
        ("demo-dana", "withdraw", json!({}), "APPROVAL_WITHDRAWN"),
    ] {
        let server = narrow().await;
        let mut wire = waits(&server, &call("30")).await;
        assert_eq!(server.post(who, &format!("/v1/approvals/apr-1/{end}"), &body).await.status, 200);
        let answer = wire.answer().await;
        assert_eq!((answer.status, answer.code()), (409, code.into()));
        assert_eq!(server.app.effects(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn the_end_of_a_wait_decides_nothing_and_no_wait_is_longer_than_fifty_seconds() {
    let server = narrow().await;
    let mut wire = waits(&server, &call("3600")).await;
    server.app.clock().advance(Duration::from_secs(50));
    let answer = wire.answer().await;
    assert_eq!((answer.status, answer.header("preference-applied")), (202, Some("wait=50")));
    assert_eq!(answer.header("location"), Some("/v1/approvals/apr-1"));
    assert_eq!(server.get("demo-priya", "/v1/approvals/apr-1").await.json()["status"], "pending");
    assert_eq!(server.send(&call("0")).await.status, 202);
}

#[tokio::test]
async fn a_decision_in_another_process_is_seen_within_half_a_second() {
    let place = Place::new().unwrap();
    let (app, other) = (demo_app(demo::builder(), &place).await, demo_app(demo::builder(), &place).await);
    let gateway = app.gateway();
    let narrow = |it: &mut countersign::http::HttpSettings| it.max_calls = 1;
    let server = TestServer::over(app, gateway, auth(demo_tokens()).await, Surface::Http, narrow).await;
    let mut wire = waits(&server, &call("30")).await;
    other.approvals(demo::actor("priya").unwrap()).approve("apr-1", "manager").await.unwrap();
    let mut answer = std::pin::pin!(wire.answer());
    // Whoever looks may have looked just before: then the next look sees it.
    let answer = loop {
        server.app.clock().advance(Duration::from_millis(500));
        tokio::select! {
            biased;
            answer = &mut answer => break answer,
            () = tokio::time::sleep(Duration::from_millis(5)) => {}
        }
    };
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn what_was_approved_can_be_waited_for_where_it_is_resumed() {
    let server = narrow().await;
    let id = server.ask().await;
    let resume =
        Request::new("POST", &format!("/v1/approvals/{id}/resume")).as_who("demo-dana").header("Prefer", "wait=30");
    let mut wire = waits(&server, &resume).await;
    server.approve(&id).await;
    assert_eq!(wire.answer().await.status, 200);
}

#[tokio::test]
async fn more_calls_than_may_wait_are_answered_at_once() {
    let server = TestServer::tuned(|it| (it.max_calls, it.max_waits) = (1, 1)).await;
    let mut first = waits(&server, &call("30")).await;
    let second = server.send(&call("30")).await;
    assert_eq!((second.status, second.header("preference-applied")), (202, None));
    server.approve("apr-1").await;
    assert_eq!(first.answer().await.status, 200);
}

#[tokio::test]
async fn a_server_that_stops_answers_whoever_waits_as_it_stands() {
    let mut server = narrow().await;
    let mut wire = waits(&server, &call("30")).await;
    server.stop();
    let answer = wire.answer().await;
    assert_eq!((answer.status, answer.json()["status"].as_str()), (202, Some("approval_required")));
    server.stopped().await;
}
