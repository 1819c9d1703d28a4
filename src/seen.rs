//! What policies saw when they decided a call: kept, sealed, by capabilities that ask for it, so that other policies can
//! be tried on it exactly. Events hold hashes only.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actor::Identity;
use crate::audit::{PolicyError, PolicyRef};
use crate::clock::Timestamp;
use crate::policy::{Case, Covers, Decision};
use crate::resource::ResourceEntity;

/// The most bytes of JSON that are kept of one decision: what a text of the store may have, once it is sealed.
const MAX_FACTS: usize = 1_500_000;

/// What a decision was made from, and what it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Facts {
    /// Without what no policy sees: the actor's name, and who acts for it. All attributes, for policies to come.
    pub(crate) identity: Identity,
    pub(crate) now: Timestamp,
    /// As stage 6 left it.
    pub(crate) input: Arc<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) covers: Option<Covers>,
    /// The resource, if it is an entity of the application, and what it leads to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) entities: Vec<ResourceEntity>,
    pub(crate) outcome: Said,
    /// As the events name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) policies: Vec<PolicyRef>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) errors: Vec<PolicyError>,
}

/// What policies said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Said {
    Allow,
    Deny,
    RequireApproval,
    Failed,
}

impl Facts {
    pub(crate) fn of(case: &Case<'_>, input: &Arc<Value>, decision: &Decision) -> Self {
        let (outcome, policies, errors) = match decision {
            Decision::Allow { policies } => (Said::Allow, &policies[..], &[][..]),
            Decision::Deny { policies, .. } => (Said::Deny, &policies[..], &[][..]),
            Decision::RequireApproval(gates) => (Said::RequireApproval, &gates.policies[..], &[][..]),
            Decision::Failed(errors) => (Said::Failed, &[][..], &errors[..]),
        };
        Self {
            identity: case.identity.as_policies_see(),
            now: case.now,
            input: Arc::clone(input),
            covers: case.covers.cloned(),
            entities: case.entities.found().to_vec(),
            outcome,
            policies: policies.to_vec(),
            errors: errors.to_vec(),
        }
    }

    /// As JSON. `None` if it is too much to keep.
    pub(crate) fn text(&self) -> Option<String> {
        // not canonical: that would round integers beyond 2^53
        serde_json::to_string(self).ok().filter(|it| it.len() <= MAX_FACTS)
    }
}
