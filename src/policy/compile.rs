//! From checked rules to what deciding needs: everything that does not depend on a call is made here, once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use cedar_policy::{Authorizer, Entities, Entity, EntityTypeName, EntityUid};

use super::discover::{Bounds, Plan, plan};
use super::hash::hash;
use super::request::Projection;
use super::rules::Rule;
use super::schema::Generated;
use super::slice::{Scope, Slice, Slices, invoke_action, manage_action, managing};
use super::types::Type;
use super::value::{string, strings, uid};
use super::{ManageAction, PolicySet, Said, Texts};
use crate::CapabilityId;
use crate::actor::ActorKind;
use crate::capability::Governed;

/// A capability as policies see it.
pub(super) struct Compiled {
    pub(super) action: EntityUid,
    pub(super) resource: Resource,
    /// The action, without which no group holds, and the capability.
    pub(super) base: Entities,
    pub(super) input: Type,
    pub(super) slice: Arc<Slice>,
    pub(super) plan: Arc<Plan>,
}

/// What a call acts on.
pub(super) enum Resource {
    Capability(EntityUid),
    /// The application's entity of this type, whose id the input has at this JSON Pointer.
    Entity {
        kind: EntityTypeName,
        pointer: String,
        unknown: EntityUid,
    },
}

/// A management action as policies see it.
pub(super) struct Managing {
    pub(super) action: EntityUid,
    pub(super) base: Entities,
    pub(super) slice: Slice,
}

/// The names of the types that management is about.
pub(super) struct ManagedTypes {
    pub(super) approval: EntityTypeName,
    pub(super) engine: EntityUid,
}

pub(super) fn compile(
    generated: Generated,
    rules: Vec<Rule>,
    capabilities: &[Arc<Governed>],
    texts: Texts,
) -> Result<PolicySet, String> {
    let hash = hash(&generated.text, &rules)?;
    let said = Said::of(&rules, &texts)?;
    let Generated { schema, text, actions, mut inputs, shapes, attributes, roles, .. } = generated;
    let mut compiler = Compiler {
        rules: &rules,
        actions: &actions,
        slices: Slices::default(),
        bounds: rules.iter().map(Bounds::of).collect::<Result<_, _>>()?,
        plans: HashMap::new(),
    };
    let mut by_capability = HashMap::new();
    for capability in capabilities {
        let input = inputs.remove(&capability.id).ok_or("a capability has no input type")?;
        by_capability.insert(capability.id.clone(), compiler.capability(capability, input)?);
    }
    let managing = ManageAction::ALL.into_iter().map(|it| compiler.managing(it)).collect::<Result<Vec<_>, _>>()?;
    let projection = Projection::new(attributes, roles)?;
    let name = |it: &str| it.parse::<EntityTypeName>().map_err(|it| it.to_string());
    let managed =
        ManagedTypes { approval: name("Countersign::Approval")?, engine: uid(&name("Countersign::Engine")?, "engine") };
    Ok(PolicySet {
        schema,
        text,
        hash: hash.into(),
        texts,
        said,
        authorizer: Authorizer::new(),
        rules: rules.into_iter().map(|it| (it.id.clone(), it)).collect(),
        capabilities: by_capability,
        managing,
        managed,
        projection,
        shapes,
    })
}

struct Compiler<'a> {
    rules: &'a [Rule],
    actions: &'a Entities,
    slices: Slices,
    /// Of each rule.
    bounds: Vec<Bounds>,
    plans: HashMap<(Vec<usize>, bool), Arc<Plan>>,
}

impl Compiler<'_> {
    fn choose(&self, fits: impl Fn(&Scope<'_>, &Rule) -> bool) -> Vec<usize> {
        let scope = Scope::new(self.actions);
        (0..self.rules.len()).filter(|at| fits(&scope, &self.rules[*at])).collect()
    }

    fn action(&self, uid: Option<EntityUid>) -> Result<Entity, String> {
        let uid = uid.ok_or("an action has no name")?;
        self.actions.get(&uid).cloned().ok_or_else(|| format!("the schema has no action `{uid}`"))
    }

    fn capability(&mut self, capability: &Governed, input: Type) -> Result<Compiled, String> {
        let action = self.action(invoke_action(&capability.id))?;
        let entity = capability_entity(capability)?;
        let resource = resource(capability, &entity)?;
        let known = matches!(resource, Resource::Capability(_));
        let uid = action.uid();
        let chosen = self.choose(|scope, rule| scope.invokes(rule, &uid));
        let key = (chosen, known);
        let plan = match self.plans.get(&key) {
            Some(made) => Arc::clone(made),
            None => Arc::new(plan(key.0.iter().map(|at| (&self.rules[*at], &self.bounds[*at])), known)?),
        };
        let slice = self.slices.of(self.rules, &key.0)?;
        self.plans.insert(key, Arc::clone(&plan));
        // both are ours, and the schema is checked with each call's own entity
        let base = [action].into_iter().chain(known.then_some(entity));
        let base = Entities::from_entities(base, None).map_err(|it| it.to_string())?;
        Ok(Compiled { action: uid, resource, base, input, slice, plan })
    }

    fn managing(&self, action: ManageAction) -> Result<Managing, String> {
        let entity = self.action(manage_action(action))?;
        let uid = entity.uid();
        let chosen = self.choose(|scope, rule| scope.manages(rule, &uid));
        let slice = managing(chosen.iter().map(|at| &self.rules[*at]))?;
        let base = Entities::from_entities([entity], None).map_err(|it| it.to_string())?;
        Ok(Managing { action: uid, base, slice })
    }
}

fn resource(capability: &Governed, entity: &Entity) -> Result<Resource, String> {
    let Some(mapping) = &capability.meta.resource else { return Ok(Resource::Capability(entity.uid())) };
    let kind: EntityTypeName = mapping.entity.parse().map_err(|_| format!("`{}` is no type", mapping.entity))?;
    Ok(Resource::Entity { unknown: uid(&kind, ""), kind, pointer: mapping.id.clone() })
}

fn capability_entity(capability: &Governed) -> Result<Entity, String> {
    let kind = "Capability".parse().map_err(|_| "`Capability` is no type")?;
    let tags: BTreeSet<&String> = capability.meta.tags.iter().collect();
    let attributes = [
        ("effect", string(capability.side_effect.as_str())),
        ("risk", string(capability.risk.as_str())),
        ("tags", strings(tags)),
    ];
    let attributes = attributes.map(|(name, value)| (name.to_owned(), value)).into();
    Entity::new(uid(&kind, &capability.id), attributes, HashSet::default()).map_err(|it| it.to_string())
}

/// Every kind's entity type.
pub(super) fn principal_types() -> Result<HashMap<ActorKind, EntityTypeName>, String> {
    let parse = |kind: ActorKind| Ok((kind, kind.entity_type().parse().map_err(|_| "a principal has no type")?));
    ActorKind::ALL.into_iter().map(parse).collect()
}

pub(super) type ByCapability = HashMap<CapabilityId, Compiled>;
