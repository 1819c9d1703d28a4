//! The application's entities that calls are about: what policies read of an order, and who fetches it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::caught::caught_async;
use crate::clock::Clock;
use crate::{BoxError, Identity};

/// How long fetching a call's entities may take, all rounds together.
const LIMIT: Duration = Duration::from_secs(5);

/// The name of an entity of the application.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EntityRef {
    /// Its Cedar entity type, as `schema.cedarschema` declares it: `Order`, `Shop::Desk`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Unique within its type.
    pub id: String,
}

impl EntityRef {
    /// The entity of this type with this id.
    pub fn new(kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self { kind: kind.into(), id: id.into() }
    }
}

/// An entity of the application as policies see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceEntity {
    /// Its name.
    pub entity: EntityRef,
    /// By name, as its type declares them; null is absent. Where an entity is declared, the id of one. One that is not
    /// declared, or has another type, fails the call: a misspelled name must not pass for an absent one.
    pub attributes: Map<String, Value>,
    /// What it is `in`, as its type declares it.
    pub parents: Vec<EntityRef>,
}

impl ResourceEntity {
    /// An entity without attributes and parents.
    pub fn new(kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self { entity: EntityRef::new(kind, id), attributes: Map::new(), parents: Vec::new() }
    }

    /// Adds an attribute.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// Adds a parent.
    #[must_use]
    pub fn parent(mut self, kind: impl Into<String>, id: impl Into<String>) -> Self {
        self.parents.push(EntityRef::new(kind, id));
        self
    }
}

/// Fetches the entities that policies read. Asked by calls of capabilities with a
/// [`resource`](crate::CapabilityBuilder::resource) only, after their input was validated and before policies decide.
///
/// The first request names the resource. Each further one names all that the entities so far are `in` or that the
/// resource's attributes name, unless it is there already or its type has neither attributes nor parents; so entities
/// that belong together cost one request a level, at most 8 of them, for at most 128 entities, within 5 s together. A
/// resumed call asks again, and so does one whose policy set was replaced under way.
///
/// What was asked for must come, and nothing else may: an error, a panic, a missing entity, one that does not fit the
/// schema, and running out of time all deny with `POLICY_FAILED`. The principal is never asked for, nor is a role.
///
/// Whom policies refuse whatever the input is told that, whether or not there is such an entity. Any other caller can
/// tell a missing one from one that policies refuse, which is `POLICY_DENIED`; where that says too much, answer for a
/// missing one with an entity that no policy permits.
#[async_trait]
pub trait EntityProvider: Send + Sync + 'static {
    /// The entities of these names, in any order. `identity` is who calls; whether they may is for policies to say.
    ///
    /// # Errors
    /// Why they cannot be had. The engine never logs an application's cause, since nobody knows what is in it: log it before
    /// you return it. The log and the record say `provider_failed`.
    async fn entities(&self, wanted: &[EntityRef], identity: &Identity) -> Result<Vec<ResourceEntity>, BoxError>;
}

/// The application's provider behind the engine's limits.
pub(crate) struct Resources {
    pub(crate) provider: Option<Arc<dyn EntityProvider>>,
    pub(crate) clock: Clock,
}

impl Resources {
    /// Asks once. The error is the kind of what went wrong, for the record.
    pub(crate) async fn ask(
        &self,
        wanted: &[EntityRef],
        identity: &Identity,
    ) -> Result<Vec<ResourceEntity>, &'static str> {
        let provider = self.provider.as_ref().ok_or("no_provider")?;
        match caught_async(async { provider.entities(wanted, identity).await }).await {
            Ok(Ok(found)) => Ok(found),
            // Why is the application's to log, where it knows what may be in it: nobody here does.
            Ok(Err(_)) => {
                tracing::warn!(kind = "provider_failed", "entities cannot be had");
                Err("provider_failed")
            }
            Err(_) => Err("provider_panicked"),
        }
    }

    /// Bounds all rounds of one call together. `None` if the time was up.
    pub(crate) async fn within<T>(&self, rounds: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = rounds => Some(done),
            () = self.clock.sleep(LIMIT) => None,
        }
    }
}
