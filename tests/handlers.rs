//! What handlers and middleware return or do, and what becomes of it: EXE-4, retries, deadlines, cancelling.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use countersign::{Capability, Engine, ExecutionStatus, HandlerError, Identity, Outcome, Risk, SideEffect, Surface};
use serde_json::json;

use crate::shop::{
    ACT_TIMEOUT, ALLOW_ALL, App, NOT_ELIGIBLE, Shop, act, asked, cast, code, draft, everything_but, json_of, omar,
    refund, shop, signal, texts,
};

/// Every way to fail, and a few to succeed.
const WAYS: [&str; 17] = [
    "ok",
    "declared",
    "undeclared",
    "forbidden",
    "unauthenticated",
    "closed",
    "no_session",
    "not_executed",
    "fail",
    "fail_then_nothing",
    "panic",
    "hang",
    "obey",
    "obey_silently",
    "finish_when_asked",
    "bad_output",
    "huge_output",
];

async fn run(app: &App, capability: &str, how: &str, key: Option<&str>) -> Outcome {
    let mut call = app.dana().invoke(capability, act(how));
    if let Some(key) = key {
        call = call.idempotency_key(key);
    }
    let call = call.start();
    match how {
        "hang" => tokio::join!(call, app.expire()).0,
        "obey" | "obey_silently" | "finish_when_asked" => {
            let stop = async {
                signal(&app.state.entered).await;
                app.clock().advance(ACT_TIMEOUT);
                signal(&app.state.asked).await;
            };
            tokio::join!(call, stop).0
        }
        _ if matches!(capability, "act.again" | "act.retried") => app.retrying(call).await,
        _ => call.await,
    }
}

/// One line: what the caller is told, what the record says, and where the execution stands.
async fn row(app: &App, capability: &str, how: &str, key: Option<&str>) -> String {
    let outcome = run(app, capability, how, key).await;
    let retryable = outcome.error().is_some_and(|it| it.retryable);
    let trail = app.trail_of(outcome.execution_id()).await;
    let end = trail.entries().iter().find(|it| it.is_terminal()).unwrap();
    let executed = end.data["executed"].as_str().unwrap_or("-");
    let attempts = end.data["attempts"].to_string();
    let view = app.executions(cast("dana")).show(outcome.execution_id()).await.unwrap();
    let state = serde_json::to_value(view.status).unwrap();
    format!(
        "{how:18} {:18} retryable {retryable:5}  executed {executed:8} attempts {attempts:5} {}",
        code(&outcome),
        state.as_str().unwrap()
    )
}

