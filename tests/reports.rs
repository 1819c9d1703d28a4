//! Reported faults that stand for whole kinds; those of one subject are with it (`rg 'fn r[0-9]+_' tests`).

use std::process::Command;
use std::time::{Duration, Instant};

use countersign::testing::Place;
use countersign::{Actor, ErrorCode, Identity, Outcome};
use serde_json::{Value, json};

use crate::shop::{App, POLICIES, Shop, act, asked, cast, code, json_of, omar, refund, refused, shop, texts};

#[tokio::test]
async fn r19_no_forged_approval_runs_anything() {
    let app = App::new().await;
    let id = app.ask("ord_1").await;
    assert_eq!(code(&app.dana().resume("apr_AAAAAAAAAAAAAAAAAAAAAAAAAAA").await), "APPROVAL_NOT_FOUND");
    assert_eq!(code(&app.caller("sam").resume(&id).await), "APPROVAL_NOT_FOUND");
    for member in ["approved", "approval", "approvalId", "actor", "surface"] {
        let mut input = refund("ord_1", 60_000);
        input[member] = json!(true);
        assert_eq!(code(&app.dana().invoke("orders.refund", input).await), "INPUT_INVALID", "{member}");
    }
    assert_eq!(refused(app.approvals(cast("dana")).approve(&id, "manager").await), ErrorCode::ApprovalSelfApproval);
    app.approvals(cast("priya")).approve(&id, "manager").await.unwrap();
    assert_eq!(code(&app.dana().resume(&id).await), "-");
    assert_eq!(code(&app.dana().resume(&id).await), "APPROVAL_CONSUMED");
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn r19_a_permit_that_is_gone_by_the_resume_denies() {
    let app = App::new().await;
    let id = app.approved("ord_1").await;
    let retired = Actor::user("dana").role("retired");
    assert_eq!(code(&app.on_behalf_of(retired).resume(&id).await), "POLICY_DENIED");
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn r21_a_schema_that_was_tightened_runs_nothing_and_spends_nothing() {
    let place = Place::new().unwrap();
    let id = App::open(shop(), &place).await.approved("ord_1").await;
    let input = json!({"type": "object", "additionalProperties": false, "properties": {"orderId": {"type": "string"},
        "amountCents": {"type": "integer", "maximum": 50_001}}, "required": ["amountCents"]});
    let tightened = crate::shop::refund_draft().json_handler(
        input,
        json!({"type": "object", "properties": {"gatewayRef": {}}}),
        |_: countersign::Invocation<Shop>, _: Value| async { Ok::<_, countersign::HandlerError>(json!({})) },
    );
    let builder = crate::shop::everything_but(&["orders.refund"]).capability(tightened);
    let after = App::open(builder.policies(texts(POLICIES)), &place).await;
    let outcome = after.dana().resume(&id).await;
    assert_eq!(outcome.error().unwrap().message, "The input schema changed since this was asked for. Ask again.");
    let view = after.approvals(cast("priya")).show(&id).await.unwrap();
    assert_eq!((view.status.as_str(), after.runs()), ("approved", 0));
}

#[tokio::test]
async fn r23_the_same_person_in_any_spelling_or_role() {
    let app = App::new().await;
    let ask = async |requester: Actor| {
        asked(&app.on_behalf_of(requester.role("support")).invoke("orders.refund", refund("o", 60_000)).await)
    };
    for (requester, approver) in [
        ("Owner@example.test", "owner@example.test"),
        ("Owner@example.test", "Owner@example.test "),
        ("jos\u{e9}@example.test", "jose\u{301}@example.test"),
    ] {
        let id = ask(Actor::user(requester)).await;
        for role in ["manager", "admin"] {
            let decision = app.approvals(Actor::user(approver).role(role)).approve(&id, "manager").await;
            assert_eq!(refused(decision), ErrorCode::ApprovalSelfApproval, "{approver} as {role}");
        }
    }
    let id = ask(Actor::user("alice").issuer("https://a.example")).await;
    let other = Actor::user("alice").issuer("https://b.example").role("manager");
    assert!(app.approvals(other).approve(&id, "manager").await.is_ok());
}

#[tokio::test]
async fn r25_of_three_requests_at_once_only_the_approved_one_runs() {
    let app = App::new().await;
    let call = |order: &str| app.dana().invoke("orders.refund", refund(order, 60_000)).start();
    let (one, two, three) = tokio::join!(call("same"), call("same"), call("other"));
    let ids = [asked(&one), asked(&two), asked(&three)];
    assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), 3);
    app.approvals(cast("priya")).approve(&ids[1], "manager").await.unwrap();
    app.approvals(cast("priya")).reject(&ids[0], "manager").await.unwrap();
    assert_eq!(code(&app.dana().resume(&ids[2]).await), "APPROVAL_PENDING");
    assert_eq!(code(&app.dana().resume(&ids[0]).await), "APPROVAL_REJECTED");
    assert_eq!(code(&app.dana().resume(&ids[1]).await), "-");
    assert_eq!(code(&app.dana().resume(&ids[1]).await), "APPROVAL_CONSUMED");
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn r26_a_second_decision_is_cleanly_refused() {
    let app = App::new().await;
    let id = app.approved("ord_1").await;
    let before = app.approvals(cast("priya")).show(&id).await.unwrap();
    assert_eq!(refused(app.approvals(cast("paul")).approve(&id, "manager").await), ErrorCode::ApprovalAlreadyDecided);
    assert_eq!(refused(app.approvals(cast("paul")).reject(&id, "manager").await), ErrorCode::ApprovalAlreadyDecided);
    assert_eq!(app.approvals(cast("priya")).show(&id).await.unwrap(), before);
}

#[tokio::test]
async fn r28_a_key_is_its_callers_and_its_capabilitys() {
    let app = App::new().await;
    let call = async |who: Identity, capability: &str, input: Value| {
        let outcome = app.on_behalf_of(who).invoke(capability, input).idempotency_key("k1").await;
        (code(&outcome), json_of(&outcome)["replayed"] == true)
    };
    let dana = || Identity::from(cast("dana"));
    let run = ("-", false);
    // Refused first, then done right: refusals store nothing.
    assert_eq!(call(dana(), "orders.refund", json!({"orderId": 1})).await, ("INPUT_INVALID", false));
    assert_eq!(call(dana(), "orders.refund", refund("o", 900_000)).await, ("POLICY_DENIED", false));
    assert_eq!(call(dana(), "orders.refund", refund("o", 60_000)).await, ("?", false));
    assert_eq!(call(dana(), "orders.refund", refund("o", 1)).await, run);
    assert_eq!(call(cast("sam").into(), "orders.refund", refund("o", 1)).await, run);
    assert_eq!(call(dana(), "act.write", act("ok")).await, run);
    assert_eq!(call(cast("dana").issuer("https://i.example").into(), "orders.refund", refund("o", 1)).await, run);
    assert_eq!(call(omar(), "orders.refund", refund("o", 1)).await, run);
    assert_eq!(call(dana(), "orders.refund", refund("o", 2)).await, ("IDEMPOTENCY_KEY_REUSED", false));
    assert_eq!(call(dana(), "orders.refund", refund("o", 1)).await, ("-", true));
    assert_eq!(call(Actor::user("dana").into(), "orders.refund", refund("o", 1)).await, ("POLICY_DENIED", false));
    assert_eq!(app.runs(), 5);
}

#[tokio::test]
async fn r29_what_a_handler_does_to_its_copy_changes_nothing() {
    let mutating = |_: countersign::Invocation<Shop>, mut input: Value| async move {
        input["who"] = json!(input["who"].as_str().unwrap_or_default().to_lowercase());
        input["extra"] = json!(1);
        Ok::<_, countersign::HandlerError>(input)
    };
    let schema = json!({"type": "object", "additionalProperties": false, "properties": {"who": {"type": "string"}}});
    let capability = crate::shop::draft("act.mutating", countersign::SideEffect::Write);
    let app = App::with(shop().capability(capability.json_handler(schema, json!({}), mutating))).await;
    let call = || app.dana().invoke("act.mutating", json!({"who": "LEE"})).idempotency_key("k");
    let (first, again) = (call().await, call().await);
    assert_eq!(json_of(&first)["output"], json!({"who": "lee", "extra": 1}));
    assert_eq!(
        (json_of(&again)["replayed"].clone(), json_of(&again)["output"].clone()),
        (json!(true), json!({"who": "lee", "extra": 1}))
    );
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn r34_a_declared_error_is_never_an_invalid_output() {
    let app = App::new().await;
    let outcome = app.dana().invoke("orders.refund", refund("gone", 1)).await;
    assert_eq!(
        json_of(&outcome)["error"],
        json!({"code": "EXECUTION_FAILED", "message": "The order cannot be refunded.", "retryable": false,
            "details": [{"code": "NOT_ELIGIBLE"}]})
    );
    let outcome = app.dana().invoke("act.write", act("declared")).await;
    assert_eq!(json_of(&outcome)["error"]["details"], json!([{"code": "NOT_ELIGIBLE"}]));
}

#[tokio::test]
async fn r35_an_unusable_output_ran_and_runs_no_second_time() {
    let app = App::new().await;
    let call = || app.dana().invoke("act.again", act("bad_output")).idempotency_key("k9");
    let (first, again) = (call().await, call().await);
    for outcome in [&first, &again] {
        assert_eq!(code(outcome), "OUTPUT_INVALID");
        assert_eq!(outcome.error().unwrap().message, "It ran, but its answer was not usable.");
    }
    assert!(matches!(again, Outcome::Failed { replayed: true, .. }));
    assert_eq!(app.effects(), ["act.again #1"]);
}

/// Within 200 ms at least, and 300 ms plus what a busy machine may add.
const LATE: Duration = Duration::from_millis(900);

/// R32 needs real time: a deadline of 200 ms, and handlers that really block.
mod deadline {
    use super::{Duration, Value, json};
    use countersign::{Capability, Engine, HandlerError, Invocation, Risk, SideEffect, Surface};
    use std::sync::{Arc, Mutex};

    pub(crate) struct Real {
        pub(crate) engine: Engine<Shared>,
        pub(crate) shared: Shared,
        _directory: tempfile::TempDir,
    }

    #[derive(Clone, Default)]
    pub(crate) struct Shared {
        pub(crate) acted: Arc<Mutex<Vec<String>>>,
        pub(crate) lock: Arc<Mutex<()>>,
    }

    async fn handler(cx: Invocation<Shared>, input: Value) -> Result<Value, HandlerError> {
        let how = input["how"].as_str().unwrap_or_default().to_owned();
        let acted = Arc::clone(&cx.app().acted);
        let done = move |how: String| {
            acted.lock().unwrap().push(how);
            Ok(json!({}))
        };
        match &*how {
            "honours" => {
                cx.cancelled().await;
                Err(HandlerError::other("stopped"))
            }
            "ignores" => {
                tokio::time::sleep(Duration::from_millis(700)).await;
                done(how)
            }
            "blocks" => {
                std::thread::sleep(Duration::from_millis(700));
                done(how)
            }
            "panics" => panic!("secret-cause"),
            "panics_with_lock" => {
                let _held = cx.app().lock.lock();
                panic!("secret-cause")
            }
            "declares" => Err(crate::shop::NOT_ELIGIBLE.into()),
            _ => done(how),
        }
    }

    pub(crate) async fn real() -> Real {
        let schema =
            json!({"type": "object", "additionalProperties": false, "properties": {"how": {"type": "string"}}});
        let draft = |id: &str, effect| {
            Capability::builder(id, effect)
                .risk(Risk::Low)
                .description("For tests.")
                .expose([Surface::Direct])
                .timeout(Duration::from_millis(200))
                .error(crate::shop::NOT_ELIGIBLE)
        };
        let directory = tempfile::tempdir().unwrap();
        let shared = Shared::default();
        let engine = Engine::builder()
            .capability(draft("r32.read", SideEffect::Read).retries(3).json_handler(schema.clone(), json!({}), handler))
            .capability(draft("r32.write", SideEffect::Write).json_handler(schema, json!({}), handler))
            .policies(crate::shop::texts(crate::shop::ALLOW_ALL))
            .database(format!("sqlite:{}", directory.path().join("r32.db").display()))
            .build()
            .await
            .unwrap();
        Real { engine, shared, _directory: directory }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r32_a_deadline_answers_whatever_the_handler_does() {
    let real = deadline::real().await;
    let dana = real.engine.on_behalf_of(Actor::user("dana"), real.shared.clone());
    let ways = ["honours", "ignores", "blocks", "panics", "panics_with_lock", "declares"];
    for how in ways {
        for capability in ["r32.read", "r32.write"] {
            let write = capability == "r32.write";
            let began = Instant::now();
            let call = || dana.invoke(capability, json!({"how": how})).idempotency_key(how);
            let outcome = call().await;
            let took = began.elapsed();
            let times_out = matches!(how, "honours" | "ignores" | "blocks");
            let expected = if times_out { "TIMEOUT" } else { "EXECUTION_FAILED" };
            assert_eq!(code(&outcome), expected, "{how} {capability}");
            assert!(!json_of(&outcome).to_string().contains("secret"), "{how}");
            if times_out {
                assert!(took >= Duration::from_millis(200) && took < LATE, "{how} {capability}: {took:?}");
                assert_eq!(outcome.error().unwrap().retryable, !write, "{how} {capability}");
            }
            if write && how == "blocks" {
                assert_eq!(code(&call().await), "OUTCOME_UNKNOWN");
            }
            assert_eq!(code(&dana.invoke(capability, json!({"how": "works"})).await), "-", "after {how}");
        }
    }
    real.engine.shutdown(Duration::from_secs(10)).await; // waits for the late ones
    let acted = real.shared.acted.lock().unwrap().clone();
    let count = |how: &str| acted.iter().filter(|it| *it == how).count();
    // Time-outs are not retried, neither as reads nor as writes.
    assert_eq!((count("ignores"), count("blocks"), count("works")), (2, 2, 12));
}

#[tokio::test]
async fn r32_a_late_finish_is_recorded_and_ends_nothing_twice() {
    let app = App::new().await;
    let call = app.dana().invoke("act.write", act("hang")).idempotency_key("k").start();
    let (outcome, ()) = tokio::join!(call, app.expire());
    app.state.go_on.add_permits(1);
    while app.trail_of(outcome.execution_id()).await.entries().len() < 4 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let trail = app.trail_of(outcome.execution_id()).await;
    assert_eq!(trail.entries().iter().filter(|it| it.is_terminal()).count(), 1);
    assert_eq!(trail.entries().last().unwrap().data, json!({"applied": true, "by": "late_finish", "to": "completed"}));
    assert_eq!(code(&app.dana().invoke("act.write", act("ok")).await), "-");
}

const WRITER: &str = "COUNTERSIGN_TEST_WRITER";
const TASKS: usize = 16;
const CALLS: usize = 50;

/// One of the two processes of R39; as an ordinary test it does nothing but say so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r39_writer() {
    let Ok(database) = std::env::var(WRITER) else {
        return eprintln!("r39_writer runs as a child of r39_two_processes_write_one_database");
    };
    let builder = shop().database(format!("sqlite:{database}")).sealing_key(countersign::testing::KEY);
    let engine = builder.build().await.unwrap();
    let state = std::sync::Arc::new(crate::shop::State::default());
    let dana = engine.on_behalf_of(cast("dana"), Shop(state));
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let dana = dana.clone();
            tokio::spawn(async move {
                for _ in 0..CALLS {
                    let outcome = dana.invoke("orders.refund", refund("o", 1)).await;
                    assert_eq!(code(&outcome), "-", "{outcome:?}");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    engine.shutdown(Duration::from_secs(10)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r39_two_processes_write_one_database() {
    let place = Place::new().unwrap();
    let child = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "reports::r39_writer", "--nocapture"]).env(WRITER, place.database());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    let children = [child(), child()];
    for it in children {
        let done = tokio::task::spawn_blocking(|| it.wait_with_output()).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&done.stderr) + String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{said}");
        assert!(!said.contains("locked"), "{said}");
    }
    let rows = crate::tamper::numbers(&place.database(), "SELECT seq FROM audit_event ORDER BY seq").await;
    assert_eq!(rows, (1..=i64::try_from(rows.len()).unwrap()).collect::<Vec<_>>()); // unique and gap-free
    let ended = "SELECT count(*) FROM audit_event WHERE type = 'capability.completed'";
    assert_eq!(crate::tamper::numbers(&place.database(), ended).await, [i64::try_from(2 * TASKS * CALLS).unwrap()]);
}
