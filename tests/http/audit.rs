//! `GET /v1/audit/events`: who reads which part of the log, and page by page.

use countersign::testing::stored_events;
use serde_json::{Value, json};

use super::harness::{Answer, TestServer, refund};

/// Place and type of each event of a page.
fn told(answer: &Answer) -> Vec<(i64, String)> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let page = answer.json();
    let event = |it: &Value| (it["seq"].as_i64().unwrap(), it["type"].as_str().unwrap().to_owned());
    page["events"].as_array().unwrap().iter().map(event).collect()
}

fn types(answer: &Answer) -> Vec<String> {
    told(answer).into_iter().map(|it| it.1).collect()
}

/// A read of Dana's, and one of another tenant's.
async fn some_calls(server: &TestServer) {
    assert_eq!(server.invoke("demo-dana", "orders.get", &json!({"orderId": "ord_42"})).await.status, 200);
    assert_eq!(server.invoke("demo-omar", "orders.search", &json!({"query": "a"})).await.status, 200);
}

#[tokio::test]
async fn a_page_has_the_stored_events_of_the_readers_tenant_with_their_places() {
    let server = TestServer::new().await;
    some_calls(&server).await;
    let page = server.get("demo-priya", "/v1/audit/events").await;
    let stored = stored_events(server.app.place().database()).await;
    let of_acme = stored.iter().filter(|it| it.1.envelope.tenant == "acme");
    let expected: Vec<Value> = of_acme
        .map(|(seq, event)| {
            let mut event = serde_json::to_value(event).unwrap();
            event["seq"] = (*seq).into();
            event
        })
        .collect();
    let end = stored.last().unwrap().0;
    assert_eq!(page.json(), json!({"events": expected, "upTo": end}));
    assert_eq!(types(&page), ["capability.requested", "capability.started", "capability.completed"]);
    assert!(stored.iter().any(|it| it.1.envelope.tenant == "globex"));
}

#[tokio::test]
async fn pages_follow_each_other_without_gaps_or_repetitions() {
    let server = TestServer::new().await;
    for _ in 0..3 {
        some_calls(&server).await;
    }
    let whole = told(&server.get("demo-priya", "/v1/audit/events?limit=1000").await);
    assert_eq!(whole.len(), 9);
    let (mut pages, mut after) = (Vec::new(), 0);
    loop {
        let page = server.get("demo-priya", &format!("/v1/audit/events?after={after}&limit=2")).await;
        pages.extend(told(&page));
        match page.json()["next"].as_i64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(pages, whole);
}

#[tokio::test]
async fn filters_narrow_a_page_and_never_widen_it() {
    let server = TestServer::new().await;
    some_calls(&server).await;
    let refused = server.invoke("demo-dana", "orders.refund", &refund(600_000)).await;
    let execution = refused.json()["executionId"].as_str().unwrap().to_owned();
    let ask = async |query: &str| types(&server.get("demo-priya", &format!("/v1/audit/events?{query}")).await);
    assert_eq!(ask(&format!("execution={execution}")).await, ["capability.requested", "capability.denied"]);
    assert_eq!(ask("type=capability.denied").await, ["capability.denied"]);
    assert_eq!(ask("capability=orders.get&type=capability.started").await, ["capability.started"]);
    assert_eq!(ask("actor=dana").await.len(), 5);
    assert_eq!(ask("actor=omar").await, [""; 0]);
    assert_eq!(ask("since=2026-01-01T00:00:00Z").await.len(), 5);
    assert_eq!(ask("until=2026-01-01T00:00:00Z").await, [""; 0]);
    assert_eq!(ask("after=100000").await, [""; 0]);
}

#[tokio::test]
async fn whoever_policy_does_not_let_is_refused_on_record() {
    let server = TestServer::new().await;
    for (who, status, code) in [
        ("demo-dana", 403, "POLICY_DENIED"),
        ("demo-omar", 403, "POLICY_DENIED"),
        ("", 401, "UNAUTHENTICATED"),
        ("demo-nobody", 401, "UNAUTHENTICATED"),
    ] {
        for path in ["/v1/audit/events", "/v1/audit/events/stream"] {
            let answer = server.get(who, path).await;
            assert_eq!((answer.status, answer.code().as_str()), (status, code), "{who} {path}");
        }
    }
    let denied = stored_events(server.app.place().database()).await;
    let denied = denied.iter().filter(|it| it.1.kind.name() == "management.denied");
    let told: Vec<_> = denied.map(|it| serde_json::to_value(&it.1.kind).unwrap()["data"].clone()).collect();
    let of = |code: &str| json!({"action": "read_audit", "code": code});
    let codes =
        ["POLICY_DENIED", "POLICY_DENIED", "POLICY_DENIED", "POLICY_DENIED", "UNAUTHENTICATED", "UNAUTHENTICATED"];
    assert_eq!(told, codes.map(of));
}

#[tokio::test]
async fn what_nobody_knows_or_can_mean_is_refused() {
    let server = TestServer::new().await;
    for query in [
        "limits=1",
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=ten",
        "limit=",
        "limit=1&limit=2",
        "after=-1",
        "after=1e3",
        "after=99999999999999999999",
        "since=yesterday",
        "until=2026-13-01T00:00:00Z",
        "type=",
        "actor=%00",
        "tenant=globex",
        "=1",
    ] {
        let answer = server.get("demo-priya", &format!("/v1/audit/events?{query}")).await;
        assert_eq!((answer.status, answer.code().as_str()), (422, "INPUT_INVALID"), "{query}");
        let streamed = server.get("demo-priya", &format!("/v1/audit/events/stream?{query}")).await;
        assert_eq!((streamed.status, streamed.code().as_str()), (422, "INPUT_INVALID"), "{query}");
    }
}

#[tokio::test]
async fn without_the_store_nothing_is_read() {
    let server = TestServer::new().await;
    server.app.break_store(true);
    let refused = server.get("demo-dana", "/v1/audit/events").await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "AUDIT_UNAVAILABLE"));
    server.app.break_store(false);
}
