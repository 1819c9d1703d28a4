//! The log, its tree and its checkpoints, as those read them who build the tree, serve it or prove something by it.

use super::super::db::{query, row, values};
use super::super::{StoreError, sql};
use super::{Readers, many, unavailable};
#[cfg(feature = "cli")]
use crate::clock::Timestamp;

/// Reads the log of a store, or of a database file that may be nobody's.
#[derive(Clone, Debug)]
pub(crate) struct LogReader(Readers);

/// seq, size of the tree, size and time of the last checkpoint, time of the first event without one.
#[cfg(feature = "cli")]
type StateColumns = (i64, i64, Option<i64>, Option<i64>, Option<i64>);

/// Where log, tree and checkpoints are.
#[cfg(feature = "cli")]
#[derive(Debug)]
pub(crate) struct LogState {
    pub(crate) events: i64,
    /// How many of them are in the tree.
    pub(crate) in_tree: i64,
    /// How many of them the last checkpoint covers; 0 if there is none.
    pub(crate) signed: i64,
    pub(crate) signed_at: Option<Timestamp>,
    /// When the first event was recorded that no checkpoint covers.
    pub(crate) unsigned_since: Option<Timestamp>,
}

/// level, place, width, hashes.
pub(crate) type TileColumns = (i64, i64, i64, String);

impl LogReader {
    pub(in super::super) fn of(readers: &Readers) -> Self {
        Self(readers.clone())
    }

    /// Of a file, which is neither created nor upgraded.
    #[cfg(feature = "cli")]
    pub(crate) fn open(path: &std::path::Path) -> Self {
        Self(Readers::open(path, crate::clock::Clock::System))
    }

    /// How long the log is, and how much of it is in the tree.
    pub(crate) async fn heads(&self) -> Result<(i64, i64), StoreError> {
        self.query(sql::HEADS, &[]).await?.pop().ok_or_else(|| StoreError::Unavailable("there is no head row".into()))
    }

    /// The last event that has left, or may; 0 if none.
    #[cfg(feature = "http")]
    pub(crate) async fn detached(&self) -> Result<i64, StoreError> {
        let rows: Vec<(i64,)> = self.rows(sql::DETACHED, &[]).await?;
        Ok(rows.first().map_or(0, |it| it.0))
    }

    /// The last event that has left; 0 if none has.
    pub(crate) async fn gone(&self) -> Result<i64, StoreError> {
        let rows: Vec<(i64,)> = self.query(sql::GONE, &[]).await?;
        Ok(rows.first().map_or(0, |it| it.0))
    }

    /// The first event that is there.
    #[cfg(feature = "cli")]
    pub(crate) async fn first(&self) -> Result<Option<i64>, StoreError> {
        let rows: Vec<(i64,)> = self.query(sql::FIRST, &[]).await?;
        Ok(rows.first().map(|it| it.0))
    }

    /// Where log, tree and checkpoints are.
    #[cfg(feature = "cli")]
    pub(crate) async fn state(&self) -> Result<LogState, StoreError> {
        let found: Option<StateColumns> = self.query(sql::LOG_STATE, &[]).await?.pop();
        let (events, in_tree, signed, signed_at, unsigned_since) =
            found.ok_or_else(|| StoreError::Unavailable("there is no head row".into()))?;
        let (signed_at, unsigned_since) = (signed_at.map(Timestamp), unsigned_since.map(Timestamp));
        Ok(LogState { events, in_tree, signed: signed.unwrap_or(0), signed_at, unsigned_since })
    }

    /// Places and leaf hashes.
    pub(crate) async fn leaves(&self, after: i64, limit: usize) -> Result<Vec<(i64, String)>, StoreError> {
        self.query(sql::LEAVES, &values![after, many(limit)]).await
    }

    /// Places and canonical texts.
    #[cfg(feature = "http")]
    pub(crate) async fn bodies(&self, after: i64, limit: usize) -> Result<Vec<(i64, String)>, StoreError> {
        self.query(sql::BODIES, &values![after, many(limit)]).await
    }

    /// Those of the tiles, by level and place, that there are.
    pub(crate) async fn tiles(&self, tiles: &[(i64, i64)]) -> Result<Vec<TileColumns>, StoreError> {
        if tiles.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<_> = tiles.iter().map(|(level, place)| row![*level, *place]).collect();
        self.0.rows(sql::TILES, &rows).await
    }

    /// Sizes and notes of checkpoints behind one of this size, the smallest first.
    pub(crate) async fn checkpoints(&self, after: i64, limit: usize) -> Result<Vec<(i64, String)>, StoreError> {
        self.query(sql::CHECKPOINTS, &values![after, many(limit)]).await
    }

    /// The checkpoint of the largest tree.
    pub(crate) async fn last_checkpoint(&self) -> Result<Option<(i64, String)>, StoreError> {
        Ok(self.query(sql::LAST_CHECKPOINT, &[]).await?.pop())
    }

    /// The size of the last checkpoint that an anchor has; 0 if none.
    pub(crate) async fn anchored(&self, anchor: &str) -> Result<i64, StoreError> {
        let found: Vec<(i64,)> = self.query(sql::ANCHORED, &values![anchor]).await?;
        Ok(found.first().map_or(0, |it| it.0))
    }

    #[cfg(feature = "http")]
    pub(in super::super) async fn rows<T: super::super::db::Read>(
        &self,
        sql: sql::Sql,
        rows: &[super::super::db::Row<'_>],
    ) -> Result<Vec<T>, StoreError> {
        self.0.rows(sql, rows).await
    }

    pub(in super::super) async fn query<T: super::super::db::Read>(
        &self,
        text: &'static str,
        values: &[super::super::db::Cell<'_>],
    ) -> Result<Vec<T>, StoreError> {
        let mut link = self.0.pool.acquire().await.map_err(unavailable)?;
        query(&mut link, text, self.0.now(), values).await.map_err(unavailable)
    }
}
