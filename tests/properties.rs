//! What holds for any input and any handler: hashes, no payload in the evidence, exactly one end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use countersign::{JsonInput, Outcome};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::logs::{CANARY, logged, watch_logs};
use crate::shop::{ALLOW_ALL, App, act, asked, cast, code, texts};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() })
}

// ---- hashes ----

/// The input hash that an approver is shown.
async fn hash_of(app: &App, text: &str) -> String {
    let outcome = app.dana().invoke("input.echo", JsonInput::text(text)).await;
    let approval = outcome.approval().unwrap_or_else(|| panic!("{text}: {outcome:?}"));
    let hash = approval.input_hash.clone();
    app.approvals(cast("dana")).withdraw(&approval.id).await.unwrap(); // the caps are not the subject
    hash
}

/// A gate on everything, so that each call shows its hash.
async fn hashing() -> App {
    let gated = format!(
        "{ALLOW_ALL}\n{}",
        r#"
        @id("people") permit (principal in Role::"manager", action == Countersign::Action::"approve", resource);
        @id("gate") @approval("manager") forbid (principal, action == Action::"input.echo", resource);"#
    );
    let schema = json!({"type": "object", "additionalProperties": true, "properties": {
        "d": {"type": "integer", "default": 7}, "s": {"type": "string"}}});
    App::with(crate::input::taking(schema).policies(texts(&gated))).await
}

