//! People and entities as files describe them.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::resource::{EntityRef, ResourceEntity};
use crate::{Actor, ActorKind, Identity};

/// An actor as a file describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActorGiven {
    id: String,
    kind: ActorKind,
    #[serde(default)]
    tenant: Option<String>,
    #[serde(default)]
    issuer: Option<String>,
    #[serde(default)]
    roles: Vec<String>,
    #[serde(default)]
    scopes: Vec<String>,
    #[serde(default)]
    attributes: Map<String, Value>,
}

impl ActorGiven {
    /// Whether it says who vouched for the id: of a real caller only a verified credential may.
    pub(crate) fn has_issuer(&self) -> bool {
        self.issuer.is_some()
    }

    /// Whoever it describes, on the surface `direct`.
    ///
    /// # Errors
    /// What of it no actor can have, in words that follow its name.
    pub(crate) fn identity(self) -> Result<Identity, &'static str> {
        let mut actor = Actor::new(self.kind, self.id);
        (actor.issuer, actor.roles, actor.scopes) = (self.issuer, self.roles, self.scopes);
        actor.attributes = self.attributes;
        if !actor.is_well_formed() {
            return Err("has an empty id, or one with control characters");
        }
        match self.tenant {
            Some(tenant) if tenant.trim().is_empty() => Err("has an empty tenant"),
            Some(tenant) => Ok(Identity::new(actor).tenant(tenant)),
            None => Ok(Identity::new(actor)),
        }
    }
}

/// Somebody known by name, or described in place.
#[derive(Clone, Debug)]
pub(super) enum Who {
    Name(String),
    Actor(Box<ActorGiven>),
}

// Not `untagged`: that would lose where in the file something is wrong, and what.
impl<'de> Deserialize<'de> for Who {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Who;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an actor, or `{id, kind, ..}`")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Who, E> {
                Ok(Who::Name(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Who, A::Error> {
                ActorGiven::deserialize(MapAccessDeserializer::new(map)).map(|it| Who::Actor(Box::new(it)))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// An entity of the application.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EntityGiven {
    #[serde(rename = "type")]
    kind: String,
    id: String,
    #[serde(default)]
    attributes: Map<String, Value>,
    #[serde(default)]
    parents: Vec<EntityName>,
}

/// An entity's name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntityName {
    #[serde(rename = "type")]
    kind: String,
    id: String,
}

impl EntityGiven {
    /// As the application would give it.
    pub(super) fn entity(&self) -> ResourceEntity {
        let parents = self.parents.iter().map(|it| EntityRef::new(&*it.kind, &*it.id)).collect();
        let entity = EntityRef::new(&*self.kind, &*self.id);
        ResourceEntity { entity, attributes: self.attributes.clone(), parents }
    }
}
