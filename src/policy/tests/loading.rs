//! What does not load, and how it is said (R18).

use std::fs;

use crate::capability::ApprovalRule;
use crate::policy::PolicySource;
use crate::policy::load::load;
use crate::policy::testing::{approved_by, set, shop, shop_set, show, source};

fn problems(text: &str) -> String {
    match shop_set(text) {
        Ok((_, notes)) => show(&notes),
        Err(problems) => show(&problems),
    }
}

fn each(table: &[&str]) -> String {
    table.iter().map(|it| problems(it)).collect::<Vec<_>>().join("\n")
}

#[test]
fn r18_a_rule_that_can_never_match_does_not_load() {
    let table = [
        r#"@id("a") forbid (principal, action == Action::"orders.refnd", resource);"#,
        r#"@id("b") forbid (principal, action in Action::"effect/destructve", resource);"#,
        r#"@id("c") forbid (principal, action == Action::"orders.refund", resource) when { context.input.amountCent > 1 };"#,
        r#"@id("d") forbid (principal, action == Action::"orders.refund", resource) when { context.input has amountCent && context.input.amountCent > 1 };"#,
        r#"@id("e") forbid (principal, action == Action::"orders.refund", resource) when { (context.input has resaon) || context.surface == "mcp" };"#,
        r#"@id("f") forbid (principal, action, resource == Capability::"no.such");"#,
        r#"@id("g") forbid (principal, action, resource) when { resource == Capability::"orders.refnd" };"#,
        r#"@id("h") forbid (principal, action, resource == Capability::"orders.get");"#,
        r#"@id("i") forbid (principal, action == Action::"orders.refund", resource is Order);"#,
        r#"@id("j") forbid (principal is Usr, action, resource);"#,
        r#"@id("k") forbid (principal, action == Action::"orders.refund", resource) when { context.surface == 1 };"#,
        r#"@id("l") forbid (principal, action == Action::"effect/write", resource);"#,
        r#"@id("m") forbid (principal, action == Action::"orders.refund", resource) when { context.input.reason == "x" };"#,
    ];
    insta::assert_snapshot!(each(&table), @"");
}

