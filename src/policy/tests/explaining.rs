//! Why a policy holds or not, part by part.

use serde_json::{Value, json};

use crate::actor::{Actor, Identity, Surface};
use crate::policy::testing::{NOW, case, dana, set, shop};
use crate::policy::{Holds, Part, PolicySet, Told};

fn line(it: &Part) -> String {
    let holds = match &it.holds {
        Holds::Yes => "yes".to_owned(),
        Holds::No => "no".to_owned(),
        Holds::Failed(kind) => format!("error {kind}"),
        Holds::Unknown => "unknown".to_owned(),
        Holds::NotReached => "-".to_owned(),
    };
    let word = if matches!(&*it.of, "when" | "unless") { format!("{} ", it.of) } else { String::new() };
    format!("{holds}: {word}{}", it.text)
}

fn parts(policy: &str, identity: &Identity, input: Option<&Value>) -> String {
    let set = set(&format!("@id(\"p\") {policy}"));
    let told = inquired(&set, identity, input, |it| it.explain("p").unwrap());
    told.parts.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn inquired<T>(
    set: &PolicySet,
    identity: &Identity,
    input: Option<&Value>,
    ask: impl Fn(&crate::policy::Inquiry<'_>) -> T,
) -> T {
    let principal = set.principal(identity).unwrap();
    let all = shop();
    let inquiry = match input {
        Some(input) => set.inquire(&principal, &case(identity, &all[0], input, None)),
        None => set.inquire_early(&principal, identity, NOW, &all[0]),
    };
    ask(&inquiry.ok().unwrap())
}

/// Their ids, and how many more there are.
fn nearest(set: &PolicySet, identity: &Identity, input: &Value) -> (Vec<String>, usize) {
    inquired(set, identity, Some(input), |it| {
        let nearest = it.nearest();
        (nearest.permits.into_iter().map(|it| it.id).collect(), nearest.more)
    })
}

const SEVERAL: &str = r#"permit (principal in Role::"support", action in Action::"tag/money", resource)
    when { context.input.amountCents > 1 && (context.input.amountCents < 9 || context.surface == "mcp") && principal is User }
    unless { context.input has reason || context.input.amountCents == 7 }
    when { context has client };"#;

#[test]
fn conditions_are_told_one_by_one_up_to_the_first_that_fails() {
    let input = |cents: i64| json!({"orderId": "1", "amountCents": cents});
    insta::assert_snapshot!(parts(SEVERAL, &dana(), Some(&input(5))), @r#"
    yes: principal in Role::"support"
    yes: action in [Action::"tag/money"]
    yes: resource
    yes: when context.input.amountCents > 1
    yes: when (context.input.amountCents < 9) || (context.surface == "mcp")
    yes: when principal is User
    yes: unless context.input has reason
    yes: unless context.input.amountCents == 7
    no: when context has client
    "#);
    insta::assert_snapshot!(parts(SEVERAL, &dana(), Some(&input(7))), @r#"
    yes: principal in Role::"support"
    yes: action in [Action::"tag/money"]
    yes: resource
    yes: when context.input.amountCents > 1
    yes: when (context.input.amountCents < 9) || (context.surface == "mcp")
    yes: when principal is User
    yes: unless context.input has reason
    no: unless context.input.amountCents == 7
    -: when context has client
    "#);
}

#[test]
fn all_of_a_scope_is_told_and_nothing_behind_it() {
    let policy = r#"permit (principal in Role::"manager", action == Action::"customers.search", resource)
        when { context.surface == "mcp" };"#;
    insta::assert_snapshot!(parts(policy, &dana(), Some(&json!({"orderId": "1", "amountCents": 1}))), @r#"
    no: principal in Role::"manager"
    no: action == Action::"customers.search"
    yes: resource
    -: when context.surface == "mcp"
    "#);
}

#[test]
fn an_error_is_told_by_its_kind_and_ends_the_telling() {
    let policy = r#"forbid (principal, action == Action::"orders.refund", resource)
        when { context.input has a && context.input.a * 2000 > 1 && context.input.amountCents > 1 };"#;
    let input = |a: i64| json!({"orderId": "1", "amountCents": 2, "a": a});
    insta::assert_snapshot!(parts(policy, &dana(), Some(&input(9_007_199_254_740_991))), @r#"
    yes: principal
    yes: action == Action::"orders.refund"
    yes: resource
    yes: when context.input has a
    error integer_overflow: when (context.input.a * 2000) > 1
    -: when context.input.amountCents > 1
    "#);
    // The guard is what keeps it from erring: Cedar never gets to the second part.
    let without = parts(policy, &dana(), Some(&json!({"orderId": "1", "amountCents": 2})));
    assert!(without.contains("no: when context.input has a\n-: when"), "{without}");
}

#[test]
fn without_input_what_depends_on_it_is_unknown_and_invents_no_error() {
    let policy = r#"permit (principal is User, action == Action::"orders.refund", resource)
        when { context.input.amountCents > 1 && principal.limit > 1 && context.surface == "mcp" };"#;
    let policy = policy.replace("principal.limit > 1", "principal has limit && principal.limit + 1 > 1");
    let identity = Identity::new(Actor::user("dana").attribute("limit", i64::MAX));
    insta::assert_snapshot!(parts(&policy, &identity.clone().on(Surface::Http), None), @r#"
    yes: principal is User
    yes: action == Action::"orders.refund"
    yes: resource
    unknown: when context.input.amountCents > 1
    yes: when principal has limit
    unknown: when (principal.limit + 1) > 1
    no: when context.surface == "mcp"
    "#);
}

#[test]
fn the_permits_that_came_nearest_come_first() {
    let set = set(r#"
        @id("c-amount") permit (principal, action == Action::"orders.refund", resource) when { context.input.amountCents < 5 };
        @id("a-role") permit (principal in Role::"manager", action == Action::"orders.refund", resource);
        @id("b-both") permit (principal in Role::"manager", action == Action::"orders.refund", resource) when { context.surface == "mcp" };
        @id("d-late") permit (principal, action in Action::"orders.*", resource)
            when { context.surface == "http" } when { context has client };
        @id("e-other") permit (principal, action == Action::"customers.search", resource);
        @id("f-manage") permit (principal, action == Countersign::Action::"read_audit", resource);"#);
    let input = json!({"orderId": "1", "amountCents": 9});
    let nearest = nearest(&set, &dana().on(Surface::Direct), &input);
    assert_eq!(nearest, (vec!["c-amount".into(), "d-late".into(), "a-role".into()], 1));
}

#[test]
fn if_no_permit_is_for_the_capability_those_for_such_people_are_told() {
    let set = set(r#"
        @id("mine") permit (principal in Role::"support", action == Action::"customers.search", resource);
        @id("theirs") permit (principal in Role::"manager", action == Action::"customers.search", resource);"#);
    let input = json!({"orderId": "1", "amountCents": 9});
    assert_eq!(nearest(&set, &dana(), &input), (vec!["mine".into()], 0));
}

#[test]
fn who_approves_is_told_by_the_policies_that_may_hold() {
    let set = set(r#"
        @id("managers") permit (principal in Role::"manager", action == Countersign::Action::"approve", resource)
            when { context.requirement == "manager" };
        @id("finance") permit (principal, action == Countersign::Action::"approve", resource)
            when { context.requirement == "finance" && resource.risk == "low" };
        @id("never-services") forbid (principal is Service, action in Countersign::Action::"manage", resource);
        @id("calls") permit (principal, action == Action::"orders.refund", resource);"#);
    let ids = |kind: &str| set.approving(kind).into_iter().map(|it: Told| it.id).collect::<Vec<_>>();
    assert_eq!(ids("manager"), ["managers", "never-services"]);
    assert_eq!(ids("finance"), ["finance", "never-services"]);
    assert_eq!(ids("other"), ["never-services"]);
}

#[test]
fn a_policy_is_told_as_it_is_written() {
    let set = set(
        "\n\n@id(\"p\") @reason(\"No.\")\nforbid (principal, action, resource) // all of it\n  unless { context has client };",
    );
    let told = set.told("p").unwrap();
    assert_eq!((told.place.to_string().as_str(), told.effect.as_str()), ("a.cedar:3", "forbid"));
    assert!(told.source.contains("// all of it\n  unless { context has client };"), "{}", told.source);
    assert_eq!(set.told("q"), None);
}
