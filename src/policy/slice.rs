//! Which policies an action can be reached by. Cedar evaluates every policy that it is given, so each action gets its
//! own.

use std::collections::HashMap;
use std::sync::Arc;

use cedar_policy::{ActionConstraint, Effect, Entities, EntityUid, PolicySet};

use super::ManageAction;
use super::rules::{Kind, Rule};

/// An action of a capability.
pub(super) fn invoke_action(id: &str) -> Option<EntityUid> {
    Some(super::value::uid(&"Action".parse().ok()?, id))
}

/// A management action.
pub(super) fn manage_action(action: ManageAction) -> Option<EntityUid> {
    Some(super::value::uid(&"Countersign::Action".parse().ok()?, action.as_str()))
}

/// Who is in which group.
pub(super) struct Scope<'a> {
    actions: &'a Entities,
}

impl<'a> Scope<'a> {
    pub(super) fn new(actions: &'a Entities) -> Self {
        Self { actions }
    }

    /// Whether a policy can apply to calls of a capability, by the capability's action.
    pub(super) fn invokes(&self, rule: &Rule, action: &EntityUid) -> bool {
        self.covers(rule, action)
    }

    /// Whether a policy can apply to a management action. A permit only by naming one, or their group: what permits
    /// every action must not hand out approving and publishing.
    pub(super) fn manages(&self, rule: &Rule, action: &EntityUid) -> bool {
        let names_it = match rule.policy.action_constraint() {
            ActionConstraint::Any => rule.policy.effect() == Effect::Forbid,
            ActionConstraint::Eq(_) | ActionConstraint::In(_) => true,
        };
        names_it && self.covers(rule, action)
    }

    pub(super) fn covers(&self, rule: &Rule, action: &EntityUid) -> bool {
        match rule.policy.action_constraint() {
            ActionConstraint::Any => true,
            ActionConstraint::Eq(it) => it == *action,
            ActionConstraint::In(all) => all.iter().any(|it| it == action || self.actions.is_ancestor_of(it, action)),
        }
    }
}

/// The policies that can apply to an action, each evaluated once: a set of forbids answers with exactly the satisfied
/// ones, and permits are not reported beside forbids.
#[derive(Default)]
pub(super) struct Slice {
    pub(super) permits: PolicySet,
    /// Plain ones and gates.
    pub(super) forbids: PolicySet,
    pub(super) hides: PolicySet,
}

#[cfg(feature = "prove")]
impl Slice {
    pub(super) fn all(&self) -> impl Iterator<Item = &cedar_policy::Policy> {
        [&self.permits, &self.forbids, &self.hides].into_iter().flat_map(PolicySet::policies)
    }
}

/// Makes slices; equal ones are one.
#[derive(Default)]
pub(super) struct Slices {
    made: HashMap<Vec<usize>, Arc<Slice>>,
}

impl Slices {
    /// The slice of these places in `rules`.
    pub(super) fn of(&mut self, rules: &[Rule], chosen: &[usize]) -> Result<Arc<Slice>, String> {
        if let Some(made) = self.made.get(chosen) {
            return Ok(Arc::clone(made));
        }
        let made = Arc::new(slice(chosen.iter().map(|at| &rules[*at]))?);
        self.made.insert(chosen.to_vec(), Arc::clone(&made));
        Ok(made)
    }
}

fn slice<'a>(rules: impl Iterator<Item = &'a Rule>) -> Result<Slice, String> {
    let mut slice = Slice::default();
    for rule in rules {
        let set = match rule.kind {
            Kind::Permit => &mut slice.permits,
            Kind::Deny | Kind::Gate(_) => &mut slice.forbids,
            Kind::Hide => &mut slice.hides,
        };
        set.add(rule.policy.clone()).map_err(|it| it.to_string())?;
    }
    Ok(slice)
}

/// Every satisfied forbid of a management action is a plain deny, whatever its annotations.
pub(super) fn managing<'a>(rules: impl Iterator<Item = &'a Rule>) -> Result<Slice, String> {
    let Slice { permits, mut forbids, hides } = slice(rules)?;
    for hide in hides.policies() {
        forbids.add(hide.clone()).map_err(|it| it.to_string())?;
    }
    Ok(Slice { permits, forbids, hides: PolicySet::new() })
}
