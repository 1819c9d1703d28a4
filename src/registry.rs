//! All capabilities of an engine, checked.

use std::collections::HashMap;
use std::sync::Arc;

use crate::CapabilityId;
use crate::builder::Problem;
use crate::capability::{Draft, Governed};

/// All capabilities of an engine, in registration order.
#[derive(Default)]
pub(crate) struct Registry {
    all: Vec<Arc<Governed>>,
    by_id: HashMap<CapabilityId, Arc<Governed>>,
}

impl Registry {
    /// Takes them all, or says everything that is wrong with them. The place in `drafts` becomes `Governed::handler`.
    pub(crate) fn new(_drafts: Vec<Draft>) -> Result<Self, Vec<Problem>> {
        Ok(Self::default())
    }

    pub(crate) fn all(&self) -> &[Arc<Governed>] {
        &self.all
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Arc<Governed>> {
        self.by_id.iter().find(|(it, _)| &***it == id).map(|(_, it)| it)
    }
}
