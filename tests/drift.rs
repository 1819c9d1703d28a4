//! What each change of governance means, kind by kind, and the gate that an application's own test is.

use std::time::Duration;

use countersign::drift::{Class, Drift, Governance};
use countersign::testing::TestApp;
use countersign::testing::drift::{self, Governed, NotAsAgreed};
use countersign::{
    AgentInvocationInfo, ApprovalRule, Capability, CapabilityBuilder, DeclaredError, Engine, EngineBuilder,
    HandlerError, Idempotency, Invocation, PolicySource, Reconciliation, Risk, SideEffect, Surface,
};
use serde_json::{Value, json};

const PERMITS: &str = r#"
    @id("calls") permit (principal in Role::"support", action in Action::"orders.*", resource)
        when { context.surface == "http" };
    @id("approvers") permit (principal, action == Countersign::Action::"approve", resource);"#;

const REFUND: &str = "orders.refund";

async fn nothing(_: Invocation, _: Value) -> Result<Value, HandlerError> {
    Ok(json!({}))
}

fn input() -> Value {
    json!({"type": "object", "additionalProperties": false, "required": ["orderId"],
        "properties": {"orderId": {"type": "string"}, "note": {"type": "string"}}})
}

fn output() -> Value {
    json!({"type": "object", "properties": {"id": {"type": "string"}, "secret": {"type": "string"}}})
}

fn refund() -> CapabilityBuilder {
    Capability::write(REFUND).risk(Risk::High).description("Refunds.").expose([Surface::Direct])
}

fn app(capability: CapabilityBuilder) -> EngineBuilder {
    with(capability.json_handler(input(), output(), nothing))
}

fn with(capability: Capability) -> EngineBuilder {
    files(Engine::builder().capability(capability), PERMITS)
}

fn files(builder: EngineBuilder, policies: &str) -> EngineBuilder {
    let schema = "entity Order;";
    builder.policies(PolicySource::Files(vec![
        ("schema.cedarschema".into(), schema.into()),
        ("a.cedar".into(), policies.into()),
    ]))
}

fn since(before: &EngineBuilder, after: &EngineBuilder) -> Drift {
    after.governance().unwrap().since(&before.governance().unwrap())
}

/// `widening expose`, in the order of the report.
fn told(drift: &Drift) -> Vec<String> {
    drift.differences.iter().map(|it| format!("{} {}", it.class.as_str(), it.what)).collect()
}

/// What is changed, from what, to what, what that means, and what the way back means.
type Row<'a, T> = (&'a str, T, T, &'a [&'a str], &'a [&'a str]);

