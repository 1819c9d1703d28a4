//! What a listing shows, and what is refused whatever the input.

use crate::actor::{Actor, Identity, Surface};
use crate::capability::RequiresApproval;
use crate::policy::testing::{NOW, dana, set, shop};
use crate::policy::{Decision, Listed, PolicySet};

fn of(set: &PolicySet, identity: &Identity, id: &str) -> (Listed, Option<Decision>) {
    let all = shop();
    let governed = all.iter().find(|it| &*it.id == id).unwrap();
    let principal = set.principal(identity).unwrap();
    let refusal = set.refuses_whatever(&principal, identity, NOW, governed);
    (set.list(&principal, identity, NOW, governed), refusal)
}

fn listed(text: &str, id: &str) -> Listed {
    let text = format!("{text} @id(\"z\") permit (principal, action == Countersign::Action::\"approve\", resource);");
    of(&set(&text), &dana(), id).0
}

const ALWAYS: Listed = Listed::Yes(RequiresApproval::Always);
const SOMETIMES: Listed = Listed::Yes(RequiresApproval::Sometimes);
const NEVER: Listed = Listed::Yes(RequiresApproval::Never);

#[test]
fn what_some_input_could_get_allowed_is_listed() {
    let refund = |text: &str| listed(text, "orders.refund");
    let permit = |condition: &str| {
        format!(r#"@id("p") permit (principal, action == Action::"orders.refund", resource) {condition};"#)
    };
    let with = |more: &str| format!("{} {more}", permit(""));
    assert_eq!(refund(""), Listed::No);
    assert_eq!(refund(&permit("")), NEVER);
    assert_eq!(refund(&permit("when { context.input.amountCents < 0 }")), NEVER);
    assert_eq!(refund(&permit("when { context.surface == \"mcp\" }")), Listed::No);
    assert_eq!(refund(&permit("when { context.input.amountCents < 5 && context.surface == \"mcp\" }")), Listed::No);
    let forbid = |annotation: &str, condition: &str| {
        with(&format!(
            r#"@id("f") {annotation} forbid (principal, action == Action::"orders.refund", resource) {condition};"#
        ))
    };
    let big = "when { context.input.amountCents > 5 }";
    assert_eq!(refund(&forbid("", big)), NEVER);
    assert_eq!(refund(&forbid("", "")), Listed::No);
    assert_eq!(refund(&forbid("", "unless { context has approval }")), NEVER);
    assert_eq!(refund(&forbid("@approval(\"m\")", big)), SOMETIMES);
    assert_eq!(refund(&forbid("@approval(\"m\")", "")), ALWAYS);
    assert_eq!(refund(&forbid("@approval(\"m\")", "when { context.surface == \"mcp\" }")), NEVER);
    assert_eq!(refund(&forbid("@hide", "")), Listed::No);
    assert_eq!(refund(&forbid("@hide", "when { context.surface == \"mcp\" }")), NEVER);
}

#[test]
fn an_applications_entity_is_unknown_too() {
    let get = |text: &str| listed(text, "orders.get");
    assert_eq!(get(r#"@id("p") permit (principal, action, resource == Order::"1");"#), NEVER);
    assert_eq!(get(r#"@id("p") permit (principal, action, resource in Tenant::"1");"#), NEVER);
    assert_eq!(get(r#"@id("p") permit (principal, action, resource is Order) when { resource.total > 1 };"#), NEVER);
    assert_eq!(get(r#"@id("p") permit (principal, action, resource is Capability);"#), Listed::No);
    let permit = r#"@id("p") permit (principal, action, resource);"#;
    assert_eq!(get(&format!(r#"{permit} @id("f") forbid (principal, action, resource == Order::"1");"#)), NEVER);
    assert_eq!(get(&format!(r#"{permit} @id("f") forbid (principal, action, resource is Order);"#)), Listed::No);
}

#[test]
fn stage_6_gets_the_refusal_that_holds_for_every_input() {
    let set = set(
        r#"@id("p") permit (principal, action == Action::"orders.refund", resource) when { context.input.amountCents < 5 };
        @id("f") @reason("Not here.") forbid (principal, action in Action::"invoke", resource) when { context.surface == "mcp" };
        @id("e") forbid (principal is User, action == Action::"orders.refund", resource) when { principal has limit && principal.limit + 1 < 0 };"#,
    );
    assert_eq!(of(&set, &dana(), "orders.refund").1, None);
    let nothing = Some(Decision::Deny { reason: None, policies: Vec::new() });
    assert_eq!(of(&set, &dana(), "customers.search").1, nothing);
    let Some(Decision::Deny { reason, policies }) = of(&set, &dana().on(Surface::Mcp), "orders.refund").1 else {
        panic!()
    };
    assert_eq!((reason.as_deref(), policies[0].id.as_str()), (Some("Not here."), "f"));
    let broken = Identity::new(Actor::user("a").attribute("limit", i64::MAX));
    let (listed, refusal) = of(&set, &broken, "orders.refund");
    assert_eq!(listed, Listed::No);
    assert!(matches!(refusal, Some(Decision::Failed(errors)) if errors[0].policy == "e"));
}

#[test]
fn a_principal_that_is_used_for_another_surface_sees_that_surface() {
    let set =
        set(r#"@id("p") permit (principal, action in Action::"invoke", resource) when { context.surface == "mcp" };"#);
    let all = shop();
    let principal = set.principal(&dana()).unwrap();
    assert_eq!(set.list(&principal, &dana(), NOW, &all[0]), Listed::No);
    assert_eq!(set.list(&principal, &dana().on(Surface::Mcp), NOW, &all[0]), NEVER);
}
