//! The application's own code may panic anywhere; an execution has its end all the same (INV-13).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use countersign::testing::{Place, TestApp};
use countersign::{
    Actor, AgentInvocationInfo, ApprovalHandler, ApprovalView, HandlerError, InlineDecision, Invocation,
    Reconciliation, SideEffect,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::shop::{ACT_TIMEOUT, ALLOW_ALL, App, Shop, act, code, draft, json_of, refund, shop, signal, texts};

#[tokio::test]
async fn in_a_handler_before_it_returns_its_future() {
    let early = |_: Invocation<Shop>, input: Value| {
        assert!(input["calm"] == true, "secret-cause");
        async { Ok::<_, HandlerError>(json!({})) }
    };
    let schema = json!({"type": "object", "additionalProperties": false, "properties": {"calm": {"type": "boolean"}}});
    let capability = draft("act.early", SideEffect::Write).json_handler(schema, json!({}), early);
    let app = App::with(shop().capability(capability)).await;
    let call = |calm: bool| app.dana().invoke("act.early", json!({"calm": calm})).idempotency_key("k");
    let outcome = call(false).await;
    assert_eq!(code(&outcome), "EXECUTION_FAILED");
    insta::assert_snapshot!(app.lines_of(&outcome).await, @r#"
    exe-1 capability.requested risk=low sideEffect=write
    exe-1 capability.started keyed=true
    exe-1 capability.failed attempts=1 code=EXECUTION_FAILED executed=unknown retryable=false stage=handler
    "#);
    assert_eq!(json_of(&call(false).await)["replayed"], true);
}

#[tokio::test]
async fn in_the_context_factory() {
    let builder = countersign::Engine::builder()
        .capability(
            draft("ping", SideEffect::Write).handler(|_: Invocation<u32>, (): ()| async { Ok::<_, HandlerError>(1) }),
        )
        .policies(texts(ALLOW_ALL));
    let place = Place::new().unwrap();
    let made = AtomicU32::new(0);
    let context = move |_: &countersign::Identity| {
        assert!(made.fetch_add(1, Ordering::Relaxed) > 0, "secret-cause");
        7
    };
    let app = TestApp::open(builder, context, &place).await.unwrap();
    let call = || app.on_behalf_of(Actor::user("dana")).invoke("ping", json!({})).idempotency_key("k");
    let outcome = call().await;
    assert_eq!((code(&outcome), outcome.error().unwrap().retryable), ("EXECUTION_FAILED", true));
    insta::assert_snapshot!(app.trail_of(outcome.execution_id()).await, @r#"
    exe-1 capability.requested risk=low sideEffect=write
    exe-1 capability.failed attempts=0 code=EXECUTION_FAILED executed=no retryable=true stage=idempotency
    "#);
    assert_eq!(code(&call().await), "-");
}

/// Panics when asked.
struct Nervous;

#[async_trait::async_trait]
impl ApprovalHandler for Nervous {
    async fn ask(&self, _: &ApprovalView) -> Option<InlineDecision> {
        panic!("secret-cause")
    }
}

#[tokio::test]
async fn in_the_inline_approver() {
    let app = App::with(shop().approver(Nervous)).await;
    let outcome = app.dana().invoke("orders.refund", refund("o", 60_000)).await;
    assert_eq!(code(&outcome), "?");
    insta::assert_snapshot!(app.lines_of(&outcome).await, @r#"
    exe-1 capability.requested risk=high sideEffect=write
    exe-1 capability.approval_requested approvalId=apr-1 existing=false expiresAt=+3600s suspended=false
    exe-1 capability.approval_requested approvalId=apr-1 existing=true expiresAt=+3600s suspended=true
    "#);
}

#[tokio::test]
async fn in_a_reconcile_hook() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let hook = move |_: AgentInvocationInfo, _: Value| {
        let first = count.fetch_add(1, Ordering::Relaxed) == 0;
        assert!(!first, "secret-cause");
        async { Reconciliation::NotExecuted }
    };
    let hangs = |cx: Invocation<Shop>, _: Value| async move {
        cx.app().0.entered.add_permits(1);
        cx.cancelled().await;
        cx.app().0.asked.add_permits(1);
        Err::<Value, _>(HandlerError::other("stopped"))
    };
    let schema = json!({"type": "object", "additionalProperties": false});
    let capability = draft("act.hooked", SideEffect::Write).timeout(ACT_TIMEOUT).reconcile(hook);
    let app =
        App::with(shop().capability(capability.json_handler(schema, json!({}), hangs)).sweep(Duration::from_secs(6)))
            .await;
    let call = app.dana().invoke("act.hooked", json!({})).idempotency_key("k").start();
    signal(&app.state.entered).await;
    app.clock().advance(ACT_TIMEOUT);
    assert_eq!(code(&call.await), "TIMEOUT");
    // The worker lives on and asks again.
    for _ in 0..200 {
        app.clock().advance(Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(5)).await;
        if asked.load(Ordering::Relaxed) > 1 {
            return;
        }
    }
    panic!("the hook was asked {} times", asked.load(Ordering::Relaxed));
}

/// A type with a bug in its decoder.
#[derive(JsonSchema)]
struct Fragile {
    #[expect(dead_code, reason = "only decoding matters")]
    text: String,
}

impl<'de> Deserialize<'de> for Fragile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let text = value["text"].as_str().unwrap_or_default().to_owned();
        assert!(text != "canary-fragile", "secret-cause");
        Ok(Self { text })
    }
}

#[tokio::test]
async fn in_decoding_the_input() {
    let fragile = |_: Invocation<Shop>, _: Fragile| async { Ok::<_, HandlerError>(json!({})) };
    let app = App::with(shop().capability(draft("act.fragile", SideEffect::Write).handler(fragile))).await;
    let outcome = app.dana().invoke("act.fragile", json!({"text": "canary-fragile"})).await;
    assert_eq!(code(&outcome), "INPUT_INVALID");
    assert_eq!(app.trail_of(outcome.execution_id()).await.entries().len(), 2);
    assert_eq!(code(&app.dana().invoke("act.fragile", json!({"text": "x"})).await), "-");
}

#[tokio::test]
async fn in_middleware() {
    let nervous = |_: Invocation<Shop>, next: countersign::Next<Shop>| {
        assert!(next.input()["do"] != "fail", "secret-cause");
        next.run()
    };
    let app = App::with(shop().middleware(nervous)).await;
    let outcome = app.dana().invoke("act.read", act("fail")).await;
    assert_eq!(code(&outcome), "EXECUTION_FAILED");
    assert_eq!(app.trail_of(outcome.execution_id()).await.entries().len(), 3);
}
