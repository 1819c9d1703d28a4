//! Archives: exports of events that left the database, or may. Each line of each file is held against the tree.

use std::collections::HashSet;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use super::VerifyError;
use super::columns::said;
use super::export::{Lines, entry};
use super::hash::{Hash, leaf};
use super::report::{FindingKind, Findings, Span, number};

/// What archives have, as consecutive events; by place.
#[derive(Debug, Default)]
pub(super) struct Archived {
    spans: Vec<(u64, u64)>,
}

/// A line of an archive that is to be held against the tree.
pub(super) struct Line {
    pub(super) seq: u64,
    pub(super) hash: Hash,
}

/// An archive that is read.
pub(super) struct Archive {
    name: String,
    lines: Lines<BufReader<File>>,
    /// What was read, without a gap.
    span: Option<(u64, u64)>,
    ended: HashSet<Hash>,
}

impl Archive {
    pub(super) fn open(path: &Path) -> Result<Self, VerifyError> {
        let file = File::open(path).map_err(|error| VerifyError::Archive(path.display().to_string(), error))?;
        let lines = Lines(BufReader::new(file));
        Ok(Self { name: path.display().to_string(), lines, span: None, ended: HashSet::new() })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The next line that may be what it says; what cannot be is told.
    pub(super) fn next(&mut self, findings: &mut Findings) -> Result<Option<Line>, VerifyError> {
        loop {
            let read = self.lines.next().map_err(|error| VerifyError::Archive(self.name.clone(), error))?;
            let Some(bytes) = read else { return Ok(None) };
            let last = self.span.map_or(0, |it| it.1);
            let Some((seq, event, stated)) = entry(&bytes) else {
                findings.told(last + 1, FindingKind::Edited, format!("{}: this line is no entry", self.name));
                continue;
            };
            if self.span.is_some() && seq <= last {
                findings.told(seq, FindingKind::Inserted, self.name.clone());
                continue;
            }
            if self.span.is_some() && seq > last + 1 {
                findings.range(last + 1, seq - 1, FindingKind::Missing, Some(self.name.clone()));
            }
            self.span = Some((self.span.map_or(seq, |it| it.0), seq));
            let hash = leaf(&event);
            if stated.is_some_and(|it| it != hash) {
                findings.told(seq, FindingKind::Edited, self.name.clone());
                continue;
            }
            let ends = said(&event).filter(|it| it.is_end() == Some(true)).and_then(|it| it.execution_id);
            if ends.is_some_and(|it| !self.ended.insert(leaf(it.as_bytes()))) {
                findings.told(seq, FindingKind::Ends, self.name.clone());
            }
            return Ok(Some(Line { seq, hash }));
        }
    }
}

impl Archived {
    /// What a file has, which was read to its end.
    pub(super) fn add(&mut self, archive: &Archive) {
        self.spans.extend(archive.span);
        self.spans.sort_unstable();
    }

    /// From the first event to the last one that any of them has.
    pub(super) fn span(&self) -> Option<Span> {
        let last = self.spans.iter().map(|it| it.1).max()?;
        self.spans.first().map(|it| Span { seq: number(it.0), through: number(last) })
    }

    /// Tells which of these events none of them has.
    pub(super) fn check(&self, from: u64, through: u64, findings: &mut Findings) {
        let mut next = from;
        for (first, last) in &self.spans {
            if *first > next && next <= through {
                findings.range(next, through.min(first - 1), FindingKind::Missing, Some("in no archive".into()));
            }
            next = next.max(last + 1);
        }
        if next <= through {
            findings.range(next, through, FindingKind::Missing, Some("in no archive".into()));
        }
    }
}
