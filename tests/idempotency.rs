//! Keys: IDM-1 to IDM-6.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use countersign::testing::Place;
use countersign::{
    Actor, Capability, EngineBuilder, HandlerError, Idempotency, Identity, Invocation, Outcome, Risk, SideEffect,
    Surface,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::shop::{
    ALLOW_ALL, App, Shop, act, asked, cast, code, draft, json_of, policies_with, refund, shop, shop_without_policies,
    signal, texts,
};

fn replayed(outcome: &Outcome) -> bool {
    json_of(outcome)["replayed"] == true
}

#[tokio::test]
async fn a_known_key_is_answered_and_not_run() {
    let app = App::new().await;
    let call = || app.dana().invoke("orders.refund", refund("ord_1", 100)).idempotency_key("k1");
    let first = call().await;
    let again = call().await;
    insta::assert_json_snapshot!(json_of(&first), @r#"
    {
      "status": "completed",
      "executionId": "exe-1",
      "output": {
        "refundId": "ord_1-100",
        "approvers": []
      },
      "replayed": false
    }
    "#);
    insta::assert_json_snapshot!(json_of(&again), @r#"
    {
      "status": "completed",
      "executionId": "exe-2",
      "output": {
        "refundId": "ord_1-100",
        "approvers": []
      },
      "replayed": true
    }
    "#);
    insta::assert_snapshot!(app.lines_of(&again).await, @r#"
    exe-2 capability.requested risk=high sideEffect=write
    exe-2 capability.replayed originalExecutionId=exe-1
    "#);
    let reused = app.dana().invoke("orders.refund", refund("ord_1", 101)).idempotency_key("k1").await;
    insta::assert_json_snapshot!(reused, @r#"
    {
      "status": "failed",
      "executionId": "exe-3",
      "error": {
        "code": "IDEMPOTENCY_KEY_REUSED",
        "message": "The idempotency key was used for another input.",
        "retryable": false,
        "details": []
      }
    }
    "#);
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_failure_is_replayed_too() {
    let app = App::new().await;
    for (how, expected) in
        [("declared", "EXECUTION_FAILED"), ("fail", "EXECUTION_FAILED"), ("bad_output", "OUTPUT_INVALID")]
    {
        let call = || app.dana().invoke("act.write", act(how)).idempotency_key(how);
        let (first, again) = (call().await, call().await);
        assert_eq!((code(&first), first.error()), (expected, again.error()), "{how}");
        assert!(replayed(&again) && !replayed(&first), "{how}");
    }
    assert_eq!(app.runs(), 3);
}

#[tokio::test]
async fn a_key_whose_first_call_still_runs_is_in_progress() {
    let app = App::new().await;
    let call = || app.dana().invoke("act.write", act("hang")).idempotency_key("k");
    let first = call().start();
    signal(&app.state.entered).await;
    let second = call().await;
    insta::assert_json_snapshot!(second, @r#"
    {
      "status": "failed",
      "executionId": "exe-2",
      "error": {
        "code": "IDEMPOTENCY_IN_PROGRESS",
        "message": "The first call with this idempotency key still runs.",
        "retryable": true,
        "details": []
      }
    }
    "#);
    app.state.go_on.add_permits(1);
    assert_eq!(code(&first.await), "-");
    assert!(replayed(&call().await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_twenty_calls_with_one_key_one_runs() {
    let place = Place::new().unwrap();
    let (one, two) = (App::open(shop(), &place).await, App::open(shop(), &place).await);
    let calls: Vec<_> = (0..20)
        .map(|it| {
            if it % 2 == 0 { &one } else { &two }.dana().invoke("act.write", act("ok")).idempotency_key("k").start()
        })
        .collect();
    for call in calls {
        let outcome = call.await;
        assert!(matches!(code(&outcome), "-" | "IDEMPOTENCY_IN_PROGRESS"), "{outcome:?}");
    }
    assert_eq!(one.runs() + two.runs(), 1);
}

#[tokio::test]
async fn idm_1_whoever_lost_the_right_gets_no_stored_output() {
    let app = App::new().await;
    let call =
        |actor: Actor| app.on_behalf_of(actor).invoke("orders.refund", refund("ord_1", 100)).idempotency_key("k1");
    assert_eq!(code(&call(cast("dana")).await), "-");
    let lost = call(Actor::user("dana")).await;
    assert_eq!(code(&lost), "POLICY_DENIED");
    assert!(!json_of(&lost).to_string().contains("ord_1"));
    assert!(replayed(&call(cast("dana")).await));
    // Nor is the key looked up for whom the capability does not exist.
    let mcp = app.over(Surface::Mcp, cast("dana")).invoke("orders.refund", refund("ord_1", 100)).idempotency_key("k1");
    assert_eq!(code(&mcp.await), "CAPABILITY_NOT_FOUND");
}

#[tokio::test]
async fn idm_1_a_replay_needs_no_approval() {
    let app = App::new().await;
    let call = || app.dana().invoke("orders.refund", refund("ord_1", 60_000)).idempotency_key("k1");
    let id = asked(&call().await);
    app.approvals(cast("priya")).approve(&id, "manager").await.unwrap();
    assert_eq!(code(&app.dana().resume(&id).await), "-");
    app.clock().advance(Duration::from_hours(2)); // the approval's time is over
    let again = call().await;
    assert!(replayed(&again), "{again:?}");
    assert_eq!(app.approvals(cast("priya")).list(None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn idm_2_refusals_and_pending_requests_occupy_no_key() {
    let app = App::new().await;
    let call = |input: Value| app.dana().invoke("orders.refund", input).idempotency_key("k1");
    assert_eq!(code(&call(json!({"orderId": "ord_1"})).await), "INPUT_INVALID");
    assert_eq!(code(&call(refund("ord_1", 900_000)).await), "POLICY_DENIED");
    assert_eq!(code(&call(refund("ord_1", 60_000)).await), "?");
    app.fail_contexts(true);
    assert_eq!(code(&call(refund("ord_1", 100)).await), "EXECUTION_FAILED");
    app.fail_contexts(false);
    app.break_store(true);
    assert_eq!(code(&call(refund("ord_1", 100)).await), "AUDIT_UNAVAILABLE");
    app.break_store(false);
    let right = call(refund("ord_1", 200)).await;
    assert_eq!((code(&right), replayed(&right)), ("-", false));
}

#[tokio::test]
async fn idm_2_what_looks_like_nothing_is_an_output_too() {
    let app = App::new().await;
    let values = [
        json!(null),
        json!(false),
        json!(0),
        json!(""),
        json!([]),
        json!({}),
        json!(1.5),
        json!({"b": 1, "a": [null]}),
    ];
    for value in values {
        let key = format!("key-{value}");
        let key = key.replace(['"', ' '], "'");
        let call = || app.dana().invoke("echo.write", json!({"value": value})).idempotency_key(&*key);
        let (first, again) = (call().await, call().await);
        assert!(replayed(&again), "{value}: {again:?}");
        let bytes = |it: &Outcome| it.output().unwrap_or_else(|| panic!("{value}: {it:?}")).as_text().to_owned();
        assert_eq!(bytes(&first), bytes(&again));
        assert_eq!(bytes(&first), value.to_string());
    }
    assert_eq!(app.runs(), 8);
}

async fn contact(_: Invocation<Shop>, _: Value) -> Result<Value, HandlerError> {
    Ok(json!({"name": "Lee", "phone": "555"}))
}

/// A shop with one capability, before and after a deploy.
fn contacts(redacted: &[&str], output: Value) -> EngineBuilder<Shop> {
    let input = json!({"type": "object", "additionalProperties": false});
    let capability = draft("contact.add", SideEffect::Write).redact_output(redacted.iter().copied());
    countersign::Engine::builder()
        .capability(capability.json_handler(input, output, contact))
        .policies(texts(ALLOW_ALL))
}

#[tokio::test]
async fn idm_2_a_replay_has_today_s_redaction_and_not_today_s_output_schema() {
    let place = Place::new().unwrap();
    let members = json!({"type": "object", "properties": {"name": {"type": "string"}, "phone": {"type": "string"}}});
    let before = App::open(contacts(&[], members.clone()), &place).await;
    let call = |app: &App| app.dana().invoke("contact.add", json!({})).idempotency_key("k");
    assert_eq!(json_of(&call(&before).await)["output"], json!({"name": "Lee", "phone": "555"}));
    let mut narrower = members;
    narrower["properties"]["name"]["maxLength"] = json!(1);
    let after = App::open(contacts(&["/phone"], narrower), &place).await;
    let again = call(&after).await;
    assert_eq!((replayed(&again), json_of(&again)["output"].clone()), (true, json!({"name": "Lee"})));
}

async fn note(_: Invocation<Shop>, input: Value) -> Result<Value, HandlerError> {
    Ok(input)
}

fn notes(properties: &Value) -> EngineBuilder<Shop> {
    let input = json!({"type": "object", "properties": properties, "additionalProperties": false});
    countersign::Engine::builder()
        .capability(draft("note.add", SideEffect::Write).json_handler(input, json!({}), note))
        .policies(texts(ALLOW_ALL))
}

#[tokio::test]
async fn idm_3_a_default_that_a_deploy_added_breaks_no_retry() {
    let place = Place::new().unwrap();
    let before = App::open(notes(&json!({"text": {"type": "string"}, "loud": {"type": "boolean"}})), &place).await;
    let call = |app: &App, input: Value| app.dana().invoke("note.add", input).idempotency_key("k");
    assert_eq!(code(&call(&before, json!({"text": "a"})).await), "-");
    let with_default = json!({"text": {"type": "string"}, "loud": {"type": "boolean", "default": false}});
    let after = App::open(notes(&with_default), &place).await;
    assert!(replayed(&call(&after, json!({"text": "a"})).await));
    assert_eq!(code(&call(&after, json!({"text": "a", "loud": true})).await), "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(before.runs() + after.runs(), 1);
}

#[tokio::test]
async fn idm_3_default_given_or_left_out_is_one_call() {
    let app = App::with(notes(&json!({"loud": {"type": "boolean", "default": false}}))).await;
    let call = |input: Value| app.dana().invoke("note.add", input).idempotency_key("k");
    assert_eq!(json_of(&call(json!({})).await)["output"], json!({"loud": false}));
    assert!(replayed(&call(json!({"loud": false})).await));
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn idm_4_a_freed_key_is_claimed_again_with_a_larger_fence() {
    let app = App::new().await;
    let call = |how: &str| app.dana().invoke("act.write", act(how)).idempotency_key("k");
    // Nothing happened: the key is free, for another input too.
    assert_eq!(code(&call("not_executed").await), "EXECUTION_FAILED");
    assert_eq!(code(&call("closed").await), "FORBIDDEN");
    assert_eq!(code(&call("ok").await), "-");
    let fences: Vec<_> = app.agents().iter().map(|it| it.fence).collect();
    assert_eq!(fences, [1, 3]); // the second claim was middleware's to refuse
    assert!(replayed(&call("ok").await));
}

#[tokio::test]
async fn idm_5_downstream_gets_a_digest_of_scope_and_key() {
    let app = App::new().await;
    let calls = [
        app.dana().invoke("act.write", act("ok")).idempotency_key("k"),
        app.caller("sam").invoke("act.write", act("ok")).idempotency_key("k"),
        app.dana().invoke("act.external", act("ok")).idempotency_key("k"),
        app.dana().invoke("act.write", act("ok")).idempotency_key("l"),
        app.dana().invoke("act.write", act("ok")),
        app.dana().invoke("act.write", act("ok")),
        app.on_behalf_of(Identity::new(cast("dana")).tenant("t")).invoke("act.write", act("ok")).idempotency_key("k"),
        app.on_behalf_of(cast("dana").issuer("i")).invoke("act.write", act("ok")).idempotency_key("k"),
    ];
    let count = calls.len();
    for call in calls {
        assert_eq!(code(&call.await), "-");
    }
    let mut keys: Vec<_> = app.agents().into_iter().map(|it| it.idempotency_key).collect();
    let scope = r#"["default",null,"dana","act.write","k"]"#;
    let digest = Sha256::digest(format!("countersign/key/v1\n{scope}"));
    assert_eq!(keys[0], BASE64_URL_SAFE_NO_PAD.encode(digest));
    assert!(keys.iter().all(|it| it.len() == 43), "{keys:?}");
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), count); // no two calls share one
}

#[tokio::test]
async fn idm_5_every_attempt_gets_the_same() {
    let app = App::new().await;
    let call = app.dana().invoke("act.again", act("busy")).idempotency_key("k").start();
    let outcome = app.retrying(call).await;
    assert_eq!(json_of(&outcome)["output"], json!({"attempt": 3}));
    let told: Vec<_> =
        app.agents().into_iter().map(|it| (it.attempt, it.fence, it.idempotency_key, it.execution_id)).collect();
    assert_eq!(told.iter().map(|it| it.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(told.iter().all(|it| (it.1, &it.2, &it.3) == (told[0].1, &told[0].2, &told[0].3)), "{told:?}");
}

#[tokio::test]
async fn idm_6_a_settled_key_lives_a_day() {
    let app = App::new().await;
    let call = || app.dana().invoke("act.write", act("ok")).idempotency_key("k");
    assert_eq!(code(&call().await), "-");
    app.clock().advance(Duration::from_hours(24) - Duration::from_micros(1));
    assert!(replayed(&call().await));
    app.clock().advance(Duration::from_micros(1));
    let fresh = call().await;
    assert_eq!((code(&fresh), replayed(&fresh)), ("-", false));
    assert_eq!(app.runs(), 2);
}

#[tokio::test]
async fn idm_6_outputs_that_are_not_kept_replay_as_completed_without_output() {
    let app = App::new().await;
    let call = || app.dana().invoke("echo.quiet", json!({"value": "canary-unkept"})).idempotency_key("k");
    assert_eq!(json_of(&call().await)["output"], "canary-unkept");
    let again = call().await;
    insta::assert_json_snapshot!(again, @r#"
    {
      "status": "completed",
      "executionId": "exe-2",
      "replayed": true
    }
    "#);
    assert!(again.into_result().unwrap().is_null());
}

#[tokio::test]
async fn idm_6_a_time_to_live_below_the_longest_approval_is_a_start_up_error() {
    let short = Idempotency { ttl: Duration::from_mins(30), ..Idempotency::default() };
    let gift = Capability::external("late.gift").risk(Risk::Low).description("Gives.").expose([Surface::Direct]);
    let rule = countersign::ApprovalRule::of("manager").expires_in(Duration::from_hours(1));
    let gift = gift.idempotency(short).approval(rule);
    let gift = gift.json_handler(json!({"type": "object", "additionalProperties": false}), json!({}), note);
    let place = Place::new().unwrap();
    let builder = shop().capability(gift).database(format!("sqlite:{}", place.database().display()));
    let error = builder.build().await.err().unwrap();
    insta::assert_snapshot!(error, @r#"
    the engine cannot be built, 1 problem
      `late.gift`: its idempotency keys are forgotten before its approvals expire; raise the ttl in `idempotency` to the approval's `expires_in` at least
    "#);
}

#[tokio::test]
async fn reads_ignore_keys_unless_they_ask() {
    let app = App::new().await;
    for how in ["ok", "declared"] {
        let first = app.dana().invoke("act.read", act(how)).idempotency_key("k").await;
        assert!(!replayed(&first));
    }
    let keyed = |value: u32| app.dana().invoke("echo.keyed", json!({"value": value})).idempotency_key("k");
    assert_eq!(json_of(&keyed(1).await)["output"], 1);
    assert!(replayed(&keyed(1).await));
    assert_eq!(code(&keyed(2).await), "IDEMPOTENCY_KEY_REUSED");
}

#[tokio::test]
async fn a_key_is_visible_ascii_and_not_for_nobody_in_particular() {
    let app = App::new().await;
    let call = |key: &str| app.dana().invoke("act.write", act("ok")).idempotency_key(key);
    for (key, expected) in [
        (String::new(), "IDEMPOTENCY_KEY_INVALID"),
        ("k".into(), "-"),
        ("k".repeat(255), "-"),
        ("k".repeat(256), "IDEMPOTENCY_KEY_INVALID"),
        ("a b".into(), "IDEMPOTENCY_KEY_INVALID"),
        ("a\0b".into(), "IDEMPOTENCY_KEY_INVALID"),
        ("k\u{e9}y".into(), "IDEMPOTENCY_KEY_INVALID"),
    ] {
        assert_eq!(code(&call(&key).await), expected, "{key:?}");
    }
    // Before the input, and on every call: reads and invalid inputs too.
    assert_eq!(code(&app.dana().invoke("act.read", json!(7)).idempotency_key("").await), "IDEMPOTENCY_KEY_INVALID");
    let nobody = app.caller("anonymous").invoke("ping", json!({})).idempotency_key("k").await;
    insta::assert_json_snapshot!(nobody, @r#"
    {
      "status": "failed",
      "executionId": "exe-9",
      "error": {
        "code": "IDEMPOTENCY_KEY_INVALID",
        "message": "An idempotency key is 1 to 255 visible ASCII characters, and anonymous callers have none.",
        "retryable": false,
        "details": []
      }
    }
    "#);
}

#[tokio::test]
async fn another_policy_set_decides_again_before_anything_begins() {
    let place = Place::new().unwrap();
    let one = App::open(shop(), &place).await;
    let changed = policies_with("context.input.amountCents >= 500000", "context.input.amountCents >= 500");
    let two = App::open(shop_without_policies().policies(changed), &place).await;
    assert_eq!(code(&two.dana().invoke("orders.refund", refund("o", 600)).await), "POLICY_DENIED");
    // The first process has not heard of it yet, and its begin is sent back.
    assert_eq!(code(&one.dana().invoke("orders.refund", refund("o", 600)).await), "POLICY_DENIED");
    assert_eq!(one.runs(), 0);
}
