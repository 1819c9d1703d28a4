//! Opening: the directory, the file, the schema, the sealing key. Every way to fail names the next step.

mod copies;

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use sqlx::migrate::MigrateError;
#[cfg(feature = "cli")]
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, SqliteConnection};

use super::db::{beside, options};
use super::lock::{FileLock, Turn};
use super::seal::Key;
use super::{KeySource, StoreError};
use crate::audit::hex;
use crate::id::random;

/// The most bytes that are read of a key's file.
const MAX_KEY: u64 = 1024;

/// The migration that no two executions with one approval survive.
const ONE_RUN: i64 = 8;

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!("src/store/migrations/sqlite");

/// Why the store could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("the directory of `{0}` does not exist; create it, or name another path")]
    DirectoryMissing(PathBuf),
    #[error("`{0}` is a directory; name a file in it")]
    IsDirectory(PathBuf),
    #[error("`{0}` is not a database; name another path")]
    NotADatabase(PathBuf),
    #[error("`{0}` is the database of another application; name another path")]
    Foreign(PathBuf),
    #[error("`{path}` was written by a newer version (schema {found}, this one knows {known}); upgrade")]
    NewerSchema { path: PathBuf, found: i64, known: i64 },
    #[error("`{0}` has another schema than this version made; restore a backup")]
    ChangedSchema(PathBuf),
    #[error(
        "two executions of `{0}` began with one approval, so that one of them ran without: nothing was upgraded; find \
         them (`SELECT approval_id FROM execution GROUP BY approval_id HAVING COUNT(*) > 1`), then restore a backup or \
         set `approval_id` of the later one to NULL"
    )]
    ApprovalUsedTwice(PathBuf),
    #[error("`{0}` is locked by another process; find out which one keeps it, or try again later")]
    Locked(PathBuf),
    #[error("`{0}` cannot be written; give this user the right to write it and its directory")]
    ReadOnly(PathBuf),
    #[error("there is no space left for `{0}`; free some")]
    DiskFull(PathBuf),
    #[error("others can read the sealing key `{0}`; `chmod 600` it, and think about who has")]
    KeyExposed(PathBuf),
    #[error("the sealing key `{0}` is missing, and the database was sealed with it; restore it from a backup")]
    KeyMissing(PathBuf),
    #[error("`{0}` is not a sealing key (64 hexadecimal digits); restore it from a backup")]
    KeyUnreadable(PathBuf),
    #[error("the sealing key is not the one of `{0}`; configure or restore the right one")]
    KeyWrong(PathBuf),
    #[error("`{path}` cannot be opened; see the cause")]
    Database { path: PathBuf, source: sqlx::Error },
    #[error("`{path}` cannot be used; see the cause")]
    Store { path: PathBuf, source: StoreError },
}

impl OpenError {
    pub(super) fn io(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::DiskFull(path),
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::ReadOnly(path),
            ErrorKind::TimedOut => Self::Locked(path),
            ErrorKind::NotFound | ErrorKind::NotADirectory => Self::DirectoryMissing(path),
            ErrorKind::IsADirectory => Self::IsDirectory(path),
            _ => Self::Database { path, source: error.into() },
        }
    }

    pub(super) fn database(path: &Path, error: sqlx::Error) -> Self {
        let path = path.to_owned();
        let code = error.as_database_error().and_then(|it| super::writer::primary(it.code().as_deref()));
        match (code, error) {
            (Some(5 | 6), _) => Self::Locked(path),
            (Some(8 | 14), _) => Self::ReadOnly(path),
            (Some(13), _) => Self::DiskFull(path),
            (Some(26), _) => Self::NotADatabase(path),
            (_, sqlx::Error::Io(cause)) => Self::io(&path, cause),
            (_, source) => Self::Database { path, source },
        }
    }
}

/// Creates or upgrades the database and finds its sealing key, all under the writer's file lock.
pub(super) async fn prepare(path: &Path, source: &KeySource) -> Result<Key, OpenError> {
    check_place(path)?;
    let mut lock = FileLock::new(path, Turn::default()).map_err(|it| OpenError::io(path, it))?;
    lock.acquire().await.map_err(|it| OpenError::io(path, it))?;
    create(path).map_err(|it| OpenError::io(path, it))?;
    let failed = |it| OpenError::database(path, it);
    let mut link = options(path).create_if_missing(true).connect().await.map_err(failed)?;
    let done = set_up(&mut link, path, source).await;
    let closed = link.close().await;
    let key = done?;
    closed.map_err(failed)?;
    Ok(key) // the lock goes with its file
}

/// What nobody else has to read. SQLite gives the files beside it the same mode.
fn create(path: &Path) -> io::Result<()> {
    match owners(OpenOptions::new().write(true).create_new(true)).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop),
    }
}

