//! Calls about the application's entities: as cases, live, and from what is kept of them.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::policy::{self, SourceFile};
use crate::registry::Registry;
use crate::testing::{TestApp, TestEntities};
use crate::workbench::case::Asked;
use crate::workbench::{Cast, Suite, Word, World, recorded};
use crate::{
    Actor, Capability, Engine, HandlerError, Identity, Invocation, PolicySource, ResourceEntity, Risk, Surface,
};

const SCHEMA: &str = "entity Tenant; entity Order in [Tenant] = { total: Long };";

const POLICIES: &str = r#"
@id("own") permit (principal, action in Action::"orders.*", resource in Tenant::"acme");
@id("large") forbid (principal, action in Action::"orders.*", resource) when { resource.total > 100 };
"#;

fn source() -> PolicySource {
    let files = [("schema.cedarschema", SCHEMA), ("orders.cedar", POLICIES)];
    PolicySource::Files(files.map(|(name, text)| (name.into(), text.into())).into())
}

/// The first keeps its decisions.
fn capabilities() -> Vec<Capability> {
    let get = |id: &str, keep: bool| {
        let input = json!({"type": "object", "required": ["orderId"], "additionalProperties": false,
            "properties": {"orderId": {"type": "string"}}});
        Capability::read(id)
            .risk(Risk::Low)
            .description("Reads.")
            .expose([Surface::Direct])
            .resource("Order", "/orderId")
            .decision_record(keep)
            .json_handler(input, json!({}), async |_: Invocation<()>, _: Value| Ok::<_, HandlerError>(json!({})))
    };
    vec![get("orders.kept", true), get("orders.lost", false)]
}

fn world() -> World {
    let drafts = capabilities().into_iter().map(|it| it.draft).collect();
    let cast = Cast::from([("dana".to_owned(), Identity::new(Actor::user("dana")))]);
    World { registry: Arc::new(Registry::new(drafts).ok().unwrap()), cast }
}

const CASES: &str = "
defaults:
  actor: dana
  capability: orders.kept
  input: {orderId: o}
  entities:
    - {type: Order, id: o, attributes: {total: 5}, parents: [{type: Tenant, id: acme}]}
cases:
  - {name: their own, expect: allow, policies: [own]}
  - name: a large one
    entities: [{type: Order, id: o, attributes: {total: 500}, parents: [{type: Tenant, id: acme}]}]
    expect: deny
    policies: [large]
  - name: another tenant's
    entities: [{type: Order, id: o, attributes: {total: 5}, parents: [{type: Tenant, id: globex}]}]
    expect: deny
    policies: []
  - {name: one that is not there, input: {orderId: other}, expect: failed}
  - name: one with a misspelled attribute
    entities: [{type: Order, id: o, attributes: {totel: 5}}]
    expect: failed
  - {name: an input that names none, input: {}, expect: invalid}
";

#[test]
fn a_case_says_what_the_application_would_give() {
    let world = world();
    let (set, _) = policy::load(&source(), &world.registry).ok().unwrap();
    let file = SourceFile { name: "tests/orders.yaml".into(), text: CASES.into() };
    let report = Suite::read(&[file], &world, &set).ok().unwrap().run(&set);
    let failed: Vec<_> = report.cases.iter().filter(|it| !it.passed).map(|it| (&it.name, &it.got)).collect();
    assert_eq!((report.cases.len(), failed), (6, vec![]));
    assert_eq!(report.coverage.unexercised, []);
}

#[tokio::test]
async fn a_kept_decision_is_asked_again_with_its_entities() {
    let order =
        |id: &str, total: i64| ResourceEntity::new("Order", id).attribute("total", total).parent("Tenant", "acme");
    let entities = TestEntities::new([order("small", 5), order("large", 500)]);
    let builder = Engine::builder().capabilities(capabilities()).policies(source()).entities(entities);
    let app = TestApp::new(builder, |_| ()).await.ok().unwrap();
    let core = &app.engine().core;
    let set = Arc::clone(&core.policies.current().set);
    let dana = app.on_behalf_of(Actor::user("dana"));
    for (capability, order, word) in [
        ("orders.kept", "small", Some("allow")),
        ("orders.kept", "large", Some("deny")),
        ("orders.lost", "small", None),
        ("orders.lost", "large", None),
    ] {
        let outcome = dana.invoke(capability, json!({"orderId": order})).await;
        let (record, question) = recorded(core, outcome.execution_id()).await.unwrap().unwrap();
        let again = question.map(|it| Asked::Call(Box::new(it)).ruling(&set).word());
        assert_eq!(again.as_ref().map(Word::as_str), word, "{capability} {order}");
        assert!(again.is_none_or(|it| Some(it) == record.word), "{capability} {order}");
    }
}
