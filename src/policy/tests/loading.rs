//! What does not load, and how it is said (R18).

use std::fs;

use crate::capability::ApprovalRule;
use crate::policy::load::load;
use crate::policy::testing::{NOW, approved_by, dana, set, shop, shop_set, show, source};
use crate::policy::{ManageAction, Managed, Management, PolicySource, Severity};

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
    insta::assert_snapshot!(each(&table), @r#"
    error a.cedar:1:39 [a] unrecognized action `Action::"orders.refnd"` -- did you mean `Action::"orders.refund"`?
    error a.cedar:1:39 [b] unrecognized action `Action::"effect/destructve"` -- did you mean `Action::"effect/destructive"`?
    error a.cedar:1:81 [c] attribute `input.amountCent` in context for Action::"orders.refund" not found -- did you mean `amountCents`?
    error a.cedar:1:1 [d] it can never apply, whatever the request -- compare names and types of its scope and conditions with the schema
    error a.cedar:1:81 [d] `context.input has amountCent` is false for every request -- did you mean `amountCents`?
    error a.cedar:1:82 [e] `context.input has resaon` is false for every request -- did you mean `reason`?
    error a.cedar:1:62 [f] there is no capability `no.such` -- `capabilities list` shows all
    error a.cedar:1:79 [g] there is no capability `orders.refnd` -- did you mean `orders.refund`?
    error a.cedar:1:62 [h] the resource of `orders.get` is a `Order`, never a capability -- write `action == Action::"orders.get"`
    error a.cedar:1:1 [i] it can never apply, whatever the request -- compare names and types of its scope and conditions with the schema
    error a.cedar:1:31 [j] unrecognized entity type `Usr` -- did you mean `User`?
    error a.cedar:1:81 [k] the types Long and String are not compatible -- for policy `k`, both operands to a `==` expression must have compatible types. Types must be exactly equal to be compatible
    error a.cedar:1:1 [l] it can never apply, whatever the request -- compare names and types of its scope and conditions with the schema
    error a.cedar:1:81 [m] unable to guarantee safety of access to optional attribute `input.reason` in context for Action::"orders.refund" -- try testing for the attribute's presence with `context.input has reason && ..`
    "#);
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
    insta::assert_snapshot!(show(&problems), @r#"
    error a.cedar:3:3 the policy has no `@id` of 1 to 200 printable bytes -- write `@id("what-it-says")` in front of it
    error a.cedar:3:12 [y] `@aproval` is no annotation -- did you mean `approval`?
    error b.cedar:1:18 '=' is not a valid operator in Cedar -- try using '==' instead
    error b.cedar:2:54 [y] attribute `inpt` in context for Action::"customers.search" not found (and 12 more here) -- did you mean `input`?
    error c.cedar:2:1 [z] the id `z` is also at c.cedar:1 -- ids are unique in the whole set
    error rules.cedar.txt:0:0 it is neither a `.cedar` file nor `schema.cedarschema` nor `tests` nor `invariants` -- rename it, or move it out of the directory
    "#);
    insta::assert_debug_snapshot!(problems[1], @r#"
    PolicyProblem {
        file: "a.cedar",
        line: 3,
        column: 12,
        policy: Some(
            "y",
        ),
        what: "`@aproval` is no annotation",
        help: Some(
            "did you mean `approval`?",
        ),
        excerpt: Some(
            "  @id(\"y\") @aproval(\"m\") forbid (principal, action, resource);",
        ),
        severity: Error,
    }
    "#);
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
    insta::assert_snapshot!(each(&table), @r#"
    error a.cedar:1:46 unexpected end of input
    error a.cedar:1:31 expected a static policy, got a template containing the slot ?principal -- try removing the template slot(s) from this policy
    error a.cedar:1:1 [c] it can never apply, whatever the request -- compare names and types of its scope and conditions with the schema
    error a.cedar:1:54 [c] a character that changes the direction of text -- remove it
    error a.cedar:1:55 a character that changes the direction of text -- remove it
    error a.cedar:1:4 a character that changes the direction of text -- remove it
    error a.cedar:1:73 [f] a character that changes the direction of text -- remove it
    error a.cedar:1:10 duplicate annotation: @id
    error a.cedar:1:117 more than 64 brackets and `if`s are open -- split the policy
    error a.cedar:1:1 [t] the condition is more than 100 levels deep -- use a set and `contains`, or split the policy
    "#);
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
    insta::assert_snapshot!(each(&table), @r#"
    error a.cedar:1:87 [a] `context.input` may not be used here -- a hide may use `principal`, and `surface`, `client`, `tenant` and `now` of `context`
    error a.cedar:1:87 [b] `context has approval` may not be used here -- a hide may use `principal`, and `surface`, `client`, `tenant` and `now` of `context`
    error a.cedar:1:70 [c] `resource` may not be used here -- a hide may use `principal`, and `surface`, `client`, `tenant` and `now` of `context`
    error a.cedar:1:43 [d] a hide names an entity, and none is loaded when it is decided -- name the action, or the resource's type
    error a.cedar:1:35 [e] `action` may not be used here -- a hide may use `principal`, and `surface`, `client`, `tenant` and `now` of `context`
    error a.cedar:1:88 [f] `context` may not be used here -- a hide may use `principal`, and `surface`, `client`, `tenant` and `now` of `context`
    error a.cedar:1:98 [g] `context has approval` may not be used here -- an approval lifts the gate by itself: remove `context.approval`
    error a.cedar:1:96 [h] `context has approval` may not be used here -- an approval lifts the gate by itself: remove `context.approval`
    error a.cedar:1:120 [h] `context.approval` may not be used here -- an approval lifts the gate by itself: remove `context.approval`
    "#);
    set(r#"@id("a") @hide forbid (principal is User, action in Action::"tag/pii", resource is Capability)
        when { context.surface == "mcp" && principal.roles.contains("x") && context.tenant == "t" && context has client
            && context.now > datetime("2020-01-01") };
        @id("b") @hide forbid (principal, action, resource == Capability::"orders.refund");"#);
}

#[test]
fn a_group_without_members_is_a_note() {
    let text = r#"@id("a") forbid (principal, action in [Action::"effect/destructive", Action::"risk/critical"], resource) when { context.surface == "mcp" && context has client };"#;
    insta::assert_snapshot!(problems(text), @r#"
    warning <capability>:0:0 nobody can call `orders.refund`, `orders.get`, `customers.search`: no permit that could hold reaches them -- permit their actions, or leave the capabilities out
    note a.cedar:1:1 [a] no capability is in its groups yet, so it never applies
    "#);
}

#[test]
fn a_condition_on_input_under_any_action_is_one_problem() {
    let text = r#"@id("a") forbid (principal, action, resource) when { context.input.amountCents > 1 };"#;
    insta::assert_snapshot!(problems(text), @r#"error a.cedar:1:54 [a] attribute `input.amountCents` in context for Action::"customers.search" not found (and 11 more here) -- name the actions whose input has it, such as `Action::"orders.refund"`"#);
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
    let shown = each(&[gate, &all, &reject, &finance]);
    let errors: Vec<&str> = shown.lines().filter(|it| it.starts_with("error")).collect();
    insta::assert_snapshot!(errors.join("\n"), @r#"
    error a.cedar:1:1 [g] nobody can give an approval of type `manager` -- permit `Countersign::Action::"approve"` when `context.requirement == "manager"`
    error a.cedar:1:1 [g] nobody can give an approval of type `manager` -- permit `Countersign::Action::"approve"` when `context.requirement == "manager"`
    error a.cedar:1:1 [g] nobody can give an approval of type `manager` -- permit `Countersign::Action::"approve"` when `context.requirement == "manager"`
    error a.cedar:1:1 [g] nobody can give an approval of type `manager` -- permit `Countersign::Action::"approve"` when `context.requirement == "manager"`
    "#);
}

#[test]
fn apr_12_the_capabilitys_own_gate_is_checked_too() {
    let mut all = shop();
    let refund = approved_by(all.remove(0), ApprovalRule::of("manager"));
    all.push(refund);
    let problems = load(&source(""), &all).err().unwrap();
    insta::assert_snapshot!(show(&problems), @r#"
    error <capability>:0:0 [capability:orders.refund:approval] nobody can give an approval of type `manager` -- permit `Countersign::Action::"approve"` when `context.requirement == "manager"`
    warning policies:0:0 there are no policies, so every call is denied -- add a `.cedar` file with a permit
    "#);
}

#[test]
fn directories_load_and_a_missing_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.cedar"), "@id(\"a\") permit (principal, action, resource);").unwrap();
    fs::write(dir.path().join("schema.cedarschema"), "entity Order;").unwrap();
    let (set, notes) = load(&PolicySource::Directory(dir.path().into()), &shop()).unwrap();
    assert_eq!((set.files(), notes.iter().filter(|it| it.severity != Severity::Warning).count()), (1, 0));
    assert!(set.hash().starts_with("sha256:"));
    assert!(set.schema_text().contains("orders.refund"));
    let problems = load(&PolicySource::Directory(dir.path().join("none")), &shop()).err().unwrap();
    assert_eq!(problems.len(), 1);
    fs::write(dir.path().join("schema.cedarschema"), [0xff]).unwrap();
    let problems = load(&PolicySource::Directory(dir.path().into()), &shop()).err().unwrap();
    let files: Vec<&str> = problems.iter().map(|it| &*it.file).collect();
    assert_eq!(files, ["schema.cedarschema"]);
}

#[test]
fn a_permit_for_every_action_does_not_reach_management() {
    let set = set(r#"@id("all") permit (principal, action, resource);"#);
    for action in ManageAction::ALL {
        let managed = Managed::Engine;
        assert_ne!(set.manage(action, &managed, &dana(), NOW), Management::Allow, "{action:?}");
    }
}

#[test]
fn r18_no_file_is_passed_over_because_of_its_name_or_place() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    let policy = |id: &str| format!("@id(\"{id}\") permit (principal, action == Action::\"orders.refund\", resource);");
    put("good.cedar", &policy("good"));
    put("twice.cedar", &format!("\n{}", policy("good")));
    for name in [
        "UPPER.CEDAR",
        "Mixed.Cedar",
        "backup.cedar~",
        "backup.cedar.bak",
        "old.cedar.orig",
        "#auto.cedar#",
        "cedar",
        "rules.cedar ",
    ] {
        put(name, &policy(name));
    }
    put("Schema.cedarschema", "entity Order;");
    put("schema.cedarschema", "entity Order;");
    put("schema.cedarschema.json", "{}");
    put("tests", "a file of this name is none of cases");
    for name in ["nested", "nested.cedar"] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("a.cedar"), policy(name)).unwrap();
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("nowhere", dir.path().join("link.cedar")).unwrap();
        std::os::unix::fs::symlink("good.cedar", dir.path().join("link-to-policies")).unwrap();
    }
    let problems = load(&PolicySource::Directory(dir.path().into()), &shop()).err().unwrap();
    let shown = problems.iter().map(|it| format!("{}:{} {}", it.file, it.line, it.what.replace(" (os error 2)", "")));
    insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"));
}

#[test]
fn r18_conditions_that_never_hold_do_not_load() {
    let refund = r#"(principal is User, action == Action::"orders.refund", resource)"#;
    let table = [
        format!(r#"@id("a") permit {refund} unless {{ true }};"#),
        format!(r#"@id("b") forbid {refund} when {{ false }};"#),
        format!(r#"@id("c") forbid {refund} when {{ context.surface == "x" && false }};"#),
        format!(r#"@id("d") forbid {refund} when {{ principal is Service }};"#),
        format!(r#"@id("e") forbid {refund} when {{ resource is Order }};"#),
        format!(r#"@id("f") forbid {refund} when {{ action == Action::"orders.get" }};"#),
        format!(r#"@id("g") forbid {refund} when {{ action in Action::"effect/read" }};"#),
        format!(r#"@id("h") forbid {refund} when {{ principal == Service::"x" }};"#),
        r#"@id("i") forbid (principal is Role, action, resource);"#.into(),
        r#"@id("j") forbid (principal, action == Action::"orders.get", resource == Capability::"orders.refund");"#
            .into(),
        r#"@id("k") forbid (principal, action == Countersign::Action::"approve", resource is Countersign::Engine);"#
            .into(),
        r#"@id("l") forbid (principal, action, resource is Tenant);"#.into(),
    ];
    let table: Vec<&str> = table.iter().map(|it| &**it).collect();
    let shown = each(&table);
    assert_eq!(shown.lines().filter(|it| it.starts_with("error")).count(), table.len(), "{shown}");
    insta::assert_snapshot!(shown);
}
