//! The store: domain operations that are one transaction each. The only user of sqlx.
//!
//! All writing is done by one writer on a thread of its own ([`writer`]); callers hand it an operation of [`op`] and
//! await the answer, so a dropped caller can never leave a transaction half done. Readers have a pool of their own.

#[cfg(not(feature = "sqlite"))]
compile_error!("countersign needs a store: enable the feature `sqlite`");

mod batch;
mod db;
mod evidence;
#[cfg(feature = "cli")]
mod examine;
#[cfg(feature = "cli")]
mod export;
mod job;
mod lease;
mod lock;
pub(crate) mod op;
mod open;
pub(crate) mod outbox;
mod probe;
mod read;
mod record;
#[cfg(feature = "cli")]
mod retain;
mod seal;
mod sql;
#[cfg(test)]
mod tests;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

pub(crate) use self::evidence::{Evidence, Raw, RawRow};
#[cfg(feature = "cli")]
pub(crate) use self::examine::{Examined, examine};
#[cfg(feature = "cli")]
pub(crate) use self::export::Cursor;
pub(crate) use self::lease::Owner;
pub(crate) use self::open::OpenError;
pub(crate) use self::probe::Probe;
#[cfg(feature = "cli")]
pub(crate) use self::read::LogState;
pub(crate) use self::read::{EventFilter, Figures, LogReader, Readers};
#[cfg(feature = "cli")]
pub(crate) use self::retain::Detachment;
pub(crate) use self::seal::SealError;

use self::job::{Activating, Answer, Ending, Op, Ready, SeenRow};
use self::lease::Lease;
use self::op::{
    Activate, Activated, Active, ApprovalRecord, Began, Begin, Decide, Decided, ExecutionRecord, File, Filed, Finish,
    Holder, Reconcile, Seen, SeenRecord, Settled, Unresolved, Withdraw,
};
use self::seal::Key;
use self::writer::Writer;
use crate::approval::ApprovalState;
use crate::audit::AuditEvent;
use crate::clock::{Clock, Timestamp};
use crate::id::Ids;
use crate::{ApprovalId, ExecutionId};

/// Why the store could not do something. For logs; callers see `AUDIT_UNAVAILABLE` or UNAVAILABLE.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StoreError {
    /// The operation holds something that no database may be given (NUL, too long): one bad value fails one caller.
    #[error("a value cannot be stored: {0}")]
    Invalid(String),
    /// The queue is full.
    #[error("the store's queue is full")]
    Busy,
    /// The database refused, for a reason that concerns this operation alone.
    #[error("the database refused: {0}")]
    Refused(String),
    /// The database cannot be reached, or refused every attempt.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The writer has ended.
    #[error("the store is closed")]
    Closed,
}

/// How to open a store.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) path: PathBuf,
    pub(crate) clock: Clock,
    pub(crate) ids: Ids,
    /// How long this process counts as alive after a renewal: 30 s (EXE-1).
    pub(crate) lease: Duration,
    /// How often it renews: 5 s.
    pub(crate) renew: Duration,
    /// How often it sweeps: 5 s. `None`: it holds a lease, but never sweeps (EXE-2).
    pub(crate) sweep: Option<Duration>,
    /// How long what policies saw is kept: 90 days.
    pub(crate) keep_decisions: Duration,
    pub(crate) key: KeySource,
    pub(crate) probe: Probe,
}

/// Where the sealing key comes from (EXE-6).
#[derive(Clone)]
pub(crate) enum KeySource {
    /// `<database>.key`, readable by its owner only; created if the database is new.
    File,
    /// From the configuration.
    Bytes([u8; 32]),
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::File => "File",
            Self::Bytes(_) => "Bytes(..)",
        })
    }
}

/// What the writer's thread and the handles share.
#[derive(Debug)]
struct Shared {
    path: PathBuf,
    clock: Clock,
    ids: Ids,
    lease: Lease,
    lease_length: Duration,
    renew: Duration,
    sweep: Option<Duration>,
    keep_decisions: Duration,
    probe: Probe,
    generation: AtomicI64,
    /// Since when the writer has had something that is not on record, in microseconds of wall-clock time; 0 if nothing.
    behind: AtomicI64,
    head: watch::Sender<i64>,
    /// Counts what was written for others to be told of, and what was approved.
    told: watch::Sender<u64>,
    approved: watch::Sender<u64>,
}

