//! Where the procedure of a manifest is: behind an endpoint, or in a command.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::command::Command;
use super::endpoint::Endpoint;
use super::fields::{Fields, Found};
use super::file::{Around, one_of};
use crate::Invocation;
use crate::capability::{Capability, CapabilityBuilder, Reconciliation};
use crate::handler::{DeclaredError, HandlerError};
use crate::invocation::AgentInvocationInfo;

/// How long one that is asked what became of a run may take: then the engine does not wait any more.
const ASKING: Duration = Duration::from_secs(30);

/// Their kinds.
#[derive(Clone, Copy)]
enum Kind {
    Http,
    Command,
}

/// One procedure.
#[derive(Clone)]
pub(super) enum Procedure {
    Endpoint(Arc<Endpoint>),
    Command(Arc<Command>),
}

impl Procedure {
    /// Reads `[handler]`.
    pub(super) fn read(
        mut fields: Fields<'_>,
        around: &Around<'_>,
        limits: (Duration, &[DeclaredError]),
        found: &mut Found<'_>,
    ) -> Option<Self> {
        match one_of(&mut fields, "kind", &[("http", Kind::Http), ("command", Kind::Command)], found)? {
            Kind::Http => {
                let with = (around.origins, &around.vault, around.client);
                Endpoint::read(fields, with, limits, found).map(|it| Self::Endpoint(Arc::new(it)))
            }
            Kind::Command => {
                let with = (around.directory, around.guard, &around.vault);
                Command::read(fields, with, limits, found).map(|it| Self::Command(Arc::new(it)))
            }
        }
    }

    /// Reads `[reconcile]`: whom to ask what became of a run. Not the procedure itself, which might run again.
    pub(super) fn reconciler(
        fields: Fields<'_>,
        around: &Around<'_>,
        handler: Option<&Self>,
        found: &mut Found<'_>,
    ) -> Option<Self> {
        let at = fields.at();
        let it = Self::read(fields, around, (ASKING, &[]), found)?;
        if handler.is_some_and(|handler| handler.is(&it)) {
            let fix = "name another address or command, one that looks what happened and changes nothing";
            found.problem(at, "reconcile", "it is the procedure itself, which could run a second time", fix);
        }
        Some(it)
    }

    /// Where it is, as far as that was agreed to: nothing of it is a secret.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Endpoint(it) => it.place(),
            Self::Command(it) => it.place(),
        }
    }

    /// Whether the other is the same one.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Endpoint(one), Self::Endpoint(other)) => one.place() == other.place(),
            (Self::Command(one), Self::Command(other)) => one.is(other),
            (Self::Endpoint(_), Self::Command(_)) | (Self::Command(_), Self::Endpoint(_)) => false,
        }
    }

    /// Completes a capability whose procedure this is.
    pub(super) fn complete<C: Send + Sync + 'static>(
        self,
        builder: CapabilityBuilder,
        reconciler: Option<Self>,
        input: Value,
        output: Value,
    ) -> Capability<C> {
        let mut builder = builder.located(self.place(), reconciler.as_ref().map(Self::place));
        if let Some(reconciler) = reconciler {
            builder = builder.reconcile(move |agent, input: Value| {
                let reconciler = reconciler.clone();
                async move { reconciler.ask(&agent, &input).await }
            });
        }
        match self {
            Self::Endpoint(endpoint) => builder.json_handler(input, output, move |cx: Invocation<C>, input| {
                let endpoint = Arc::clone(&endpoint);
                async move { endpoint.call(&cx, &input).await.map_err(HandlerError::found_by_engine) }
            }),
            Self::Command(command) => builder.json_handler(input, output, move |cx: Invocation<C>, input| {
                let command = Arc::clone(&command);
                async move { command.call(&cx, &input).await.map_err(HandlerError::found_by_engine) }
            }),
        }
    }

    /// What became of a run. Whatever is no answer leaves it unknown.
    async fn ask(&self, agent: &AgentInvocationInfo, input: &Value) -> Reconciliation {
        let answer = match self {
            Self::Endpoint(it) => it.ask(agent, input).await,
            Self::Command(it) => it.ask(agent, input).await,
        };
        answer.unwrap_or_else(|error| {
            let error = &*error as &dyn std::error::Error;
            tracing::warn!(execution = %agent.execution_id, error, "nobody says whether it happened");
            Reconciliation::Unknown
        })
    }
}
