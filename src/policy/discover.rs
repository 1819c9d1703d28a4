//! The same policies with the input unknown: what a listing shows, and whether every input is refused. Sound: whatever
//! some input gets allowed is listed.

use cedar_policy::{Policy, PolicySet as Set};

use super::decide::{Asked, denied, gate};
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
pub(super) const CONTEXT: &[&str] = &["surface", "tenant", "client", "now"];

/// A policy's approximations, made once however many actions it is for.
pub(super) struct Bounds {
    resource_known: Approximation,
    resource_unknown: Approximation,
}

pub(super) enum Approximation {
    /// The policy does not depend on the input.
    Exact,
    Bounds {
        over: Option<Box<Policy>>,
        under: Option<Box<Policy>>,
    },
}

impl Bounds {
    /// Whether the resource is the capability itself, or an application's entity that the input names.
    pub(super) fn when(&self, resource_known: bool) -> &Approximation {
        if resource_known { &self.resource_known } else { &self.resource_unknown }
    }

    pub(super) fn of(rule: &Rule) -> Result<Self, String> {
        let template = body(&rule.policy).ok_or("a policy has no tree")?;
        let approximate = |resource| -> Result<Approximation, String> {
            let known = Known { principal: true, resource, context: CONTEXT };
            if known.covers_all(&template) {
                return Ok(Approximation::Exact);
            }
            let bound = |bound| {
                let template = known.approximate(&template, bound);
                template.map(|it| rebuild(it).map(Box::new).ok_or("a bound is no policy"))
            };
            Ok(Approximation::Bounds { over: bound(Bound::Over).transpose()?, under: bound(Bound::Under).transpose()? })
        };
        Ok(Self { resource_known: approximate(true)?, resource_unknown: approximate(false)? })
    }
}

/// `resource_known`: whether it is the capability itself. An application's entity is named by the input.
pub(super) fn plan<'a>(
    rules: impl Iterator<Item = (&'a Rule, &'a Bounds)>,
    resource_known: bool,
) -> Result<Plan, String> {
    let mut plan = Plan::default();
    let add = |set: &mut Set, policy: Option<&Policy>| {
        policy.map_or(Ok(()), |it| set.add(it.clone()).map_err(|it| it.to_string()))
    };
    for (rule, bounds) in rules {
        match (&rule.kind, bounds.when(resource_known)) {
            (Kind::Hide, _) => {}
            (Kind::Permit, Approximation::Exact) => add(&mut plan.exact_permits, Some(&rule.policy))?,
            (Kind::Permit, Approximation::Bounds { over, .. }) => add(&mut plan.possible_permits, over.as_deref())?,
            (Kind::Deny | Kind::Gate(_), Approximation::Exact) => add(&mut plan.exact_forbids, Some(&rule.policy))?,
            (Kind::Deny, Approximation::Bounds { under, .. }) => add(&mut plan.certain_forbids, under.as_deref())?,
            (Kind::Gate(_), Approximation::Bounds { over, under }) => {
                add(&mut plan.certain_forbids, under.as_deref())?;
                add(&mut plan.possible_gates, over.as_deref())?;
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
        let early = match self.early(principal, identity, now, governed) {
            Ok(early) => early,
            Err(errors) => return Some(Decision::Failed(errors)),
        };
        match self.outlook(&early) {
            Outlook::Refused(decision) => Some(decision),
            Outlook::Open(_) => None,
        }
    }

    pub(super) fn listed(
        &self,
        principal: &Principal,
        identity: &Identity,
        now: Timestamp,
        governed: &Governed,
    ) -> Listed {
        let Ok(early) = self.early(principal, identity, now, governed) else { return Listed::No };
        if self.visibility_in(&early) != Visibility::Visible {
            return Listed::No;
        }
        match self.outlook(&early) {
            Outlook::Open(requires) => Listed::Yes(requires),
            Outlook::Refused(_) => Listed::No,
        }
    }

    fn outlook(&self, early: &Asked<'_>) -> Outlook {
        let plan = &early.compiled.plan;
        let evaluate = |set| self.evaluate(set, &early.request, &early.entities);
        let (permits, forbids) = (evaluate(&plan.exact_permits), evaluate(&plan.exact_forbids));
        // a policy that does not depend on the input errs for every input
        let mut errors = permits.errors;
        errors.extend(forbids.errors);
        if !errors.is_empty() {
            PolicyError::sort(&mut errors);
            return Outlook::Refused(Decision::Failed(errors));
        }
        // a lower bound that errs is not certain, an upper bound that errs is possible
        let mut certain = forbids.satisfied;
        certain.extend(evaluate(&plan.certain_forbids).satisfied);
        certain.sort_by(|one, two| one.id.cmp(&two.id));
        if let Some(denied) = denied(&certain) {
            return Outlook::Refused(denied);
        }
        let is_possible = |set| {
            let answer = evaluate(set);
            !answer.satisfied.is_empty() || !answer.errors.is_empty()
        };
        if permits.satisfied.is_empty() && !is_possible(&plan.possible_permits) {
            return Outlook::Refused(Decision::Deny { reason: None, policies: Vec::new() });
        }
        Outlook::Open(if certain.iter().any(|it| gate(it).is_some()) {
            RequiresApproval::Always
        } else if is_possible(&plan.possible_gates) {
            RequiresApproval::Sometimes
        } else {
            RequiresApproval::Never
        })
    }
}
