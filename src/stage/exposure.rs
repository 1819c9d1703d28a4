//! The capability exists, lists this surface, and no policy hides it.

use std::sync::Arc;

use crate::CapabilityId;
use crate::audit::{DenialReason, PolicyError, PolicyRef};
use crate::capability::Governed;
use crate::policies::{Asked, Loaded};
use crate::policy::{Decision, Shown, Visibility};
use crate::registry::Registry;
use crate::rejection::Rejection;
use crate::stage::Stage;
use crate::stage::actor::Identified;
use crate::trail::Trail;

/// A call to a capability that its surface shows to its actor, and the one policy set that serves it from here on.
pub(crate) struct Exposed {
    pub(super) identified: Identified,
    pub(super) capability: Arc<Governed>,
    pub(super) policies: Arc<Loaded>,
    pub(super) principal: Shown,
}

impl Exposed {
    /// The refusal of whoever policy refuses whatever the input.
    pub(super) fn refused_anyway(&self, trail: &Trail) -> Option<Rejection> {
        let (identity, set) = (&self.identified.call().identity, &self.policies.set);
        match set.refuses(&self.principal, identity, trail.now(), &self.capability)? {
            Decision::Deny { reason, policies } => Some(Rejection::PolicyDenied { reason, policies }),
            Decision::Failed(errors) => Some(Rejection::PolicyFailed(errors)),
            Decision::Allow { .. } | Decision::RequireApproval(_) => None,
        }
    }
}

/// Unknown, unexposed and hidden look the same from outside (INV-7).
pub(crate) fn find(
    trail: &mut Trail,
    identified: Identified,
    registry: &Registry,
    policies: Arc<Loaded>,
) -> Result<Exposed, Rejection> {
    let call = identified.call();
    let Some(id) = call.capability.clone() else { return Err(Rejection::Internal("a call without a capability")) };
    let identity = Arc::clone(&call.identity);
    let capability = registry.get(&id).ok_or_else(|| refuse(&id, DenialReason::Unknown))?;
    trail.resolves(capability);
    trail.at(Stage::Exposure).decided_by(policies.set.hash());
    if !capability.meta.expose.contains(&identity.surface) {
        return Err(refuse(&id, DenialReason::NotExposed));
    }
    let principal = policies.set.principal(&identity);
    let asked = Asked { principal: &principal, identity: &identity, now: trail.now(), capability };
    let visibility = policies.set.seen(&principal, &identity, asked.now, capability);
    policies.compare_shown(trail, &asked, &visibility);
    match visibility {
        Visibility::Visible => {}
        Visibility::Hidden(policies) => return Err(conceal(&id, DenialReason::Hidden, policies, Vec::new())),
        Visibility::Failed(errors) => return Err(conceal(&id, DenialReason::PolicyFailed, Vec::new(), errors)),
    }
    Ok(Exposed { capability: Arc::clone(capability), identified, policies, principal })
}

fn refuse(id: &CapabilityId, reason: DenialReason) -> Rejection {
    conceal(id, reason, Vec::new(), Vec::new())
}

fn conceal(id: &CapabilityId, reason: DenialReason, policies: Vec<PolicyRef>, errors: Vec<PolicyError>) -> Rejection {
    Rejection::NotFound { capability: id.to_string(), reason, policies, errors }
}
