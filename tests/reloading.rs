//! The active policy set over time and over processes: copies, publishing, going back, history.

use countersign::testing::Place;
use countersign::{ErrorCode, Identity, PolicyRefusal, PolicySets, PolicySource};
use serde_json::{Value, json};

use crate::shop::{
    ALLOW_ALL, App, POLICIES, cast, code, everything_but, refund, refused, shop_without_policies, texts,
};

/// Who may publish: administrators.
const PUBLISHERS: &str = r#"
    @id("admins-publish")
    permit (principal in Role::"admin", action in [Countersign::Action::"publish_policies",
            Countersign::Action::"read_policies"], resource);"#;

/// The shop's policies with publishers, and more behind them.
fn with(more: &str) -> PolicySource {
    texts(&format!("{POLICIES}{PUBLISHERS}{more}"))
}

const NO_SEARCH: &str = r#"@id("no-search") forbid (principal, action == Action::"orders.search", resource);"#;

async fn process(source: PolicySource, place: &Place) -> App {
    App::open(shop_without_policies().policies(source), place).await
}

fn admin(app: &App) -> PolicySets {
    app.engine().policies(cast("ada"))
}

async fn search(app: &App) -> &'static str {
    code(&app.dana().invoke("orders.search", json!({"query": "x"})).await)
}

/// The events about policies so far, without hashes.
async fn told(app: &App) -> Vec<Value> {
    let trail = app.trail().await.without_hashes();
    let about = |kind: &str| kind.starts_with("policy.") || kind.starts_with("management.");
    let entries = trail.entries().iter().filter(|it| about(&it.kind));
    entries.map(|it| json!([it.kind, it.actor, it.data])).collect()
}

fn lines(all: &[Value]) -> String {
    all.iter().map(|it| format!("{it}\n")).collect()
}

/// By any record a process learns of another active set.
async fn learn(app: &App) {
    assert_eq!(code(&app.dana().invoke("no.such", json!({})).await), "CAPABILITY_NOT_FOUND");
}

#[tokio::test]
async fn a_process_takes_the_active_set_from_its_copy() {
    let place = Place::new().unwrap();
    let one = process(with(""), &place).await;
    let two = process(with(NO_SEARCH), &place).await;
    learn(&one).await;
    assert_eq!((search(&two).await, search(&one).await), ("POLICY_DENIED", "POLICY_DENIED"));
    assert_eq!(one.engine().policy_hash(), two.engine().policy_hash());
    let denied = one.trail().await;
    let denied = denied.entries().last().unwrap();
    assert_eq!(denied.policy_hash.as_deref(), Some(&*two.engine().policy_hash()));
    assert_eq!(one.runs(), 0);
}

/// Two processes with other capabilities, and so with other schemas.
async fn apart() -> (Place, App, App) {
    let place = Place::new().unwrap();
    let build = |without: &[&str]| everything_but(without).policies(texts(&format!("{ALLOW_ALL}{PUBLISHERS}")));
    let one = App::open(build(&["messages.send"]), &place).await;
    let two = App::open(build(&["messages.send", "ping"]), &place).await;
    (place, one, two)
}

#[tokio::test]
async fn a_process_that_cannot_have_the_active_set_denies_before_anything_runs() {
    let (_, one, _two) = apart().await;
    learn(&one).await;
    for (capability, input) in [
        ("orders.search", json!({"query": "x"})),
        ("act.read", json!({"do": "ok"})),
        ("ping", json!({})),
        ("orders.refund", refund("o", 1)),
    ] {
        assert_eq!(code(&one.dana().invoke(capability, input).await), "POLICY_FAILED", "{capability}");
    }
    assert_eq!(one.runs(), 0);
    one.engine().reload_policies().await.unwrap();
    assert_eq!(search(&one).await, "-");
}

