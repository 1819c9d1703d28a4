//! Checkpoints as they are written: signed notes (C2SP tlog-checkpoint).

use tlog_tiles::{Checkpoint as Head, Hash};

use super::key::LogKey;
use super::{Checkpoint, LedgerError};

/// A checkpoint whose signature is this log's.
#[derive(Clone, Debug)]
pub(super) struct Signed {
    pub(super) size: u64,
    pub(super) root: Hash,
    pub(super) note: String,
}

impl Signed {
    pub(super) fn new(key: &LogKey, size: u64, root: Hash) -> Result<Self, LedgerError> {
        let text = format!("{}\n{size}\n{root}\n", key.origin());
        let note = key.sign(&text).ok_or_else(|| LedgerError::Refused("the key signs nothing".into()))?;
        Ok(Self { size, root, note })
    }

    /// Reads a note that this log signed, with its key or one before it.
    pub(super) fn read(key: &LogKey, note: &str) -> Result<Self, LedgerError> {
        let refused = |why: &str| LedgerError::Refused(format!("the last checkpoint {why}"));
        let text = key.check(note).ok_or_else(|| refused("is not signed by this log's key"))?;
        let head = Head::from_bytes(text.as_bytes()).map_err(|_| refused("is no checkpoint"))?;
        if head.origin() != key.origin() {
            return Err(refused("is another log's"));
        }
        Ok(Self { size: head.size(), root: *head.hash(), note: note.to_owned() })
    }

    pub(super) fn checkpoint(&self) -> Checkpoint {
        Checkpoint { size: self.size, note: self.note.clone() }
    }
}
