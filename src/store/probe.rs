//! Faults to inject in tests, and what is counted for them. Cheap enough to be always there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Shared by whoever holds a clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probe(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    lose_commits: AtomicU32,
    lose_replies: AtomicU32,
    broken: AtomicBool,
    panics: AtomicBool,
    commits: AtomicU64,
    retries: AtomicU64,
    alone: AtomicU64,
}

#[cfg_attr(not(any(test, feature = "testing")), expect(dead_code, reason = "driven by tests"))]
impl Probe {
    /// The next commits do not happen, and the writer is not told (EXE-8).
    pub(crate) fn lose_commits(&self, count: u32) {
        self.0.lose_commits.store(count, Ordering::Relaxed);
    }

    /// The next commits happen, but their replies are lost (EXE-8).
    pub(crate) fn lose_replies(&self, count: u32) {
        self.0.lose_replies.store(count, Ordering::Relaxed);
    }

    /// While set, the database cannot be written.
    pub(crate) fn set_broken(&self, broken: bool) {
        self.0.broken.store(broken, Ordering::Relaxed);
    }

    /// The writer's thread panics at its next commit.
    #[cfg(test)]
    pub(crate) fn panic_next(&self) {
        self.0.panics.store(true, Ordering::Relaxed);
    }

    /// Transactions committed so far.
    pub(crate) fn commits(&self) -> u64 {
        self.0.commits.load(Ordering::Relaxed)
    }

    /// Faults that were asked for and did not happen yet.
    #[cfg(test)]
    pub(crate) fn pending(&self) -> u32 {
        self.0.lose_commits.load(Ordering::Relaxed) + self.0.lose_replies.load(Ordering::Relaxed)
    }

    /// Batches that had to be taken apart.
    #[cfg(test)]
    pub(crate) fn alone(&self) -> u64 {
        self.0.alone.load(Ordering::Relaxed)
    }
}

impl Probe {
    pub(super) fn loses_commit(&self) -> bool {
        take(&self.0.lose_commits)
    }

    pub(super) fn loses_reply(&self) -> bool {
        take(&self.0.lose_replies)
    }

    pub(super) fn is_broken(&self) -> bool {
        self.0.broken.load(Ordering::Relaxed)
    }

    /// Panics, if a test wants it.
    pub(super) fn survive(&self) {
        assert!(!self.0.panics.swap(false, Ordering::Relaxed), "a test wants the writer to panic");
    }

    pub(super) fn committed(&self) {
        self.0.commits.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn retried(&self) {
        self.0.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn took_apart(&self) {
        self.0.alone.fetch_add(1, Ordering::Relaxed);
    }
}

fn take(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1)).is_ok()
}
