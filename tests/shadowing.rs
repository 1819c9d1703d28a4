//! A candidate policy set beside the active one: what it would have said is on record, and changes nothing.

use countersign::testing::Place;
use countersign::{ErrorCode, Outcome, PolicyRefusal, PolicySource, Surface};
use serde_json::{Value, json};

use crate::shop::{App, POLICIES, act, cast, code, json_of, omar, refund, shop, shop_without_policies, texts};

/// The shop, with a candidate that says this more.
async fn beside(more: &str) -> App {
    App::with(shop().shadow_policies(texts(&format!("{POLICIES}{more}")))).await
}

/// The shop, with a candidate in which one text is another one.
async fn beside_with(from: &str, to: &str) -> App {
    assert!(POLICIES.contains(from));
    App::with(shop().shadow_policies(texts(&POLICIES.replace(from, to)))).await
}

/// What the candidate said otherwise of this execution.
async fn difference(app: &App, execution: &str) -> Vec<Value> {
    let trail = app.trail_of(execution).await.without_hashes();
    let found = trail.entries().iter().filter(|it| it.kind == "policy.shadow_difference");
    found.map(|it| json!([it.data["active"], it.data["candidate"]])).collect()
}

/// How a call ends, and the one difference that there must be.
async fn told(app: &App, who: &str, capability: &str, input: Value) -> String {
    let outcome = app.caller(who).invoke(capability, input).await;
    let [found] = &*difference(app, outcome.execution_id()).await else { panic!("no difference, or several") };
    format!("{} {} {}", code(&outcome), found[0], found[1])
}

const NO_SEARCH: &str = r#"@id("no-search") forbid (principal, action == Action::"orders.search", resource);"#;