/// What it means to come from `one` to `two`, and to go back.
fn assert_changes(name: &str, one: &EngineBuilder, two: &EngineBuilder, there: &[&str], back: &[&str]) {
    assert_eq!(told(&since(one, two)), there, "{name}");
    assert_eq!(told(&since(two, one)), back, "{name}, the other way");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_kind_of_change_of_a_capability_has_its_meaning() {
    let keys = |it: Idempotency| refund().idempotency(it);
    let base = Idempotency::default();
    let hook = |_: AgentInvocationInfo, _: Value| async { Reconciliation::Unknown };
    let person = ApprovalRule::of("manager");
    let minute = Duration::from_mins(1);
    let gated = |rule: &ApprovalRule| refund().approval(rule.clone());
    let error = DeclaredError::new("NOT_PAID", "It is not paid.");
    let of =
        |effect| Capability::builder(REFUND, effect).risk(Risk::High).description("Refunds.").expose([Surface::Direct]);
    let table: Vec<Row<'_, CapabilityBuilder>> = vec![
        ("a surface", refund(), refund().expose([Surface::Mcp]), &["widening expose"], &["narrowing expose"]),
        ("the risk", refund(), refund().risk(Risk::Low), &["widening risk"], &["narrowing risk"]),
        ("the effect", refund(), of(SideEffect::Read), &["widening sideEffect"], &["widening sideEffect"]),
        ("a gate", gated(&person), refund(), &["widening approval"], &["narrowing approval"]),
        ("a quorum", gated(&person.clone().quorum(2)), gated(&person), &["widening approval"], &["narrowing approval"]),
        ("a type", gated(&person), gated(&ApprovalRule::of("peer")), &["review approval"], &["review approval"]),
        (
            "a gate's life",
            gated(&person.clone().expires_in(minute)),
            gated(&person),
            &["widening approval"],
            &["narrowing approval"],
        ),
        ("idempotent", refund(), refund().idempotent(), &["widening idempotent"], &["narrowing idempotent"]),
        (
            "how long keys are kept",
            refund(),
            keys(Idempotency { ttl: Duration::from_hours(1), ..base }),
            &["widening idempotency.ttlUs"],
            &["narrowing idempotency.ttlUs"],
        ),
        (
            "whether outputs are kept",
            keys(Idempotency { store_output: false, ..base }),
            refund(),
            &["widening idempotency.storeOutput"],
            &["narrowing idempotency.storeOutput"],
        ),
        (
            "keys on reads",
            refund(),
            keys(Idempotency { on_reads: true, ..base }),
            &["neutral idempotency.onReads"],
            &["neutral idempotency.onReads"],
        ),
        (
            "redaction",
            refund().redact_output(["/secret"]),
            refund(),
            &["widening redactOutput"],
            &["narrowing redactOutput"],
        ),
        (
            "redaction by a function",
            refund().redact_with(|it| it),
            refund(),
            &["widening redactFunction"],
            &["narrowing redactFunction"],
        ),
        (
            "what approvers see",
            refund().redact_display(["/note"]),
            refund(),
            &["widening redactDisplay"],
            &["review redactDisplay"],
        ),
        (
            "running by itself",
            refund(),
            refund().run_on_approval(),
            &["widening runOnApproval"],
            &["narrowing runOnApproval"],
        ),
        (
            "retries",
            refund().idempotent(),
            refund().idempotent().retries(2),
            &["neutral retries"],
            &["neutral retries"],
        ),
        ("the timeout", refund(), refund().timeout(minute), &["neutral timeoutUs"], &["neutral timeoutUs"]),
        ("tags", refund(), refund().tags(["money"]), &["review tags"], &["review tags"]),
        ("the tool's name", refund(), refund().tool_name("refund"), &["neutral toolName"], &["neutral toolName"]),
        (
            "the description",
            refund(),
            refund().description("More."),
            &["neutral description"],
            &["neutral description"],
        ),
        ("errors", refund(), refund().error(error), &["neutral errors"], &["neutral errors"]),
        ("records", refund(), refund().decision_record(true), &["neutral decisionRecord"], &["neutral decisionRecord"]),
        ("a hook", refund(), refund().reconcile(hook), &["neutral reconcile"], &["neutral reconcile"]),
        (
            "what it is about",
            refund(),
            refund().resource("Order", "/orderId"),
            &["review resource"],
            &["review resource"],
        ),
    ];
    for (name, one, two, there, back) in table {
        assert_changes(name, &app(one), &app(two), there, back);
    }
}

/// An application whose procedure is elsewhere.
fn elsewhere(handler: &str, reconcile: &str) -> EngineBuilder {
    use countersign::manifest::{ManifestSettings, load};

    let directory = tempfile::tempdir().unwrap();
    let common = "id = 'orders.refund'\ndescription = 'Refunds.'\nexpose = ['direct']\nside_effect = 'write'\n\
        risk = 'high'\ninput_schema = { type = 'object', additionalProperties = false, required = ['orderId'], \
        properties = { orderId = { type = 'string' }, note = { type = 'string' } } }\noutput_schema = {}\n";
    let text = format!("{common}[handler]\n{handler}\n{reconcile}\n");
    std::fs::write(directory.path().join("a.toml"), text).unwrap();
    std::fs::create_dir(directory.path().join("shop")).unwrap();
    let settings = ManifestSettings::default().endpoints(["https://app.example"]);
    let settings = settings.guard(env!("CARGO_BIN_EXE_countersign"));
    let env = |_: &str| Some("whsec_Y291bnRlcnNpZ24tdGVzdC1rZXktMDAx".to_owned());
    files(Engine::builder().capabilities(load(directory.path(), &settings, &env).unwrap()), PERMITS)
}

