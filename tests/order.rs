//! A call that fails two stages reports the earlier one: stage order as a table.

use std::fmt::Write as _;

use countersign::{Capability, Identity, Outcome, Risk, Surface};
use serde_json::{Value, json};

use crate::shop::{ALLOW_ALL, App, Shop, act, cast, code, everything_but, refund, texts};

/// Code, and the stage or reason that the trail names.
async fn told(app: &App, outcome: &Outcome) -> String {
    let trail = app.trail_of(outcome.execution_id()).await;
    let end = trail.entries().iter().find(|it| it.is_terminal()).unwrap();
    let place = end.data["stage"].as_str().or(end.data["reason"].as_str()).unwrap_or("-");
    format!("{} at {place}", code(outcome))
}

#[tokio::test]
async fn the_earlier_stage_speaks() {
    let app = App::new().await;
    let nobody = app.on_behalf_of(Identity::none());
    let mcp = app.over(Surface::Mcp, cast("dana"));
    let bad = || json!({"nonsense": 1});
    let mut table = String::new();
    let mut row = async |pair: &str, outcome: Outcome| {
        writeln!(table, "{pair:34} {}", told(&app, &outcome).await).unwrap();
    };
    row("3/4  no actor, unknown", nobody.invoke("no.such", bad()).await).await;
    row("3/6  no actor, invalid", nobody.invoke("orders.refund", bad()).await).await;
    row("4/6  unknown, invalid", app.dana().invoke("no.such", bad()).await).await;
    row("4/6  unknown, bad key", app.dana().invoke("no.such", bad()).idempotency_key("").await).await;
    row("5/6  not exposed, invalid", app.dana().invoke("orders.purge", bad()).await).await;
    row("5/6  hidden, invalid", mcp.invoke("orders.refund", bad()).await).await;
    row("5/7  hidden, denied", mcp.invoke("orders.refund", refund("o", 900_000)).await).await;
    row("6/6  bad key, invalid", app.dana().invoke("orders.refund", bad()).idempotency_key("").await).await;
    // A deny that depends on the input comes after the schema; any other refusal before it.
    let dear = json!({"orderId": "o", "amountCents": 900_000, "nonsense": 1});
    row("6/7  invalid, too large", app.dana().invoke("orders.refund", dear).await).await;
    row("6/7  invalid, never permitted", app.caller("stranger").invoke("orders.refund", bad()).await).await;
    row("7/8  denied, gated", app.dana().invoke("orders.refund", refund("o", 900_000)).await).await;
    let key = |input: Value| app.dana().invoke("orders.refund", input).idempotency_key("k");
    assert_eq!(code(&key(refund("o", 1)).await), "-");
    row("7/8  denied, key reused", key(refund("o", 900_000)).await).await;
    app.fail_contexts(true);
    row("8/9  key reused, no context", key(refund("o", 2)).await).await;
    row("8/9  gated, no context", app.dana().invoke("orders.refund", refund("o", 60_000)).await).await;
    row("9/11 no context, forbidden", app.dana().invoke("act.write", act("closed")).await).await;
    app.fail_contexts(false);
    row("11/12 failed, never an output", app.dana().invoke("act.write", act("declared")).await).await;
    insta::assert_snapshot!(table, @r#"
    3/4  no actor, unknown             UNAUTHENTICATED at actor
    3/6  no actor, invalid             UNAUTHENTICATED at actor
    4/6  unknown, invalid              CAPABILITY_NOT_FOUND at unknown
    4/6  unknown, bad key              CAPABILITY_NOT_FOUND at unknown
    5/6  not exposed, invalid          CAPABILITY_NOT_FOUND at not_exposed
    5/6  hidden, invalid               CAPABILITY_NOT_FOUND at hidden
    5/7  hidden, denied                CAPABILITY_NOT_FOUND at hidden
    6/6  bad key, invalid              IDEMPOTENCY_KEY_INVALID at schema
    6/7  invalid, too large            INPUT_INVALID at schema
    6/7  invalid, never permitted      POLICY_DENIED at policy_denied
    7/8  denied, gated                 POLICY_DENIED at policy_denied
    7/8  denied, key reused            POLICY_DENIED at policy_denied
    8/9  key reused, no context        IDEMPOTENCY_KEY_REUSED at approval
    8/9  gated, no context             ? at -
    9/11 no context, forbidden         EXECUTION_FAILED at idempotency
    11/12 failed, never an output      EXECUTION_FAILED at handler
    "#);
}

async fn anything(_: countersign::Invocation<Shop>, input: Value) -> Result<Value, countersign::HandlerError> {
    Ok(input["value"].clone())
}

#[tokio::test]
async fn the_output_is_checked_before_it_is_redacted() {
    let input = json!({"type": "object", "properties": {"value": {}}, "additionalProperties": false});
    let output = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let draft = Capability::write("both.break").risk(Risk::Low).description("Breaks.").expose([Surface::Direct]);
    let broken = draft.redact_with(|_| panic!("redacted")).json_handler(input, output, anything);
    let people = r#"@id("p") permit (principal, action == Countersign::Action::"approve", resource);"#;
    let policies = texts(&format!("{ALLOW_ALL}\n{people}"));
    let app = App::with(everything_but(&[]).capability(broken).policies(policies)).await;
    let both = app.dana().invoke("both.break", json!({"value": {"a": "no integer"}})).await;
    assert_eq!(told(&app, &both).await, "OUTPUT_INVALID at output");
    let one = app.dana().invoke("both.break", json!({"value": {"a": 1}})).await;
    assert_eq!(told(&app, &one).await, "OUTPUT_INVALID at redaction");
}
