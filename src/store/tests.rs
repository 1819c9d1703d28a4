//! The rules of document 5 on real files. One test, one rule, named after it.

mod approvals;
mod begin;
mod ends;
mod events;
mod export;
mod faults;
mod leases;
mod ledger;
mod opening;
mod outbox;
mod policies;
mod retain;
mod sealing;
mod seen;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::watch;

use super::db::{Conn, options};
use super::lock::Turn;
use super::op::{Activate, Began, Begin, Decide, Decided, End, File, Filed, Finish, Settled};
use super::sql::Sql;
use super::{Config, KeySource, Probe, Store, StoreError};
use crate::actor::{Actor, ActorKind, Identity};
use crate::approval::Verdict;
use crate::audit::{ApproverRef, AuditEvent, Envelope, EventKind, Executed, PolicyChanges, PolicyOrigin, Requirement};
use crate::clock::{Clock, Timestamp};
use crate::id::Ids;
use crate::outcome::ErrorCode;
use crate::stage::Stage;
use crate::{ApprovalId, ExecutionId};

const LEASE: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_secs(5);
const START: Timestamp = Timestamp(1_700_000_000_000_000);
const DAY_US: i64 = 24 * 3_600_000_000;
const MINUTE_US: i64 = 60_000_000;

/// A store on a file of its own, with a clock that only the test moves.
struct Bench {
    dir: Arc<TempDir>,
    store: Store,
    clock: Arc<watch::Sender<Timestamp>>,
    probe: Probe,
    ids: Ids,
}

fn config(path: PathBuf, clock: Clock, probe: Probe) -> Config {
    let (lease, renew, sweep, keep_decisions) = (LEASE, STEP, Some(STEP), Duration::from_hours(24));
    let key = KeySource::Bytes([7; 32]);
    Config { path, clock, ids: Ids::Random, lease, renew, sweep, keep_decisions, key, probe }
}

async fn bench() -> Bench {
    Bench::on(Arc::new(TempDir::new().unwrap()), START).await
}

impl Bench {
    async fn on(dir: Arc<TempDir>, at: Timestamp) -> Self {
        Self::tuned(dir, at, |_| {}).await
    }

    async fn tuned(dir: Arc<TempDir>, at: Timestamp, tune: impl FnOnce(&mut Config)) -> Self {
        let (clock, probe) = (Arc::new(watch::Sender::new(at)), Probe::default());
        let mut config = config(dir.path().join("store.db"), Clock::Manual(clock.clone()), probe.clone());
        tune(&mut config);
        let store = Store::open(config).await.unwrap();
        Self { dir, store, clock, probe, ids: Ids::Random }
    }

    /// Another process on the same file, with a clock of its own that starts here and now.
    async fn another(&self) -> Self {
        Self::on(self.dir.clone(), *self.clock.borrow()).await
    }

    /// A command on the same file: it neither sweeps nor renews by itself.
    async fn command(&self, at: Timestamp) -> Self {
        let tune = |it: &mut Config| (it.sweep, it.renew) = (None, Duration::from_hours(1));
        Self::tuned(self.dir.clone(), at, tune).await
    }

    /// Lets time pass while this process renews and sweeps.
    async fn pass(&self, time: Duration) {
        let mut left = time;
        while left > Duration::ZERO {
            let step = left.min(STEP);
            self.clock.send_modify(|it| *it = it.plus(step));
            self.store.tick().await.unwrap();
            left -= step;
        }
    }

    fn now(&self) -> Timestamp {
        *self.clock.borrow()
    }

    fn envelope(execution: &ExecutionId) -> Envelope {
        let actor = Actor::new(ActorKind::User, "dana");
        let mut envelope = Envelope::of(&Identity::new(actor).tenant("t1"));
        envelope.execution_id = Some(execution.clone());
        envelope.capability_id = Some("orders.refund".into());
        envelope
    }

    fn event(&self, execution: &ExecutionId, kind: EventKind) -> AuditEvent {
        AuditEvent { id: self.ids.event(), at: self.now(), kind, envelope: Self::envelope(execution) }
    }

