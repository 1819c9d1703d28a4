//! What a caller could get allowed. A courtesy: every call is checked again (INV-2).

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::actor::Identity;
use crate::audit::{EventKind, canonical, hex};
use crate::capability::{Descriptor, Filter, Governed, RequiresApproval};
use crate::clock::Monotonic;
use crate::deciding::actor_of;
use crate::pipeline::Core;
use crate::policies::Loaded;
use crate::policy::{Listed, PolicySet};
use crate::rejection::Rejection;

/// How long a listing may take; running out is loud, never a short list.
pub(crate) const BUDGET: Duration = Duration::from_secs(30);

impl Core {
    /// Exposure and hides, then the filter, then policy with the input unknown.
    pub(crate) async fn list(&self, identity: &Identity, filter: &Filter) -> Result<Vec<Descriptor>, Rejection> {
        let (policies, listed) = self.visible(identity, filter).await;
        match listed {
            Ok(listed) => {
                let event = EventKind::Discovered { count: listed.len(), digest: digest(&listed) };
                self.store.append(vec![self.management_event(&policies.set, identity, event)]).await?;
                Ok(listed)
            }
            Err(rejection) => {
                let denied = EventKind::ManagementDenied {
                    action: "discover".into(),
                    approval_id: None,
                    execution_id: None,
                    code: rejection.code(),
                };
                self.store.append(vec![self.management_event(&policies.set, identity, denied)]).await?;
                Err(rejection)
            }
        }
    }

    /// The listing without its record, and the policies that it was made by.
    pub(crate) async fn visible(
        &self,
        identity: &Identity,
        filter: &Filter,
    ) -> (Arc<Loaded>, Result<Vec<Descriptor>, Rejection>) {
        let began = self.clock.monotonic();
        let followed = tokio::select! {
            biased;
            policies = self.policies.follow(&self.registry, &self.store) => Some(policies),
            () = self.clock.sleep(BUDGET) => None,
        };
        match followed {
            Some(policies) => {
                let listed = self.visible_under(&policies.set, began, identity, filter);
                (policies, listed)
            }
            None => (self.policies.current(), Err(Rejection::ListingTimeout)),
        }
    }

    fn visible_under(
        &self,
        set: &PolicySet,
        began: Monotonic,
        identity: &Identity,
        filter: &Filter,
    ) -> Result<Vec<Descriptor>, Rejection> {
        actor_of(identity)?;
        // Whoever cannot be shown to policies is allowed nothing.
        let principal = set.principal(identity).map_err(Rejection::PolicyFailed)?;
        let (now, mut listed) = (self.clock.now(), Vec::new());
        for capability in self.registry.all() {
            if !capability.meta.expose.contains(&identity.surface) || !filter.matches(capability) {
                continue;
            }
            if let Listed::Yes(requires) = set.list(&principal, identity, now, capability) {
                listed.push(descriptor(capability, requires));
            }
            if self.clock.monotonic().since(began) > BUDGET {
                return Err(Rejection::ListingTimeout);
            }
        }
        Ok(listed)
    }
}

fn descriptor(capability: &Governed, requires_approval: RequiresApproval) -> Descriptor {
    Descriptor {
        id: capability.id.clone(),
        description: capability.meta.description.clone(),
        input_schema: Arc::clone(&capability.input_schema),
        side_effect: capability.side_effect,
        risk: capability.risk,
        tags: capability.meta.tags.clone(),
        requires_approval,
    }
}

/// Constant size, whatever the list.
fn digest(listed: &[Descriptor]) -> String {
    let shown: Vec<_> = listed.iter().map(|it| (&it.id, it.requires_approval)).collect();
    format!("sha256:{}", hex(&Sha256::digest(canonical(&shown).as_bytes())))
}
