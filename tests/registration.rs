//! Everything that can be wrong with an engine to be, all at once.

use countersign::testing::Place;
use countersign::{BuildError, Capability, Engine, EngineBuilder, HandlerError, Invocation, Risk, SideEffect, Surface};
use serde_json::{Value, json};

use crate::shop::{ALLOW_ALL, draft, texts};

async fn echo(_: Invocation, input: Value) -> Result<Value, HandlerError> {
    Ok(input)
}

fn closed() -> Value {
    json!({"type": "object", "additionalProperties": false})
}

async fn refused(builder: EngineBuilder) -> BuildError {
    let place = Place::new().unwrap();
    let built = builder.database(format!("sqlite:{}", place.database().display())).build().await;
    built.err().expect("the builder is refused")
}

#[tokio::test]
async fn every_problem_of_every_capability_is_reported_with_what_to_do() {
    let bare = Capability::write("Orders.Refund").redact_output(["/nothing"]).json_handler(closed(), json!({}), echo);
    let builder = Engine::<()>::builder()
        .capability(bare)
        .capability(draft("a.b_c", SideEffect::Write).retries(1).json_handler(closed(), json!({}), echo))
        .capability(draft("a_b.c", SideEffect::Read).json_handler(closed(), json!({}), echo))
        .capability(draft("a_b.c", SideEffect::Read).json_handler(json!({"type": "object"}), json!({}), echo));
    insta::assert_snapshot!(refused(builder).await, @r#"
    the engine cannot be built, 8 problems
      `a_b.c`: `a.b_c` and `a_b.c` both have the tool name `a_b_c`; give one of them another with `tool_name`
      `a_b.c`: capabilities 3 and 4 both have the id `a_b.c`; rename one of them
      `Orders.Refund`: the id is not a dot path; use lower-case letters, digits, `_` and single dots, at most 128: `orders.refund`
      `Orders.Refund`: it has no description; say with `description` what it does and when to use it
      `Orders.Refund`: it has no risk; say with `risk` how bad a wrong call is
      `Orders.Refund`: `redact_output`: the schema has no `/nothing`; correct it, or declare the member in the schema; members of a map are `*`
      `a.b_c`: a write that is not idempotent is retried; remove `retries`, or declare with `idempotent` that running twice with one key is running once
      `a_b.c`: input schema: the root does not say whether undeclared members are allowed; close it with `"additionalProperties": false`, or open it with `true`
    "#);
}

#[tokio::test]
async fn r12_what_a_validator_would_ignore_is_reported_when_registering() {
    let with = |rule: Value| json!({"type": "object", "additionalProperties": false, "properties": {"a": rule}});
    let builder = Engine::<()>::builder()
        .capability(draft("a", SideEffect::Read).json_handler(
            with(json!({"type": "string", "format": "luhn"})),
            json!({}),
            echo,
        ))
        .capability(draft("b", SideEffect::Read).json_handler(
            with(json!({"type": "string", "nullable": true})),
            json!({}),
            echo,
        ));
    insta::assert_snapshot!(refused(builder).await, @r#"
    the engine cannot be built, 2 problems
      `a`: input schema: `/properties/a`: unknown format `luhn`, which would check nothing; use a format of JSON Schema 2020-12, or `pattern`
      `b`: input schema: `/properties/a`: keyword `nullable` would be ignored; write `"type": ["string", "null"]`
    "#);
}

#[tokio::test]
async fn a_database_is_required_and_of_a_known_sort() {
    for url in [None, Some("postgres://x"), Some("sqlite:"), Some("sqlite::memory:"), Some("somewhere")] {
        let mut builder = Engine::<()>::builder().policies(texts(ALLOW_ALL));
        if let Some(url) = url {
            builder = builder.database(url);
        }
        let error = builder.build().await.err().unwrap();
        assert_eq!(error.problems.iter().map(|it| &*it.at).collect::<Vec<_>>(), ["the database"], "{url:?}");
    }
    let error = Engine::<()>::builder().database("sqlite:/no/such/directory/x.db").build().await.err().unwrap();
    assert_eq!(error.problems.len(), 1, "{error}");
}

#[tokio::test]
async fn handlers_of_every_shape_register() {
    async fn nothing(_: Invocation, (): ()) -> Result<(), HandlerError> {
        Ok(())
    }
    async fn never(_: Invocation, _: Value) -> Result<Value, std::convert::Infallible> {
        Ok(json!(1))
    }
    let place = Place::new().unwrap();
    let builder = Engine::<()>::builder()
        .capability(draft("typed", SideEffect::None).handler(nothing))
        .capability(draft("raw", SideEffect::None).json_handler(closed(), json!({}), never))
        .capability(
            draft("closure", SideEffect::None).handler(|_: Invocation, (): ()| async { Ok::<_, HandlerError>(1) }),
        )
        .capability(Capability::none("staged").risk(Risk::Low).description("Exposed nowhere.").json_handler(
            closed(),
            json!({}),
            echo,
        ))
        .policies(texts(ALLOW_ALL));
    let app = countersign::testing::TestApp::open(builder, |_| (), &place).await.unwrap();
    let dana = app.over(Surface::Test, countersign::Actor::user("dana"));
    for (id, output) in [("typed", json!(null)), ("raw", json!(1)), ("closure", json!(1))] {
        assert_eq!(dana.invoke(id, json!({})).await.into_result().unwrap().into_json(), output, "{id}");
    }
    assert!(dana.invoke("staged", json!({})).await.error().is_some());
}