#[tokio::test]
async fn equal_inputs_have_equal_hashes_and_others_do_not() {
    let app = hashing().await;
    for (one, two) in [
        (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#),
        (r#"{"a":1}"#, "{ \"a\" :\n1 }"),
        (r#"{"n":1}"#, r#"{"n":1e0}"#),
        (r#"{"n":1}"#, r#"{"n":1.0}"#),
        (r#"{"n":0}"#, r#"{"n":-0}"#),
        (r#"{"n":100}"#, r#"{"n":1E2}"#),
        (r#"{"n":[1.0,{"m":2.0}]}"#, r#"{"n":[1,{"m":2}]}"#),
        (r#"{"s":"\u0061\/"}"#, r#"{"s":"a/"}"#),
        ("{}", r#"{"d":7}"#),
        ("{}", r#"{"d":7.0}"#),
    ] {
        assert_eq!(hash_of(&app, one).await, hash_of(&app, two).await, "{one} {two}");
    }
    for (one, two) in [
        ("{\"s\":\"e\u{301}\"}", "{\"s\":\"\u{e9}\"}"),
        (r#"{"a":1}"#, r#"{"a":"1"}"#),
        (r#"{"a":null}"#, "{}"),
        (r#"{"a":[]}"#, r#"{"a":{}}"#),
        (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#),
        (r#"{"a":0.1}"#, r#"{"a":0.10000000000000002}"#),
        (r#"{"a":""}"#, r#"{"a":null}"#),
        (r#"{"a":true}"#, r#"{"a":1}"#),
        (r#"{"a":"x "}"#, r#"{"a":"x"}"#),
        ("{}", r#"{"d":8}"#),
    ] {
        assert_ne!(hash_of(&app, one).await, hash_of(&app, two).await, "{one} {two}");
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1_000_000i64..1_000_000).prop_map(Value::from),
        (-1e6f64..1e6).prop_map(Value::from),
        "[a-z\u{e9}\u{1F600}\"\\\\ ]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..4).prop_map(|it| it.into_iter().collect()),
        ]
    })
}

/// The same JSON in another spelling: members backwards, spaces, integers as floats, everything escaped.
fn respelled(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: Vec<_> =
                members.iter().rev().map(|(name, it)| format!(" {} : {}", escaped(name), respelled(it))).collect();
            format!("{{{} }}", members.join(","))
        }
        Value::Array(items) => format!("[ {} ]", items.iter().map(respelled).collect::<Vec<_>>().join(" , ")),
        Value::String(text) => escaped(text),
        Value::Number(number) if number.is_i64() => format!("{number}.0e0"),
        other => other.to_string(),
    }
}

fn escaped(text: &str) -> String {
    let units = text.encode_utf16().fold(String::new(), |mut all, unit| {
        write!(all, "\\u{unit:04x}").unwrap();
        all
    });
    format!("\"{units}\"")
}

#[test]
fn a_hash_depends_on_the_value_and_not_on_its_spelling() {
    let runtime = runtime();
    let app = runtime.block_on(hashing());
    let seen: Mutex<BTreeMap<String, Value>> = Mutex::default();
    let given = (json_value(), json_value()).prop_map(|(x, y)| json!({"x": x, "y": y}));
    let held = runner(40).run(&given, |value| {
        let (plain, other) = runtime
            .block_on(async { (hash_of(&app, &value.to_string()).await, hash_of(&app, &respelled(&value)).await) });
        prop_assert_eq!(&plain, &other);
        let normal = |it: &Value| respelled(it).replace(".0e0", "");
        if let Some(before) = seen.lock().unwrap().insert(plain, value.clone()) {
            prop_assert_eq!(normal(&before), normal(&value)); // no two values share a hash
        }
        Ok(())
    });
    held.unwrap();
}

// ---- no payload in the evidence ----

/// A value full of markers, in names and in texts.
fn marked() -> impl Strategy<Value = Value> {
    let marker = || "[a-z0-9]{3,8}".prop_map(|it| format!("{CANARY}{it}"));
    let leaf = prop_oneof![marker().prop_map(Value::from), any::<i32>().prop_map(Value::from), Just(Value::Null)];
    leaf.prop_recursive(2, 8, 3, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z0-9]{3,8}".prop_map(|it| format!("{CANARY}{it}")), inner, 0..3)
                .prop_map(|it| it.into_iter().collect()),
        ]
    })
}

/// Where a marked value goes.
const TARGETS: [&str; 9] = [
    "orders.search",
    "orders.refund",
    "orders.purge",
    "act.write",
    "echo.write",
    "echo.keyed",
    "messages.send",
    "payouts.send",
    "no.such",
];

/// An input for the target: right but for the marker, or wrong in every way.
fn bearing(target: &str, marked: &Value, right: bool) -> JsonInput {
    let text = marked.as_str().map_or_else(|| format!("{CANARY}text"), ToOwned::to_owned);
    let value = match target {
        "orders.search" if right => json!({"query": text}),
        "orders.refund" if right => json!({"orderId": text, "amountCents": 60_000}),
        "act.write" if right => json!({"do": "declared"}),
        "echo.write" | "echo.keyed" if right => json!({"value": marked, "more": marked}),
        "messages.send" if right => json!({"to": text, "text": text}),
        "payouts.send" if right => json!({"to": text, "amountCents": 1}),
        _ => {
            return JsonInput::text(
                json!({text: marked, "orderId": marked, "do": marked, "query": marked}).to_string(),
            );
        }
    };
    value.into()
}

#[test]
fn no_trail_and_no_log_holds_anything_of_an_input() {
    watch_logs();
    let runtime = runtime();
    let app = runtime.block_on(App::new());
    let seen: Mutex<BTreeMap<&'static str, u32>> = Mutex::default();
    let cases = (0..TARGETS.len(), marked(), any::<bool>(), any::<bool>(), 0..4u8);
    let attempt = |target: usize, marked: &Value, right, keyed, then| {
        let target = TARGETS[target];
        runtime.block_on(async {
            let mut call = app.dana().invoke(target, bearing(target, marked, right));
            if keyed {
                call = call.idempotency_key("a-key");
            }
            let outcome = call.await;
            *seen.lock().unwrap().entry(code(&outcome)).or_default() += 1;
            if matches!(outcome, Outcome::ApprovalRequired { .. }) {
                decide(&app, &outcome, then).await;
            }
        });
    };
    // Each target once, so that no way for a call to end is left to chance.
    (0..TARGETS.len()).for_each(|it| attempt(it, &json!(format!("{CANARY}first")), true, false, 0));
    let held = runner(96).run(&cases, |(target, marked, right, keyed, then)| {
        attempt(target, &marked, right, keyed, then);
        Ok(())
    });
    held.unwrap();
    let trail = runtime.block_on(app.trail());
    let text = serde_json::to_string(&trail).unwrap();
    assert!(!text.contains(CANARY), "{}", around(&text));
    assert_eq!(logged(CANARY), Vec::<String>::new());
    // The cases were not all alike.
    let seen = seen.into_inner().unwrap();
    for code in ["-", "?", "INPUT_INVALID", "CAPABILITY_NOT_FOUND", "EXECUTION_FAILED", "IDEMPOTENCY_KEY_REUSED"] {
        assert!(seen.contains_key(code), "never {code}: {seen:?}");
    }
}

fn around(text: &str) -> &str {
    let at = text.find(CANARY).unwrap_or_default();
    &text[at.saturating_sub(200)..text.len().min(at + 100)]
}

async fn decide(app: &App, outcome: &Outcome, then: u8) {
    let id = asked(outcome);
    match then {
        0 => drop(app.approvals(cast("priya")).reject(&id, "confirmation").await),
        1 => drop(app.approvals(cast("dana")).withdraw(&id).await),
        _ => {
            let kind = if outcome.approval().unwrap().types == ["manager"] { "manager" } else { "confirmation" };
            drop(app.approvals(cast("priya")).approve(&id, kind).await);
            let _ = app.dana().resume(&id).await;
        }
    }
}

// ---- exactly one end ----

/// What a handler does, and what its caller does meanwhile.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    Waits,
    CancelsBefore,
    CancelsDuring,
    HangsUp,
    RunsOutOfTime,
}

fn behaviour() -> impl Strategy<Value = (&'static str, &'static str, Meanwhile, bool)> {
    let capability = prop::sample::select(vec!["act.read", "act.retried", "act.write", "act.again", "act.external"]);
    let how = prop::sample::select(vec![
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
    ]);
    let meanwhile = prop_oneof![
        Just(Meanwhile::Waits),
        Just(Meanwhile::CancelsBefore),
        Just(Meanwhile::CancelsDuring),
        Just(Meanwhile::HangsUp),
        Just(Meanwhile::RunsOutOfTime),
    ];
    (capability, how, meanwhile, any::<bool>())
}

/// Makes a call under random behaviour. Whatever hangs is let go at the end.
async fn behave(app: &App, (capability, how, meanwhile, keyed): (&str, &str, Meanwhile, bool)) {
    let mut call = app.dana().invoke(capability, act(how));
    if keyed {
        call = call.idempotency_key(format!("k-{how}-{}", app.effects().len() % 7));
    }
    let mut call = Box::pin(call.start());
    let pass = async |call: &mut std::pin::Pin<Box<countersign::Execution>>, step: u64| {
        for _ in 0..200 {
            tokio::select! {
                biased;
                outcome = call.as_mut() => return Some(outcome),
                () = tokio::time::sleep(Duration::from_millis(3)) => app.clock().advance(Duration::from_millis(step)),
            }
        }
        None
    };
    match meanwhile {
        Meanwhile::CancelsBefore => call.cancel(),
        Meanwhile::CancelsDuring => {
            tokio::time::sleep(Duration::from_millis(3)).await;
            call.cancel();
        }
        Meanwhile::HangsUp => {
            tokio::task::yield_now().await;
            app.state.go_on.add_permits(1);
            return drop(call);
        }
        Meanwhile::Waits => app.state.go_on.add_permits(1),
        Meanwhile::RunsOutOfTime => {}
    }
    let outcome = pass(&mut call, 250).await;
    assert!(outcome.is_some(), "{capability} {how} {meanwhile:?}");
    app.state.go_on.add_permits(1); // the late ones finish
}

#[test]
fn every_execution_has_exactly_one_end() {
    let runtime = runtime();
    let app = runtime.block_on(App::new());
    let held = runner(64).run(&behaviour(), |case| {
        runtime.block_on(behave(&app, case));
        Ok(())
    });
    held.unwrap();
    runtime.block_on(async {
        app.state.go_on.add_permits(10_000);
        app.clock().advance(Duration::from_mins(1));
        let close = app.engine().shutdown(Duration::from_hours(1));
        let time = async {
            loop {
                tokio::time::sleep(Duration::from_millis(5)).await;
                app.clock().advance(Duration::from_secs(1));
            }
        };
        tokio::select! { () = close => {}, () = time => {} }
    });
    let events = runtime.block_on(countersign::testing::stored_events(app.place().database()));
    let mut seen = BTreeMap::<String, (u32, u32)>::new();
    for (_, event) in &events {
        if let Some(execution) = &event.envelope.execution_id {
            let counts = seen.entry(execution.to_string()).or_default();
            counts.0 += u32::from(matches!(event.kind, countersign::EventKind::Requested { .. }));
            counts.1 += u32::from(event.kind.is_terminal());
        }
    }
    assert!(seen.len() >= 64, "{}", seen.len());
    let wrong: Vec<_> = seen.iter().filter(|(_, counts)| **counts != (1, 1)).collect();
    assert_eq!(wrong, []);
}
