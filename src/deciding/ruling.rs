//! The policy set that decides management actions, and what it says.

use std::sync::Arc;

use crate::actor::Identity;
use crate::audit::{AuditEvent, Envelope, EventKind};
use crate::outcome::ErrorCode;
use crate::pipeline::{Core, POLICY_TRIES};
use crate::policies::Loaded;
use crate::policy::{ManageAction, Managed, Management, PolicySet};
use crate::rejection::Rejection;

impl Core {
    /// The set that decides one management action: the active one, as far as this process has heard of it. Whether it
    /// could be had is for [`Self::check_active`] to say.
    pub(crate) async fn ruling(&self) -> Arc<Loaded> {
        let mut policies = self.policies.follow(&self.registry, &self.store).await;
        for _ in 1..POLICY_TRIES {
            if self.check_active(&policies).is_ok() {
                break;
            }
            policies = self.policies.follow(&self.registry, &self.store).await;
        }
        policies
    }

    /// A process that cannot have the active set allows nothing by another one. One that only looks has its own.
    pub(crate) fn check_active(&self, policies: &Loaded) -> Result<(), Rejection> {
        let is_behind = policies.is_ruling() && policies.generation < self.store.generation();
        if is_behind { Err(Rejection::PolicyUnstable) } else { Ok(()) }
    }

    /// Whether this policy set allows a management action; else the code that says why not.
    pub(crate) fn may(
        &self,
        set: &PolicySet,
        action: ManageAction,
        managed: &Managed<'_>,
        identity: &Identity,
    ) -> Result<(), ErrorCode> {
        match set.manage(action, managed, identity, self.clock.now()) {
            Management::Allow => Ok(()),
            Management::Deny => Err(ErrorCode::PolicyDenied),
            Management::Failed(errors) => {
                tracing::error!(action = action.as_str(), ?errors, "policies could not be evaluated");
                Err(ErrorCode::PolicyFailed)
            }
        }
    }

    /// An event that names the set that answered.
    pub(crate) fn management_event(&self, set: &PolicySet, identity: &Identity, kind: EventKind) -> AuditEvent {
        let policy_hash = Some(set.hash().to_string());
        let envelope = Envelope { policy_hash, ..Envelope::of(identity) };
        AuditEvent { id: self.ids.event(), at: self.clock.now(), kind, envelope }
    }
}
