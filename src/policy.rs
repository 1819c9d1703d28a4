//! Cedar: permit or forbid become allow, deny, hide or require approval. Together with [`crate::stage`]'s policy stage
//! the only user of `cedar_policy`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::actor::Identity;
use crate::audit::{PolicyError, PolicyRef, Requirement};
use crate::capability::{Governed, RequiresApproval, Risk, SideEffect};
use crate::clock::Timestamp;
use crate::registry::Registry;
use crate::{ApprovalId, CapabilityId};

/// Where policies come from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PolicySource {
    /// A directory of `*.cedar` files, `schema.cedarschema` and `tests/`.
    Directory(PathBuf),
    /// Files that are compiled in or made by code: name and text.
    Files(Vec<(String, String)>),
}

/// One thing that is wrong with a policy set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyProblem {
    /// The file, as it is named in the directory.
    pub file: String,
    /// Counts from 1; 0 if it is about the whole file.
    pub line: usize,
    /// Counts from 1, in characters.
    pub column: usize,
    /// The policy's `@id`, if it has one.
    pub policy: Option<String>,
    /// What is wrong.
    pub what: String,
    /// The next step.
    pub help: Option<String>,
    /// The line itself, cut to 120 characters.
    pub excerpt: Option<String>,
    /// False: a note or a warning, and the set loads all the same.
    pub fatal: bool,
}

impl PolicyProblem {
    /// The checker itself failed: then nothing loads.
    pub(crate) fn internal(cause: &crate::BoxError) -> Self {
        Self {
            file: String::new(),
            line: 0,
            column: 0,
            policy: None,
            what: format!("the policies could not be checked: {cause}"),
            help: None,
            excerpt: None,
            fatal: true,
        }
    }
}

impl From<&str> for PolicySource {
    fn from(directory: &str) -> Self {
        Self::Directory(directory.into())
    }
}

impl From<PathBuf> for PolicySource {
    fn from(directory: PathBuf) -> Self {
        Self::Directory(directory)
    }
}

/// A loaded, validated, immutable policy set, compiled for one registry.
pub(crate) struct PolicySet {}

/// A principal as Cedar sees it, built once for a call and used at stages 5, 6 and 7.
pub(crate) struct Principal {}

/// What an approval that is presented covers.
#[derive(Clone, Debug)]
pub(crate) struct Covers {
    pub(crate) id: ApprovalId,
    /// Type -> distinct people who approved it.
    pub(crate) types: BTreeMap<String, u32>,
    pub(crate) decided_at: Timestamp,
}

/// Whether a `@hide` policy holds (stage 5).
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Visibility {
    Visible,
    Hidden(Vec<PolicyRef>),
    Failed(Vec<PolicyError>),
}

/// The decision of stage 7. Policies are sorted by id.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decision {
    Allow { policies: Vec<PolicyRef> },
    Deny { reason: Option<String>, policies: Vec<PolicyRef> },
    RequireApproval(Gates),
    Failed(Vec<PolicyError>),
}

/// What a person must lift: one request for all gates.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gates {
    /// Per type the largest quorum, sorted by type.
    pub(crate) requirements: Vec<Requirement>,
    /// The smallest of all.
    pub(crate) expires_in: Duration,
    /// Every gate's `@reason`, by policy id, without repetitions.
    pub(crate) reasons: Vec<String>,
    /// The gates, and the permits.
    pub(crate) policies: Vec<PolicyRef>,
}

/// What a listing shows of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    No,
    Yes(RequiresApproval),
}

/// Management actions (`Countersign::Action::".."`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManageAction {
    Approve,
    Reject,
    ReadApprovals,
    Withdraw,
    Resume,
    Reconcile,
    ReadAudit,
    ReadPolicies,
    PublishPolicies,
    ReadMetrics,
}

impl ManageAction {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::ReadApprovals => "read_approvals",
            Self::Withdraw => "withdraw",
            Self::Resume => "resume",
            Self::Reconcile => "reconcile",
            Self::ReadAudit => "read_audit",
            Self::ReadPolicies => "read_policies",
            Self::PublishPolicies => "publish_policies",
            Self::ReadMetrics => "read_metrics",
        }
    }
}

/// What a management action acts on.
pub(crate) enum Managed<'a> {
    Engine,
    Approval {
        id: &'a str,
        capability: &'a CapabilityId,
        requester: &'a Identity,
        risk: Risk,
        side_effect: SideEffect,
        tenant: &'a str,
        /// For approve and reject: the one type that is decided.
        requirement: Option<&'a str>,
    },
}

/// The answer to a management action.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Management {
    Allow,
    Deny,
    Failed(Vec<PolicyError>),
}

/// Loads and checks; all problems of all files at once. `Ok` carries the notes and warnings.
pub(crate) fn load(
    _source: &PolicySource,
    _registry: &Registry,
) -> Result<(PolicySet, Vec<PolicyProblem>), Vec<PolicyProblem>> {
    Ok((PolicySet {}, Vec::new()))
}

impl PolicySet {
    /// `sha256:` and hexadecimal.
    pub(crate) fn hash(&self) -> &Arc<str> {
        todo!()
    }

    /// How many `.cedar` files it came from.
    pub(crate) fn files(&self) -> usize {
        0
    }

    pub(crate) fn principal(&self, _identity: &Identity) -> Result<Principal, Vec<PolicyError>> {
        todo!()
    }

    /// Stage 5: hides, from principal, surface, client, tenant and now only.
    pub(crate) fn visibility(&self, _: &Principal, _: &Identity, _: Timestamp, _: &Governed) -> Visibility {
        todo!()
    }

    /// Stage 7, by the five steps of document 4.
    pub(crate) fn decide(
        &self,
        _: &Principal,
        _: &Identity,
        _: Timestamp,
        _: &Governed,
        _input: &Value,
        _: Option<&Covers>,
    ) -> Decision {
        todo!()
    }

    /// Stage 6's question: is every input refused? Then the answer is that refusal ([`Decision::Deny`] or
    /// [`Decision::Failed`]); `None` if some input might pass.
    pub(crate) fn refuses_whatever(&self, _: &Principal, _: &Identity, _: Timestamp, _: &Governed) -> Option<Decision> {
        todo!()
    }

    /// Discovery.
    pub(crate) fn list(&self, _: &Principal, _: &Identity, _: Timestamp, _: &Governed) -> Listed {
        todo!()
    }

    /// Whether a `@hide` policy could hold for this capability.
    pub(crate) fn may_hide(&self, _: &Governed) -> bool {
        todo!()
    }

    /// A management action.
    pub(crate) fn manage(&self, _: ManageAction, _: &Managed<'_>, _: &Identity, _: Timestamp) -> Management {
        todo!()
    }
}
