//! What leaves, as commands ask for it: cursors of exports, events with their hashes, comments that are to be erased.

use serde::Serialize;

use super::db::values;
use super::job::{Answer, Op};
use super::op::{Erase, Export};
use super::read::LogReader;
use super::{Store, StoreError, sql};
use crate::clock::Timestamp;

/// How far the log went out under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cursor {
    pub(crate) name: String,
    pub(crate) format: String,
    /// Where to, without secrets.
    pub(crate) sink: String,
    /// The last event that the other side has.
    pub(crate) seq: i64,
    pub(crate) moved_at: Timestamp,
    /// Why the last attempt failed; nothing if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
    /// How many attempts failed since it moved.
    pub(crate) failures: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failed_at: Option<Timestamp>,
}

/// name, format, sink, seq, moved at, failure, failures, failed at.
type CursorRow = (String, String, String, i64, i64, Option<String>, i64, Option<i64>);

impl LogReader {
    /// Places, canonical texts and leaf hashes: after, and up to.
    pub(crate) async fn exported(
        &self,
        after: i64,
        up_to: i64,
        limit: usize,
    ) -> Result<Vec<(i64, String, String)>, StoreError> {
        self.query(sql::EXPORTED, &values![after, up_to, i64::try_from(limit).unwrap_or(i64::MAX)]).await
    }

    /// The place before the first event that was recorded at this time or later; that of the last event if there is none.
    pub(crate) async fn before_first_from(&self, time: Timestamp) -> Result<i64, StoreError> {
        self.place(sql::BEFORE_FIRST_FROM, time).await
    }

    /// The place of the last event that was recorded before this time; 0 if there is none.
    pub(crate) async fn last_before(&self, time: Timestamp) -> Result<i64, StoreError> {
        self.place(sql::LAST_BEFORE, time).await
    }

    async fn place(&self, text: &'static str, time: Timestamp) -> Result<i64, StoreError> {
        let found: Vec<(i64,)> = self.query(text, &values![time.0]).await?;
        Ok(found.first().map_or(0, |it| it.0))
    }

    /// Cursors by name, or the one of this name.
    pub(crate) async fn cursors(&self, name: Option<&str>) -> Result<Vec<Cursor>, StoreError> {
        let rows: Vec<CursorRow> = self.query(sql::CURSORS, &values![name]).await?;
        let cursor = |(name, format, sink, seq, moved_at, failure, failures, failed_at): CursorRow| Cursor {
            name,
            format,
            sink,
            seq,
            moved_at: Timestamp(moved_at),
            failure,
            failures,
            failed_at: failed_at.map(Timestamp),
        };
        Ok(rows.into_iter().map(cursor).collect())
    }

    /// Comments of an approval, or of all, behind this one: each by its approval, and
    /// [`crate::actor::Party::folded`] of who wrote it.
    pub(crate) async fn comments(
        &self,
        approval: Option<&str>,
        after: (&str, &str),
        limit: usize,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.query(sql::COMMENTS, &values![approval, after.0, after.1, limit]).await
    }
}

impl Store {
    /// One step of a cursor. False: it is not where the step says.
    pub(crate) async fn export(&self, step: Export) -> Result<bool, StoreError> {
        match self.writer.ask(Op::Export(step)).await? {
            Answer::Exported(done) => Ok(done),
            answer => Err(StoreError::Refused(format!("unfit answer {answer:?}"))),
        }
    }

    /// How many of the comments were there.
    pub(crate) async fn erase(&self, erase: Erase) -> Result<usize, StoreError> {
        match self.writer.ask(Op::Erase(erase)).await? {
            Answer::Erased(count) => Ok(count),
            answer => Err(StoreError::Refused(format!("unfit answer {answer:?}"))),
        }
    }
}
