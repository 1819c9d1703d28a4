//! The one writer of a process: a thread of its own with a queue, batches, the lease's renewals and the sweep, so that
//! blocking handlers stall none of them (EXE-10).

mod queue;
mod transaction;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;

use self::queue::{Job, Owed, Queue, Reply, Ticket};
use self::transaction::Failure;
pub(super) use self::transaction::primary;
use super::db::Conn;
use super::job::{Answer, Ending, Enrol, Op, Ready};
use super::lock::Turn;
use super::op::{Began, Begin, Decided, End, Finish};
use super::outbox::Wanted;
use super::{Shared, StoreError};
use crate::approval::ApprovalState;
use crate::audit::{AuditEvent, EventKind, Executed};
use crate::clock::{Monotonic, micros};
use crate::outcome::ErrorCode;
use crate::stage::Stage;

/// How often an operation is put off because what it lost against had vanished.
const VANISHED: u8 = 3;

/// How long the last one waits for what is owed, if nobody says otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between tries of what is owed while nothing else happens: doubling from the first to the second.
const OWED_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

enum Message {
    Job(Job),
    /// Begun, but nobody took the answer.
    Abandoned(Box<Ready<Begin>>),
    Close {
        patience: Duration,
        done: oneshot::Sender<()>,
    },
}

/// A handle; dropping the last one lets the thread finish what is queued and end.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    inbox: mpsc::UnboundedSender<Message>,
    waiting: Arc<AtomicUsize>,
}

impl Writer {
    pub(super) fn start(shared: Arc<Shared>) -> std::io::Result<Self> {
        let (inbox, messages) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let own = inbox.downgrade();
        std::thread::Builder::new().name("countersign-store".into()).spawn(move || {
            runtime.block_on(Loop::new(shared, messages, own).run());
            runtime.shutdown_background(); // whoever still waits for the file lock is left behind
        })?;
        Ok(Self { inbox, waiting: Arc::default() })
    }

    /// Queues an operation and waits for its answer. Dropping this future never leaves a transaction half done, and an
    /// execution that it began is ended by the writer.
    pub(super) async fn ask(&self, op: Op) -> Result<Answer, StoreError> {
        let bytes = op.check()?;
        let ticket = if op.is_urgent() { None } else { Some(Ticket::take(&self.waiting).ok_or(StoreError::Busy)?) };
        let (reply, answer) = oneshot::channel();
        let job = Job { op, reply: Some(reply), vanished: 0, bytes, alone: false, ticket };
        self.inbox.send(Message::Job(job)).map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?.map(Reply::accept)
    }

    /// How many operations wait; ends, leases and sweeps apart.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Ends the thread after what is queued; what is owed by then is tried for so long.
    pub(super) async fn close(&self, patience: Duration) {
        let (done, ended) = oneshot::channel();
        if self.inbox.send(Message::Close { patience, done }).is_ok() {
            let _ = ended.await; // either way it has ended
        }
    }
}

struct Loop {
    shared: Arc<Shared>,
    inbox: mpsc::UnboundedReceiver<Message>,
    own: mpsc::WeakUnboundedSender<Message>,
    conn: Option<Conn>,
    turn: Turn,
    queue: Queue,
    /// What somebody wants to be told of, as far as it is known.
    wanted: Option<Wanted>,
    /// Ends that must be stored, however long it takes (EXE-8, EXE-9).
    owed: Vec<Job>,
    pause: Duration,
    renewed: Monotonic,
    swept: Monotonic,
    /// Set when nothing more comes: until when what is owed is tried.
    deadline: Option<Pin<Box<Sleep>>>,
    done: Vec<oneshot::Sender<()>>,
}

impl Drop for Loop {
    /// Also when the thread panics: nobody renews the lease any more.
    fn drop(&mut self) {
        self.shared.lease.end();
    }
}

impl Loop {
    fn new(
        shared: Arc<Shared>,
        inbox: mpsc::UnboundedReceiver<Message>,
        own: mpsc::WeakUnboundedSender<Message>,
    ) -> Self {
        let now = shared.clock.monotonic();
        let (conn, turn, deadline, wanted) = (None, Turn::default(), None, None);
        let (queue, pause) = (Queue::default(), OWED_PAUSE.0);
        let (owed, done) = (Vec::new(), Vec::new());
        Self { shared, inbox, own, conn, turn, queue, wanted, owed, pause, renewed: now, swept: now, deadline, done }
    }

