//! Management that nobody does: who may approve, read the trail, publish.

use std::sync::Arc;

use super::judge::Ruling;
use crate::actor::{Identity, Surface};
use crate::capability::Governed;
use crate::clock::Timestamp;
use crate::deciding::{Standing, standing};
use crate::policy::{Decision, ManageAction, Managed, Management, PolicySet};

/// A management action that nobody takes.
#[derive(Clone)]
pub(crate) struct ManageQuestion {
    pub(crate) action: ManageAction,
    pub(crate) identity: Identity,
    pub(crate) now: Timestamp,
    /// The request that it is about; else it is about the engine.
    pub(crate) about: Option<Deciding>,
}

/// A request that waits for people.
#[derive(Clone)]
pub(crate) struct Deciding {
    pub(crate) capability: Arc<Governed>,
    pub(crate) requester: Identity,
    /// The type that is decided, for approve and reject.
    pub(crate) requirement: Option<String>,
}

impl Deciding {
    /// What the action acts on: the request, or the engine.
    fn managed(&self, action: ManageAction) -> Managed<'_> {
        if !is_about_a_request(action) {
            return Managed::Engine;
        }
        Managed::Approval {
            id: "apr_supposed",
            capability: &self.capability.id,
            requester: &self.requester,
            risk: self.capability.risk,
            side_effect: self.capability.side_effect,
            tenant: self.requester.tenant_name(),
            requirement: self.requirement.as_deref(),
        }
    }
}

impl ManageQuestion {
    pub(crate) fn ruling(&self, set: &PolicySet) -> Ruling {
        let (identity, now) = (self.identity.clone().on(Surface::Direct), self.now);
        Ruling::Decided(match &self.about {
            Some(about) => may_decide(set, self.action, about, &identity, now),
            None => decision(set.manage_by(self.action, &Managed::Engine, &identity, now)),
        })
    }
}

/// Whether the action acts on a request, so that nothing can be said of it without one.
pub(super) fn is_about_a_request(action: ManageAction) -> bool {
    match action {
        ManageAction::Approve
        | ManageAction::Reject
        | ManageAction::ReadApprovals
        | ManageAction::Withdraw
        | ManageAction::Resume => true,
        ManageAction::Reconcile
        | ManageAction::ReadAudit
        | ManageAction::ReadPolicies
        | ManageAction::PublishPolicies
        | ManageAction::ReadMetrics => false,
    }
}

/// Whether somebody could take this action on what was asked for: what [`crate::Approvals`] and [`crate::Executions`]
/// check before they ask the store.
pub(crate) fn may_decide(
    set: &PolicySet,
    action: ManageAction,
    about: &Deciding,
    identity: &Identity,
    now: Timestamp,
) -> Decision {
    let refused = |reason: &str| Decision::Deny { reason: Some(reason.to_owned()), policies: Vec::new() };
    match standing(action, identity, &about.requester) {
        Standing::Foreign => refused("Nobody knows of another tenant's requests."),
        Standing::NotRequester => refused("Only the requester resumes."),
        Standing::Own if action.decides() => refused("Nobody decides their own request."),
        Standing::Own => refused("Nobody settles their own execution."),
        Standing::NoPerson => refused("People decide, not agents."),
        Standing::Granted => Decision::Allow { policies: Vec::new() },
        Standing::Asked => asked(set, action, about, identity, now),
    }
}

/// Whoever may approve a request sees it, too.
fn asked(set: &PolicySet, action: ManageAction, about: &Deciding, identity: &Identity, now: Timestamp) -> Decision {
    let ask = |action| decision(set.manage_by(action, &about.managed(action), identity, now));
    let answer = ask(action);
    if action == ManageAction::ReadApprovals && !allows(&answer) && about.requirement.is_some() {
        let approving = ask(ManageAction::Approve);
        if allows(&approving) {
            return approving;
        }
    }
    answer
}

fn decision((management, policies): (Management, Vec<crate::PolicyRef>)) -> Decision {
    match management {
        Management::Allow => Decision::Allow { policies },
        Management::Deny => Decision::Deny { reason: None, policies },
        Management::Failed(errors) => Decision::Failed(errors),
    }
}

fn allows(decision: &Decision) -> bool {
    matches!(decision, Decision::Allow { .. })
}
