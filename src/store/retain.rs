//! Retention, as commands ask for it: what an archive has, what is still needed, and letting it go.

use serde::Serialize;

use super::db::{row, values};
use super::job::{Answer, Op, Ready};
use super::op::{Detach, Detached, Need};
use super::read::LogReader;
use super::{Store, StoreError, sql};
use crate::clock::Timestamp;

/// A part of the log that an archive has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Detachment {
    /// The first event of it.
    pub(crate) from: i64,
    /// The last one.
    pub(crate) through: i64,
    pub(crate) archive: String,
    /// SHA-256 of the archive as it was then.
    pub(crate) digest: String,
    pub(crate) at: Timestamp,
}

impl LogReader {
    /// Every part that left, in order.
    pub(crate) async fn detachments(&self) -> Result<Vec<Detachment>, StoreError> {
        let rows: Vec<(i64, i64, String, String, i64)> = self.query(sql::DETACHMENTS, &[]).await?;
        let part = |(after, through, archive, digest, at): (i64, i64, String, String, i64)| Detachment {
            from: after + 1,
            through,
            archive,
            digest,
            at: Timestamp(at),
        };
        Ok(rows.into_iter().map(part).collect())
    }

    /// The largest checkpoint of at most so many events.
    pub(crate) async fn checkpoint_up_to(&self, size: i64) -> Result<Option<(i64, String)>, StoreError> {
        Ok(self.query(sql::CHECKPOINT_UP_TO, &values![size]).await?.pop())
    }

    /// What needs events up to there: at most 100 of it, what needs the oldest first.
    pub(crate) async fn needed(&self, through: i64) -> Result<Vec<Need>, StoreError> {
        let rows: Vec<(String, String, i64)> = self.rows(sql::NEEDED, &[row![through]]).await?;
        Ok(rows.into_iter().map(Need::from).collect())
    }
}

impl Store {
    /// Lets a part of the log go. Nothing is deleted yet.
    pub(crate) async fn detach(&self, detach: Detach) -> Result<Detached, StoreError> {
        let event = detach.event.clone();
        match self.writer.ask(Op::Detach(Box::new(Ready::new(detach, vec![event])))).await? {
            Answer::Detached(it) => Ok(it),
            answer => Err(StoreError::Refused(format!("unfit answer {answer:?}"))),
        }
    }

    /// Deletes the oldest events that were let go; how many. 0: there are no more.
    pub(crate) async fn purge(&self, limit: i64) -> Result<usize, StoreError> {
        match self.writer.ask(Op::Purge { limit }).await? {
            Answer::Purged(count) => Ok(count),
            answer => Err(StoreError::Refused(format!("unfit answer {answer:?}"))),
        }
    }
}
