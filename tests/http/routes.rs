//! What each route answers.

use std::fmt::Write as _;
use std::time::Duration;

use countersign::testing::Place;
use countersign::{PolicySource, Surface, demo};
use serde_json::{Value, json};

use super::harness::{Request, TestServer, auth, demo_app, demo_tokens, refund, token};
use crate::shop::{App, cast, signal};

#[tokio::test]
async fn a_small_refund_is_answered_with_its_output() {
    let server = TestServer::new().await;
    let answer = server.invoke("demo-dana", "orders.refund", &refund(1_900)).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let output = r#"{"refundId":"ref_1","orderId":"ord_42","amountCents":1900,"refundedCents":1900,"approvedBy":[],"reason":"It arrived broken."}"#;
    let whole = format!(r#"{{"status":"completed","executionId":"exe-1","output":{output},"replayed":false}}"#);
    assert_eq!(answer.text(), whole);
    insta::assert_snapshot!(server.app.trail().await.without_policies().to_string(), @r"
    exe-1 capability.requested risk=high sideEffect=write
    exe-1 capability.started keyed=false
    exe-1 capability.completed attempts=1
    ");
    assert!(server.app.trail_of("exe-1").await.entries().iter().all(|it| it.surface == "http"));
}

#[tokio::test]
async fn a_large_refund_waits_for_a_manager_and_runs_when_it_is_resumed() {
    let server = TestServer::new().await;
    let asked = server.invoke("demo-dana", "orders.refund", &refund(64_900)).await;
    assert_eq!((asked.status, asked.header("location")), (202, Some("/v1/approvals/apr-1")));
    assert_eq!(asked.json()["approval"]["types"], json!(["manager"]));
    let seen = server.get("demo-priya", "/v1/approvals/apr-1").await.json();
    assert_eq!((&seen["status"], &seen["input"]), (&json!("pending"), &refund(64_900)));
    let listed = server.get("demo-priya", "/v1/approvals?status=pending").await.json();
    assert_eq!(listed, json!({ "approvals": [seen] }));
    let early = server.post("demo-dana", "/v1/approvals/apr-1/resume", &json!({})).await;
    assert_eq!((early.status, early.code()), (409, "APPROVAL_PENDING".into()));
    let decided = server.post("demo-priya", "/v1/approvals/apr-1/decision", &json!({"decision": "approve"})).await;
    assert_eq!((decided.status, decided.text()), (200, r#"{"id":"apr-1","status":"approved"}"#.into()));
    let ran = server.send(&Request::new("POST", "/v1/approvals/apr-1/resume").as_who("demo-dana")).await;
    assert_eq!((ran.status, &ran.json()["output"]["approvedBy"]), (200, &json!(["priya"])));
    let again = server.post("demo-dana", "/v1/approvals/apr-1/resume", &json!({})).await;
    assert_eq!((again.status, again.code()), (409, "APPROVAL_CONSUMED".into()));
    assert_eq!(again.json()["details"], json!([{"executionId": ran.json()["executionId"]}]));
    assert_eq!(server.app.effects(), ["orders.refund #1"]);
}

#[tokio::test]
async fn every_refusal_has_its_status_its_code_and_one_shape() {
    let server = TestServer::new().await;
    let call = |who: &str, id: &str, body: &str| {
        Request::new("POST", &format!("/v1/capabilities/{id}/invoke")).as_who(who).text(body)
    };
    let input = |it: Value| json!({ "input": it }).to_string();
    let mut lines = String::new();
    for (who, id, body) in [
        ("", "orders.refund", input(refund(100))),
        ("no-such-token", "orders.refund", input(refund(100))),
        ("demo-dana", "no.such", input(json!({}))),
        ("demo-dana", "orders.purge", input(json!({}))),
        ("demo-dana", "reports.export", input(json!({"month": "2026-06"}))),
        ("demo-dana", "orders.refund", input(refund(500_000))),
        ("demo-dana", "orders.refund", input(json!({"orderID": "ord_42"}))),
        ("demo-dana", "orders.refund", r#"{"input": {"#.into()),
        ("demo-dana", "orders.refund", String::new()),
        ("demo-dana", "orders.refund", r#"{"input": {}, "approved": true}"#.into()),
        ("demo-dana", "orders.refund", input(json!({"orderId": "ord_44", "amountCents": 1, "reason": "It is late."}))),
        ("demo-dana", "orders.get", input(json!({"orderId": "ord_13"}))),
        ("demo-nightly", "orders.refund", "nonsense".into()),
        ("", "no.such", "nonsense".into()),
    ] {
        let answer = server.send(&call(who, id, &body)).await;
        let problem = answer.json();
        assert_eq!(problem["type"], format!("urn:countersign:problem:{}", answer.code()));
        let challenge = answer.header("www-authenticate").unwrap_or("-");
        let (message, details) = (problem["detail"].as_str().unwrap(), &problem["details"]);
        writeln!(lines, "{} {} {challenge} | {message} {details}", answer.status, answer.code()).unwrap();
    }
    insta::assert_snapshot!(lines, @r#"
    401 UNAUTHENTICATED Bearer | The caller is not authenticated. []
    401 UNAUTHENTICATED Bearer error="invalid_token" | The caller is not authenticated. []
    404 CAPABILITY_NOT_FOUND - | There is no capability `no.such`. []
    404 CAPABILITY_NOT_FOUND - | There is no capability `orders.purge`. []
    404 CAPABILITY_NOT_FOUND - | There is no capability `reports.export`. []
    403 POLICY_DENIED - | Refunds of $5,000 and more are made by the finance department. []
    422 INPUT_INVALID - | The input is not valid. [{"path":"/amountCents","keyword":"required"},{"path":"/orderID","keyword":"additionalProperties","nearest":"orderId"},{"path":"/orderId","keyword":"required"},{"path":"/reason","keyword":"required"}]
    400 INPUT_INVALID - | The input is not valid. [{"path":"","keyword":"not JSON"}]
    422 INPUT_INVALID - | The input is not valid. [{"path":"","keyword":"required","nearest":"input"}]
    422 INPUT_INVALID - | The input is not valid. [{"path":"","keyword":"envelope","nearest":"input"}]
    422 EXECUTION_FAILED - | A cancelled order was never paid. [{"code":"NOT_ELIGIBLE"}]
    500 EXECUTION_FAILED - | The operation failed. []
    403 POLICY_DENIED - | No policy permits this call. []
    401 UNAUTHENTICATED Bearer | The caller is not authenticated. []
    "#);
}

#[tokio::test]
async fn a_problem_says_what_an_agent_acts_on() {
    let server = TestServer::new().await;
    let answer = server.invoke("demo-dana", "orders.refund", &refund(500_000)).await;
    let whole = r#"{"type":"urn:countersign:problem:POLICY_DENIED","title":"Policy denied","status":403,"detail":"Refunds of $5,000 and more are made by the finance department.","code":"POLICY_DENIED","retryable":false,"executionId":"exe-1","outcome":"failed","details":[]}"#;
    assert_eq!(answer.text(), whole);
    assert!(include_str!("../../docs/http.md").contains(whole), "the page on HTTP shows another one");
}

#[tokio::test]
async fn r8_what_is_unknown_unexposed_or_hidden_looks_the_same() {
    let server = TestServer::new().await;
    let mut texts = Vec::new();
    for id in ["no.such", "orders.purge", "reports.export"] {
        let answer = server.invoke("demo-dana", id, &json!({})).await;
        let id_of_this = answer.json()["executionId"].as_str().unwrap().to_owned();
        texts.push((answer.status, answer.text().replace(id, "ID").replace(&id_of_this, "EXE")));
    }
    assert!(texts.iter().all(|it| it == &texts[0] && it.0 == 404), "{texts:?}");
}

#[tokio::test]
async fn a_listing_is_what_the_caller_could_get_allowed_and_its_filter_is_strict() {
    let server = TestServer::new().await;
    let ids = async |path: &str| {
        let listed = server.get("demo-dana", path).await.json();
        let all = listed["capabilities"].as_array().unwrap().iter();
        all.map(|it| it["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    let all = "customers.search customers.get orders.search orders.get orders.refund messages.draft messages.send";
    assert_eq!(ids("/v1/capabilities").await, all);
    assert_eq!(ids("/v1/capabilities?tag=money&tag=customers&id=orders.refund&id=no.such").await, "orders.refund");
    for path in
        ["/v1/capabilities?tags=money", "/v1/approvals?status=open", "/v1/approvals?status=pending&status=expired"]
    {
        let answer = server.get("demo-dana", path).await;
        assert_eq!((answer.status, answer.code()), (422, "INPUT_INVALID".into()), "{path}");
    }
    assert_eq!(server.get("", "/v1/capabilities").await.status, 401);
    assert_eq!(server.get("", "/v1/approvals").await.status, 401);
}

#[tokio::test]
async fn a_repeated_call_with_its_key_is_a_replay_however_the_key_is_written() {
    let server = TestServer::new().await;
    let call = |key: &[&str], cents| {
        let mut request = Request::new("POST", "/v1/capabilities/orders.refund/invoke").as_who("demo-dana");
        for line in key {
            request = request.header("Idempotency-Key", line);
        }
        request.json(&json!({ "input": refund(cents) }))
    };
    let first = server.send(&call(&["k-1"], 100)).await;
    let again = server.send(&call(&["\"k-1\""], 100)).await;
    let marks = [&first, &again]
        .map(|it| (it.status, it.header("idempotent-replayed").is_some(), it.json()["replayed"] == true));
    assert_eq!(marks, [(200, false, false), (200, true, true)]);
    assert_eq!(first.json()["output"], again.json()["output"]);
    let reused = server.send(&call(&["k-1"], 101)).await;
    assert_eq!((reused.status, reused.code()), (422, "IDEMPOTENCY_KEY_REUSED".into()));
    for key in [&["a", "b"][..], &["\"a"], &[""], &["a b"], &["\"a\";b=c"]] {
        let invalid = server.send(&call(key, 100)).await;
        assert_eq!((invalid.status, invalid.code()), (400, "IDEMPOTENCY_KEY_INVALID".into()), "{key:?}");
        let id = invalid.json()["executionId"].as_str().unwrap().to_owned();
        let trail = server.app.trail_of(&id).await;
        assert_eq!(trail.entries().last().unwrap().data["code"], "IDEMPOTENCY_KEY_INVALID");
    }
    assert_eq!(server.app.effects().len(), 1);
}

#[tokio::test]
async fn a_failure_is_replayed_with_its_mark_too() {
    let server = TestServer::new().await;
    let late = json!({ "input": {"orderId": "ord_44", "amountCents": 1, "reason": "It is late."} });
    let call = Request::new("POST", "/v1/capabilities/orders.refund/invoke").as_who("demo-dana");
    let call = call.header("Idempotency-Key", "k-2").json(&late);
    let (first, again) = (server.send(&call).await, server.send(&call).await);
    assert_eq!((first.status, first.header("idempotent-replayed")), (422, None));
    assert_eq!((again.status, again.header("idempotent-replayed")), (422, Some("true")));
    assert_eq!(again.json()["details"], json!([{"code": "NOT_ELIGIBLE"}]));
}

/// The shop of the tests, as Dana, over a surface that it exposes everything on.
async fn shop() -> TestServer<App> {
    let (app, dana) = (App::new().await, cast("dana"));
    let (gateway, auth) = (app.gateway(), auth(vec![token("dana", &dana, "default", None, true)]).await);
    TestServer::over(app, gateway, auth, Surface::Direct, |_| {}).await
}

#[tokio::test]
async fn exe_9_what_ran_and_is_not_on_record_yet_says_so() {
    let server = shop().await;
    let mut wire = server.connect().await;
    let call = Request::new("POST", "/v1/capabilities/act.write/invoke").as_who("dana");
    wire.write(&call.json(&json!({"input": {"do": "hang"}})).bytes(server.address)).await;
    signal(&server.app.state.entered).await;
    server.app.break_store(true);
    server.app.state.go_on.add_permits(1);
    let mut answer = std::pin::pin!(wire.answer());
    // The reply waits five seconds for its record: as soon as the handler has returned.
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut answer => break answer,
            () = tokio::time::sleep(Duration::from_millis(5)) => server.app.clock().advance(Duration::from_secs(1)),
        }
    };
    server.app.break_store(false);
    assert_eq!((answer.status, answer.header("countersign-recorded")), (200, Some("false")), "{answer:?}");
    assert_eq!(answer.json()["recorded"], false);
}

#[tokio::test]
async fn a_call_whose_first_one_still_runs_is_told_when_to_ask_again() {
    let server = shop().await;
    let call = Request::new("POST", "/v1/capabilities/act.write/invoke").as_who("dana");
    let call = call.header("Idempotency-Key", "k1").json(&json!({"input": {"do": "hang"}}));
    let mut wire = server.connect().await;
    wire.write(&call.bytes(server.address)).await;
    signal(&server.app.state.entered).await;
    let early = server.send(&call).await;
    assert_eq!((early.status, early.code()), (409, "IDEMPOTENCY_IN_PROGRESS".into()));
    assert_eq!((early.header("retry-after"), &early.json()["retryable"]), (Some("1"), &json!(true)));
    server.app.state.go_on.add_permits(1);
    assert_eq!(wire.answer().await.status, 200);
    assert_eq!(server.send(&call).await.header("idempotent-replayed"), Some("true"));
}

#[tokio::test]
async fn the_conversations_own_id_is_on_record() {
    let server = TestServer::new().await;
    let call = Request::new("POST", "/v1/capabilities/orders.search/invoke").as_who("demo-dana");
    let call = call.header("X-Correlation-Id", "talk-17").json(&json!({"input": {"query": "lamp"}}));
    assert_eq!(server.send(&call).await.status, 200);
    let trail = server.app.trail_of("exe-1").await;
    assert!(trail.entries().iter().all(|it| it.correlation_id.as_deref() == Some("talk-17")), "{trail}");
}

#[tokio::test]
async fn exe_11_an_execution_is_its_requesters_to_see_and_its_output_only_while_the_call_is_allowed() {
    let place = Place::new().unwrap();
    let app = demo_app(demo::builder(), &place).await;
    let gateway = app.gateway();
    let server = TestServer::over(app, gateway, auth(demo_tokens()).await, Surface::Http, |_| {}).await;
    let call = Request::new("POST", "/v1/capabilities/orders.refund/invoke").as_who("demo-dana");
    let call = call.header("Idempotency-Key", "k-1").json(&json!({ "input": refund(64_900) }));
    assert_eq!(server.send(&call).await.status, 202);
    server.approve("apr-1").await;
    let ran = server.post("demo-dana", "/v1/approvals/apr-1/resume", &json!({})).await.json();
    let path = format!("/v1/executions/{}", ran["executionId"].as_str().unwrap());
    let shown = server.get("demo-dana", &path).await.json();
    assert_eq!((&shown["status"], &shown["output"]), (&json!("completed"), &ran["output"]));
    assert_eq!(server.get("demo-priya", &path).await.json()["output"], Value::Null); // she may read the trail
    for who in ["demo-omar", "demo-nightly"] {
        let hidden = server.get(who, &path).await;
        assert_eq!((hidden.status, hidden.code()), (404, "CAPABILITY_NOT_FOUND".into()), "{who}");
    }
    assert_eq!(server.get("", &path).await.status, 401);
    let without =
        demo::POLICIES.map(|(name, text)| (name.into(), text.replace("     Action::\"orders.refund\",\n", "")));
    drop(demo_app(demo::builder().policies(PolicySource::Files(without.to_vec())), &place).await);
    assert_eq!(server.get("demo-dana", &path).await.json()["output"], Value::Null);
}

#[tokio::test]
async fn settling_is_strict_about_what_it_is_told() {
    let server = TestServer::new().await;
    for (body, status) in [
        (r#"{"as": "done"}"#, 422),
        (r#"{"as": 7}"#, 422),
        ("{}", 422),
        (r#"{"as": "failed", "output": {}}"#, 422),
        (r#"{"as": "failed", "as": "completed"}"#, 422),
        (r#"{"as": "failed", "because": "x"}"#, 422),
        ("[]", 422),
        ("{", 400),
        ("", 400),
        (r#"{"as": "failed"}"#, 404),
    ] {
        let request = Request::new("POST", "/v1/executions/exe-9/resolve").as_who("demo-priya").text(body);
        assert_eq!(server.send(&request).await.status, status, "{body}");
    }
}
