//! What a handler receives, and the middleware around it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::actor::{Actor, Client, SharedIdentity, Surface};
use crate::audit::ApproverRef;
use crate::caught::caught_async;
use crate::clock::Clock;
use crate::handler::{HandlerError, Procedure};
use crate::{ApprovalId, BoxError, BoxFuture, CapabilityId, ExecutionId};

/// One run of a procedure: the application's context, and who asked if an agent did.
pub struct Invocation<C = ()> {
    app: Arc<C>,
    frame: Option<Arc<Frame>>,
}

/// What the pipeline lends to one attempt.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) agent: AgentInvocationInfo,
    pub(crate) cancel: CancellationToken,
    pub(crate) lease: Lease,
    pub(crate) span: tracing::Span,
    /// The trace that the caller said the call is part of.
    trace: Option<Arc<str>>,
    entered: AtomicBool,
}

impl Frame {
    pub(crate) fn new(agent: AgentInvocationInfo, lease: Lease, trace: Option<Arc<str>>) -> Self {
        let span = crate::telemetry::handler(&agent.capability_id, agent.attempt);
        Self { agent, cancel: CancellationToken::new(), lease, span, trace, entered: AtomicBool::new(false) }
    }

    /// Whether the procedure itself was reached, or middleware answered for it.
    pub(crate) fn was_entered(&self) -> bool {
        self.entered.load(Ordering::Acquire)
    }
}

/// The governed call behind an invocation: what the engine injects into the application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgentInvocationInfo {
    /// This trip through the pipeline; the same on every attempt.
    pub execution_id: ExecutionId,
    /// What was called.
    pub capability_id: CapabilityId,
    /// Where the call came in.
    pub surface: Surface,
    /// Whose data the call belongs to.
    pub tenant: Arc<str>,
    /// On whose behalf. Never the model.
    pub actor: Arc<Actor>,
    /// The agent software that carried the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<Client>,
    /// The approval that this execution consumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ConsumedApproval>,
    /// The caller's own id of the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// For systems downstream. Always there, the same on every attempt and takeover, and never the caller's raw key,
    /// which other callers may share (IDM-5).
    pub idempotency_key: String,
    /// Counts from 1.
    pub attempt: u32,
    /// Counts the claims of one key from 1: a system downstream that has seen a larger one may refuse this.
    pub fence: i64,
}

/// The approval behind a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumedApproval {
    /// Its id.
    pub id: ApprovalId,
    /// Who approved it.
    pub approvers: Vec<ApproverRef>,
}

impl<C> Invocation<C> {
    /// For the application's own code and its unit tests: no agent, no policy, no trail, **no middleware**.
    /// [`crate::Engine::run_ungoverned`] is the same with middleware.
    pub fn ungoverned(app: impl Into<Arc<C>>) -> Self {
        Self { app: app.into(), frame: None }
    }

    pub(crate) fn governed(app: Arc<C>, frame: Arc<Frame>) -> Self {
        Self { app, frame: Some(frame) }
    }

    /// The application's context of this call.
    pub fn app(&self) -> &C {
        &self.app
    }

    /// The governed call behind this, or `None` if the application called its own procedure.
    pub fn agent(&self) -> Option<&AgentInvocationInfo> {
        self.frame.as_ref().map(|it| &it.agent)
    }

    /// The span of this attempt, `countersign.handler`; for an ungoverned invocation the one it was made in.
    pub fn span(&self) -> tracing::Span {
        self.frame.as_ref().map_or_else(tracing::Span::current, |it| it.span.clone())
    }

    /// The caller's own `traceparent`, if it had one.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only procedures of manifests pass it on"))]
    pub(crate) fn trace(&self) -> Option<&str> {
        self.frame.as_ref()?.trace.as_deref()
    }

    /// Whether to stop: the deadline passed, the caller cancelled, or the engine shuts down.
    pub fn is_cancelled(&self) -> bool {
        self.frame.as_ref().is_some_and(|it| it.cancel.is_cancelled())
    }

    /// Waits until it is time to stop. Never ends for an ungoverned invocation.
    pub async fn cancelled(&self) {
        match &self.frame {
            Some(frame) => frame.cancel.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// The lease that host-service handles are bound to (document 8).
    pub fn lease(&self) -> Option<Lease> {
        self.frame.as_ref().map(|it| it.lease.clone())
    }
}

// By hand: a derive would demand `C: Clone`.
impl<C> Clone for Invocation<C> {
    fn clone(&self) -> Self {
        Self { app: Arc::clone(&self.app), frame: self.frame.clone() }
    }
}

/// How long handles work: until the pipeline has its answer, even if the handler runs on.
#[derive(Clone, Debug, Default)]
pub struct Lease(Arc<AtomicBool>);

/// A handle was used after its execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the execution that this handle belongs to has ended")]
pub struct Settled;

impl Lease {
    /// Fails once the execution has ended. Handles ask at each use, and a queued write again just before it commits.
    pub fn check(&self) -> Result<(), Settled> {
        if self.0.load(Ordering::Acquire) { Err(Settled) } else { Ok(()) }
    }
}

/// The owner's side of a [`Lease`]: dropping it ends the lease, so no way out of the pipeline can forget to.
#[derive(Debug, Default)]
pub(crate) struct LeaseOwner(Lease);

impl LeaseOwner {
    pub(crate) fn lease(&self) -> Lease {
        self.0.clone()
    }
}

impl Drop for LeaseOwner {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Release);
    }
}