#[test]
fn where_a_procedure_is_was_agreed_to() {
    let http = |path: &str| format!("kind = 'http'\nurl = 'https://app.example/{path}'\nsign = {{ env = 'KEY' }}");
    let asks = |path: &str| format!("[reconcile]\n{}", http(path));
    let command = |more: &str| format!("kind = 'command'\nprogram = '/bin/sh'\n{more}");
    let base = elsewhere(&http("refund"), &asks("became"));
    let procedure: &[&str] = &["review procedure"];
    for (name, one, two) in [
        ("its address", http("refund"), http("other")),
        ("a command in its place", http("refund"), command("")),
        ("the arguments", command("args = ['a', 'b']"), command("args = ['a b']")),
        ("where it runs", command(""), command("cwd = 'shop'")),
    ] {
        assert_changes(name, &elsewhere(&one, ""), &elsewhere(&two, ""), procedure, procedure);
    }
    let other = elsewhere(&http("refund"), &asks("other"));
    assert_changes("who is asked", &base, &other, &["review reconcileProcedure"], &["review reconcileProcedure"]);
    let nobody = elsewhere(&http("refund"), "");
    let somebody = ["review reconcileProcedure", "neutral reconcile"];
    assert_changes("that somebody is", &nobody, &base, &somebody, &["neutral reconcile"]);
    let inside = with(refund().json_handler(input(), json!({}), nothing));
    assert_changes("code of its own", &nobody, &inside, procedure, procedure);
    insta::assert_snapshot!(since(&nobody, &elsewhere(&command("args = ['a']\ncwd = 'shop'"), "")).text(), @r#"
    review: capability `orders.refund`: what runs is `command ["/bin/sh","a"] in "shop"`, was `http https://app.example/refund`
    1 difference: 1 review
    "#);
    let agreed = nobody.governance().unwrap();
    assert_eq!(Governance::parse(&agreed.text()).unwrap(), agreed);
    let old = agreed.text().lines().filter(|it| !it.contains("\"procedure\"")).collect::<Vec<_>>().join("\n");
    assert_eq!(told(&agreed.since(&Governance::parse(&old).unwrap())), procedure, "a snapshot from before");
}

#[test]
fn schemas_are_compared_by_what_they_decide() {
    let capability = |input: Value, output: Value| with(refund().json_handler(input, output, nothing));
    let base = capability(input(), output());
    let mut remarked = input();
    remarked["description"] = "An order.".into();
    assert_changes("a remark", &base, &capability(remarked, output()), &["neutral texts"], &["neutral texts"]);
    let mut wider = input();
    wider["properties"]["more"] = json!({"type": "string"});
    assert_changes("input", &base, &capability(wider, output()), &["review inputSchema"], &["review inputSchema"]);
    let mut other = output();
    other["properties"]["more"] = json!({"type": "string"});
    assert_changes("output", &base, &capability(input(), other), &["review outputSchema"], &["review outputSchema"]);
}

#[test]
fn capabilities_that_come_and_go_have_their_meaning() {
    let more = |surfaces: &[Surface]| {
        let cancel =
            Capability::write("orders.cancel").risk(Risk::Low).description("x").expose(surfaces.iter().copied());
        app(refund()).capability(cancel.json_handler(input(), output(), nothing))
    };
    assert_changes("shown", &app(refund()), &more(&[Surface::Http]), &["widening added"], &["narrowing removed"]);
    assert_changes("staged", &app(refund()), &more(&[]), &["neutral added"], &["narrowing removed"]);
}

/// A policy alone, beside what permits and approves.
fn policies(text: &str) -> EngineBuilder {
    files(app(refund().tags(["money"])), &format!("{PERMITS}{text}"))
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_kind_of_change_of_a_policy_has_its_meaning() {
    let permit = |id: &str, scope: &str, when: &str| format!("@id(\"{id}\") permit ({scope}) {when};");
    let forbid =
        |annotations: &str, scope: &str, when: &str| format!("@id(\"x\") {annotations} forbid ({scope}) {when};");
    let one = "principal, action == Action::\"orders.refund\", resource";
    let support = "principal in Role::\"support\", action == Action::\"orders.refund\", resource";
    let manager = "principal in Role::\"manager\", action == Action::\"orders.refund\", resource";
    let note = "when { context.input has note }";
    let both = "when { context.input has note && context.surface == \"http\" }";
    let turned = "when { context.surface == \"http\" && context.input has note }";
    let other = "when { context.surface == \"mcp\" }";
    let approve = "principal in Role::\"manager\", action == Countersign::Action::\"approve\", resource";
    let decide = "principal in Role::\"manager\", \
        action in [Countersign::Action::\"approve\", Countersign::Action::\"reject\"], resource";
    let tagged = "principal, action in Action::\"tag/money\", resource";
    let all = "principal, action, resource";
    let gate = "@approval(\"manager\")";
    let table: Vec<Row<'_, String>> = vec![
        ("a permit", String::new(), permit("x", one, note), &["widening added"], &["narrowing removed"]),
        ("a forbid", forbid("", one, note), String::new(), &["widening removed"], &["narrowing added"]),
        ("a hide", forbid("@hide", one, ""), String::new(), &["widening removed"], &["narrowing added"]),
        ("a gate", forbid(gate, one, note), String::new(), &["widening removed"], &["narrowing added"]),
        (
            "a permit's condition",
            permit("x", one, both),
            permit("x", one, note),
            &["widening conditions"],
            &["narrowing conditions"],
        ),
        (
            "a forbid's condition",
            forbid("", one, note),
            forbid("", one, both),
            &["widening conditions"],
            &["narrowing conditions"],
        ),
        (
            "whom a permit is for",
            permit("x", support, note),
            permit("x", one, note),
            &["widening conditions"],
            &["narrowing conditions"],
        ),
        (
            "another role",
            permit("x", support, note),
            permit("x", manager, note),
            &["review conditions"],
            &["review conditions"],
        ),
        (
            "another condition",
            forbid("", one, note),
            forbid("", one, other),
            &["review conditions"],
            &["review conditions"],
        ),
        (
            "less of one and more of another",
            permit("x", support, note),
            permit("x", one, both),
            &["review conditions"],
            &["review conditions"],
        ),
        (
            "a forbid that becomes a gate",
            forbid("", one, note),
            forbid(gate, one, note),
            &["widening effect"],
            &["narrowing effect"],
        ),
        (
            "a hide that becomes a forbid",
            forbid("@hide", one, ""),
            forbid("", one, ""),
            &["widening effect"],
            &["narrowing effect"],
        ),
        (
            "a gate that becomes a permit",
            forbid(gate, one, note),
            permit("x", one, note),
            &["widening effect"],
            &["narrowing effect"],
        ),
        (
            "a quorum",
            forbid(&format!("{gate} @quorum(\"2\")"), one, ""),
            forbid(gate, one, ""),
            &["widening gate"],
            &["narrowing gate"],
        ),
        (
            "a type of approval",
            forbid(gate, one, ""),
            forbid("@approval(\"peer\")", one, ""),
            &["review gate"],
            &["review gate"],
        ),
        (
            "a gate's life",
            forbid(gate, one, ""),
            forbid(&format!("{gate} @expires_in(\"7d\")"), one, ""),
            &["widening gate"],
            &["narrowing gate"],
        ),
        (
            "a reason",
            forbid("@reason(\"a\")", one, note),
            forbid("@reason(\"b\")", one, note),
            &["neutral reason"],
            &["neutral reason"],
        ),
        (
            "a reason, and the order of conditions",
            forbid("@reason(\"a\")", one, both),
            forbid("@reason(\"b\")", one, turned),
            &["review digest", "neutral reason"],
            &["review digest", "neutral reason"],
        ),
        (
            "who approves more",
            permit("x", approve, note_free()),
            permit("x", decide, note_free()),
            &["widening action"],
            &["narrowing action"],
        ),
        (
            "the same by another name",
            permit("x", one, note),
            permit("x", tagged, note),
            &["neutral action"],
            &["neutral action"],
        ),
        (
            "everything that is to come",
            permit("x", one, other),
            permit("x", all, other),
            &["widening action"],
            &["narrowing action"],
        ),
    ];
    for (name, before, after, there, back) in table {
        assert_changes(name, &policies(&before), &policies(&after), there, back);
    }
}

/// Management knows no input.
fn note_free() -> &'static str {
    "when { context.surface == \"http\" }"
}

