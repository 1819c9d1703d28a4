//! `auth.failed` events: refused credentials are on record, and a flood of them does not become a flood of records.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::AuthFailure;
use crate::Identity;
use crate::actor::Surface;
use crate::audit::{AuditEvent, Envelope, EventKind};
use crate::clock::Monotonic;
use crate::pipeline::Core;

/// How many of a class get a record of their own in each [`WINDOW`].
const ONE_BY_ONE: u32 = 100;
const WINDOW: Duration = Duration::from_mins(1);
/// How often the others of a class get a record together.
const TOGETHER: Duration = Duration::from_secs(1);

/// What was refused, and where.
type Sort = (AuthFailure, Surface);

/// The refused credentials of this process that are not on record yet, and how many were of late.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<BTreeMap<Sort, Tally>>);

#[derive(Debug)]
struct Tally {
    began: Monotonic,
    one_by_one: u32,
    /// Not on record yet.
    waiting: u64,
}

/// What is to be done about one refused credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// It gets a record of its own.
    Now,
    /// It waits for the others of this second: somebody must see to them.
    First,
    /// It is one of those that wait.
    Waits,
}

impl Failures {
    fn note(&self, sort: Sort, now: Monotonic) -> Due {
        let mut tallies = self.tallies();
        let tally = tallies.entry(sort).or_insert(Tally { began: now, one_by_one: 0, waiting: 0 });
        if now.since(tally.began) >= WINDOW {
            (tally.began, tally.one_by_one) = (now, 0);
        }
        if tally.one_by_one < ONE_BY_ONE {
            tally.one_by_one += 1;
            return Due::Now;
        }
        tally.waiting += 1;
        if tally.waiting == 1 { Due::First } else { Due::Waits }
    }

    /// How many wait, who now are seen to.
    fn take(&self, sort: Sort) -> u64 {
        self.tallies().get_mut(&sort).map_or(0, |it| std::mem::take(&mut it.waiting))
    }

    fn take_all(&self) -> Vec<(Sort, u64)> {
        let mut tallies = self.tallies();
        let taken = tallies.iter_mut().map(|(sort, it)| (*sort, std::mem::take(&mut it.waiting)));
        taken.filter(|(_, count)| *count > 0).collect()
    }

    fn tallies(&self) -> MutexGuard<'_, BTreeMap<Sort, Tally>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// Puts a refused credential on record: the first hundred of a class a minute each for itself, others once a second
    /// with their count. It is refused whether or not that succeeds.
    #[expect(
        clippy::disallowed_methods,
        reason = "documented: one short wait a class; a shutdown does not wait for it"
    )]
    pub(crate) async fn auth_failed(self: &Arc<Self>, failure: AuthFailure, surface: Surface) {
        let sort = (failure, surface);
        match self.auth_failures.note(sort, self.clock.monotonic()) {
            Due::Now => self.record_failures(vec![(sort, 1)]).await,
            Due::Waits => {}
            Due::First => {
                let (core, stop) = (Arc::downgrade(self), self.stop.clone());
                let second = self.clock.sleep(TOGETHER);
                tokio::spawn(async move {
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => {} // the shutdown sees to them
                        () = second => {
                            if let Some(core) = core.upgrade() {
                                core.record_failures(vec![(sort, core.auth_failures.take(sort))]).await;
                            }
                        }
                    }
                });
            }
        }
    }

    /// Puts on record what still waits: at the end of the process.
    pub(crate) async fn record_auth_failures(&self) {
        self.record_failures(self.auth_failures.take_all()).await;
    }

    async fn record_failures(&self, counts: Vec<(Sort, u64)>) {
        let event = |((failure, surface), count): (Sort, u64)| AuditEvent {
            id: self.ids.event(),
            at: self.clock.now(),
            kind: EventKind::AuthFailed { count, reason: failure.to_string() },
            envelope: Envelope::of(&Identity::none().on(surface)),
        };
        let counts: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
        if counts.is_empty() {
            return;
        }
        let told: Vec<_> = counts.iter().map(|((failure, _), count)| format!("{failure}: {count}")).collect();
        let events = counts.into_iter().map(event).collect();
        match self.store.append(events).await {
            Ok(()) => tracing::info!(?told, "credentials were refused"),
            Err(error) => {
                let cause = &error as &dyn std::error::Error;
                tracing::error!(?told, cause, "credentials were refused, and that could not be recorded");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, Timestamp};

    #[test]
    fn a_hundred_of_a_class_a_minute_are_told_one_by_one_and_the_rest_by_their_count() {
        let (failures, at) = (Failures::default(), |seconds: u64| {
            Clock::manual(Timestamp(0).plus(Duration::from_secs(seconds))).monotonic()
        });
        let sort = (AuthFailure::Expired, Surface::Http);
        for _ in 0..100 {
            assert_eq!(failures.note(sort, at(0)), Due::Now);
        }
        assert_eq!(failures.note(sort, at(1)), Due::First);
        assert_eq!(failures.note(sort, at(59)), Due::Waits);
        // Another class and another surface are not among them.
        assert_eq!(failures.note((AuthFailure::Malformed, Surface::Http), at(59)), Due::Now);
        assert_eq!(failures.note((AuthFailure::Expired, Surface::Mcp), at(59)), Due::Now);
        assert_eq!((failures.take(sort), failures.take(sort)), (2, 0));
        assert_eq!(failures.note(sort, at(59)), Due::First);
        // Those that wait are not forgotten when the next minute begins.
        assert_eq!(failures.note(sort, at(60)), Due::Now);
        assert_eq!((failures.take_all(), failures.take_all()), (vec![(sort, 1)], vec![]));
    }
}
