//! One transaction for many operations: every step is one statement over all of them. Results are matched by execution
//! or approval, never by the contested row. An answer of `None` means: what this operation lost against has vanished,
//! ask again in the next batch.

mod activate;
mod begin;
mod decide;
mod end;
mod export;
mod file;
mod ledger;
mod outbox;
mod pick;
mod process;
mod retain;

use super::db::{Cell, Conn, row};
use super::job::{Answer, Op, Ready, SeenRow};
use super::outbox::Wanted;
use super::sql;
use crate::audit::{AuditEvent, Envelope, EventKind, EventRow};
use crate::clock::Timestamp;
use crate::id::Ids;

use self::outbox::Telling;

/// What a transaction came to, once it is committed.
pub(super) struct Work {
    /// By position of the operation.
    pub(super) answers: Vec<Option<Answer>>,
    /// Place and id of its first event: tells whether it was committed (EXE-8).
    pub(super) marker: Option<(i64, String)>,
    /// The place of its last event.
    pub(super) last: Option<i64>,
    /// The generation of the active policy set, if it had to be known.
    pub(super) generation: Option<i64>,
    /// The number of the last change of the subscriptions, if something was done that others may want to know.
    pub(super) subscriptions: Option<i64>,
    /// Whether there is something new to be told.
    pub(super) tells: bool,
}

struct Batch<'a> {
    conn: &'a mut Conn,
    ops: &'a [&'a Op],
    ids: &'a Ids,
    /// The instance of this process.
    own: &'a str,
    /// What somebody wants to know.
    wanted: Wanted,
    answers: Vec<Option<Answer>>,
    /// With the position of the operation that they belong to.
    events: Vec<(usize, EventRow)>,
    seen: Vec<&'a SeenRow>,
    tellings: Vec<Telling>,
    /// Whether anything was done that somebody might want to know.
    tells: bool,
    /// Whether rows of the outbox became due.
    wrote: bool,
}

/// Everything between BEGIN and COMMIT, in the one lock order of [`sql`].
pub(super) async fn perform(
    conn: &mut Conn,
    ops: &[&Op],
    ids: &Ids,
    own: &str,
    wanted: Wanted,
) -> Result<Work, sqlx::Error> {
    let answers = ops.iter().map(|_| None).collect();
    let (events, seen, tellings) = (Vec::new(), Vec::new(), Vec::new());
    let (tells, wrote) = (false, false);
    let mut batch = Batch { conn, ops, ids, own, wanted, answers, events, seen, tellings, tells, wrote };
    batch.begin().await?;
    batch.instances().await?;
    batch.file().await?;
    batch.decide().await?;
    batch.withdraw().await?;
    batch.take_up().await?;
    batch.finish().await?;
    batch.reconcile().await?;
    batch.unresolved().await?;
    batch.activate().await?;
    batch.ledger().await?;
    batch.export().await?;
    batch.erase().await?;
    batch.retain().await?;
    batch.append();
    batch.keep_seen().await?;
    batch.outbox().await?;
    batch.write_tellings().await?;
    batch.close().await
}

impl<'a> Batch<'a> {
    /// The operations of one kind, with their positions.
    fn pick<T>(&self, kind: impl Fn(&'a Op) -> Option<T>) -> Vec<(usize, T)> {
        let ops: &'a [&'a Op] = self.ops;
        ops.iter().enumerate().filter_map(|(i, op)| kind(op).map(|it| (i, it))).collect()
    }

    /// Notes an event that only the transaction can know, about the execution whose envelope is stored.
    fn note(&mut self, at: usize, envelope: &str, kind: EventKind) -> Result<(), sqlx::Error> {
        let id = self.ids.event();
        self.note_as(at, id, envelope, kind)
    }

    fn note_as(&mut self, at: usize, id: String, envelope: &str, kind: EventKind) -> Result<(), sqlx::Error> {
        let envelope: Envelope = serde_json::from_str(envelope).map_err(|error| sqlx::Error::Decode(error.into()))?;
        let event = AuditEvent { id, at: Timestamp(self.conn.now), kind, envelope };
        self.events.push((at, event.into_row()));
        Ok(())
    }

