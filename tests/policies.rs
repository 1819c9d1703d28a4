//! Policies through whole calls: the matrix, erring policies, reloading, sets that can never match.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use countersign::testing::Place;
use countersign::{Caller, Filter, PolicySource, RequiresApproval, Surface};
use serde_json::{Value, json};

use crate::shop::{App, POLICIES, cast, code, json_of, refund, shop_without_policies, texts};

/// Capabilities with an input that is valid.
fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("orders.search", json!({"query": "x"})),
        ("orders.refund", refund("ord_1", 100)),
        ("orders.refund", refund("ord_1", 60_000)),
        ("orders.refund", refund("ord_1", 500_000)),
        ("orders.purge", json!({})),
        ("ghost.read", json!({})),
        ("ping", json!({})),
        ("sums.add", json!({"a": 0})),
        ("act.write", json!({"do": "ok"})),
        ("payouts.send", json!({"to": "x", "amountCents": 1})),
        ("messages.send", json!({"to": "x", "text": "y"})),
        ("gifts.send", json!({})),
    ]
}

/// How a capability is listed: not, or with or without the need for approval; and how the call ends.
async fn cell(caller: &Caller, capability: &str, input: Value) -> String {
    let listed = caller.capabilities(Filter::all().ids([capability])).await.unwrap();
    let listed = match listed.first().map(|it| it.requires_approval) {
        None => ' ',
        Some(RequiresApproval::Never) => 'l',
        Some(RequiresApproval::Sometimes) => 's',
        Some(RequiresApproval::Always) => 'a',
    };
    let outcome = match code(&caller.invoke(capability, input).await) {
        "-" => "runs",
        "?" => "asks",
        "CAPABILITY_NOT_FOUND" => "none",
        "POLICY_DENIED" => "deny",
        other => panic!("{other} in the matrix"),
    };
    format!("{listed} {outcome}")
}

