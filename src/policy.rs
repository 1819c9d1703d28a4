//! Cedar: permit or forbid become allow, deny, hide or require approval. Together with [`crate::stage`]'s policy stage
//! the only user of `cedar_policy`.
//!
//! Reading order: `rules` (what annotations mean), `judge` (what the stages ask), `decide` (the five steps), `load`
//! (from files to a set), `schema`, `discover`, `manage`, `explain`.

mod approvers;
mod compile;
mod decide;
mod discover;
#[cfg(feature = "http")]
mod explain;
mod extend;
#[cfg(feature = "cli")]
mod forecast;
mod gather;
mod hash;
mod input;
mod judge;
mod lint;
mod load;
mod manage;
#[cfg(any(feature = "cli", feature = "testing"))]
mod outline;
mod parse;
mod problem;
#[cfg(feature = "prove")]
mod prove;
mod request;
mod rules;
mod said;
mod scan;
mod schema;
mod schema_file;
mod slice;
mod source;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tree;
mod types;
mod value;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use cedar_policy::{Authorizer, Schema};
use serde_json::Value;

#[cfg(feature = "http")]
pub(crate) use self::explain::{Holds, Inquiry, Nearest, Part, Told};
#[cfg(feature = "cli")]
pub(crate) use self::forecast::{Forecast, Forecaster, Outlook};
pub(crate) use self::gather::{Gathered, not_gathered};
pub(crate) use self::judge::{Concealed, Shown};
pub(crate) use self::manage::{ManageAction, Managed, Management};
#[cfg(any(feature = "cli", feature = "testing"))]
pub(crate) use self::outline::{GateOutline, Outline};
#[cfg(feature = "cli")]
pub(crate) use self::problem::SourceFile;
#[cfg(feature = "http")]
pub(crate) use self::problem::did_you_mean;
pub use self::problem::{PolicyProblem, Severity};
#[cfg(feature = "prove")]
pub(crate) use self::prove::{Calls, Claim, Counterexample, Proof, Solver, Supposed, Verdict, prove};
pub(crate) use self::request::Principal;
#[cfg(feature = "cli")]
pub(crate) use self::said::Differences;
pub(crate) use self::said::Said;
#[cfg(feature = "cli")]
pub(crate) use self::schema_file::{FILE as SCHEMA_FILE, Unseen};
pub use self::source::PolicySource;
#[cfg(feature = "cli")]
pub(crate) use self::source::read_file;
use crate::ApprovalId;
use crate::actor::Identity;
use crate::audit::{PolicyError, PolicyRef, Requirement};
use crate::capability::{Governed, RequiresApproval};
use crate::clock::Timestamp;
use crate::registry::Registry;

/// How a directory's `countersign.cedarschema` compares with what is generated.
#[cfg(feature = "cli")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kept {
    Absent,
    Stale,
    Current,
}

/// The generated schema as a file.
#[cfg(feature = "cli")]
#[derive(Debug)]
pub(crate) struct SchemaFile {
    /// With its comments.
    pub(crate) text: String,
    pub(crate) unseen: Vec<Unseen>,
    pub(crate) kept: Kept,
}

/// The files of a policy set, name and text, sorted by name.
pub(crate) type Texts = Arc<[(String, String)]>;

/// A loaded, validated, immutable policy set, compiled for one registry.
pub(crate) struct PolicySet {
    schema: Schema,
    text: String,
    hash: Arc<str>,
    texts: Texts,
    said: Said,
    authorizer: Authorizer,
    rules: HashMap<String, rules::Rule>,
    capabilities: compile::ByCapability,
    /// In the order of [`ManageAction::ALL`].
    managing: Vec<compile::Managing>,
    managed: compile::ManagedTypes,
    projection: request::Projection,
    shapes: gather::Shapes,
}

/// What an approval that is presented covers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Covers {
    pub(crate) id: ApprovalId,
    /// Type -> distinct people who approved it.
    pub(crate) types: BTreeMap<String, u32>,
    pub(crate) decided_at: Timestamp,
}

/// One call as policies see it, beside its principal.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) now: Timestamp,
    pub(crate) governed: &'a Governed,
    /// As stage 6 left it.
    pub(crate) input: &'a Value,
    pub(crate) covers: Option<&'a Covers>,
    /// What its resource is and leads to.
    pub(crate) entities: &'a Gathered,
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

