//! Which policy sets were active, since when, and who made them so.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::audit::{ActorRef, AuditEvent, EventKind, PolicyChanges, PolicyOrigin};
use crate::clock::Timestamp;
use crate::store::{Readers, StoreError};

/// The most entries that one look at the history returns.
const MAX: usize = 1_000;

/// One change of the active policy set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyActivation {
    /// Counts the changes from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// When.
    pub at: Timestamp,
    /// The set that became active.
    pub policy_hash: String,
    /// The one before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_hash: Option<String>,
    /// How many `.cedar` files it has.
    pub files: usize,
    /// How it came to be active.
    pub origin: PolicyOrigin,
    /// How it came in, if somebody brought it: a surface, or `cli`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Who brought it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorRef>,
    /// What is other than before; without any entry, the capabilities changed and not the policies. Absent if it is not
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<PolicyChanges>,
    /// Whether it is active now.
    pub active: bool,
    /// Whether there is a copy to go back to.
    pub kept: bool,
}

/// The latest first.
pub(crate) async fn policy_history(records: &Readers, limit: usize) -> Result<Vec<PolicyActivation>, StoreError> {
    let bodies = records.loaded(limit.min(MAX)).await?;
    let kept: HashSet<String> = records.copies("", MAX).await?.into_iter().collect();
    let active = records.active().await?;
    let events = bodies.iter().filter_map(|it| serde_json::from_str::<AuditEvent>(it).ok());
    let mut history: Vec<_> = events.filter_map(|it| activation(it, &kept)).collect();
    if let (Some(latest), Some(active)) = (history.first_mut(), active) {
        latest.active = latest.policy_hash == active.hash;
    }
    Ok(history)
}

fn activation(event: AuditEvent, kept: &HashSet<String>) -> Option<PolicyActivation> {
    let EventKind::PolicyLoaded { policy_hash, previous_hash, files, generation, origin, via, changes } = event.kind
    else {
        return None;
    };
    let (at, actor, kept) = (event.at, event.envelope.actor, kept.contains(&policy_hash));
    let active = false; // only the latest can be
    Some(PolicyActivation {
        generation,
        at,
        policy_hash,
        previous_hash,
        files,
        origin,
        via,
        actor,
        changes,
        active,
        kept,
    })
}
