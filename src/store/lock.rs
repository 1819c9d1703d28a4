//! The OS file lock `<db>.writer` around each transaction, the switch to WAL and migrations. Without it two processes
//! starve each other for seconds in SQLite's own busy loop and fail with "database is locked".

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::db::beside;

/// How long to wait for another process. One that was stopped amid a transaction must not stop everybody for ever.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct FileLock {
    path: PathBuf,
    file: File,
}

impl FileLock {
    /// Of this database; not locked yet.
    pub(super) fn new(database: &Path) -> io::Result<Self> {
        let path = beside(database, ".writer");
        Ok(Self { file: open(&path)?, path })
    }

    /// Locks. While another process holds it, the waiting is done on a thread that can be left behind.
    pub(super) async fn acquire(&mut self) -> io::Result<()> {
        match self.file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let (told, waiting) = tokio::sync::oneshot::channel();
        let path = self.path.clone();
        // Not one of the runtime's threads: those are waited for when a process ends, and this one may wait for ever.
        std::thread::Builder::new().name("writer-lock".into()).spawn(move || {
            let _ = told.send(blocking(&path)); // if nobody waits any more, the handle is closed, and with it the lock
        })?;
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(Ok(file)) => {
                self.file = file?;
                Ok(())
            }
            Ok(Err(error)) => Err(io::Error::other(error)),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "another process keeps the writer's file lock")),
        }
    }

    pub(super) fn release(&self) -> io::Result<()> {
        self.file.unlock()
    }
}

/// A handle of its own, locked.
fn blocking(path: &Path) -> io::Result<File> {
    let file = open(path)?;
    file.lock()?;
    Ok(file)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(path)
}
