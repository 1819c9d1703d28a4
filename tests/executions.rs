//! Executions after the fact, uncertain commits, blocking handlers: EXE-7 to EXE-10.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use countersign::{
    AgentInvocationInfo, ErrorCode, ExecutionStatus, Identity, Outcome, Reconciliation, Resolution, SideEffect,
};
use serde_json::{Value, json};

use crate::shop::{ACT_TIMEOUT, App, act, cast, code, draft, json_of, omar, refund, refused, shop, signal};

/// An execution of which nobody knows whether it happened, under the key `k`.
async fn unknown(app: &App) -> Outcome {
    let call = app.dana().invoke("act.write", act("hang")).idempotency_key("k").start();
    let (outcome, ()) = tokio::join!(call, app.expire());
    assert_eq!(code(&outcome), "TIMEOUT");
    outcome
}

async fn again(app: &App) -> Outcome {
    app.dana().invoke("act.write", act("hang")).idempotency_key("k").await
}

#[tokio::test]
async fn exe_7_an_operator_settles_what_nobody_knows() {
    for (to, status, then) in [
        (Resolution::Completed(Some(json!({"attempt": 7}))), ExecutionStatus::Completed, "-"),
        (Resolution::Completed(None), ExecutionStatus::Completed, "-"),
        (Resolution::Failed, ExecutionStatus::Failed, "EXECUTION_FAILED"),
    ] {
        let app = App::new().await;
        let outcome = unknown(&app).await;
        let id = outcome.execution_id();
        assert_eq!(code(&again(&app).await), "OUTCOME_UNKNOWN");
        let view = app.executions(cast("olga")).resolve(id, to.clone()).await.unwrap();
        assert_eq!(view.status, status);
        let replay = again(&app).await;
        assert_eq!((code(&replay), json_of(&replay)["replayed"] == true), (then, true), "{to:?}");
        if let Resolution::Completed(output) = &to {
            assert_eq!(json_of(&replay)["output"], output.clone().unwrap_or_default());
        }
        let second = app.executions(cast("olga")).resolve(id, Resolution::NotExecuted).await;
        assert_eq!(refused(second), ErrorCode::ApprovalAlreadyDecided);
        assert_eq!(app.runs(), 1);
    }
}

#[tokio::test]
async fn exe_7_settling_has_its_own_rules() {
    let app = App::new().await;
    let outcome = unknown(&app).await;
    let id = outcome.execution_id().as_str();
    let settle = async |who: Identity, to: Resolution| refused(app.executions(who).resolve(id, to).await);
    // Never the requester, whatever the role; nobody without a permit; nobody of another tenant.
    let requester = cast("dana").role("operator");
    assert_eq!(settle(requester.into(), Resolution::Failed).await, ErrorCode::PolicyDenied);
    assert_eq!(settle(cast("priya").into(), Resolution::Failed).await, ErrorCode::PolicyDenied);
    let elsewhere = Identity::new(cast("olga")).tenant("acme");
    assert_eq!(settle(elsewhere, Resolution::Failed).await, ErrorCode::CapabilityNotFound);
    assert_eq!(settle(Identity::none(), Resolution::Failed).await, ErrorCode::Unauthenticated);
    // The owner lives and may still be at it.
    assert_eq!(settle(cast("olga").into(), Resolution::NotExecuted).await, ErrorCode::IdempotencyInProgress);
    let unfit = Resolution::Completed(Some(json!({"attempt": 100})));
    assert_eq!(settle(cast("olga").into(), unfit).await, ErrorCode::InputInvalid);
    assert_eq!(code(&again(&app).await), "OUTCOME_UNKNOWN");
    let denied = app.trail().await.entries().iter().filter(|it| it.kind == "management.denied").count();
    assert_eq!(denied, 6);
}

