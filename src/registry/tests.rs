use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::Surface;
use crate::capability::{ApprovalRule, Capability, CapabilityBuilder, Idempotency, Reconciliation, Risk, SideEffect};
use crate::handler::{DeclaredError, HandlerError};
use crate::invocation::{AgentInvocationInfo, Invocation};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "decoded only")]
struct Refund {
    order_id: String,
    amount_cents: u32,
    #[serde(default)]
    note: Option<String>,
    customer: Customer,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Customer {
    email: String,
    tries: u8,
}

#[derive(Serialize, JsonSchema)]
struct Refunded {
    id: String,
    customers: Vec<Customer>,
}

async fn refund(_cx: Invocation, _input: Refund) -> Result<Refunded, HandlerError> {
    Ok(Refunded { id: "r".into(), customers: Vec::new() })
}

async fn nothing(_cx: Invocation, (): ()) -> Result<(), HandlerError> {
    Ok(())
}

fn write(id: &str) -> CapabilityBuilder {
    Capability::write(id).risk(Risk::High).description("Refund an order.").expose([Surface::Direct])
}

fn draft(builder: CapabilityBuilder) -> Draft {
    builder.handler::<(), _, _, _, _, _>(refund).draft
}

fn problems(drafts: Vec<Draft>) -> String {
    let found = Registry::new(drafts).err().unwrap_or_default();
    found.iter().map(|it| format!("`{}`: {}; {}", it.at, it.what, it.fix)).collect::<Vec<_>>().join("\n")
}

fn only(builder: CapabilityBuilder) -> Governed {
    let mut registry = Registry::new(vec![draft(builder)]).unwrap_or_else(|it| panic!("{it:?}"));
    registry.by_id.clear();
    Arc::try_unwrap(registry.all.remove(0)).unwrap_or_else(|_| panic!("shared"))
}

#[test]
fn a_sound_capability_is_found_by_its_id() {
    let registry = Registry::new(vec![draft(write("orders.refund")), draft(write("orders.get"))]).unwrap();
    assert_eq!(
        registry.all().iter().map(|it| (&*it.id, it.handler)).collect::<Vec<_>>(),
        [("orders.refund", 0), ("orders.get", 1)]
    );
    assert_eq!(registry.get("orders.get").map(|it| &*it.tool_name), Some("orders_get"));
    assert!(registry.get("orders").is_none());
}

#[test]
fn every_problem_of_every_capability_is_reported_at_once() {
    const OURS: DeclaredError = DeclaredError::new("TIMEOUT", "Too late.");
    const LOWER: DeclaredError = DeclaredError::new("not_eligible", "");
    const ONE: DeclaredError = DeclaredError::new("ONE", "First.");
    let long = ApprovalRule::of("four eyes").quorum(17).expires_in(Duration::from_hours(24 * 31));
    let drafts = vec![
        draft(Capability::write("Orders.Refund")),
        draft(write("invoke")),
        draft(write("a.b").description("x".repeat(4097)).tags(["Money", ""])),
        draft(write("a_b").tags(["fine", "fine"])),
        draft(write("twice")),
        draft(write("twice")),
        draft(write("tool").tool_name("a b")),
        draft(write("errors").error(OURS).error(LOWER).error(ONE).error(ONE).error(ONE.with_message("Second."))),
        draft(write("retry").retries(11)),
        draft(write("slow").timeout(Duration::ZERO)),
        draft(write("slower").timeout(Duration::from_hours(25))),
        draft(write("approved").approval(long)),
        draft(write("keys").idempotency(Idempotency { ttl: Duration::ZERO, ..Idempotency::default() })),
        draft(
            write("leaks")
                .redact_output(["/id", "/customers/*/mail", "id"])
                .redact_display(["/customer/email", "/customers"]),
        ),
        draft(write("about").resource("", "/note")),
        draft(
            Capability::none("pure")
                .risk(Risk::Low)
                .description("Adds.")
                .idempotency(Idempotency { on_reads: true, ..Idempotency::default() })
                .reconcile(|_: AgentInvocationInfo, _: Value| async { Reconciliation::Unknown }),
        ),
        write("open")
            .json_handler::<(), _, _, _>(json!({"type": "object"}), json!({"format": "luhn"}), |_, it| async {
                Ok::<_, HandlerError>(it)
            })
            .draft,
    ];
    insta::assert_snapshot!(problems(drafts), @r#"
    `a_b`: `a.b` and `a_b` both have the tool name `a_b`; give one of them another with `tool_name`
    `twice`: capabilities 5 and 6 both have the id `twice`; rename one of them
    `Orders.Refund`: the id is not a dot path; use lower-case letters, digits, `_` and single dots, at most 128: `orders.refund`
    `Orders.Refund`: it has no description; say with `description` what it does and when to use it
    `Orders.Refund`: it has no risk; say with `risk` how bad a wrong call is
    `invoke`: the id is reserved: it is a group of actions in policies; choose another id
    `a.b`: the description has more than 4096 bytes; shorten it: agents read it at every listing
    `a.b`: the tag `` is not legal; use 1 to 64 lower-case letters, digits, `_` and `-`
    `a.b`: the tag `Money` is not legal; use 1 to 64 lower-case letters, digits, `_` and `-`
    `tool`: the tool name `a b` is not legal; give it one of 1 to 128 letters, digits, `_`, `-` and `.` with `tool_name`
    `errors`: the error code `TIMEOUT` is one of the engine's own; choose another code: callers could not tell the two apart
    `errors`: the error code `not_eligible` is not legal; use 1 to 64 capital letters, digits and `_`, a letter first: `NOT_ELIGIBLE`
    `errors`: the error `not_eligible` has no message, or a long one; give it one sentence of at most 512 bytes that callers may read
    `errors`: the error code `ONE` is declared with two messages; declare it once, and change the sentence with `with_message` where it is returned
    `retry`: it has more than 10 retries; choose 0 to 10
    `retry`: a write that is not idempotent is retried; remove `retries`, or declare with `idempotent` that running twice with one key is running once
    `slow`: the timeout is out of bounds; choose 1 ms to 24 h
    `slower`: the timeout is out of bounds; choose 1 ms to 24 h
    `approved`: the approval type `four eyes` is not legal; use 1 to 64 letters, digits, `_`, `-` and `.`: `manager`
    `approved`: the quorum of the approval is out of bounds; choose 1 to 16 people
    `approved`: the life of the approval is out of bounds; choose 1 s to 30 d with `expires_in`
    `approved`: its idempotency keys are forgotten before its approvals expire; raise the ttl in `idempotency` to the approval's `expires_in` at least
    `keys`: the ttl of idempotency keys is out of bounds; choose 1 s to 366 d
    `leaks`: `redact_output`: the schema has no `/customers/*/mail`; correct it, or declare the member in the schema; members of a map are `*`
    `leaks`: `redact_output`: `id` is no path: it does not start with `/`; write a JSON Pointer, `/customer/email`, with `*` for every member or element
    `leaks`: `redact_display`: the schema has no `/customers`; correct it, or declare the member in the schema; members of a map are `*`
    `about`: its resource has no entity type; name one of `schema.cedarschema`
    `about`: its resource's id is at `/note`, where no string must be; name a required string member of the input, as a JSON Pointer: `/orderId`
    `pure`: it has a reconcile hook, but no effect; remove `reconcile`: nothing is ever unknown about a capability that changes nothing
    `pure`: it uses idempotency keys, but has no effect; remove `on_reads`: a computation has nothing that a key could protect
    `open`: input schema: the root does not say whether undeclared members are allowed; close it with `"additionalProperties": false`, or open it with `true`
    `open`: output schema: unknown format `luhn`, which would check nothing; use a format of JSON Schema 2020-12, or `pattern`
    "#);
}

#[test]
fn a_read_may_be_retried_and_a_write_that_is_idempotent() {
    let read = Capability::read("r").risk(Risk::Low).description("Reads.").retries(10);
    assert_eq!(problems(vec![draft(read), draft(write("w").retries(1).idempotent())]), "");
    assert!(problems(vec![draft(write("w").retries(1))]).contains("not idempotent is retried"));
}

#[test]
fn a_resource_is_at_a_required_string_also_inside() {
    for pointer in ["/orderId", "/customer/email"] {
        assert_eq!(problems(vec![draft(write("w").resource("Order", pointer))]), "");
    }
    for pointer in ["/note", "/amountCents", "/customer", "/nothing", "", "orderId"] {
        assert!(
            problems(vec![draft(write("w").resource("Order", pointer))]).contains("no string must be"),
            "{pointer}"
        );
    }
}

#[test]
fn derived_schemas_are_closed_at_the_root_with_real_bounds() {
    let governed = only(write("orders.refund"));
    insta::assert_snapshot!(governed.input_schema, @r##"{"type":"object","properties":{"orderId":{"type":"string"},"amountCents":{"type":"integer","minimum":0,"maximum":4294967295},"note":{"type":["string","null"],"default":null},"customer":{"$ref":"#/$defs/Customer"}},"required":["orderId","amountCents","customer"],"$defs":{"Customer":{"type":"object","properties":{"email":{"type":"string"},"tries":{"type":"integer","maximum":255,"minimum":0}},"required":["email","tries"]}},"$schema":"https://json-schema.org/draft/2020-12/schema","additionalProperties":false}"##);
    insta::assert_snapshot!(governed.output_schema, @r##"{"type":"object","properties":{"id":{"type":"string"},"customers":{"type":"array","items":{"$ref":"#/$defs/Customer"}}},"required":["id","customers"],"$defs":{"Customer":{"type":"object","properties":{"email":{"type":"string"},"tries":{"type":"integer","maximum":255,"minimum":0}},"required":["email","tries"]}},"$schema":"https://json-schema.org/draft/2020-12/schema"}"##);
    let unit = write("unit").handler::<(), _, _, _, _, _>(nothing).draft;
    insta::assert_snapshot!(unit.input_schema, @r#"{"type":"object","$schema":"https://json-schema.org/draft/2020-12/schema","additionalProperties":false}"#);
    assert!((unit.decodes)(&json!({})));
}

#[test]
fn the_digest_changes_with_everything_that_was_agreed_to_and_nothing_else() {
    type Change = fn(CapabilityBuilder) -> CapabilityBuilder;
    const ERROR: DeclaredError = DeclaredError::new("NOT_ELIGIBLE", "It cannot be refunded.");
    let changes: [(&str, Change); 18] = [
        ("nothing", |it| it),
        ("risk", |it| it.risk(Risk::Low)),
        ("description", |it| it.description("Other.")),
        ("expose", |it| it.expose([Surface::Http])),
        ("tags", |it| it.tags(["money"])),
        ("error", |it| it.error(ERROR)),
        ("message", |it| it.error(ERROR.with_message("Other."))),
        ("timeout", |it| it.timeout(Duration::from_secs(1))),
        ("idempotent", |it| it.idempotent()),
        ("retries", |it| it.idempotent().retries(1)),
        ("ttl", |it| it.idempotency(Idempotency { ttl: Duration::from_hours(48), ..Idempotency::default() })),
        ("approval", |it| it.approval(ApprovalRule::of("manager"))),
        ("redact", |it| it.redact_output(["/id"])),
        ("display", |it| it.redact_display(["/note"])),
        ("function", |it| it.redact_with(|it| it)),
        ("resource", |it| it.resource("Order", "/orderId")),
        ("decision_record", |it| it.decision_record(true)),
        ("tool", |it| it.tool_name("refund")),
    ];
    let mut digests: Vec<_> = changes.iter().map(|(_, change)| only(change(write("orders.refund"))).digest).collect();
    digests.push(only(write("orders.get")).digest);
    let effect = Capability::builder("orders.refund", SideEffect::External).risk(Risk::High);
    digests.push(only(effect.description("Refund an order.").expose([Surface::Direct])).digest);
    let count = digests.len();
    assert_eq!(digests[0], only(write("orders.refund").expose([Surface::Direct, Surface::Direct])).digest);
    let ordered = |tags: [&str; 2]| only(write("orders.refund").tags(tags)).digest;
    assert_eq!(ordered(["a", "b"]), ordered(["b", "a"]));
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), count);
    assert!(digests[0].starts_with("sha256:") && digests[0].len() == 71);
}

#[test]
#[ignore = "a measurement: run with --release --nocapture"]
#[expect(clippy::disallowed_methods, reason = "measures")]
fn registering_300_capabilities_takes_less_than_100_ms() {
    let drafts: Vec<_> = (0..300).map(|it| draft(write(&format!("orders.c{it}")))).collect();
    let start = std::time::Instant::now();
    let registry = Registry::new(drafts).unwrap();
    println!("{} capabilities in {:?}", registry.all().len(), start.elapsed());
}
