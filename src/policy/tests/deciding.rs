//! The five steps, one rule a test.

use std::time::Duration;

use serde_json::{Value, json};

use crate::actor::{Actor, Identity, Surface};
use crate::audit::{PolicyError, PolicyRef, Requirement};
use crate::capability::ApprovalRule;
use crate::clock::Timestamp;
use crate::policy::load::load;
use crate::policy::testing::{NOW, approved_by, case, dana, set, shop, shop_set, source};
use crate::policy::{Case, Covers, Decision, Gates, PolicySet, Visibility};

const APPROVERS: &str = r#"@id("z-approve") permit (principal, action == Countersign::Action::"approve", resource);"#;

const PERMIT: &str = r#"@id("all") permit (principal, action, resource);"#;

const SHOP: &str = r#"
@id("permit-support") permit (principal in Role::"support", action == Action::"orders.refund", resource);
@id("permit-orders") permit (principal, action in Action::"orders.*", resource) when { principal.roles.contains("support") };
@id("gate-big") @approval("manager") @expires_in("1h") @reason("Big.")
forbid (principal, action == Action::"orders.refund", resource) when { context.input.amountCents > 50000 };
@id("gate-bigger") @approval("manager") @quorum("2") @expires_in("30m") @reason("Bigger.")
forbid (principal, action in Action::"tag/money", resource) when { context.input.amountCents > 100000 };
@id("gate-mcp") @approval("finance") @reason("Big.")
forbid (principal, action in Action::"risk/high", resource) when { context.surface == "mcp" };
@id("deny-huge") @reason("Too much.")
forbid (principal, action == Action::"orders.refund", resource) when { context.input.amountCents >= 500000 };
@id("hide-workflow") @hide
forbid (principal, action in Action::"effect/write", resource) when { context.surface == "workflow" };
"#;

fn shop_policies() -> PolicySet {
    set(&format!("{SHOP}{APPROVERS}"))
}

fn decide_as(set: &PolicySet, identity: &Identity, id: &str, input: &Value, covers: Option<&Covers>) -> Decision {
    let all = shop();
    let governed = all.iter().find(|it| &*it.id == id).unwrap();
    let principal = set.principal(identity).unwrap();
    set.decide(&principal, &case(identity, governed, input, covers))
}

fn refund(set: &PolicySet, identity: &Identity, cents: i64, covers: Option<&Covers>) -> Decision {
    decide_as(set, identity, "orders.refund", &json!({"orderId": "1", "amountCents": cents}), covers)
}

fn covers<const N: usize>(types: [(&str, u32); N]) -> Covers {
    let types = types.map(|(kind, people)| (kind.to_owned(), people)).into();
    Covers { id: "apr_1".into(), types, decided_at: NOW }
}

fn refs<const N: usize>(all: [(&str, &str); N]) -> Vec<PolicyRef> {
    all.map(|(id, effect)| PolicyRef { id: id.into(), effect: effect.into() }).into()
}

fn requirement(kind: &str, quorum: u32) -> Requirement {
    Requirement { kind: kind.into(), quorum }
}

#[test]
fn a_permit_alone_allows_and_both_permits_are_named() {
    let policies = refs([("permit-orders", "permit"), ("permit-support", "permit")]);
    assert_eq!(refund(&shop_policies(), &dana(), 100, None), Decision::Allow { policies });
}

#[test]
fn without_a_permit_it_is_denied_and_a_gate_is_not_mentioned() {
    let guest = Identity::new(Actor::user("guest")).on(Surface::Mcp);
    let denied = Decision::Deny { reason: None, policies: Vec::new() };
    assert_eq!(refund(&shop_policies(), &guest, 60_000, None), denied);
    assert_eq!(refund(&shop_policies(), &guest, 60_000, Some(&covers([("manager", 9), ("finance", 9)]))), denied);
}

#[test]
fn gates_are_one_request_with_all_types_the_largest_quorum_and_the_shortest_life() {
    let gates = Gates {
        requirements: vec![requirement("finance", 1), requirement("manager", 2)],
        expires_in: Duration::from_mins(30),
        reasons: vec!["Big.".into(), "Bigger.".into()],
        policies: refs([
            ("gate-big", "gate"),
            ("gate-bigger", "gate"),
            ("gate-mcp", "gate"),
            ("permit-orders", "permit"),
            ("permit-support", "permit"),
        ]),
    };
    let decision = refund(&shop_policies(), &dana().on(Surface::Mcp), 200_000, None);
    assert_eq!(decision, Decision::RequireApproval(gates));
}

