//! What events say of policy sets: how one became active, what changed, what a candidate says otherwise.

use serde::{Deserialize, Serialize};

use super::{PolicyError, PolicyRef, Requirement};

/// How many policies an event names of a kind, so that it stays within [`super::MAX_EVENT_BYTES`] whatever their ids are.
pub(crate) const MAX_NAMED: usize = 12;

/// How a policy set came to be the active one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PolicyOrigin {
    /// A process proposed its files.
    #[default]
    Files,
    /// Somebody published it.
    Published,
    /// Somebody went back to it.
    RolledBack,
    /// What had been published before goes on, under the schema of other capabilities.
    CarriedOver,
}

/// What a policy set says otherwise than the one before it: the ids of policies, sorted, at most 12 of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyChanges {
    /// New ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// Those that say something else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// How many more there are that are not named.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
    /// Those that are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(it: &usize) -> bool {
    *it == 0
}

/// What a policy set says of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyOutcome {
    /// It may run.
    Allow,
    /// People must agree first.
    RequireApproval,
    /// It may not run.
    Deny,
    /// It does not exist for this actor.
    Hidden,
    /// It does exist; what else is to be said of it was not asked, since the active set hides it.
    Visible,
    /// A policy could not be evaluated.
    PolicyFailed,
}

/// What a policy set says of a call, and the policies that make it say so: at most 12.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyView {
    /// Those that could not be evaluated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<PolicyError>,
    /// In a word.
    pub outcome: PolicyOutcome,
    /// Those that were satisfied, sorted by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyRef>,
    /// Who must agree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<Requirement>,
}
