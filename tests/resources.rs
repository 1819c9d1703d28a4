//! Calls that are about an entity of the application: what is fetched, when, how often, and what it takes to trust it.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use countersign::testing::{Place, TestApp, TestEntities};
use countersign::{
    Actor, Capability, Engine, EngineBuilder, EntityProvider, EntityRef, HandlerError, Identity, Invocation, Outcome,
    PolicySource, ResourceEntity, Risk, SideEffect, Surface,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::logs::{logged, watch_logs};
use crate::shop::{code, signal};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

const SCHEMA: &str = r#"
    entity Region;
    entity Tenant in [Region, Tenant] = { plan: String };
    entity Tag enum ["odd", "even"];
    entity Order in [Tenant] = {
        tenant: String,
        total?: Long,
        owner?: User,
        bill?: { to: Tenant, "__entity"?: { id: String } },
        tags?: Set<Tag>,
    };
"#;

const POLICIES: &str = r#"
    @id("own-tenant") permit (principal is User, action in Action::"orders.*", resource)
    when { principal has tenant && resource.tenant == principal.tenant };

    @id("large") @approval("manager") @expires_in("1h")
    forbid (principal, action == Action::"orders.cancel", resource)
    when { resource has total && resource.total > 50000 };

    @id("closed-regions") forbid (principal, action, resource in Region::"closed");

    @id("unpaid") forbid (principal, action in Action::"orders.*", resource)
    when { resource has bill && resource.bill.to.plan == "unpaid" };

    @id("plain") permit (principal, action == Action::"ping", resource);

    @id("approve") permit (principal in Role::"manager", action == Countersign::Action::"approve", resource);
"#;

async fn echo(_: Invocation<()>, input: Value) -> Result<Value, HandlerError> {
    Ok(input)
}

fn about_an_order(id: &str, effect: SideEffect) -> Capability {
    let schema = json!({"type": "object", "required": ["orderId"], "additionalProperties": false,
        "properties": {"orderId": {"type": "string", "maxLength": 40}}});
    Capability::builder(id, effect)
        .risk(Risk::Low)
        .description("About an order.")
        .expose([Surface::Direct])
        .resource("Order", "/orderId")
        .json_handler(schema, json!({}), echo)
}

fn files() -> PolicySource {
    PolicySource::Files(vec![("schema.cedarschema".into(), SCHEMA.into()), ("orders.cedar".into(), POLICIES.into())])
}

fn shop() -> EngineBuilder {
    let ping = Capability::none("ping").risk(Risk::Low).description("Answers.").expose([Surface::Direct]);
    Engine::builder()
        .capability(about_an_order("orders.get", SideEffect::Read))
        .capability(about_an_order("orders.cancel", SideEffect::Write))
        .capability(ping.handler(async |_: Invocation<()>, (): ()| Ok::<_, HandlerError>("pong")))
        .policies(files())
}

async fn app(provider: impl EntityProvider) -> TestApp<()> {
    TestApp::new(shop().entities(provider), |_| ()).await.unwrap()
}

fn dana() -> Identity {
    Identity::new(Actor::user("dana")).tenant("acme")
}

fn omar() -> Identity {
    Identity::new(Actor::user("omar")).tenant("umbrella")
}

fn order(id: &str) -> ResourceEntity {
    ResourceEntity::new("Order", id).attribute("tenant", "acme")
}

fn tenant(id: &str, plan: &str) -> ResourceEntity {
    ResourceEntity::new("Tenant", id).attribute("plan", plan)
}

async fn get(app: &TestApp<()>, who: Identity, order: &str) -> Outcome {
    app.on_behalf_of(who).invoke("orders.get", json!({"orderId": order})).await
}

#[tokio::test]
async fn whoever_is_refused_whatever_the_input_does_not_learn_what_exists() {
    let app = app(TestEntities::new([order("ord_1")])).await;
    let crm = || Identity::new(Actor::service("crm")).tenant("acme");
    for id in ["ord_1", "ord_9"] {
        assert_eq!(verdict(&app, &get(&app, crm(), id).await).await, "POLICY_DENIED", "{id}");
    }
    assert_eq!(verdict(&app, &get(&app, dana(), "ord_9").await).await, "POLICY_FAILED <resource> entity_missing");
}

/// How a call ended: the code and, if policies could not decide, why.
async fn verdict(app: &TestApp<()>, outcome: &Outcome) -> String {
    let trail = app.trail_of(outcome.execution_id()).await;
    let errors = trail.entries().last().unwrap().data["errors"].clone();
    let kinds = errors.as_array().into_iter().flatten();
    let kinds: Vec<String> = kinds.map(|it| format!(" {} {}", it["policy"], it["kind"]).replace('"', "")).collect();
    format!("{}{}", code(outcome), kinds.concat())
}

#[tokio::test]
async fn omar_cannot_touch_an_order_of_danas_tenant() {
    let app = app(TestEntities::new([order("ord_1")])).await;
    assert_eq!(code(&get(&app, dana(), "ord_1").await), "-");
    let outcome = get(&app, omar(), "ord_1").await;
    insta::assert_json_snapshot!(outcome, @r#"
    {
      "status": "failed",
      "executionId": "exe-2",
      "error": {
        "code": "POLICY_DENIED",
        "message": "No policy permits this call.",
        "retryable": false,
        "details": []
      }
    }
    "#);
    insta::assert_snapshot!(app.trail().await.without_policies(), @r"
    exe-1 capability.requested risk=low sideEffect=read
    exe-1 capability.started keyed=false
    exe-1 capability.completed attempts=1
    exe-2 capability.requested risk=low sideEffect=read
    exe-2 capability.denied publicCode=POLICY_DENIED reason=policy_denied
    ");
    assert_eq!(app.effects(), ["orders.get #1"]);
}

#[tokio::test]
async fn what_belongs_together_costs_one_request_a_level() {
    let entities = TestEntities::new([
        order("ord_1")
            .parent("Tenant", "acme")
            .parent("Tenant", "acme-eu")
            .attribute("owner", "dana")
            .attribute("bill", json!({"to": "billing"}))
            .attribute("tags", json!(["odd"])),
        tenant("acme", "free").parent("Tenant", "acme-all"),
        tenant("acme-eu", "free").parent("Tenant", "acme-all"),
        tenant("acme-all", "free").parent("Region", "north"),
        tenant("billing", "paid"),
    ]);
    let app = app(entities.clone()).await;
    assert_eq!(code(&get(&app, dana(), "ord_1").await), "-");
    let requests: Vec<String> = entities.requests().iter().map(|all| names(all)).collect();
    // neither the principal, nor a region or a tag, which have nothing to fetch
    assert_eq!(requests, ["Order/ord_1", "Tenant/acme Tenant/acme-eu Tenant/billing", "Tenant/acme-all"]);
}

fn names(all: &[EntityRef]) -> String {
    let all: Vec<String> = all.iter().map(|it| format!("{}/{}", it.kind, it.id)).collect();
    all.join(" ")
}

#[tokio::test]
async fn ancestors_count_however_far_up_and_attributes_over_two_entities() {
    let app = app(TestEntities::new([
        order("far").parent("Tenant", "t1"),
        tenant("t1", "free").parent("Tenant", "t2"),
        tenant("t2", "free").parent("Tenant", "t3"),
        tenant("t3", "free").parent("Region", "closed"),
        order("unpaid").attribute("bill", json!({"to": "broke"})),
        tenant("broke", "unpaid"),
        order("paid").attribute("bill", json!({"to": "t1"})),
    ]))
    .await;
    for (order, expected) in [("far", "POLICY_DENIED"), ("unpaid", "POLICY_DENIED"), ("paid", "-")] {
        assert_eq!(code(&get(&app, dana(), order).await), expected, "{order}");
    }
}

/// Answers every request in one way.
struct Always(fn(&[EntityRef]) -> Result<Vec<ResourceEntity>, BoxError>);

#[async_trait]
impl EntityProvider for Always {
    async fn entities(&self, wanted: &[EntityRef], _: &Identity) -> Result<Vec<ResourceEntity>, BoxError> {
        (self.0)(wanted)
    }
}

type Answer = fn(&[EntityRef]) -> Result<Vec<ResourceEntity>, BoxError>;

/// Answers that deny, each with what is wrong with it.
fn bad_answers() -> Vec<(&'static str, Answer)> {
    vec![
        ("fails", |_| Err("secret-cause".into())),
        ("panics", |_| panic!("secret-cause")),
        ("has nothing", |_| Ok(Vec::new())),
        ("has another one", |_| Ok(vec![order("ord_2")])),
        ("has more", |_| Ok(vec![order("ord_1"), order("ord_2")])),
        ("has it twice", |_| Ok(vec![order("ord_1"), order("ord_1")])),
        ("lacks an attribute", |_| Ok(vec![ResourceEntity::new("Order", "ord_1")])),
        ("has null there", |_| Ok(vec![order("ord_1").attribute("tenant", Value::Null)])),
        ("has another type", |_| Ok(vec![order("ord_1").attribute("total", "1")])),
        ("has one too large", |_| Ok(vec![order("ord_1").attribute("total", u64::MAX)])),
        ("looks like an entity", |_| {
            Ok(vec![order("ord_1").attribute("tenant", json!({"__entity": {"type": "Tenant", "id": "acme"}}))])
        }),
        ("names no entity", |_| Ok(vec![order("ord_1").attribute("owner", json!({"type": "User", "id": "dana"}))])),
        ("has an unknown attribute", |_| Ok(vec![order("ord_1").attribute("totl", 1)])),
        ("has an unknown member", |_| Ok(vec![order("ord_1").attribute("bill", json!({"to": "t", "too": "t"}))])),
        ("has a parent of no type", |_| Ok(vec![order("ord_1").parent("Nothing", "x")])),
        ("has a parent of another type", |_| Ok(vec![order("ord_1").parent("Role", "x")])),
        ("has a capability for a parent", |_| Ok(vec![order("ord_1").parent("Capability", "orders.get")])),
        ("has a tag that is not listed", |_| Ok(vec![order("ord_1").attribute("tags", json!(["prime"]))])),
        ("goes in circles", |wanted| {
            Ok(wanted.iter().map(|it| if it.kind == "Order" { order(&it.id) } else { tenant(&it.id, "x") }).collect())
                .map(|all: Vec<ResourceEntity>| all.into_iter().map(|it| it.parent("Tenant", "t")).collect())
        }),
        ("has too many parents", |_| {
            Ok(vec![(0..200).fold(order("ord_1"), |it, at| it.parent("Region", at.to_string()))])
        }),
        ("needs too many", |_| {
            let all: Vec<String> = (0..200).map(|it| it.to_string()).collect();
            Ok(vec![order("ord_1").attribute("bill", json!({"to": "t"})).attribute("tags", json!(all))]).map(
                |mut it: Vec<ResourceEntity>| {
                    it[0].parents = (0..128).map(|at| EntityRef::new("Tenant", at.to_string())).collect();
                    it
                },
            )
        }),
        ("never ends", |wanted| {
            let next = |it: &EntityRef| format!("{}x", it.id);
            let order = |it: &EntityRef| if it.kind == "Order" { order(&it.id) } else { tenant(&it.id, "x") };
            Ok(wanted.iter().map(|it| order(it).parent("Tenant", next(it))).collect())
        }),
    ]
}

#[tokio::test]
async fn a_call_may_need_128_entities_and_not_one_more() {
    for (tenants, expected) in [(127, "-"), (128, "POLICY_FAILED")] {
        let resource = (0..tenants).fold(order("ord_1"), |it, at| it.parent("Tenant", at.to_string()));
        let all = (0..tenants).map(|at| tenant(&at.to_string(), "x")).chain([resource]);
        let app = app(TestEntities::new(all)).await;
        assert_eq!(code(&get(&app, dana(), "ord_1").await), expected, "{tenants} and the order");
    }
}

#[tokio::test]
async fn whatever_is_wrong_with_an_answer_denies_and_shows_neither_values_nor_causes() {
    let mut table = String::new();
    for (what, answer) in bad_answers() {
        let app = app(Always(answer)).await;
        let outcome = get(&app, dana(), "ord_1").await;
        let said = outcome.error().map(|it| &*it.message).unwrap_or_default();
        writeln!(table, "{what}: {} {said}", verdict(&app, &outcome).await).unwrap();
        assert_eq!(app.effects(), Vec::<String>::new(), "{what}");
        let events = serde_json::to_string(&app.trail().await).unwrap();
        assert!(!events.contains("secret") && !events.contains("prime"), "{what}: {events}");
    }
    insta::assert_snapshot!(table, @r"
    fails: POLICY_FAILED <resource> provider_failed The operation failed.
    panics: POLICY_FAILED <resource> provider_panicked The operation failed.
    has nothing: POLICY_FAILED <resource> entity_missing The operation failed.
    has another one: POLICY_FAILED <resource> not_asked_for The operation failed.
    has more: POLICY_FAILED <resource> not_asked_for The operation failed.
    has it twice: POLICY_FAILED <resource> not_asked_for The operation failed.
    lacks an attribute: POLICY_FAILED <resource> attribute_missing The operation failed.
    has null there: POLICY_FAILED <resource> attribute_missing The operation failed.
    has another type: POLICY_FAILED <resource> wrong_type The operation failed.
    has one too large: POLICY_FAILED <resource> out_of_range The operation failed.
    looks like an entity: POLICY_FAILED <resource> wrong_type The operation failed.
    names no entity: POLICY_FAILED <resource> wrong_type The operation failed.
    has an unknown attribute: POLICY_FAILED <resource> attribute_unknown The operation failed.
    has an unknown member: POLICY_FAILED <resource> attribute_unknown The operation failed.
    has a parent of no type: POLICY_FAILED <resource> not_in_schema The operation failed.
    has a parent of another type: POLICY_FAILED <resource> not_in_schema The operation failed.
    has a capability for a parent: POLICY_FAILED <resource> not_in_schema The operation failed.
    has a tag that is not listed: POLICY_FAILED <resource> not_in_schema The operation failed.
    goes in circles: POLICY_FAILED <resource> not_in_schema The operation failed.
    has too many parents: POLICY_FAILED <resource> too_many The operation failed.
    needs too many: POLICY_FAILED <resource> too_many The operation failed.
    never ends: POLICY_FAILED <resource> too_deep The operation failed.
    ");
}

#[tokio::test]
async fn what_a_provider_says_of_its_failure_is_neither_logged_nor_recorded() {
    watch_logs();
    let app = app(Always(|_| Err("countersign-watch-orders".into()))).await;
    let outcome = get(&app, dana(), "ord_1").await;
    assert_eq!(code(&outcome), "POLICY_FAILED");
    assert_eq!(logged("countersign-watch-orders"), [""; 0]);
    assert!(format!("{:?}", app.trail().await).contains("provider_failed"), "its class is");
    assert!(!format!("{outcome:?}{:?}", app.trail().await).contains("countersign-watch"));
}

/// Hangs, and says when it was asked and when it was given up.
#[derive(Clone)]
struct Hanging {
    asked: Arc<Semaphore>,
    dropped: Arc<Semaphore>,
}

impl Hanging {
    fn new() -> Self {
        Self { asked: Arc::new(Semaphore::new(0)), dropped: Arc::new(Semaphore::new(0)) }
    }
}

struct Notice(Arc<Semaphore>);

impl Drop for Notice {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

#[async_trait]
impl EntityProvider for Hanging {
    async fn entities(&self, _: &[EntityRef], _: &Identity) -> Result<Vec<ResourceEntity>, BoxError> {
        let _notice = Notice(Arc::clone(&self.dropped));
        self.asked.add_permits(1);
        std::future::pending().await
    }
}

#[tokio::test]
async fn after_five_seconds_a_call_is_denied() {
    let provider = Hanging::new();
    let app = app(provider.clone()).await;
    let call = app.on_behalf_of(dana()).invoke("orders.get", json!({"orderId": "ord_1"})).start();
    signal(&provider.asked).await;
    app.clock().advance(Duration::from_millis(4_999));
    assert_eq!(provider.dropped.available_permits(), 0);
    app.clock().advance(Duration::from_millis(1));
    let outcome = call.await;
    signal(&provider.dropped).await;
    assert_eq!(verdict(&app, &outcome).await, "POLICY_FAILED <resource> timed_out");
    insta::assert_yaml_snapshot!(app.trail_of(outcome.execution_id()).await.without_hashes(), @r#"
    - at: +0s
      type: capability.requested
      tenant: acme
      surface: direct
      actor: user dana
      executionId: exe-1
      capabilityId: orders.get
      data:
        risk: low
        sideEffect: read
    - at: +5s
      type: capability.denied
      tenant: acme
      surface: direct
      actor: user dana
      executionId: exe-1
      capabilityId: orders.get
      inputHash: "[hash]"
      policyHash: "[hash]"
      data:
        errors:
          - kind: timed_out
            policy: "<resource>"
        publicCode: POLICY_FAILED
        reason: policy_failed
    "#);
}

#[tokio::test]
async fn a_call_that_is_cancelled_gives_its_request_up() {
    let provider = Hanging::new();
    let app = app(provider.clone()).await;
    let call = app.on_behalf_of(dana()).invoke("orders.get", json!({"orderId": "ord_1"})).start();
    signal(&provider.asked).await;
    call.cancel();
    assert_eq!(code(&call.await), "CANCELLED");
    signal(&provider.dropped).await;
}

#[tokio::test]
async fn nothing_is_fetched_before_the_call_is_valid_or_if_it_is_about_no_entity() {
    let entities = TestEntities::default();
    let app = app(entities.clone()).await;
    let dana = app.on_behalf_of(dana());
    assert_eq!(code(&dana.invoke("ping", json!({})).await), "-");
    assert_eq!(code(&dana.invoke("orders.get", json!({})).await), "INPUT_INVALID");
    assert_eq!(code(&dana.invoke("orders.get", json!({"orderId": 1})).await), "INPUT_INVALID");
    let mcp = app.over(Surface::Mcp, omar());
    assert_eq!(code(&mcp.invoke("orders.get", json!({"orderId": "ord_1"})).await), "CAPABILITY_NOT_FOUND");
    assert_eq!(dana.capabilities(countersign::Filter::all()).await.unwrap().len(), 3);
    assert_eq!(entities.requests(), Vec::<Vec<EntityRef>>::new());
}

#[tokio::test]
async fn a_resumed_call_is_decided_by_what_the_entity_is_today() {
    let entities = TestEntities::new([order("ord_1").attribute("total", 60_000)]);
    let app = app(entities.clone()).await;
    let dana = app.on_behalf_of(dana());
    let asked = dana.invoke("orders.cancel", json!({"orderId": "ord_1"})).await;
    let id = asked.approval().unwrap().id.clone();
    let priya = Identity::new(Actor::user("priya").role("manager")).tenant("acme");
    app.approvals(priya).approve(&id, "manager").await.unwrap();
    entities.put(ResourceEntity::new("Order", "ord_1").attribute("tenant", "umbrella").attribute("total", 60_000));
    assert_eq!(code(&dana.resume(&id).await), "POLICY_DENIED");
    entities.put(order("ord_1").attribute("total", 60_000));
    assert_eq!(code(&dana.resume(&id).await), "-");
    assert_eq!(entities.requests().len(), 3, "one for each decision");
    insta::assert_snapshot!(app.trail().await.without_policies(), @r"
    exe-1 capability.requested risk=low sideEffect=write
    exe-1 capability.approval_requested approvalId=apr-1 existing=false expiresAt=+3600s suspended=true
    exe-1 capability.approved approvalId=apr-1 by=user priya have=1 need=1 type=manager via=direct
    exe-2 capability.requested approvalId=apr-1 risk=low sideEffect=write
    exe-2 capability.denied publicCode=POLICY_DENIED reason=policy_denied
    exe-3 capability.requested approvalId=apr-1 risk=low sideEffect=write
    exe-3 capability.started approvalId=apr-1 keyed=false
    exe-3 capability.completed attempts=1
    ");
}

#[tokio::test]
async fn a_call_that_finds_its_approval_is_decided_again_without_asking_again() {
    let entities = TestEntities::new([order("ord_1").attribute("total", 60_000)]);
    let app = app(entities.clone()).await;
    let dana = app.on_behalf_of(dana());
    let call = || dana.invoke("orders.cancel", json!({"orderId": "ord_1"})).idempotency_key("k");
    let id = call().await.approval().unwrap().id.clone();
    let priya = Identity::new(Actor::user("priya").role("manager")).tenant("acme");
    app.approvals(priya).approve(&id, "manager").await.unwrap();
    assert_eq!(code(&call().await), "-");
    assert_eq!(entities.requests().len(), 2, "one for each call");
}

#[tokio::test]
async fn a_user_who_acts_on_themselves_needs_no_fetching_and_another_one_does() {
    let schema = "entity User = { department?: String };";
    let policies = r#"
        @id("self") permit (principal, action, resource) when { resource == principal && principal has department && principal.department == "it" };
        @id("peers") permit (principal, action == Action::"users.show", resource)
        when { resource has department && principal has department && resource.department == principal.department };"#;
    let input = json!({"type": "object", "required": ["id"], "additionalProperties": false,
        "properties": {"id": {"type": "string"}}});
    let show = Capability::read("users.show").risk(Risk::Low).description("Shows one.").expose([Surface::Direct]);
    let files = [("schema.cedarschema", schema), ("users.cedar", policies)];
    let none: Vec<String> = Vec::new();
    let paul = ResourceEntity::new("User", "paul").attribute("roles", none.clone()).attribute("scopes", none);
    let entities = TestEntities::new([paul.attribute("department", "it")]);
    let builder = Engine::builder()
        .capability(show.resource("User", "/id").json_handler(input, json!({}), echo))
        .policies(PolicySource::Files(files.map(|(name, text)| (name.into(), text.into())).into()))
        .entities(entities.clone());
    let app = TestApp::new(builder, |_| ()).await.unwrap();
    let dana = app.on_behalf_of(Actor::user("dana").attribute("department", "it"));
    assert_eq!(code(&dana.invoke("users.show", json!({"id": "dana"})).await), "-");
    assert_eq!(entities.requests(), Vec::<Vec<EntityRef>>::new());
    assert_eq!(code(&dana.invoke("users.show", json!({"id": "paul"})).await), "-");
    assert_eq!(entities.requests(), [[EntityRef::new("User", "paul")]]);
}

async fn refused(builder: EngineBuilder) -> String {
    let place = Place::new().unwrap();
    let built = builder.database(format!("sqlite:{}", place.database().display())).build().await;
    built.err().expect("it is refused").to_string()
}

#[tokio::test]
async fn without_a_provider_or_a_declared_type_nothing_starts() {
    let everybody = ("all.cedar".to_owned(), "@id(\"x\") permit (principal, action, resource);".to_owned());
    let with = |schema: &str| {
        let schema = ("schema.cedarschema".to_owned(), schema.to_owned());
        shop().entities(TestEntities::default()).policies(PolicySource::Files(vec![everybody.clone(), schema]))
    };
    let mut said = refused(shop()).await;
    for schema in ["", "entity Order = { tenant: String } tags String;", "entity Order = { wait: duration };"] {
        write!(said, "\n{}", refused(with(schema)).await).unwrap();
    }
    insta::assert_snapshot!(said, @r"
    the engine cannot be built, 2 problems
      `orders.get`: it is about an entity, `Order`, and nothing provides entities; give the builder a provider with `entities`, or remove `resource`
      `orders.cancel`: it is about an entity, `Order`, and nothing provides entities; give the builder a provider with `entities`, or remove `resource`
    the engine cannot be built, 2 problems
      `<capability>:0:0`: `orders.cancel` acts on `Order`, which is no entity type of the application; declare `entity Order;` in `schema.cedarschema`
      `<capability>:0:0`: `orders.get` acts on `Order`, which is no entity type of the application; declare `entity Order;` in `schema.cedarschema`
    the engine cannot be built, 1 problem
      `schema.cedarschema:1:1`: `Order` has tags, which nothing fills; declare attributes
    the engine cannot be built, 1 problem
      `schema.cedarschema:1:18`: no attribute can have the type of `Order.wait`; use Bool, Long, String, datetime, decimal, ipaddr, an entity, sets and records of them
    ");
}