    fn begin(&self, slot: Option<&str>) -> Begin {
        let execution = self.ids.execution();
        let requested = EventKind::Requested { side_effect: None, risk: None, approval_id: None };
        let started =
            EventKind::Started { approval_id: None, keyed: slot.is_some(), policies: vec![], governance: "g".into() };
        Begin {
            tenant: "t1".into(),
            capability: "orders.refund".into(),
            requester: "[null,\"dana\"]".into(),
            slot: slot.map(Into::into),
            input_hash: "h".into(),
            given_hash: "g".into(),
            instance: self.store.instance(),
            retake: false,
            ttl_us: DAY_US,
            approval: None,
            input: "sealed".into(),
            agent: "{}".into(),
            envelope: Self::envelope(&execution),
            generation: 0,
            events: vec![self.event(&execution, requested), self.event(&execution, started)],
            seen: None,
            execution,
        }
    }

    fn with(&self, approval: &ApprovalId, slot: Option<&str>) -> Begin {
        Begin { approval: Some(approval.clone()), ..self.begin(slot) }
    }

    fn finish(&self, begin: &Begin, end: End, outcome: &str) -> Finish {
        let kind = match end {
            End::Completed => EventKind::Completed { duration_us: 1, attempts: 1 },
            End::Failed | End::Unknown | End::Free => EventKind::Failed {
                code: ErrorCode::ExecutionFailed,
                stage: Stage::Handler,
                retryable: false,
                attempts: 1,
                executed: if end == End::Free { Executed::No } else { Executed::Unknown },
                paths: vec![],
            },
        };
        let (execution, slot) = (begin.execution.clone(), begin.slot.clone());
        Finish { events: vec![self.event(&execution, kind)], execution, slot, end, outcome: Some(outcome.into()) }
    }

    fn filing(&self, slot: Option<&str>, requirements: &[(&str, u32)]) -> File {
        let (approval, execution) = (self.ids.approval(), self.ids.execution());
        let requirements: Vec<_> =
            requirements.iter().map(|(kind, quorum)| Requirement { kind: (*kind).into(), quorum: *quorum }).collect();
        let requested = EventKind::ApprovalRequested {
            approval_id: approval.clone(),
            binding_hash: "b".into(),
            reasons: vec![],
            requirements: requirements.clone(),
            expires_at: Timestamp(0),
            policies: vec![],
            existing: false,
            suspended: true,
        };
        File {
            tenant: "t1".into(),
            capability: "orders.refund".into(),
            requester: "[null,\"dana\"]".into(),
            slot: slot.map(Into::into),
            input_hash: "h".into(),
            given_hash: "g".into(),
            binding: "{}".into(),
            binding_hash: "b".into(),
            input: "sealed".into(),
            requirements,
            life_us: MINUTE_US,
            supersedes: None,
            envelope: Self::envelope(&execution),
            events: vec![],
            seen: None,
            requested: self.event(&execution, requested),
            approval,
            execution,
        }
    }

    /// A process proposes a set whose one file says the same as its hash.
    fn activate(&self, hash: &str) -> Activate {
        let kind = EventKind::PolicyLoaded {
            policy_hash: hash.into(),
            previous_hash: None,
            files: 1,
            generation: None,
            origin: PolicyOrigin::Files,
            via: None,
            changes: Some(PolicyChanges::default()),
        };
        Activate {
            hash: hash.into(),
            files: [(format!("{hash}.cedar"), format!("// {hash}"))].into(),
            said: hash.into(),
            proposed: true,
            under: None,
            compared: None,
            loaded: self.event(&self.ids.execution(), kind),
            events: vec![],
        }
    }

    async fn file(&self, slot: Option<&str>, requirements: &[(&str, u32)]) -> ApprovalId {
        filed(self.store.file(self.filing(slot, requirements)).await)
    }

    async fn approved(&self, slot: Option<&str>) -> ApprovalId {
        let approval = self.file(slot, &[("manager", 1)]).await;
        let decided = self.store.decide(decide(&approval, "priya", "manager", Verdict::Approve)).await;
        assert_eq!(decided, Ok(done("approved")));
        approval
    }

