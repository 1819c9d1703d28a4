//! Which entities of the application a call's policies may read, and whether what comes back fits the schema.
//!
//! Policies are validated to follow attributes over two entities at most: the resource, and what its attributes name.
//! Parents are followed to their end, since `in` says no about an ancestor that is not there.

use std::collections::{BTreeMap, HashMap, HashSet};

use cedar_policy::{Entities, Entity, EntityTypeName, EntityUid};
use serde_json::{Map, Value};

use super::PolicySet;
use super::compile::{Compiled, Resource};
use super::request::{Principal, failure, projected};
use super::types::{Member, Type};
use super::value::uid;
use crate::audit::PolicyError;
use crate::capability::Governed;
use crate::resource::{EntityRef, ResourceEntity};

/// How many entities one call may need, parents and all, beside the principal.
const MAX_ENTITIES: usize = 128;
/// How many requests they may take.
const MAX_ROUNDS: u32 = 8;

type Failed = Vec<PolicyError>;

/// What the schema says of an entity type.
#[cfg_attr(test, derive(Clone))]
pub(super) struct Shape {
    pub(super) name: EntityTypeName,
    pub(super) attributes: BTreeMap<String, Member>,
    /// Whether there is anything to fetch: attributes or parents. Roles come with the principal only (INV-3).
    pub(super) fetched: bool,
}

/// By full name.
pub(super) type Shapes = HashMap<String, Shape>;

/// A failure to get what policies read.
pub(crate) fn not_gathered(kind: &str) -> Vec<PolicyError> {
    failure("resource", kind)
}

/// The entities of one call, beside the principal.
#[derive(Default)]
pub(crate) struct Gathered {
    pub(super) entities: Vec<Entity>,
    found: Vec<ResourceEntity>,
}

impl Gathered {
    /// As the application gave them.
    pub(crate) fn found(&self) -> &[ResourceEntity] {
        &self.found
    }
}

/// Collects the entities of one call, round by round.
pub(crate) struct Gathering<'a> {
    set: &'a PolicySet,
    /// What is there or was asked for, the principal included.
    known: HashSet<EntityUid>,
    /// The next round.
    wanted: BTreeMap<EntityRef, Wanted>,
    rounds: u32,
    gathered: Gathered,
}

struct Wanted {
    uid: EntityUid,
    /// The resource, whose attributes are followed.
    is_resource: bool,
}

impl PolicySet {
    /// What a call needs. Nothing, if its resource is the capability itself.
    pub(crate) fn gathering(
        &self,
        principal: &Principal,
        governed: &Governed,
        input: &Value,
    ) -> Result<Gathering<'_>, Failed> {
        let compiled = self.compiled(governed)?;
        let mut gathering = Gathering {
            set: self,
            known: HashSet::new(),
            wanted: BTreeMap::new(),
            rounds: 0,
            gathered: Gathered::default(),
        };
        if let Resource::Entity { kind, .. } = &compiled.resource {
            gathering.known.insert(principal.uid.clone());
            let resource = resource_of(compiled, input)?;
            let name = EntityRef::new(kind.to_string(), resource.id().unescaped());
            gathering.want(name, true)?;
        }
        Ok(gathering)
    }

    /// The same, from entities that are at hand.
    pub(crate) fn gathered(
        &self,
        principal: &Principal,
        governed: &Governed,
        input: &Value,
        at_hand: &[ResourceEntity],
    ) -> Result<Gathered, Failed> {
        let mut gathering = self.gathering(principal, governed, input)?;
        while !gathering.wanted.is_empty() {
            let found = at_hand.iter().filter(|it| gathering.wanted.contains_key(&it.entity));
            gathering.accept(found.cloned().collect())?;
        }
        gathering.finish()
    }
}

/// What a call acts on.
pub(super) fn resource_of(compiled: &Compiled, input: &Value) -> Result<EntityUid, Failed> {
    match &compiled.resource {
        Resource::Capability(it) => Ok(it.clone()),
        Resource::Entity { kind, pointer, .. } => match input.pointer(pointer) {
            Some(Value::String(id)) => Ok(uid(kind, id)),
            _ => Err(not_gathered("id_missing")),
        },
    }
}

