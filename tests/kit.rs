//! The test kit itself: what fails tells why, and trails are the same on every run.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::testing::{Answer, TestApp, TestApprover, filters};
use countersign::{
    Actor, ApprovalRule, Capability, Engine, EngineBuilder, ErrorCode, HandlerError, Invocation, PolicySource, Risk,
    Surface,
};
use serde_json::{Value, json};

const POLICIES: &str = r#"
    @id("support") permit (principal in Role::"support", action in Action::"orders.*", resource);
    @id("large") @approval("manager") @quorum("2") @reason("It is large.")
    forbid (principal, action == Action::"orders.refund", resource) when { context.input.amount > 500 };
    @id("managers") permit (principal in Role::"manager", action in
        [Countersign::Action::"approve", Countersign::Action::"reject"], resource);"#;

async fn refund(_: Invocation, input: Value) -> Result<Value, HandlerError> {
    Ok(json!({"refunded": input["amount"], "internal": "canary-of-the-output"}))
}

fn shop() -> EngineBuilder {
    let input = json!({"type": "object", "additionalProperties": false, "required": ["amount"],
        "properties": {"amount": {"type": "integer"}, "note": {"type": "string"}}});
    let output = json!({"type": "object",
        "properties": {"refunded": {"type": "integer"}, "internal": {"type": "string"}}});
    let refund = Capability::write("orders.refund")
        .risk(Risk::High)
        .description("Refunds.")
        .expose([Surface::Direct, Surface::Http])
        .redact_output(["/internal"])
        .json_handler(input, output, refund);
    let staged = Capability::read("orders.search").risk(Risk::Low).description("Searches.").expose([Surface::Http]);
    let staged = staged
        .approval(ApprovalRule::of("manager"))
        .handler(|_: Invocation, (): ()| async { Ok::<_, HandlerError>(()) });
    let policies = PolicySource::Files(vec![("a.cedar".into(), POLICIES.into())]);
    Engine::builder().capability(refund).capability(staged).policies(policies)
}

async fn app() -> TestApp<()> {
    TestApp::new(shop(), |_| ()).await.unwrap()
}

fn dana() -> Actor {
    Actor::user("dana").role("support")
}

fn manager(id: &str) -> Actor {
    Actor::user(id).role("manager")
}

/// What a failing assertion says.
async fn said(assertion: impl Future<Output = ()>) -> String {
    let caught = futures_util::FutureExt::catch_unwind(AssertUnwindSafe(assertion)).await;
    let said = *caught.unwrap_err().downcast::<String>().unwrap();
    assert!(said.contains("tests/kit.rs:"), "it says where: {said}");
    let (what, rest) = said.split_once(", at ").unwrap();
    format!("{what}\n{}", rest.split_once('\n').unwrap().1)
}

#[tokio::test]
async fn what_holds_is_silent() {
    let app = app().await;
    let caller = app.on_behalf_of(dana());
    let small = caller.invoke("orders.refund", json!({"amount": 5})).await;
    app.assert_completed(&small).await;
    app.assert_output(&small, &json!({"refunded": 5})).await;
    let large = caller.invoke("orders.refund", json!({"amount": 900, "note": "canary-of-the-input"})).await;
    app.assert_needs(&large, &["manager"]).await;
    let refused = app.on_behalf_of(Actor::user("eve")).invoke("orders.refund", json!({"amount": 5})).await;
    app.assert_refused(&refused, ErrorCode::PolicyDenied).await;
    app.assert_exposed(Surface::Http, dana(), &["orders.refund", "orders.search"]).await;
    app.assert_exposed(Surface::Direct, dana(), &["orders.refund"]).await;
    app.assert_effects(&["orders.refund #1"]).await;
    app.assert_recorded(&small, &["capability.requested", "capability.started", "capability.completed"]).await;
    app.assert_nowhere("canary-of-the-output", &[&small, &large]).await;
    app.assert_nowhere("canary-of-the-input", &[&small, &large]).await;
}

