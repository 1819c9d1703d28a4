//! Two capabilities and two policy sets, under which calls end in ways that no mixture of the sets could come to.

use std::path::Path;
use std::sync::Arc;

use countersign::testing::{Entry, TestApp};
use countersign::{Capability, Engine, HandlerError, Invocation, PolicySource, Risk, Surface};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::shop::{cast, code};

const RELOADS: usize = 1_000;
const CALLERS: usize = 4;

/// Under A everything runs, by `a-permit`; under B `b-permit` holds too, and `b-forbid` denies.
const A: &str = r#"@id("a-permit") permit (principal, action in Action::"invoke", resource);
                   @id("a-gate") @hide forbid (principal, action in Action::"invoke", resource) when { context.surface == "mcp" };"#;
const B: &str = r#"@id("b-permit") permit (principal, action in Action::"invoke", resource);
                   @id("b-forbid") @reason("B says no.") forbid (principal, action in Action::"invoke", resource);"#;

async fn nothing(_: Invocation, (): ()) -> Result<Value, HandlerError> {
    Ok(json!({}))
}

async fn app(directory: &Path) -> TestApp<()> {
    let one = |draft: countersign::CapabilityBuilder| {
        draft.risk(Risk::Low).description("Does nothing.").expose([Surface::Direct]).handler(nothing)
    };
    let builder = Engine::builder()
        .capability(one(Capability::write("do.write")))
        .capability(one(Capability::read("do.read")))
        .policies(PolicySource::Directory(directory.into()));
    TestApp::new(builder, |_| ()).await.unwrap()
}

/// Which set an execution's last word fits, by its policies; `None` for one that says of no set.
fn fits(entry: &Entry) -> Option<&'static str> {
    match &*entry.kind {
        "capability.started" if entry.data["policies"] == json!([{"effect": "permit", "id": "a-permit"}]) => Some("A"),
        "capability.denied" if entry.data["policies"] == json!([{"effect": "forbid", "id": "b-forbid"}]) => Some("B"),
        "capability.denied" if entry.data["reason"] == "policy_failed" => None, // it changed three times meanwhile
        _ => panic!("no set says so: {entry:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_ever_sees_half_a_set() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("all.cedar");
    std::fs::write(&file, A).unwrap();
    let app = Arc::new(app(directory.path()).await);
    let turns = Arc::new(Semaphore::new(0)); // closed at the end
    let callers = (0..CALLERS).map(|n| {
        let (app, turns) = (Arc::clone(&app), Arc::clone(&turns));
        let capability = if n % 2 == 0 { "do.write" } else { "do.read" };
        tokio::spawn(async move {
            let mut ends = Vec::new();
            while let Ok(turn) = turns.acquire().await {
                turn.forget();
                let outcome = app.on_behalf_of(cast("dana")).invoke(capability, json!({})).await;
                ends.push((outcome.execution_id().to_string(), code(&outcome)));
            }
            ends
        })
    });
    let callers: Vec<_> = callers.collect();
    let mut hashes = std::collections::BTreeMap::from([(app.engine().policy_hash(), "A")]);
    for n in 0..RELOADS {
        let (text, name) = if n % 2 == 0 { (B, "B") } else { (A, "A") };
        std::fs::write(&file, text).unwrap();
        turns.add_permits(CALLERS);
        let reloaded = app.engine().reload_policies().await.unwrap();
        assert!(reloaded.changed);
        assert_eq!(*hashes.entry(reloaded.hash).or_insert(name), name);
    }
    turns.close();
    let mut ends = std::collections::HashMap::new();
    for caller in callers {
        ends.extend(caller.await.unwrap());
    }
    check(&app, &ends, &hashes).await;
}

/// Every execution has one word about policies, and that, its hash and what the caller got are of one set.
async fn check(
    app: &TestApp<()>,
    ends: &std::collections::HashMap<String, &'static str>,
    hashes: &std::collections::BTreeMap<String, &'static str>,
) {
    let mut counts = std::collections::BTreeMap::<Option<&str>, usize>::new();
    let trail = app.trail().await;
    let said = trail.entries().iter().filter(|it| matches!(&*it.kind, "capability.started" | "capability.denied"));
    for entry in said {
        let set = fits(entry);
        let end = ends[entry.execution_id.as_deref().unwrap()];
        let expected = set.map_or("POLICY_FAILED", |it| if it == "A" { "-" } else { "POLICY_DENIED" });
        assert_eq!(end, expected, "{entry:?}");
        if let Some(set) = set {
            assert_eq!(hashes.get(entry.policy_hash.as_deref().unwrap()), Some(&set), "{entry:?}");
        }
        *counts.entry(set).or_default() += 1;
    }
    assert_eq!(counts.values().sum::<usize>(), ends.len(), "one word for each call");
    assert!(counts[&Some("A")] > 100 && counts[&Some("B")] > 100, "{counts:?}");
    assert!(counts.get(&None).is_none_or(|it| it * 10 < ends.len()), "{counts:?}");
    assert_eq!(trail.entries().iter().filter(|it| it.kind == "policy.loaded").count(), RELOADS + 1);
}
