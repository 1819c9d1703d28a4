//! What policies saw, kept by capabilities that ask for it: of every decision, with what came of it, for nobody to read
//! but whoever has the key.

use std::time::Duration;

use async_trait::async_trait;
use countersign::testing::{Place, TestApp, TestEntities};
use countersign::{
    Actor, ApprovalHandler, ApprovalView, Capability, Engine, EngineBuilder, HandlerError, Identity, InlineDecision,
    Invocation, PolicySource, ResourceEntity, Risk, SideEffect, Surface, Verdict,
};
use serde_json::{Value, json};

use crate::sealing::files_hold;
use crate::shop::{code, texts};

const POLICIES: &str = r#"
    @id("anything") permit (principal, action in Action::"invoke", resource);
    @id("large") @approval("manager")
    forbid (principal, action == Action::"notes.write", resource) when { context.input.size > 10 };
    @id("huge") forbid (principal, action, resource)
    when { context has input && context.input has size && context.input.size > 100 };
    @id("odd") forbid (principal, action in Action::"invoke", resource)
    when { context has input && context.input has size && context.input.size + 9223372036854775700 > 9223372036854775806 };
    @id("approve") permit (principal in Role::"manager", action == Countersign::Action::"approve", resource);
"#;

async fn quiet(_: Invocation<()>, _: Value) -> Result<Value, HandlerError> {
    Ok(json!({"done": true}))
}

fn note(id: &str, effect: SideEffect) -> Capability {
    let schema = json!({"type": "object", "required": ["text"], "additionalProperties": false, "properties": {
        "text": {"type": "string"}, "size": {"type": "integer", "default": 1}}});
    Capability::builder(id, effect)
        .risk(Risk::Low)
        .description("For tests.")
        .expose([Surface::Direct])
        .decision_record(id != "notes.private")
        .json_handler(schema, json!({}), quiet)
}

fn notes() -> EngineBuilder {
    Engine::builder()
        .capability(note("notes.read", SideEffect::Read))
        .capability(note("notes.write", SideEffect::Write))
        .capability(note("notes.private", SideEffect::Write))
        .policies(texts(POLICIES))
}

async fn app(builder: EngineBuilder) -> TestApp<()> {
    TestApp::new(builder, |_| ()).await.unwrap()
}

fn dana() -> Identity {
    Identity::new(Actor::user("dana").role("support").name("Dana D.").attribute("team", "north")).client("agent")
}

fn priya() -> Actor {
    Actor::user("priya").role("manager")
}

