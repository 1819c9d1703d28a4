//! Calls that were made, asked again of another set.

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::policy::{self, PolicySet};
use crate::testing::{TestApp, TestEntities};
use crate::workbench::trail::Missing;
use crate::workbench::{About, Backtest, Cast, Diff, Pair, Replay, Replaying, backtest};
use crate::{
    Actor, ApprovalHandler, ApprovalView, Capability, Engine, EngineBuilder, HandlerError, Identity, InlineDecision,
    Invocation, Outcome, PolicySource, ResourceEntity, Risk, Surface, Timestamp, Verdict,
};

/// Of notes that are written the decisions are kept; of those that are read, and of orders, only where it says so.
fn capabilities() -> Vec<Capability> {
    let done = async |_: Invocation<()>, _: Value| Ok::<_, HandlerError>(json!({}));
    let note = json!({"type": "object", "required": ["size"], "additionalProperties": false,
        "properties": {"size": {"type": "integer"}}});
    let order = json!({"type": "object", "required": ["orderId"], "additionalProperties": false,
        "properties": {"orderId": {"type": "string"}}});
    let of = |it: crate::CapabilityBuilder| it.risk(Risk::Low).description("For tests.").expose([Surface::Direct]);
    vec![
        of(Capability::write("notes.write")).decision_record(true).json_handler(note.clone(), json!({}), done),
        of(Capability::read("notes.read")).json_handler(note, json!({}), done),
        of(Capability::read("orders.get")).resource("Order", "/orderId").decision_record(true).json_handler(
            order,
            json!({}),
            done,
        ),
    ]
}

const SCHEMA: &str = "entity Order = { total: Long };";

const PEOPLE: &str = r#"@id("people") permit (principal in Role::"boss", action == Countersign::Action::"approve", resource);
@id("all") permit (principal is User, action in Action::"invoke", resource);"#;

const ACTIVE: &str = r#"
@id("large") @approval("m") forbid (principal, action == Action::"notes.write", resource) when { context.input.size > 10 };
@id("huge") forbid (principal, action == Action::"notes.write", resource) when { context.input.size > 100 };
@id("total") forbid (principal, action == Action::"orders.get", resource) when { resource.total > 100 };
@id("secret") @hide forbid (principal == User::"sam", action == Action::"notes.read", resource);"#;

const CANDIDATE: &str = r#"
@id("large") @approval("m") @quorum("2") forbid (principal, action == Action::"notes.write", resource)
when { context.input.size > 40 };
@id("huge") forbid (principal, action == Action::"notes.write", resource) when { context.input.size > 60 };
@id("total") forbid (principal, action == Action::"orders.get", resource) when { resource.total > 4 };
@id("read") @approval("m") forbid (principal == User::"dana", action == Action::"notes.read", resource);"#;

fn source(text: &str) -> PolicySource {
    let text = format!("{PEOPLE}{text}");
    PolicySource::Files(vec![("schema.cedarschema".into(), SCHEMA.into()), ("a.cedar".into(), text)])
}

fn builder() -> EngineBuilder {
    let order = |id: &str, total: i64| ResourceEntity::new("Order", id).attribute("total", total);
    let entities = TestEntities::new([order("small", 5), order("large", 500)]);
    Engine::builder().capabilities(capabilities()).policies(source(ACTIVE)).entities(entities)
}

fn boss() -> Actor {
    Actor::user("ann").role("boss")
}

async fn app(builder: EngineBuilder) -> TestApp<()> {
    TestApp::new(builder, |_| ()).await.ok().unwrap()
}

/// How a call ended, in a word.
fn ended(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Completed { .. } => "ran",
        Outcome::ApprovalRequired { .. } => "waits",
        other => other.error().map_or("", |it| it.code.as_str()),
    }
}

async fn calls(app: &TestApp<()>) {
    let (dana, sam) = (app.on_behalf_of(Actor::user("dana")), app.on_behalf_of(Actor::user("sam")));
    let eve = app.on_behalf_of(Actor::user("eve"));
    let size = |it: u32| json!({"size": it});
    let mut outcomes = Vec::new();
    for it in [1, 500, 30, 50] {
        outcomes.push(dana.invoke("notes.write", size(it)).await);
    }
    let id = outcomes[3].approval().unwrap().id.clone();
    app.approvals(boss()).approve(&id, "m").await.unwrap();
    outcomes.push(dana.resume(id).await);
    outcomes.push(dana.invoke("notes.write", size(70)).await);
    for it in ["small", "large"] {
        outcomes.push(dana.invoke("orders.get", json!({"orderId": it})).await);
    }
    for who in [&dana, &sam, &eve] {
        outcomes.push(who.invoke("notes.read", size(1)).await);
    }
    outcomes.push(dana.invoke("notes.write", json!({"size": "x"})).await);
    let ends: Vec<_> = outcomes.iter().map(ended).collect();
    let first = "ran POLICY_DENIED waits waits ran waits ran POLICY_DENIED";
    assert_eq!(ends.join(" "), format!("{first} ran CAPABILITY_NOT_FOUND ran INPUT_INVALID"));
}

fn cast() -> Cast {
    ["dana", "sam"].map(|it| (it.to_owned(), Identity::new(Actor::user(it)))).into()
}

fn loaded(app: &TestApp<()>, text: &str) -> PolicySet {
    policy::load(&source(text), &app.engine().core.registry).ok().unwrap().0
}

