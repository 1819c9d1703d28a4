//! Capabilities as they are listed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Governed, Risk, SideEffect};
use crate::CapabilityId;

/// Which capabilities to list. Shapes a list, never an authority.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    tags: Vec<String>,
    ids: Vec<String>,
}

impl Filter {
    /// Everything.
    pub fn all() -> Self {
        Self::default()
    }

    /// Those with any of these tags.
    pub fn tags<T: Into<String>>(tags: impl IntoIterator<Item = T>) -> Self {
        Self { tags: tags.into_iter().map(Into::into).collect(), ids: Vec::new() }
    }

    /// Those with one of these ids. Together with tags, both must hold.
    #[must_use]
    pub fn ids<T: Into<String>>(mut self, ids: impl IntoIterator<Item = T>) -> Self {
        self.ids.extend(ids.into_iter().map(Into::into));
        self
    }

    pub(crate) fn matches(&self, governed: &Governed) -> bool {
        (self.tags.is_empty() || self.tags.iter().any(|it| governed.meta.tags.contains(it)))
            && (self.ids.is_empty() || self.ids.iter().any(|it| **it == *governed.id))
    }
}

/// Whether calls of a listed capability need approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequiresApproval {
    /// Whatever the input.
    Always,
    /// It depends on the input.
    Sometimes,
    /// No input needs one.
    Never,
}

/// A capability as a listing shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "document 3 is the table")]
pub struct Descriptor {
    pub id: CapabilityId,
    pub description: String,
    pub input_schema: Arc<Value>,
    pub side_effect: SideEffect,
    pub risk: Risk,
    pub tags: Vec<String>,
    pub requires_approval: RequiresApproval,
}
