//! Why a policy holds of a call or not, part by part, and where it stands.
//!
//! Parts are policies of their own, with one part of the scope or one conjunct of a condition each, evaluated on the very
//! request and entities that deciding saw.

use std::borrow::Cow;

use cedar_policy::pst::{ActionConstraint, Clause, Effect, PrincipalConstraint, ResourceConstraint, Template};
use cedar_policy::{Decision as Answer, PolicySet as Set};
use serde::{Deserialize, Serialize};

use super::approvers::can_be_given;
use super::decide::{Asked, policy_error};
use super::discover::CONTEXT;
use super::request::Principal;
use super::rules::{Kind, Origin, Place, Rule};
use super::tree::{Known, body, conjuncts, rebuild};
use super::{Case, ManageAction, PolicySet};
use crate::actor::Identity;
use crate::audit::PolicyError;
use crate::capability::Governed;
use crate::clock::Timestamp;

/// How many of the permits that nearly held are shown.
const NEAREST: usize = 3;

/// The longest text of a part, in characters.
const MAX_TEXT: usize = 300;

/// A policy as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Told {
    pub(crate) id: String,
    /// permit, forbid, hide or gate.
    pub(crate) effect: String,
    #[serde(flatten)]
    pub(crate) place: Place,
    pub(crate) source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// What lifts it, if it is a gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gate: Option<GateTold>,
    /// Why it holds of a call or not, if that was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) parts: Vec<Part>,
}

/// What lifts a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GateTold {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) quorum: u32,
    pub(crate) expires_in_seconds: u64,
}

/// A part of a policy that must hold for the whole to hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// principal, action, resource, when or unless.
    #[serde(rename = "part")]
    pub(crate) of: Cow<'static, str>,
    pub(crate) text: String,
    #[serde(flatten)]
    pub(crate) holds: Holds,
}

/// Whether a part lets its policy hold: an `unless` does if it is false.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "holds", content = "error", rename_all = "snake_case")]
pub(crate) enum Holds {
    Yes,
    No,
    /// It could not be evaluated; the kind, never Cedar's text, which carries input (INV-9).
    Failed(String),
    /// It depends on the input, and there is none.
    Unknown,
    /// What came before it did not hold.
    NotReached,
}

/// The permits that came nearest to permitting a call.
#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Nearest {
    pub(crate) permits: Vec<Told>,
    /// How many more there are for the capability.
    pub(crate) more: usize,
}

/// A call that policies are asked about one by one.
pub(crate) struct Inquiry<'a> {
    set: &'a PolicySet,
    asked: Asked<'a>,
    /// What is known of a call without input.
    known: Option<Known>,
}

impl PolicySet {
    /// Where a policy stands, if the set has it.
    pub(crate) fn place(&self, id: &str) -> Option<&Place> {
        self.rules.get(id).map(|it| &it.place)
    }

    /// Every policy that is written in a file, by id. Capabilities' own gates are not.
    pub(crate) fn written(&self) -> Vec<(&str, &Place)> {
        let in_file = |it: &&Rule| matches!(it.origin, Origin::File { .. });
        let mut all: Vec<_> = self.rules.values().filter(in_file).map(|it| (it.id.as_str(), &it.place)).collect();
        all.sort_unstable_by_key(|it| it.0);
        all
    }

    /// A policy as it is written, if the set has it.
    pub(crate) fn told(&self, id: &str) -> Option<Told> {
        self.rules.get(id).map(|it| told(it, Vec::new()))
    }

    /// The policies that say who gives approvals of this type: the permits that may hold, and every forbid.
    pub(crate) fn approving(&self, kind: &str) -> Vec<Told> {
        let Ok(managing) = self.managing(ManageAction::Approve) else { return Vec::new() };
        let slices = [&managing.slice.permits, &managing.slice.forbids];
        let ids = slices.into_iter().flat_map(Set::policies).map(|it| it.id().to_string());
        let rules = ids.filter_map(|id| self.rules.get(&id));
        let may_hold =
            |it: &&Rule| !matches!(it.kind, Kind::Permit) || can_be_given(kind, [*it].into_iter(), &managing.base);
        let mut all: Vec<Told> = rules.filter(may_hold).map(|it| told(it, Vec::new())).collect();
        all.sort_by(|one, two| one.id.cmp(&two.id));
        all
    }

    /// The call that policies are asked about.
    ///
    /// # Errors
    /// If policies cannot be asked about such a call at all.
    pub(crate) fn inquire(&self, principal: &Principal, case: &Case<'_>) -> Result<Inquiry<'_>, Vec<PolicyError>> {
        Ok(Inquiry { set: self, asked: self.asked(principal, case)?, known: None })
    }

    /// The same without input: what depends on it stays unknown.
    ///
    /// # Errors
    /// As for [`Self::inquire`].
    pub(crate) fn inquire_early(
        &self,
        principal: &Principal,
        identity: &Identity,
        now: Timestamp,
        governed: &Governed,
    ) -> Result<Inquiry<'_>, Vec<PolicyError>> {
        let known = Known { principal: true, resource: governed.meta.resource.is_none(), context: CONTEXT };
        Ok(Inquiry { set: self, asked: self.early(principal, identity, now, governed)?, known: Some(known) })
    }
}

