//! Writing a capability down: its metadata, and at last its handler.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    ApprovalRule, Capability, Draft, Idempotency, Meta, Reconciliation, Redaction, ResourceMapping, Risk, SideEffect,
};
use crate::CapabilityId;
use crate::actor::Surface;
use crate::handler::{self, DeclaredError, IntoHandlerError};
use crate::invocation::{AgentInvocationInfo, Invocation};

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
            located: None,
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
    /// one process at a time (EXE-7): 5 s, 10 s, 20 s and then 30 s are how long it may take. The input is the validated one.
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

    /// Where its code is, if it is not here.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only manifests have code elsewhere"))]
    pub(crate) fn located(mut self, procedure: String, reconcile: Option<String>) -> Self {
        self.meta.located = Some(super::Located { procedure, reconcile });
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
