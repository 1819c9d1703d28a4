//! The pure part of stages 5, 6 and 7. The stages and the workbench ask here, so that their answers cannot differ.

use super::{Case, Decision, PolicySet, Principal, Visibility};
use crate::actor::{ActorKind, Identity};
use crate::audit::{DenialReason, PolicyError, PolicyRef};
use crate::capability::Governed;
use crate::clock::Timestamp;

/// Whom a call is decided for. That nobody could be made of the actor is stage 7's to tell.
pub(crate) type Shown = Result<Principal, Vec<PolicyError>>;

/// Why a capability is as if it were not there. For the record: from outside all reasons look the same (INV-7).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Concealed {
    pub(crate) reason: DenialReason,
    pub(crate) policies: Vec<PolicyRef>,
    pub(crate) errors: Vec<PolicyError>,
}

impl PolicySet {
    /// Stage 5, whole: the capability lists the surface, and no policy hides it. `seen` learns what the hides say, if
    /// they are asked.
    pub(crate) fn show(
        &self,
        identity: &Identity,
        now: Timestamp,
        governed: &Governed,
        seen: impl FnOnce(&Shown, &Visibility),
    ) -> Result<Shown, Concealed> {
        let conceal = |reason, policies, errors| Err(Concealed { reason, policies, errors });
        if !governed.meta.expose.contains(&identity.surface) {
            return conceal(DenialReason::NotExposed, Vec::new(), Vec::new());
        }
        let shown = self.principal(identity);
        let visibility = self.seen(&shown, identity, now, governed);
        seen(&shown, &visibility);
        match visibility {
            Visibility::Visible => Ok(shown),
            Visibility::Hidden(policies) => conceal(DenialReason::Hidden, policies, Vec::new()),
            Visibility::Failed(errors) => conceal(DenialReason::PolicyFailed, Vec::new(), errors),
        }
    }

    /// The hides of stage 5.
    pub(crate) fn seen(&self, shown: &Shown, identity: &Identity, now: Timestamp, governed: &Governed) -> Visibility {
        match shown {
            Ok(principal) => self.visibility(principal, identity, now, governed),
            // Nobody knows whether it is hidden: then it is.
            Err(errors) if self.may_hide(governed) => Visibility::Failed(errors.clone()),
            Err(_) => Visibility::Visible, // stage 7 says POLICY_FAILED
        }
    }

    /// Stage 6, of an input that is not valid, and stage 7, of one whose entities cannot be had: whoever is refused
    /// whatever the input gets that refusal.
    pub(crate) fn refuses(
        &self,
        shown: &Shown,
        identity: &Identity,
        now: Timestamp,
        governed: &Governed,
    ) -> Option<Decision> {
        match shown {
            Ok(principal) => self.refuses_whatever(principal, identity, now, governed),
            Err(errors) => Some(Decision::Failed(errors.clone())),
        }
    }

    /// Stage 7.
    pub(crate) fn judge(&self, shown: &Shown, case: &Case<'_>) -> Decision {
        let principal = match shown {
            Ok(principal) => principal,
            Err(errors) => return Decision::Failed(errors.clone()),
        };
        let is_anonymous = case.identity.actor().is_some_and(|it| it.kind == ActorKind::Anonymous);
        match self.decide(principal, case) {
            // APR-11: nobody in particular cannot ask for a decision, so a gate is a deny.
            Decision::RequireApproval(gates) if is_anonymous => {
                Decision::Deny { reason: None, policies: gates.policies }
            }
            decision => decision,
        }
    }
}
