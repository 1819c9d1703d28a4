//! What can be invoked: a procedure plus its governance.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actor::Surface;
use crate::handler::{self, DeclaredError, IntoHandlerError, Procedure};
use crate::invocation::{AgentInvocationInfo, Invocation};
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
    /// It did not happen: the key is free again.
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

/// A capability without its handler. [`CapabilityBuilder::handler`] comes last and completes it.
#[derive(Clone)]
#[must_use = "a capability needs a handler"]
pub struct CapabilityBuilder {
    id: CapabilityId,
    side_effect: SideEffect,
    meta: Meta,
}

impl Capability {
    /// A capability with this effect. The constructors below are shorter.
    pub fn builder(id: impl Into<CapabilityId>, side_effect: SideEffect) -> CapabilityBuilder {
        let meta = Meta {
            description: String::new(),
            risk: None,
            expose: Vec::new(),
            tags: Vec::new(),
            errors: Vec::new(),
            timeout: Duration::from_secs(30),
            retries: 0,
            idempotent: false,
            idempotency: Idempotency::default(),
            approval: None,
            redact: Redaction::default(),
            resource: None,
            decision_record: false,
            run_on_approval: false,
            tool_name: None,
            reconcile: None,
        };
        CapabilityBuilder { id: id.into(), side_effect, meta }
    }

    /// Computes: touches nothing.
    pub fn none(id: impl Into<CapabilityId>) -> CapabilityBuilder {
        Self::builder(id, SideEffect::None)
    }

    /// Reads and changes nothing.
    pub fn read(id: impl Into<CapabilityId>) -> CapabilityBuilder {
        Self::builder(id, SideEffect::Read)
    }

    /// Changes the application's own data.
    pub fn write(id: impl Into<CapabilityId>) -> CapabilityBuilder {
        Self::builder(id, SideEffect::Write)
    }

    /// Reaches people or systems outside.
    pub fn external(id: impl Into<CapabilityId>) -> CapabilityBuilder {
        Self::builder(id, SideEffect::External)
    }

    /// Destroys what cannot be brought back.
    pub fn destructive(id: impl Into<CapabilityId>) -> CapabilityBuilder {
        Self::builder(id, SideEffect::Destructive)
    }
}