/// One line a decision: which, of what, what policies said.
async fn lines(app: &TestApp<()>) -> String {
    let line = |it: &Value| {
        let facts = &it["facts"];
        let named =
            [&facts["policies"], &facts["errors"]].into_iter().flat_map(|it| it.as_array().into_iter().flatten());
        let named: Vec<&str> = named.map(|it| it["policy"].as_str().or(it["id"].as_str()).unwrap()).collect();
        let covers = if facts["covers"].is_null() { "" } else { " with an approval" };
        let (execution, place, capability) = (&it["executionId"], &it["place"], &it["capability"]);
        format!("{execution}.{place} {capability} {} by {}{covers}", facts["outcome"], named.join(" ")).replace('"', "")
    };
    app.decisions().await.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn every_decision_is_kept_with_what_came_of_it() {
    let app = app(notes()).await;
    let dana = app.on_behalf_of(dana());
    let call = |id: &str, size: i64| dana.invoke(id, json!({"text": "x", "size": size}));
    let mut codes = Vec::new();
    codes.push(code(&call("notes.read", 1).await));
    codes.push(code(&call("notes.write", 1).idempotency_key("k").await));
    codes.push(code(&call("notes.write", 1).idempotency_key("k").await)); // replayed
    codes.push(code(&call("notes.write", 500).await)); // errs: too large to add to
    codes.push(code(&call("notes.write", 105).await));
    let asked = call("notes.write", 50).await;
    codes.push(code(&asked));
    let id = &asked.approval().unwrap().id;
    app.approvals(priya()).approve(id, "manager").await.unwrap();
    codes.push(code(&dana.resume(id).await));
    assert_eq!(codes.join(" "), "- - - POLICY_FAILED POLICY_DENIED ? -");
    insta::assert_snapshot!(lines(&app).await, @r"
    exe-1.0 notes.read allow by anything
    exe-2.0 notes.write allow by anything
    exe-3.0 notes.write allow by anything
    exe-4.0 notes.write failed by odd
    exe-5.0 notes.write deny by huge
    exe-6.0 notes.write require_approval by anything large
    exe-7.0 notes.write allow by anything large with an approval
    ");
}

#[tokio::test]
async fn a_kept_decision_has_all_that_policies_saw_and_nothing_else() {
    let schema = "entity User = { team?: String }; entity Order = { total: Long };";
    let files = [("schema.cedarschema", schema), ("all.cedar", POLICIES)];
    let input = json!({"type": "object", "required": ["orderId"], "additionalProperties": false,
        "properties": {"orderId": {"type": "string"}}});
    let get = Capability::read("orders.get").risk(Risk::Low).description("Reads.").expose([Surface::Direct]);
    let write = note("notes.write", SideEffect::Write);
    let builder = Engine::builder()
        .capability(get.resource("Order", "/orderId").decision_record(true).json_handler(input, json!({}), quiet))
        .capability(write)
        .entities(TestEntities::new([ResourceEntity::new("Order", "o1").attribute("total", 9_007_199_254_740_993_i64)]))
        .policies(PolicySource::Files(files.map(|(name, text)| (name.into(), text.into())).into()));
    let app = app(builder).await;
    assert_eq!(code(&app.on_behalf_of(dana()).invoke("orders.get", json!({"orderId": "o1"})).await), "-");
    let mut kept = app.decisions().await;
    assert!(kept[0]["policyHash"].as_str().unwrap().starts_with("sha256:"));
    kept[0]["policyHash"] = "[hash]".into();
    insta::assert_json_snapshot!(kept);
}

#[tokio::test]
async fn nothing_is_kept_of_what_was_not_decided_or_asked_not_to_be() {
    let app = app(notes()).await;
    let dana = app.on_behalf_of(dana());
    assert_eq!(code(&dana.invoke("notes.private", json!({"text": "x"})).await), "-");
    assert_eq!(code(&dana.invoke("notes.write", json!({"txt": "x"})).await), "INPUT_INVALID");
    assert_eq!(code(&dana.invoke("notes.none", json!({})).await), "CAPABILITY_NOT_FOUND");
    let mcp = app.over(Surface::Mcp, self::dana());
    assert_eq!(code(&mcp.invoke("notes.write", json!({"text": "x"})).await), "CAPABILITY_NOT_FOUND");
    assert_eq!(app.decisions().await, Vec::<Value>::new());
}

#[tokio::test]
async fn no_search_of_the_files_finds_what_was_kept() {
    let app = app(notes()).await;
    let dana = app.on_behalf_of(Actor::user("dana").attribute("secret", "canary-attribute-5"));
    let sam = app.on_behalf_of(Actor::user("sam")); // what begins or waits names its actor, attributes and all
    let mut codes = Vec::new();
    for (who, capability, size) in
        [(&dana, "notes.read", 1), (&dana, "notes.write", 105), (&sam, "notes.write", 1), (&sam, "notes.write", 50)]
    {
        let call = who.invoke(capability, json!({"text": "canary-kept-7", "size": size}));
        codes.push(code(&call.await));
    }
    assert_eq!(codes, ["-", "POLICY_DENIED", "-", "?"]);
    let kept = app.decisions().await;
    assert_eq!(kept.len(), 4);
    assert!(kept.iter().all(|it| it["facts"]["input"]["text"] == "canary-kept-7"));
    for text in ["canary-kept-7", "canary-attribute-5"] {
        assert!(!files_hold(app.place(), text), "{text}");
    }
    assert!(files_hold(app.place(), "capability.completed"), "the search works");
}

/// Approves whatever it is asked.
struct Kind;

#[async_trait]
impl ApprovalHandler for Kind {
    async fn ask(&self, _: &ApprovalView) -> Option<InlineDecision> {
        Some(InlineDecision { actor: priya(), kind: "manager".into(), verdict: Verdict::Approve, comment: None })
    }
}

#[tokio::test]
async fn an_execution_that_is_approved_on_its_way_has_two_decisions() {
    let app = app(notes().approver(Kind)).await;
    let outcome = app.on_behalf_of(dana()).invoke("notes.write", json!({"text": "x", "size": 50})).await;
    assert_eq!(code(&outcome), "-");
    insta::assert_snapshot!(lines(&app).await, @r"
    exe-1.0 notes.write require_approval by anything large
    exe-1.1 notes.write allow by anything large with an approval
    ");
}

#[tokio::test]
async fn what_is_too_large_to_keep_is_decided_all_the_same() {
    let app = app(notes()).await;
    // each of these characters takes six bytes of JSON
    let text = "\u{1}".repeat(170_000);
    let roles = (0..60_000).fold(Actor::user("dana"), |it, at| it.role(format!("role-{at}")));
    let outcome = app.on_behalf_of(roles).invoke("notes.write", json!({"text": text})).await;
    assert_eq!((code(&outcome), app.decisions().await.len()), ("-", 0));
}

#[tokio::test]
async fn after_ninety_days_they_are_erased_unless_the_application_says_otherwise() {
    let place = Place::new().unwrap();
    let app = TestApp::open(notes(), |_| (), &place).await.unwrap();
    assert_eq!(code(&app.on_behalf_of(dana()).invoke("notes.write", json!({"text": "x"})).await), "-");
    place.clock().advance(Duration::from_hours(24 * 89));
    let long = Duration::from_hours(24 * 100);
    let mut left = Vec::new();
    for (days, keep) in [(0, None), (2, Some(long)), (0, None)] {
        place.clock().advance(Duration::from_hours(24 * days));
        let sweeping = notes().sweep(Duration::from_secs(6)).lease(Duration::from_hours(24 * 365));
        let sweeping = keep.into_iter().fold(sweeping, EngineBuilder::keep_decisions);
        let other = TestApp::open(sweeping, |_| (), &place).await.unwrap();
        let before = other.commits();
        for _ in 0..200 {
            if other.commits() > before + 1 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            place.clock().advance(Duration::from_secs(6));
        }
        left.push(app.decisions().await.len());
        other.engine().shutdown(Duration::ZERO).await;
    }
    assert_eq!(left, [1, 1, 0]);
}

#[tokio::test]
async fn for_how_long_they_are_kept_has_bounds() {
    for length in [Duration::from_mins(59), Duration::from_hours(24 * 4_000)] {
        let place = Place::new().unwrap();
        let builder = notes().keep_decisions(length).database(format!("sqlite:{}", place.database().display()));
        let problems = builder.build().await.err().unwrap().problems;
        let said = problems.iter().map(|it| format!("{}: {}; {}", it.at, it.what, it.fix)).collect::<Vec<_>>();
        assert_eq!(
            said,
            ["decision records: the time for which they are kept is out of bounds; choose 1 h to 3,660 d"]
        );
    }
}
