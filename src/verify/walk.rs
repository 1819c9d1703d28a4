//! One way through the log, from its beginning or from what was verified before: rows and references side by side, and
//! every checkpoint when its size is reached.
//!
//! A reference is what something else than the row says that the row was: a hash of the stored tree, or of an export.
//! What does not fit is put aside and explained at the end; as long as all fits, nothing is kept.

use super::align::explain;
use super::columns::Checked;
use super::given::Source;
use super::hash::{Hash, Tree};
use super::note::Head;
use super::report::{FindingKind, Findings};

/// A checkpoint on the way.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) head: Head,
    pub(super) source: Source,
    pub(super) note: String,
    /// Once it is reached: whether rows, and references, are its tree.
    fits: Option<(bool, bool)>,
}

impl Mark {
    pub(super) fn new(head: Head, source: Source, note: String) -> Self {
        Self { head, source, note, fits: None }
    }

    fn kind(&self) -> FindingKind {
        match self.source {
            Source::Stored => FindingKind::Checkpoint,
            Source::Anchor(_) | Source::Earlier => FindingKind::Anchor,
        }
    }
}

/// Whose word counts at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// A signed tree is that of the rows: what differs from them is wrong.
    Rows,
    /// A signed tree is that of the references, or nothing is signed: what differs from them is wrong.
    References,
    /// Neither is what was signed.
    Nothing,
}

pub(super) struct Walk {
    marks: Vec<Mark>,
    next: usize,
    /// Where it began.
    start: u64,
    /// The last place that was passed.
    place: u64,
    /// The last place that has a row.
    last_row: u64,
    pub(super) events: u64,
    rows: Tree,
    references: Tree,
    /// Roots of full parts of 256 references.
    pub(super) parts: Vec<Hash>,
    /// Whether every place up to here has a row, and a reference.
    unbroken: (bool, bool),
    /// The last place that has a reference.
    known: u64,
    /// Places without one, which is odd if others follow.
    hole: Option<(u64, u64)>,
    /// Whether references are those of a stored tree, which has no holes.
    is_stored: bool,
    strays: Vec<(u64, Hash)>,
    lost: Vec<(u64, Hash)>,
    /// What the next verification goes on from.
    verified: Option<(Tree, String)>,
    pub(super) findings: Findings,
}

impl Walk {
    /// From behind this tree on, which is empty at the beginning of the log.
    pub(super) fn new(mut marks: Vec<Mark>, tree: Tree, findings: Findings) -> Self {
        marks.sort_by_key(|it| it.head.size);
        let start = tree.size();
        let mut walk = Self {
            marks,
            next: 0,
            start,
            place: start,
            last_row: start,
            events: 0,
            rows: tree.clone(),
            references: tree,
            parts: Vec::new(),
            unbroken: (true, true),
            known: start,
            hole: None,
            is_stored: false,
            strays: Vec::new(),
            lost: Vec::new(),
            verified: None,
            findings,
        };
        while walk.marks.get(walk.next).is_some_and(|it| it.head.size < start) {
            walk.next += 1; // vouched for by what was verified before
        }
        walk.reach();
        walk
    }

    /// With references from a stored tree.
    pub(super) fn by_tree(self) -> Self {
        Self { is_stored: true, ..self }
    }

    pub(super) fn place(&self) -> u64 {
        self.place
    }

    /// The row of the next place.
    pub(super) fn row(&mut self, row: &Checked, reference: Option<Hash>) {
        self.place += 1;
        self.events += 1;
        self.last_row = self.place;
        self.rows.push(row.hash);
        self.refer(reference);
        if reference.is_some_and(|it| it != row.hash) {
            self.strays.push((self.place, row.hash));
        } else if reference.is_none() && !self.lost.is_empty() && row.leaf == Some(row.hash) {
            self.strays.push((self.place, row.hash)); // behind the references, perhaps because something moved it there
        } else if reference.is_none() && row.leaf != Some(row.hash) {
            self.findings.at(self.place, FindingKind::Edited);
        } else {
            // The event is what it was; what was made of it may not be.
            let leaf = (row.leaf != Some(row.hash)).then_some("leaf");
            let columns: Vec<_> = row.wrong.iter().copied().chain(leaf).collect();
            if !columns.is_empty() {
                self.findings.told(self.place, FindingKind::Column, columns.join(", "));
            }
        }
        if let Some(reference) = reference.filter(|it| *it != row.hash) {
            self.lost.push((self.place, reference));
        }
        self.reach();
    }

    /// The next place has no row.
    pub(super) fn absent(&mut self, reference: Hash) {
        self.place += 1;
        self.unbroken.0 = false;
        self.refer(Some(reference));
        self.lost.push((self.place, reference));
        self.reach();
    }

    /// The row of the next place has left the log, which still has its hash.
    pub(super) fn detached(&mut self, reference: Hash) {
        self.place += 1;
        self.last_row = self.place;
        self.rows.push(reference);
        self.refer(Some(reference));
        self.reach();
    }