#[tokio::test]
async fn a_candidate_that_is_stricter_or_looser_is_told_and_the_call_goes_its_way() {
    let query = || json!({"query": "x"});
    let app = beside(NO_SEARCH).await;
    insta::assert_snapshot!(told(&app, "dana", "orders.search", query()).await, @r#"- {"outcome":"allow","policies":[{"effect":"permit","id":"support-may-order"}]} {"outcome":"deny","policies":[{"effect":"forbid","id":"no-search"}]}"#);
    let app = beside(r#"@id("all-search") permit (principal, action == Action::"orders.search", resource);"#).await;
    insta::assert_snapshot!(told(&app, "stranger", "orders.search", query()).await, @r#"POLICY_DENIED {"outcome":"deny"} {"outcome":"allow","policies":[{"effect":"permit","id":"all-search"}]}"#);
    let app = beside(r#"@id("hide") @hide forbid (principal, action == Action::"orders.search", resource);"#).await;
    insta::assert_snapshot!(told(&app, "dana", "orders.search", query()).await, @r#"- {"outcome":"allow","policies":[{"effect":"permit","id":"support-may-order"}]} {"outcome":"hidden","policies":[{"effect":"hide","id":"hide"}]}"#);
    let app = beside_with("context.input.amountCents > 50000", "context.input.amountCents > 90000").await;
    insta::assert_snapshot!(told(&app, "dana", "orders.refund", refund("o", 60_000)).await, @r#"? {"outcome":"require_approval","policies":[{"effect":"gate","id":"refund-over-500-needs-a-manager"},{"effect":"permit","id":"support-may-order"}],"requirements":[{"quorum":1,"type":"manager"}]} {"outcome":"allow","policies":[{"effect":"permit","id":"support-may-order"}]}"#);
    let app = beside_with("@approval(\"manager\") @expires_in(\"1h\")", "@approval(\"finance\")").await;
    insta::assert_snapshot!(told(&app, "dana", "orders.refund", refund("o", 60_000)).await, @r#"? {"outcome":"require_approval","policies":[{"effect":"gate","id":"refund-over-500-needs-a-manager"},{"effect":"permit","id":"support-may-order"}],"requirements":[{"quorum":1,"type":"manager"}]} {"outcome":"require_approval","policies":[{"effect":"gate","id":"refund-over-500-needs-a-manager"},{"effect":"permit","id":"support-may-order"}],"requirements":[{"quorum":1,"type":"finance"}]}"#);
}

#[tokio::test]
async fn where_the_active_set_hides_the_candidate_is_asked_all_the_same() {
    let app = beside_with("when { context.surface == \"mcp\" }", "when { context.surface == \"http\" }").await;
    let outcome = app.over(Surface::Mcp, cast("dana")).invoke("orders.refund", refund("o", 1)).await;
    assert_eq!(code(&outcome), "CAPABILITY_NOT_FOUND");
    insta::assert_snapshot!(difference(&app, outcome.execution_id()).await[0], @r#"[{"outcome":"hidden","policies":[{"effect":"hide","id":"no-refunds-over-mcp"}]},{"outcome":"visible"}]"#);
    insta::assert_snapshot!(app.lines_of(&outcome).await, @r#"
    exe-1 capability.requested risk=high sideEffect=write
    exe-1 policy.shadow_difference
    exe-1 capability.denied publicCode=CAPABILITY_NOT_FOUND reason=hidden
    "#);
}

#[tokio::test]
async fn a_candidate_that_errs_is_a_difference_and_no_failure() {
    let limit = "when { context.input.a * 2000 > 100 }";
    let active = texts(&POLICIES.replace(limit, "when { context.input.a > 100 }"));
    let app = App::with(shop_without_policies().policies(active).shadow_policies(texts(POLICIES))).await;
    let large = json!({"a": 9_007_199_254_740_991_i64});
    insta::assert_snapshot!(told(&app, "dana", "sums.add", large).await, @r#"POLICY_DENIED {"outcome":"deny","policies":[{"effect":"forbid","id":"sums-must-be-small"}]} {"errors":[{"kind":"integer_overflow","policy":"sums-must-be-small"}],"outcome":"policy_failed"}"#);
}

#[tokio::test]
async fn the_same_outcome_for_other_reasons_is_no_difference() {
    let app = beside(
        r#"@id("again") permit (principal in Role::"support", action in Action::"orders.*", resource);
                        @id("also-large") forbid (principal, action == Action::"orders.refund", resource)
                        when { context.input.amountCents >= 400000 };"#,
    )
    .await;
    for cents in [100, 60_000, 500_000] {
        let outcome = app.dana().invoke("orders.refund", refund("o", cents)).await;
        assert_eq!(difference(&app, outcome.execution_id()).await, [json!(null); 0], "{cents}");
    }
    let outcome = app.dana().invoke("orders.refund", refund("o", 450_000)).await;
    assert_eq!((code(&outcome), difference(&app, outcome.execution_id()).await.len()), ("?", 1));
}

#[tokio::test]
async fn a_difference_is_committed_with_the_call_between_its_stages() {
    let app =
        beside(&format!("{NO_SEARCH} @id(\"no-acts\") forbid (principal, action in Action::\"act.*\", resource);"))
            .await;
    let plain = App::new().await;
    for (capability, input) in [
        ("orders.search", json!({"query": "x"})),
        ("act.retried", act("busy")),
        ("act.write", act("ok")),
        ("no.such", json!({})),
    ] {
        let mut kinds = Vec::new();
        for app in [&app, &plain] {
            let before = app.commits();
            let outcome = app.retrying(app.dana().invoke(capability, input.clone()).into_future()).await;
            let trail = app.trail_of(outcome.execution_id()).await;
            let all: Vec<_> = trail.entries().iter().map(|it| it.kind.clone()).collect();
            kinds.push((app.commits() - before, code(&outcome), all));
        }
        let (commits, end, mut with) = kinds.remove(0);
        let at = with.iter().position(|it| it == "policy.shadow_difference");
        assert_eq!(at, (capability != "no.such").then_some(1), "{capability}: {with:?}");
        at.map(|it| with.remove(it));
        assert_eq!((commits, end, with), kinds.remove(0), "{capability}");
    }
}

#[tokio::test]
async fn no_candidate_affects_any_call() {
    let calls = [
        ("orders.search", json!({"query": "x"})),
        ("orders.search", json!({"query": 7})),
        ("orders.refund", refund("ord_1", 100)),
        ("orders.refund", refund("ord_1", 60_000)),
        ("orders.refund", refund("ord_1", 500_000)),
        ("orders.purge", json!({})),
        ("ghost.read", json!({})),
        ("sums.add", json!({"a": 0})),
        ("sums.add", json!({"a": 9_007_199_254_740_991_i64})),
        ("act.write", act("fail")),
        ("payouts.send", json!({"to": "x", "amountCents": 1})),
        ("gifts.send", json!({})),
    ];
    let ends = async |app: &App| {
        let mut ends = Vec::new();
        for (capability, input) in &calls {
            for who in ["dana", "priya", "nightly", "anonymous"] {
                let outcome = app.caller(who).invoke(*capability, input.clone()).await;
                ends.push(json_of(&outcome));
            }
        }
        (ends, app.effects())
    };
    let expected = ends(&App::new().await).await;
    let hide = "@id(\"hide-all\") @hide forbid (principal, action in Action::\"invoke\", resource);";
    let deny = "@id(\"deny-all\") forbid (principal, action in Action::\"invoke\", resource);";
    let gate = "@id(\"gate-all\") @approval(\"manager\") forbid (principal, action in Action::\"invoke\", resource);";
    let allow = "@id(\"allow-all\") permit (principal, action in Action::\"invoke\", resource);";
    for more in [hide, deny, gate, allow] {
        assert!(ends(&beside(more).await).await == expected, "{more}");
    }
}

/// What the policies of the first one said of an execution, by its trail; what the candidate said otherwise of it.
async fn said(app: &App, outcome: &Outcome) -> (String, Option<(String, String)>) {
    let trail = app.trail_of(outcome.execution_id()).await;
    let of = |kind: &str| trail.entries().iter().find(|it| it.kind == kind);
    let word = match of("capability.denied") {
        Some(denied) if denied.data["reason"] == "policy_denied" => "deny",
        Some(denied) => denied.data["reason"].as_str().unwrap(),
        None if of("capability.approval_requested").is_some() => "require_approval",
        None => "allow",
    };
    let word_of = |it: &Value| it["outcome"].as_str().unwrap().to_owned();
    let difference =
        of("policy.shadow_difference").map(|it| (word_of(&it.data["active"]), word_of(&it.data["candidate"])));
    (word.to_owned(), difference)
}

#[tokio::test]
async fn what_a_candidate_says_is_what_it_would_do() {
    let sets = [
        POLICIES.to_owned(),
        POLICIES.replace("context.input.amountCents > 50000", "context.input.amountCents > 50"),
        POLICIES.replace("@quorum(\"2\")", ""),
        POLICIES.replace("\"mcp\"", "\"direct\""),
        POLICIES.replace("context.input.a * 2000 > 100", "context.input.a > 100"),
        format!(
            "{POLICIES}@id(\"gate\") @approval(\"manager\") forbid (principal, action in Action::\"invoke\", resource);"
        ),
        format!("{POLICIES}@id(\"all\") permit (principal, action in Action::\"invoke\", resource);"),
    ];
    let calls = [
        ("orders.search", json!({"query": "x"})),
        ("orders.refund", refund("ord_1", 100)),
        ("orders.refund", refund("ord_1", 60_000)),
        ("orders.refund", refund("ord_1", 500_000)),
        ("ghost.read", json!({})),
        ("ping", json!({})),
        ("sums.add", json!({"a": 0})),
        ("sums.add", json!({"a": 9_007_199_254_740_991_i64})),
        ("payouts.send", json!({"to": "x", "amountCents": 1})),
        ("gifts.send", json!({})),
    ];
    let mut differences = 0;
    for at in 0..sets.len() {
        let (active, candidate) = (&sets[at], &sets[(at + 1) % sets.len()]);
        let live = App::with(shop_without_policies().policies(texts(active)).shadow_policies(texts(candidate))).await;
        let next = App::with(shop_without_policies().policies(texts(candidate))).await;
        for (capability, input) in &calls {
            for who in ["dana", "nightly", "anonymous"] {
                let ask = async |app: &App| said(app, &app.caller(who).invoke(*capability, input.clone()).await).await;
                let ((now, difference), (then, _)) = (ask(&live).await, ask(&next).await);
                let at = format!("{at} {capability} {input} {who}");
                differences += usize::from(difference.is_some());
                match difference {
                    None => assert_eq!(now, then, "{at}"),
                    Some((active, candidate)) if candidate == "visible" => {
                        assert!(active == now && then != "hidden", "{at}");
                    }
                    Some(told) => assert_eq!(told, (now, then), "{at}"),
                }
            }
        }
    }
    assert!(differences > 30, "{differences}");
}

#[tokio::test]
async fn of_a_call_that_is_decided_twice_the_last_comparison_counts() {
    let app = beside_with("context.input.amountCents > 50000", "context.input.amountCents > 90000").await;
    let call = || app.dana().invoke("orders.refund", refund("o", 60_000)).idempotency_key("k");
    let asked = call().await;
    assert_eq!(difference(&app, asked.execution_id()).await.len(), 1, "one set asks, the other does not");
    let id = crate::shop::asked(&asked);
    app.approvals(cast("priya")).approve(&id, "manager").await.unwrap();
    let ran = call().await;
    assert_eq!(
        (code(&ran), difference(&app, ran.execution_id()).await.len()),
        ("-", 0),
        "with the approval both allow"
    );
}

const PUBLISHERS: &str = r#"@id("admins-publish")
    permit (principal in Role::"admin", action == Countersign::Action::"publish_policies", resource);"#;

#[tokio::test]
async fn a_candidate_is_set_and_taken_away_by_whoever_may_publish() {
    let source = |more: &str| texts(&format!("{POLICIES}{PUBLISHERS}{more}"));
    let app = App::with(shop_without_policies().policies(source(""))).await;
    let differs = async || {
        let outcome = app.dana().invoke("orders.search", json!({"query": "x"})).await;
        assert_eq!(code(&outcome), "-");
        !difference(&app, outcome.execution_id()).await.is_empty()
    };
    let sets = app.engine().policies(cast("ada"));
    assert!(!differs().await);
    let hash = sets.shadow(Some(source(NO_SEARCH))).await.unwrap();
    assert!(hash.is_some() && differs().await);
    sets.publish(source("@id(\"p\") permit (principal, action == Action::\"ping\", resource);")).await.unwrap();
    assert!(differs().await, "it stays when another set becomes active");
    let bad = sets.shadow(Some(texts("nonsense"))).await;
    assert!(matches!(bad, Err(PolicyRefusal::Problems(_))), "{bad:?}");
    assert_eq!(app.trail().await.entries().last().unwrap().kind, "policy.refused");
    for who in [cast("dana").into(), omar()] {
        let refused = app.engine().policies(who).shadow(None).await;
        let Err(PolicyRefusal::Refused(error)) = refused else { panic!("{refused:?}") };
        assert_eq!(error.code, ErrorCode::PolicyDenied);
    }
    assert!(differs().await);
    assert_eq!(sets.shadow(None).await, Ok(None));
    assert!(!differs().await);
    sets.shadow(Some(source(NO_SEARCH))).await.unwrap();
    assert_eq!(sets.publish(source(NO_SEARCH)).await.map(|it| it.hash).ok(), hash, "the candidate is active");
    let outcome = app.dana().invoke("orders.search", json!({"query": "x"})).await;
    assert_eq!((code(&outcome), difference(&app, outcome.execution_id()).await.len()), ("POLICY_DENIED", 0));
    let done = app.trail().await;
    let done = done.entries().iter().filter(|it| it.data["action"] == "shadow_policies");
    assert_eq!(
        done.map(|it| &*it.kind).collect::<Vec<_>>(),
        ["management.done", "management.denied", "management.denied", "management.done", "management.done"]
    );
}

#[tokio::test]
async fn a_candidate_that_does_not_load_is_a_problem_like_any_other() {
    let place = Place::new().unwrap();
    let bad = PolicySource::Files(vec![("next.cedar".into(), "permit (principal".into())]);
    let builder = shop().shadow_policies(bad).sealing_key(countersign::testing::KEY);
    let built = builder.database(format!("sqlite:{}", place.database().display())).build().await;
    assert!(built.err().unwrap().problems[0].at.starts_with("next.cedar:1"));
}

#[tokio::test]
async fn a_candidate_that_does_not_load_keeps_its_process_from_changing_the_active_set() {
    let place = Place::new().unwrap();
    let app = App::open(shop(), &place).await;
    let before = app.trail().await.entries().len();
    let bad = PolicySource::Files(vec![("next.cedar".into(), "permit (principal".into())]);
    for (own, files) in [(format!("{POLICIES}{NO_SEARCH}"), 1), ("permit (".to_owned(), 2)] {
        let builder = shop_without_policies().policies(texts(&own)).shadow_policies(bad.clone());
        let builder = builder.sealing_key(countersign::testing::KEY);
        let built = builder.database(format!("sqlite:{}", place.database().display())).build().await;
        assert_eq!(built.err().unwrap().problems.len(), files, "all that is wrong is told together");
    }
    assert_eq!(app.trail().await.entries().len(), before);
}
