//! What a checked set says beyond whether it loads: what was probably meant, and what is probably not.

use std::sync::Arc;

use serde_json::json;

use crate::capability::{Governed, Risk, SideEffect};
use crate::policy::load::load;
use crate::policy::testing::{SHOP_SCHEMA, capability, on_entity, shop, show, staged, tagged};
use crate::policy::{PolicySource, Severity};

fn of(capabilities: &[Arc<Governed>], extension: &str, text: &str) -> String {
    let files = vec![("schema.cedarschema".to_owned(), extension.to_owned()), ("a.cedar".into(), text.into())];
    match load(&PolicySource::Files(files), capabilities) {
        Ok((_, problems)) | Err(problems) => show(&problems),
    }
}

fn each(extension: &str, table: &[&str]) -> String {
    table.iter().map(|it| of(&shop(), extension, it)).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_was_probably_meant_is_offered_for_every_kind_of_name() {
    let extension = format!("{SHOP_SCHEMA}entity Role enum [\"support\", \"manager\"];\n");
    let refund = r#"(principal, action == Action::"orders.refund", resource)"#;
    let table = [
        format!(r#"@id("input") permit {refund} when {{ context.input.amountCent > 1 }};"#),
        format!(r#"@id("has") permit {refund} when {{ context.input has resaon || context.surface == "x" }};"#),
        format!(r#"@id("context") permit {refund} when {{ context.surfce == "mcp" }};"#),
        format!(r#"@id("context-has") permit {refund} when {{ context has cleint || context.surface == "x" }};"#),
        format!(r#"@id("approval") permit {refund} when {{ context has approval && context.approval.typs.contains("x") }};"#),
        r#"@id("capability") permit (principal, action == Action::"orders.refnd", resource);"#.into(),
        r#"@id("literal") permit (principal, action, resource == Capability::"orders.refnd");"#.into(),
        r#"@id("group") permit (principal, action in Action::"effect/destructve", resource);"#.into(),
        r#"@id("prefix") permit (principal, action in Action::"order.*", resource);"#.into(),
        r#"@id("tag") permit (principal, action in Action::"tag/mony", resource);"#.into(),
        r#"@id("role") permit (principal in Role::"suport", action, resource is Capability);"#.into(),
        r#"@id("kind") permit (principal is Usr, action, resource is Capability);"#.into(),
        r#"@id("attribute") permit (principal is User, action, resource is Capability) when { principal.scops.contains("x") };"#.into(),
        r#"@id("attribute-has") permit (principal is User, action, resource is Capability) when { principal has departmet || context.surface == "x" };"#.into(),
        r#"@id("resource") permit (principal, action == Action::"orders.get", resource) when { resource.totl > 1 };"#.into(),
        r#"@id("resource-has") permit (principal, action == Action::"orders.get", resource) when { resource has totl || context.surface == "x" };"#.into(),
        r#"@id("entity") permit (principal, action == Action::"orders.get", resource in Tenat::"x");"#.into(),
        r#"@id("manage") permit (principal, action == Countersign::Action::"aprove", resource);"#.into(),
        r#"@id("manage-group") permit (principal, action in Countersign::Action::"mange", resource);"#.into(),
        r#"@id("requirement") permit (principal, action == Countersign::Action::"approve", resource) when { context.requirment == "m" };"#.into(),
        r#"@id("requester") permit (principal, action == Countersign::Action::"approve", resource) when { resource has requesterUsr || context.surface == "x" };"#.into(),
        r#"@id("annotation") @reson("x") forbid (principal, action, resource is Capability);"#.into(),
        r#"@id("function") permit (principal, action, resource) when { context.now > datetme("2020-01-01") };"#.into(),
        r#"@id("everywhere") forbid (principal, action, resource) when { context.input.amountCents > 1 };"#.into(),
        r#"@id("far") forbid (principal, action, resource) when { context.zzz };"#.into(),
    ];
    let table: Vec<&str> = table.iter().map(|it: &String| &**it).collect();
    let shown = each(&extension, &table);
    let errors: Vec<&str> = shown.lines().filter(|it| it.starts_with("error")).collect();
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn a_policy_about_resuming_does_not_load_because_nothing_asks_it() {
    for text in [
        r#"@id("no") forbid (principal, action == Countersign::Action::"resume", resource);"#,
        r#"@id("no") forbid (principal, action in [Countersign::Action::"withdraw", Countersign::Action::"resume"], resource);"#,
        r#"@id("no") forbid (principal, action, resource) when { action == Countersign::Action::"resume" };"#,
    ] {
        let shown = of(&shop(), SHOP_SCHEMA, text);
        assert!(shown.contains("error") && shown.contains("no policy is asked about `resume`"), "{shown}");
    }
    let others = r#"@id("all") permit (principal, action in Countersign::Action::"manage", resource);"#;
    assert!(!of(&shop(), SHOP_SCHEMA, others).contains("resume"));
}

fn numbers() -> Vec<Arc<Governed>> {
    let number = |bounds: serde_json::Value| {
        let mut all = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        all["properties"]["n"].as_object_mut().unwrap().extend(bounds.as_object().unwrap().clone());
        all
    };
    let make = |id: &str, input| tagged(capability(id, SideEffect::Read, Risk::Low, input), &["sum"]);
    vec![make("a.bounded", number(json!({"minimum": 0, "maximum": 1000}))), make("b.free", number(json!({})))]
}

fn warnings_of_numbers(text: &str) -> String {
    let permit =
        r#"@id("all") permit (principal is User, action in [Action::"a.bounded", Action::"b.free"], resource);"#;
    of(&numbers(), "entity User = { limit?: Long };", &format!("{permit}\n{text}"))
}

#[test]
fn arithmetic_that_can_overflow_is_a_warning_of_every_kind_of_policy() {
    let table = [
        r#"@id("bounded") forbid (principal, action == Action::"a.bounded", resource) when { context.input.n * 2000 > 100 };"#,
        r#"@id("free") forbid (principal, action == Action::"b.free", resource) when { context.input.n * 2000 > 100 };"#,
        r#"@id("both") forbid (principal, action in Action::"tag/sum", resource) when { context.input.n   *   2000 > 100 };"#,
        r#"@id("guarded") forbid (principal, action in Action::"tag/sum", resource) when { context.input.n >= 0 && context.input.n <= 1000000 && context.input.n * 2000 > 100 };"#,
        r#"@id("hide") @hide forbid (principal is User, action, resource) when { principal has limit && principal.limit + 1 > 0 };"#,
        r#"@id("gate") @approval("m") forbid (principal, action == Action::"b.free", resource) when { -context.input.n > 0 };
           @id("m") permit (principal is User, action == Countersign::Action::"approve", resource);"#,
        r#"@id("permit") permit (principal, action == Action::"b.free", resource) when { context.input.n - 1 > 0 };"#,
        r#"@id("manage") permit (principal is User, action == Countersign::Action::"withdraw", resource) when { principal has limit && principal.limit - 1 > 0 };"#,
    ];
    let shown: Vec<String> = table.iter().map(|it| warnings_of_numbers(it)).collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn a_permit_that_every_capability_shares_is_a_warning() {
    let table = [
        r#"@id("a") permit (principal, action, resource);"#,
        r#"@id("b") permit (principal in Role::"support", action in Action::"invoke", resource);"#,
        r#"@id("c") permit (principal, action in [Action::"effect/read", Action::"invoke"], resource);"#,
    ];
    insta::assert_snapshot!(each(SHOP_SCHEMA, &table), @r#"
    warning a.cedar:1:1 [a] it permits every capability, those to come too -- name actions or a group, as in `action in Action::"effect/read"`, or add a condition
    warning a.cedar:1:1 [b] it permits every capability, those to come too -- name actions or a group, as in `action in Action::"effect/read"`, or add a condition
    warning a.cedar:1:1 [c] it permits every capability, those to come too -- name actions or a group, as in `action in Action::"effect/read"`, or add a condition
    "#);
    let others = [
        r#"permit (principal, action, resource) when { context.surface == "direct" };"#,
        r#"permit (principal, action in [Action::"effect/read", Action::"effect/write"], resource);"#,
        r#"permit (principal, action in Countersign::Action::"manage", resource);"#,
        r"forbid (principal, action, resource);",
    ];
    for text in others {
        let shown = of(&shop(), SHOP_SCHEMA, &format!("@id(\"x\") {text}"));
        assert!(!shown.contains("every capability"), "{text}\n{shown}");
    }
}

#[test]
fn a_capability_that_nobody_can_call_is_a_warning() {
    let id = json!({"type": "object", "required": ["orderId"], "properties": {"orderId": {"type": "string"}}});
    let mut all = shop();
    all.push(on_entity(capability("orders.cancel", SideEffect::Write, Risk::Low, id), "Order"));
    all.push(staged(capability("orders.purge", SideEffect::Destructive, Risk::High, json!({}))));
    let table = [
        // by their actions
        r#"@id("a") permit (principal, action == Action::"orders.get", resource);"#,
        // named, and yet never of that type
        r#"@id("b") permit (principal, action in [Action::"orders.get", Action::"orders.refund", Action::"customers.search"], resource is Order);"#,
        r#"@id("c") permit (principal, action in Action::"orders.*", resource) when { context.input has amountCents };
           @id("d") permit (principal, action in Action::"customers.*", resource);"#,
        r#"@id("e") forbid (principal, action == Action::"orders.get", resource);"#,
        r#"@id("f") permit (principal, action in [Action::"orders.*", Action::"customers.*"], resource) when { context.surface == "mcp" };"#,
    ];
    let shown: Vec<String> = table.iter().map(|it| of(&all, SHOP_SCHEMA, it)).collect();
    insta::assert_snapshot!(shown.join("\n--\n"), @r#"
    warning <capability>:0:0 nobody can call `orders.refund`, `customers.search`, `orders.cancel`: no permit that could hold reaches them -- permit their actions, or leave the capabilities out
    note schema:0:0 policies cannot see `/` in the input of `orders.purge`: it has no type -- a policy that refers to it does not load
    --
    warning <capability>:0:0 nobody can call `orders.refund`, `customers.search`, `orders.cancel`: no permit that could hold reaches them -- permit their actions, or leave the capabilities out
    note schema:0:0 policies cannot see `/` in the input of `orders.purge`: it has no type -- a policy that refers to it does not load
    --
    warning <capability>:0:0 nobody can call `orders.get`, `orders.cancel`: no permit that could hold reaches them -- permit their actions, or leave the capabilities out
    note schema:0:0 policies cannot see `/` in the input of `orders.purge`: it has no type -- a policy that refers to it does not load
    --
    warning <capability>:0:0 nobody can call `orders.refund`, `orders.get`, `customers.search`, `orders.cancel`: no permit that could hold reaches them -- permit their actions, or leave the capabilities out
    note schema:0:0 policies cannot see `/` in the input of `orders.purge`: it has no type -- a policy that refers to it does not load
    --
    note schema:0:0 policies cannot see `/` in the input of `orders.purge`: it has no type -- a policy that refers to it does not load
    "#);
    let many: Vec<_> =
        (0..20).map(|n| capability(&format!("c.n{n}"), SideEffect::Read, Risk::Low, json!({}))).collect();
    let shown = of(&many, "", r#"@id("a") forbid (principal, action, resource);"#);
    assert!(shown.contains("`c.n7` and 12 more: "), "{shown}");
}

#[test]
fn texts_are_bounded_whatever_is_written() {
    let long = "x".repeat(500_000);
    let table = [
        format!(r#"@id("a") permit (principal, action == Action::"{long}", resource);"#),
        format!(r#"@id("a") permit (principal, action, resource) when {{ context.{long} }};"#),
        format!(r#"@id("a") permit (principal, action, resource) when {{ "{long}" > 1 }};"#),
        format!(r#"@id("{long}") permit (principal, action, resource);"#),
        format!(r#"@{long}("x") permit (principal, action, resource);"#),
        format!("{long};"),
    ];
    for text in table {
        let files = vec![("a.cedar".to_owned(), text)];
        let problems = load(&PolicySource::Files(files), &shop()).err().unwrap();
        assert!(problems.iter().any(|it| it.severity == Severity::Error));
        assert!(show(&problems).len() < 8_000 * problems.len());
    }
}

#[test]
fn a_policy_among_many_has_the_problems_that_it_has_alone() {
    let scopes = [
        r#"action == Action::"orders.refund", resource"#,
        r#"action == Action::"orders.get", resource"#,
        r#"action in [Action::"orders.*", Action::"customers.search"], resource"#,
        r#"action in Action::"effect/destructive", resource"#,
        r#"action == Action::"orders.refnd", resource"#,
        r#"action == Countersign::Action::"approve", resource"#,
        r#"action in Countersign::Action::"manage", resource is Order"#,
        "action, resource",
    ];
    let conditions = [
        "context.input.amountCents > 1",
        "context.input.amountCent > 1",
        r#"(context.input has resaon) || context.surface == "x""#,
        r#"context.input.reason == "x""#,
        "context.surface == 1",
        r#"context.requirement == "m""#,
        r#"action in Action::"effect/write""#,
        r#"action == Action::"orders.search""#,
        r#"resource == Capability::"orders.get""#,
        "resource has total && resource.total > 1",
        r"principal is Usr",
        r#"principal in Role::"x""#,
        r#"principal has department && principal.department == "x""#,
    ];
    let policy = |at: usize| {
        let (scope, condition) = (scopes[at / conditions.len()], conditions[at % conditions.len()]);
        format!("@id(\"p{at:03}\") forbid (principal, {scope}) when {{ {condition} }};\n")
    };
    let count = scopes.len() * conditions.len();
    let errors = |text: String| -> Vec<String> {
        let shown = of(&shop(), SHOP_SCHEMA, &text);
        let errors = shown.lines().filter(|it| it.starts_with("error ") || it.starts_with("note "));
        // the lines differ, of course
        errors.map(|it| it.split_once(" [").map_or(it, |it| it.1).to_owned()).collect()
    };
    let alone: Vec<String> = (0..count).flat_map(|at| errors(policy(at))).collect();
    assert!(alone.len() > count / 2);
    assert_eq!(errors((0..count).map(policy).collect()), alone);
}