    /// Neither rows nor references up to this place.
    pub(super) fn gap(&mut self, through: u64) {
        self.findings.range(self.place + 1, through, FindingKind::Missing, None);
        self.place = through;
        self.unbroken = (false, false);
        self.reach();
    }

    fn refer(&mut self, reference: Option<Hash>) {
        let Some(hash) = reference else {
            self.unbroken.1 = false;
            let from = self.hole.map_or(self.place, |it| it.0);
            self.hole = Some((from, self.place));
            return;
        };
        self.known = self.place;
        if let Some((from, through)) = self.hole.take().filter(|_| self.is_stored) {
            self.findings.range(from, through, FindingKind::Tree, Some("its hashes are gone".into()));
        }
        let part = self.references.push(hash);
        if self.unbroken.1 {
            self.parts.extend(part);
        }
    }

    /// Looks at the checkpoints of this size.
    fn reach(&mut self) {
        if self.marks.get(self.next).is_none_or(|it| it.head.size > self.place) {
            return;
        }
        let root = |tree: &Tree, is_whole: bool| (is_whole && tree.size() == self.place).then(|| tree.root());
        let roots = (root(&self.rows, self.unbroken.0), root(&self.references, self.unbroken.1));
        while let Some(mark) = self.marks.get_mut(self.next).filter(|it| it.head.size <= self.place) {
            let fits = |root: Option<Hash>| mark.head.size == self.place && root == Some(mark.head.root);
            let fits = (fits(roots.0), fits(roots.1));
            mark.fits = Some(fits);
            if fits.0 {
                self.verified = Some((self.rows.clone(), mark.note.clone()));
            }
            self.next += 1;
        }
    }

    /// Explains everything, when rows and references are at their end. `events`: how many there should be, if that is known.
    pub(super) fn finish(&mut self, events: u64) {
        let size = |fits: fn((bool, bool)) -> bool| {
            let marks = self.marks.iter().filter(|it| it.fits.is_some_and(fits));
            marks.map(|it| it.head.size).max().unwrap_or(self.start)
        };
        let (rows, references, reached) = (size(|it| it.0), size(|it| it.1), size(|_| true));
        let trust = |place: u64| match place {
            _ if place <= rows => Trust::Rows,
            _ if place <= references || place > reached => Trust::References,
            _ => Trust::Nothing,
        };
        let mut tail = None;
        for (from, through, kind) in explain(&self.strays, &self.lost, self.last_row, self.known) {
            match (trust(from), kind) {
                (Trust::Rows, _) => self.findings.at(from, FindingKind::Tree),
                (_, FindingKind::Tail) => tail = Some((from, through.max(events))),
                (Trust::References, _) => self.findings.range(from, through, kind, None),
                (Trust::Nothing, _) => {}
            }
        }
        self.judge_marks(rows.max(references));
        self.judge_end(tail);
    }

    /// Checkpoints that are of another log: the first one behind the last good one, and those among the good ones.
    fn judge_marks(&mut self, good: u64) {
        let mut told = false;
        for mark in self.marks.iter().filter(|it| it.fits == Some((false, false))) {
            let detail = match &mark.source {
                Source::Anchor(name) => Some(name.clone()),
                Source::Stored | Source::Earlier => None,
            };
            if mark.head.size <= good {
                self.findings.range(mark.head.size, mark.head.size, mark.kind(), detail);
            } else if !told {
                told = true;
                self.findings.range(good + 1, mark.head.size, mark.kind(), detail);
            }
        }
    }

    /// Whether the log ends too early: by its references, or by checkpoints that were never reached.
    fn judge_end(&mut self, tail: Option<(u64, u64)>) {
        let beyond = self.marks.iter().filter(|it| it.head.size > self.place);
        let farthest = beyond.max_by_key(|it| it.head.size);
        let from = tail.map_or(self.place + 1, |it| it.0);
        if let Some(mark) = farthest {
            let who = match &mark.source {
                Source::Stored => "a stored checkpoint".to_owned(),
                Source::Anchor(name) => name.clone(),
                Source::Earlier => "an earlier checkpoint".to_owned(),
            };
            let detail = Some(format!("{who} covers {} events", mark.head.size));
            let through = mark.head.size.max(tail.map_or(0, |it| it.1));
            self.findings.range(from, through, FindingKind::Tail, detail);
        } else if let Some((from, through)) = tail {
            self.findings.range(from, through, FindingKind::Tail, None);
        }
    }

    pub(super) fn last_row(&self) -> u64 {
        self.last_row
    }

    /// How many events the last checkpoint covers that was reached; what went before counts.
    pub(super) fn covered(&self) -> u64 {
        let reached = self.marks.iter().filter(|it| it.fits.is_some());
        reached.map(|it| it.head.size).max().unwrap_or(0).max(self.start).min(self.last_row)
    }

    pub(super) fn marks(&self) -> &[Mark] {
        &self.marks
    }

    pub(super) fn verified(&mut self) -> Option<(Tree, String)> {
        self.verified.take()
    }
}
