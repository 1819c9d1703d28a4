//! Looking at a database without opening it as a store: nothing is created, upgraded or changed.

use std::fs;
use std::path::Path;

use sqlx::{ConnectOptions as _, Connection as _, Executor as _, SqliteConnection};

use super::db::{beside, options};
use super::lock::{FileLock, Turn};
use super::open::{OpenError, check_key, known_schema, tables};
use crate::clock::Timestamp;

/// What is there.
#[derive(Debug)]
pub(crate) struct Examined {
    /// Whether it could be written now.
    pub(crate) writable: Result<(), OpenError>,
    /// Whether the sealing key is there, is nobody else's to read, and the one of this database.
    pub(crate) key: Result<(), OpenError>,
    /// SQLite's journal mode; `wal` once an engine was there.
    pub(crate) journal: String,
    /// The number of the last migration that it has, and of the last one that this version knows.
    pub(crate) schema: (i64, i64),
    /// Bytes of the log of changes that are not folded into the file yet.
    pub(crate) log_bytes: u64,
    /// When the latest event was recorded.
    pub(crate) latest: Option<Timestamp>,
}

/// Looks. The database is there.
///
/// # Errors
/// If it cannot be opened, or is nothing that this version knows.
pub(crate) async fn examine(path: &Path) -> Result<Examined, OpenError> {
    let failed = |it| OpenError::database(path, it);
    let mut link = options(path).create_if_missing(false).connect().await.map_err(failed)?;
    let done = look(&mut link, path).await;
    let closed = link.close().await;
    let examined = done?;
    closed.map_err(failed)?;
    Ok(examined)
}

async fn look(link: &mut SqliteConnection, path: &Path) -> Result<Examined, OpenError> {
    let failed = |it| OpenError::database(path, it);
    let (all, ours) = tables(link).await.map_err(failed)?;
    if all > 0 && ours == 0 {
        return Err(OpenError::Foreign(path.to_owned()));
    }
    let (journal,): (String,) = sqlx::query_as("PRAGMA journal_mode").fetch_one(&mut *link).await.map_err(failed)?;
    let (mut found, mut latest, mut key) = (0, None, Ok(()));
    if ours > 0 {
        let last = "SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations";
        (found,) = sqlx::query_as(last).fetch_one(&mut *link).await.map_err(failed)?;
        let at = "SELECT at FROM audit_event ORDER BY seq DESC LIMIT 1";
        let at: Option<(i64,)> = sqlx::query_as(at).fetch_optional(&mut *link).await.map_err(failed)?;
        latest = at.map(|it| Timestamp(it.0));
        key = check_key(link, path).await;
    }
    let known = known_schema();
    if found > known {
        return Err(OpenError::NewerSchema { path: path.to_owned(), found, known });
    }
    let writable = write(link, path).await;
    let log_bytes = fs::metadata(beside(path, "-wal")).map_or(0, |it| it.len());
    Ok(Examined { writable, key, journal, schema: (found, known), log_bytes, latest })
}

/// Takes the place of a writer for a moment, and changes nothing in it.
async fn write(link: &mut SqliteConnection, path: &Path) -> Result<(), OpenError> {
    let mut lock = FileLock::new(path, Turn::default()).map_err(|it| OpenError::io(path, it))?;
    lock.acquire().await.map_err(|it| OpenError::io(path, it))?;
    let failed = |it| OpenError::database(path, it);
    link.execute("BEGIN IMMEDIATE").await.map_err(failed)?;
    link.execute("ROLLBACK").await.map_err(failed)?;
    lock.release().map_err(|it| OpenError::io(path, it))
}
