//! Every way to fail to open names its cause and the next step.

use std::io;
use std::path::{Path, PathBuf};

use sqlx::{ConnectOptions as _, Connection as _, Executor as _};
use tempfile::TempDir;

use super::super::op::End;
use super::super::{KeySource, OpenError};
use super::{APPLIED, BEGUN, Clock, Probe, Store, bench, config, options};

async fn open_with(path: PathBuf, key: KeySource) -> Result<Store, OpenError> {
    Store::open(super::Config { key, ..config(path, Clock::System, Probe::default()) }).await
}

async fn error(path: &Path) -> String {
    let error = open_with(path.to_owned(), KeySource::File).await.unwrap_err().to_string();
    error.replace(path.parent().unwrap().to_str().unwrap(), "DIR")
}

async fn run(path: &Path, text: &str) {
    let mut link = options(path).create_if_missing(true).connect().await.unwrap();
    link.execute(sqlx::AssertSqlSafe(text.to_owned())).await.unwrap();
    link.close().await.unwrap();
}

#[tokio::test]
async fn what_is_no_database_is_left_alone() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("notes.txt");
    std::fs::write(&path, "these are somebody's notes, not a database at all\n".repeat(100)).unwrap();
    insta::assert_snapshot!(error(&path).await, @"`DIR/notes.txt` is not a database; name another path");
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("these are"));
}

#[tokio::test]
async fn another_applications_database_is_left_alone() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("shop.db");
    run(&path, "CREATE TABLE orders (id TEXT)").await;
    insta::assert_snapshot!(error(&path).await, @"`DIR/shop.db` is the database of another application; name another path");
}

#[tokio::test]
async fn a_missing_directory_and_a_directory_are_named() {
    let dir = TempDir::new().unwrap();
    let missing = dir.path().join("none");
    let message = open_with(missing.join("a.db"), KeySource::File).await.unwrap_err().to_string();
    assert!(message.ends_with("none/a.db` does not exist; create it, or name another path"), "{message}");
    std::fs::create_dir(&missing).unwrap();
    insta::assert_snapshot!(error(&missing).await, @"`DIR/none` is a directory; name a file in it");
}

#[tokio::test]
async fn a_newer_schema_is_not_touched() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.db");
    open_with(path.clone(), KeySource::File).await.unwrap().close(std::time::Duration::ZERO).await;
    run(&path, "INSERT INTO _sqlx_migrations VALUES (99, 'later', 0, TRUE, x'00', 1)").await;
    insta::assert_snapshot!(error(&path).await, @"`DIR/a.db` was written by a newer version (schema 99, this one knows 8); upgrade");
    run(&path, "DELETE FROM _sqlx_migrations WHERE version = 99").await;
    run(&path, "UPDATE _sqlx_migrations SET checksum = x'00'").await;
    insta::assert_snapshot!(error(&path).await, @"`DIR/a.db` has another schema than this version made; restore a backup");
}

/// A database as the version before the eighth migration left it, with these executions of one approval.
async fn before_one_run(states: [&str; 2]) -> std::sync::Arc<TempDir> {
    let bench = bench().await;
    for slot in ["a", "b"] {
        assert_eq!(bench.store.begin(bench.begin(Some(slot))).await, BEGUN);
    }
    bench.store.close(std::time::Duration::ZERO).await;
    let path = bench.dir.path().join("store.db");
    run(&path, "DELETE FROM _sqlx_migrations WHERE version >= 8").await;
    run(&path, "DROP INDEX execution_approval; ALTER TABLE policy_set DROP COLUMN seal").await;
    run(&path, "UPDATE execution SET approval_id = 'apr_1', ended_at = 1").await;
    for (slot, state) in ["a", "b"].iter().zip(states) {
        run(&path, &format!("UPDATE execution SET state = '{state}' WHERE slot = '{slot}'")).await;
    }
    bench.dir.clone()
}

#[tokio::test]
async fn apr_10_a_database_with_two_runs_of_one_approval_is_not_upgraded_in_silence() {
    let dir = before_one_run(["completed", "completed"]).await;
    let key = || KeySource::Bytes([7; 32]);
    let refused = open_with(dir.path().join("store.db"), key()).await.unwrap_err().to_string();
    insta::assert_snapshot!(refused.replace(dir.path().to_str().unwrap(), "DIR"), @"two executions of `DIR/store.db` began with one approval, so that one of them ran without: nothing was upgraded; find them (`SELECT approval_id FROM execution GROUP BY approval_id HAVING COUNT(*) > 1`), then restore a backup or set `approval_id` of the later one to NULL");
    let dir = before_one_run(["free", "completed"]).await;
    open_with(dir.path().join("store.db"), key()).await.expect("one that never started gave its approval back");
}

