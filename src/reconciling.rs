//! Asks the applications' hooks about executions of which nobody knows whether they happened (EXE-7).

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::audit::ReconciledBy;
use crate::capability::Reconciliation;
use crate::caught::caught_async;
use crate::clock::Clock;
use crate::executions::Resolution;
use crate::invocation::AgentInvocationInfo;
use crate::pipeline::Core;
use crate::store::op::{Reconcile, Unresolved};

/// How long a hook may take.
const LIMIT: Duration = Duration::from_secs(30);
/// How many executions one round takes.
const ROUND: usize = 16;

/// Asks until the engine stops or is gone.
pub(crate) async fn reconcile(core: Weak<Core>, every: Duration, clock: Clock, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = clock.sleep(every) => {}
            () = stop.cancelled() => return,
        }
        let Some(core) = core.upgrade() else { return };
        core.ask_hooks().await;
    }
}

impl Core {
    /// One round. The store hands each execution to one process at a time, with back-off.
    async fn ask_hooks(&self) {
        let hooked = self.registry.all().iter().filter(|it| it.meta.reconcile.is_some());
        match self.store.unresolved(hooked.map(|it| it.id.to_string()).collect(), ROUND).await {
            Ok(found) => {
                for unresolved in found {
                    self.ask_hook(unresolved).await;
                }
            }
            Err(error) => tracing::warn!(%error, "unknown executions cannot be read"),
        }
    }

    async fn ask_hook(&self, unresolved: Unresolved) {
        let Unresolved { execution: record, tries } = unresolved;
        let Some(hook) = self.registry.get(&record.capability).and_then(|it| it.meta.reconcile.clone()) else { return };
        let Some((agent, input)) = self.asked(&record) else {
            tracing::error!(execution = %record.id, "an unknown execution cannot be read back: resolve it by hand");
            return;
        };
        let answer = tokio::select! {
            answer = caught_async(async { hook(agent, Arc::new(input)).await }) => answer.unwrap_or(Reconciliation::Unknown),
            () = self.clock.sleep(LIMIT) => Reconciliation::Unknown,
            () = self.stop.cancelled() => return,
        };
        let resolution = match answer {
            Reconciliation::Completed(output) => Resolution::Completed(Some(output)),
            Reconciliation::NotExecuted => Resolution::NotExecuted,
            Reconciliation::Unknown => {
                tracing::info!(execution = %record.id, tries, "still unknown");
                return;
            }
        };
        let Ok((end, outcome)) = self.settlement(&record, resolution) else {
            tracing::error!(execution = %record.id, "the reconcile hook's output does not fit the output schema");
            return;
        };
        let (execution, slot) = (record.id.clone(), record.slot.clone());
        let (by, generation) = (ReconciledBy::Hook, None);
        let operation = Reconcile { execution, slot, end, outcome, by, generation, events: Vec::new() };
        if let Err(error) = self.store.reconcile(operation).await {
            tracing::error!(execution = %record.id, %error, "what the hook found out is not on record");
        }
    }

    /// Who asked for an execution that is not settled, and with which input.
    pub(crate) fn asked(&self, record: &crate::store::op::ExecutionRecord) -> Option<(AgentInvocationInfo, Value)> {
        let agent = serde_json::from_str(&record.agent).ok()?;
        let sealed = record.input.as_deref()?;
        let plain = self.store.open_sealed(&record.id, sealed).ok()?;
        Some((agent, serde_json::from_slice(&plain).ok()?))
    }
}
