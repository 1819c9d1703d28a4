//! Management actions.

use crate::CapabilityId;
use crate::actor::{Actor, Identity};
use crate::audit::PolicyError;
use crate::capability::{Risk, SideEffect};
use crate::policy::testing::{NOW, dana, set};
use crate::policy::{ManageAction, Managed, Management, PolicySet};

fn ask(
    set: &PolicySet,
    action: ManageAction,
    who: &Identity,
    requester: &Identity,
    requirement: Option<&str>,
) -> Management {
    let capability = CapabilityId::from("orders.refund");
    let managed = Managed::Approval {
        id: "apr_1",
        capability: &capability,
        requester,
        risk: Risk::High,
        side_effect: SideEffect::Write,
        tenant: "default",
        requirement,
    };
    set.manage(action, &managed, who, NOW)
}

fn priya() -> Identity {
    Identity::new(Actor::user("priya").role("manager").attribute("department", "sales"))
}

fn in_sales() -> Identity {
    Identity::new(Actor::user("dana").attribute("department", "sales"))
}

const APPROVE: &str = r#"
@id("managers") permit (principal in Role::"manager",
    action in [Countersign::Action::"approve", Countersign::Action::"reject"], resource)
    when { context.requirement == "manager" };
@id("same-department") forbid (principal, action == Countersign::Action::"approve", resource)
    unless { principal is User && resource has requesterUser && principal has department
        && resource.requesterUser has department && resource.requesterUser.department == principal.department };
"#;

#[test]
fn apr_2_an_approver_is_asked_for_one_type() {
    let set = set(APPROVE);
    let approve = |who: &Identity, requester: &Identity, kind| ask(&set, ManageAction::Approve, who, requester, kind);
    assert_eq!(approve(&priya(), &in_sales(), Some("manager")), Management::Allow);
    assert_eq!(approve(&priya(), &in_sales(), Some("finance")), Management::Deny);
    assert_eq!(approve(&dana(), &in_sales(), Some("manager")), Management::Deny);
    assert_eq!(approve(&priya(), &dana(), Some("manager")), Management::Deny);
    let missing = vec![PolicyError { policy: "<request>".into(), kind: "no_requirement".into() }];
    assert_eq!(approve(&priya(), &in_sales(), None), Management::Failed(missing));
    assert_eq!(ask(&set, ManageAction::Reject, &priya(), &dana(), Some("manager")), Management::Allow);
    assert_eq!(ask(&set, ManageAction::ReadApprovals, &priya(), &dana(), None), Management::Deny);
}

#[test]
fn a_requester_who_does_not_fit_the_schema_fails_only_what_looks_at_them() {
    let set = set(APPROVE);
    let odd = Identity::new(Actor::user("dana").attribute("department", 5));
    assert_eq!(ask(&set, ManageAction::Reject, &priya(), &odd, Some("manager")), Management::Allow);
    // `has` on an entity that is not there is false, so the forbid holds
    assert_eq!(ask(&set, ManageAction::Approve, &priya(), &odd, Some("manager")), Management::Deny);
}

#[test]
fn the_requester_may_be_who_asks_and_then_todays_attributes_count() {
    let set = set(r#"@id("own") permit (principal, action == Countersign::Action::"withdraw", resource)
        when { resource has requesterUser && resource.requesterUser == principal && principal is User && principal has department };"#);
    assert_eq!(ask(&set, ManageAction::Withdraw, &in_sales(), &dana(), None), Management::Allow);
    assert_eq!(ask(&set, ManageAction::Withdraw, &dana(), &in_sales(), None), Management::Deny);
    assert_eq!(ask(&set, ManageAction::Withdraw, &priya(), &in_sales(), None), Management::Deny);
}

#[test]
fn the_group_reaches_all_and_every_forbid_is_a_plain_deny() {
    let permit =
        r#"@id("ops") permit (principal in Role::"support", action in Countersign::Action::"manage", resource);"#;
    let open = set(permit);
    for action in ManageAction::ALL {
        let requirement = action.decides().then_some("manager");
        assert_eq!(ask(&open, action, &dana(), &priya(), requirement), Management::Allow, "{action:?}");
        let on_engine = open.manage(action, &Managed::Engine, &dana(), NOW);
        assert_eq!(on_engine == Management::Allow, !action.decides(), "{action:?}");
    }
    for annotation in ["", "@hide", "@approval(\"m\")"] {
        let closed = set(&format!(r#"{permit} @id("no") {annotation} forbid (principal, action, resource);"#));
        assert_eq!(closed.manage(ManageAction::ReadAudit, &Managed::Engine, &dana(), NOW), Management::Deny);
    }
}

#[test]
fn an_erring_policy_fails_management() {
    let set = set(r#"@id("p") permit (principal is User, action == Countersign::Action::"read_audit", resource)
        when { principal has limit && principal.limit + 1 > 0 };"#);
    let who = Identity::new(Actor::user("a").attribute("limit", i64::MAX));
    let failed = vec![PolicyError { policy: "p".into(), kind: "integer_overflow".into() }];
    assert_eq!(set.manage(ManageAction::ReadAudit, &Managed::Engine, &who, NOW), Management::Failed(failed));
}