impl Gathering<'_> {
    /// The names to ask for next, sorted. None: everything is there.
    pub(crate) fn wanted(&self) -> Vec<EntityRef> {
        self.wanted.keys().cloned().collect()
    }

    /// Takes what came back, which must be all that was asked for and nothing else.
    pub(crate) fn accept(&mut self, found: Vec<ResourceEntity>) -> Result<(), Failed> {
        let mut asked = std::mem::take(&mut self.wanted);
        for it in found {
            let wanted = asked.remove(&it.entity).ok_or_else(|| not_gathered("not_asked_for"))?;
            let entity = self.build(wanted, &it)?;
            self.gathered.entities.push(entity);
            self.gathered.found.push(it);
        }
        if !asked.is_empty() {
            return Err(not_gathered("entity_missing"));
        }
        self.rounds += 1;
        if self.rounds >= MAX_ROUNDS && !self.wanted.is_empty() { Err(not_gathered("too_deep")) } else { Ok(()) }
    }

    /// Checks all against the schema: enumerated ids, the types of parents, no parent its own ancestor.
    pub(crate) fn finish(self) -> Result<Gathered, Failed> {
        if self.gathered.entities.is_empty() {
            return Ok(self.gathered);
        }
        let all = self.gathered.entities.iter().cloned();
        let checked = Entities::empty().add_entities(all, Some(&self.set.schema));
        checked.map(|_| self.gathered).map_err(|_| not_gathered("not_in_schema")) // Cedar's text has attributes
    }

    fn want(&mut self, name: EntityRef, is_resource: bool) -> Result<EntityUid, Failed> {
        let shape = self.set.shapes.get(&name.kind).ok_or_else(|| not_gathered("not_in_schema"))?;
        let uid = uid(&shape.name, &name.id);
        if shape.fetched && self.known.insert(uid.clone()) {
            self.wanted.insert(name, Wanted { uid: uid.clone(), is_resource });
        }
        let principal = 1;
        if self.known.len() > MAX_ENTITIES + principal { Err(not_gathered("too_many")) } else { Ok(uid) }
    }

    fn build(&mut self, wanted: Wanted, given: &ResourceEntity) -> Result<Entity, Failed> {
        let set = self.set;
        let shape = set.shapes.get(&given.entity.kind).ok_or_else(|| not_gathered("not_in_schema"))?;
        if has_more(&shape.attributes, &given.attributes) {
            return Err(not_gathered("attribute_unknown"));
        }
        let attributes = projected("resource", &shape.attributes, &given.attributes)?;
        if wanted.is_resource {
            for name in named(&shape.attributes, &given.attributes) {
                self.want(name, false)?;
            }
        }
        if given.parents.len() > MAX_ENTITIES {
            return Err(not_gathered("too_many"));
        }
        let parents = given.parents.iter().map(|it| self.want(it.clone(), false)).collect::<Result<_, _>>()?;
        Entity::new(wanted.uid, attributes, parents).map_err(|_| not_gathered("attribute"))
    }
}

/// Whether there are members that are not declared: a misspelled one must not pass for an absent one.
fn has_more(declared: &BTreeMap<String, Member>, given: &Map<String, Value>) -> bool {
    given.iter().any(|(name, value)| declared.get(name).is_none_or(|it| value_has_more(&it.kind, value)))
}

fn value_has_more(kind: &Type, value: &Value) -> bool {
    match (kind, value) {
        (Type::Record(members), Value::Object(object)) => has_more(members, object),
        (Type::Set(element), Value::Array(all)) => all.iter().any(|it| value_has_more(element, it)),
        _ => false,
    }
}

/// The entities that attributes name.
fn named(declared: &BTreeMap<String, Member>, given: &Map<String, Value>) -> Vec<EntityRef> {
    let pairs = given.iter().filter_map(|(name, value)| Some((&declared.get(name)?.kind, value)));
    pairs.flat_map(|(kind, value)| named_by(kind, value)).collect()
}

fn named_by(kind: &Type, value: &Value) -> Vec<EntityRef> {
    match (kind, value) {
        (Type::Entity(name), Value::String(id)) => vec![EntityRef::new(name.to_string(), id)],
        (Type::Set(element), Value::Array(all)) => all.iter().flat_map(|it| named_by(element, it)).collect(),
        (Type::Record(members), Value::Object(object)) => named(members, object),
        _ => Vec::new(),
    }
}
