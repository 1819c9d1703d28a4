//! Deciding: hides first, then the five steps of document 4.

use std::collections::BTreeMap;
use std::time::Duration;

use cedar_policy::{AuthorizationError, Entities, EvaluationError, Request};

use super::compile::Compiled;
use super::gather::Gathered;
use super::request::{Principal, failure, invoke_context};
use super::rules::{Gate, Kind, Rule};
use super::{Case, Covers, Decision, Gates, PolicySet, Visibility};
use crate::actor::Identity;
use crate::audit::{PolicyError, PolicyRef, Requirement};
use crate::capability::Governed;
use crate::clock::Timestamp;

/// The satisfied policies of a set, by id, and those that could not be evaluated.
#[derive(Default)]
pub(super) struct Answer<'a> {
    pub(super) satisfied: Vec<&'a Rule>,
    pub(super) errors: Vec<PolicyError>,
}

/// What Cedar is asked about a call.
pub(super) struct Asked<'a> {
    pub(super) compiled: &'a Compiled,
    pub(super) request: Request,
    pub(super) entities: Entities,
}

impl PolicySet {
    pub(super) fn compiled(&self, governed: &Governed) -> Result<&Compiled, Vec<PolicyError>> {
        self.capabilities.get(&governed.id).ok_or_else(|| failure("capability", "unknown"))
    }

    /// Both of Cedar's lists are in the order of a hash set, and its texts carry input: so sorted, and only kinds.
    pub(super) fn evaluate(&self, set: &cedar_policy::PolicySet, request: &Request, entities: &Entities) -> Answer<'_> {
        if set.is_empty() {
            return Answer::default();
        }
        let response = self.authorizer.is_authorized(request, set, entities);
        let mut errors: Vec<PolicyError> = response.diagnostics().errors().map(policy_error).collect();
        PolicyError::sort(&mut errors);
        let found = response.diagnostics().reason().filter_map(|it| self.rules.get::<str>(it.as_ref()));
        let mut satisfied: Vec<&Rule> = found.collect();
        satisfied.sort_by(|one, two| one.id.cmp(&two.id));
        Answer { satisfied, errors }
    }

    pub(super) fn visibility_of(
        &self,
        principal: &Principal,
        identity: &Identity,
        now: Timestamp,
        governed: &Governed,
    ) -> Result<Visibility, Vec<PolicyError>> {
        let compiled = self.compiled(governed)?;
        if compiled.slice.hides.is_empty() {
            return Ok(Visibility::Visible);
        }
        self.early(principal, identity, now, governed).map(|it| self.visibility_in(&it))
    }

    /// The question before there is input: the resource is known only if it is the capability itself.
    pub(super) fn early(
        &self,
        principal: &Principal,
        identity: &Identity,
        now: Timestamp,
        governed: &Governed,
    ) -> Result<Asked<'_>, Vec<PolicyError>> {
        let compiled = self.compiled(governed)?;
        let request = principal.early_request(compiled, identity, now)?;
        Ok(Asked { compiled, request, entities: principal.among(&compiled.base, &Gathered::default())? })
    }

    /// Satisfied or erring, a hide conceals.
    pub(super) fn visibility_in(&self, early: &Asked<'_>) -> Visibility {
        let answer = self.evaluate(&early.compiled.slice.hides, &early.request, &early.entities);
        match (answer.errors.is_empty(), answer.satisfied.is_empty()) {
            (false, _) => Visibility::Failed(answer.errors),
            (true, false) => Visibility::Hidden(references(&answer.satisfied)),
            (true, true) => Visibility::Visible,
        }
    }

    pub(super) fn decision_of(&self, principal: &Principal, case: &Case<'_>) -> Result<Decision, Vec<PolicyError>> {
        let Asked { compiled, request, entities } = self.asked(principal, case)?;
        let permits = self.evaluate(&compiled.slice.permits, &request, &entities);
        let forbids = self.evaluate(&compiled.slice.forbids, &request, &entities);
        Ok(settle(permits, forbids, case.covers))
    }

    /// The question of stage 7.
    pub(super) fn asked(&self, principal: &Principal, case: &Case<'_>) -> Result<Asked<'_>, Vec<PolicyError>> {
        let compiled = self.compiled(case.governed)?;
        let context = invoke_context(compiled, case)?;
        let request = self.request(compiled, principal, context, case.input)?;
        Ok(Asked { compiled, request, entities: principal.among(&compiled.base, case.entities)? })
    }
}

