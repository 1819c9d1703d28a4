//! Follows the log: whoever waits for more of it is woken by commits of this process at once, and by those of other
//! processes within half a second.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::clock::Clock;
use crate::store::Store;

/// How often the head row is looked at while somebody waits.
const LOOK: Duration = Duration::from_millis(500);

/// The end of the log, as it moves.
pub(crate) struct Tail {
    store: Store,
    clock: Clock,
    /// Whoever holds it looks for all who wait.
    turn: Mutex<()>,
}

impl Tail {
    pub(crate) fn new(store: Store, clock: Clock) -> Self {
        Self { store, clock, turn: Mutex::new(()) }
    }

    /// How many events there are, as far as this process has heard. Take it *before* reading what you wait for a change
    /// of: [`Self::beyond`] it then misses nothing.
    pub(crate) fn heard(&self) -> i64 {
        *self.store.head().borrow()
    }

    /// Waits until there are more events than `seq`, and returns how many there are then. Can be dropped at any time.
    pub(crate) async fn beyond(&self, seq: i64) -> i64 {
        let mut head = self.store.head();
        let grown = async { head.wait_for(|it| *it > seq).await.map_or(seq, |it| *it) };
        tokio::select! {
            biased;
            seq = grown => seq,
            never = self.look_out() => match never {},
        }
    }

    /// One of all who wait looks for commits of other processes; when it is dropped, the next one does.
    async fn look_out(&self) -> Infallible {
        let _turn = self.turn.lock().await;
        loop {
            self.clock.sleep(LOOK).await;
            if let Err(error) = self.store.look().await {
                tracing::debug!(cause = &error as &dyn std::error::Error, "the end of the log could not be seen");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use futures_util::FutureExt as _;
    use tokio::sync::watch;

    use super::*;
    use crate::actor::{Actor, Identity};
    use crate::audit::{AuditEvent, Envelope, EventKind};
    use crate::clock::Timestamp;
    use crate::id::Ids;
    use crate::store::{Config, KeySource, Probe};

    async fn store(path: &Path, clock: &Clock) -> Store {
        let (key, hour) = (KeySource::Bytes([7; 32]), Duration::from_hours(1));
        let config = Config {
            path: path.to_owned(),
            clock: clock.clone(),
            ids: Ids::Random,
            lease: hour * 48,
            renew: hour * 24,
            sweep: None,
            keep_decisions: hour,
            key,
            probe: Probe::default(),
        };
        Store::open(config).await.unwrap()
    }

    async fn note(store: &Store) {
        let envelope = Envelope::of(&Identity::new(Actor::user("dana")));
        let kind = EventKind::Discovered { count: 0, digest: String::new() };
        let event = AuditEvent { id: Ids::Random.event(), at: Timestamp(0), kind, envelope };
        store.append(vec![event]).await.unwrap();
    }

    #[tokio::test]
    async fn own_commits_wake_whoever_waits_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let clock = Clock::Manual(Arc::new(watch::Sender::new(Timestamp(0))));
        let store = store(&directory.path().join("own.db"), &clock).await;
        let tail = Tail::new(store.clone(), clock);
        let waiting = tail.beyond(0);
        let mut waiting = std::pin::pin!(waiting);
        assert_eq!((tail.heard(), waiting.as_mut().now_or_never()), (0, None));
        note(&store).await;
        assert_eq!((waiting.await, tail.heard(), tail.beyond(0).await), (1, 1, 1));
        assert_eq!(tail.beyond(1).now_or_never(), None);
    }

    #[tokio::test]
    async fn other_processes_commits_are_seen_when_half_a_second_is_over_and_by_one_look_for_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("others.db");
        let now = Arc::new(watch::Sender::new(Timestamp(0)));
        let clock = Clock::Manual(Arc::clone(&now));
        let (own, other) = (store(&path, &clock).await, store(&path, &clock).await);
        let tail = Tail::new(own, clock);
        let (mut first, mut second) = (std::pin::pin!(tail.beyond(0)), std::pin::pin!(tail.beyond(0)));
        assert_eq!((first.as_mut().now_or_never(), second.as_mut().now_or_never()), (None, None));
        note(&other).await;
        assert_eq!((first.as_mut().now_or_never(), second.as_mut().now_or_never()), (None, None));
        now.send_modify(|it| *it = it.plus(LOOK));
        assert_eq!(tokio::join!(first, second), (1, 1));
    }

    #[tokio::test]
    async fn when_whoever_looks_is_gone_the_next_one_looks() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gone.db");
        let now = Arc::new(watch::Sender::new(Timestamp(0)));
        let clock = Clock::Manual(Arc::clone(&now));
        let (own, other) = (store(&path, &clock).await, store(&path, &clock).await);
        let tail = Tail::new(own, clock);
        let mut first = Box::pin(tail.beyond(0));
        let mut second = std::pin::pin!(tail.beyond(0));
        assert_eq!((first.as_mut().now_or_never(), second.as_mut().now_or_never()), (None, None));
        drop(first);
        assert_eq!(second.as_mut().now_or_never(), None);
        note(&other).await;
        now.send_modify(|it| *it = it.plus(LOOK));
        assert_eq!(second.await, 1);
    }
}
