//! Runs approved requests of capabilities with `run_on_approval`, as the requester of today (APR-8). A worker resumes as
//! the requester would: through every stage, and the begin spends the approval once, whoever else tries.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::approval::Binding;
use crate::caller::Caller;
use crate::caught::caught_async;
use crate::clock::{Clock, micros};
use crate::invocation::Context;
use crate::outcome::{Error, ErrorCode, Outcome};
use crate::pipeline::Core;
use crate::rounds::{self, Pace};
use crate::store::outbox::{Laid, Pick, Picked};
use crate::{BoxError, Identity};

/// How many requests one process runs at once.
const AT_ONCE: usize = 8;

/// How long finding out who the requester is today may take.
const LIMIT: Duration = Duration::from_secs(5);

/// How long a call has from its resume to its begin.
#[cfg(feature = "http")]
const BEGINNING: Duration = Duration::from_secs(10);

/// Between tries of what did not run for a reason that may pass: doubling from the first to the second.
const PAUSE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_hours(1));

/// Says who a requester is today: a person may have lost a role, or left, since a request was filed.
#[async_trait]
pub trait Requesters: Send + Sync + 'static {
    /// The requester as of now, with today's roles and attributes; `None` if there is no such party any more, which leaves
    /// the request approved and not run. Within 5 s.
    ///
    /// `stored` is who asked, as of the filing. The answer must have its tenant, issuer and id, else nothing runs; surface
    /// and client of the request are kept whatever the answer says.
    ///
    /// # Errors
    /// Whatever keeps it from being known right now: the worker tries again, after 5 s doubling to 1 h.
    async fn current(&self, stored: &Identity) -> Result<Option<Identity>, Box<dyn std::error::Error + Send + Sync>>;
}

/// What workers of this process did, for the metrics.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Requests that were taken up.
    pub(crate) picked: AtomicU64,
    /// Of these, those that completed.
    pub(crate) completed: AtomicU64,
    /// Put off for a reason that may pass.
    pub(crate) put_off: AtomicU64,
    /// Refused until policies or governance change.
    pub(crate) refused: AtomicU64,
}

/// What a worker works with. It holds no engine: one that nobody needs any more ends it.
pub(crate) struct Worker {
    pub(crate) core: Weak<Core>,
    pub(crate) requesters: Arc<dyn Requesters>,
    /// Makes the contexts.
    pub(crate) context: Context,
    /// How long a request that was taken up is left alone by others: one lease.
    pub(crate) claim: Duration,
}

/// Why a request did not run.
enum Why {
    /// The same answer would come again, until policies or governance change.
    Refused,
    /// It may pass.
    Passing,
    /// There is no such requester any more, or another one was named: seldom worth another look.
    Nobody,
}

impl Worker {
    /// Works until the engine shuts down or is gone.
    pub(crate) async fn work(self, clock: Clock, stop: CancellationToken, approved: watch::Receiver<u64>) {
        let worker = Arc::new(self);
        let pace = Pace { at_once: AT_ONCE, clock, stop, told: approved };
        rounds::work(worker.core.clone(), pace, |core, slots| Arc::clone(&worker).round(core, slots)).await;
    }

    /// Takes up as much as there is room for. Whether there may be more.
    async fn round(self: Arc<Self>, core: Arc<Core>, slots: Arc<Semaphore>) -> bool {
        let free = slots.available_permits();
        let of = core.to_pick();
        let picked = match core.store.pick(of.clone(), free, self.claim).await {
            Ok(picked) => picked,
            Err(error) => {
                tracing::warn!(%error, "approved requests cannot be taken up");
                return false;
            }
        };
        let is_more = free == 0 || picked.len() == free;
        for one in picked {
            let Ok(permit) = Arc::clone(&slots).try_acquire_owned() else { continue }; // there were as many
            let mark = of.iter().find(|it| it.capability == one.capability).map(|it| it.mark.clone());
            let (worker, core) = (Arc::clone(&self), Arc::clone(&core));
            // Counted among the running executions: a shutdown waits for it.
            core.tasks.clone().spawn(async move { worker.run(&core, one, mark, permit).await });
        }
        is_more
    }

    async fn run(&self, core: &Arc<Core>, picked: Picked, mark: Option<String>, permit: OwnedSemaphorePermit) {
        core.tallies.worker.picked.fetch_add(1, Ordering::Relaxed);
        if let Some(why) = self.resume(core, &picked).await {
            let (wait, refused_under) = match why {
                Why::Refused => {
                    core.tallies.worker.refused.fetch_add(1, Ordering::Relaxed);
                    (PAUSE.0, mark)
                }
                Why::Passing => (pause(picked.pick), None),
                Why::Nobody => (PAUSE.1, None),
            };
            if refused_under.is_none() {
                core.tallies.worker.put_off.fetch_add(1, Ordering::Relaxed);
            }
            let wait_us = micros(wait.mul_f64(1.0 + 0.2 * core.ids.jitter()));
            let Picked { approval, pick, .. } = picked;
            let laid = Laid { approval, pick, wait_us, refused_under };
            if let Err(error) = core.store.lay_down(laid).await {
                tracing::warn!(%error, "a request that did not run is taken up again when its claim lapses");
            }
        }
        drop(permit);
    }