#[test]
fn a_plain_forbid_beats_gates_and_permits() {
    let denied = Decision::Deny { reason: Some("Too much.".into()), policies: refs([("deny-huge", "forbid")]) };
    assert_eq!(refund(&shop_policies(), &dana().on(Surface::Mcp), 600_000, None), denied);
    assert_eq!(refund(&shop_policies(), &dana(), 600_000, Some(&covers([("manager", 9)]))), denied);
}

#[test]
fn an_approval_lifts_what_it_covers_and_nothing_else() {
    let set = shop_policies();
    let is_allowed = |surface, cents, covers: Covers| {
        matches!(refund(&set, &dana().on(surface), cents, Some(&covers)), Decision::Allow { .. })
    };
    assert!(is_allowed(Surface::Http, 60_000, covers([("manager", 1)])));
    assert!(!is_allowed(Surface::Http, 60_000, covers([("finance", 1)])));
    assert!(!is_allowed(Surface::Http, 200_000, covers([("manager", 1)])));
    assert!(is_allowed(Surface::Http, 200_000, covers([("manager", 2)])));
    assert!(is_allowed(Surface::Mcp, 60_000, covers([("manager", 1), ("finance", 1)])));
}

#[test]
fn apr_7_a_gate_that_appeared_meanwhile_asks_for_the_full_union_again() {
    let decision = refund(&shop_policies(), &dana().on(Surface::Mcp), 60_000, Some(&covers([("manager", 1)])));
    let Decision::RequireApproval(gates) = decision else { panic!("{decision:?}") };
    assert_eq!(gates.requirements, [requirement("finance", 1), requirement("manager", 1)]);
    assert_eq!(gates.reasons, ["Big."]);
}

#[test]
fn a_hide_is_decided_first_and_without_input() {
    let (set, all) = (shop_policies(), shop());
    let identity = dana().on(Surface::Workflow);
    let principal = set.principal(&identity).unwrap();
    let hidden = Visibility::Hidden(refs([("hide-workflow", "hide")]));
    assert_eq!(set.visibility(&principal, &identity, NOW, &all[0]), hidden);
    assert_eq!(set.visibility(&principal, &identity, NOW, &all[1]), Visibility::Visible);
    let identity = dana();
    let principal = set.principal(&identity).unwrap();
    assert_eq!(set.visibility(&principal, &identity, NOW, &all[0]), Visibility::Visible);
}

