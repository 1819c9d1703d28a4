//! The log as a Merkle tree (RFC 6962, section 2.1): takes committed events into the tree, signs checkpoints of it, and
//! hands them to anchors. All of it behind the calls, never on their way.
//!
//! An event's leaf is its place less one. Hashes are stored as tiles of height 8 (C2SP tlog-tiles), checkpoints are
//! signed notes (C2SP tlog-checkpoint, Ed25519). What checks all this is [`crate::verify`], which shares no code with it.

mod anchor;
mod frontier;
mod grow;
mod health;
mod key;
mod nodes;
mod note;
#[cfg(feature = "cli")]
mod proof;
#[cfg(feature = "http")]
mod settings;
mod sign;
mod tiles;

use std::sync::Weak;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

pub use self::anchor::Anchor;
use self::frontier::Frontier;
use self::health::Health;
pub use self::health::LogHealth;
pub use self::key::{KeyError, LogKey};
use self::note::Signed;
#[cfg(feature = "cli")]
pub(crate) use self::proof::prove;
#[cfg(feature = "cli")]
pub(crate) use self::settings::is_exposed;
#[cfg(feature = "http")]
pub use self::settings::{AnchorSettings, AuditSettings};
use self::tiles::Edge;
#[cfg(feature = "http")]
pub(crate) use self::tiles::{TilePath, hashes};
use crate::clock::{Clock, Monotonic};
use crate::pipeline::Core;
use crate::store::{Store, StoreError};

/// How often a process that serves looks for events that are not in the tree.
const ROUND: Duration = Duration::from_millis(500);

/// See [`LogTree::every`].
const EVERY: (u64, Duration) = (1_000, Duration::from_mins(1));

/// What becomes of the log beside being written: whether it is a tree, who signs it, who keeps the signatures.
///
/// Without a key there is a tree and no checkpoint of it.
#[derive(Debug)]
#[must_use]
pub struct LogTree {
    key: Option<LogKey>,
    every: (u64, Duration),
    anchors: Option<Vec<Anchor>>,
    readers: LogReaders,
    is_on: bool,
}

/// Who may read the log as such over HTTP, where every tenant's entries are in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogReaders {
    /// Checkpoints and hashes are for everybody.
    pub(crate) everybody: bool,
    /// Whose members may read the entries of all tenants, if policy lets them read the trail.
    pub(crate) tenant: Option<String>,
}

impl Default for LogTree {
    fn default() -> Self {
        Self { key: None, every: EVERY, anchors: None, readers: LogReaders::default(), is_on: true }
    }
}

impl LogTree {
    /// A tree that nobody signs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Signs checkpoints with this key.
    pub fn key(mut self, key: LogKey) -> Self {
        self.key = Some(key);
        self
    }

    /// A checkpoint whenever so many events have none, or the oldest of them has waited so long (default 1,000 events,
    /// one minute). At most two a second.
    pub fn every(mut self, events: u64, time: Duration) -> Self {
        self.every = (events.max(1), time);
        self
    }

    /// Who else keeps checkpoints (default: a file beside the database, `PATH.checkpoints`).
    pub fn anchors(mut self, anchors: impl IntoIterator<Item = Anchor>) -> Self {
        self.anchors = Some(anchors.into_iter().collect());
        self
    }

    /// Lets everybody read checkpoints and hashes over HTTP, without credentials (default: no). Entries are another matter.
    pub fn public(mut self, public: bool) -> Self {
        self.readers.everybody = public;
        self
    }

    /// Members of this tenant may read the entries of *all* tenants over HTTP, if policy lets them `read_audit` (default:
    /// nobody may).
    pub fn readers(mut self, tenant: impl Into<String>) -> Self {
        self.readers.tenant = Some(tenant.into());
        self
    }

    /// No tree at all in this process: for measuring what one costs, and for tests that count transactions.
    pub fn off() -> Self {
        Self { is_on: false, ..Self::default() }
    }

    /// Who keeps the checkpoints of the database at this path; nobody, if nobody signs any.
    pub(crate) fn kept_by(&self, database: &std::path::Path) -> Vec<Anchor> {
        let named = || self.anchors.clone().unwrap_or_else(|| vec![Anchor::beside(database)]);
        self.key.as_ref().map(|_| named()).unwrap_or_default()
    }

    /// Ready for the database of this store.
    pub(crate) fn ready(self, store: &Store, serves: bool) -> Ledger {
        let anchors = self.kept_by(store.path());
        let Self { key, every, readers, is_on, .. } = self;
        let (state, health) = (Mutex::new(State::default()), Health::default());
        Ledger { key, every, anchors, readers, is_on: is_on && serves, state, health }
    }
}

/// A checkpoint: what the log was at some size, signed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// How many events it covers.
    pub size: u64,
    /// The signed note, as C2SP tlog-checkpoint has it.
    pub note: String,
}

/// Why the tree does not grow, or is not signed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// There is nothing to sign with.
    #[error("there is no key to sign with")]
    NoKey,
    /// What is stored is not what was signed or stored before. Nothing is signed until a person has looked at it with
    /// `countersign audit verify`.
    #[error("the log is not what it was: {0}")]
    Refused(String),
    /// The database cannot be read or written now.
    #[error("the log cannot be read or written now")]
    Store(#[source] crate::BoxError),
}

