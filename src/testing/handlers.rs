//! Handlers under test: which ran, and others in their place.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::TestApp;
use crate::builder::EngineBuilder;
use crate::handler::{HandlerError, IntoHandlerError, Procedure, erase};
use crate::invocation::{AgentInvocationInfo, Invocation, Next};
use crate::{ApprovalId, CapabilityId, ExecutionId};

/// A governed attempt that reached its handler. Displays as `orders.refund #1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Run {
    /// What was called.
    pub capability: CapabilityId,
    /// By which execution.
    pub execution: ExecutionId,
    /// Counts from 1.
    pub attempt: u32,
    /// Whose data it was about.
    pub tenant: String,
    /// On whose behalf.
    pub actor: String,
    /// The approval that it consumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
}

impl Run {
    fn of(agent: &AgentInvocationInfo) -> Self {
        Self {
            capability: agent.capability_id.clone(),
            execution: agent.execution_id.clone(),
            attempt: agent.attempt,
            tenant: agent.tenant.to_string(),
            actor: agent.actor.id.clone(),
            approval: agent.approval.as_ref().map(|it| it.id.clone()),
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{}", self.capability, self.attempt)
    }
}

/// What ran, and what runs instead of the application's own.
pub(super) struct Handlers<C>(Arc<Mutex<Shared<C>>>);

struct Shared<C> {
    runs: Vec<Run>,
    instead: HashMap<CapabilityId, Procedure<C>>,
}

// By hand: derives would demand as much of `C`.
impl<C> Default for Handlers<C> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Shared { runs: Vec::new(), instead: HashMap::new() })))
    }
}

impl<C> Clone for Handlers<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Send + Sync + 'static> Handlers<C> {
    /// The application with these around its own handlers, inside all of its middleware.
    pub(super) fn around(&self, builder: EngineBuilder<C>) -> EngineBuilder<C> {
        let seen = self.clone();
        let builder = builder.middleware(move |cx, next| note(seen.clone(), cx, next));
        builder.each_procedure(|id, own| {
            let (id, handlers) = (id.clone(), self.clone());
            Arc::new(move |cx, input| {
                let instead = handlers.shared().instead.get(&id).cloned();
                instead.as_ref().unwrap_or(&own)(cx, input)
            })
        })
    }

    fn shared(&self) -> MutexGuard<'_, Shared<C>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn note<C: Send + Sync + 'static>(
    handlers: Handlers<C>,
    cx: Invocation<C>,
    next: Next<C>,
) -> Result<Value, HandlerError> {
    if let Some(agent) = cx.agent() {
        handlers.shared().runs.push(Run::of(agent));
    }
    next.run().await
}

impl<C: Send + Sync + 'static> TestApp<C> {
    /// Every governed attempt that reached its handler, in order.
    pub fn runs(&self) -> Vec<Run> {
        self.handlers.shared().runs.clone()
    }

    /// Runs this instead of a capability's own handler from now on, until [`Self::restore_handler`]. Everything that
    /// governs the capability stays: schemas, policies, redaction, deadlines, the record.
    ///
    /// # Panics
    /// If there is no such capability.
    #[track_caller]
    pub fn override_handler<F, I, O, E, Fut>(&self, capability: &str, handler: F)
    where
        F: Fn(Invocation<C>, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned,
        O: Serialize,
        E: IntoHandlerError,
    {
        let is_there = self.engine().core.registry.get(capability).is_some();
        assert!(is_there, "there is no capability `{capability}` whose handler could be replaced");
        self.handlers.shared().instead.insert(capability.into(), erase(handler));
    }

    /// Runs the capability's own handler again.
    pub fn restore_handler(&self, capability: &str) {
        self.handlers.shared().instead.remove(&CapabilityId::from(capability));
    }
}
