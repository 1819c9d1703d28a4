//! What can be invoked: a procedure plus its governance.

mod builder;
mod listing;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::builder::CapabilityBuilder;
pub use self::listing::{Descriptor, Filter, RequiresApproval};
use crate::actor::Surface;
use crate::handler::{DeclaredError, Procedure};
use crate::invocation::AgentInvocationInfo;
use crate::redact::RedactPath;
use crate::schema::{InputSchema, OutputSchema};
use crate::{BoxFuture, CapabilityId};

/// What running a capability does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SideEffect {
    /// Computes.
    None,
    /// Reads and changes nothing.
    Read,
    /// Changes the application's own data.
    Write,
    /// Destroys what cannot be brought back.
    Destructive,
    /// Reaches people or systems outside.
    External,
}

impl SideEffect {
    /// Every effect, in the order of the declaration.
    pub const ALL: [Self; 5] = [Self::None, Self::Read, Self::Write, Self::Destructive, Self::External];

    /// The name in policies, events and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Write => "write",
            Self::Destructive => "destructive",
            Self::External => "external",
        }
    }

    /// Whether running it twice changes nothing.
    pub fn is_read(self) -> bool {
        matches!(self, Self::None | Self::Read)
    }
}

/// How bad a wrong call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "plain words")]
pub enum Risk {
    Low,
    Medium,
    High,
    Critical,
}

impl Risk {
    /// Every risk, from the smallest.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Critical];

    /// The name in policies, events and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

/// A capability with its handler, ready for [`crate::EngineBuilder::capability`].
pub struct Capability<C = ()> {
    pub(crate) draft: Draft,
    pub(crate) procedure: Procedure<C>,
}

/// A capability as it was written down, not yet checked.
#[derive(Clone)]
pub(crate) struct Draft {
    pub(crate) id: CapabilityId,
    pub(crate) side_effect: SideEffect,
    pub(crate) meta: Meta,
    pub(crate) input_schema: Value,
    pub(crate) output_schema: Value,
    pub(crate) decodes: fn(&Value) -> bool,
}

/// The metadata that a builder collects (document 3).
#[derive(Clone)]
pub(crate) struct Meta {
    pub(crate) description: String,
    pub(crate) risk: Option<Risk>,
    pub(crate) expose: Vec<Surface>,
    pub(crate) tags: Vec<String>,
    pub(crate) errors: Vec<DeclaredError>,
    pub(crate) timeout: Duration,
    /// Additional attempts.
    pub(crate) retries: u32,
    pub(crate) idempotent: bool,
    pub(crate) idempotency: Idempotency,
    pub(crate) approval: Option<ApprovalRule>,
    pub(crate) redact: Redaction,
    pub(crate) resource: Option<ResourceMapping>,
    pub(crate) decision_record: bool,
    pub(crate) run_on_approval: bool,
    pub(crate) tool_name: Option<String>,
    pub(crate) reconcile: Option<ReconcileHook>,
    pub(crate) located: Option<Located>,
}

/// Where the code of a capability from a manifest is, as far as that is governed: addresses, programs with their arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Located {
    /// `http https://app.example/refund`, `command ["./refund"]`.
    pub(crate) procedure: String,
    /// Who is asked what became of a call, likewise.
    pub(crate) reconcile: Option<String>,
}

/// How outcomes are kept under an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Idempotency {
    /// How long a settled outcome answers repetitions (default 24 h; an unknown one stays until it is reconciled).
    #[serde(serialize_with = "as_micros")]
    pub ttl: Duration,
    /// Whether outputs are kept (default true). Without, a replay says completed, without output.
    pub store_output: bool,
    /// Whether keys count although the effect is none or read (default false: they are ignored there).
    pub on_reads: bool,
}

impl Default for Idempotency {
    fn default() -> Self {
        Self { ttl: Duration::from_hours(24), store_output: true, on_reads: false }
    }
}

fn as_micros<S: serde::Serializer>(it: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(crate::clock::micros(*it))
}

