//! Checking the log without trusting who wrote it: a database, an export, or one event with its proof.
//!
//! Reads only. Nothing here is shared with the code that writes events, builds the tree or signs it, but SHA-256: the
//! tree, notes, keys and columns are worked out anew, from the standards and from the bytes, so that one mistake cannot
//! hide another.

mod align;
mod archive;
mod columns;
mod database;
mod export;
mod given;
mod hash;
mod left;
mod note;
mod proof;
mod report;
mod tiles;
mod walk;

pub use self::database::database;
#[cfg(feature = "cli")]
pub(crate) use self::database::standing;
#[cfg(feature = "cli")]
pub(crate) use self::export::event_of;
pub use self::export::export;
pub use self::given::{Given, GivenError};
pub use self::proof::{Proved, proof};
pub use self::report::{Detached, Finding, FindingKind, Report, Span};

/// The verifier's own tree, for the test that compares it with others.
#[cfg(test)]
pub(crate) mod trees {
    use super::hash::{Hash, Tree, follow, leaf};

    #[derive(Default)]
    pub(crate) struct TestTree(Tree);

    impl TestTree {
        pub(crate) fn push(&mut self, entry: &[u8]) {
            self.0.push(leaf(entry));
        }

        pub(crate) fn root(&self) -> Hash {
            self.0.root()
        }
    }

    pub(crate) fn inclusion(index: u64, size: u64, entry: &[u8], path: &[Hash]) -> Option<Hash> {
        follow(index, size, leaf(entry), path)
    }
}

/// Told how many events are checked, and of how many, as far as that is known.
pub type Progress<'a> = &'a mut (dyn FnMut(u64, u64) + Send);

/// Why nothing could be verified. What was verified and is wrong is in a [`Report`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The database cannot be read.
    #[error("the database cannot be read")]
    Store(#[source] crate::BoxError),
    /// The export cannot be read.
    #[error("the export cannot be read")]
    Io(#[from] std::io::Error),
    /// An archive cannot be read.
    #[error("the archive `{0}` cannot be read")]
    Archive(String, #[source] std::io::Error),
    /// It is no proof in the form of C2SP tlog-proof.
    #[error("this is no proof: {0}")]
    NoProof(&'static str),
    /// What was to be continued from does not fit what is there.
    #[error("nothing can be continued from this checkpoint: {0}")]
    NoStart(&'static str),
    /// The machine is out of threads.
    #[error("the work cannot be done")]
    Threads,
}
