//! Asking: the same call again, expiry, caps, what capabilities ask for themselves: APR-9, APR-11, APR-12.

use std::time::Duration;

use countersign::testing::{Place, START};
use countersign::{Actor, ApprovalState, ErrorCode, Timestamp};
use serde_json::json;

use crate::shop::{App, POLICIES, asked, cast, code, json_of, refund, refused, shop, shop_without_policies, texts};

#[tokio::test]
async fn apr_9_the_same_call_with_its_key_finds_its_request() {
    let app = App::new().await;
    let call = |key: &str| app.dana().invoke("orders.refund", refund("ord_1", 60_000)).idempotency_key(key);
    let first = asked(&call("k1").await);
    let again = call("k1").await;
    assert_eq!(asked(&again), first); // pending: the same one
    assert_ne!(asked(&call("k2").await), first);
    let trail = app.trail_of(again.execution_id()).await;
    assert_eq!(trail.entries().last().unwrap().data["existing"], true);
    app.approvals(cast("priya")).approve(&first, "manager").await.unwrap();
    let ran = call("k1").await; // approved: presented
    assert_eq!(json_of(&ran)["output"]["approvers"], json!(["priya"]));
    assert_eq!(json_of(&call("k1").await)["replayed"], true);
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn apr_9_without_a_key_every_call_is_its_own() {
    let app = App::new().await;
    assert_ne!(app.ask("ord_1").await, app.ask("ord_1").await);
}

#[tokio::test]
async fn apr_9_a_refusal_answers_repetitions_for_a_day() {
    let app = App::new().await;
    let call = |key: &str| app.dana().invoke("orders.refund", refund("ord_1", 60_000)).idempotency_key(key);
    let (rejected, withdrawn, superseded) = (asked(&call("r").await), asked(&call("w").await), asked(&call("o").await));
    app.approvals(cast("priya")).reject(&rejected, "manager").await.unwrap();
    app.approvals(cast("dana")).withdraw(&withdrawn).await.unwrap();
    app.approvals(cast("olga")).withdraw(&superseded).await.unwrap();
    assert_eq!(code(&call("r").await), "APPROVAL_REJECTED");
    assert_eq!(code(&call("w").await), "APPROVAL_WITHDRAWN");
    assert_ne!(asked(&call("o").await), superseded); // an operator's withdraw is no answer to the requester
    app.clock().advance(Duration::from_hours(24) - Duration::from_micros(1));
    assert_eq!(code(&call("r").await), "APPROVAL_REJECTED");
    app.clock().advance(Duration::from_micros(1));
    assert_ne!(asked(&call("r").await), rejected);
    assert_ne!(asked(&call("w").await), withdrawn);
}

#[tokio::test]
async fn apr_9_an_expired_request_and_a_consumed_one_with_a_free_key_are_asked_again() {
    let app = App::new().await;
    let call = |key: &str| app.dana().invoke("orders.refund", refund("ord_1", 60_000)).idempotency_key(key);
    let expired = asked(&call("k").await);
    app.clock().advance(Duration::from_hours(1));
    assert_ne!(asked(&call("k").await), expired);
}

#[tokio::test]
async fn apr_9_two_processes_file_one_request() {
    let place = Place::new().unwrap();
    let (one, two) = (App::open(shop(), &place).await, App::open(shop(), &place).await);
    for round in 0..5 {
        let call = |app: &App| {
            app.dana().invoke("orders.refund", refund("ord_1", 60_000)).idempotency_key(format!("k{round}")).start()
        };
        let (first, second) = tokio::join!(call(&one), call(&two));
        assert_eq!(asked(&first), asked(&second));
    }
    assert_eq!(one.approvals(cast("priya")).list(None).await.unwrap().len(), 5);
}

#[tokio::test]
async fn apr_11_at_the_instant_of_expiry_it_is_expired() {
    let app = App::new().await;
    let (early, late) = (app.approved("ord_1").await, app.approved("ord_2").await);
    let undecided = app.ask("ord_3").await;
    let view = app.approvals(cast("priya")).show(&late).await.unwrap();
    assert_eq!(view.expires_at, Timestamp(START.0 + 3_600_000_000));
    app.clock().advance(Duration::from_hours(1) - Duration::from_micros(1));
    assert_eq!(code(&app.dana().resume(&early).await), "-");
    app.clock().advance(Duration::from_micros(1));
    assert_eq!(code(&app.dana().resume(&late).await), "APPROVAL_EXPIRED");
    assert_eq!(refused(app.approvals(cast("priya")).approve(&undecided, "manager").await), ErrorCode::ApprovalExpired);
    assert_eq!(app.approvals(cast("priya")).show(&undecided).await.unwrap().status, ApprovalState::Expired);
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn apr_11_nobody_in_particular_neither_asks_nor_decides() {
    let app = App::new().await;
    let outcome = app.caller("anonymous").invoke("gifts.send", json!({})).await;
    insta::assert_json_snapshot!(outcome, @r#"
    {
      "status": "failed",
      "executionId": "exe-1",
      "error": {
        "code": "POLICY_DENIED",
        "message": "No policy permits this call.",
        "retryable": false,
        "details": []
      }
    }
    "#);
    insta::assert_snapshot!(app.lines().await, @r#"
    exe-1 capability.requested risk=low sideEffect=external
    exe-1 capability.denied publicCode=POLICY_DENIED reason=policy_denied
    "#);
    assert_eq!(app.approvals(cast("priya")).list(None).await.unwrap(), []);
    let id = app.ask("ord_1").await;
    let nobody = Actor::anonymous().role("manager");
    assert_eq!(refused(app.approvals(nobody).approve(&id, "manager").await), ErrorCode::ApproverNotEligible);
}

#[tokio::test]
async fn apr_11_one_requester_has_at_most_a_hundred_pending() {
    let app = App::new().await;
    let calls: Vec<_> =
        (0..100).map(|it| app.dana().invoke("orders.refund", refund(&format!("o{it}"), 60_000)).start()).collect();
    let mut ids = Vec::new();
    for call in calls {
        ids.push(asked(&call.await));
    }
    let one_more = app.dana().invoke("orders.refund", refund("one-more", 60_000)).await;
    insta::assert_json_snapshot!(one_more, @r#"
    {
      "status": "failed",
      "executionId": "exe-101",
      "error": {
        "code": "RATE_LIMITED",
        "message": "Too many requests are waiting for approval.",
        "retryable": true,
        "details": []
      }
    }
    "#);
    // Others are not held up, and a decided one makes room.
    assert_eq!(code(&app.caller("sam").invoke("orders.refund", refund("o", 60_000)).await), "?");
    app.approvals(cast("priya")).reject(&ids[0], "manager").await.unwrap();
    assert_eq!(code(&app.dana().invoke("orders.refund", refund("one-more", 60_000)).await), "?");
}

#[tokio::test]
async fn apr_12_a_capabilitys_own_rule_is_a_gate_like_any_other() {
    let app = App::new().await;
    let outcome = app.dana().invoke("messages.send", json!({"to": "lee", "text": "canary-text"})).await;
    let approval = outcome.approval().unwrap();
    assert_eq!(approval.types, ["confirmation"]);
    assert_eq!(approval.expires_at, Timestamp(START.0 + 30 * 60_000_000));
    let trail = app.trail_of(outcome.execution_id()).await;
    insta::assert_json_snapshot!(trail.entries().last().unwrap().data["policies"], @r#"
    [
      {
        "effect": "gate",
        "id": "capability:messages.send:approval"
      },
      {
        "effect": "permit",
        "id": "support-may-write"
      }
    ]
    "#);
    // What an approver sees has the display redaction; what runs is the exact input.
    let view = app.approvals(cast("priya")).show(&approval.id).await.unwrap();
    assert_eq!(view.input, Some(json!({"to": "lee"})));
    app.approvals(cast("priya")).approve(&approval.id, "confirmation").await.unwrap();
    assert_eq!(json_of(&app.dana().resume(&approval.id).await)["output"], json!({"to": "lee: 11 bytes"}));
}

#[tokio::test]
async fn apr_12_a_type_that_nobody_could_approve_is_a_start_up_error() {
    let orphan = POLICIES
        .replace(r#"context.requirement == "finance""#, r#"context.requirement == "nobody""#)
        .replace(r#"permit (principal in Role::"admin""#, r#"forbid (principal in Role::"admin""#);
    let built = shop_without_policies().policies(texts(&orphan));
    let place = Place::new().unwrap();
    let error = built.database(format!("sqlite:{}", place.database().display())).build().await.err().unwrap();
    insta::assert_snapshot!(error, @r#"
    the engine cannot be built, 1 problem
      `shop.cedar:57:1`: nobody can give an approval of type `finance` (policy `payouts-need-finance`); permit `Countersign::Action::"approve"` when `context.requirement == "finance"`
    "#);
}