#[tokio::test]
async fn a_locked_database_is_named_after_a_while() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.db");
    let lock = std::fs::File::create(dir.path().join("a.db.writer")).unwrap();
    lock.lock().unwrap();
    insta::assert_snapshot!(error(&path).await, @"`DIR/a.db` is locked by another process; find out which one keeps it, or try again later");
}

#[test]
fn what_the_system_says_becomes_a_next_step() {
    let message = |kind: io::ErrorKind| OpenError::io(Path::new("a.db"), kind.into()).to_string();
    insta::assert_snapshot!(message(io::ErrorKind::PermissionDenied), @"`a.db` cannot be written; give this user the right to write it and its directory");
    insta::assert_snapshot!(message(io::ErrorKind::ReadOnlyFilesystem), @"`a.db` cannot be written; give this user the right to write it and its directory");
    insta::assert_snapshot!(message(io::ErrorKind::StorageFull), @"there is no space left for `a.db`; free some");
}

#[cfg(unix)]
#[tokio::test]
async fn a_read_only_directory_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.db");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
    if std::fs::write(dir.path().join("probe"), "").is_ok() {
        return; // a superuser may write anywhere
    }
    insta::assert_snapshot!(error(&path).await, @"`DIR/a.db` cannot be written; give this user the right to write it and its directory");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn exe_6_the_key_file_is_its_owners_alone_and_cannot_be_lost_unnoticed() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = TempDir::new().unwrap();
    let (path, key) = (dir.path().join("a.db"), dir.path().join("a.db.key"));
    let store = open_with(path.clone(), KeySource::File).await.unwrap();
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let text = store.seal("row", b"plain");
    let again = open_with(path.clone(), KeySource::File).await.unwrap();
    assert_eq!(again.open_sealed("row", &text).unwrap(), b"plain", "found again");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).unwrap();
    insta::assert_snapshot!(error(&path).await, @"others can read the sealing key `DIR/a.db.key`; `chmod 600` it, and think about who has");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let kept = std::fs::read(&key).unwrap();
    std::fs::write(&key, "no key").unwrap();
    insta::assert_snapshot!(error(&path).await, @"`DIR/a.db.key` is not a sealing key (64 hexadecimal digits); restore it from a backup");
    std::fs::remove_file(&key).unwrap();
    drop(open_with(path.clone(), KeySource::File).await.expect("nothing was recorded: a new key does no harm"));
    std::fs::write(&key, kept).unwrap();
}

#[tokio::test]
async fn exe_6_once_anything_is_recorded_only_the_right_key_opens() {
    let bench = bench().await;
    let begin = bench.begin(None);
    assert_eq!(bench.store.begin(begin.clone()).await, BEGUN);
    assert_eq!(bench.store.finish(bench.finish(&begin, End::Completed, "1")).await, APPLIED);
    let path = bench.dir.path().join("store.db");
    insta::assert_snapshot!(error(&path).await, @"the sealing key `DIR/store.db.key` is missing, and the database was sealed with it; restore it from a backup");
    let wrong = open_with(path.clone(), KeySource::Bytes([8; 32])).await.unwrap_err();
    assert!(matches!(wrong, OpenError::KeyWrong(_)), "{wrong}");
    open_with(path, KeySource::Bytes([7; 32])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_may_open_a_new_file_at_once() {
    let dir = TempDir::new().unwrap();
    let stores = super::at_once((0..8).map(|_| open_with(dir.path().join("a.db"), KeySource::File))).await;
    assert!(stores.iter().all(Result::is_ok), "{stores:?}");
}

#[tokio::test]
async fn the_file_is_set_up_for_durability() {
    let bench = bench().await;
    let mut link = options(&bench.dir.path().join("store.db")).connect().await.unwrap();
    for (pragma, value) in [("PRAGMA synchronous", "2"), ("PRAGMA secure_delete", "1"), ("PRAGMA foreign_keys", "1")] {
        let (found,): (i64,) = sqlx::query_as(pragma).fetch_one(&mut link).await.unwrap();
        assert_eq!(found.to_string(), value, "{pragma}");
    }
    let (mode,): (String,) = sqlx::query_as("PRAGMA journal_mode").fetch_one(&mut link).await.unwrap();
    assert_eq!(mode, "wal");
}
