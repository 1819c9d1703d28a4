//! The capability exists, lists this surface, and no policy hides it.

use std::sync::Arc;

use crate::CapabilityId;
use crate::audit::DenialReason;
use crate::capability::Governed;
use crate::policies::{Asked, Loaded};
use crate::policy::{Concealed, Decision, Shown, Visibility};
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
    let unknown = || Concealed { reason: DenialReason::Unknown, policies: Vec::new(), errors: Vec::new() };
    let capability = registry.get(&id).ok_or_else(|| conceal(&id, unknown()))?;
    trail.resolves(capability);
    trail.at(Stage::Exposure).decided_by(policies.set.hash());
    let now = trail.now();
    let compare = |principal: &Shown, visibility: &Visibility| {
        let asked = Asked { principal, identity: &identity, now, capability };
        policies.compare_shown(trail, &asked, visibility);
    };
    let shown = policies.set.show(&identity, now, capability, compare);
    let principal = shown.map_err(|it| conceal(&id, it))?;
    Ok(Exposed { capability: Arc::clone(capability), identified, policies, principal })
}

fn conceal(id: &CapabilityId, Concealed { reason, policies, errors }: Concealed) -> Rejection {
    Rejection::NotFound { capability: id.to_string(), reason, policies, errors }
}
