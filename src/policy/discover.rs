//! The same policies with the input unknown: what a listing shows, and whether every input is refused. Sound: whatever
//! some input gets allowed is listed.

use cedar_policy::PolicySet as Set;

use super::compile::Compiled;
use super::decide::{denied, gate};
use super::request::Principal;
use super::rules::{Kind, Rule};
use super::tree::{Bound, Known, body, rebuild};
use super::{Decision, Listed, PolicySet, Visibility};
use crate::actor::Identity;
use crate::audit::PolicyError;
use crate::capability::{Governed, RequiresApproval};
use crate::clock::Timestamp;

/// The bounds of a slice's policies.
#[derive(Default)]
pub(super) struct Plan {
    /// Those that do not depend on the input.
    exact_permits: Set,
    exact_forbids: Set,
    /// Over-approximations.
    possible_permits: Set,
    possible_gates: Set,
    /// Under-approximations.
    certain_forbids: Set,
}

/// `context.approval` counts as unknown too: stage 6 asks the same question of a call that is resumed with one.
const CONTEXT: &[&str] = &["surface", "tenant", "client", "now"];

/// `resource_known`: whether it is the capability itself. An application's entity is named by the input.
pub(super) fn plan<'a>(rules: impl Iterator<Item = &'a Rule>, resource_known: bool) -> Result<Plan, String> {
    let known = Known { principal: true, resource: resource_known, context: CONTEXT };
    let mut plan = Plan::default();
    for rule in rules {
        let template = body(&rule.policy).ok_or("a policy has no tree")?;
        let add = |set: &mut Set, policy| set.add(policy).map_err(|it: cedar_policy::PolicySetError| it.to_string());
        let bound = |bound| known.approximate(&template, bound).map(|it| rebuild(it).ok_or("a bound is no policy"));
        let exact = known.covers_all(&template);
        let over = |set: &mut Set| bound(Bound::Over).map_or(Ok(()), |it| add(set, it?));
        match (&rule.kind, exact) {
            (Kind::Hide, _) => {}
            (Kind::Permit, true) => add(&mut plan.exact_permits, rule.policy.clone())?,
            (Kind::Permit, false) => over(&mut plan.possible_permits)?,
            (Kind::Deny | Kind::Gate(_), true) => add(&mut plan.exact_forbids, rule.policy.clone())?,
            (Kind::Deny | Kind::Gate(_), false) => {
                if let Some(under) = bound(Bound::Under) {
                    add(&mut plan.certain_forbids, under?)?;
                }
                if matches!(rule.kind, Kind::Gate(_)) {
                    over(&mut plan.possible_gates)?;
                }
            }
        }
    }
    Ok(plan)
}

/// What is known of a call before its input.
enum Outlook {
    /// Whatever the input.
    Refused(Decision),
    /// Some input might pass.
    Open(RequiresApproval),
}

impl PolicySet {
    pub(super) fn refusal(
        &self,
        principal: &Principal,
        identity: &Identity,
        now: Timestamp,
        governed: &Governed,
    ) -> Option<Decision> {
        match self.outlook(principal, identity, now, governed) {
            Ok(Outlook::Refused(decision)) => Some(decision),
            Ok(Outlook::Open(_)) => None,
            Err(errors) => Some(Decision::Failed(errors)),
        }
    }

    pub(super) fn listed(
        &self,
        principal: &Principal,
        identity: &Identity,
        now: Timestamp,
        governed: &Governed,
    ) -> Listed {
        if self.visibility(principal, identity, now, governed) != Visibility::Visible {
            return Listed::No;
        }
        match self.outlook(principal, identity, now, governed) {
            Ok(Outlook::Open(requires)) => Listed::Yes(requires),
            Ok(Outlook::Refused(_)) | Err(_) => Listed::No,
        }
    }

    fn outlook(
        &self,
        principal: &Principal,
        identity: &Identity,
        now: Timestamp,
        governed: &Governed,
    ) -> Result<Outlook, Vec<PolicyError>> {
        let compiled: &Compiled = self.compiled(governed)?;
        let request = principal.early_request(compiled, identity, now)?;
        let entities = principal.among(&compiled.base)?;
        let plan = &compiled.plan;
        let evaluate = |set| self.evaluate(set, &request, &entities);
        let (permits, forbids) = (evaluate(&plan.exact_permits), evaluate(&plan.exact_forbids));
        // a policy that does not depend on the input errs for every input
        let mut errors = permits.errors;
        errors.extend(forbids.errors);
        if !errors.is_empty() {
            errors.sort();
            return Ok(Outlook::Refused(Decision::Failed(errors)));
        }
        // a lower bound that errs is not certain, an upper bound that errs is possible
        let mut certain = forbids.satisfied;
        certain.extend(evaluate(&plan.certain_forbids).satisfied);
        certain.sort_by(|one, two| one.id.cmp(&two.id));
        if let Some(denied) = denied(&certain) {
            return Ok(Outlook::Refused(denied));
        }
        let is_possible = |set| {
            let answer = evaluate(set);
            !answer.satisfied.is_empty() || !answer.errors.is_empty()
        };
        if permits.satisfied.is_empty() && !is_possible(&plan.possible_permits) {
            return Ok(Outlook::Refused(Decision::Deny { reason: None, policies: Vec::new() }));
        }
        Ok(Outlook::Open(if certain.iter().any(|it| gate(it).is_some()) {
            RequiresApproval::Always
        } else if is_possible(&plan.possible_gates) {
            RequiresApproval::Sometimes
        } else {
            RequiresApproval::Never
        }))
    }
}
