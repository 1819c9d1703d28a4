//! Management that nobody does: who may approve, read the trail, publish.

use std::sync::Arc;

use super::judge::Ruling;
use crate::actor::{Identity, Surface};
use crate::capability::Governed;
use crate::clock::Timestamp;
use crate::deciding::{is_person, is_requester};
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
    fn managed(&self) -> Managed<'_> {
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

/// Whether somebody could take this action on a request: what [`crate::Approvals`] checks before it asks the store.
pub(crate) fn may_decide(
    set: &PolicySet,
    action: ManageAction,
    about: &Deciding,
    identity: &Identity,
    now: Timestamp,
) -> Decision {
    let refused = |reason: &str| Decision::Deny { reason: Some(reason.to_owned()), policies: Vec::new() };
    if identity.tenant != about.requester.tenant {
        return refused("Nobody knows of another tenant's requests.");
    }
    if action.decides() && is_requester(identity, &about.requester) {
        return refused("Nobody decides their own request."); // INV-4, APR-3
    }
    if action.decides() && !is_person(identity) {
        return refused("People decide, not agents."); // APR-4
    }
    decision(set.manage_by(action, &about.managed(), identity, now))
}

fn decision((management, policies): (Management, Vec<crate::PolicyRef>)) -> Decision {
    match management {
        Management::Allow => Decision::Allow { policies },
        Management::Deny => Decision::Deny { reason: None, policies },
        Management::Failed(errors) => Decision::Failed(errors),
    }
}
