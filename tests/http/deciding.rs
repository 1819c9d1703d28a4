//! Decisions over HTTP: who may, in which words, and that looking changes nothing.

use serde_json::json;

use super::harness::{Request, TestServer, refund};

#[tokio::test]
async fn a_decision_is_one_clear_word_or_nothing_happens() {
    let server = TestServer::new().await;
    let id = server.ask().await;
    for (body, status, path) in [
        (r#"{"decision": "maybe"}"#, 422, "/decision"),
        (r#"{"decision": true}"#, 422, "/decision"),
        (r#"{"type": "manager"}"#, 422, ""),
        (r#"{"decision": "approve", "decision": "reject"}"#, 422, "/decision"),
        (r#"{"decision": "approve", "approved": true}"#, 422, ""),
        (r#"{"decision": "approve", "type": ["manager"]}"#, 422, "/type"),
        (r#"{"decision": "approve", "type": "manager", "comment": 7}"#, 422, "/comment"),
        (r#"{"decision": "approve", "type": "human"}"#, 422, "/type"),
        ("\"approve\"", 422, ""),
        ("approve", 400, ""),
        ("", 400, ""),
    ] {
        let request = Request::new("POST", &format!("/v1/approvals/{id}/decision")).as_who("demo-priya").text(body);
        let answer = server.send(&request).await;
        let found = answer.json()["details"][0]["path"].as_str().unwrap_or("-").to_owned();
        assert_eq!((answer.status, &*found), (status, path), "{body}: {answer:?}");
    }
    assert_eq!(server.get("demo-priya", &format!("/v1/approvals/{id}")).await.json()["status"], "pending");
}

#[tokio::test]
async fn who_may_not_decide_is_told_in_the_order_of_the_design() {
    let server = TestServer::new().await;
    let id = server.ask().await;
    let decision = json!({"decision": "approve"});
    let mut lines = Vec::new();
    for (who, id) in [
        ("demo-dana", &*id),
        ("demo-nightly", &id),
        ("demo-omar", &id),
        ("", &id),
        ("demo-priya", "apr-404"),
        ("demo-priya", "%00"),
        ("demo-priya", "no%20id"),
    ] {
        let answer = server.post(who, &format!("/v1/approvals/{id}/decision"), &decision).await;
        lines.push(format!("{who} {id}: {} {}", answer.status, answer.code()));
    }
    insta::assert_snapshot!(lines.join("\n"), @r"
    demo-dana apr-1: 403 APPROVAL_SELF_APPROVAL
    demo-nightly apr-1: 404 APPROVAL_NOT_FOUND
    demo-omar apr-1: 404 APPROVAL_NOT_FOUND
     apr-1: 401 UNAUTHENTICATED
    demo-priya apr-404: 404 APPROVAL_NOT_FOUND
    demo-priya %00: 404 APPROVAL_NOT_FOUND
    demo-priya no%20id: 404 APPROVAL_NOT_FOUND
    ");
}

#[tokio::test]
async fn r26_looking_at_an_approval_in_any_way_changes_nothing_and_a_second_post_is_told_so() {
    let server = TestServer::new().await;
    let id = server.ask().await;
    let before = server.get("demo-priya", &format!("/v1/approvals/{id}")).await.text();
    for method in ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"] {
        for end in ["", "/decision", "/resume", "/withdraw"] {
            let request = Request::new(method, &format!("/v1/approvals/{id}{end}")).as_who("demo-priya");
            let mut wire = server.connect().await;
            wire.write(&request.header("Connection", "close").bytes(server.address)).await;
            let status = wire.head().await.status;
            let looks = end.is_empty() && matches!(method, "GET" | "HEAD");
            assert_eq!(status, if looks { 200 } else { 405 }, "{method} {end}");
        }
    }
    assert_eq!(server.get("demo-priya", &format!("/v1/approvals/{id}")).await.text(), before);
    let reject = json!({"decision": "reject", "type": "manager"});
    let path = format!("/v1/approvals/{id}/decision");
    assert_eq!(server.post("demo-priya", &path, &reject).await.json()["status"], "rejected");
    assert_eq!(server.post("demo-priya", &path, &reject).await.json()["status"], "rejected"); // one's own same one
    let other = server.post("demo-priya", &path, &json!({"decision": "approve"})).await;
    assert_eq!((other.status, other.code()), (409, "APPROVAL_REJECTED".into()));
}

#[tokio::test]
async fn a_request_is_taken_back_by_its_requester_and_by_nobody_who_does_not_see_it() {
    let server = TestServer::new().await;
    let id = server.ask().await;
    let path = format!("/v1/approvals/{id}/withdraw");
    for (who, body, status) in [
        ("demo-omar", "", 404),
        ("demo-dana", r#"{"sure": true}"#, 422),
        ("demo-dana", "", 200),
        ("demo-dana", "{}", 409),
    ] {
        let mut request = Request::new("POST", &path).as_who(who);
        if !body.is_empty() {
            request = request.text(body);
        }
        assert_eq!(server.send(&request).await.status, status, "{who} {body}");
    }
    let resumed = server.post("demo-dana", &format!("/v1/approvals/{id}/resume"), &json!({})).await;
    assert_eq!((resumed.status, resumed.code()), (409, "APPROVAL_WITHDRAWN".into()));
}

#[tokio::test]
async fn r19_nothing_in_a_body_approves_and_nobody_resumes_for_another() {
    let server = TestServer::new().await;
    let id = server.ask().await;
    let resume = format!("/v1/approvals/{id}/resume");
    let forged = server.post("demo-dana", &resume, &json!({"approved": true})).await;
    assert_eq!((forged.status, forged.code()), (422, "INPUT_INVALID".into()));
    server.approve(&id).await;
    for who in ["demo-priya", "demo-omar", "demo-nightly"] {
        let foreign = server.post(who, &resume, &json!({})).await;
        let unknown = server.post(who, "/v1/approvals/apr-404/resume", &json!({})).await;
        let plain = |it: &super::harness::Answer| {
            let mut problem = it.json();
            problem["executionId"] = json!(null);
            (it.status, problem)
        };
        assert_eq!(plain(&foreign), plain(&unknown), "{who}");
        assert_eq!(foreign.code(), "APPROVAL_NOT_FOUND");
    }
    assert_eq!(server.app.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn apr_4_a_token_that_is_no_persons_decides_nothing() {
    let mut tokens = super::harness::demo_tokens();
    for token in &mut tokens {
        token["human"] = json!(false);
    }
    let app =
        super::harness::demo_app(countersign::demo::builder(), &countersign::testing::Place::new().unwrap()).await;
    let (gateway, auth) = (app.gateway(), super::harness::auth(tokens).await);
    let server = TestServer::over(app, gateway, auth, countersign::Surface::Http, |_| {}).await;
    let id = server.ask().await;
    let answer =
        server.post("demo-priya", &format!("/v1/approvals/{id}/decision"), &json!({"decision": "approve"})).await;
    assert_eq!((answer.status, answer.code()), (403, "APPROVER_NOT_ELIGIBLE".into()));
}

#[tokio::test]
async fn approvals_are_listed_page_by_page_and_what_is_hidden_is_no_place_to_go_on_from() {
    let server = TestServer::new().await;
    let ask = async |who: &str, cents: u32| {
        let answer = server.invoke(who, "orders.refund", &refund(cents)).await;
        answer.json()["approval"]["id"].as_str().unwrap().to_owned()
    };
    let mut filed = Vec::new();
    for n in 0..5 {
        filed.push(ask("demo-dana", 64_900 + n).await);
        ask("demo-omar", 64_900 + n).await;
    }
    let (mut seen, mut lengths, mut after) = (Vec::new(), Vec::new(), String::new());
    loop {
        let page = server.get("demo-priya", &format!("/v1/approvals?status=pending&limit=2{after}")).await.json();
        let ids: Vec<_> = page["approvals"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
        lengths.push(ids.len());
        seen.extend(ids);
        let Some(next) = page["next"].as_str() else { break };
        assert_eq!(seen.last().unwrap(), next);
        after = format!("&after={next}");
    }
    assert_eq!((seen, lengths), (filed.iter().map(|it| json!(it)).collect(), vec![2, 2, 1]));
    let hidden = ask("demo-omar", 64_999).await;
    for odd in
        [format!("after={hidden}"), "after=apr-999".into(), "after=".into(), "limit=0".into(), "limit=201".into()]
    {
        let answer = server.get("demo-priya", &format!("/v1/approvals?{odd}")).await;
        assert_eq!((answer.status, answer.code().as_str()), (422, "INPUT_INVALID"), "{odd}");
    }
    let [one, other] = [hidden.as_str(), "apr-999"].map(|it| format!("/v1/approvals?after={it}"));
    let (one, other) = (server.get("demo-priya", &one).await.json(), server.get("demo-priya", &other).await.json());
    assert_eq!(one, other, "hidden looks as if it were not there");
}
