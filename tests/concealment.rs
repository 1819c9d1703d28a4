//! Unknown, unexposed and hidden look the same; the trail tells them apart (INV-7).

use countersign::{Filter, Identity, JsonInput, Surface};
use serde_json::json;

use crate::logs::{logged, watch_logs};
use crate::shop::{App, cast, json_of, refund};

#[tokio::test]
async fn r8_three_refusals_are_byte_identical_and_the_fourth_is_a_denial() {
    let app = App::new().await;
    let mcp = app.over(Surface::Mcp, cast("dana"));
    let mut shown = Vec::new();
    for (caller, name) in [
        (&mcp, "no.such"),
        (&mcp, "orders.purge"),
        (&mcp, "payouts.send"), // not on this surface
        (&mcp, "ghost.read"),
        (&mcp, "orders.refund"), // hidden on this surface
    ] {
        let outcome = caller.invoke(name, refund("ord_1", 900_000)).idempotency_key("k").await;
        let text = serde_json::to_string(&outcome).unwrap();
        shown.push(text.replace(name, "NAME").replace(outcome.execution_id().as_str(), "EXE"));
    }
    shown.dedup();
    insta::assert_snapshot!(shown.join("\n"), @r#"{"status":"failed","executionId":"EXE","error":{"code":"CAPABILITY_NOT_FOUND","message":"There is no capability `NAME`.","retryable":false,"details":[]}}"#);
    let denied = app.dana().invoke("orders.refund", refund("ord_1", 900_000)).await;
    insta::assert_json_snapshot!(denied, @r#"
    {
      "status": "failed",
      "executionId": "exe-6",
      "error": {
        "code": "POLICY_DENIED",
        "message": "Refunds of $5,000 and more are not possible.",
        "retryable": false,
        "details": []
      }
    }
    "#);
    insta::assert_snapshot!(app.lines().await, @r#"
    exe-1 capability.requested
    exe-1 capability.denied publicCode=CAPABILITY_NOT_FOUND reason=unknown
    exe-2 capability.requested risk=critical sideEffect=destructive
    exe-2 capability.denied publicCode=CAPABILITY_NOT_FOUND reason=not_exposed
    exe-3 capability.requested risk=critical sideEffect=external
    exe-3 capability.denied publicCode=CAPABILITY_NOT_FOUND reason=not_exposed
    exe-4 capability.requested risk=low sideEffect=read
    exe-4 capability.denied publicCode=CAPABILITY_NOT_FOUND reason=hidden
    exe-5 capability.requested risk=high sideEffect=write
    exe-5 capability.denied publicCode=CAPABILITY_NOT_FOUND reason=hidden
    exe-6 capability.requested risk=high sideEffect=write
    exe-6 capability.denied publicCode=POLICY_DENIED reason=policy_denied
    "#);
}

#[tokio::test]
async fn r8_no_answer_names_a_policy_or_a_place() {
    let app = App::new().await;
    for outcome in [
        app.dana().invoke("orders.refund", refund("o", 900_000)).await,
        app.dana().invoke("ghost.read", json!({})).await,
        app.dana().invoke("sums.add", json!({"a": 9_007_199_254_740_991_i64})).await,
        app.caller("stranger").invoke("orders.refund", refund("o", 1)).await,
        app.dana().invoke("orders.refund", refund("o", 60_000)).await,
    ] {
        let text = json_of(&outcome).to_string();
        for secret in ["cedar", "policy `", "refund-", "sums-", "nobody-sees", "/src", "forbid", "permit("] {
            assert!(!text.contains(secret), "`{secret}` in {text}");
        }
    }
}

#[tokio::test]
async fn a_name_that_follows_no_grammar_is_neither_echoed_nor_recorded() {
    watch_logs();
    let app = App::new().await;
    for name in [
        "Canary.Upper",
        "canary-malformed.Name",
        "canary name",
        "",
        "canary..x",
        &"canary".repeat(40),
        "canary\u{202e}",
        "canary/../x",
    ] {
        let outcome = app.dana().invoke(name, json!({})).await;
        assert_eq!(outcome.error().unwrap().message, "There is no such capability.");
    }
    let trail = serde_json::to_string(&app.trail().await).unwrap();
    assert!(!trail.to_lowercase().contains("canary"), "{trail}");
    assert_eq!(logged("canary-malformed"), Vec::<String>::new());
}

#[tokio::test]
async fn nobody_is_told_anything_without_an_actor() {
    let app = App::new().await;
    let nobody = app.on_behalf_of(Identity::none());
    let mut shown = Vec::new();
    for name in ["no.such", "orders.purge", "orders.refund", "ping", "ghost.read"] {
        let outcome = nobody.invoke(name, JsonInput::text("{")).await;
        shown.push(serde_json::to_string(&outcome).unwrap().replace(outcome.execution_id().as_str(), "EXE"));
    }
    shown.dedup();
    insta::assert_snapshot!(shown.join("\n"), @r#"{"status":"failed","executionId":"EXE","error":{"code":"UNAUTHENTICATED","message":"The caller is not authenticated.","retryable":false,"details":[]}}"#);
    for malformed in ["", "  ", "a\nb", &"x".repeat(513)] {
        let outcome = app.on_behalf_of(countersign::Actor::user(malformed)).invoke("ping", json!({})).await;
        assert_eq!(crate::shop::code(&outcome), "UNAUTHENTICATED", "{malformed:?}");
        let listed = app.on_behalf_of(countersign::Actor::user(malformed)).capabilities(Filter::all()).await;
        assert_eq!(listed.unwrap_err().code.as_str(), "UNAUTHENTICATED");
    }
}
