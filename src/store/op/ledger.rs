//! What the writer can be asked about the Merkle tree over the log. None of it is on the way of a call.

/// Some of the hashes of the tree: [`crate::ledger`] says which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TileRow {
    pub(crate) level: i64,
    pub(crate) place: i64,
    /// How many hashes, 1..=256.
    pub(crate) width: i64,
    /// Lower-case hexadecimal, 64 digits each.
    pub(crate) hashes: String,
}

/// One step of the tree. Doing one again is harmless, so a commit that nobody can be sure of needs no marker (EXE-8).
#[derive(Clone, Debug)]
pub(crate) enum Ledger {
    /// Takes events into the tree, if it is as large as `from` says: one process at a time.
    Grow { from: i64, to: i64, tiles: Vec<TileRow> },
    /// Keeps a signed note of the tree of this size.
    Checkpoint { size: i64, note: String },
    /// This anchor has the checkpoint of this size, and all before.
    Anchored { anchor: String, size: i64 },
}

impl Ledger {
    pub(in super::super) fn each_text(&self, look: &mut dyn FnMut(&str)) {
        match self {
            Self::Grow { tiles, .. } => tiles.iter().for_each(|it| look(&it.hashes)),
            Self::Checkpoint { note, .. } => look(note),
            Self::Anchored { anchor, .. } => look(anchor),
        }
    }
}
