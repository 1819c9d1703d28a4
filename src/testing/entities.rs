//! Entities in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::resource::{EntityProvider, EntityRef, ResourceEntity};
use crate::{BoxError, Identity};

/// A provider that has its entities in memory and remembers what it was asked for. Clones are one provider.
#[derive(Clone, Debug, Default)]
pub struct TestEntities(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    entities: BTreeMap<EntityRef, ResourceEntity>,
    requests: Vec<Vec<EntityRef>>,
}

impl TestEntities {
    /// A provider of these.
    pub fn new(all: impl IntoIterator<Item = ResourceEntity>) -> Self {
        let it = Self::default();
        all.into_iter().for_each(|entity| it.put(entity));
        it
    }

    /// Adds one, or changes it.
    pub fn put(&self, entity: ResourceEntity) {
        self.shared().entities.insert(entity.entity.clone(), entity);
    }

    /// What it was asked for, request by request.
    pub fn requests(&self) -> Vec<Vec<EntityRef>> {
        self.shared().requests.clone()
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl EntityProvider for TestEntities {
    /// Those that there are; what is missing is left out.
    async fn entities(&self, wanted: &[EntityRef], _: &Identity) -> Result<Vec<ResourceEntity>, BoxError> {
        let mut shared = self.shared();
        shared.requests.push(wanted.to_vec());
        Ok(wanted.iter().filter_map(|it| shared.entities.get(it).cloned()).collect())
    }
}