fn replaying<'a>(app: &'a TestApp<()>, cast: &'a Cast) -> Replaying<'a> {
    Replaying { core: &app.engine().core, cast, since: Timestamp(0), until: None, show_inputs: false }
}

async fn tested(app: &TestApp<()>, candidate: &str, cast: &Cast) -> Backtest {
    let candidate = loaded(app, candidate);
    backtest(&candidate, &replaying(app, cast), &mut |_| {}).await.unwrap().unwrap()
}

fn lines(changes: &crate::workbench::Changes) -> String {
    let line = |it: &crate::workbench::Change| {
        let About::Trail { capability, actor, exact, execution, .. } = &it.about else { unreachable!() };
        let how = if *exact { "exactly" } else { "without the input" };
        let (class, before, after) = (it.class.as_str(), &it.before.outcome, &it.after.outcome);
        format!("{execution} {capability} for {actor}: {before} -> {after}, {class}, {how}")
    };
    changes.listed.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn what_is_kept_is_asked_again_exactly_and_the_rest_as_far_as_it_is_certain() {
    let app = app(builder()).await;
    calls(&app).await;
    let tested = tested(&app, CANDIDATE, &cast()).await;
    insta::assert_snapshot!(lines(&tested.changes), @r"
    exe-3 notes.write for dana: approval (m) -> allow, widening, exactly
    exe-4 notes.write for dana: approval (m) -> approval (m by 2, within 1d), narrowing, exactly
    exe-5 notes.write for dana: allow -> approval (m by 2, within 1d), narrowing, exactly
    exe-6 notes.write for dana: approval (m) -> deny, narrowing, exactly
    exe-7 orders.get for dana: allow -> deny, narrowing, exactly
    exe-9 notes.read for dana: allow -> approval (m, within 1d), narrowing, without the input
    exe-10 notes.read for sam: hidden -> allow, widening, without the input
    ");
    let Replay { decisions, exact, without_input, not_replayed, inputs_not_kept } = tested.replay;
    assert_eq!((decisions, exact, without_input), (11, 8, 2));
    assert_eq!(not_replayed.into_iter().collect::<Vec<_>>(), [(Missing::ActorUnknown, 1)]);
    assert!(inputs_not_kept.is_empty());
}

#[tokio::test]
async fn two_sets_are_asked_about_the_same_calls() {
    let app = app(builder()).await;
    calls(&app).await;
    let (old, new, cast) = (loaded(&app, ACTIVE), loaded(&app, CANDIDATE), cast());
    let mut diff = Diff::new(Pair { old: &old, new: &new });
    diff.trail(&replaying(&app, &cast), &mut |_| {}).await.unwrap().unwrap();
    let of_record = tested(&app, CANDIDATE, &cast).await;
    // The active set is the one that decided; only for how long a request lives the record has no word.
    let without_life = |it: String| it.replace(", within 1d", "");
    assert_eq!(without_life(lines(&diff.changes)), without_life(lines(&of_record.changes)));
    assert_eq!(diff.neutral(), ["secret"; 0]);
    let mut same = Diff::new(Pair { old: &old, new: &old });
    same.trail(&replaying(&app, &cast), &mut |_| {}).await.unwrap().unwrap();
    assert_eq!((same.changes.count(), same.replay.unwrap().missed()), (0, 1));
}

/// Approves whatever it is asked.
struct Kind;

#[async_trait]
impl ApprovalHandler for Kind {
    async fn ask(&self, _: &ApprovalView) -> Option<InlineDecision> {
        Some(InlineDecision { actor: boss(), kind: "m".into(), verdict: Verdict::Approve, comment: None })
    }
}

#[tokio::test]
async fn both_decisions_of_an_execution_that_is_approved_on_its_way_are_asked_again() {
    let app = app(builder().approver(Kind)).await;
    let outcome = app.on_behalf_of(Actor::user("dana")).invoke("notes.write", json!({"size": 50})).await;
    assert_eq!(ended(&outcome), "ran");
    let same = tested(&app, ACTIVE, &cast()).await;
    assert_eq!((same.replay.decisions, same.replay.exact, same.changes.count()), (2, 2, 0));
    let other = tested(&app, CANDIDATE, &cast()).await;
    insta::assert_snapshot!(lines(&other.changes), @r"
    exe-1 notes.write for dana: approval (m) -> approval (m by 2, within 1d), narrowing, exactly
    exe-1 notes.write for dana: allow -> approval (m by 2, within 1d), narrowing, exactly
    ");
}

#[tokio::test]
async fn a_long_trail_is_read_page_by_page() {
    let app = app(builder()).await;
    let dana = app.on_behalf_of(Actor::user("dana"));
    for _ in 0..180 {
        assert_eq!(ended(&dana.invoke("notes.read", json!({"size": 1})).await), "ran");
    }
    let (candidate, cast) = (loaded(&app, CANDIDATE), cast());
    let mut heard = Vec::new();
    let tested = backtest(&candidate, &replaying(&app, &cast), &mut |it| heard.push(it)).await.unwrap().unwrap();
    assert_eq!((tested.replay.without_input, tested.changes.count()), (180, 180));
    assert!(heard.len() > 1 && heard.is_sorted() && heard.last() == Some(&180), "{heard:?}");
}