/// Loads and checks; all problems of all files at once. `Ok` carries the notes and warnings.
#[cfg_attr(
    not(any(test, feature = "cli", feature = "testing")),
    expect(dead_code, reason = "the command line and the drift gate load without an engine")
)]
pub(crate) fn load(
    source: &PolicySource,
    registry: &Registry,
) -> Result<(PolicySet, Vec<PolicyProblem>), Vec<PolicyProblem>> {
    read(source).load(registry)
}

/// What a source holds at one instant.
pub(crate) struct Proposal(source::Sources);

/// Reads everything that can be read. Waits for the disk.
pub(crate) fn read(source: &PolicySource) -> Proposal {
    Proposal(source::read(source))
}

impl Proposal {
    /// A digest of every byte that was read, and of what could not be: two equal ones load alike.
    pub(crate) fn content(&self) -> String {
        self.0.content()
    }

    /// As [`load`].
    pub(crate) fn load(self, registry: &Registry) -> Result<(PolicySet, Vec<PolicyProblem>), Vec<PolicyProblem>> {
        load::load_read(self.0, registry.all())
    }
}

/// What files say that need not load here; `None` if they cannot even be parsed.
pub(crate) fn said(texts: &[(String, String)]) -> Option<Said> {
    load::said(source::read(&PolicySource::Files(texts.to_vec())))
}

/// The generated schema, whatever the policies say.
#[cfg(feature = "cli")]
pub(crate) fn schema(source: &PolicySource, registry: &Registry) -> Result<SchemaFile, Vec<PolicyProblem>> {
    load::schema(source::read(source), registry.all())
}

impl PolicySet {
    /// `sha256:` and hexadecimal.
    pub(crate) fn hash(&self) -> &Arc<str> {
        &self.hash
    }

    /// How many `.cedar` files it came from.
    pub(crate) fn files(&self) -> usize {
        self.texts.iter().filter(|it| it.0 != extend::FILE).count()
    }

    /// The files that it came from.
    pub(crate) fn texts(&self) -> &Texts {
        &self.texts
    }

    /// What these files say, whatever the capabilities.
    pub(crate) fn said(&self) -> &Said {
        &self.said
    }

    /// The schema that was generated, as Cedar prints it. A part of the hash.
    pub(crate) fn schema_text(&self) -> &str {
        &self.text
    }

    /// The principal for one call or listing.
    pub(crate) fn principal(&self, identity: &Identity) -> Result<Principal, Vec<PolicyError>> {
        self.principal_of(identity)
    }

    /// Stage 5: hides, from principal, surface, client, tenant and now only.
    pub(crate) fn visibility(
        &self,
        principal: &Principal,
        identity: &Identity,
        now: Timestamp,
        governed: &Governed,
    ) -> Visibility {
        self.visibility_of(principal, identity, now, governed).unwrap_or_else(Visibility::Failed)
    }

    /// Stage 7, by the five steps of document 4. Hides are not asked again.
    pub(crate) fn decide(&self, principal: &Principal, case: &Case<'_>) -> Decision {
        self.decision_of(principal, case).unwrap_or_else(Decision::Failed)
    }

    /// Stage 6's question: is every input refused? Then the answer is that refusal ([`Decision::Deny`] or
    /// [`Decision::Failed`]); `None` if some input might pass.
    pub(crate) fn refuses_whatever(
        &self,
        principal: &Principal,
        identity: &Identity,
        now: Timestamp,
        governed: &Governed,
    ) -> Option<Decision> {
        self.refusal(principal, identity, now, governed)
    }

    /// Discovery, hides included.
    pub(crate) fn list(
        &self,
        principal: &Principal,
        identity: &Identity,
        now: Timestamp,
        governed: &Governed,
    ) -> Listed {
        self.listed(principal, identity, now, governed)
    }

    /// Whether a `@hide` policy could hold for this capability.
    pub(crate) fn may_hide(&self, governed: &Governed) -> bool {
        // What was not compiled cannot be shown.
        self.capabilities.get(&governed.id).is_none_or(|it| !it.slice.hides.is_empty())
    }

    /// A management action.
    pub(crate) fn manage(
        &self,
        action: ManageAction,
        managed: &Managed<'_>,
        identity: &Identity,
        now: Timestamp,
    ) -> Management {
        self.manage_by(action, managed, identity, now).0
    }

    /// A management action, and the policies that made its answer so.
    pub(crate) fn manage_by(
        &self,
        action: ManageAction,
        managed: &Managed<'_>,
        identity: &Identity,
        now: Timestamp,
    ) -> (Management, Vec<PolicyRef>) {
        let answer = self.manage_or_fail(action, managed, identity, now);
        answer.unwrap_or_else(|errors| (Management::Failed(errors), Vec::new()))
    }
}