impl Shared {
    /// The last seen generation of the active policy set.
    fn generation(&self) -> i64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether the writer has something that is not on record yet.
    fn is_behind(&self, is_behind: bool) {
        let since = if is_behind { self.clock.now().0 } else { 0 };
        if !is_behind || self.behind.load(Ordering::Relaxed) == 0 {
            self.behind.store(since, Ordering::Relaxed);
        }
    }

    /// For how long it has had something.
    fn lag(&self) -> Duration {
        match self.behind.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => Duration::from_micros(u64::try_from(self.clock.now().0.saturating_sub(since)).unwrap_or(0)),
        }
    }

    /// Generations only grow, and answers may come out of order.
    fn saw(&self, generation: i64) {
        self.generation.fetch_max(generation, Ordering::AcqRel);
    }

    /// The log only grows, and answers may come out of order.
    fn grew(&self, seq: i64) {
        self.head.send_if_modified(|it| {
            let grew = seq > *it;
            *it = seq.max(*it);
            grew
        });
    }
}

/// An open store. Cheap to clone; dropping the last one lets the writer finish what is queued.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    shared: Arc<Shared>,
    writer: Writer,
    readers: Readers,
    key: Key,
}

/// Asks the writer and unpacks its answer.
macro_rules! ask {
    ($store:expr, $op:expr, $answer:path) => {{
        let answer = $store.writer.ask($op).await?;
        if let $answer(it) = answer { Ok(it) } else { Err(StoreError::Refused(format!("unfit answer {answer:?}"))) }
    }};
}

/// Every event of a database that may be nobody's, with its place: for tests that look at what processes left behind.
#[cfg(feature = "testing")]
pub(crate) async fn stored(path: &std::path::Path) -> Result<Vec<(i64, String)>, StoreError> {
    let readers = Readers::open(path, Clock::System);
    let events = readers.events(&EventFilter::default(), usize::MAX).await;
    readers.close().await;
    events
}

/// Readers of a database that is there. Nothing is written: it is not created, upgraded or locked, nobody is enrolled,
/// and where nobody writes the file itself may be read-only. `None` if it has to be upgraded before it can be read.
#[cfg(feature = "cli")]
pub(crate) async fn look(path: &std::path::Path, clock: Clock) -> Result<Option<Readers>, OpenError> {
    Ok(open::look(path).await?.map(|it| Readers::with(it, clock)))
}

impl Store {
    /// Opens the file, creating or upgrading it, takes a lease and starts the writer's thread.
    pub(crate) async fn open(config: Config) -> Result<Self, OpenError> {
        let Config { path, clock, ids, lease, renew, sweep, keep_decisions, key, probe } = config;
        let key = open::prepare(&path, &key).await?;
        let readers = Readers::open(&path, clock.clone());
        let held = Lease::new(clock.clone(), lease, ids.instance());
        let shared = Shared {
            path,
            clock,
            ids,
            lease: held,
            lease_length: lease,
            renew,
            sweep,
            keep_decisions,
            probe,
            generation: AtomicI64::new(0),
            behind: AtomicI64::new(0),
            head: watch::Sender::new(0),
            told: watch::Sender::default(),
            approved: watch::Sender::default(),
        };
        let shared = Arc::new(shared);
        let writer = Writer::start(Arc::clone(&shared)).map_err(|it| OpenError::io(&shared.path, it))?;
        let store = Self { shared, writer, readers, key };
        match store.renew().await {
            Ok(()) => Ok(store),
            Err(source) => Err(open::refused(&store.shared.path, source).await),
        }
    }

    /// What reads without this store's writer.
    pub(crate) fn readers(&self) -> &Readers {
        &self.readers
    }

