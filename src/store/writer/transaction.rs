//! One batch, as often as it takes: retries, a changed policy set, and commits that nobody can be sure of (EXE-8).

use std::io::ErrorKind;
use std::time::Duration;

use super::super::StoreError;
use super::super::batch::{self, Work};
use super::super::db::{Conn, row};
use super::super::job::{Answer, Op};
use super::super::outbox::Wanted;
use super::super::sql;
use super::Loop;
use crate::caught::caught_async;
use crate::id::random;
use crate::topic::Topic;

/// How often a transaction is tried.
const TRIES: u32 = 6;

/// How often a commit is looked for, waiting 20 ms, 40 ms, .. in between.
const LOOKS: u32 = 7;

/// Why a batch was not stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the database refused: {0}")]
    Refused(String),
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// It may have been stored: the COMMIT got no answer, and the database cannot be asked.
    #[error("the database went away amid a commit: {0}")]
    Uncertain(String),
    /// It may have been stored: the code that stores it panicked.
    #[error("the writer panicked")]
    Panicked,
}

impl From<&Failure> for StoreError {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Refused(cause) => Self::Refused(cause.clone()),
            Failure::Unavailable(cause) | Failure::Uncertain(cause) => Self::Unavailable(cause.clone()),
            Failure::Panicked => Self::Unavailable(failure.to_string()),
        }
    }
}

impl Loop {
    /// As [`Self::store`]. A panic, of a driver say, must not end the thread: ends that wait would never be stored, and a
    /// process that goes on without a writer could not even say so.
    pub(super) async fn try_store(&mut self, ops: &[&Op]) -> Result<Vec<Option<Answer>>, Failure> {
        match caught_async(self.store(ops)).await {
            Ok(stored) => stored,
            Err(panicked) => {
                tracing::error!(operations = ops.len(), error = %panicked, "the writer panicked; it goes on");
                self.drop_connection().await; // whatever state it is in
                Err(Failure::Panicked)
            }
        }
    }

    /// Answers by position of the operation.
    async fn store(&mut self, ops: &[&Op]) -> Result<Vec<Option<Answer>>, Failure> {
        let seen = self.shared.generation();
        let mut stale: Vec<bool> = ops.iter().map(|op| op.generation().is_some_and(|it| it < seen)).collect();
        let mut cause = String::new();
        let mut failures = 0;
        while failures < TRIES {
            if failures > 0 {
                self.shared.probe.retried();
                let jitter = u64::from(random::<1>()[0] % 8);
                tokio::time::sleep(Duration::from_millis((1 << failures) + jitter)).await;
            }
            let live: Vec<&Op> = ops.iter().zip(&stale).filter(|it| !it.1).map(|it| *it.0).collect();
            if live.is_empty() {
                return Ok(merge(ops, &stale, Vec::new()));
            }
            match self.attempt(ops, &live, &mut stale).await? {
                Attempt::Done(work) => return Ok(merge(ops, &stale, work.answers)),
                Attempt::PolicyChanged | Attempt::Subscribed => {}
                Attempt::Again(why) => {
                    cause = why;
                    failures += 1;
                }
            }
        }
        Err(Failure::Unavailable(cause))
    }

    async fn attempt(&mut self, ops: &[&Op], live: &[&Op], stale: &mut [bool]) -> Result<Attempt, Failure> {
        let wanted = match self.wanted().await {
            Ok(wanted) => wanted,
            Err(error) => return judge(&error),
        };
        let work = match self.perform(live, wanted).await {
            Ok(work) => work,
            Err(error) => return judge(&error),
        };
        // Seen is what is committed: a set whose commit fails never was active, and nobody may be told to wait for it.
        if let Some(generation) = work.generation
            && outdated(ops, stale, generation)
        {
            self.shared.saw(generation);
            self.roll_back().await;
            return Ok(Attempt::PolicyChanged);
        }
        if work.subscriptions.is_some_and(|it| it != wanted.version) {
            self.wanted = None;
            self.roll_back().await;
            return Ok(Attempt::Subscribed);
        }
        if self.commit(&work).await? {
            self.shared.probe.committed();
            self.shared.saw(work.generation.unwrap_or(0));
            self.shared.grew(work.last.unwrap_or(0));
            if work.tells {
                self.shared.told.send_modify(|it| *it += 1);
            }
            return Ok(Attempt::Done(work));
        }
        Ok(Attempt::Again("a commit was lost".into()))
    }

    async fn perform(&mut self, ops: &[&Op], wanted: Wanted) -> Result<Work, sqlx::Error> {
        let own = self.shared.lease.owner().instance;
        let ids = self.shared.ids.clone();
        let conn = self.connection().await?;
        let done = async {
            conn.begin().await?;
            batch::perform(conn, ops, &ids, &own, wanted).await
        };
        let done = done.await;
        if done.is_err() {
            self.roll_back().await;
        }
        done
    }

