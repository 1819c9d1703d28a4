//! What verification reads of a database file: every row as it is, whoever wrote what into it.
//!
//! One read transaction over everything, so that a process that goes on writing does not look like a forger. A table
//! that is not there is an empty one: what is missing then shows by what remains.

use std::fs;
use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};

use super::db::{Cell, Read, beside, options, query, values};
use super::{StoreError, sql};

/// Bytes of a column; `None` where there are none.
pub(crate) type Raw = Option<Vec<u8>>;

/// One row of the log, as it is.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct RawRow {
    pub(crate) seq: i64,
    pub(crate) body: Raw,
    pub(crate) leaf: Raw,
    pub(crate) id: Raw,
    pub(crate) tenant: Raw,
    pub(crate) execution: Raw,
    pub(crate) capability: Raw,
    pub(crate) actor: Raw,
    pub(crate) kind: Raw,
    pub(crate) terminal: Raw,
    pub(crate) at: Raw,
    /// `1`: every column holds what its type says.
    pub(crate) sound: Raw,
}

/// A database file at one instant.
pub(crate) struct Evidence {
    link: SqliteConnection,
}

impl Evidence {
    /// Opens the file for reading only, and fixes the instant.
    pub(crate) async fn open(path: &Path) -> Result<Self, StoreError> {
        let opened = Self::open_with(options(path).read_only(true)).await;
        if opened.is_ok() || fs::metadata(beside(path, "-wal")).is_ok_and(|it| it.len() > 0) {
            return opened.map_err(unavailable);
        }
        // Where nothing can be written, not even SQLite's own files beside it: nobody else writes there either, and all
        // is in the file itself.
        Self::open_with(options(path).read_only(true).immutable(true)).await.map_err(unavailable)
    }

    async fn open_with(options: SqliteConnectOptions) -> Result<Self, sqlx::Error> {
        let mut link = options.connect().await?;
        link.execute("BEGIN").await?;
        link.execute("SELECT 1 FROM sqlite_master LIMIT 1").await?;
        Ok(Self { link })
    }

    pub(crate) async fn close(self) {
        let _ = self.link.close().await; // nothing was written
    }

    /// What the head rows say of the log and of the tree, if they are there.
    pub(crate) async fn heads(&mut self) -> Result<Option<(i64, i64)>, StoreError> {
        Ok(self.query(sql::HEADS, &[]).await?.pop())
    }

    /// The place and the text of the last event that says how far the log was detached.
    pub(crate) async fn detached(&mut self) -> Result<Option<(i64, Raw)>, StoreError> {
        Ok(self.query(sql::EVIDENCE_DETACHED, &[]).await?.pop())
    }

    /// Rows behind a place, in order.
    pub(crate) async fn rows(&mut self, after: i64, limit: i64) -> Result<Vec<RawRow>, StoreError> {
        self.query(sql::EVIDENCE, &values![after, limit]).await
    }

    /// Places and hashes of a level's tiles, from one place on.
    pub(crate) async fn tiles(&mut self, level: i64, from: i64, limit: i64) -> Result<Vec<(Raw, Raw)>, StoreError> {
        self.query(sql::EVIDENCE_TILES, &values![level, from, limit]).await
    }

    /// Sizes and texts of checkpoints behind a size.
    pub(crate) async fn notes(&mut self, after: i64, limit: i64) -> Result<Vec<(i64, Raw)>, StoreError> {
        self.query(sql::EVIDENCE_NOTES, &values![after, limit]).await
    }

    /// The last ends of executions that have more than one.
    pub(crate) async fn ends(&mut self, limit: i64) -> Result<Vec<(i64,)>, StoreError> {
        self.query(sql::EVIDENCE_ENDS, &values![limit]).await
    }

    async fn query<T: Read>(&mut self, text: &'static str, values: &[Cell<'_>]) -> Result<Vec<T>, StoreError> {
        match query(&mut self.link, text, 0, values).await {
            Err(sqlx::Error::Database(error)) if error.message().starts_with("no such table") => Ok(Vec::new()),
            found => found.map_err(unavailable),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unavailable(error: sqlx::Error) -> StoreError {
    StoreError::Unavailable(error.to_string())
}
