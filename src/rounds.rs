//! How the worker and the deliverers work: in rounds, each of which takes up as much from the store as there is room for.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::pipeline::Core;

/// How often a round begins that nobody of this process called for: other processes write too, and what was put off is due
/// again.
const EVERY: Duration = Duration::from_secs(1);

/// When there is another round, and when there is none any more.
pub(crate) struct Pace {
    /// How many at once: one slot for each.
    pub(crate) at_once: usize,
    pub(crate) clock: Clock,
    pub(crate) stop: CancellationToken,
    /// That there is something now.
    pub(crate) told: watch::Receiver<u64>,
}

/// Works until the engine shuts down or is gone. A round says whether there may be more: the next one is then as soon as a
/// slot is free.
pub(crate) async fn work<R: Future<Output = bool>>(
    core: Weak<Core>,
    pace: Pace,
    round: impl Fn(Arc<Core>, Arc<Semaphore>) -> R,
) {
    let Pace { at_once, clock, stop, mut told } = pace;
    let slots = Arc::new(Semaphore::new(at_once));
    loop {
        let is_more = {
            let Some(core) = core.upgrade() else { return };
            if core.tasks.is_closed() {
                return;
            }
            round(core, Arc::clone(&slots)).await
        };
        let waiting = async {
            if is_more {
                let _ = slots.acquire().await; // never closed
                return true;
            }
            tokio::select! {
                () = clock.sleep(EVERY) => true,
                told = told.changed() => told.is_ok(),
            }
        };
        tokio::select! {
            goes_on = waiting => if !goes_on { return },
            () = stop.cancelled() => return,
        }
    }
}