#[test]
fn a_tag_that_takes_a_capability_from_under_its_gate_says_so() {
    let gate =
        format!("{PERMITS} @id(\"x\") @approval(\"m\") forbid (principal, action in Action::\"tag/money\", resource);");
    let two = |builder: CapabilityBuilder| {
        let cancel = Capability::write("orders.cancel").risk(Risk::Low).description("x").tags(["money"]);
        files(app(builder).capability(cancel.json_handler(input(), output(), nothing)), &gate)
    };
    let (one, other) = (two(refund().tags(["money"])), two(refund()));
    let there = ["widening action", "review tags"];
    assert_changes("a tag", &one, &other, &there, &["review tags", "narrowing action"]);
    assert_eq!(since(&one, &other).differences[0].says, "the gate is no longer over `orders.refund`");
}

#[test]
fn other_types_for_policies_are_to_be_reviewed() {
    let typed = |schema: &str| {
        let texts = [("schema.cedarschema", schema), ("a.cedar", PERMITS)];
        let texts = texts.map(|(name, text)| (name.to_owned(), text.to_owned()));
        app(refund().resource("Order", "/orderId")).policies(PolicySource::Files(texts.to_vec()))
    };
    let (one, other) = (typed("entity Order;"), typed("entity Order = { \"total\"?: Long };"));
    assert_changes("types", &one, &other, &["review policySchema"], &["review policySchema"]);
}

