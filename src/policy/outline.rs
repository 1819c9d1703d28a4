//! Policies part by part, whatever their layout and their files: by it the drift gate says what a change of one means.

use std::collections::{BTreeMap, BTreeSet};

use cedar_policy::PolicySet as Set;
use cedar_policy::pst::Clause;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::hash::line_without_reason;
use super::rules::{Kind, Origin, Rule};
use super::tree::{body, conjuncts};
use super::{ManageAction, PolicySet};
use crate::CapabilityId;
use crate::audit::hex;

/// A policy of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Outline {
    pub(crate) id: String,
    /// permit, forbid, hide or gate.
    pub(crate) effect: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gate: Option<GateOutline>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    pub(crate) principal: String,
    pub(crate) action: String,
    pub(crate) resource: String,
    /// What must hold one by one, sorted.
    pub(crate) conditions: BTreeSet<String>,
    /// The capabilities that it can be asked about.
    pub(crate) capabilities: BTreeSet<CapabilityId>,
    /// The management actions that it can be asked about.
    pub(crate) manages: BTreeSet<String>,
    /// Of everything that it says but its reason, so that another one hides nothing.
    pub(crate) digest: String,
}

/// What lifts a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GateOutline {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) quorum: u32,
    pub(crate) expires_in_seconds: u64,
}

impl PolicySet {
    /// Every policy that is written in a file, by id. Capabilities' own gates are not.
    ///
    /// # Errors
    /// A fault of the engine: a policy that loaded has no tree.
    pub(crate) fn outline(&self) -> Result<Vec<Outline>, String> {
        let reach = self.reach();
        let written = self.rules.values().filter(|it| it.origin != Origin::Capability);
        let mut all = written.map(|it| outline(it, &reach)).collect::<Result<Vec<_>, _>>()?;
        all.sort_by(|one, two| one.id.cmp(&two.id));
        Ok(all)
    }

    fn reach(&self) -> Reach {
        let mut reach = Reach::default();
        for (capability, compiled) in &self.capabilities {
            let slice = &compiled.slice;
            for id in ids([&slice.permits, &slice.forbids, &slice.hides]) {
                reach.capabilities.entry(id).or_default().insert(capability.clone());
            }
        }
        for (action, managing) in ManageAction::ALL.iter().zip(&self.managing) {
            for id in ids([&managing.slice.permits, &managing.slice.forbids, &managing.slice.hides]) {
                reach.manages.entry(id).or_default().insert(action.as_str().to_owned());
            }
        }
        reach
    }
}

/// What policies can be asked about, by their ids.
#[derive(Default)]
struct Reach {
    capabilities: BTreeMap<String, BTreeSet<CapabilityId>>,
    manages: BTreeMap<String, BTreeSet<String>>,
}

fn ids(sets: [&Set; 3]) -> impl Iterator<Item = String> {
    sets.into_iter().flat_map(Set::policies).map(|it| it.id().to_string())
}

fn outline(rule: &Rule, reach: &Reach) -> Result<Outline, String> {
    let tree = body(&rule.policy).ok_or("a policy that loaded has no tree")?;
    let gate = match &rule.kind {
        Kind::Gate(gate) => Some(GateOutline {
            kind: gate.requirement.kind.clone(),
            quorum: gate.requirement.quorum,
            expires_in_seconds: gate.expires_in.as_secs(),
        }),
        Kind::Permit | Kind::Deny | Kind::Hide => None,
    };
    let part = |of: &str, constraint: String| format!("{of} {constraint}").trim_end().to_owned();
    let condition = |(word, clause): (&str, Clause)| {
        let (Clause::When(expr) | Clause::Unless(expr)) = clause;
        format!("{word} {expr}")
    };
    Ok(Outline {
        id: rule.id.clone(),
        effect: rule.reference().effect,
        gate,
        reason: rule.reason.clone(),
        principal: part("principal", tree.principal.to_string()),
        action: part("action", tree.action.to_string()),
        resource: part("resource", tree.resource.to_string()),
        conditions: tree.clauses().iter().flat_map(conjuncts).map(condition).collect(),
        capabilities: reach.capabilities.get(&rule.id).cloned().unwrap_or_default(),
        manages: reach.manages.get(&rule.id).cloned().unwrap_or_default(),
        digest: format!("sha256:{}", hex(&Sha256::digest(line_without_reason(rule)?))),
    })
}