impl From<StoreError> for LedgerError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.into())
    }
}

/// The tree of one engine.
#[derive(Debug)]
pub(crate) struct Ledger {
    key: Option<LogKey>,
    every: (u64, Duration),
    anchors: Vec<Anchor>,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "for the HTTP API"))]
    readers: LogReaders,
    is_on: bool,
    state: Mutex<State>,
    health: Health,
}

/// What is remembered between rounds. All of it can be had from the store again.
#[derive(Debug, Default)]
struct State {
    /// The tiles that are not full yet.
    edge: Option<Edge>,
    /// The same tree from the leaves in the log's own rows, behind the last checkpoint; only where it is signed.
    frontier: Option<Frontier>,
    /// The last checkpoint that is known to be good.
    last: Option<Signed>,
    /// Since when there are events without a checkpoint.
    waiting: Option<Monotonic>,
}

impl Ledger {
    /// Whether this process lets the tree grow by itself.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    #[cfg(feature = "http")]
    pub(crate) fn readers(&self) -> &LogReaders {
        &self.readers
    }

    pub(crate) fn health(&self) -> LogHealth {
        self.health.snapshot()
    }

    pub(crate) fn anchors(&self) -> usize {
        self.anchors.len()
    }

    /// Takes what is new into the tree, and signs it if that is due.
    async fn round(&self, store: &Store, clock: &Clock) -> Result<(), LedgerError> {
        let mut state = self.state.lock().await;
        self.grow(&mut state, store).await?;
        match &self.key {
            Some(key) if self.is_due(&mut state, clock) => self.sign(&mut state, key, store).await.map(drop),
            Some(_) | None => Ok(()),
        }
    }

    /// A checkpoint of everything that is on record by now; the last one if that is it already.
    ///
    /// # Errors
    /// Without a key; if the log is not what it was; if the database is not available.
    pub(crate) async fn checkpoint(&self, store: &Store) -> Result<Option<Checkpoint>, LedgerError> {
        let key = self.key.as_ref().ok_or(LedgerError::NoKey)?;
        let mut state = self.state.lock().await;
        let signed = async {
            self.grow(&mut state, store).await?;
            self.sign(&mut state, key, store).await
        };
        let signed = signed.await;
        self.note(signed.as_ref().err());
        if signed.is_err() {
            *state = State { last: state.last.take(), ..State::default() };
        }
        Ok(signed?.map(|it| it.checkpoint()))
    }

    /// The last round of a process: what is on record is in the tree, signed and handed over, if that takes no longer than
    /// 5 s.
    pub(crate) async fn finish(&self, store: &Store) {
        if !self.is_on {
            return;
        }
        let last = async {
            match self.checkpoint(store).await {
                Err(LedgerError::NoKey) => self.grow(&mut *self.state.lock().await, store).await,
                Ok(_) => self.anchor_all(store).await.map(drop),
                Err(error) => Err(error),
            }
        };
        if !matches!(tokio::time::timeout(Duration::from_secs(5), last).await, Ok(Ok(()))) {
            tracing::warn!("the last events are in no checkpoint yet");
        }
    }

    /// As [`Self::round`]; what goes wrong is told, once for each cause, and looked at again next time.
    async fn attempt(&self, store: &Store, clock: &Clock) {
        let done = self.round(store, clock).await;
        self.note(done.as_ref().err());
        if done.is_err() {
            let mut state = self.state.lock().await;
            *state = State { last: state.last.take(), ..State::default() };
        }
    }

    /// Never silent: in the log when it begins, and in the health as long as it lasts.
    fn note(&self, error: Option<&LedgerError>) {
        let is_new = self.health.refuse(error.map(ToString::to_string));
        match error {
            Some(error @ LedgerError::Refused(_)) if is_new => {
                tracing::error!(cause = %error, "NO CHECKPOINT IS SIGNED: look into it with `countersign audit verify`");
            }
            Some(error) if is_new => tracing::warn!(cause = ?error, "the tree over the log does not grow"),
            Some(_) | None => {}
        }
    }
}

/// Lets the tree grow until the engine stops or is gone.
pub(crate) async fn follow(core: Weak<Core>, clock: Clock, stop: CancellationToken) {
    loop {
        let Some(running) = core.upgrade() else { return };
        running.ledger.attempt(&running.store, &clock).await;
        drop(running);
        tokio::select! {
            () = clock.sleep(ROUND) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Hands checkpoints to one anchor until the engine stops or is gone.
pub(crate) async fn deliver(core: Weak<Core>, number: usize, clock: Clock, stop: CancellationToken) {
    let mut pause = ROUND;
    loop {
        let Some(running) = core.upgrade() else { return };
        let delivered = running.ledger.anchor(number, &running.store).await;
        pause = if delivered { ROUND } else { (pause * 2).min(anchor::LONGEST_PAUSE) };
        drop(running);
        tokio::select! {
            () = clock.sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}
