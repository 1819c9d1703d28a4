//! The deliverer: one for each webhook, so that one that is down delays no other. At least once: a row of the outbox goes
//! when its receiver took it, and is tried again by whoever comes when a process dies with it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::message::{Said, message};
use super::webhook::Webhook;
use crate::clock::{Clock, micros};
use crate::pipeline::Core;
use crate::rounds::{self, Pace};
use crate::store::outbox::{Due, Fate, Settlement};

/// How many messages to one receiver are on their way at once.
const AT_ONCE: usize = 16;

/// How long one attempt may take.
pub(super) const LIMIT: Duration = Duration::from_secs(15);

/// From one attempt to the next; the last one for all further ones. The default of 8 attempts is about a day.
const WAITS: [Duration; 7] = [
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(6),
    Duration::from_hours(15),
];

/// What the deliverers of this process did, for the metrics.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Messages that were taken.
    pub(crate) delivered: AtomicU64,
    /// Attempts that failed.
    pub(crate) failed: AtomicU64,
    /// Messages that were given up.
    pub(crate) dead: AtomicU64,
}

/// One receiver, and what it takes to reach it.
pub(super) struct Deliverer {
    pub(super) core: Weak<Core>,
    pub(super) webhook: Webhook,
    pub(super) approval_url: Option<String>,
    pub(super) client: reqwest::Client,
    /// How long what was claimed is left alone by others: longer than an attempt takes.
    pub(super) claim: Duration,
}

/// What came of one attempt.
enum Attempt {
    Taken,
    /// 410: nobody is there any more.
    Gone,
    Failed(String),
    /// The engine stops.
    GivenUp,
}

impl Deliverer {
    /// Delivers until the engine shuts down or is gone.
    pub(super) async fn deliver(self, clock: Clock, stop: CancellationToken, told: watch::Receiver<u64>) {
        let deliverer = Arc::new(self);
        let pace = Pace { at_once: AT_ONCE, clock, stop, told };
        rounds::work(deliverer.core.clone(), pace, |core, slots| Arc::clone(&deliverer).round(core, slots)).await;
    }

    /// Sends as much as may be on its way at once. Whether there may be more.
    async fn round(self: Arc<Self>, core: Arc<Core>, slots: Arc<Semaphore>) -> bool {
        let (name, free) = (&self.webhook.name, slots.available_permits());
        if free == 0 {
            return true;
        }
        let due = match core.store.due(name, free, self.claim).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(webhook = name, %error, "what is to be told cannot be read");
                return false;
            }
        };
        let is_more = due.len() == free;
        for one in due {
            let Ok(permit) = Arc::clone(&slots).try_acquire_owned() else { continue }; // there were as many
            let (deliverer, core) = (Arc::clone(&self), Arc::clone(&core));
            // Counted among the running executions: a shutdown waits for it.
            core.tasks.clone().spawn(async move { deliverer.attempt(&core, one, permit).await });
        }
        is_more
    }

    async fn attempt(&self, core: &Core, due: Due, permit: OwnedSemaphorePermit) {
        let fate = match message(&due, self.approval_url.as_deref(), &core.store).await {
            Ok(Said::Message(message)) => {
                let body = serde_json::to_string(&message).unwrap_or_default(); // plain data
                self.fate(core, &due, self.send(core, &due.id, body).await).await
            }
            Ok(Said::Moot) => Some(Fate::Gone),
            Ok(Said::Unreadable) => Some(Fate::Dead { why: "the record cannot be read".into() }),
            Err(error) => {
                tracing::warn!(webhook = self.webhook.name, %error, "what is to be told cannot be read");
                None // claimed until the claim lapses
            }
        };
        if let Some(fate) = fate {
            self.settle(core, due, fate).await;
        }
        drop(permit);
    }

    /// One POST. What the receiver answers besides its status is never read.
    async fn send(&self, core: &Core, id: &str, body: String) -> Attempt {
        let seconds = core.clock.now().0.div_euclid(1_000_000);
        let request = self
            .client
            .post(self.webhook.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", self.webhook.keys.sign(id, seconds, &body))
            .body(body);
        tokio::select! {
            answer = request.send() => match answer {
                Ok(answer) => judge(answer.status()),
                Err(error) => Attempt::Failed(class(&error).into()),
            },
            () = core.clock.sleep(LIMIT) => Attempt::Failed("timeout".into()),
            () = core.stop.cancelled() => Attempt::GivenUp,
        }
    }

    async fn fate(&self, core: &Core, due: &Due, attempt: Attempt) -> Option<Fate> {
        let (webhook, id) = (&*self.webhook.name, &*due.id);
        match attempt {
            Attempt::Taken => {
                core.tallies.notifications.delivered.fetch_add(1, Ordering::Relaxed);
                Some(Fate::Gone)
            }
            Attempt::GivenUp => None,
            Attempt::Gone => {
                core.tallies.notifications.failed.fetch_add(1, Ordering::Relaxed);
                tracing::error!(webhook, "the receiver says that it is gone: it is told nothing more");
                if let Err(error) = core.store.disable_webhook(webhook).await {
                    tracing::warn!(webhook, %error, "that it is gone is not on record");
                }
                None // dead, with all that waited for it
            }
            Attempt::Failed(why) => {
                core.tallies.notifications.failed.fetch_add(1, Ordering::Relaxed);
                if due.attempt < i64::from(self.webhook.attempts) {
                    tracing::warn!(webhook, id, attempt = due.attempt, why, "not delivered; it is tried again");
                    let wait = wait(due.attempt).mul_f64(1.0 + 0.2 * core.ids.jitter());
                    return Some(Fate::Later { wait_us: micros(wait), why });
                }
                core.tallies.notifications.dead.fetch_add(1, Ordering::Relaxed);
                tracing::error!(webhook, id, attempts = due.attempt, why, "given up: `countersign notifications list`");
                Some(Fate::Dead { why })
            }
        }
    }

    async fn settle(&self, core: &Core, due: Due, fate: Fate) {
        let webhook = self.webhook.name.clone();
        let settled = Settlement { id: due.id, webhook, attempt: due.attempt, fate };
        if let Err(error) = core.store.settle(vec![settled]).await {
            tracing::warn!(webhook = self.webhook.name, %error, "a delivery is not on record, and is repeated");
        }
    }
}

fn judge(status: StatusCode) -> Attempt {
    if status.is_success() {
        Attempt::Taken
    } else if status == StatusCode::GONE {
        Attempt::Gone
    } else {
        Attempt::Failed(format!("status {}", status.as_u16())) // a redirect too: nobody else gets the message
    }
}

/// Never the error's own text, which carries the URL.
fn class(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        "timeout"
    } else if error.is_connect() {
        "no connection"
    } else {
        "no answer"
    }
}

fn wait(attempt: i64) -> Duration {
    let at = usize::try_from(attempt.saturating_sub(1)).unwrap_or(0).min(WAITS.len() - 1);
    WAITS.get(at).copied().unwrap_or(Duration::from_hours(15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_attempts_take_about_a_day() {
        let hours = (1..8).map(wait).sum::<Duration>().as_secs_f64() / 3600.0;
        assert!((22.0..25.0).contains(&hours), "{hours}");
        assert_eq!(wait(99), Duration::from_hours(15));
    }
}