    /// What somebody wants to be told of: asked once, and whenever the head row says that it is something else.
    async fn wanted(&mut self) -> Result<Wanted, sqlx::Error> {
        if let Some(wanted) = self.wanted {
            return Ok(wanted);
        }
        let conn = self.connection().await?;
        conn.begin().await?;
        let found = conn.all::<(i64, Option<String>)>(sql::SUBSCRIBED, &[]).await;
        self.roll_back().await;
        let found = found?;
        let version = found.first().map_or(0, |it| it.0);
        let topics = found.iter().filter_map(|it| Topic::parse(it.1.as_deref()?)).collect();
        Ok(*self.wanted.insert(Wanted { version, topics }))
    }

    async fn connection(&mut self) -> Result<&mut Conn, sqlx::Error> {
        if self.conn.is_none() {
            let (clock, turn) = (self.shared.clock.clone(), self.turn.clone());
            self.conn = Some(Conn::open(&self.shared.path, clock, turn).await?);
        }
        self.conn.as_mut().ok_or(sqlx::Error::PoolClosed)
    }

    async fn roll_back(&mut self) {
        if let Some(conn) = &mut self.conn
            && conn.rollback().await.is_err()
        {
            self.drop_connection().await;
        }
    }

    async fn drop_connection(&mut self) {
        if let Some(conn) = self.conn.take() {
            conn.discard().await;
        }
    }

    /// True: committed. False: certainly not.
    async fn commit(&mut self, work: &Work) -> Result<bool, Failure> {
        let probe = self.shared.probe.clone();
        probe.survive();
        let Some(conn) = &mut self.conn else { return Ok(false) };
        let done = if probe.loses_commit() {
            conn.rollback().await.and(Err(sqlx::Error::WorkerCrashed))
        } else if probe.loses_reply() {
            conn.commit().await.and(Err(sqlx::Error::WorkerCrashed))
        } else if probe.is_broken() {
            self.roll_back().await;
            return Err(Failure::Unavailable("broken by a test".into()));
        } else {
            conn.commit().await
        };
        let Err(error) = done else { return Ok(true) };
        self.drop_connection().await;
        let Some((seq, id)) = &work.marker else { return Ok(false) }; // no events: doing it again is harmless
        for look in 0..LOOKS {
            if let Ok(stored) = self.was_stored(*seq, id).await {
                return Ok(stored);
            }
            self.drop_connection().await;
            tokio::time::sleep(Duration::from_millis(20 << look)).await;
        }
        Err(Failure::Uncertain(error.to_string()))
    }

    /// On a fresh connection, behind the head row's lock: an old one may still be committing.
    async fn was_stored(&mut self, seq: i64, id: &str) -> Result<bool, sqlx::Error> {
        if self.shared.probe.is_broken() {
            return Err(sqlx::Error::WorkerCrashed);
        }
        let conn = self.connection().await?;
        conn.begin().await?;
        conn.all::<(Option<String>, i64)>(sql::BEHIND_HEAD, &[]).await?;
        let found = conn.all::<(String,)>(sql::EVENT_AT, &[row![seq]]).await?;
        conn.rollback().await?;
        Ok(found.first().is_some_and(|it| it.0 == id))
    }
}

enum Attempt {
    Done(Work),
    /// Rolled back: some were decided under another policy set.
    PolicyChanged,
    /// Rolled back: others want to be told of other things by now.
    Subscribed,
    Again(String),
}

/// Marks what was decided under another generation; whether there is anything new.
fn outdated(ops: &[&Op], stale: &mut [bool], generation: i64) -> bool {
    let mut changed = false;
    for (op, stale) in ops.iter().zip(stale) {
        if !*stale && op.generation().is_some_and(|it| it != generation) {
            *stale = true;
            changed = true;
        }
    }
    changed
}

fn merge(ops: &[&Op], stale: &[bool], answers: Vec<Option<Answer>>) -> Vec<Option<Answer>> {
    let mut answers = answers.into_iter();
    let merged = ops.iter().zip(stale).map(|(op, stale)| {
        if !stale {
            return answers.next().flatten();
        }
        Some(op.stale())
    });
    merged.collect()
}

/// Whether the whole transaction may simply be done again.
fn judge(error: &sqlx::Error) -> Result<Attempt, Failure> {
    let text = error.to_string();
    match error {
        sqlx::Error::Io(cause) if cause.kind() == ErrorKind::TimedOut => Err(Failure::Unavailable(text)),
        sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed | sqlx::Error::PoolClosed | sqlx::Error::Protocol(_) => {
            Ok(Attempt::Again(text))
        }
        sqlx::Error::Database(cause) => match primary(cause.code().as_deref()) {
            Some(5 | 6) => Ok(Attempt::Again(text)), // busy, locked
            // Out of memory, read-only, I/O, corrupt, full, cannot open, protocol, not a database: not the operation's fault.
            Some(7 | 8 | 10 | 11 | 13 | 14 | 15 | 26) => Err(Failure::Unavailable(text)),
            _ => Err(Failure::Refused(text)),
        },
        _ => Err(Failure::Refused(text)),
    }
}

/// SQLite's primary result code, without what extends it.
pub(in super::super) fn primary(code: Option<&str>) -> Option<i32> {
    code?.parse::<i32>().ok().map(|it| it & 0xff)
}
