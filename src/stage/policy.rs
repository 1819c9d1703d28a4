//! What the policies say about this call, with fresh facts: also on resume, and before every replay.

use std::pin::pin;
use std::sync::Arc;

use tracing::Instrument as _;

use crate::audit::PolicyRef;
use crate::caller::Presented;
use crate::policies::Asked;
use crate::policy::{Case, Covers, Decision, Gates, Gathered, Principal, not_gathered};
use crate::rejection::Rejection;
use crate::resource::Resources;
use crate::seen::Facts;
use crate::stage::exposure::Exposed;
use crate::stage::schema::Valid;
use crate::telemetry;
use crate::trail::Trail;

/// A valid call that no policy refused.
pub(crate) struct Permit {
    pub(super) valid: Valid,
    pub(super) presented: Option<Arc<Presented>>,
    /// What a person must lift; `None` if nothing, or if what is presented lifts it.
    pub(super) gates: Option<Gates>,
    pub(super) policies: Vec<PolicyRef>,
    /// What was fetched for this call, once: deciding again asks nobody again.
    entities: Gathered,
}

pub(crate) async fn decide(trail: &mut Trail, valid: Valid, resources: &Resources) -> Result<Permit, Rejection> {
    let span = telemetry::policy();
    let decided = pin!(decided(trail, valid, resources)).instrument(span.clone()).await;
    let (outcome, code) = match &decided {
        Ok(Permit { gates: None, .. }) => ("allow", None),
        Ok(Permit { gates: Some(_), .. }) => ("require_approval", None),
        Err(denied @ Rejection::PolicyDenied { .. }) => ("deny", Some(denied.code())),
        Err(other) => ("error", Some(other.code())),
    };
    telemetry::told(&span, outcome, code);
    decided
}

async fn decided(trail: &mut Trail, valid: Valid, resources: &Resources) -> Result<Permit, Rejection> {
    let presented = valid.exposed.identified.call().presented.clone();
    match gather(&valid, resources).await {
        Ok(entities) => decide_with(trail, valid, presented, entities),
        // What cannot be had must not reveal more than what can: whether it exists, say.
        Err(rejection) => Err(valid.exposed.refused_anyway(trail).unwrap_or(rejection)),
    }
}

/// Fetches what the policies may read of the application, within the time that one call has for that.
async fn gather(valid: &Valid, resources: &Resources) -> Result<Gathered, Rejection> {
    let Exposed { identified, capability, policies, .. } = &valid.exposed;
    let started = policies.set.gathering(principal(valid)?, capability, &valid.input.value);
    let mut gathering = started.map_err(Rejection::PolicyFailed)?;
    let rounds = async {
        loop {
            let wanted = gathering.wanted();
            if wanted.is_empty() {
                return gathering.finish();
            }
            let found = resources.ask(&wanted, &identified.call().identity).await;
            gathering.accept(found.map_err(not_gathered)?)?;
        }
    };
    let gathered = resources.within(rounds).await.unwrap_or_else(|| Err(not_gathered("timed_out")));
    gathered.map_err(Rejection::PolicyFailed)
}

fn principal(valid: &Valid) -> Result<&Principal, Rejection> {
    valid.exposed.principal.as_ref().map_err(|errors| Rejection::PolicyFailed(errors.clone()))
}

impl Permit {
    /// Decides again, with an approval that stage 8 found.
    pub(super) fn present(self, trail: &mut Trail, presented: Arc<Presented>) -> Result<Self, Rejection> {
        decide_with(trail, self.valid, Some(presented), self.entities)
    }

    /// The gates as if nothing were presented (APR-7).
    pub(super) fn all_gates(&self, trail: &mut Trail) -> Result<Option<Gates>, Rejection> {
        match evaluate(trail, &self.valid, None, &self.entities) {
            Decision::RequireApproval(gates) => Ok(Some(gates)),
            Decision::Allow { .. } => Ok(None),
            Decision::Deny { reason, policies } => Err(Rejection::PolicyDenied { reason, policies }),
            Decision::Failed(errors) => Err(Rejection::PolicyFailed(errors)),
        }
    }
}

fn decide_with(
    trail: &mut Trail,
    valid: Valid,
    presented: Option<Arc<Presented>>,
    entities: Gathered,
) -> Result<Permit, Rejection> {
    let covers = presented.as_deref().map(covers);
    let decision = evaluate(trail, &valid, covers.as_ref(), &entities);
    let Exposed { principal, capability, identified, policies } = &valid.exposed;
    let asked = Asked { principal, identity: &identified.call().identity, now: trail.now(), capability };
    let input = &valid.input.value;
    policies.compare_decided(trail, &asked, (input, covers.as_ref(), entities.found()), &decision);
    match decision {
        Decision::Allow { policies } => Ok(Permit { valid, presented, gates: None, policies, entities }),
        Decision::RequireApproval(gates) => {
            let policies = gates.policies.clone();
            Ok(Permit { valid, presented, gates: Some(gates), policies, entities })
        }
        Decision::Deny { reason, policies } => Err(Rejection::PolicyDenied { reason, policies }),
        Decision::Failed(errors) => Err(Rejection::PolicyFailed(errors)),
    }
}

fn evaluate(trail: &mut Trail, valid: &Valid, covers: Option<&Covers>, entities: &Gathered) -> Decision {
    let exposed = &valid.exposed;
    let identity = &exposed.identified.call().identity;
    let case =
        Case { identity, now: trail.now(), governed: &exposed.capability, input: &valid.input.value, covers, entities };
    let decision = exposed.policies.set.judge(&exposed.principal, &case);
    if exposed.capability.meta.decision_record {
        let facts = Facts::of(&case, &valid.input.value, &decision).text();
        if facts.is_none() {
            tracing::warn!(execution = %trail.execution(), "no copy of what policies saw is kept: it is too large");
        }
        trail.saw(case.now, facts);
    }
    decision
}

/// Distinct people by type: a person's second decision is refused when deciding (APR-2).
pub(crate) fn covers(presented: &Presented) -> Covers {
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