#[test]
fn an_erring_hide_conceals() {
    let set = set(r#"@id("h") @hide forbid (principal is User, action, resource)
        when { principal has limit && principal.limit + 1 > 0 };"#);
    let identity = Identity::new(Actor::user("dana").attribute("limit", i64::MAX));
    let principal = set.principal(&identity).unwrap();
    let failed = Visibility::Failed(vec![PolicyError { policy: "h".into(), kind: "integer_overflow".into() }]);
    assert_eq!(set.visibility(&principal, &identity, NOW, &shop()[0]), failed);
}

#[test]
fn r15_an_erring_forbid_fails_closed_with_its_id_and_without_its_values() {
    let set = set(r#"@id("all") permit (principal, action, resource);
        @id("over") forbid (principal, action == Action::"orders.refund", resource)
        when { context.input has a && context.input.a * 2000 > 100 };"#);
    let input = |a: i64| json!({"orderId": "1", "amountCents": 1, "a": a});
    let failed = Decision::Failed(vec![PolicyError { policy: "over".into(), kind: "integer_overflow".into() }]);
    assert_eq!(decide_as(&set, &dana(), "orders.refund", &input(9_007_199_254_740_991), None), failed);
    assert!(matches!(decide_as(&set, &dana(), "orders.refund", &input(0), None), Decision::Allow { .. }));
}

#[test]
fn an_erring_permit_fails_although_another_one_holds() {
    let set = set(r#"@id("b") permit (principal, action, resource);
        @id("a") permit (principal, action == Action::"orders.refund", resource)
        when { context.input.amountCents * 9223372036854775807 > 1 };"#);
    let failed = Decision::Failed(vec![PolicyError { policy: "a".into(), kind: "integer_overflow".into() }]);
    assert_eq!(refund(&set, &dana(), 2, None), failed);
}

#[test]
fn r16_names_with_quotes_and_controls_are_data() {
    let set = set(r#"@id("p") permit (principal == User::"dana", action, resource);"#);
    let input = json!({"orderId": "\"}; permit(principal, action, resource);\n\u{202e}", "amountCents": 1});
    for id in ["dana\" ", "\"", "dana\n", "Role::\"support\"", "dana\u{202e}"] {
        let decision = decide_as(&set, &Identity::new(Actor::user(id)), "orders.refund", &input, None);
        assert_eq!(decision, Decision::Deny { reason: None, policies: Vec::new() }, "{id}");
    }
    assert!(matches!(decide_as(&set, &dana(), "orders.refund", &input, None), Decision::Allow { .. }));
}

#[test]
fn two_issuers_alices_are_two_principals() {
    let set = set(r#"@id("p") permit (principal == User::"https://a|alice", action, resource);"#);
    let of = |actor: Actor| refund(&set, &Identity::new(actor), 1, None);
    assert!(matches!(of(Actor::user("alice").issuer("https://a")), Decision::Allow { .. }));
    assert!(matches!(of(Actor::user("alice").issuer("https://b")), Decision::Deny { .. }));
    assert!(matches!(of(Actor::user("alice")), Decision::Deny { .. }));
    assert!(matches!(of(Actor::service("alice").issuer("https://a")), Decision::Deny { .. }));
    assert!(set.principal(&Identity::new(Actor::user("x|alice").issuer("https://a|x"))).is_err());
}

#[test]
fn group_forbids_apply() {
    for group in ["invoke", "effect/write", "risk/high", "tag/money", "orders.*"] {
        let set = set(&format!(
            r#"@id("all") permit (principal, action, resource); @id("no") forbid (principal, action in Action::"{group}", resource);"#
        ));
        let policies = refs([("no", "forbid")]);
        assert_eq!(refund(&set, &dana(), 1, None), Decision::Deny { reason: None, policies }, "{group}");
    }
}

#[test]
fn groups_are_known_in_conditions_too() {
    let set = set(r#"@id("all") permit (principal, action in Action::"invoke", resource)
        unless { action in Action::"tag/money" };"#);
    assert_eq!(refund(&set, &dana(), 1, None), Decision::Deny { reason: None, policies: Vec::new() });
    assert!(matches!(decide_as(&set, &dana(), "customers.search", &json!({}), None), Decision::Allow { .. }));
}

#[test]
fn apr_12_a_capabilitys_own_approval_is_a_gate() {
    let mut all = shop();
    let rule = ApprovalRule::of("manager").quorum(2).expires_in(Duration::from_mins(5));
    let refund_ = approved_by(all.remove(0), rule);
    all.push(refund_);
    let (set, _) = load(&source(&format!("{APPROVERS}{PERMIT}")), &all).unwrap();
    let gates = Gates {
        requirements: vec![requirement("manager", 2)],
        expires_in: Duration::from_mins(5),
        reasons: vec!["Every call of orders.refund needs an approval of type manager.".into()],
        policies: refs([("all", "permit"), ("capability:orders.refund:approval", "gate")]),
    };
    assert_eq!(refund(&set, &dana(), 1, None), Decision::RequireApproval(gates));
    assert!(matches!(refund(&set, &dana(), 1, Some(&covers([("manager", 2)]))), Decision::Allow { .. }));
    assert!(matches!(decide_as(&set, &dana(), "customers.search", &json!({}), None), Decision::Allow { .. }));
    let (other, _) = load(&source(&format!("{APPROVERS}{PERMIT}")), &shop()).unwrap();
    assert_ne!(set.hash(), other.hash());
}

#[test]
fn an_entity_that_is_not_loaded_fails_and_its_name_alone_does_not() {
    let by_name = set(r#"@id("p") permit (principal, action, resource == Order::"7");"#);
    let get = |set: &PolicySet, input: Value| decide_as(set, &dana(), "orders.get", &input, None);
    assert!(matches!(get(&by_name, json!({"orderId": "7"})), Decision::Allow { .. }));
    assert!(matches!(get(&by_name, json!({"orderId": "8"})), Decision::Deny { .. }));
    let by_member =
        set(r#"@id("p") permit (principal, action == Action::"orders.get", resource) when { resource.total > 1 };"#);
    let failed = Decision::Failed(vec![PolicyError { policy: "p".into(), kind: "entity_missing".into() }]);
    assert_eq!(get(&by_member, json!({"orderId": "7"})), failed);
    let no_id = Decision::Failed(vec![PolicyError { policy: "<resource>".into(), kind: "id_missing".into() }]);
    assert_eq!(get(&by_name, json!({})), no_id);
}

#[test]
fn attributes_are_projected_by_their_declared_type() {
    let set = set(r#"@id("p") permit (principal is User, action in Action::"invoke", resource)
        when { principal has department && principal.department == "sales" && principal has tenant && principal.tenant == "acme" };"#);
    let of = |actor: Actor| refund(&set, &Identity::new(actor).tenant("acme"), 1, None);
    assert!(matches!(of(Actor::user("a").attribute("department", "sales")), Decision::Allow { .. }));
    assert!(matches!(of(Actor::user("a").attribute("department", Value::Null)), Decision::Deny { .. }));
    assert!(matches!(of(Actor::user("a").attribute("other", json!({"__entity": 1}))), Decision::Deny { .. }));
    let wrong = set.principal(&Identity::new(Actor::user("a").attribute("department", 5))).err();
    assert_eq!(wrong, Some(vec![PolicyError { policy: "<principal>".into(), kind: "wrong_type".into() }]));
    let nobody = set.principal(&Identity::none()).err();
    assert_eq!(nobody, Some(vec![PolicyError { policy: "<principal>".into(), kind: "no_actor".into() }]));
}

#[test]
fn undeclared_roles_are_dropped_where_all_roles_are_listed() {
    let text = r#"@id("p") permit (principal in Role::"support", action, resource) when { !principal.roles.contains("ghost") };"#;
    let crate::policy::PolicySource::Files(mut files) = source(text) else { unreachable!() };
    files[0].1 += "entity Role enum [\"support\"];";
    let (set, _) = load(&crate::policy::PolicySource::Files(files), &shop()).unwrap();
    let identity = Identity::new(Actor::user("a").role("ghost").role("support"));
    assert!(matches!(refund(&set, &identity, 1, None), Decision::Allow { .. }));
}

#[test]
fn the_context_holds_client_now_and_the_approval() {
    let set = set(r#"@id("p") permit (principal, action == Action::"orders.refund", resource)
        when { context has client && context.client == "agent" && context.now < datetime("2025-01-02")
            && context has approval && context.approval.types.contains("manager") && context.approval.id == "apr_1"
            && context.approval.decidedAt == context.now };"#);
    let identity = dana().client("agent");
    assert!(matches!(refund(&set, &identity, 1, Some(&covers([("manager", 1)]))), Decision::Allow { .. }));
    assert!(matches!(refund(&set, &identity, 1, None), Decision::Deny { .. }));
    assert!(matches!(refund(&set, &dana(), 1, Some(&covers([("manager", 1)]))), Decision::Deny { .. }));
}

#[test]
fn a_time_beyond_the_calendar_fails_closed() {
    let set = shop_policies();
    let principal = set.principal(&dana()).unwrap();
    let input = json!({"orderId": "1", "amountCents": 1});
    let (shop, dana) = (shop(), dana());
    let case = Case { now: Timestamp(i64::MAX), ..case(&dana, &shop[0], &input, None) };
    let decision = set.decide(&principal, &case);
    let failed = PolicyError { policy: "<context>".into(), kind: "malformed".into() };
    assert_eq!(decision, Decision::Failed(vec![failed]));
}

#[test]
fn an_empty_set_denies_everything_and_says_so() {
    let (set, notes) = shop_set("// nothing").unwrap();
    assert_eq!(refund(&set, &dana(), 1, None), Decision::Deny { reason: None, policies: Vec::new() });
    assert_eq!(notes.len(), 1);
    let (_, notes) = load(&crate::policy::PolicySource::Files(Vec::new()), &[]).unwrap();
    assert_eq!(notes.len(), 1);
    assert_eq!(notes[0].what, "there are no policies, so every call is denied");
}