impl Inquiry<'_> {
    /// Why a policy holds of this call or not.
    pub(crate) fn explain(&self, id: &str) -> Option<Told> {
        let rule = self.set.rules.get(id)?;
        Some(told(rule, self.parts(&body(&rule.policy)?)))
    }

    /// Those that are for this capability; if there are none, those that are for somebody like this.
    pub(crate) fn nearest(&self) -> Nearest {
        let mut permits: Vec<Told> =
            self.set.rules.values().filter(|it| is_of_calls(it)).filter_map(|it| self.explain(&it.id)).collect();
        let misses = |it: &Told, part: &str| it.parts.iter().any(|it| it.of == part && it.holds == Holds::No);
        if permits.iter().any(|it| !misses(it, "action")) {
            permits.retain(|it| !misses(it, "action"));
        } else {
            permits.retain(|it| !misses(it, "principal"));
        }
        // First those of which less of the scope is wrong, then those of which less of the conditions is left.
        let distance = |it: &Told| {
            let scope = it.parts.iter().take(3).filter(|it| it.holds == Holds::No).count();
            (scope, it.parts.iter().filter(|it| it.holds != Holds::Yes).count())
        };
        permits.sort_by(|one, two| distance(one).cmp(&distance(two)).then_with(|| one.id.cmp(&two.id)));
        let more = permits.len().saturating_sub(NEAREST);
        permits.truncate(NEAREST);
        Nearest { permits, more }
    }

    /// In Cedar's order, up to the first condition that does not hold. The scope cannot err, so all of it is told.
    fn parts(&self, policy: &Template) -> Vec<Part> {
        let mut parts = self.scope(policy);
        let mut reached = parts.iter().all(|it| it.holds != Holds::No);
        for (part, clause) in policy.clauses().iter().flat_map(conjuncts) {
            let holds = if reached { self.condition(&clause, &parts) } else { Holds::NotReached };
            reached = reached && matches!(holds, Holds::Yes | Holds::Unknown);
            let (Clause::When(expr) | Clause::Unless(expr)) = &clause;
            parts.push(Part { of: part.into(), text: cut(&expr.to_string()), holds });
        }
        parts
    }

    fn scope(&self, policy: &Template) -> Vec<Part> {
        let any = || (PrincipalConstraint::Any, ActionConstraint::Any, ResourceConstraint::Any);
        let alone = |(principal, action, resource)| Template::new("part", Effect::Permit, principal, action, resource);
        let resource = match (&self.known, &policy.resource) {
            (Some(Known { resource: false, .. }), it)
                if !matches!(it, ResourceConstraint::Any | ResourceConstraint::Is(_)) =>
            {
                Holds::Unknown
            }
            _ => self.holds(alone((any().0, any().1, policy.resource.clone()))),
        };
        let principal = self.holds(alone((policy.principal.clone(), any().1, any().2)));
        let action = self.holds(alone((any().0, policy.action.clone(), any().2)));
        let part = |of: &'static str, constraint: String, holds| {
            let text = cut(format!("{of} {constraint}").trim_end());
            Part { of: of.into(), text, holds }
        };
        vec![
            part("principal", policy.principal.to_string(), principal),
            part("action", policy.action.to_string(), action),
            part("resource", policy.resource.to_string(), resource),
        ]
    }

    fn condition(&self, clause: &Clause, before: &[Part]) -> Holds {
        let (Clause::When(expr) | Clause::Unless(expr)) = clause;
        if self.known.is_some_and(|it| !it.covers(expr)) {
            return Holds::Unknown;
        }
        let policy = Template::new(
            "part",
            Effect::Permit,
            PrincipalConstraint::Any,
            ActionConstraint::Any,
            ResourceConstraint::Any,
        );
        let holds = policy.try_with_clauses([clause.clone()]).map_or(Holds::Unknown, |it| self.holds(it));
        // What stands before it, and nobody knows, may be what keeps it from erring.
        let guarded = before.iter().any(|it| it.holds == Holds::Unknown);
        if guarded && matches!(holds, Holds::Failed(_)) { Holds::Unknown } else { holds }
    }

    fn holds(&self, part: Template) -> Holds {
        let set = rebuild(part).and_then(|it| Set::from_policies([it]).ok());
        let Some(set) = set else { return Holds::Unknown };
        let answer = self.set.authorizer.is_authorized(&self.asked.request, &set, &self.asked.entities);
        match (answer.diagnostics().errors().next(), answer.decision()) {
            (Some(error), _) => Holds::Failed(policy_error(error).kind),
            (None, Answer::Allow) => Holds::Yes,
            (None, Answer::Deny) => Holds::No,
        }
    }
}

/// A permit that is not about management alone.
fn is_of_calls(rule: &Rule) -> bool {
    let is_call = |it: &cedar_policy::EntityUid| it.type_name().to_string() == "Action";
    matches!(rule.kind, Kind::Permit)
        && match rule.policy.action_constraint() {
            cedar_policy::ActionConstraint::Any => true,
            cedar_policy::ActionConstraint::Eq(it) => is_call(&it),
            cedar_policy::ActionConstraint::In(all) => all.iter().any(is_call),
        }
}

fn told(rule: &Rule, parts: Vec<Part>) -> Told {
    let reference = rule.reference();
    let gate = match &rule.kind {
        Kind::Gate(gate) => Some(GateTold {
            kind: gate.requirement.kind.clone(),
            quorum: gate.requirement.quorum,
            expires_in_seconds: gate.expires_in.as_secs(),
        }),
        Kind::Permit | Kind::Deny | Kind::Hide => None,
    };
    Told {
        id: reference.id,
        effect: reference.effect,
        place: rule.place.clone(),
        source: rule.policy.to_cedar().unwrap_or_default(),
        reason: rule.reason.clone(),
        gate,
        parts,
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((at, _)) => format!("{}..", &text[..at]),
        None => text.to_owned(),
    }
}
