//! What a verification found.

use std::collections::HashSet;
use std::fmt;

use serde::Serialize;

/// The most findings that are kept one by one.
const MAX: usize = 10_000;

/// What is wrong at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// The event is not what it was.
    Edited,
    /// The event is gone.
    Missing,
    /// The event was never recorded there.
    Inserted,
    /// The event has another's place.
    Swapped,
    /// The log ends before it ended: from here on everything is gone.
    Tail,
    /// A column to search by does not say what the event says.
    Column,
    /// An execution ended more than once.
    Ends,
    /// The tree is not that of the events.
    Tree,
    /// A checkpoint is of another log, or missing; with a range: the first one that fits no more, and what is behind the
    /// last one that fits.
    Checkpoint,
    /// The same of a checkpoint that somebody else kept.
    Anchor,
    /// A signature is not a known key's.
    Signature,
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Edited => "edited",
            Self::Missing => "missing",
            Self::Inserted => "inserted",
            Self::Swapped => "swapped",
            Self::Tail => "tail",
            Self::Column => "column",
            Self::Ends => "ends",
            Self::Tree => "tree",
            Self::Checkpoint => "checkpoint",
            Self::Anchor => "anchor",
            Self::Signature => "signature",
        })
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The place in the log, from 1.
    pub seq: i64,
    /// What.
    pub kind: FindingKind,
    /// The last place, if it is about more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<i64>,
    /// More, in a few words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// From one place to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Span {
    /// The first place.
    pub seq: i64,
    /// The last place.
    pub through: i64,
}

/// Events that have left the database, as an event of the log says. Whether anybody has them is for the archives to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Detached {
    /// The first place.
    pub seq: i64,
    /// The last place.
    pub through: i64,
    /// The place of the event that says so.
    pub event: i64,
    /// The name of the archive, as that event has it.
    pub archive: String,
    /// `sha256:` and that of the archive as it was then, likewise.
    pub digest: String,
}

/// What a verification came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Whether nothing is wrong.
    pub ok: bool,
    /// How many events were checked.
    pub events: u64,
    /// How many events the last checkpoint covers.
    pub covered: u64,
    /// Events that are younger than the last checkpoint: nobody vouches for them yet.
    pub uncovered: Option<Span>,
    /// Events that are not in the database any more: an archive has them, and what is known of them here is their hashes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detached: Option<Detached>,
    /// From the first event to the last one that was read in archives, and is what its hash in the tree says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<Span>,
    /// Whether signatures were checked: without a key they cannot be.
    pub signatures: bool,
    /// By place.
    pub findings: Vec<Finding>,
    /// How many more there are.
    pub more: u64,
    #[serde(skip)]
    pub(super) verified: Option<String>,
}

impl Report {
    /// What the next verification can go on from; `None` if something is wrong or no checkpoint covers anything.
    pub fn verified(&self) -> Option<&str> {
        self.verified.as_deref().filter(|_| self.ok)
    }
}

/// Findings as they come.
#[derive(Debug, Default)]
pub(super) struct Findings {
    found: Vec<Finding>,
    more: u64,
}

impl Findings {
    pub(super) fn at(&mut self, seq: u64, kind: FindingKind) {
        self.add(seq, None, kind, None);
    }

    pub(super) fn told(&mut self, seq: u64, kind: FindingKind, detail: impl Into<String>) {
        self.add(seq, None, kind, Some(detail.into()));
    }

    /// A range; of one place, it is that place.
    pub(super) fn range(&mut self, from: u64, through: u64, kind: FindingKind, detail: Option<String>) {
        self.add(from, (through > from).then_some(through), kind, detail);
    }

    pub(super) fn at_number(&mut self, seq: i64, kind: FindingKind) {
        self.push(Finding { seq, kind, through: None, detail: None });
    }

    fn add(&mut self, seq: u64, through: Option<u64>, kind: FindingKind, detail: Option<String>) {
        self.push(Finding { seq: number(seq), kind, through: through.map(number), detail });
    }

    fn push(&mut self, finding: Finding) {
        if self.found.len() < MAX {
            self.found.push(finding);
        } else {
            self.more += 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Places that something is said of already.
    pub(super) fn places(&self) -> HashSet<i64> {
        self.found.iter().map(|it| it.seq).collect()
    }

    /// By place, each once.
    pub(super) fn sorted(mut self) -> (Vec<Finding>, u64) {
        self.found.sort();
        self.found.dedup();
        (self.found, self.more)
    }
}

pub(super) fn number(place: u64) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}