#[tokio::test]
async fn what_does_not_hold_says_what_was_expected_what_there_was_and_the_trail() {
    let app = app().await;
    let small = app.on_behalf_of(dana()).invoke("orders.refund", json!({"amount": 5})).await;
    insta::assert_snapshot!(said(app.assert_needs(&small, &["manager"])).await, @r#"
    the gates of a call: not as expected
      expected: approvals of ["manager"]
      actual:   {"status":"completed","executionId":"exe-1","output":{"refunded":5},"replayed":false}
      trail:
        exe-1 capability.requested risk=high sideEffect=write
        exe-1 capability.started keyed=false
        exe-1 capability.completed attempts=1
    "#);
    let first = |text: String| text.lines().take(3).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(first(said(app.assert_refused(&small, ErrorCode::Timeout)).await), @r#"
    an outcome: not as expected
      expected: TIMEOUT
      actual:   {"status":"completed","executionId":"exe-1","output":{"refunded":5},"replayed":false}
    "#);
    insta::assert_snapshot!(first(said(app.assert_effects(&[])).await), @r#"
    what reached a handler: not as expected
      expected: []
      actual:   ["orders.refund #1"]
    "#);
    insta::assert_snapshot!(first(said(app.assert_exposed(Surface::Mcp, dana(), &["orders.refund"])).await), @r#"
    what `dana` sees on mcp: not as expected
      expected: ["orders.refund"]
      actual:   []
    "#);
    insta::assert_snapshot!(first(said(app.assert_recorded(&small, &["capability.denied"])).await), @r#"
    the events of exe-1: not as expected
      expected: ["capability.denied"]
      actual:   ["capability.requested", "capability.started", "capability.completed"]
    "#);
    insta::assert_snapshot!(first(said(app.assert_output(&small, &json!(null))).await), @r#"
    an output: not as expected
      expected: null
      actual:   {"status":"completed","executionId":"exe-1","output":{"refunded":5},"replayed":false}
    "#);
    let waits = app.on_behalf_of(dana()).invoke("orders.refund", json!({"amount": 900})).await;
    insta::assert_snapshot!(first(said(app.assert_completed(&waits)).await), @r#"
    an outcome: not as expected
      expected: completed
      actual:   {"status":"approval_required","executionId":"exe-2","approval":{"id":"apr-1","reasons":["It is large."],"types":["manager"],"expiresAt":"2026-01-02T00:00:00.000000Z","inputHash":"sha256:4a0176c5468e6a804a50f6aa9058a7b4cea184f82658c88d6cf1a9cdb10f85e4"}}
    "#);
}

#[tokio::test]
async fn a_canary_that_gets_out_is_found_where_it_is() {
    let app = app().await;
    let wide = Actor::user("canary-of-an-id").role("support");
    let ran = app.on_behalf_of(wide).invoke("orders.refund", json!({"amount": 7_000_000})).await;
    let text = said(app.assert_nowhere("canary-of-an-id", &[&ran])).await;
    assert!(text.contains("event 2, capability.requested") && text.contains("the database's bytes"), "{text}");
    let small = app.on_behalf_of(dana()).invoke("orders.refund", json!({"amount": 77})).await;
    let text = said(app.assert_nowhere("\"refunded\":77", &[&small])).await;
    assert!(text.contains(&format!("the outcome of {}", small.execution_id())), "{text}");
}

#[tokio::test]
async fn an_overridden_handler_keeps_the_governance_and_is_restored() {
    let app = app().await;
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let kept = Arc::clone(&seen);
    app.override_handler("orders.refund", move |_, input: Value| {
        kept.lock().unwrap().push(input);
        async { Ok::<_, HandlerError>(json!({"refunded": 1, "internal": "other"})) }
    });
    let call = async |amount: i64| app.on_behalf_of(dana()).invoke("orders.refund", json!({"amount": amount})).await;
    let other = call(5).await;
    app.assert_output(&other, &json!({"refunded": 1})).await;
    let large = call(900).await;
    app.assert_needs(&large, &["manager"]).await;
    app.override_handler("orders.refund", |_, _: Value| async {
        Ok::<_, HandlerError>(json!({"refunded": "no number"}))
    });
    let bad = call(5).await;
    app.assert_refused(&bad, ErrorCode::OutputInvalid).await;
    app.restore_handler("orders.refund");
    let own = call(6).await;
    app.assert_output(&own, &json!({"refunded": 6})).await;
    assert_eq!(*seen.lock().unwrap(), [json!({"amount": 5})]);
    app.assert_effects(&["orders.refund #1"; 3]).await;
}

#[tokio::test]
#[should_panic(expected = "there is no capability `orders.refunds`")]
async fn a_handler_of_no_capability_cannot_be_overridden() {
    app().await.override_handler("orders.refunds", |_, (): ()| async { Ok::<_, HandlerError>(()) });
}

#[tokio::test]
async fn an_approver_says_what_the_test_wants_and_nothing_that_may_not_be_said() {
    let approver = TestApprover::approves([manager("priya"), manager("quinn")]);
    let app = TestApp::new(shop().approver(approver.clone()), |_| ()).await.unwrap();
    let call = async |amount: i64| app.on_behalf_of(dana()).invoke("orders.refund", json!({"amount": amount})).await;
    let ran = call(900).await;
    app.assert_completed(&ran).await;
    assert_eq!(approver.asked().iter().map(|it| it.decisions.len()).collect::<Vec<_>>(), [0, 1]);
    approver.answer(Answer::Reject(manager("priya")));
    let rejected = call(901).await;
    app.assert_refused(&rejected, ErrorCode::ApprovalRejected).await;
    approver.answer(Answer::Nothing);
    let waits = call(902).await;
    app.assert_needs(&waits, &["manager"]).await;
    // Nobody approves their own request, whatever a test says.
    approver.answer(Answer::Approve(vec![dana().role("manager"), manager("priya")]));
    let waits = call(903).await;
    app.assert_needs(&waits, &["manager"]).await;
    let runs = app.runs();
    let runs: Vec<_> = runs.iter().map(|it| (it.to_string(), &*it.actor, it.approval.is_some())).collect();
    assert_eq!(runs, [("orders.refund #1".to_owned(), "dana", true)]);
}

/// One story: a call that runs, one that is approved later, one that is refused. Its trail, as it is, in YAML and JSON.
async fn story() {
    let app = app().await;
    let caller = app.on_behalf_of(dana());
    let _ = caller.invoke("orders.refund", json!({"amount": 5})).idempotency_key("k").await;
    app.clock().advance(Duration::from_millis(1_500));
    let waits = caller.invoke("orders.refund", json!({"amount": 900})).correlation_id("talk-7").await;
    let approval = waits.approval().unwrap().id.clone();
    for person in ["priya", "quinn"] {
        app.clock().advance(Duration::from_mins(1));
        app.approvals(manager(person)).approve(&approval, "manager").await.unwrap();
    }
    app.assert_completed(&caller.resume(&approval).await).await;
    let _ = app.over(Surface::Http, Actor::user("eve")).invoke("orders.refund", json!({"amount": 5})).await;
    let trail = app.trail().await;
    insta::assert_yaml_snapshot!("trail_in_yaml", trail);
    insta::assert_json_snapshot!("trail_in_json", trail);
}

/// Runs of the story at once, in whatever order threads take them: as many as `COUNTERSIGN_RUNS` says, or some. Each is
/// compared with the same two files.
#[test]
fn a_trail_has_the_same_bytes_on_every_run_whatever_else_runs() {
    let runs = std::env::var("COUNTERSIGN_RUNS").map_or(16, |it| it.parse().unwrap());
    let begun = AtomicUsize::new(0);
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        while begun.fetch_add(1, Ordering::Relaxed) < runs {
            runtime.block_on(story());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(work);
        }
    });
}

#[test]
fn filters_take_out_what_a_real_engine_makes_and_leave_the_rest() {
    let body = json!({
        "executionId": "0190f5a2-7c3e-7d44-9a1b-0123456789ab", "approval": {"id": "apr_aB3-_456789012345678901234z"},
        "at": "2026-11-30T19:00:00.123456Z", "hash": format!("sha256:{}", "ab".repeat(32)), "durationUs": 1234,
        "order": "ord_42", "version": "4.14.0", "day": "2026-11-30", "id": "apr_short"
    });
    insta::with_settings!({filters => filters()}, {
        insta::assert_json_snapshot!(body, @r#"
        {
          "executionId": "[id]",
          "approval": {
            "id": "[approval]"
          },
          "at": "[time]",
          "hash": "sha256:[hash]",
          "durationUs": 0,
          "order": "ord_42",
          "version": "4.14.0",
          "day": "2026-11-30",
          "id": "apr_short"
        }
        "#);
    });
}