    /// Files a request for a decision, or finds the open one of the same call.
    pub(crate) async fn file(&self, mut file: File) -> Result<Filed, StoreError> {
        let events = std::mem::take(&mut file.events);
        let (envelope, seen) = (file.envelope.clone(), self.sealed(file.seen.take()));
        let op = Op::File(Box::new(Ready::new(file, events).with_envelope(&envelope).with_seen(seen)));
        ask!(self, op, Answer::Filed)
    }

    pub(crate) async fn decide(&self, decide: Decide) -> Result<Decided, StoreError> {
        ask!(self, Op::Decide(Box::new(decide)), Answer::Decided)
    }

    pub(crate) async fn withdraw(&self, mut withdraw: Withdraw) -> Result<Decided, StoreError> {
        let events = std::mem::take(&mut withdraw.events);
        ask!(self, Op::Withdraw(Ready::new(withdraw, events)), Answer::Decided)
    }

    /// Begins an execution. If this future is dropped before it is done, whatever it began is ended as cancelled.
    pub(crate) async fn begin(&self, mut begin: Begin) -> Result<Began, StoreError> {
        let events = std::mem::take(&mut begin.events);
        let (envelope, seen) = (begin.envelope.clone(), self.sealed(begin.seen.take()));
        let op = Op::Begin(Box::new(Ready::new(begin, events).with_envelope(&envelope).with_seen(seen)));
        ask!(self, op, Answer::Began)
    }

    /// Ends an execution. Tried until it is stored, however long that takes, whether or not this future is awaited
    /// once it was polled (EXE-9).
    pub(crate) async fn finish(&self, mut finish: Finish) -> Result<Settled, StoreError> {
        let events = std::mem::take(&mut finish.events);
        let finish = Ready::new(finish, events).with_spare(self.shared.ids.event());
        let op = Op::Finish(Box::new(Ending { finish, unbegun: false, uncertain: false }));
        ask!(self, op, Answer::Settled)
    }

    /// Settles an unknown outcome. `applied` and `late` both false: refused, for it still runs, or its owner's lease is
    /// valid and could say otherwise (EXE-7).
    /// `None`: the active policy set is another one than that which allowed it.
    pub(crate) async fn reconcile(&self, mut reconcile: Reconcile) -> Result<Option<Settled>, StoreError> {
        let events = std::mem::take(&mut reconcile.events);
        let op = Ready::new(reconcile, events).with_spare(self.shared.ids.event());
        match self.writer.ask(Op::Reconcile(Box::new(op))).await? {
            Answer::Settled(it) => Ok(Some(it)),
            Answer::Unsettled => Ok(None),
            answer => Err(StoreError::Refused(format!("unfit answer {answer:?}"))),
        }
    }

    /// Appends events that change nothing else.
    pub(crate) async fn append(&self, events: Vec<AuditEvent>) -> Result<(), StoreError> {
        self.append_decided(events, None).await
    }

    /// As [`Self::append`], with what policies saw when they decided what these events tell.
    pub(crate) async fn append_decided(&self, events: Vec<AuditEvent>, seen: Option<Seen>) -> Result<(), StoreError> {
        let op = Ready::new((), events).with_seen(self.sealed(seen));
        self.writer.ask(Op::Append(Box::new(op))).await.map(drop)
    }

    /// The whole trail of a read, in one transaction. False: the active policy set is another one by now, and nothing
    /// was written.
    pub(crate) async fn read_once(
        &self,
        generation: i64,
        events: Vec<AuditEvent>,
        seen: Option<Seen>,
    ) -> Result<bool, StoreError> {
        let op = Ready::new(generation, events).with_seen(self.sealed(seen));
        ask!(self, Op::Read(Box::new(op)), Answer::Read)
    }

    pub(crate) async fn activate(&self, mut activate: Activate) -> Result<Activated, StoreError> {
        let events = std::mem::take(&mut activate.events);
        let seal = self.key.copy(&activate.hash, &activate.said, &activate.files);
        let op = Op::Activate(Box::new(Activating { activate: Ready::new(activate, events), seal }));
        let activated: Result<Activated, StoreError> = ask!(self, op, Answer::Activated);
        activated.inspect(|it| match it {
            Activated::Done { generation, .. } | Activated::Kept(Active { generation, .. }) => {
                self.shared.saw(*generation);
            }
        })
    }