#[tokio::test]
async fn exe_4_what_a_failure_means_depends_on_what_ran() {
    let app = App::new().await;
    let mut table = String::new();
    for (capability, keyed) in
        [("act.read", false), ("act.retried", false), ("act.write", true), ("act.again", false), ("act.again", true)]
    {
        writeln!(table, "{capability}{}", if keyed { ", with a key" } else { "" }).unwrap();
        for how in WAYS {
            let key = format!("{capability}-{how}");
            writeln!(table, "  {}", row(&app, capability, how, keyed.then_some(&key)).await).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

#[tokio::test]
async fn exe_4_nothing_is_retryable_that_consumed_an_approval() {
    let gates = format!(
        "{ALLOW_ALL}\n{}",
        r#"
        @id("people") permit (principal in Role::"manager", action == Countersign::Action::"approve", resource);
        @id("gate") @approval("manager") forbid (principal, action in Action::"act.*", resource);"#
    );
    let app = App::with(crate::shop::shop_without_policies().policies(texts(&gates))).await;
    for how in ["not_executed", "fail", "hang", "closed"] {
        let id = asked(&app.dana().invoke("act.again", act(how)).idempotency_key(how).await);
        app.approvals(cast("priya")).approve(&id, "manager").await.unwrap();
        let call = app.dana().resume(&id);
        let outcome = if how == "hang" { tokio::join!(call, app.expire()).0 } else { app.retrying(call).await };
        assert!(!outcome.error().unwrap().retryable, "{how}: {outcome:?}");
        assert_eq!(code(&app.dana().resume(&id).await), "APPROVAL_CONSUMED", "{how}");
    }
}

/// A handler of this effect that does not know whether it did something.
fn unsure(id: &'static str, effect: SideEffect, idempotent: bool) -> Capability<Shop> {
    let builder = draft(id, effect);
    let builder = if idempotent { builder.idempotent() } else { builder };
    let ends = async |_: countersign::Invocation<Shop>, _: serde_json::Value| {
        Err::<serde_json::Value, _>(HandlerError::unknown("secret-cause"))
    };
    let open = json!({"type": "object", "additionalProperties": true});
    builder.json_handler(open, json!({}), ends)
}

#[tokio::test]
async fn inv_11_a_write_that_may_have_happened_stays_unknown_until_somebody_finds_out() {
    let kinds = [
        unsure("unsure.read", SideEffect::Read, false),
        unsure("unsure.write", SideEffect::Write, false),
        unsure("unsure.again", SideEffect::Write, true),
    ];
    let app = App::with(Engine::builder().capabilities(kinds).policies(texts(ALLOW_ALL))).await;
    let mut table = String::new();
    for (capability, key) in
        [("unsure.read", None), ("unsure.write", None), ("unsure.write", Some("k")), ("unsure.again", Some("k"))]
    {
        for _ in 0..2 {
            let mut call = app.dana().invoke(capability, json!({}));
            if let Some(key) = key {
                call = call.idempotency_key(key);
            }
            let outcome = call.await;
            let error = outcome.error().unwrap();
            let view = app.executions(cast("dana")).show(outcome.execution_id()).await.unwrap();
            let (status, again) = (json!(view.status), error.retryable);
            writeln!(table, "{capability} {key:?}: {} {:?} {status}, retryable {again}", error.code, error.message)
                .unwrap();
        }
    }
    insta::assert_snapshot!(table, @r#"
    unsure.read None: EXECUTION_FAILED "The operation failed." "failed", retryable false
    unsure.read None: EXECUTION_FAILED "The operation failed." "failed", retryable false
    unsure.write None: EXECUTION_FAILED "The operation failed. It may have taken effect." "unknown", retryable false
    unsure.write None: EXECUTION_FAILED "The operation failed. It may have taken effect." "unknown", retryable false
    unsure.write Some("k"): EXECUTION_FAILED "The operation failed. It may have taken effect." "unknown", retryable false
    unsure.write Some("k"): OUTCOME_UNKNOWN "An earlier call may have taken effect. It must be reconciled first." "failed", retryable false
    unsure.again Some("k"): EXECUTION_FAILED "The operation failed. It may have taken effect." "not_executed", retryable true
    unsure.again Some("k"): EXECUTION_FAILED "The operation failed. It may have taken effect." "not_executed", retryable true
    "#);
    assert_eq!(app.runs(), 7, "the key of the write answers for it");
}

#[tokio::test]
async fn causes_stay_inside() {
    let app = App::new().await;
    for how in ["undeclared", "not_executed", "fail", "panic", "panic_with_lock", "bad_output"] {
        for capability in ["act.read", "act.write"] {
            let outcome = app.dana().invoke(capability, act(how)).await;
            let error = json_of(&outcome)["error"].to_string();
            assert!(!error.contains("secret"), "{error}");
            assert_eq!(outcome.error().unwrap().details, [], "{how}");
        }
    }
    let trail = serde_json::to_string(&app.trail().await).unwrap();
    assert!(!trail.contains("secret"), "{trail}");
    let message = |outcome: Outcome| outcome.error().unwrap().message.clone();
    assert_eq!(message(app.dana().invoke("act.read", act("fail")).await), "The operation failed.");
    let write = message(app.dana().invoke("act.write", act("fail")).await);
    assert_eq!(write, "The operation failed. It may have taken effect.");
}

#[tokio::test]
async fn a_declared_error_shows_its_code_and_its_sentence() {
    let app = App::new().await;
    let outcome = app.dana().invoke("orders.search", json!({"query": "x", "limit": 51})).await;
    assert_eq!(code(&outcome), "INPUT_INVALID");
    let outcome = app.dana().invoke("act.write", act("declared")).await;
    insta::assert_json_snapshot!(outcome, @r#"
    {
      "status": "failed",
      "executionId": "exe-2",
      "error": {
        "code": "EXECUTION_FAILED",
        "message": "The order cannot be refunded.",
        "retryable": false,
        "details": [
          {
            "code": "NOT_ELIGIBLE"
          }
        ]
      }
    }
    "#);
}

#[tokio::test]
async fn a_retry_keeps_its_execution_and_notes_each_attempt() {
    let app = App::new().await;
    let outcome = app.retrying(app.dana().invoke("act.retried", act("busy")).start()).await;
    assert_eq!(json_of(&outcome)["output"], json!({"attempt": 3}));
    assert_eq!(app.effects(), ["act.retried #1", "act.retried #2", "act.retried #3"]);
    insta::assert_snapshot!(app.lines().await, @r#"
    exe-1 capability.requested risk=low sideEffect=read
    exe-1 capability.started keyed=false
    exe-1 capability.retried attempt=2 previousCode=EXECUTION_FAILED
    exe-1 capability.retried attempt=3 previousCode=EXECUTION_FAILED
    exe-1 capability.completed attempts=3
    "#);
}

#[tokio::test]
async fn retries_are_additional_and_bounded_and_wait_longer_each_time() {
    let app = App::new().await;
    let call = app.dana().invoke("act.retried", act("not_executed")).start();
    let outcome = app.retrying(call).await;
    assert_eq!((code(&outcome), app.effects().len()), ("EXECUTION_FAILED", 3));
    let trail = app.trail_of(outcome.execution_id()).await;
    let took = trail.entries().last().unwrap().data["attempts"].clone();
    assert_eq!(took, 3);
    // 250 ms, then 500 ms.
    let waited = app.clock().now().0 - countersign::testing::START.0;
    assert!(waited >= 750_000, "{waited} us");
}

#[tokio::test]
async fn a_write_that_is_not_declared_idempotent_is_never_retried() {
    let app = App::new().await;
    for capability in ["act.write", "act.external"] {
        assert_eq!(code(&app.dana().invoke(capability, act("not_executed")).await), "EXECUTION_FAILED");
    }
    // And an idempotent one only if nothing happened.
    assert_eq!(code(&app.dana().invoke("act.again", act("fail")).await), "EXECUTION_FAILED");
    assert_eq!(app.effects(), ["act.write #1", "act.external #1", "act.again #1"]);
}

#[tokio::test]
async fn a_cancelled_call_does_not_wait_for_its_next_attempt() {
    let app = App::new().await;
    let call = app.dana().invoke("act.retried", act("not_executed")).start();
    while app.effects().is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    call.cancel();
    let outcome = call.await;
    assert_eq!(code(&outcome), "CANCELLED");
    assert_eq!(app.effects().len(), 1);
    assert_eq!(app.trail_of(outcome.execution_id()).await.entries().last().unwrap().data["executed"], "no");
}

#[tokio::test]
async fn a_cancelled_handler_that_obeys_says_what_happened() {
    let app = App::new().await;
    for (how, executed) in [("obey", "no"), ("obey_silently", "unknown"), ("finish_when_asked", "-")] {
        let call = app.dana().invoke("act.write", act(how)).start();
        signal(&app.state.entered).await;
        call.cancel();
        let outcome = call.await;
        let expected = if executed == "-" { "-" } else { "CANCELLED" };
        assert_eq!(code(&outcome), expected, "{how}");
        let trail = app.trail_of(outcome.execution_id()).await;
        assert_eq!(trail.entries().last().unwrap().data["executed"].as_str().unwrap_or("-"), executed, "{how}");
    }
}

#[tokio::test]
async fn a_call_cancelled_before_it_begins_spends_nothing() {
    let app = App::new().await;
    let call = app.dana().invoke("act.write", act("ok")).idempotency_key("k").into_future();
    call.cancel();
    let outcome = call.await;
    // Nothing was waited for yet, or something was: either way it ends once, and what did not begin spent no key.
    assert!(matches!(code(&outcome), "CANCELLED" | "-"), "{outcome:?}");
    let trail = app.trail_of(outcome.execution_id()).await;
    assert_eq!(trail.entries().iter().filter(|it| it.is_terminal()).count(), 1);
    let again = app.dana().invoke("act.write", act("ok")).idempotency_key("k").await;
    assert_eq!((code(&again), json_of(&again)["replayed"] == true), ("-", code(&outcome) == "-"));
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_hang_up_stops_nothing_and_an_unpolled_call_never_began() {
    let app = App::new().await;
    let never = app.dana().invoke("act.write", act("ok"));
    drop(never);
    let mut call = Box::pin(app.dana().invoke("act.write", act("hang")).into_future());
    let hung_up = tokio::time::timeout(Duration::from_millis(1), call.as_mut()).await;
    assert!(hung_up.is_err());
    drop(call);
    app.state.go_on.add_permits(1);
    app.engine().shutdown(Duration::from_secs(5)).await;
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_lease_ends_with_its_execution_though_the_handler_runs_on() {
    let leases = Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = Arc::clone(&leases);
    let keep = move |cx: countersign::Invocation<Shop>, next: countersign::Next<Shop>| {
        kept.lock().unwrap().extend(cx.lease());
        next.run()
    };
    let app = App::with(shop().middleware(keep)).await;
    let call = app.dana().invoke("act.write", act("hang")).start();
    let (outcome, checked) = tokio::join!(call, async {
        signal(&app.state.entered).await;
        let checked = leases.lock().unwrap()[0].check();
        app.state.entered.add_permits(1);
        app.expire().await;
        checked
    });
    assert_eq!((code(&outcome), checked.is_ok()), ("TIMEOUT", true));
    assert!(leases.lock().unwrap()[0].check().is_err());
}

#[tokio::test]
async fn a_handler_is_told_who_asks_and_from_where() {
    let app = App::new().await;
    let caller = app.over(Surface::Http, Identity::new(cast("dana").name("Dana")).tenant("t1").client("bot"));
    let id = asked(&caller.invoke("orders.refund", refund("o", 60_000)).correlation_id("talk-1").await);
    app.approvals(Identity::new(cast("priya")).tenant("t1")).approve(&id, "manager").await.unwrap();
    assert_eq!(code(&caller.resume(&id).await), "-");
    insta::assert_json_snapshot!(app.agents(), @r#"
    [
      {
        "executionId": "exe-2",
        "capabilityId": "orders.refund",
        "surface": "http",
        "tenant": "t1",
        "actor": {
          "id": "dana",
          "kind": "user",
          "name": "Dana",
          "roles": [
            "support"
          ],
          "scopes": [],
          "attributes": {}
        },
        "client": "bot",
        "approval": {
          "id": "apr-1",
          "approvers": [
            {
              "id": "priya",
              "kind": "user"
            }
          ]
        },
        "correlationId": "talk-1",
        "idempotencyKey": "rKYBDV85v2qCnRJPtubO-0gbuRYZW6XbS5EAMsWLNic",
        "attempt": 1,
        "fence": 1
      }
    ]
    "#);
}

#[tokio::test]
async fn an_output_that_is_too_large_or_breaks_its_schema_is_withheld() {
    let app = App::new().await;
    for how in ["bad_output", "huge_output"] {
        let outcome = app.dana().invoke("act.write", act(how)).await;
        assert_eq!(outcome.error().unwrap().message, "It ran, but its answer was not usable.");
        let line = app.trail_of(outcome.execution_id()).await.entries().last().unwrap().to_string();
        assert!(line.ends_with("attempts=1 code=OUTPUT_INVALID executed=yes retryable=false stage=output"), "{line}");
    }
}

fn named(redact: impl Fn(serde_json::Value) -> serde_json::Value + Send + Sync + 'static) -> Capability<Shop> {
    let output = json!({"type": "object", "properties": {"name": {"type": "string"}, "secrets": {"type": "array",
        "items": {"type": "object", "properties": {"pin": {"type": "integer"}}}}}});
    let input = json!({"type": "object", "additionalProperties": false});
    let draft = Capability::write("names.set").risk(Risk::Low).description("Sets.").expose([Surface::Direct]);
    draft.redact_output(["/secrets/*/pin"]).redact_with(redact).json_handler(input, output, |_, _| async {
        Ok::<_, HandlerError>(json!({"name": "Lee", "secrets": [{"pin": 1}, {"pin": 2}]}))
    })
}

#[tokio::test]
async fn redaction_takes_paths_then_the_function() {
    let upper = |mut it: serde_json::Value| {
        assert_eq!(it["secrets"], json!([{}, {}]));
        it["name"] = json!("L.");
        it
    };
    let app = App::with(everything_but(&[]).capability(named(upper)).policies(texts(ALLOW_ALL_AND_PEOPLE))).await;
    let outcome = app.dana().invoke("names.set", json!({})).await;
    assert_eq!(json_of(&outcome)["output"], json!({"name": "L.", "secrets": [{}, {}]}));
}

/// What redaction makes of the output cannot leave: it is withheld, the execution has its end, and nothing runs again.
async fn is_withheld(capability: Capability<Shop>) {
    let app = App::with(everything_but(&[]).capability(capability).policies(texts(ALLOW_ALL_AND_PEOPLE))).await;
    let call = || app.dana().invoke("names.set", json!({})).idempotency_key("k");
    let outcome = call().await;
    assert_eq!(code(&outcome), "OUTPUT_INVALID");
    let lines = app.lines_of(&outcome).await;
    insta::allow_duplicates! {
        insta::assert_snapshot!(lines, @r#"
        exe-1 capability.requested risk=low sideEffect=write
        exe-1 capability.started keyed=true
        exe-1 capability.failed attempts=1 code=OUTPUT_INVALID executed=yes retryable=false stage=redaction
        "#);
    }
    assert_eq!((code(&call().await), app.runs()), ("OUTPUT_INVALID", 1));
}

#[tokio::test]
async fn a_redaction_that_fails_withholds_the_output_and_ends_the_execution() {
    is_withheld(named(|_| panic!("secret-cause"))).await;
}

#[tokio::test]
async fn exe_9_an_output_that_redaction_makes_too_large_is_withheld_and_its_end_on_record() {
    is_withheld(named(|_| json!("x".repeat(3 << 20)))).await;
}

#[tokio::test]
async fn exe_9_a_declared_error_that_says_too_much_is_cut_and_its_end_on_record() {
    let wordy: Capability<Shop> = draft("words.say", SideEffect::Write).error(NOT_ELIGIBLE).json_handler(
        json!({"type": "object", "additionalProperties": false}),
        json!({}),
        |_, _| async {
            Err::<serde_json::Value, _>(HandlerError::from(NOT_ELIGIBLE.with_message("ü".repeat(3 << 20))))
        },
    );
    let app = App::with(everything_but(&[]).capability(wordy).policies(texts(ALLOW_ALL_AND_PEOPLE))).await;
    let call = || app.dana().invoke("words.say", json!({})).idempotency_key("k");
    let (first, again) = (call().await, call().await);
    assert_eq!(first.error().unwrap().message, "ü".repeat(2_000));
    assert_eq!(first.error(), again.error());
    let view = app.executions(cast("dana")).show(first.execution_id()).await.unwrap();
    assert_eq!((view.status, app.runs()), (ExecutionStatus::Failed, 1));
}

/// Lets anybody do anything, and managers decide what capabilities themselves ask for.
const ALLOW_ALL_AND_PEOPLE: &str = r#"@id("anything") permit (principal, action in Action::"invoke", resource);
@id("people") permit (principal in Role::"manager", action == Countersign::Action::"approve", resource);"#;

#[tokio::test]
async fn another_tenants_context_is_its_own() {
    let app = App::new().await;
    let outcome = app.on_behalf_of(omar()).invoke("orders.refund", refund("o", 100)).await;
    assert_eq!(code(&outcome), "-");
    assert_eq!(&*app.agents()[0].tenant, "acme");
}