    fn keep(&mut self, at: usize, events: &[EventRow]) {
        self.events.extend(events.iter().map(|it| (at, it.clone())));
    }

    /// As [`Self::keep`], with what policies saw.
    fn keep_all<T>(&mut self, at: usize, it: &'a Ready<T>) {
        self.keep(at, &it.events);
        self.seen.extend(it.seen.as_deref());
    }

    async fn keep_seen(&mut self) -> Result<(), sqlx::Error> {
        let rows: Vec<_> = self.seen.iter().map(|it| seen_row(it)).collect();
        self.conn.run(sql::INSERT_SEEN, &rows).await
    }

    fn answer(&mut self, at: usize, answer: Answer) {
        if let Some(place) = self.answers.get_mut(at) {
            *place = Some(answer);
        }
    }

    /// Operations that are nothing but events.
    fn append(&mut self) {
        let ops: &'a [&'a Op] = self.ops;
        for (i, op) in ops.iter().enumerate() {
            match op {
                Op::Append(it) => {
                    self.keep_all(i, it);
                    self.answer(i, Answer::Appended);
                }
                Op::Read(it) => {
                    self.keep_all(i, it);
                    self.answer(i, Answer::Read(true));
                }
                Op::File(_)
                | Op::Decide(_)
                | Op::Withdraw(_)
                | Op::Begin(_)
                | Op::Finish(_)
                | Op::Reconcile(_)
                | Op::Activate(_)
                | Op::Renew { .. }
                | Op::Sweep { .. }
                | Op::Unresolved { .. }
                | Op::Pick { .. }
                | Op::LayDown(_)
                | Op::Outbox(_)
                | Op::Ledger(_)
                | Op::Export(_)
                | Op::Erase(_)
                | Op::Detach(_)
                | Op::Purge { .. }
                | Op::Retire { .. } => {}
            }
        }
    }

    /// The head row is the last lock; exactly one statement follows before COMMIT, and goes with it.
    async fn close(mut self) -> Result<Work, sqlx::Error> {
        let reads = self.ops.iter().any(|it| matches!(it, Op::Read(_)));
        if self.events.is_empty() && !reads {
            let (marker, last, generation, subscriptions) = (None, None, None, None);
            return Ok(Work { answers: self.answers, marker, last, generation, subscriptions, tells: self.wrote });
        }
        self.events.sort_by_key(|(at, _)| *at); // stable: one operation's events stay together, in order
        let count = i64::try_from(self.events.len()).unwrap_or(i64::MAX);
        let places = (1 - count)..;
        let rows: Vec<_> = self.events.iter().zip(places).map(|((_, it), place)| event_row(it, place)).collect();
        let (head, events) = ((sql::HEAD, &*vec![row![count]]), (sql::INSERT_EVENTS, &*rows));
        let head = self.conn.both::<(i64, i64, i64)>(head, events).await?;
        let (last, generation, subscriptions) = head.first().copied().ok_or(sqlx::Error::RowNotFound)?;
        let marker = self.events.first().map(|(_, it)| (last - count + 1, it.id.clone()));
        let subscriptions = self.tells.then_some(subscriptions);
        let (last, generation) = (Some(last), Some(generation));
        Ok(Work { answers: self.answers, marker, last, generation, subscriptions, tells: self.wrote })
    }
}

fn seen_row(it: &SeenRow) -> Vec<Cell<'_>> {
    let SeenRow { execution, place, tenant, capability, policy_hash, decided_at, sealed } = it;
    row![execution, *place, tenant, capability, policy_hash, *decided_at, sealed]
}

fn event_row(event: &EventRow, place: i64) -> Vec<Cell<'_>> {
    let EventRow { id, at, kind, terminal, tenant, execution, capability, actor, body, leaf } = event;
    let (execution, capability, actor) = (execution.as_deref(), capability.as_deref(), actor.as_deref());
    row![place, id, tenant, execution, capability, actor, *kind, *terminal, at.0, body, leaf]
}