    /// Claims unknown executions of these capabilities for their reconcile hooks: each by one process at a time, at
    /// first at once, then after 5 s doubling to 1 h.
    pub(crate) async fn unresolved(
        &self,
        capabilities: Vec<String>,
        limit: usize,
    ) -> Result<Vec<Unresolved>, StoreError> {
        if capabilities.is_empty() {
            return Ok(Vec::new());
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        ask!(self, Op::Unresolved { capabilities, limit }, Answer::Unresolved)
    }

    pub(crate) async fn approval(&self, id: &ApprovalId) -> Result<Option<ApprovalRecord>, StoreError> {
        self.readers.approval(id).await
    }

    /// Where an approval stands now, and when it expires.
    #[cfg(feature = "http")]
    pub(crate) async fn standing(&self, id: &ApprovalId) -> Result<Option<(ApprovalState, Timestamp)>, StoreError> {
        self.readers.standing(id).await
    }

    /// The latest request for this call (APR-9): either hash equal is the same call (IDM-3).
    pub(crate) async fn approval_of_call(
        &self,
        slot: &str,
        input_hash: &str,
        given_hash: &str,
    ) -> Result<Option<ApprovalRecord>, StoreError> {
        self.readers.approval_of_call(slot, input_hash, given_hash).await
    }

    /// A tenant's requests in the order of filing, behind `after`, without their inputs.
    pub(crate) async fn approvals(
        &self,
        tenant: &str,
        status: Option<ApprovalState>,
        requester: Option<&str>,
        after: Option<&ApprovalId>,
        limit: usize,
    ) -> Result<Vec<ApprovalRecord>, StoreError> {
        self.readers.approvals(tenant, status, requester, after, limit).await
    }

    pub(crate) async fn holder(&self, slot: &str) -> Result<Option<Holder>, StoreError> {
        self.readers.holder(slot).await
    }

    pub(crate) async fn execution(&self, id: &ExecutionId) -> Result<Option<ExecutionRecord>, StoreError> {
        self.readers.execution(id).await
    }

    /// Places and canonical texts of events, in order.
    pub(crate) async fn events(&self, filter: &EventFilter, limit: usize) -> Result<Vec<(i64, String)>, StoreError> {
        self.readers.events(filter, limit).await
    }

    /// The place of the last event.
    pub(crate) async fn end(&self) -> Result<i64, StoreError> {
        self.readers.last().await
    }

    /// What operators count. What the database does not tell is left out, and logged.
    pub(crate) async fn figures(&self) -> Figures {
        let told = |error: &StoreError| tracing::warn!(%error, "the store cannot be counted");
        Figures {
            pending: self.readers.pending().await.inspect_err(told).ok(),
            unknown: self.readers.unknown().await.inspect_err(told).ok(),
            queued: self.writer.waiting(),
            lag: self.shared.lag(),
        }
    }

    /// What policies saw from `since` on, in the order of time, behind `after`; at most 1,000 decisions, of capabilities
    /// that keep it and as long as that is kept.
    #[cfg_attr(not(any(test, feature = "testing")), expect(dead_code, reason = "shown by the test kit"))]
    pub(crate) async fn decision_records(
        &self,
        since: Timestamp,
        after: Option<&SeenRecord>,
        limit: usize,
    ) -> Result<Vec<SeenRecord>, StoreError> {
        self.readers.decision_records(since, after, limit, &self.key).await
    }

    /// What policies saw of one execution, in the order in which they decided.
    #[cfg(feature = "cli")]
    pub(crate) async fn decisions_of(&self, id: &ExecutionId) -> Result<Vec<SeenRecord>, StoreError> {
        self.readers.decisions_of(id, &self.key).await
    }

    /// Lets the tree grow, keeps a checkpoint, or notes that an anchor has one. False: the tree is of another size by
    /// now, and nothing was written.
    pub(crate) async fn ledger(&self, ledger: op::Ledger) -> Result<bool, StoreError> {
        ask!(self, Op::Ledger(Box::new(ledger)), Answer::Ledger)
    }

    /// The log as the tree's builder and its readers see it.
    pub(crate) fn log(&self) -> LogReader {
        LogReader::of(&self.readers)
    }

    /// The database file.
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.shared.path
    }

