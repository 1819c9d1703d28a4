//! The side of the caller: who calls, a call, a running call.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::actor::SharedIdentity;
use crate::approval::Binding;
use crate::capability::{Descriptor, Filter};
use crate::invocation::Context;
use crate::outcome::{Error, Outcome};
use crate::pipeline::Core;
use crate::rejection::Rejection;
use crate::schema::Refused;
use crate::store::op::ApprovalRecord;
use crate::{ApprovalId, CapabilityId, ExecutionId, IdempotencyKey};

/// One party that calls: an actor with an application context. Made per request or session, cheap to clone.
#[derive(Clone)]
pub struct Caller {
    pub(crate) core: Arc<Core>,
    pub(crate) identity: SharedIdentity,
    pub(crate) context: Context,
    /// The trace that its calls are part of, as its `traceparent` said (W3C Trace Context).
    pub(crate) trace: Option<Arc<str>>,
}

impl Caller {
    /// A call. It does nothing until it is awaited or started.
    pub fn invoke(&self, capability: impl Into<CapabilityId>, input: impl Into<JsonInput>) -> Invoke {
        self.order(What::Call { capability: capability.into(), input: input.into(), key: None })
    }

    /// Runs what was approved: the stored input, through every stage again, under a new execution id (APR-6 to APR-8).
    ///
    /// Only the requester can, from the surface and with the client of the request; to everybody else the approval does
    /// not exist.
    pub fn resume(&self, approval: impl Into<ApprovalId>) -> Execution {
        self.order(What::Resume { approval: approval.into() }).into_future()
    }

    /// What this caller could get allowed on its surface, in registration order. A courtesy: every call is checked again.
    ///
    /// # Errors
    /// UNAUTHENTICATED without an actor; TIMEOUT if 30 s do not suffice, never a short list; `AUDIT_UNAVAILABLE` if the
    /// listing could not be recorded.
    pub async fn capabilities(&self, filter: Filter) -> Result<Vec<Descriptor>, Error> {
        self.core.list(&self.identity, &filter).await.map_err(|it| it.face())
    }

    /// Who calls, from where.
    pub fn identity(&self) -> &crate::Identity {
        &self.identity
    }

    fn order(&self, what: What) -> Invoke {
        let (execution, cancel) = (self.core.ids.execution(), CancellationToken::new());
        let identity = Arc::clone(&self.identity);
        let order = Order { execution, identity, cancel, correlation: None, trace: self.trace.clone(), what };
        Invoke { core: Arc::clone(&self.core), context: self.context.clone(), order }
    }
}

/// Input as it arrived. Text is parsed strictly by the schema stage: a [`Value`] has lost what was wrong with it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum JsonInput {
    /// Already a value.
    Value(Arc<Value>),
    /// JSON text from outside.
    Text(Arc<str>),
    /// What an adapter got instead of an input. The schema stage refuses it, so that it is on record.
    Unfit(Unfit),
}

/// What is wrong with something that holds no input.
#[derive(Clone, Debug)]
pub struct Unfit(pub(crate) Arc<Refused>);

impl JsonInput {
    /// JSON text from outside, not yet parsed.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(text.into())
    }

    /// Something that holds no input, and why.
    #[cfg(feature = "http")]
    pub(crate) fn unfit(refused: Refused) -> Self {
        Self::Unfit(Unfit(Arc::new(refused)))
    }

    /// Anything that serialises.
    ///
    /// # Errors
    /// If it does not: a map with other keys than strings, say.
    pub fn of(input: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::to_value(input).map(Self::from)
    }
}

impl From<Value> for JsonInput {
    fn from(value: Value) -> Self {
        Self::Value(Arc::new(value))
    }
}

/// A call that has not begun. Await it for its [`Outcome`], or [start](Self::start) it.
#[must_use = "a call does nothing until it is awaited or started"]
pub struct Invoke {
    core: Arc<Core>,
    context: Context,
    order: Order,
}

impl Invoke {
    /// The caller's promise that two calls are the same call: 1..=255 visible ASCII bytes.
    pub fn idempotency_key(mut self, key: impl Into<IdempotencyKey>) -> Self {
        if let What::Call { key: it, .. } = &mut self.order.what {
            *it = Some(key.into());
        }
        self
    }

    /// The caller's own id of the conversation, for the record: 1..=128 visible ASCII bytes, else it is dropped.
    pub fn correlation_id(mut self, id: impl Into<String>) -> Self {
        self.order.correlation = Some(id.into());
        self
    }

    /// Runs on the caller's own task, for benchmarks: a dropped caller cuts it in half.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub async fn inline(self) -> Outcome {
        self.core.execute(self.order, self.context).await
    }

    /// Begins now, in the background.
    pub fn start(self) -> Execution {
        let mut execution = self.into_future();
        execution.begin();
        execution
    }
}

impl IntoFuture for Invoke {
    type Output = Outcome;
    type IntoFuture = Execution;

    fn into_future(self) -> Execution {
        let (id, cancel) = (self.order.execution.clone(), self.order.cancel.clone());
        Execution { id, cancel, state: State::Idle(Some(Box::new(self))) }
    }
}

/// A call on its way. Begins when first polled, unless started before; from then on **dropping it does not stop it**.
#[must_use = "a call does nothing until it is awaited or started"]
pub struct Execution {
    id: ExecutionId,
    cancel: CancellationToken,
    state: State,
}

enum State {
    Idle(Option<Box<Invoke>>),
    Task(JoinHandle<Outcome>),
}

impl Execution {
    /// Known before the call begins.
    pub fn id(&self) -> &ExecutionId {
        &self.id
    }

    /// Asks it to stop: `CANCELLED`, at once if the handler obeys, else after the grace of 100 ms.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    fn begin(&mut self) {
        if let State::Idle(invoke) = &mut self.state
            && let Some(invoke) = invoke.take()
        {
            let Invoke { core, context, order } = *invoke;
            let tasks = core.tasks.clone();
            self.state = State::Task(tasks.spawn(core.execute(order, context).in_current_span()));
        }
    }
}

impl Future for Execution {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Outcome> {
        self.begin();
        let State::Task(handle) = &mut self.state else { return Poll::Pending };
        let outcome = ready!(Pin::new(handle).poll(task)).unwrap_or_else(|_| {
            // A panic of the engine itself, or its runtime is gone. The sweep ends what had begun.
            Rejection::Internal("the execution's task ended").outcome(self.id.clone())
        });
        Poll::Ready(outcome)
    }
}

/// What a surface hands to the pipeline.
pub(crate) struct Order {
    pub(crate) execution: ExecutionId,
    pub(crate) identity: SharedIdentity,
    pub(crate) cancel: CancellationToken,
    pub(crate) correlation: Option<String>,
    pub(crate) trace: Option<Arc<str>>,
    pub(crate) what: What,
}

pub(crate) enum What {
    Call { capability: CapabilityId, input: JsonInput, key: Option<IdempotencyKey> },
    Resume { approval: ApprovalId },
}

/// A request to invoke a capability.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) execution: ExecutionId,
    pub(crate) identity: SharedIdentity,
    /// `None` only for a resume without an actor, which stage 3 refuses.
    pub(crate) capability: Option<CapabilityId>,
    pub(crate) input: JsonInput,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) correlation: Option<String>,
    pub(crate) trace: Option<Arc<str>>,
    pub(crate) presented: Option<Arc<Presented>>,
    pub(crate) cancel: CancellationToken,
}

/// An approved approval whose stored request still is what was bound.
#[derive(Debug)]
pub(crate) struct Presented {
    pub(crate) record: ApprovalRecord,
    pub(crate) binding: Binding,
}