#[test]
fn r18_all_problems_of_all_files_are_reported_at_once() {
    let files = [
        (
            "b.cedar",
            "@id(\"x\") permit (principal = User::\"a\", action, resource);\n@id(\"y\") permit (principal, action, resource) when { context.inpt };",
        ),
        (
            "a.cedar",
            "permit (principal, action, resource);\n\n  @id(\"y\") @aproval(\"m\") forbid (principal, action, resource);",
        ),
        (
            "c.cedar",
            "@id(\"z\") permit (principal, action, resource);\n@id(\"z\") permit (principal, action, resource);",
        ),
        ("rules.cedar.txt", ""),
        ("schema.cedarschema", "entity Order;"),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
    let problems = load(&PolicySource::Files(files), &shop()).err().unwrap();
    insta::assert_snapshot!(show(&problems), @"");
    insta::assert_debug_snapshot!(problems[1], @"");
}

#[test]
fn syntax_errors_templates_and_excess_have_places() {
    let deep = format!(
        "@id(\"d\") permit (principal, action, resource) when {{ {}true{} }};",
        "(".repeat(100_000),
        ")".repeat(100_000)
    );
    let tall = format!(
        "@id(\"t\") permit (principal, action, resource) when {{ true{} }};",
        " && context.surface == \"x\"".repeat(120)
    );
    let table = [
        "@id(\"a\") permit (principal, action, resource)",
        "@id(\"b\") permit (principal == ?principal, action, resource);",
        "@id(\"c\") permit (principal, action, resource) when { \"\u{202e}\" == \"x\" };",
        "// \u{2066}\n@id(\"e\") permit (principal, action, resource);",
        "@id(\"f\") permit (principal, action, resource) when { context.surface == \"\\u{202e}\" };",
        "@id(\"g\") @id(\"h\") permit (principal, action, resource);",
        &deep,
        &tall,
    ];
    insta::assert_snapshot!(each(&table), @"");
}

#[test]
fn what_hides_and_gates_may_not_look_at() {
    let table = [
        r#"@id("a") @hide forbid (principal, action == Action::"orders.refund", resource) when { context.input.amountCents > 1 };"#,
        r#"@id("b") @hide forbid (principal, action == Action::"orders.refund", resource) when { context has approval };"#,
        r#"@id("c") @hide forbid (principal, action == Action::"orders.refund", resource) when { resource.risk == "high" };"#,
        r#"@id("d") @hide forbid (principal, action, resource == Order::"1");"#,
        r#"@id("e") @hide forbid (principal, action in Action::"invoke", resource) when { action in Action::"tag/pii" };"#,
        r#"@id("f") @hide forbid (principal, action == Action::"orders.refund", resource) when { [context].contains(context) };"#,
        r#"@id("g") @approval("m") forbid (principal, action == Action::"orders.refund", resource) unless { context has approval };"#,
        r#"@id("h") @approval("m") forbid (principal, action == Action::"orders.refund", resource) when { context has approval && context.approval.id == "x" };"#,
    ];
    insta::assert_snapshot!(each(&table), @"");
    set(r#"@id("a") @hide forbid (principal is User, action in Action::"tag/pii", resource is Capability)
        when { context.surface == "mcp" && principal.roles.contains("x") && context.tenant == "t" && context has client
            && context.now > datetime("2020-01-01") };
        @id("b") @hide forbid (principal, action, resource == Capability::"orders.refund");"#);
}

#[test]
fn a_group_without_members_is_a_note() {
    let text = r#"@id("a") forbid (principal, action in [Action::"effect/destructive", Action::"risk/critical"], resource) when { context.surface == "mcp" && context has client };"#;
    insta::assert_snapshot!(problems(text), @"");
}

#[test]
fn a_condition_on_input_under_any_action_is_one_problem() {
    let text = r#"@id("a") forbid (principal, action, resource) when { context.input.amountCents > 1 };"#;
    insta::assert_snapshot!(problems(text), @"");
}

#[test]
fn apr_12_an_approval_that_nobody_can_give_does_not_load() {
    let gate = r#"@id("g") @approval("manager") forbid (principal, action == Action::"orders.refund", resource);"#;
    let approve = |condition: &str| {
        format!(
            r#"{gate} @id("p") permit (principal in Role::"manager", action == Countersign::Action::"approve", resource) {condition};"#
        )
    };
    let possible = [
        approve(""),
        approve(r#"when { context.requirement == "manager" }"#),
        approve(r#"when { ["manager", "finance"].contains(context.requirement) && resource.tenant == "x" }"#),
        approve(r#"unless { context.requirement == "finance" || resource.tenant == "x" }"#),
        format!(r#"{gate} @id("p") permit (principal, action in Countersign::Action::"manage", resource);"#),
        // never asked for
        r#"@id("g") @approval("x") forbid (principal, action in Action::"effect/destructive", resource);"#.to_owned(),
    ];
    for text in possible {
        assert!(shop_set(&text).is_ok(), "{text}\n{}", problems(&text));
    }
    let all = format!(r#"{gate} @id("p") permit (principal, action, resource);"#);
    let reject = approve("").replace("\"approve\"", "\"reject\"");
    let finance = approve(r#"when { context.requirement == "finance" }"#);
    insta::assert_snapshot!(each(&[gate, &all, &reject, &finance]), @"");
}

#[test]
fn apr_12_the_capabilitys_own_gate_is_checked_too() {
    let mut all = shop();
    let refund = approved_by(all.remove(0), ApprovalRule::of("manager"));
    all.push(refund);
    let problems = load(&source(""), &all).err().unwrap();
    insta::assert_snapshot!(show(&problems), @"");
}

#[test]
fn directories_load_and_a_missing_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.cedar"), "@id(\"a\") permit (principal, action, resource);").unwrap();
    fs::write(dir.path().join("schema.cedarschema"), "entity Order;").unwrap();
    let (set, notes) = load(&PolicySource::Directory(dir.path().into()), &shop()).unwrap();
    assert_eq!((set.files(), show(&notes)), (1, String::new()));
    assert!(set.hash().starts_with("sha256:"));
    assert!(set.schema_text().contains("orders.refund"));
    let problems = load(&PolicySource::Directory(dir.path().join("none")), &shop()).err().unwrap();
    assert_eq!(problems.len(), 1);
    fs::write(dir.path().join("schema.cedarschema"), [0xff]).unwrap();
    let problems = load(&PolicySource::Directory(dir.path().into()), &shop()).err().unwrap();
    assert!(problems.iter().all(|it| it.file == "schema.cedarschema" || it.file == "<capability>"));
}

#[test]
fn a_permit_for_every_action_does_not_reach_management() {
    use crate::policy::testing::{NOW, dana};
    use crate::policy::{ManageAction, Managed, Management};
    let set = set(r#"@id("all") permit (principal, action, resource);"#);
    for action in ManageAction::ALL {
        let managed = Managed::Engine;
        assert_ne!(set.manage(action, &managed, &dana(), NOW), Management::Allow, "{action:?}");
    }
}
