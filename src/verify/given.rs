//! What whoever verifies brings along: keys, earlier checkpoints, and where to go on from.

use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::hash::Hash;
use super::note::{Head, Note, PublicKey, Worth, notes};

/// The first line of what a verification left for the next one.
pub(super) const VERIFIED: &str = "countersign verified v1";

/// What somebody who verifies knows already. The more of it comes from elsewhere than the log's operator, the better.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Given {
    pub(super) keys: Vec<PublicKey>,
    pub(super) notes: Vec<(Source, Note)>,
    pub(super) start: Option<Start>,
    /// Files of events that left the database.
    pub(super) archives: Vec<PathBuf>,
    /// Whether all that left must be in one of them.
    pub(super) are_all: bool,
    /// Instead: from which event to which one they must have everything.
    pub(super) part: Option<(u64, u64)>,
    /// Parts of files that are no notes, by file.
    pub(super) torn: Vec<(String, usize)>,
}

/// Where a checkpoint comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Stored,
    Anchor(String),
    /// Kept by whoever verifies.
    Earlier,
}

/// What was verified before.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) note: Note,
    pub(super) head: Head,
    /// The roots of the complete parts of its tree, if they were kept with it.
    pub(super) peaks: Option<Vec<Hash>>,
}

/// Why something that was brought along is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GivenError {
    /// No line of it is a public key.
    #[error("there is no public key in it, `NAME+ID+KEY`")]
    NoKey,
    /// A statement of rotation does not lead on from a known key.
    #[error("a statement of rotation is not signed by a known key and its successor")]
    Rotation,
    /// It is no checkpoint.
    #[error("it is no checkpoint")]
    NoCheckpoint,
    /// No known key signed it.
    #[error("it is not signed by a known key")]
    Unsigned,
}

impl Given {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keys to be trusted: public keys, a line each, and statements of rotation that lead on from them.
    ///
    /// # Errors
    /// If there is no key in it, or a statement that leads nowhere.
    pub fn keys(mut self, text: &str) -> Result<Self, GivenError> {
        let (before, mut rest) = (self.keys.len(), text);
        while !rest.is_empty() {
            let (line, more) = rest.split_once('\n').unwrap_or((rest, ""));
            match PublicKey::parse(line.trim()) {
                Some(key) => self.keys.push(key),
                None if line.trim().is_empty() => {}
                None => break,
            }
            rest = more;
        }
        if self.keys.len() == before { Err(GivenError::NoKey) } else { self.rotations(rest) }
    }

    /// Statements of rotation: keys that a known one vouches for. They need no trust in who brings them.
    ///
    /// # Errors
    /// If one of them leads nowhere.
    pub fn rotations(mut self, text: &str) -> Result<Self, GivenError> {
        let (statements, torn) = notes(text);
        for statement in statements {
            let key = PublicKey::succeeding(&statement, &self.keys).ok_or(GivenError::Rotation)?;
            self.keys.push(key);
        }
        if torn > 0 { Err(GivenError::Rotation) } else { Ok(self) }
    }

    /// Checkpoints that whoever verifies has kept, each followed by an empty line if there are several.
    pub fn checkpoints(mut self, text: &str) -> Self {
        self.add("the checkpoints", text, || Source::Earlier);
        self
    }

    /// What an anchor has.
    pub fn anchor(mut self, name: &str, text: &str) -> Self {
        self.add(name, text, || Source::Anchor(name.to_owned()));
        self
    }

    /// An archive: an export of events that left the database. With any, all that left must be in one.
    pub fn archive(mut self, path: impl Into<PathBuf>) -> Self {
        self.archives.push(path.into());
        self.are_all = true;
        self
    }

    /// Archives that have everything from this event to that one, while others are elsewhere.
    #[cfg(feature = "cli")]
    pub(crate) fn part(mut self, archives: &[PathBuf], (from, through): (u64, u64)) -> Self {
        self.archives.extend_from_slice(archives);
        self.part = Some((from, through));
        self
    }

    fn add(&mut self, name: &str, text: &str, source: impl Fn() -> Source) {
        let (notes, torn) = notes(text);
        self.notes.extend(notes.into_iter().map(|it| (source(), it)));
        self.torn.extend((torn > 0).then(|| (name.to_owned(), torn)));
    }

    /// Goes on from a checkpoint up to which everything was verified before: the checkpoint itself (with a database), or
    /// what [`Report::verified`](super::Report::verified) gave (with an export, too).
    ///
    /// # Errors
    /// If it is no checkpoint, or none that a key given before signed.
    pub fn from(mut self, text: &str) -> Result<Self, GivenError> {
        let (peaks, note) = match text.strip_prefix(VERIFIED).and_then(|it| it.split_once("\n\n")) {
            Some((lines, note)) => {
                let hash = |it: &str| BASE64_STANDARD.decode(it).ok()?.try_into().ok();
                let peaks: Option<Vec<Hash>> = lines.lines().skip(1).map(hash).collect();
                (Some(peaks.ok_or(GivenError::NoCheckpoint)?), note)
            }
            None => (None, text.trim_start_matches('\n')),
        };
        let note = Note::parse(&format!("{}\n", note.trim_end())).ok_or(GivenError::NoCheckpoint)?;
        let head = Head::parse(&note.text).ok_or(GivenError::NoCheckpoint)?;
        if !self.keys.is_empty() && note.worth_to(&head.origin, &self.keys) != Worth::Good {
            return Err(GivenError::Unsigned);
        }
        self.start = Some(Start { note, head, peaks });
        Ok(self)
    }
}