/// Steps 2 to 5 over what was satisfied.
fn settle(permits: Answer<'_>, forbids: Answer<'_>, covers: Option<&Covers>) -> Decision {
    // Cedar skips a policy that errs, so an erring forbid would fail open.
    let mut errors = permits.errors;
    errors.extend(forbids.errors);
    if !errors.is_empty() {
        PolicyError::sort(&mut errors);
        return Decision::Failed(errors);
    }
    if let Some(denied) = denied(&forbids.satisfied) {
        return denied;
    }
    if permits.satisfied.is_empty() {
        return Decision::Deny { reason: None, policies: Vec::new() };
    }
    let gates: Vec<(&Rule, &Gate)> = forbids.satisfied.iter().filter_map(|it| gate(it)).collect();
    let mut all = permits.satisfied;
    all.extend(gates.iter().map(|it| it.0));
    all.sort_by(|one, two| one.id.cmp(&two.id));
    let policies = references(&all);
    if gates.iter().all(|(_, gate)| is_lifted(gate, covers)) {
        return Decision::Allow { policies };
    }
    Decision::RequireApproval(union(&gates, policies))
}

/// Step 3: the plain forbids, if there are any. A gate never leaks what a person could not have lifted.
pub(super) fn denied(forbids: &[&Rule]) -> Option<Decision> {
    let plain: Vec<&Rule> = forbids.iter().copied().filter(|it| gate(it).is_none()).collect();
    if plain.is_empty() {
        return None;
    }
    let reason = plain.iter().find_map(|it| it.reason.clone());
    Some(Decision::Deny { reason, policies: references(&plain) })
}

pub(super) fn gate(rule: &Rule) -> Option<(&Rule, &Gate)> {
    match &rule.kind {
        Kind::Gate(gate) => Some((rule, gate)),
        Kind::Permit | Kind::Deny | Kind::Hide => None,
    }
}

/// Step 5: an approval lifts a gate only if it covers its type and quorum.
fn is_lifted(gate: &Gate, covers: Option<&Covers>) -> bool {
    let people = covers.and_then(|it| it.types.get(&gate.requirement.kind));
    people.is_some_and(|it| *it >= gate.requirement.quorum)
}

/// Step 4, and APR-7: one request for all of today's gates, covered or not.
pub(super) fn union(gates: &[(&Rule, &Gate)], policies: Vec<PolicyRef>) -> Gates {
    let mut quorums: BTreeMap<&str, u32> = BTreeMap::new();
    let mut reasons: Vec<String> = Vec::new();
    for (rule, gate) in gates {
        let quorum = quorums.entry(&gate.requirement.kind).or_default();
        *quorum = gate.requirement.quorum.max(*quorum);
        reasons.extend(rule.reason.clone().filter(|it| !reasons.contains(it)));
    }
    let requirements = quorums.into_iter().map(|(kind, quorum)| Requirement { kind: kind.into(), quorum });
    let expires_in = gates.iter().map(|it| it.1.expires_in).min().unwrap_or(Duration::ZERO);
    Gates { requirements: requirements.collect(), expires_in, reasons, policies }
}

pub(super) fn references(rules: &[&Rule]) -> Vec<PolicyRef> {
    rules.iter().map(|it| it.reference()).collect()
}

/// Its id and its kind.
pub(super) fn policy_error(it: &AuthorizationError) -> PolicyError {
    let AuthorizationError::PolicyEvaluationError(it) = it;
    PolicyError { policy: it.policy_id().to_string(), kind: kind(it.inner()).to_owned() }
}

fn kind(it: &EvaluationError) -> &'static str {
    match it {
        EvaluationError::IntegerOverflow(_) => "integer_overflow",
        EvaluationError::EntityDoesNotExist(_) => "entity_missing",
        EvaluationError::EntityAttrDoesNotExist(_) | EvaluationError::RecordAttrDoesNotExist(_) => "attribute_missing",
        EvaluationError::TypeError(_) => "wrong_type",
        EvaluationError::RecursionLimit(_) => "recursion_limit",
        EvaluationError::FailedExtensionFunctionExecution(_) => "extension_function",
        _ => "other",
    }
}