    pub(crate) async fn active(&self) -> Result<Option<Active>, StoreError> {
        let active = self.readers.active().await?;
        Ok(active.inspect(|it| self.shared.saw(it.generation)))
    }

    /// The files of a policy set that was active; of the last hundred such sets there are copies. An error inside: the
    /// copy is not the one that was written.
    pub(crate) async fn copy(
        &self,
        hash: &str,
    ) -> Result<Option<Result<Vec<(String, String)>, SealError>>, StoreError> {
        let copy = self.readers.copy(hash, &self.key).await?;
        if let Some(Err(error)) = &copy {
            tracing::error!(hash, %error, "the stored copy of a policy set is not the one that was written; it is not used");
        }
        Ok(copy)
    }

    /// The hashes of copies that begin so, the latest active one first.
    pub(crate) async fn copies(&self, prefix: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.readers.copies(prefix, limit).await
    }

    /// How long the log is, as far as this process has heard: its own commits at once, others' when it last looked.
    #[cfg(feature = "http")]
    pub(crate) fn head(&self) -> watch::Receiver<i64> {
        self.shared.head.subscribe()
    }

    /// Looks how long the log is, whoever wrote it, and tells whoever follows [`Self::head`].
    #[cfg(feature = "http")]
    pub(crate) async fn look(&self) -> Result<i64, StoreError> {
        let seq = self.readers.last().await?;
        self.shared.grew(seq);
        Ok(seq)
    }

    /// Writes something that changes nothing: the lease, renewed before it is due.
    #[cfg(feature = "http")]
    pub(crate) async fn try_write(&self) -> Result<(), StoreError> {
        self.renew().await
    }

    /// What this process is called, and the token that fires when its lease is lost, as a pair: take it once for an
    /// execution, before it begins.
    pub(crate) fn owner(&self) -> Owner {
        self.shared.lease.owner()
    }

    /// Whether the lease of the current instance holds for so much longer, by monotonic time (EXE-1).
    pub(crate) fn lease_holds(&self, margin: Duration) -> bool {
        self.shared.lease.holds(margin)
    }

    /// [`Self::owner`]'s instance.
    pub(crate) fn instance(&self) -> String {
        self.owner().instance
    }

    /// The last seen generation of the active policy set.
    pub(crate) fn generation(&self) -> i64 {
        self.shared.generation()
    }

    /// Seals a text for the row with this id (EXE-6).
    pub(crate) fn seal(&self, row_id: &str, plain: &[u8]) -> String {
        self.key.seal(row_id, plain)
    }

    pub(crate) fn open_sealed(&self, row_id: &str, text: &str) -> Result<Vec<u8>, SealError> {
        self.key.open(row_id, text)
    }

    /// HMAC-SHA-256 under the tenant's evidence key: what events say of an input.
    pub(crate) fn evidence(&self, tenant: &str, text: &str) -> String {
        self.key.evidence(tenant, text)
    }

    /// Renews the lease and sweeps, now rather than when it is due.
    #[cfg(test)]
    pub(crate) async fn tick(&self) -> Result<(), StoreError> {
        self.renew().await?;
        self.writer.ask(self.shared.sweeping()).await.map(drop)
    }

    /// Ends the writer's thread after what is queued. What is owed by then is tried for so long.
    pub(crate) async fn close(&self, patience: Duration) {
        self.readers.close().await; // first: whoever only reads cannot fold the log of changes into the file
        self.writer.close(patience).await;
    }

    fn sealed(&self, seen: Option<Seen>) -> Option<Box<SeenRow>> {
        seen.map(|it| Box::new(SeenRow::new(it, &self.key)))
    }

    async fn renew(&self) -> Result<(), StoreError> {
        let enrol = (!self.shared.lease.is_enrolled()).then(|| self.shared.enrolment());
        let asked = self.shared.clock.monotonic();
        self.writer.ask(Op::Renew { instance: self.instance(), enrol, asked }).await.map(drop)
    }
}
