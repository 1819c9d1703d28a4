//! What waits for the writer, and what may share a batch.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{mpsc, oneshot};

use super::super::StoreError;
use super::super::job::{Answer, Op, Ready, Resource};
use super::super::op::Begin;
use super::Message;

/// The most operations that wait at once; ends, leases and sweeps apart.
const MAX_WAITING: usize = 4096;

/// The most operations of one transaction, and the most bytes of their texts.
const MAX_BATCH: usize = 256;
const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;

pub(super) struct Job {
    pub(super) op: Op,
    pub(super) reply: Option<oneshot::Sender<Result<Reply, StoreError>>>,
    pub(super) vanished: u8,
    pub(super) bytes: usize,
    /// Whether it shares a batch with nothing: what made the writer panic may do so again.
    pub(super) alone: bool,
    /// Its place among those that wait; `None` for what is never refused. Given back before the answer is sent, or when
    /// the job is dropped.
    pub(super) ticket: Option<Ticket>,
}

impl Job {
    /// The writer's own: nobody waits for it.
    pub(super) fn own(op: Op) -> Self {
        Self { op, reply: None, vanished: 0, bytes: 0, alone: false, ticket: None }
    }

    /// It may have been stored: look before writing (EXE-8).
    pub(super) fn doubt(&mut self) {
        if let Op::Finish(ending) = &mut self.op {
            ending.uncertain = true;
        }
    }

    pub(super) fn reply(self, answer: Result<Reply, StoreError>) {
        drop(self.ticket);
        if let Some(reply) = self.reply {
            let _ = reply.send(answer); // whoever is gone needs no answer
        }
    }

    /// Whoever asked is gone, and nothing is lost without it: dropped before it is sent, never after.
    fn is_moot(&self) -> bool {
        self.op.may_be_dropped() && self.reply.as_ref().is_some_and(oneshot::Sender::is_closed)
    }
}

/// A place in the queue.
pub(super) struct Ticket(Arc<AtomicUsize>);

impl Ticket {
    pub(super) fn take(waiting: &Arc<AtomicUsize>) -> Option<Self> {
        let more = |it: usize| (it < MAX_WAITING).then_some(it + 1);
        waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self(Arc::clone(waiting)))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An answer on its way. If it is dropped before it is accepted, what it began is ended.
pub(super) struct Reply {
    pub(super) answer: Answer,
    pub(super) owed: Option<Owed>,
}

impl Reply {
    pub(super) fn accept(self) -> Answer {
        self.owed.and_then(Owed::begin); // taken out: it is the caller's now
        self.answer
    }
}

/// An execution that has begun and that nobody has taken charge of yet.
pub(super) struct Owed {
    begin: Option<Box<Ready<Begin>>>,
    writer: mpsc::WeakUnboundedSender<Message>,
}

impl Owed {
    pub(super) fn new(begin: Box<Ready<Begin>>, writer: mpsc::WeakUnboundedSender<Message>) -> Self {
        Self { begin: Some(begin), writer }
    }

    pub(super) fn begin(mut self) -> Option<Box<Ready<Begin>>> {
        self.begin.take()
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        if let (Some(begin), Some(writer)) = (self.begin.take(), self.writer.upgrade()) {
            let _ = writer.send(Message::Abandoned(begin)); // if the writer has ended, the lease lapses
        }
    }
}

/// Two lines: what must reach the store whatever the load goes first (EXE-9).
#[derive(Default)]
pub(super) struct Queue {
    urgent: VecDeque<Job>,
    normal: VecDeque<Job>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.normal.is_empty()
    }

    pub(super) fn push(&mut self, job: Job) {
        self.line(&job).push_back(job);
    }

    pub(super) fn push_first(&mut self, job: Job) {
        self.line(&job).push_front(job);
    }

    fn line(&mut self, job: &Job) -> &mut VecDeque<Job> {
        if job.op.is_urgent() { &mut self.urgent } else { &mut self.normal }
    }

    /// Takes the next batch: in order, none sharing a resource with one taken or left behind before it.
    pub(super) fn take(&mut self) -> Vec<Job> {
        let marks = {
            let mut choice = Choice::default();
            self.urgent.iter().chain(&self.normal).map_while(|job| choice.of(job)).collect::<Vec<_>>()
        };
        let (urgent, normal) = marks.split_at(marks.len().min(self.urgent.len()));
        let mut batch = Vec::new();
        pull(&mut self.urgent, urgent, &mut batch);
        pull(&mut self.normal, normal, &mut batch);
        batch
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Mark {
    Take,
    Leave,
    Drop,
}

#[derive(Default)]
struct Choice<'a> {
    used: HashSet<Resource<'a>>,
    count: usize,
    bytes: usize,
    closed: bool,
}

impl<'a> Choice<'a> {
    /// `None`: the batch is full, look no further.
    fn of(&mut self, job: &'a Job) -> Option<Mark> {
        let full = self.count >= MAX_BATCH || (self.count > 0 && self.bytes + job.bytes > MAX_BATCH_BYTES);
        if self.closed || full {
            return None;
        }
        if job.is_moot() {
            return Some(Mark::Drop);
        }
        if job.alone || job.op.is_alone() {
            self.closed = true;
            self.count += 1;
            return (self.count == 1 && self.used.is_empty()).then_some(Mark::Take);
        }
        let free = job.op.resources().into_iter().flatten().all(|it| !self.used.contains(&it));
        self.used.extend(job.op.resources().into_iter().flatten());
        if !free {
            return Some(Mark::Leave);
        }
        self.count += 1;
        self.bytes += job.bytes;
        Some(Mark::Take)
    }
}

fn pull(line: &mut VecDeque<Job>, marks: &[Mark], batch: &mut Vec<Job>) {
    let rest = line.split_off(marks.len());
    let looked_at = std::mem::replace(line, rest);
    let mut left = VecDeque::new();
    for (job, mark) in looked_at.into_iter().zip(marks) {
        match mark {
            Mark::Take => batch.push(job),
            Mark::Leave => left.push_back(job),
            Mark::Drop => {}
        }
    }
    left.into_iter().rev().for_each(|it| line.push_front(it));
}
