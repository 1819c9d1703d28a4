//! The active policy set over time and over processes: copies, publishing, going back, history.

mod alternating;
mod overtaken;
mod tampered;
mod watching;

use std::time::Duration;

use countersign::testing::Place;
use countersign::{ErrorCode, Identity, PolicyRefusal, PolicySets, PolicySource, Resolution};
use serde_json::{Value, json};

use crate::shop::{
    ALLOW_ALL, App, POLICIES, act, cast, code, everything_but, refund, refused, shop_without_policies, texts,
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
    all.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
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
async fn a_read_that_is_decided_anew_tells_of_its_last_run_only() {
    let place = Place::new().unwrap();
    let (one, two) = (process(with(""), &place).await, process(with(""), &place).await);
    let call = one.dana().invoke("act.retried", act("busy")).start();
    while one.effects().is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    admin(&two).publish(with(NO_SEARCH)).await.unwrap();
    while one.effects().len() < 3 {
        one.clock().advance(Duration::from_millis(25));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let outcome = call.await;
    assert_eq!(one.effects(), ["act.retried #1", "act.retried #2", "act.retried #3", "act.retried #1"]);
    insta::assert_snapshot!(one.lines_of(&outcome).await, @r#"
    exe-1 capability.requested risk=low sideEffect=read
    exe-1 capability.started keyed=false
    exe-1 capability.completed attempts=1
    "#);
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
async fn exe_8_what_is_published_amid_a_lost_reply_is_published_once() {
    let app = process(with(""), &Place::new().unwrap()).await;
    app.lose_replies(1);
    admin(&app).publish(with(NO_SEARCH)).await.unwrap();
    app.lose_commits(1);
    admin(&app).publish(with("")).await.unwrap();
    app.break_store(true);
    let Err(PolicyRefusal::Refused(error)) = admin(&app).publish(with(NO_SEARCH)).await else { panic!("it is done") };
    assert_eq!(error.code, ErrorCode::AuditUnavailable);
    app.break_store(false);
    assert_eq!(search(&app).await, "-");
    let told = told(&app).await;
    let kinds: Vec<_> = told[1..].iter().map(|it| it[0].as_str().unwrap()).collect();
    assert_eq!(kinds, ["policy.loaded", "management.done", "policy.loaded", "management.done"]);
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
async fn who_could_decide_a_moment_ago_cannot_where_nothing_but_an_inbox_is_served() {
    const NO_MORE: &str = r#"@id("no-more") forbid (principal, action in Countersign::Action::"manage", resource)
        when { context.surface == "direct" };"#;
    let place = Place::new().unwrap();
    let (one, two) = (process(with(""), &place).await, process(with(""), &place).await);
    let id = one.ask("ord_1").await;
    let approvals = one.approvals(cast("priya"));
    assert_eq!(approvals.list(None).await.unwrap().len(), 1);
    admin(&two).publish(with(NO_MORE)).await.unwrap();
    learn(&one).await;
    assert!(approvals.list(None).await.unwrap().is_empty());
    assert_eq!(refused(approvals.approve(&id, "manager").await), ErrorCode::ApprovalNotFound);
    let denied = one.trail().await;
    let denied = denied.entries().last().unwrap();
    assert_eq!(denied.kind, "management.denied");
    assert_eq!(denied.policy_hash.as_deref(), Some(&*two.engine().policy_hash()), "and the record names the set");
}

#[tokio::test]
async fn a_process_that_cannot_have_the_active_set_lets_nobody_decide() {
    let (_, one, _two) = apart().await;
    learn(&one).await;
    let approvals = one.approvals(cast("priya"));
    assert_eq!(refused(approvals.approve("apr-1", "manager").await), ErrorCode::PolicyFailed);
    assert_eq!(refused(approvals.withdraw("apr-1").await), ErrorCode::PolicyFailed);
    assert_eq!(refused(approvals.list(None).await), ErrorCode::PolicyFailed);
    let executions = one.executions(cast("omar"));
    assert_eq!(refused(executions.resolve("exe-1", Resolution::Failed).await), ErrorCode::PolicyFailed);
}

#[tokio::test]
async fn a_bad_set_is_not_published_and_its_problems_are_told() {
    let app = process(with(""), &Place::new().unwrap()).await;
    let hash = app.engine().policy_hash();
    let bad = with(r#"@id("x") permit (principal, action == Action::"orders.refnd", resource);"#);
    let check = admin(&app).check(bad.clone()).await.unwrap();
    let Err(PolicyRefusal::Problems(problems)) = admin(&app).publish(bad).await else { panic!("it was published") };
    assert_eq!((check.hash, &check.problems), (None, &problems));
    let fatal: Vec<_> = problems.iter().filter(|it| it.is_fatal()).map(|it| it.policy.as_deref()).collect();
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
async fn a_published_set_outlives_a_comment_in_the_schema_of_the_files() {
    let place = Place::new().unwrap();
    let files = |schema: &str| {
        let policies = format!("{POLICIES}{PUBLISHERS}");
        PolicySource::Files(vec![("schema.cedarschema".into(), schema.into()), ("shop.cedar".into(), policies)])
    };
    let one = process(files("entity Desk;"), &place).await;
    admin(&one).publish(with(NO_SEARCH)).await.unwrap();
    let two = process(files("// where people sit\nentity  Desk;"), &place).await;
    assert_eq!(search(&two).await, "POLICY_DENIED");
    let three = process(files("entity Desk; entity Chair;"), &place).await;
    assert_eq!(search(&three).await, "-");
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