    async fn number(&self, text: &'static str) -> i64 {
        self.rows::<(i64,)>(text).await[0].0
    }

    async fn rows<T: super::db::Read>(&self, text: &'static str) -> Vec<T> {
        let mut conn = Conn::open(&self.dir.path().join("store.db"), Clock::System, Turn::default()).await.unwrap();
        let rows = conn.all(Sql { text, columns: "" }, &[]).await.unwrap();
        conn.close().await.unwrap();
        rows
    }

    /// Whoever holds the file changes it.
    async fn tampers(&self, statements: &'static str) {
        let options = options(&self.dir.path().join("store.db")).foreign_keys(false);
        let mut link = sqlx::ConnectOptions::connect(&options).await.unwrap();
        sqlx::Executor::execute(&mut link, statements).await.unwrap();
        sqlx::Connection::close(link).await.unwrap();
    }

    /// Types of the events so far, in order.
    async fn trail(&self) -> Vec<String> {
        self.rows::<(String,)>("SELECT type FROM audit_event ORDER BY seq").await.into_iter().map(|it| it.0).collect()
    }

    /// What holds of every log.
    async fn check(&self) {
        let count = self.number("SELECT COUNT(*) FROM audit_event").await;
        assert_eq!(count, self.number("SELECT COALESCE(MAX(seq), 0) FROM audit_event").await, "gap-free");
        assert_eq!(count, self.number("SELECT seq FROM audit_head").await, "the head is the end");
        let ends =
            "SELECT COUNT(*) FROM (SELECT 1 FROM audit_event WHERE terminal GROUP BY execution_id HAVING COUNT(*) > 1)";
        assert_eq!(0, self.number(ends).await, "one end each");
        let ends = "SELECT COUNT(*) FROM execution e WHERE ended_at IS NOT NULL
                    AND NOT EXISTS (SELECT 1 FROM audit_event a WHERE a.execution_id = e.id AND a.terminal)";
        assert_eq!(0, self.number(ends).await, "an end has its event");
        let ids = "SELECT COUNT(*) - COUNT(DISTINCT id) FROM audit_event";
        assert_eq!(0, self.number(ids).await, "no event twice");
    }
}

fn filed(answer: Result<Filed, StoreError>) -> ApprovalId {
    let Ok(Filed::Filed { approval, .. }) = answer else { panic!("{answer:?}") };
    approval
}

fn decide(approval: &ApprovalId, person: &str, kind: &str, verdict: Verdict) -> Decide {
    Decide {
        approval: approval.clone(),
        person: format!("[null,\"{person}\"]"),
        approver: ApproverRef { id: person.into(), kind: ActorKind::User, issuer: None },
        kind: kind.into(),
        verdict,
        via: "cli".into(),
        generation: None,
        comment: None,
    }
}

fn done(state: &str) -> Decided {
    Decided::Done { state: crate::ApprovalState::parse(state).unwrap() }
}

fn refused(state: &str) -> Decided {
    Decided::Refused { state: crate::ApprovalState::parse(state).unwrap() }
}

fn count<T: PartialEq>(all: &[T], one: &T) -> usize {
    all.iter().filter(|it| *it == one).count()
}

const BEGUN: Result<Began, StoreError> = Ok(Began::Begun { fence: 1 });
const APPLIED: Result<Settled, StoreError> = Ok(Settled { applied: true, late: false });

/// Runs them all at the same time: queued at once, answered in their order.
async fn at_once<F: Future + Send + 'static>(calls: impl IntoIterator<Item = F>) -> Vec<F::Output>
where
    F::Output: Send + 'static,
{
    let tasks: Vec<_> = calls.into_iter().map(|it| tokio::runtime::Handle::current().spawn(it)).collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers
}

/// Polls a future once.
async fn polled<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context))).await
}

/// A call on a clone of the store, to be run by [`at_once`].
macro_rules! call {
    ($bench:expr, $method:ident, $arg:expr) => {{
        let (store, arg) = ($bench.store.clone(), $arg);
        Box::pin(async move { store.$method(arg).await }) as std::pin::Pin<Box<dyn Future<Output = _> + Send>>
    }};
}
use call;