impl CapabilityBuilder {
    /// What it does and when to use it, for models and people. Required, at most 4,096 bytes.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.meta.description = text.into();
        self
    }

    /// How bad a wrong call is. Required.
    pub fn risk(mut self, risk: Risk) -> Self {
        self.meta.risk = Some(risk);
        self
    }

    /// The surfaces that show it (default: none, which stages it).
    pub fn expose(mut self, surfaces: impl IntoIterator<Item = Surface>) -> Self {
        self.meta.expose.extend(surfaces);
        self
    }

    /// Tags, for listings and policies (`Action::"tag/money"`): at most 16, each 1 to 64 of `a-z`, `0-9`, `_` and `-`.
    pub fn tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.meta.tags.extend(tags.into_iter().map(Into::into));
        self
    }

    /// Declares an error that callers may see. Not needed for a handler whose error type is an [`IntoHandlerError`] of
    /// its own.
    pub fn error(mut self, error: DeclaredError) -> Self {
        self.meta.errors.push(error);
        self
    }

    /// JSON Pointers of output members that never leave; `*` stands for every member or element. A path that the
    /// output schema does not have is a registration error.
    pub fn redact_output<T: Into<String>>(mut self, paths: impl IntoIterator<Item = T>) -> Self {
        self.meta.redact.output.extend(paths.into_iter().map(Into::into));
        self
    }

    /// JSON Pointers of *input* members that approvers are not shown. What runs is the exact input all the same.
    pub fn redact_display<T: Into<String>>(mut self, paths: impl IntoIterator<Item = T>) -> Self {
        self.meta.redact.display.extend(paths.into_iter().map(Into::into));
        self
    }

    /// A function over the output, after the paths. It must be pure: replays go through it again.
    pub fn redact_with(mut self, function: impl Fn(Value) -> Value + Send + Sync + 'static) -> Self {
        self.meta.redact.function = Some(Arc::new(function));
        self
    }

    /// How long one attempt may take (default 30 s; 1 ms to 24 h).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.meta.timeout = timeout;
        self
    }

    /// Additional attempts after [`crate::HandlerError::not_executed`], and for reads after any undeclared failure
    /// (default 0, at most 10).
    pub fn retries(mut self, additional: u32) -> Self {
        self.meta.retries = additional;
        self
    }

    /// Declares that running twice with one key is running once.
    pub fn idempotent(mut self) -> Self {
        self.meta.idempotent = true;
        self
    }

    /// How outcomes are kept under an idempotency key.
    pub fn idempotency(mut self, idempotency: Idempotency) -> Self {
        self.meta.idempotency = idempotency;
        self
    }

    /// An approval that every call needs, whatever the policy files say.
    pub fn approval(mut self, rule: ApprovalRule) -> Self {
        self.meta.approval = Some(rule);
        self
    }

    /// The application's entity that a call is about: its Cedar type, and where in the input its id is. Policies see it
    /// as `resource`, as the builder's [`EntityProvider`](crate::EntityProvider) gives it.
    pub fn resource(mut self, entity: impl Into<String>, id: impl Into<String>) -> Self {
        self.meta.resource = Some(ResourceMapping { entity: entity.into(), id: id.into() });
        self
    }

    /// Whether a sealed copy of what policies saw is kept with each decision (default false): the whole input, who asked
    /// and the entities that were read, so that other policies can be tried on it exactly. Events hold hashes only.
    /// Erased in time: see the builder's [`keep_decisions`](crate::EngineBuilder::keep_decisions).
    pub fn decision_record(mut self, keep: bool) -> Self {
        self.meta.decision_record = keep;
        self
    }

    /// Runs a request by itself once it is approved (default: its requester resumes it): a worker of a serving process does,
    /// as the requester of today, through every stage that a resume passes (APR-8). Needs the builder's
    /// [`requesters`](crate::EngineBuilder::requesters) and [`worker_context`](crate::EngineBuilder::worker_context).
    pub fn run_on_approval(mut self) -> Self {
        self.meta.run_on_approval = true;
        self
    }

    /// The name for MCP (default: the id with `_` for `.`): 1 to 128 letters, digits, `_`, `-` and `.`.
    pub fn tool_name(mut self, name: impl Into<String>) -> Self {
        self.meta.tool_name = Some(name.into());
        self
    }

    /// Finds out what became of a write of which nobody knows whether it happened. Asked by the sweeper with back-off,
    /// one process at a time (EXE-7). The input is the validated one.
    pub fn reconcile<F, Fut, I>(mut self, hook: F) -> Self
    where
        F: Fn(AgentInvocationInfo, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Reconciliation> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
    {
        self.meta.reconcile = Some(Arc::new(move |agent, input| match handler::decode::<I>(&input) {
            Ok(input) => Box::pin(hook(agent, input)),
            Err(_) => Box::pin(std::future::ready(Reconciliation::Unknown)),
        }));
        self
    }

    /// Completes it with an `async fn(Invocation<C>, Input) -> Result<Output, E>`; the schemas come from the types.
    pub fn handler<C, F, I, O, E, Fut>(mut self, handler: F) -> Capability<C>
    where
        C: Send + Sync + 'static,
        F: Fn(Invocation<C>, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + JsonSchema,
        O: Serialize + JsonSchema,
        E: IntoHandlerError,
    {
        self.meta.errors.extend_from_slice(E::DECLARED);
        let draft = Draft {
            id: self.id,
            side_effect: self.side_effect,
            meta: self.meta,
            input_schema: handler::input_schema::<I>(),
            output_schema: handler::output_schema::<O>(),
            decodes: handler::decodes::<I>,
        };
        Capability { draft, procedure: handler::erase(handler) }
    }

    /// Completes it with JSON in, JSON out and the schemas given: JSON Schema 2020-12, with `format` asserted and
    /// patterns without look-around and back-references. Nothing outside the document is ever fetched, and the input's
    /// root says whether it is open (`additionalProperties`).
    pub fn json_handler<C, F, E, Fut>(mut self, input: Value, output: Value, handler: F) -> Capability<C>
    where
        C: Send + Sync + 'static,
        F: Fn(Invocation<C>, Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, E>> + Send + 'static,
        E: IntoHandlerError,
    {
        self.meta.errors.extend_from_slice(E::DECLARED);
        let draft = Draft {
            id: self.id,
            side_effect: self.side_effect,
            meta: self.meta,
            input_schema: input,
            output_schema: output,
            decodes: |_| true,
        };
        Capability { draft, procedure: handler::erase(handler) }
    }
}

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