    async fn run(mut self) {
        loop {
            self.due();
            if self.queue.is_empty() && !self.wait().await {
                break;
            }
            while let Ok(message) = self.inbox.try_recv() {
                self.receive(message);
            }
            self.pay();
            let batch = self.queue.take();
            if !batch.is_empty() {
                self.shared.is_behind(true);
                self.settle(batch).await;
            }
            if self.owed.is_empty() {
                self.shared.is_behind(false);
            }
        }
        self.leave().await;
    }

    /// Renewals and sweeps whose time has come.
    fn due(&mut self) {
        let now = self.shared.clock.monotonic();
        if now.since(self.renewed) >= self.shared.renew {
            self.renewed = now;
            self.renew();
        }
        if self.shared.sweep.is_some_and(|it| now.since(self.swept) >= it) {
            self.swept = now;
            self.queue.push(Job::own(self.shared.sweeping()));
        }
    }

    fn renew(&mut self) {
        let instance = self.shared.lease.owner().instance;
        let enrol = (!self.shared.lease.is_enrolled()).then(|| self.shared.enrolment());
        let asked = self.shared.clock.monotonic();
        self.queue.push(Job::own(Op::Renew { instance, enrol, asked }));
    }

    /// Waits until there is something to do. False: never again.
    async fn wait(&mut self) -> bool {
        let now = self.shared.clock.monotonic();
        let renewal = self.shared.renew.saturating_sub(now.since(self.renewed));
        let sweep = self.shared.sweep.map(|it| it.saturating_sub(now.since(self.swept)));
        let timer = self.shared.clock.sleep(sweep.map_or(renewal, |it| it.min(renewal)));
        let retry = tokio::time::sleep(self.pause);
        let retries = !self.owed.is_empty();
        if let Some(deadline) = &mut self.deadline {
            if !retries {
                return false;
            }
            return tokio::select! { () = deadline => false, () = retry => { self.retry(); true } };
        }
        tokio::select! {
            biased;
            message = self.inbox.recv() => match message {
                Some(message) => self.receive(message),
                None => self.deadline = Some(Box::pin(tokio::time::sleep(PATIENCE))),
            },
            () = timer => {}
            () = retry, if retries => self.retry(),
        }
        true
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::Job(job) => self.queue.push(job),
            Message::Abandoned(begin) => self.abandon(*begin),
            Message::Close { patience, done } => {
                self.inbox.close();
                self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
                self.done.push(done);
            }
        }
    }

    fn retry(&mut self) {
        self.pause = self.pause.saturating_mul(2).min(OWED_PAUSE.1);
        self.owed.drain(..).rev().for_each(|it| self.queue.push_first(it));
    }

    /// Whatever is sent next, what is owed goes first (EXE-8).
    fn pay(&mut self) {
        if !self.queue.is_empty() {
            self.owed.drain(..).rev().for_each(|it| self.queue.push_first(it));
        }
    }

    /// Commits a batch and answers; one that fails for a reason of its own is repeated operation by operation.
    async fn settle(&mut self, jobs: Vec<Job>) {
        let ops: Vec<&Op> = jobs.iter().map(|it| &it.op).collect();
        match self.try_store(&ops).await {
            Ok(answers) => {
                self.pause = OWED_PAUSE.0;
                jobs.into_iter().zip(answers).for_each(|(job, answer)| self.answer(job, answer));
            }
            Err(Failure::Refused(_)) if jobs.len() > 1 => {
                self.shared.probe.took_apart();
                for job in jobs {
                    Box::pin(self.settle(vec![job])).await;
                }
            }
            // One of them may be what makes it panic: those that must be stored are tried each for itself.
            Err(Failure::Panicked) if jobs.len() > 1 => {
                let (ends, others): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|it| matches!(it.op, Op::Finish(_)));
                for job in others {
                    self.fail(job, &Failure::Panicked);
                }
                for mut job in ends {
                    job.doubt();
                    Box::pin(self.settle(vec![job])).await;
                }
            }
            Err(failure) => jobs.into_iter().for_each(|it| self.fail(it, &failure)),
        }
    }

    fn answer(&mut self, mut job: Job, answer: Option<Answer>) {
        let Some(answer) = answer else {
            job.vanished += 1;
            if job.vanished > VANISHED {
                return job.reply(Err(StoreError::Busy));
            }
            return self.queue.push_first(job);
        };
        if let (Op::Renew { instance, asked, .. }, Answer::Renewed { held, generation }) = (&job.op, &answer) {
            self.shared.saw(*generation);
            self.renewed(instance, *asked, *held);
        }
        if matches!(answer, Answer::Decided(Decided::Done { state: ApprovalState::Approved })) {
            self.shared.approved.send_modify(|it| *it += 1);
        }
        if matches!(answer, Answer::Swept { more: true }) {
            self.queue.push(Job::own(self.shared.sweeping()));
        }
        let Some(reply) = job.reply.take() else { return };
        job.ticket = None;
        let begun = matches!(answer, Answer::Began(Began::Begun { .. }));
        let owed = if let (true, Op::Begin(begin)) = (begun, job.op) {
            Some(Owed::new(begin, self.own.clone()))
        } else {
            None
        };
        // Nobody is there to run what has begun: the writer owes it an end.
        if let Err(Ok(unheard)) = reply.send(Ok(Reply { answer, owed }))
            && let Some(begin) = unheard.owed.and_then(Owed::begin)
        {
            self.abandon(*begin);
        }
    }

    fn renewed(&mut self, instance: &str, asked: Monotonic, held: bool) {
        if held {
            self.shared.lease.renewed(instance, asked);
            return;
        }
        tracing::error!(
            instance,
            "the lease was lost: other processes took this one for dead; it goes on under a new id"
        );
        self.shared.lease.buried(instance, self.shared.ids.instance());
        self.renew();
    }

    /// What must be stored is kept; who waits for anything else is told.
    fn fail(&mut self, mut job: Job, failure: &Failure) {
        let uncertain = matches!(failure, Failure::Uncertain(_) | Failure::Panicked);
        if uncertain {
            job.doubt();
        }
        if matches!(job.op, Op::Finish(_)) && !matches!(failure, Failure::Refused(_)) {
            job.alone |= matches!(failure, Failure::Panicked);
            self.owed.push(job);
            return;
        }
        if let Op::Finish(ending) = &job.op {
            tracing::error!(execution = %ending.finish.what.execution, cause = %failure, "an end cannot be stored");
        }
        let reply = job.reply.take();
        job.ticket = None;
        if let (true, Op::Begin(begin)) = (uncertain, job.op) {
            let kind = EventKind::Failed {
                code: ErrorCode::AuditUnavailable,
                stage: Stage::Idempotency,
                retryable: true,
                attempts: 0,
                executed: Executed::No,
                paths: Vec::new(),
            };
            let end = self.end_of(*begin, kind);
            self.owed.push(end);
        }
        if let Some(reply) = reply {
            let _ = reply.send(Err(failure.into())); // whoever is gone needs no answer
        }
    }

    fn abandon(&mut self, begin: Ready<Begin>) {
        let kind = EventKind::Cancelled { code: ErrorCode::Cancelled, duration_us: 0, executed: Executed::No };
        let end = self.end_of(begin, kind);
        self.queue.push(end);
    }

    /// The end of an execution that nobody will run: its key is freed, its approval given back.
    fn end_of(&self, begin: Ready<Begin>, kind: EventKind) -> Job {
        let Begin { execution, slot, envelope, .. } = begin.what;
        let event = AuditEvent { id: self.shared.ids.event(), at: self.shared.clock.now(), kind, envelope };
        let finish = Finish { execution, slot, end: End::Free, outcome: None, events: Vec::new() };
        let finish = Ready::new(finish, vec![event]).with_spare(self.shared.ids.event());
        Job::own(Op::Finish(Box::new(Ending { finish, unbegun: true, uncertain: false })))
    }

    /// Gives the lease back, unless something of this process has no end yet, and closes the file.
    async fn leave(&mut self) {
        let instance = self.shared.lease.owner().instance;
        if self.owed.is_empty()
            && let Err(error) = self.try_store(&[&Op::Retire { instance }]).await
        {
            tracing::debug!(cause = %error, "the lease was not given back; it lapses");
        }
        if let Some(conn) = self.conn.take() {
            let _ = conn.close().await; // everything is committed
        }
        self.shared.lease.end();
        for done in self.done.drain(..) {
            let _ = done.send(()); // whoever is gone needs no answer
        }
    }
}

impl Shared {
    pub(super) fn sweeping(&self) -> Op {
        Op::Sweep { keep_us: micros(self.keep_decisions) }
    }

    /// A lease for a new instance. A process that sweeps watches for one full lease before it declares others dead; a
    /// command, which lives shorter, acts for an operator and does not wait (EXE-2).
    pub(super) fn enrolment(&self) -> Enrol {
        let wait = if self.sweep.is_some() { self.lease_length } else { Duration::ZERO };
        Enrol { lease: self.lease_length, wait }
    }
}