#[tokio::test]
async fn a_read_that_began_under_a_set_that_is_gone_is_not_answered_and_does_not_run_again() {
    let (_, one, _two) = apart().await;
    assert_eq!(search(&one).await, "POLICY_FAILED");
    assert_eq!(one.runs(), 1, "nobody knew yet");
}

#[tokio::test]
async fn publishing_is_for_every_process_and_on_record_with_who_did_it() {
    let place = Place::new().unwrap();
    let (one, two) = (process(with(""), &place).await, process(with(""), &place).await);
    let published = admin(&one).publish(with(NO_SEARCH)).await.unwrap();
    assert!(published.changed);
    assert_eq!(published.hash, one.engine().policy_hash());
    assert_eq!((search(&one).await, search(&two).await), ("POLICY_DENIED", "POLICY_DENIED"));
    assert!(!admin(&two).publish(with(NO_SEARCH)).await.unwrap().changed, "it is active already");
    insta::assert_snapshot!(lines(&told(&one).await[1..]), @r#"
    ["policy.loaded","user ada",{"changes":{"added":["no-search"]},"files":1,"generation":2,"origin":"published","policyHash":"[hash]","previousHash":"[hash]","via":"direct"}]
    ["management.done","user ada",{"action":"publish_policies"}]
    ["management.done","user ada",{"action":"publish_policies"}]
    "#);
}

#[tokio::test]
async fn publishing_is_governed_by_the_active_set_and_refusals_are_on_record() {
    let place = Place::new().unwrap();
    let (one, two) = (process(with(""), &place).await, process(with(""), &place).await);
    let hash = one.engine().policy_hash();
    let denied = |it: Result<_, PolicyRefusal>| match it {
        Err(PolicyRefusal::Refused(error)) => error.code,
        other => panic!("{other:?}"),
    };
    for (who, expected) in [
        (Identity::from(cast("dana")), ErrorCode::PolicyDenied),
        (cast("anonymous").into(), ErrorCode::PolicyDenied),
        (Identity::none(), ErrorCode::Unauthenticated),
    ] {
        let sets = one.engine().policies(who);
        assert_eq!(denied(sets.publish(texts(ALLOW_ALL)).await), expected);
        assert_eq!(denied(sets.publish(texts("nonsense")).await), expected, "and learns nothing of its problems");
        assert_eq!(denied(sets.rollback(&hash).await), expected);
        assert_eq!(denied(sets.rollback("sha256:000000").await), expected);
        assert_eq!(denied(sets.reload().await), expected);
        assert_eq!(refused(sets.history(1).await), expected);
        assert_eq!(refused(sets.check(texts(ALLOW_ALL)).await), expected);
    }
    assert_eq!(told(&one).await.iter().filter(|it| it[0] == "management.denied").count(), 21);
    assert_eq!(one.engine().policy_hash(), hash);
    // Who could publish a moment ago cannot, though this process has not heard of it.
    admin(&two).publish(texts(POLICIES)).await.unwrap();
    assert_eq!(denied(admin(&one).publish(with("")).await), ErrorCode::PolicyDenied);
    assert_eq!(one.engine().policy_hash(), two.engine().policy_hash());
}

#[tokio::test]
async fn a_bad_set_is_not_published_and_its_problems_are_told() {
    let app = process(with(""), &Place::new().unwrap()).await;
    let hash = app.engine().policy_hash();
    let bad = with(r#"@id("x") permit (principal, action == Action::"orders.refnd", resource);"#);
    let check = admin(&app).check(bad.clone()).await.unwrap();
    let Err(PolicyRefusal::Problems(problems)) = admin(&app).publish(bad).await else { panic!("it was published") };
    assert_eq!((check.hash, &check.problems), (None, &problems));
    let fatal: Vec<_> = problems.iter().filter(|it| it.fatal).map(|it| it.policy.as_deref()).collect();
    assert_eq!(fatal, [Some("x")]);
    let good = admin(&app).check(with(NO_SEARCH)).await.unwrap();
    assert!(good.hash.is_some_and(|it| it != hash), "checking changes nothing");
    assert_eq!((app.engine().policy_hash(), search(&app).await), (hash, "-"));
    insta::assert_snapshot!(lines(&told(&app).await[1..]), @r#"["policy.refused","user ada",{"files":2,"previousHash":"[hash]","problems":1}]"#);
}

#[tokio::test]
async fn a_published_set_stays_until_the_files_say_something_else() {
    let place = Place::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("shop.cedar");
    let write = |more: &str| std::fs::write(&file, format!("{POLICIES}{PUBLISHERS}{more}")).unwrap();
    write("");
    let files = || PolicySource::Directory(directory.path().into());
    let one = process(files(), &place).await;
    let published = admin(&one).publish(with(NO_SEARCH)).await.unwrap().hash;
    let reloaded = one.engine().reload_policies().await.unwrap();
    assert_eq!((reloaded.hash, reloaded.changed), (published.clone(), false));
    write("\n// a comment");
    assert_eq!(admin(&one).reload().await.unwrap().hash, published);
    let two = process(files(), &place).await;
    assert_eq!((two.engine().policy_hash(), search(&two).await), (published.clone(), "POLICY_DENIED"));
    write(r#"@id("no-ping") forbid (principal, action == Action::"ping", resource);"#);
    let reloaded = one.engine().reload_policies().await.unwrap();
    assert!(reloaded.changed && reloaded.hash != published);
    learn(&two).await;
    assert_eq!((search(&one).await, search(&two).await), ("-", "-"));
}

#[tokio::test]
async fn a_published_set_outlives_a_deploy_of_other_capabilities() {
    let place = Place::new().unwrap();
    let files = || texts(&format!("{ALLOW_ALL}{PUBLISHERS}"));
    let one = App::open(everything_but(&["messages.send"]).policies(files()), &place).await;
    let strict = texts(&format!("{ALLOW_ALL}{PUBLISHERS}{NO_SEARCH}"));
    admin(&one).publish(strict).await.unwrap();
    let two = App::open(everything_but(&["messages.send", "ping"]).policies(files()), &place).await;
    assert_eq!(search(&two).await, "POLICY_DENIED");
    assert_ne!(two.engine().policy_hash(), one.engine().policy_hash(), "the schema is another one");
    let told = told(&two).await;
    let last = &told.last().unwrap()[2];
    assert_eq!((&last["origin"], &last["changes"]), (&json!("carried_over"), &json!({})));
}

#[tokio::test]
async fn a_published_set_that_does_not_fit_other_capabilities_is_not_dropped_in_silence() {
    let place = Place::new().unwrap();
    let files = || texts(&format!("{ALLOW_ALL}{PUBLISHERS}"));
    let one = App::open(everything_but(&["messages.send"]).policies(files()), &place).await;
    admin(&one).publish(texts(&format!("{ALLOW_ALL}{PUBLISHERS}{NO_SEARCH}"))).await.unwrap();
    let without = everything_but(&["messages.send", "orders.search"]).policies(files());
    let without = without.sealing_key(countersign::testing::KEY);
    let error = without.database(format!("sqlite:{}", place.database().display())).build().await.err().unwrap();
    assert!(error.problems[0].what.contains("orders.search"), "{error}");
}

#[tokio::test]
async fn going_back_makes_a_kept_set_active_again() {
    let app = process(with(""), &Place::new().unwrap()).await;
    let first = app.engine().policy_hash();
    admin(&app).publish(with(NO_SEARCH)).await.unwrap();
    assert_eq!(search(&app).await, "POLICY_DENIED");
    for name in [&first[..20], &first.to_ascii_uppercase()[7..], &first] {
        let name = name.replace("SHA256", "sha256");
        let back = admin(&app).rollback(&name).await.unwrap();
        assert_eq!(back.hash, first);
    }
    assert_eq!(search(&app).await, "-");
    for (name, keyword) in [("sha256:ffffffffff", "enum"), ("sha25", "enum"), ("", "enum"), ("sha256:%", "enum")] {
        let Err(PolicyRefusal::Refused(error)) = admin(&app).rollback(name).await else { panic!("{name}") };
        assert_eq!(error.code, ErrorCode::InputInvalid);
        assert_eq!(serde_json::to_value(&error.details).unwrap(), json!([{"path": "/hash", "keyword": keyword}]));
    }
    insta::assert_snapshot!(lines(&told(&app).await[3..5]), @r#"
    ["policy.loaded","user ada",{"changes":{"removed":["no-search"]},"files":1,"generation":3,"origin":"rolled_back","policyHash":"[hash]","previousHash":"[hash]","via":"direct"}]
    ["management.done","user ada",{"action":"rollback_policies"}]
    "#);
}

#[tokio::test]
async fn going_back_is_checked_for_the_capabilities_of_today() {
    let place = Place::new().unwrap();
    let before = App::open(
        everything_but(&["messages.send"]).policies(texts(&format!("{ALLOW_ALL}{PUBLISHERS}{NO_SEARCH}"))),
        &place,
    );
    let old = before.await.engine().policy_hash();
    let files = texts(&format!("{ALLOW_ALL}{PUBLISHERS}"));
    let after = App::open(everything_but(&["messages.send", "orders.search"]).policies(files), &place).await;
    let active = after.engine().policy_hash();
    let Err(PolicyRefusal::Problems(problems)) = admin(&after).rollback(&old).await else { panic!("it went back") };
    assert!(problems.iter().any(|it| it.what.contains("orders.search")), "{problems:?}");
    assert_eq!(after.engine().policy_hash(), active);
}

#[tokio::test]
async fn the_history_tells_what_was_active_and_what_changed() {
    let app = process(with(""), &Place::new().unwrap()).await;
    let first = app.engine().policy_hash();
    admin(&app).publish(with(NO_SEARCH)).await.unwrap();
    admin(&app).publish(with(&NO_SEARCH.replace("forbid", "@hide forbid"))).await.unwrap();
    admin(&app).rollback(&first).await.unwrap();
    let history = admin(&app).history(10).await.unwrap();
    let hashes: Vec<_> = history.iter().map(|it| &*it.policy_hash).collect();
    assert_eq!((hashes[0], hashes[3], history.len()), (&*first, &*first, 4));
    assert_eq!(history[0].previous_hash.as_deref(), Some(hashes[1]));
    let mut shown = serde_json::to_value(&history).unwrap();
    for entry in shown.as_array_mut().unwrap() {
        let entry = entry.as_object_mut().unwrap();
        entry.remove("policyHash");
        entry.remove("previousHash");
    }
    shown[3].as_object_mut().unwrap().remove("changes"); // every policy of the shop
    insta::assert_snapshot!(lines(shown.as_array().unwrap()), @r#"
    {"generation":4,"at":"2026-01-01T00:00:00.000000Z","kept":true,"active":true,"files":1,"origin":"rolled_back","via":"direct","actor":{"id":"ada","kind":"user"},"changes":{"removed":["no-search"]}}
    {"generation":3,"at":"2026-01-01T00:00:00.000000Z","kept":true,"active":false,"files":1,"origin":"published","via":"direct","actor":{"id":"ada","kind":"user"},"changes":{"changed":["no-search"]}}
    {"generation":2,"at":"2026-01-01T00:00:00.000000Z","kept":true,"active":false,"files":1,"origin":"published","via":"direct","actor":{"id":"ada","kind":"user"},"changes":{"added":["no-search"]}}
    {"generation":1,"at":"2026-01-01T00:00:00.000000Z","kept":true,"files":1,"origin":"files","active":false}
    "#);
    assert_eq!(admin(&app).history(1).await.unwrap(), history[..1]);
}

#[tokio::test]
async fn what_a_set_says_for_the_first_time_is_named_up_to_a_dozen() {
    let app = process(with(""), &Place::new().unwrap()).await;
    let history = admin(&app).history(1).await.unwrap();
    let changes = history[0].changes.clone().unwrap();
    assert_eq!((changes.added.len(), &*changes.added[0]), (12, "admins-approve-anything"));
    assert_eq!(changes.more, POLICIES.matches("@id(").count() + 1 - 12);
}

/// Two capabilities and two policies, under which they end in ways that no mixture of the sets could come to.
mod alternating {
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
            "capability.started" if entry.data["policies"] == json!([{"effect": "permit", "id": "a-permit"}]) => {
                Some("A")
            }
            "capability.denied" if entry.data["policies"] == json!([{"effect": "forbid", "id": "b-forbid"}]) => {
                Some("B")
            }
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
}

/// A directory that is watched, changed as editors and volumes do.
mod watching {
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use countersign::PolicySource;

    use super::{NO_SEARCH, PUBLISHERS, admin, search, with};
    use crate::shop::{App, POLICIES, shop_without_policies};

    const GOOD: &str = "";
    const BAD: &str = r#"@id("x") permit (principal, action == Action::"orders.refnd", resource);"#;

    struct Watched {
        app: App,
        root: tempfile::TempDir,
    }

    impl Watched {
        /// `policies` in a directory of its own, made by `prepare`.
        async fn new(prepare: impl Fn(&Path)) -> Self {
            let root = tempfile::tempdir().unwrap();
            prepare(root.path());
            let source = PolicySource::Directory(root.path().join("policies"));
            let app = App::with(shop_without_policies().policies(source).watch_policies(true)).await;
            Self { app, root }
        }

        async fn plain() -> Self {
            Self::new(|root| put(&root.join("policies"), GOOD)).await
        }

        fn path(&self, name: &str) -> PathBuf {
            self.root.path().join(name)
        }

        /// Lets time pass until it is so. What it waits for is real: the system's events.
        async fn until(&self, what: &str, it: impl AsyncFn() -> bool) {
            for _ in 0..1_000 {
                if it().await {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
                self.app.clock().advance(Duration::from_millis(100));
            }
            panic!("never {what}");
        }

        async fn denies(&self) {
            self.until("denied", async || search(&self.app).await == "POLICY_DENIED").await;
        }

        async fn allows(&self) {
            self.until("allowed", async || search(&self.app).await == "-").await;
        }

        async fn refusals(&self) -> usize {
            self.app.trail().await.entries().iter().filter(|it| it.kind == "policy.refused").count()
        }
    }

    fn text(more: &str) -> String {
        format!("{POLICIES}{PUBLISHERS}{more}")
    }

    /// A directory with one file.
    fn put(directory: &Path, more: &str) {
        std::fs::create_dir_all(directory).unwrap();
        std::fs::write(directory.join("shop.cedar"), text(more)).unwrap();
    }

    #[tokio::test]
    async fn what_is_written_in_place_or_renamed_over_is_loaded() {
        let it = Watched::plain().await;
        put(&it.path("policies"), NO_SEARCH);
        it.denies().await;
        std::fs::write(it.path("policies/.shop.cedar.swp"), text(GOOD)).unwrap();
        std::fs::rename(it.path("policies/.shop.cedar.swp"), it.path("policies/shop.cedar")).unwrap();
        it.allows().await;
        std::fs::write(it.path("policies/more.cedar"), NO_SEARCH).unwrap();
        it.denies().await;
        std::fs::remove_file(it.path("policies/more.cedar")).unwrap();
        it.allows().await;
    }

    #[tokio::test]
    async fn a_bad_set_is_on_record_once_and_leaves_the_last_good_one_active() {
        let it = Watched::plain().await;
        let hash = it.app.engine().policy_hash();
        put(&it.path("policies"), BAD);
        it.until("refused", async || it.refusals().await == 1).await;
        for _ in 0..3 {
            put(&it.path("policies"), BAD); // the same again
            it.app.clock().advance(Duration::from_secs(1));
            assert_eq!(search(&it.app).await, "-");
        }
        put(&it.path("policies"), &BAD.replace("refnd", "rfnd"));
        it.until("refused", async || it.refusals().await == 2).await;
        assert_eq!(it.app.engine().policy_hash(), hash);
        put(&it.path("policies"), NO_SEARCH);
        it.denies().await;
        assert_eq!(it.refusals().await, 2);
    }

    #[tokio::test]
    async fn a_published_set_stays_until_the_watched_files_say_something_else() {
        let it = Watched::plain().await;
        admin(&it.app).publish(with(NO_SEARCH)).await.unwrap();
        let before = it.app.commits();
        put(&it.path("policies"), "\n// a comment");
        it.until("proposed", async || it.app.commits() > before).await;
        assert_eq!(search(&it.app).await, "POLICY_DENIED");
        put(&it.path("policies"), r#"@id("no-ping") forbid (principal, action == Action::"ping", resource);"#);
        it.allows().await;
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn the_links_of_a_mounted_volume_are_followed() {
        use std::os::unix::fs::symlink;
        // As volumes are mounted: `shop.cedar -> ..data/shop.cedar`, `..data -> ..1`; a new version swaps `..data`.
        let it = Watched::new(|root| {
            put(&root.join("policies/..1"), GOOD);
            symlink("..1", root.join("policies/..data")).unwrap();
            symlink("..data/shop.cedar", root.join("policies/shop.cedar")).unwrap();
        })
        .await;
        put(&it.path("policies/..2"), NO_SEARCH);
        symlink("..2", it.path("policies/..tmp")).unwrap();
        std::fs::rename(it.path("policies/..tmp"), it.path("policies/..data")).unwrap();
        it.denies().await;
        assert_eq!(it.refusals().await, 0);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn the_directory_itself_may_be_a_link_or_be_replaced() {
        use std::os::unix::fs::symlink;
        let it = Watched::new(|root| {
            put(&root.join("one"), GOOD);
            symlink("one", root.join("policies")).unwrap();
        })
        .await;
        put(&it.path("two"), NO_SEARCH);
        symlink("two", it.path("next")).unwrap();
        std::fs::rename(it.path("next"), it.path("policies")).unwrap();
        it.denies().await;
        put(&it.path("two"), GOOD); // and what it leads to now is watched
        it.allows().await;
        std::fs::remove_file(it.path("policies")).unwrap();
        put(&it.path("new"), NO_SEARCH);
        std::fs::rename(it.path("new"), it.path("policies")).unwrap();
        it.denies().await;
    }

    #[tokio::test]
    async fn a_directory_that_vanishes_leaves_its_last_set_active_until_it_is_back() {
        let it = Watched::plain().await;
        std::fs::rename(it.path("policies"), it.path("away")).unwrap();
        it.until("refused", async || it.refusals().await == 1).await;
        assert_eq!(search(&it.app).await, "-");
        put(&it.path("policies"), NO_SEARCH);
        it.denies().await;
        assert_eq!(it.refusals().await, 1);
    }

    #[tokio::test]
    async fn watching_ends_with_the_engine() {
        let it = Watched::plain().await;
        let hash = it.app.engine().policy_hash();
        it.app.engine().shutdown(Duration::from_secs(1)).await;
        put(&it.path("policies"), NO_SEARCH);
        for _ in 0..20 {
            it.app.clock().advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
        assert_eq!(it.app.engine().policy_hash(), hash);
    }

    #[tokio::test]
    async fn only_a_directory_can_be_watched() {
        let place = countersign::testing::Place::new().unwrap();
        let builder = shop_without_policies().policies(with(GOOD)).watch_policies(true);
        let built = builder.database(format!("sqlite:{}", place.database().display())).build().await;
        assert_eq!(built.err().unwrap().problems[0].what, "they are watched, and in no directory");
    }
}