    /// Resumes as the requester of today. `Some`: the approval may still be unspent.
    async fn resume(&self, core: &Arc<Core>, picked: &Picked) -> Option<Why> {
        let approval = &picked.approval;
        let Ok(Binding { requester: stored, .. }) = serde_json::from_str(&picked.binding) else {
            tracing::error!(%approval, "a stored request cannot be read, and is not run");
            return Some(Why::Refused);
        };
        let identity = match self.requester(core, &stored).await {
            Ok(Some(current)) => Identity { surface: stored.surface, client: stored.client.clone(), ..current },
            Ok(None) => {
                tracing::warn!(%approval, "approved, and not run: its requester is no more");
                // Stage 3 refuses, and the trail says so.
                Identity { actor: None, ..stored.clone() }
            }
            Err(error) => {
                tracing::warn!(%approval, error = &*error as &dyn std::error::Error, "its requester is not known now");
                return Some(Why::Passing);
            }
        };
        let caller =
            Caller { core: Arc::clone(core), identity: Arc::new(identity), context: self.context.clone(), trace: None };
        match caller.resume(approval).await {
            // The key's own answer: whatever ran, it was not this approval's.
            Outcome::Completed { replayed: true, .. } => Some(Why::Passing),
            Outcome::Completed { .. } => {
                core.tallies.worker.completed.fetch_add(1, Ordering::Relaxed);
                None
            }
            Outcome::ApprovalRequired { .. } => None, // the new request replaced this one
            Outcome::Failed { error, .. } | Outcome::Cancelled { error, .. } => {
                tracing::info!(%approval, code = %error.code, "approved, and did not run to its end");
                Some(why(&error))
            }
        }
    }

    async fn requester(&self, core: &Core, stored: &Identity) -> Result<Option<Identity>, BoxError> {
        let asked = caught_async(self.requesters.current(stored));
        tokio::select! {
            current = asked => current?,
            () = core.clock.sleep(LIMIT) => Err("finding out who the requester is took too long".into()),
            () = core.stop.cancelled() => Err("the engine shuts down".into()),
        }
    }
}

impl Core {
    /// Leaves a request that was filed just now to a call that waits for its decision and will resume it: no worker comes
    /// before `wait` is over and the call had its time to begin. Who waits must still take `APPROVAL_CONSUMED` for an answer.
    #[cfg(feature = "http")]
    pub(crate) async fn leave_to_caller(
        &self,
        approval: &crate::ApprovalId,
        wait: Duration,
    ) -> Result<(), crate::store::StoreError> {
        if !self.registry.all().iter().any(|it| it.meta.run_on_approval) {
            return Ok(());
        }
        let wait_us = micros(wait.saturating_add(BEGINNING));
        let laid = Laid { approval: approval.clone(), pick: 0, wait_us, refused_under: None };
        self.store.lay_down(laid).await
    }

    /// What a worker may take up, and under which policies and governance it would run.
    fn to_pick(&self) -> Vec<Pick> {
        let generation = self.store.generation();
        let running = self.registry.all().iter().filter(|it| it.meta.run_on_approval);
        running.map(|it| Pick { capability: it.id.to_string(), mark: format!("{generation} {}", it.digest) }).collect()
    }
}

/// What a failure means for an approval that may not be spent. Of one that is, nothing is laid down.
fn why(error: &Error) -> Why {
    match error.code {
        ErrorCode::PolicyDenied
        | ErrorCode::CapabilityNotFound
        | ErrorCode::InputInvalid
        | ErrorCode::ApprovalInputMismatch
        | ErrorCode::ApprovalSelfApproval => Why::Refused,
        ErrorCode::Unauthenticated | ErrorCode::ApprovalNotFound => Why::Nobody,
        _ => Why::Passing,
    }
}

/// 5 s doubling to 1 h.
fn pause(pick: i64) -> Duration {
    let doublings = u32::try_from(pick.clamp(1, 17) - 1).unwrap_or(16);
    PAUSE.0.saturating_mul(1 << doublings).min(PAUSE.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_end_at_an_hour() {
        let pauses: Vec<u64> = [1, 2, 3, 10, 11, 99, i64::MAX].map(|it| pause(it).as_secs()).into();
        assert_eq!(pauses, [5, 10, 20, 2_560, 3_600, 3_600, 3_600]);
    }
}
