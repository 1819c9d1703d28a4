//! What the policies say about this call, with fresh facts: also on resume, and before every replay.

use std::sync::Arc;

use crate::audit::PolicyRef;
use crate::caller::Presented;
use crate::policies::Asked;
use crate::policy::{Covers, Decision, Gates};
use crate::rejection::Rejection;
use crate::stage::exposure::Exposed;
use crate::stage::schema::Valid;
use crate::trail::Trail;

/// A valid call that no policy refused.
pub(crate) struct Permit {
    pub(super) valid: Valid,
    pub(super) presented: Option<Arc<Presented>>,
    /// What a person must lift; `None` if nothing, or if what is presented lifts it.
    pub(super) gates: Option<Gates>,
    pub(super) policies: Vec<PolicyRef>,
}

pub(crate) fn decide(trail: &mut Trail, valid: Valid) -> Result<Permit, Rejection> {
    let presented = valid.exposed.identified.call().presented.clone();
    decide_with(trail, valid, presented)
}

impl Permit {
    /// Decides again, with an approval that stage 8 found.
    pub(super) fn present(self, trail: &mut Trail, presented: Arc<Presented>) -> Result<Self, Rejection> {
        decide_with(trail, self.valid, Some(presented))
    }

    /// The gates as if nothing were presented (APR-7).
    pub(super) fn all_gates(&self, trail: &Trail) -> Result<Option<Gates>, Rejection> {
        match evaluate(trail, &self.valid, None) {
            Decision::RequireApproval(gates) => Ok(Some(gates)),
            Decision::Allow { .. } => Ok(None),
            Decision::Deny { reason, policies } => Err(Rejection::PolicyDenied { reason, policies }),
            Decision::Failed(errors) => Err(Rejection::PolicyFailed(errors)),
        }
    }
}

fn decide_with(trail: &mut Trail, valid: Valid, presented: Option<Arc<Presented>>) -> Result<Permit, Rejection> {
    let covers = presented.as_deref().map(covers);
    let decision = evaluate(trail, &valid, covers.as_ref());
    let Exposed { principal, capability, identified, policies } = &valid.exposed;
    let asked = Asked { principal, identity: &identified.call().identity, now: trail.now(), capability };
    policies.compare_decided(trail, &asked, (&valid.input.value, covers.as_ref()), &decision);
    match decision {
        Decision::Allow { policies } => Ok(Permit { valid, presented, gates: None, policies }),
        Decision::RequireApproval(gates) => {
            let policies = gates.policies.clone();
            Ok(Permit { valid, presented, gates: Some(gates), policies })
        }
        Decision::Deny { reason, policies } => Err(Rejection::PolicyDenied { reason, policies }),
        Decision::Failed(errors) => Err(Rejection::PolicyFailed(errors)),
    }
}

fn evaluate(trail: &Trail, valid: &Valid, covers: Option<&Covers>) -> Decision {
    let exposed = &valid.exposed;
    let principal = match &exposed.principal {
        Ok(principal) => principal,
        Err(errors) => return Decision::Failed(errors.clone()),
    };
    let (identity, set) = (&exposed.identified.call().identity, &exposed.policies.set);
    let decision = set.decide(principal, identity, trail.now(), &exposed.capability, &valid.input.value, covers);
    decision.of_actor(identity)
}

/// Distinct people by type: a person's second decision is refused when deciding (APR-2).
fn covers(presented: &Presented) -> Covers {
    use crate::approval::Verdict;
    let record = &presented.record;
    let mut types = std::collections::BTreeMap::new();
    for decision in record.decisions.iter().filter(|it| it.verdict == Verdict::Approve) {
        *types.entry(decision.kind.clone()).or_insert(0) += 1;
    }
    // Approved ones have it; for any other the instant of its end is no approval at all.
    let decided_at = record.approved_at.unwrap_or(record.expires_at);
    Covers { id: record.id.clone(), types, decided_at }
}
