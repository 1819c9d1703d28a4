//! The OS file lock `<db>.writer` around each transaction, the switch to WAL and migrations. Without it two processes
//! starve each other for seconds in SQLite's own busy loop and fail with "database is locked".

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::db::beside;

/// How long to wait for another process. One that was stopped amid a transaction must not stop everybody for ever.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct FileLock {
    path: PathBuf,
    file: File,
    turn: Turn,
}

impl FileLock {
    /// Of this database; not locked yet.
    pub(super) fn new(database: &Path, turn: Turn) -> io::Result<Self> {
        let path = beside(database, ".writer");
        Ok(Self { file: open(&path)?, path, turn })
    }

    /// Locks. While another process holds it, the waiting is done on a thread that can be left behind.
    pub(super) async fn acquire(&mut self) -> io::Result<()> {
        match self.file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let waiting = self.turn.wait(&self.path)?;
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

/// The one thread that waits for other processes on behalf of a writer, whichever connection it has: one that was
/// stopped costs everybody else a thread, and not one for each try.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    has_thread: bool,
    /// Who gets the lock when it comes. Whoever asked before has given up.
    next: Option<oneshot::Sender<io::Result<File>>>,
}

impl Turn {
    fn wait(&self, path: &Path) -> io::Result<oneshot::Receiver<io::Result<File>>> {
        let (told, waiting) = oneshot::channel();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.next = Some(told);
        if !state.has_thread {
            let (turn, path) = (self.clone(), path.to_owned());
            // Not one of the runtime's: those are waited for when a process ends, and this one may wait for ever.
            let thread = std::thread::Builder::new().name("writer-lock".into());
            thread.spawn(move || turn.come(blocking(&path)))?;
            state.has_thread = true;
        }
        Ok(waiting)
    }

    /// If nobody waits any more, the handle is closed, and with it the lock.
    fn come(&self, file: io::Result<File>) {
        let next = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.has_thread = false;
            state.next.take()
        };
        let _ = next.map(|it| it.send(file));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_gives_up_leaves_one_thread_behind_and_no_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db.writer");
        let stopped = blocking(&path).unwrap();
        let turn = Turn::default();
        for _ in 0..3 {
            drop(turn.wait(&path).unwrap());
        }
        assert_eq!(Arc::strong_count(&turn.0), 2, "one thread has the other");
        let waiting = turn.wait(&path).unwrap();
        drop(stopped);
        let own = waiting.await.unwrap().unwrap();
        assert!(matches!(open(&path).unwrap().try_lock(), Err(TryLockError::WouldBlock)));
        drop(turn.wait(&path).unwrap());
        drop(own);
        blocking(&path).unwrap();
    }
}
