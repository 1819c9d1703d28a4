//! Asks the applications' hooks about executions of which nobody knows whether they happened (EXE-7).

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::audit::ReconciledBy;
use crate::capability::Reconciliation;
use crate::caught::caught_async;
use crate::clock::Clock;
use crate::executions::Resolution;
use crate::invocation::AgentInvocationInfo;
use crate::pipeline::Core;
use crate::store::op::{Reconcile, Settled, Unresolved};

/// How long a hook may take, if its claim lasts as long.
const LIMIT: Duration = Duration::from_secs(30);
/// How long the first claim lasts; each lasts twice as long as the one before.
const FIRST: Duration = Duration::from_secs(5);
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
    /// One round, all of it at once: a hook that takes its time holds no other up. The store hands each execution to one
    /// process at a time, with back-off.
    async fn ask_hooks(self: &Arc<Self>) {
        let hooked = self.registry.all().iter().filter(|it| it.meta.reconcile.is_some());
        match self.store.unresolved(hooked.map(|it| it.id.to_string()).collect(), ROUND).await {
            Ok(found) => {
                let mut asking = JoinSet::new();
                for unresolved in found {
                    let core = Arc::clone(self);
                    asking.spawn(async move { core.ask_hook(unresolved).await });
                }
                while asking.join_next().await.is_some() {}
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
            () = self.clock.sleep(limit(tries)) => Reconciliation::Unknown,
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
        match self.store.reconcile(operation).await {
            Ok(Some(Settled { applied: false, late: false })) => {
                tracing::info!(execution = %record.id, tries, "not taken: whoever ran it lives and could say otherwise");
            }
            Ok(_) => {}
            Err(error) => {
                tracing::error!(execution = %record.id, %error, "what the hook found out is not on record");
            }
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

/// Until the store may hand the execution to another process.
fn limit(tries: i64) -> Duration {
    let doubled = u32::try_from(tries).ok().and_then(|it| FIRST.checked_mul(2_u32.checked_pow(it)?));
    doubled.map_or(LIMIT, |it| it.min(LIMIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_hook_is_waited_for_when_another_process_may_ask() {
        let limits = [0, 1, 2, 3, 4, 31, 32, i64::MAX].map(|it| limit(it).as_secs());
        assert_eq!(limits, [5, 10, 20, 30, 30, 30, 30, 30]);
    }
}