/// An approval that every call needs. Compiled into the gate policy `capability:<id>:approval` (APR-12).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRule {
    /// The type, `manager`.
    #[serde(rename = "type")]
    pub kind: String,
    /// How many distinct people, 1..=16 (default 1).
    pub quorum: u32,
    /// How long a request lives, 1 s..=30 d (default 24 h).
    #[serde(serialize_with = "as_micros")]
    pub expires_in: Duration,
}

impl ApprovalRule {
    /// One approval of this type, within 24 hours.
    pub fn of(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), quorum: 1, expires_in: Duration::from_hours(24) }
    }

    /// How many distinct people must approve.
    #[must_use]
    pub fn quorum(mut self, people: u32) -> Self {
        self.quorum = people;
        self
    }

    /// How long a request lives.
    #[must_use]
    pub fn expires_in(mut self, life: Duration) -> Self {
        self.expires_in = life;
        self
    }
}

/// What never leaves. Paths are JSON Pointers (RFC 6901) in which `*` stands for every member or element.
#[derive(Clone, Default)]
pub(crate) struct Redaction {
    pub(crate) output: Vec<String>,
    pub(crate) display: Vec<String>,
    pub(crate) function: Option<RedactFn>,
}

pub(crate) type RedactFn = Arc<dyn Fn(Value) -> Value + Send + Sync>;

/// An entity of the application that a call is about, for policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResourceMapping {
    /// Its Cedar entity type, declared in `schema.cedarschema`.
    pub entity: String,
    /// JSON Pointer to the string in the input that is its id; the member is required.
    pub id: String,
}

/// What a reconcile hook found out about a write of which nobody knows whether it happened (EXE-7).
#[derive(Clone, Debug, PartialEq)]
pub enum Reconciliation {
    /// It happened, and this is its output.
    Completed(Value),
    /// It did not happen: the key is free again. Not taken while the process that ran it has its lease, for it could still
    /// say otherwise: it is asked again.
    NotExecuted,
    /// Still unknown: asked again later.
    Unknown,
}

pub(crate) type ReconcileHook = Arc<dyn Fn(AgentInvocationInfo, Arc<Value>) -> BoxFuture<Reconciliation> + Send + Sync>;

/// Everything about a registered capability but its code: all that the pipeline knows of it. Made by the registry only.
pub(crate) struct Governed {
    pub(crate) id: CapabilityId,
    pub(crate) side_effect: SideEffect,
    pub(crate) risk: Risk,
    pub(crate) meta: Meta,
    pub(crate) tool_name: String,
    pub(crate) input_schema: Arc<Value>,
    pub(crate) output_schema: Arc<Value>,
    pub(crate) input: InputSchema,
    pub(crate) output: OutputSchema,
    /// `meta.redact.output`, compiled.
    pub(crate) redact_output: Vec<RedactPath>,
    /// `meta.redact.display`, compiled.
    pub(crate) redact_display: Vec<RedactPath>,
    /// SHA-256 of all governance as canonical JSON: changes when anything that was agreed to changes.
    pub(crate) digest: String,
    /// The procedure's place in the application's half of the registry.
    pub(crate) handler: usize,
}

impl Governed {
    /// Whether a second run does no harm.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.side_effect.is_read() || self.meta.idempotent
    }

    /// An output without what never leaves.
    pub(crate) fn redact(&self, mut output: Value) -> Value {
        crate::redact::redact(&mut output, &self.redact_output);
        match &self.meta.redact.function {
            Some(function) => function(output),
            None => output,
        }
    }

    /// An input as approvers see it: without what the capability keeps from them, and with what looks like a secret masked.
    pub(crate) fn redact_for_display(&self, mut input: Value) -> Value {
        crate::redact::redact(&mut input, &self.redact_display);
        crate::masking::mask(&mut input);
        input
    }

    /// Whether idempotency keys count.
    pub(crate) fn uses_keys(&self) -> bool {
        !self.side_effect.is_read() || self.meta.idempotency.on_reads
    }
}
