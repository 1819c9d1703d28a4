//! How long the stages before the effect may take, and what else ends their wait.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::task::Poll;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Monotonic};
use crate::rejection::Rejection;

/// Stages 2 to 9 together have this long, an inline approver's wait apart.
const LIMIT: Duration = Duration::from_secs(10);

/// The time that one execution has left before it must have begun.
pub(crate) struct Budget<'a> {
    clock: &'a Clock,
    cancel: CancellationToken,
    began: Monotonic,
    /// What does not count.
    excused: Mutex<Duration>,
}

impl<'a> Budget<'a> {
    pub(crate) fn new(clock: &'a Clock, cancel: CancellationToken) -> Self {
        Self { clock, cancel, began: clock.monotonic(), excused: Mutex::new(Duration::ZERO) }
    }

    /// Waits for one step. A step that is given up may have written all the same: whoever records the refusal looks
    /// first ([`crate::stage::record::refusal`]), and the store ends a begin whose caller is gone.
    ///
    /// Pinned by the caller: futures of stages are large, and each that is taken by value is kept and moved three times.
    pub(crate) async fn within<T, E: Into<Rejection>>(
        &self,
        mut step: Pin<&mut impl Future<Output = Result<T, E>>>,
    ) -> Result<T, Rejection> {
        // Most steps are done at once, and need nothing that could end their wait.
        if let Poll::Ready(done) = poll_fn(|task| Poll::Ready(step.as_mut().poll(task))).await {
            return done.map_err(Into::into);
        }
        tokio::select! {
            biased;
            done = step => done.map_err(Into::into),
            () = self.cancel.cancelled() => Err(Rejection::Cancelled),
            () = self.clock.sleep(self.left()) => Err(Rejection::OutOfTime),
        }
    }

    /// Waits for people, which does not count; cancelling still ends it.
    pub(crate) async fn excused<T>(&self, wait: impl Future<Output = T>) -> Result<T, Rejection> {
        let before = self.clock.monotonic();
        let done = tokio::select! {
            biased;
            done = wait => Ok(done),
            () = self.cancel.cancelled() => Err(Rejection::Cancelled),
        };
        *self.excused.lock().unwrap_or_else(PoisonError::into_inner) += self.clock.monotonic().since(before);
        done
    }

    fn left(&self) -> Duration {
        let excused = *self.excused.lock().unwrap_or_else(PoisonError::into_inner);
        (LIMIT + excused).saturating_sub(self.clock.monotonic().since(self.began))
    }
}
