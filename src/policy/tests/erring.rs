//! R15: whatever way an expression errs while it is evaluated, in whatever kind of policy, the call fails; and what can be
//! known before does not load.

use serde_json::json;

use crate::actor::{Actor, Identity};
use crate::audit::PolicyError;
use crate::policy::testing::{NOW, case, set, shop, shop_set, show};
use crate::policy::{Decision, Visibility};

const PERMIT: &str = r#"@id("z-permit") permit (principal, action, resource);
@id("z-approve") permit (principal, action == Countersign::Action::"approve", resource);"#;

/// Conditions that err for the caller and the input of [`outcome`], and how an error of each is called.
const ERRING: [&str; 10] = [
    "context.input.amountCents + 1 > 0",
    "-2 - context.input.amountCents > 0",
    "context.input.amountCents * 2 > 0",
    "-(-2 - (context.input.amountCents - 1)) - 1 > 0 && -1 - context.input.amountCents - 1 > 0",
    r"principal has limit && principal.limit * principal.limit > 0",
    r"[1, context.input.amountCents + 1].contains(1)",
    r"(if context.input.amountCents + 1 > 0 then true else true)",
    r#"context.now.offset(duration("9223372036854775807ms")) > context.now"#,
    r"{total: context.input.amountCents * 3}.total > 0",
    r"!(context.input.amountCents + 1 > 0)",
];

fn outcome(policy: &str) -> String {
    let set = set(&format!("{PERMIT}\n{policy}"));
    let identity = Identity::new(Actor::user("dana").attribute("limit", i64::MAX));
    let (all, input) = (shop(), json!({"orderId": "1", "amountCents": i64::MAX}));
    let refund = all.iter().find(|it| &*it.id == "orders.refund").unwrap();
    let principal = set.principal(&identity).unwrap();
    let errors = match set.visibility(&principal, &identity, NOW, refund) {
        Visibility::Failed(errors) => errors,
        Visibility::Visible => match set.decide(&principal, &case(&identity, refund, &input, None)) {
            Decision::Failed(errors) => errors,
            other => return format!("{other:?}"),
        },
        Visibility::Hidden(_) => return "hidden".into(),
    };
    errors.iter().map(|PolicyError { policy, kind }| format!("{policy}: {kind}")).collect::<Vec<_>>().join(", ")
}

#[test]
fn r15_every_error_of_every_kind_of_policy_fails_the_call() {
    let mut lines = Vec::new();
    for condition in ERRING {
        let kinds = ["permit", "forbid", "@approval(\"m\") forbid"];
        let of = |kind: &str| {
            let (annotation, effect) = kind.rsplit_once(' ').unwrap_or(("", kind));
            outcome(&format!(
                "@id(\"err\") {annotation} {effect} (principal is User, action == Action::\"orders.refund\", resource) when {{ {condition} }};"
            ))
        };
        let outcomes = kinds.map(of);
        assert!(outcomes.iter().all(|it| *it == outcomes[0]), "{condition}: {outcomes:?}");
        lines.push(format!("{condition} => {}", outcomes[0]));
    }
    for condition in ["principal has limit && principal.limit + 1 > 0", ERRING[7]] {
        let hide = format!("@id(\"err\") @hide forbid (principal is User, action, resource) when {{ {condition} }};");
        lines.push(format!("hide: {condition} => {}", outcome(&hide)));
    }
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn r15_what_can_be_known_before_does_not_load() {
    let table = [
        r"ip(context.input.orderId).isLoopback()",
        r#"decimal(context.input.orderId).lessThan(decimal("1.0"))"#,
        r"datetime(context.input.orderId) > context.now",
        r#"duration(context.input.orderId) > duration("1h")"#,
        r#"ip("999.1.1.1").isLoopback()"#,
        r#"decimal("1.23456").lessThan(decimal("1.0"))"#,
        r#"datetime("2020-13-01") > context.now"#,
        r#"duration("1 hour") > duration("1h")"#,
        r#"context.input.amountCents == "1""#,
        r"context.input.orderId > 1",
        r"context.input.orderId && true",
        r"context.input.missing > 1",
        r#"context.input.reason like "x*""#,
        r#"context.client == "x""#,
        r"principal.limit > 1",
        r"principal.roles.contains(1)",
        r#"principal.getTag("x") == 1"#,
        r"[].contains(1)",
        r#"[1, "a"].contains(1)"#,
        r"1 in principal",
        r"nonsense(1)",
    ];
    let of = |condition: &&str| {
        let text = format!(
            "@id(\"x\") forbid (principal is User, action == Action::\"orders.refund\", resource) when {{ {condition} }};"
        );
        let problems = shop_set(&text).err().unwrap_or_else(|| panic!("{condition} loads"));
        show(&problems)
    };
    insta::assert_snapshot!(table.iter().map(of).collect::<Vec<_>>().join("\n"));
}