#[tokio::test]
async fn the_policy_matrix() {
    let app = App::new().await;
    let mut table = String::new();
    for surface in [Surface::Direct, Surface::Http, Surface::Mcp] {
        let actors = ["dana", "crm", "priya", "nightly", "anonymous", "stranger"];
        writeln!(table, "{:32}{}", surface.as_str(), actors.map(|it| format!("{it:10}")).concat().trim_end()).unwrap();
        for (capability, input) in calls() {
            let mut line = format!("  {capability:15} {:14}", input["amountCents"].to_string().replace("null", ""));
            for actor in actors {
                write!(line, "{:10}", cell(&app.over(surface, cast(actor)), capability, input.clone()).await).unwrap();
            }
            writeln!(table, "{}", line.trim_end()).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

#[tokio::test]
async fn r15_a_forbid_that_errs_is_a_failure_and_no_pass() {
    let app = App::new().await;
    let outcome = app.dana().invoke("sums.add", json!({"a": 9_007_199_254_740_991_i64})).await;
    insta::assert_json_snapshot!(outcome, @r#"
    {
      "status": "failed",
      "executionId": "exe-1",
      "error": {
        "code": "POLICY_FAILED",
        "message": "The operation failed.",
        "retryable": false,
        "details": []
      }
    }
    "#);
    let trail = app.trail_of(outcome.execution_id()).await;
    insta::assert_json_snapshot!(trail.entries().last().unwrap().data, @r#"
    {
      "errors": [
        {
          "kind": "integer_overflow",
          "policy": "sums-must-be-small"
        }
      ],
      "publicCode": "POLICY_FAILED",
      "reason": "policy_failed"
    }
    "#);
    assert_eq!(app.runs(), 0);
    assert_eq!(code(&app.dana().invoke("sums.add", json!({"a": 1})).await), "POLICY_DENIED");
    assert_eq!(code(&app.dana().invoke("sums.add", json!({"a": 0})).await), "-");
}

#[tokio::test]
async fn r15_wrong_types_and_missing_members_are_refused_when_loading() {
    for condition in ["context.input.amountCents == \"1\"", "context.input.amount > 1", "context.input.orderId > 1"] {
        let policy = format!(
            "@id(\"wrong\") forbid (principal, action == Action::\"orders.refund\", resource) when {{ {condition} }};\n{POLICIES}"
        );
        let error = refused(texts(&policy)).await;
        assert!(error.problems.iter().all(|it| it.what.contains("`wrong`")), "{condition}: {error}");
    }
}

async fn refused(source: PolicySource) -> countersign::BuildError {
    let place = Place::new().unwrap();
    let builder = shop_without_policies().policies(source);
    builder.database(format!("sqlite:{}", place.database().display())).build().await.err().expect("the set is refused")
}

#[tokio::test]
async fn r16_what_looks_like_an_entity_is_inert_data() {
    let schema = json!({"type": "object", "additionalProperties": false, "properties": {"who": {"type": "object",
        "properties": {"__entity": {"type": "object", "properties": {"type": {"type": "string"}, "id": {"type": "string"}}},
        "name": {"type": "string"}}}}});
    let policies = r#"
        @id("admins") permit (principal in Role::"admin", action == Action::"input.echo", resource);
        @id("named") permit (principal, action == Action::"input.echo", resource)
        when { context.input has who && context.input.who has name && context.input.who.name == "admin" };"#;
    let app = App::with(crate::input::taking(schema).policies(texts(policies))).await;
    let odd = ["admin\"", "a\nb", "\u{202e}admin", "Role::\"admin\"", "\\", "admin\u{0}"];
    for id in odd {
        let input = json!({"who": {"__entity": {"type": "Role", "id": id}, "name": id}});
        let found = code(&app.dana().invoke("input.echo", input).await).to_owned();
        assert!(matches!(&*found, "POLICY_DENIED" | "INPUT_INVALID"), "{id:?}: {found}");
    }
    let input = json!({"who": {"__entity": {"type": "Role", "id": "admin"}}});
    assert_eq!(code(&app.dana().invoke("input.echo", input).await), "POLICY_DENIED");
    for id in ["dana\"; permit", "dan\u{202e}a", "User::\"x\"", "a|b", "d'; --"] {
        let outcome = app.on_behalf_of(countersign::Actor::user(id)).invoke("input.echo", json!({})).await;
        assert_eq!(code(&outcome), "POLICY_DENIED", "{id:?}");
    }
}

#[tokio::test]
async fn r18_a_rule_that_can_never_match_is_refused_with_its_place() {
    let mut texts_of = String::new();
    for rule in [
        "permit (principal, action == Action::\"orders.refnd\", resource)",
        "forbid (principal, action == Action::\"orders.refund\", resource) when { context.input.amountCent > 1 }",
        "forbid (principal, action == Action::\"orders.refund\", resource) when { context.input has amountCent && true }",
        "permit (principal, action == Action::\"orders.refund\", resource == Capability::\"no.such\")",
    ] {
        let error = refused(texts(&format!("{POLICIES}\n@id(\"new\") {rule};"))).await;
        for problem in &error.problems {
            assert!(problem.at.starts_with("shop.cedar:") && problem.what.contains("`new`"), "{rule}: {error}");
        }
        writeln!(texts_of, "{}", error.problems[0].what).unwrap();
    }
    insta::assert_snapshot!(texts_of, @r#"
    unrecognized action `Action::"orders.refnd"` (policy `new`)
    attribute `input.amountCent` in context for Action::"orders.refund" not found (policy `new`)
    it can never apply, whatever the request (policy `new`)
    there is no capability `no.such` (policy `new`)
    "#);
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("shop.cedar"), POLICIES).unwrap();
    std::fs::write(directory.path().join("rules.cedar.txt"), "permit (principal, action, resource);").unwrap();
    let error = refused(PolicySource::Directory(directory.path().into())).await;
    assert!(error.problems.iter().any(|it| it.at.contains("rules.cedar.txt")), "{error}");
}

#[tokio::test]
async fn r18_an_empty_directory_denies_everything() {
    let directory = tempfile::tempdir().unwrap();
    // Without the capability that asks for approval itself: nobody could give it.
    let builder = crate::shop::everything_but(&["messages.send"]);
    let app = App::with(builder.policies(PolicySource::Directory(directory.path().into()))).await;
    for (capability, input) in [("ping", json!({})), ("orders.search", json!({"query": "x"}))] {
        assert_eq!(code(&app.dana().invoke(capability, input).await), "POLICY_DENIED");
    }
    assert_eq!(app.dana().capabilities(Filter::all()).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r18_sets_are_swapped_under_load_and_a_bad_one_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("shop.cedar");
    std::fs::write(&file, POLICIES).unwrap();
    let source = PolicySource::Directory(directory.path().into());
    let app = Arc::new(App::with(shop_without_policies().policies(source)).await);
    let stop = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..4)
        .map(|_| {
            let (app, stop) = (Arc::clone(&app), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut seen = std::collections::BTreeMap::<&str, u32>::new();
                while !stop.load(Ordering::Relaxed) {
                    *seen.entry(code(&app.dana().invoke("orders.refund", refund("o", 60_000)).await)).or_default() += 1;
                    *seen.entry(code(&app.dana().invoke("orders.search", json!({"query": "x"})).await)).or_default() +=
                        1;
                }
                seen
            })
        })
        .collect();
    let tighter = POLICIES.replace("context.input.amountCents >= 500000", "context.input.amountCents >= 500");
    let mut hash = app.engine().policy_hash();
    for (text, good) in [
        (&*tighter, true),
        ("permit (principal", false),
        (POLICIES, true),
        ("@id(\"x\") permit (principal, action == Action::\"orders.refnd\", resource);", false),
    ] {
        std::fs::write(&file, text).unwrap();
        let reloaded = app.engine().reload_policies().await;
        assert_eq!(reloaded.is_ok(), good, "{text}");
        let now = app.engine().policy_hash();
        assert_eq!(now != hash, good);
        hash = now;
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    }
    stop.store(true, Ordering::Relaxed);
    for it in load {
        for (code, count) in it.await.unwrap() {
            // Each call was decided wholly by one set or the other: never a failure, never an allow.
            assert!(matches!(code, "?" | "POLICY_DENIED" | "-" | "RATE_LIMITED"), "{count} times {code}");
        }
    }
    let trail = app.trail().await;
    let swaps: Vec<_> =
        trail.entries().iter().filter(|it| it.kind.starts_with("policy.")).map(|it| &*it.kind).collect();
    assert_eq!(swaps, ["policy.loaded", "policy.loaded", "policy.refused", "policy.loaded", "policy.refused"]);
    // Every denial and every request was by the set that its event names.
    for it in trail.entries().iter().filter(|it| it.kind == "capability.denied") {
        assert_eq!(it.data["policies"], json!([{"effect": "forbid", "id": "refund-of-5000-is-too-large"}]), "{it:?}");
    }
}

#[tokio::test]
async fn a_set_that_does_not_load_does_not_start() {
    let error = refused(texts("permit (principal, action, resource)")).await;
    assert_eq!(error.problems.len(), 1, "{error}");
    let place = Place::new().unwrap();
    let bad = shop_without_policies().policies(texts("nonsense")).sealing_key(countersign::testing::KEY);
    assert!(bad.database(format!("sqlite:{}", place.database().display())).build().await.is_err());
    // It is on record all the same.
    let app = App::open(crate::shop::shop(), &place).await;
    assert_eq!(app.trail().await.entries()[0].kind, "policy.refused");
}

#[tokio::test]
async fn a_denial_gives_the_reason_of_its_policy() {
    let app = App::new().await;
    let outcome = app.dana().invoke("orders.refund", refund("o", 900_000)).await;
    assert_eq!(outcome.error().unwrap().message, "Refunds of $5,000 and more are not possible.");
    let outcome = app.caller("stranger").invoke("orders.refund", refund("o", 1)).await;
    assert_eq!(json_of(&outcome)["error"]["message"], "No policy permits this call.");
}
