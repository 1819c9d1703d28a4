//! Calls that wait for a decision: held until it is there, then the same request runs what was approved.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use super::guard::Place;
use super::{App, prefer::Wait};
use crate::approval::ApprovalState;
use crate::{ApprovalId, Caller, ErrorCode, Outcome};

/// After how long a store that did not answer is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// A call that may wait: one of so many.
pub(super) struct Waiting {
    wait: Wait,
    _turn: OwnedSemaphorePermit,
}

impl Waiting {
    /// `None`: the client does not want to, or too many wait already.
    pub(super) fn admit(app: &App, wait: Option<Wait>) -> Option<Self> {
        let wait = wait?;
        let turn = Arc::clone(&app.waits).try_acquire_owned().ok()?;
        Some(Self { wait, _turn: turn })
    }

    pub(super) fn wait(&self) -> Wait {
        self.wait
    }

    /// Waits as long as the outcome is that nobody has decided, and resumes as the same caller once somebody has. The end
    /// of the wait, and of the server, decides nothing: the outcome stays what it was.
    ///
    /// Whoever hangs up meanwhile resumes nothing; what was approved waits for them.
    pub(super) async fn hold(
        self,
        app: &App,
        caller: &Caller,
        place: &Place,
        mut outcome: Outcome,
        id: Option<&str>,
    ) -> Outcome {
        let core = &app.gateway.core;
        let mut lapse = std::pin::pin!(core.clock.sleep(self.wait.length()));
        let mut last: Option<ApprovalId> = id.map(Into::into);
        loop {
            let Some(id) = pending(&outcome, last.as_ref()) else { return outcome };
            if let Err(error) = core.leave_to_caller(&id, self.wait.length()).await {
                tracing::debug!(cause = &error as &dyn std::error::Error, "a worker may come before whoever waits");
            }
            place.leave(); // whoever only waits keeps nobody from working
            let is_decided = tokio::select! {
                biased;
                () = app.stopping.cancelled() => false,
                () = decided(app, &id) => true,
                () = &mut lapse => false,
            };
            place.again().await;
            if !is_decided {
                return outcome;
            }
            outcome = caller.resume(&id).await;
            last = Some(id);
        }
    }
}

/// The approval that an outcome waits for.
fn pending(outcome: &Outcome, resumed: Option<&ApprovalId>) -> Option<ApprovalId> {
    let is_pending = outcome.error().is_some_and(|it| it.code == ErrorCode::ApprovalPending);
    outcome.approval().map(|it| it.id.clone()).or_else(|| resumed.filter(|_| is_pending).cloned())
}

/// Done when the approval is not pending any more, for whatever reason.
async fn decided(app: &App, id: &ApprovalId) {
    let core = &app.gateway.core;
    loop {
        let looking = app.looks.acquire().await;
        let heard = core.tail.heard(); // what is committed while others look is seen by this look
        let standing = core.store.standing(id).await;
        drop(looking);
        match standing {
            Ok(Some((ApprovalState::Pending, expires_at))) => {
                let left = u64::try_from(expires_at.0.saturating_sub(core.clock.now().0)).unwrap_or(0);
                tokio::select! {
                    _ = core.tail.beyond(heard) => {}
                    () = core.clock.sleep(Duration::from_micros(left)) => {}
                }
            }
            Ok(_) => return,
            Err(error) => {
                tracing::debug!(cause = &error as &dyn std::error::Error, "an approval could not be seen");
                core.clock.sleep(AGAIN).await;
            }
        }
    }
}