#[tokio::test]
async fn exe_7_a_late_finish_settles_it_and_replays() {
    let app = App::new().await;
    let outcome = unknown(&app).await;
    app.state.go_on.add_permits(1);
    let replay = eventually(async || {
        let it = again(&app).await;
        (code(&it) == "-").then_some(it)
    });
    assert_eq!(json_of(&replay.await)["output"], json!({"attempt": 1, "more": "late"}));
    insta::assert_snapshot!(app.lines_of(&outcome).await, @r#"
    exe-1 capability.requested risk=low sideEffect=write
    exe-1 capability.started keyed=true
    exe-1 capability.cancelled code=TIMEOUT executed=unknown
    exe-1 capability.reconciled applied=true by=late_finish to=completed
    "#);
}

/// Waits, in real time, for what another task is about to do.
async fn eventually<T>(it: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..500 {
        if let Some(found) = it().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never happened");
}

type Asked = Arc<Mutex<Vec<(AgentInvocationInfo, Value)>>>;

/// The shop with a write whose reconcile hook answers so.
fn hooked(answer: Reconciliation, asked: &Asked) -> countersign::EngineBuilder<crate::shop::Shop> {
    let asked = Arc::clone(asked);
    let hook = move |agent: AgentInvocationInfo, input: Value| {
        asked.lock().unwrap().push((agent, input));
        let answer = answer.clone();
        async move { answer }
    };
    let hanging = draft("act.hooked", SideEffect::Write).timeout(ACT_TIMEOUT).reconcile(hook);
    let input = json!({"type": "object", "properties": {"do": {"type": "string"}}, "additionalProperties": false});
    let output = json!({"type": "object", "properties": {"ref": {"type": "string"}}});
    let handler = |cx: countersign::Invocation<crate::shop::Shop>, _: Value| async move {
        cx.app().0.entered.add_permits(1);
        cx.cancelled().await;
        cx.app().0.asked.add_permits(1);
        std::future::pending::<Result<Value, countersign::HandlerError>>().await
    };
    shop().capability(hanging.json_handler(input, output, handler)).sweep(Duration::from_secs(6))
}

#[tokio::test]
async fn an_engine_that_nobody_has_any_more_is_gone_with_its_hooks() {
    let asked = Asked::default();
    let app = App::with(hooked(Reconciliation::NotExecuted, &asked)).await;
    assert_eq!(Arc::strong_count(&asked), 2);
    drop(app);
    assert_eq!(Arc::strong_count(&asked), 1);
}

#[tokio::test]
async fn exe_7_a_reconcile_hook_finds_out() {
    let asked = Asked::default();
    let app = App::with(hooked(Reconciliation::Completed(json!({"ref": "r-1"})), &asked)).await;
    let call = || app.dana().invoke("act.hooked", json!({"do": "x"})).idempotency_key("k");
    let running = call().start();
    let (outcome, ()) = tokio::join!(running, app.expire());
    assert_eq!(code(&outcome), "TIMEOUT");
    let replay = eventually(async || {
        app.clock().advance(Duration::from_secs(5));
        let it = call().await;
        (code(&it) == "-").then_some(it)
    });
    assert_eq!(json_of(&replay.await)["output"], json!({"ref": "r-1"}));
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1);
    assert_eq!((&asked[0].0.execution_id, &asked[0].1), (outcome.execution_id(), &json!({"do": "x"})));
    assert_eq!(
        app.trail_of(outcome.execution_id()).await.entries().last().unwrap().to_string(),
        format!("{} capability.reconciled applied=true by=hook to=completed", outcome.execution_id())
    );
}

#[tokio::test]
async fn exe_7_a_hook_that_does_not_know_is_asked_again_later_and_decides_nothing() {
    let asked = Asked::default();
    let app = App::with(hooked(Reconciliation::Unknown, &asked)).await;
    let call = || app.dana().invoke("act.hooked", json!({"do": "x"})).idempotency_key("k");
    let running = call().start();
    let (outcome, ()) = tokio::join!(running, app.expire());
    eventually(async || {
        app.clock().advance(Duration::from_mins(10));
        (asked.lock().unwrap().len() >= 2).then_some(())
    })
    .await;
    assert_eq!(code(&call().await), "OUTCOME_UNKNOWN");
    let view = app.executions(cast("dana")).show(outcome.execution_id()).await.unwrap();
    assert_eq!(view.status, ExecutionStatus::Unknown);
}

#[tokio::test]
async fn exe_8_a_lost_reply_is_looked_up_and_nothing_is_written_twice() {
    let app = App::new().await;
    for calls in 0..4 {
        app.lose_replies(1);
        let outcome = app.dana().invoke("act.write", act("ok")).idempotency_key(format!("k{calls}")).await;
        assert_eq!(code(&outcome), "-");
        assert_eq!(app.trail_of(outcome.execution_id()).await.entries().len(), 3);
    }
    app.lose_replies(1);
    let id = app.ask("ord_1").await;
    app.lose_replies(1);
    app.approvals(cast("priya")).approve(&id, "manager").await.unwrap();
    app.lose_replies(1);
    assert_eq!(code(&app.dana().resume(&id).await), "-");
    let trail = app.trail().await;
    assert_eq!(trail.entries().iter().filter(|it| it.kind == "capability.approved").count(), 1);
    assert_eq!(app.runs(), 5);
}

#[tokio::test]
async fn exe_8_a_commit_that_did_not_happen_is_tried_again() {
    let app = App::new().await;
    for calls in 0..4 {
        app.lose_commits(1);
        let outcome = app.dana().invoke("act.write", act("ok")).idempotency_key(format!("k{calls}")).await;
        assert_eq!(code(&outcome), "-");
        assert_eq!(app.trail_of(outcome.execution_id()).await.entries().len(), 3);
    }
    assert_eq!(app.runs(), 4);
}

#[tokio::test]
async fn exe_8_no_record_no_effect() {
    let app = App::new().await;
    let id = app.approved("ord_1").await;
    app.break_store(true);
    for outcome in [
        app.dana().invoke("act.write", act("ok")).idempotency_key("k").await,
        app.dana().invoke("no.such", json!({})).await,
        app.dana().resume(&id).await,
    ] {
        assert_eq!(code(&outcome), "AUDIT_UNAVAILABLE");
        assert!(outcome.error().unwrap().retryable);
    }
    assert_eq!(app.runs(), 0);
    // A read runs and is not answered.
    assert_eq!(code(&app.dana().invoke("act.read", act("ok")).await), "AUDIT_UNAVAILABLE");
    app.break_store(false);
    assert_eq!(code(&app.dana().resume(&id).await), "-");
    assert_eq!(code(&app.dana().invoke("act.write", act("ok")).idempotency_key("k").await), "-");
}

#[tokio::test]
async fn exe_9_what_ran_is_answered_and_its_record_is_retried() {
    let app = App::new().await;
    let call = || app.dana().invoke("act.write", act("hang")).idempotency_key("k");
    let running = call().start();
    signal(&app.state.entered).await;
    app.break_store(true);
    app.state.go_on.add_permits(1);
    let mut running = std::pin::pin!(running);
    let outcome = eventually_step(&app, &mut running).await;
    insta::assert_json_snapshot!(json_of(&outcome), @r#"
    {
      "status": "completed",
      "executionId": "exe-1",
      "output": {
        "attempt": 1
      },
      "replayed": false,
      "recorded": false
    }
    "#);
    let open = app.executions(cast("dana")).show(outcome.execution_id()).await.unwrap();
    assert_eq!(open.status, ExecutionStatus::Running);
    app.break_store(false);
    let replay = eventually(async || {
        app.clock().advance(Duration::from_secs(1));
        let it = call().await;
        (code(&it) == "-").then_some(it)
    });
    assert_eq!(json_of(&replay.await)["replayed"], true);
    assert_eq!(app.runs(), 1);
    assert_eq!(app.trail_of(outcome.execution_id()).await.entries().len(), 3);
}

/// Lets time pass, a second at a time, until the execution is answered.
async fn eventually_step(app: &App, running: &mut std::pin::Pin<&mut countersign::Execution>) -> Outcome {
    for _ in 0..500 {
        tokio::select! {
            biased;
            outcome = &mut *running => return outcome,
            () = tokio::time::sleep(Duration::from_millis(10)) => app.clock().advance(Duration::from_secs(1)),
        }
    }
    panic!("it was never answered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exe_10_a_handler_that_blocks_its_thread_stalls_nobody() {
    let app = App::new().await;
    let began = Instant::now();
    let blocked = app.dana().invoke("act.write", act("block")).start();
    while app.runs() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The writer and everybody else go on while a worker thread is blocked for 600 ms.
    let mut quick = 0;
    while began.elapsed() < Duration::from_millis(300) {
        assert_eq!(code(&app.caller("sam").invoke("orders.refund", refund("o", 1)).await), "-");
        quick += 1;
    }
    assert!(quick >= 3, "{quick} calls beside a blocked thread");
    assert_eq!(code(&blocked.await), "-");
}

#[tokio::test]
async fn exe_10_abandoned_handlers_are_capped_for_each_capability() {
    let app = App::new().await;
    let calls: Vec<_> = (0..32).map(|_| app.dana().invoke("act.write", act("hang")).start()).collect();
    for _ in 0..32 {
        signal(&app.state.entered).await;
    }
    app.clock().advance(ACT_TIMEOUT);
    for _ in 0..32 {
        signal(&app.state.asked).await;
    }
    app.clock().advance(Duration::from_millis(100));
    for call in calls {
        assert_eq!(code(&call.await), "TIMEOUT");
    }
    let full = app.dana().invoke("act.write", act("ok")).await;
    assert_eq!((code(&full), full.error().unwrap().retryable), ("UNAVAILABLE", true));
    assert_eq!(code(&app.dana().invoke("act.external", act("ok")).await), "-");
    app.state.go_on.add_permits(1);
    eventually(async || (code(&app.dana().invoke("act.write", act("ok")).await) == "-").then_some(())).await;
}

#[tokio::test]
async fn an_execution_is_shown_to_its_requester_and_to_readers() {
    let app = App::new().await;
    let outcome = app.dana().invoke("orders.refund", refund("ord_1", 100)).await;
    let id = outcome.execution_id().as_str();
    let show = async |who: Identity, id: &str| app.executions(who).show(id).await;
    insta::assert_json_snapshot!(show(cast("dana").into(), id).await.unwrap(), @r#"
    {
      "id": "exe-1",
      "status": "completed",
      "capabilityId": "orders.refund",
      "tenant": "default",
      "actor": {
        "id": "dana",
        "kind": "user"
      },
      "startedAt": "2026-01-01T00:00:00.000000Z",
      "endedAt": "2026-01-01T00:00:00.000000Z"
    }
    "#);
    assert!(show(cast("aldo").into(), id).await.is_ok());
    let unknown = show(cast("dana").into(), "exe-999").await.unwrap_err();
    for (who, id) in [
        (cast("sam").into(), id),
        (omar(), id),
        (cast("dana").issuer("i").into(), id),
        (cast("dana").into(), "no locator"),
    ] {
        assert_eq!(show(who, id).await.unwrap_err(), unknown);
    }
    // What never began is told by the trail.
    for (outcome, status) in [
        (app.dana().invoke("orders.refund", refund("o", 900_000)).await, ExecutionStatus::Failed),
        (app.dana().invoke("orders.refund", refund("o", 60_000)).await, ExecutionStatus::Waiting),
        (app.dana().invoke("orders.search", json!({"query": "x"})).await, ExecutionStatus::Completed),
        (app.dana().invoke("not a name", json!({})).await, ExecutionStatus::Failed),
    ] {
        let view = show(cast("dana").into(), outcome.execution_id()).await.unwrap();
        assert_eq!(view.status, status, "{outcome:?}");
    }
}

#[tokio::test]
async fn shutting_down_refuses_new_calls_and_waits_for_running_ones() {
    let app = App::new().await;
    let running = app.dana().invoke("act.write", act("hang")).start();
    signal(&app.state.entered).await;
    let (outcome, refused, ()) = tokio::join!(
        running,
        async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let refused = app.dana().invoke("act.write", act("ok")).await;
            app.state.go_on.add_permits(1);
            refused
        },
        app.engine().shutdown(Duration::from_secs(5)),
    );
    assert_eq!((code(&outcome), code(&refused)), ("-", "UNAVAILABLE"));
}

#[tokio::test]
async fn shutting_down_cancels_what_outlasts_its_patience() {
    let app = App::new().await;
    let running = app.dana().invoke("act.write", act("obey")).start();
    signal(&app.state.entered).await;
    let (outcome, (), ()) = tokio::join!(running, app.engine().shutdown(Duration::from_secs(2)), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        app.clock().advance(Duration::from_secs(2));
    });
    assert_eq!(code(&outcome), "CANCELLED");
}