/// Readable by its owner only.
fn owners(file: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(file, 0o600);
    file
}

fn check_place(path: &Path) -> Result<(), OpenError> {
    let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
    if directory.is_some_and(|it| !it.is_dir()) {
        return Err(OpenError::DirectoryMissing(path.to_owned()));
    }
    match fs::metadata(path) {
        Ok(it) if it.is_dir() => Err(OpenError::IsDirectory(path.to_owned())),
        // A pipe would be waited for, and a device is endless.
        Ok(it) if !it.is_file() => Err(OpenError::NotADatabase(path.to_owned())),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// How to read a database without writing anything. `None` if this version would have to upgrade it first.
#[cfg(feature = "cli")]
pub(super) async fn look(path: &Path) -> Result<Option<SqliteConnectOptions>, OpenError> {
    check_place(path)?;
    let plain = options(path).read_only(true);
    let looked = match version(&plain, path).await {
        // Readers share an index beside the file. Where nobody can make one and nobody writes, there is no need of it.
        Err(OpenError::ReadOnly(_)) if !has_changes(path) => {
            let still = plain.immutable(true);
            version(&still, path).await.map(|it| (still, it))
        }
        found => found.map(|it| (plain, it)),
    };
    let known = known_schema();
    match looked? {
        (_, Some(found)) if found > known => Err(OpenError::NewerSchema { path: path.to_owned(), found, known }),
        (options, Some(found)) if found == known => Ok(Some(options)),
        _ => Ok(None),
    }
}

/// Whether there are changes that are not in the file itself yet.
#[cfg(feature = "cli")]
fn has_changes(path: &Path) -> bool {
    fs::metadata(beside(path, "-wal")).is_ok_and(|it| it.len() > 0)
}

/// The version of the schema, if there is one.
#[cfg(feature = "cli")]
async fn version(options: &SqliteConnectOptions, path: &Path) -> Result<Option<i64>, OpenError> {
    let failed = |it| OpenError::database(path, it);
    let mut link = options.connect().await.map_err(failed)?;
    let read = async {
        if !is_ours(&mut link, path).await? {
            return Ok(None);
        }
        let newest = "SELECT MAX(version) FROM _sqlx_migrations";
        let (found,): (Option<i64>,) = sqlx::query_as(newest).fetch_one(&mut link).await.map_err(failed)?;
        Ok(found)
    };
    let found = read.await;
    link.close().await.map_err(failed)?;
    found
}

/// False for an empty file.
async fn is_ours(link: &mut SqliteConnection, path: &Path) -> Result<bool, OpenError> {
    let (tables, ours) = tables(link).await.map_err(|it| OpenError::database(path, it))?;
    if tables > 0 && ours == 0 { Err(OpenError::Foreign(path.to_owned())) } else { Ok(ours > 0) }
}

/// Why the first transaction failed: a second one, by itself, tells of which class that is.
pub(super) async fn refused(path: &Path, source: StoreError) -> OpenError {
    let tried = async {
        let mut link = options(path).connect().await?;
        let tried = link.execute("BEGIN IMMEDIATE; UPDATE audit_head SET seq = seq; ROLLBACK").await.map(drop);
        let _ = link.close_hard().await; // whatever it has open is not wanted
        tried
    };
    match tried.await {
        Ok(()) => OpenError::Store { path: path.to_owned(), source },
        Err(error) => OpenError::database(path, error),
    }
}

async fn set_up(link: &mut SqliteConnection, path: &Path, source: &KeySource) -> Result<Key, OpenError> {
    let failed = |it| OpenError::database(path, it);
    is_ours(link, path).await?;
    let (mode,): (String,) = sqlx::query_as("PRAGMA journal_mode").fetch_one(&mut *link).await.map_err(failed)?;
    if mode != "wal" {
        link.execute("PRAGMA journal_mode = WAL").await.map_err(failed)?;
    }
    // Not `run`: its generic connection would make this future, and that of whoever opens a store, not `Send`.
    MIGRATIONS.run_direct(None, &mut *link, false).await.map_err(|it| migration(path, it))?;
    let key = find_key(link, path, source).await?;
    copies::seal(link, &key).await.map_err(failed)?;
    Ok(key)
}

/// How many tables and indexes there are, and whether one of them is that of our migrations.
pub(super) async fn tables(link: &mut SqliteConnection) -> Result<(i64, i64), sqlx::Error> {
    let count = "SELECT COUNT(*), COUNT(CASE WHEN name = '_sqlx_migrations' THEN 1 END) FROM sqlite_master";
    sqlx::query_as(count).fetch_one(link).await
}

/// The number of the last migration that this version knows.
pub(super) fn known_schema() -> i64 {
    MIGRATIONS.iter().map(|it| it.version).max().unwrap_or(0)
}

fn migration(path: &Path, error: MigrateError) -> OpenError {
    let known = known_schema();
    match error {
        MigrateError::VersionMissing(found) => OpenError::NewerSchema { path: path.to_owned(), found, known },
        MigrateError::VersionMismatch(_) => OpenError::ChangedSchema(path.to_owned()),
        MigrateError::ExecuteMigration(error, ONE_RUN) if is_duplicate(&error) => {
            OpenError::ApprovalUsedTwice(path.to_owned())
        }
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => OpenError::database(path, error),
        other => OpenError::Database { path: path.to_owned(), source: sqlx::Error::Migrate(Box::new(other)) },
    }
}

fn is_duplicate(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}

/// The key, checked against what the database remembers of it.
async fn find_key(link: &mut SqliteConnection, path: &Path, source: &KeySource) -> Result<Key, OpenError> {
    let failed = |it| OpenError::database(path, it);
    let (stored, seq) = remembered(link).await.map_err(failed)?;
    let key = match source {
        KeySource::Bytes(bytes) => Key::new(*bytes),
        // Nothing was recorded yet, so nothing was sealed either: a new key does no harm.
        KeySource::File => key_file(&beside(path, ".key"), stored.is_none() || seq == 0)?,
    };
    let check = key.check();
    match stored {
        Some(stored) if stored == check => return Ok(key),
        Some(_) if seq > 0 => return Err(OpenError::KeyWrong(path.to_owned())),
        Some(_) | None => {}
    }
    let remember =
        "INSERT INTO setting (name, value) VALUES ('key_check', $1) ON CONFLICT (name) DO UPDATE SET value = $1";
    sqlx::query(remember).bind(check).execute(link).await.map_err(failed)?;
    Ok(key)
}

/// What the database remembers of its key, and how many events it has.
async fn remembered(link: &mut SqliteConnection) -> Result<(Option<String>, i64), sqlx::Error> {
    let stored = "SELECT value FROM setting WHERE name = 'key_check'";
    let stored: Option<(String,)> = sqlx::query_as(stored).fetch_optional(&mut *link).await?;
    let (seq,): (i64,) = sqlx::query_as("SELECT seq FROM audit_head").fetch_one(link).await?;
    Ok((stored.map(|it| it.0), seq))
}

/// Whether the key is there and the right one; makes none.
#[cfg(feature = "cli")]
pub(super) async fn check_key(link: &mut SqliteConnection, path: &Path) -> Result<(), OpenError> {
    let (stored, seq) = remembered(link).await.map_err(|it| OpenError::database(path, it))?;
    let file = beside(path, ".key");
    if seq == 0 && !file.exists() {
        return Ok(()); // nothing was sealed, and the first start makes one
    }
    let key = key_file(&file, false)?;
    match stored {
        Some(stored) if stored != key.check() && seq > 0 => Err(OpenError::KeyWrong(path.to_owned())),
        Some(_) | None => Ok(()),
    }
}

fn key_file(path: &Path, may_create: bool) -> Result<Key, OpenError> {
    if fs::metadata(path).is_ok_and(|it| !it.is_file()) {
        return Err(OpenError::KeyUnreadable(path.to_owned())); // a pipe would be waited for
    }
    let mut text = String::new();
    match fs::File::open(path) {
        Ok(file) => {
            if is_exposed(&file).map_err(|it| OpenError::io(path, it))? {
                return Err(OpenError::KeyExposed(path.to_owned()));
            }
            file.take(MAX_KEY).read_to_string(&mut text).map_err(|_| OpenError::KeyUnreadable(path.to_owned()))?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound && may_create => {
            text = hex(&random::<32>());
            create_key(path, &text).map_err(|it| OpenError::io(path, it))?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(OpenError::KeyMissing(path.to_owned())),
        Err(error) => return Err(OpenError::io(path, error)),
    }
    parse(text.trim()).map(Key::new).ok_or_else(|| OpenError::KeyUnreadable(path.to_owned()))
}

/// On disk before anything is sealed with it.
fn create_key(path: &Path, text: &str) -> io::Result<()> {
    let mut file = owners(OpenOptions::new().write(true).create_new(true)).open(path)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    match path.parent().filter(|it| !it.as_os_str().is_empty()) {
        Some(directory) => fs::File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(unix)]
fn is_exposed(file: &fs::File) -> io::Result<bool> {
    let mode = std::os::unix::fs::MetadataExt::mode(&file.metadata()?);
    Ok(mode & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_exposed(_: &fs::File) -> io::Result<bool> {
    Ok(false)
}

fn parse(text: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    if text.len() != 64 || !text.bytes().all(|it| it.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(key)
}