#[test]
fn layout_files_and_order_are_no_drift() {
    let cancel = || {
        let it =
            Capability::read("orders.cancel").risk(Risk::Low).description("x").expose([Surface::Http, Surface::Direct]);
        it.json_handler(input(), output(), nothing)
    };
    let refund = || refund().json_handler(input(), output(), nothing);
    let one = files(Engine::builder().capability(refund()).capability(cancel()), PERMITS);
    let (first, second) = PERMITS.split_once(";\n").unwrap();
    let texts = [("z.cedar", format!("// first\n{};", first.replace("    ", " "))), ("b.cedar", second.to_owned())];
    let texts = texts.into_iter().map(|(name, text)| (name.to_owned(), text));
    let schema = ("schema.cedarschema".to_owned(), "entity Order;".to_owned());
    let other = Engine::builder().capability(cancel()).capability(refund());
    let other = other.policies(PolicySource::Files(texts.chain([schema]).collect()));
    assert_eq!(one.governance().unwrap().text(), other.governance().unwrap().text());
}

#[test]
fn a_snapshot_is_read_as_it_was_written_and_nothing_else_is() {
    let governance = countersign::demo::builder().governance().unwrap();
    let text = governance.text();
    assert_eq!(Governance::parse(&text).unwrap(), governance);
    assert!(governance.since(&governance).is_none());
    let doubled = text.replace("\"id\": \"orders.search\"", "\"id\": \"orders.refund\"");
    for (wrong, why) in [
        (String::new(), "EOF"),
        ("{}".into(), "missing field"),
        (text.replace("governance/v1", "governance/v2"), "its format is not"),
        (text.replace("\"risk\"", "\"rísk\""), "unknown field"),
        (doubled, "`orders.refund` is there twice"),
    ] {
        let error = Governance::parse(&wrong).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn an_application_is_checked_by_one_function() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("governance.snap");
    let (agreed, other) = (app(refund()), app(refund().expose([Surface::Mcp])));
    assert!(matches!(drift::check(&agreed, &path), Err(NotAsAgreed::Unread(..))));
    drift::write(&agreed, &path).unwrap();
    drift::check(&agreed, &path).unwrap();
    let drifted = format!("{:?}", drift::check(&other, &path).unwrap_err());
    let drifted = drifted.replace(&path.display().to_string(), "PATH");
    assert_eq!(
        drifted,
        "governance drifted from `PATH`\nwidening: capability `orders.refund`: it is shown on mcp\n1 difference: 1 widening\n"
    );
    // What runs is what was agreed to, too.
    let running = TestApp::new(agreed, |_| ()).await.unwrap();
    drift::check(&running, &path).unwrap();
    drift::check(running.engine(), &path).unwrap();
    std::fs::write(&path, "{").unwrap();
    assert!(matches!(drift::check(&running, &path), Err(NotAsAgreed::NoSnapshot(..))));
}

#[test]
fn what_widens_comes_first() {
    assert_eq!(Class::ALL.map(Class::as_str), ["widening", "review", "narrowing", "neutral"]);
    let before = app(refund().expose([Surface::Http]));
    let after = app(refund().description("More.").risk(Risk::Critical).expose([Surface::Mcp]));
    insta::assert_snapshot!(since(&before, &after).text(), @r#"
    widening: capability `orders.refund`: it is shown on mcp
    narrowing: capability `orders.refund`: it is no longer shown on http
    narrowing: capability `orders.refund`: its risk was high and is critical
    neutral: capability `orders.refund`: its description is another one
    4 differences: 1 widening, 2 narrowing, 1 neutral
    "#);
}