/// Code of the application around every run of a procedure, governed or not.
///
/// Implemented by `async fn(Invocation<C>, Next<C>) -> Result<Value, HandlerError>`.
/// Neither the invocation nor the input can be replaced on the way in (INV-6): [`Next::run`] takes neither.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not middleware for an `Engine<{C}>`",
    note = "middleware is an `async fn(Invocation<{C}>, Next<{C}>) -> Result<serde_json::Value, HandlerError>`"
)]
pub trait Middleware<C>: Send + Sync + 'static {
    /// Runs around the procedure. May be written as `async fn handle(&self, ..)`.
    fn handle(&self, cx: Invocation<C>, next: Next<C>) -> impl Future<Output = Result<Value, HandlerError>> + Send;
}

impl<C, F, Fut> Middleware<C> for F
where
    F: Fn(Invocation<C>, Next<C>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, HandlerError>> + Send + 'static,
{
    fn handle(&self, cx: Invocation<C>, next: Next<C>) -> impl Future<Output = Result<Value, HandlerError>> + Send {
        self(cx, next)
    }
}

pub(crate) type Layer<C> = Arc<dyn Fn(Invocation<C>, Next<C>) -> BoxFuture<Result<Value, HandlerError>> + Send + Sync>;

pub(crate) fn layer<C: Send + Sync + 'static>(middleware: impl Middleware<C>) -> Layer<C> {
    let middleware = Arc::new(middleware);
    Arc::new(move |cx, next| {
        let middleware = Arc::clone(&middleware); // the future borrows it, and outlives this call
        Box::pin(async move { middleware.handle(cx, next).await })
    })
}

/// The application's half of the registry: the only part of an engine that knows `C`.
pub(crate) struct Procedures<C> {
    pub(crate) handlers: Vec<Procedure<C>>,
    pub(crate) layers: Vec<Layer<C>>,
}

impl<C> Procedures<C> {
    fn enter(&self, handler: usize, cx: Invocation<C>, input: Arc<Value>) -> BoxFuture<Result<Value, HandlerError>> {
        if let Some(frame) = &cx.frame {
            frame.entered.store(true, Ordering::Release);
        }
        (self.handlers[handler])(cx, input)
    }
}

/// The rest of the chain.
pub struct Next<C> {
    cx: Invocation<C>,
    input: Arc<Value>,
    procedures: Arc<Procedures<C>>,
    handler: usize,
    depth: usize,
}

impl<C: Send + Sync + 'static> Next<C> {
    pub(crate) fn start(cx: Invocation<C>, input: Arc<Value>, procedures: Arc<Procedures<C>>, handler: usize) -> Self {
        Self { cx, input, procedures, handler, depth: 0 }
    }

    /// The validated input.
    pub fn input(&self) -> &Value {
        &self.input
    }

    /// Runs what is left of the chain, then the procedure.
    pub fn run(mut self) -> impl Future<Output = Result<Value, HandlerError>> + Send + 'static {
        match self.procedures.layers.get(self.depth).cloned() {
            Some(layer) => {
                self.depth += 1;
                layer(self.cx.clone(), self)
            }
            None => self.procedures.enter(self.handler, self.cx, self.input),
        }
    }
}

/// An application context bound to its procedures, with `C` erased: all that the pipeline sees of an application.
pub(crate) trait Body: Send + Sync {
    fn attempt(&self, handler: usize, frame: Arc<Frame>, input: Arc<Value>) -> BoxFuture<Result<Value, HandlerError>>;
}

pub(crate) struct Bound<C> {
    pub(crate) app: Arc<C>,
    pub(crate) procedures: Arc<Procedures<C>>,
}

impl<C: Send + Sync + 'static> Body for Bound<C> {
    fn attempt(&self, handler: usize, frame: Arc<Frame>, input: Arc<Value>) -> BoxFuture<Result<Value, HandlerError>> {
        let cx = Invocation::governed(Arc::clone(&self.app), frame);
        if self.procedures.layers.is_empty() {
            return self.procedures.enter(handler, cx, input);
        }
        Box::pin(Next::start(cx, input, Arc::clone(&self.procedures), handler).run())
    }
}

type MakeBody = dyn Fn(SharedIdentity) -> BoxFuture<Result<Arc<dyn Body>, BoxError>> + Send + Sync;

const MAKE_LIMIT: Duration = Duration::from_secs(5);

/// Where a call's application context comes from.
#[derive(Clone)]
pub(crate) enum Context {
    /// The caller brought it.
    Ready(Arc<dyn Body>),
    /// Made when everything before the effect has passed.
    Made(Arc<MakeBody>),
}

impl Context {
    pub(crate) async fn body(&self, clock: &Clock, identity: &SharedIdentity) -> Result<Arc<dyn Body>, BoxError> {
        match self {
            Self::Ready(body) => Ok(Arc::clone(body)),
            Self::Made(make) => tokio::select! {
                body = caught_async(async { make(Arc::clone(identity)).await }) => body?,
                () = clock.sleep(MAKE_LIMIT) => Err("making the application context took too long".into()),
            },
        }
    }
}
