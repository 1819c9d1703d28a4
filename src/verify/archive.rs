//! Archives: events that left the database, in exports that are read where their rows were.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader};

use super::columns::Checked;
use super::export::{Lines, entry};
use super::given::Given;
use super::hash::{Hash, leaf};
use super::report::{FindingKind, Findings, Span, number};

/// All that were brought along.
pub(super) struct Archives {
    files: VecDeque<Archive>,
    /// From the first event to the last one that was read.
    read: Option<(u64, u64)>,
    are_all: bool,
}

struct Archive {
    name: String,
    lines: Lines<BufReader<File>>,
    /// The place of the last line.
    last: u64,
    next: Option<Line>,
}

/// A line that was read: its place, its hash, and what it says that this is.
#[derive(Clone, Copy)]
pub(super) struct Line {
    pub(super) seq: u64,
    pub(super) hash: Hash,
    stated: Option<Hash>,
}

impl Archives {
    /// Opens them, the one that begins first as the first.
    ///
    /// # Errors
    /// If one cannot be read.
    pub(super) fn open(given: &Given, findings: &mut Findings) -> io::Result<Self> {
        let mut files = Vec::new();
        for path in &given.archives {
            let lines = Lines(BufReader::new(File::open(path)?));
            let mut archive = Archive { name: path.display().to_string(), lines, last: 0, next: None };
            archive.step(findings)?;
            files.extend(archive.next.is_some().then_some(archive));
        }
        files.sort_by_key(|it| it.next.map(|it| it.seq));
        Ok(Self { files: files.into(), read: None, are_all: given.are_all })
    }

    /// Whether what is in none of them is missing.
    pub(super) fn are_all(&self) -> bool {
        self.are_all
    }

    /// What was read of them.
    pub(super) fn span(&self) -> Option<Span> {
        self.read.map(|(first, last)| Span { seq: number(first), through: number(last) })
    }

    /// The event at this place as a row; `None` if none of them has it. Places are asked for in order.
    pub(super) fn at(&mut self, place: u64, findings: &mut Findings) -> io::Result<Option<Checked>> {
        while let Some(line) = self.front() {
            if line.seq > place {
                return Ok(None);
            }
            self.advance(findings)?;
            if line.seq == place {
                let leaf = Some(line.stated.unwrap_or(line.hash));
                return Ok(Some(Checked { seq: number(place), hash: line.hash, leaf, wrong: vec![] }));
            }
        }
        Ok(None)
    }

    /// The next line, with the name of its file; what one of them has twice over is read once.
    pub(super) fn next(&mut self, findings: &mut Findings) -> io::Result<Option<(Line, String)>> {
        let name = self.files.front().map(|it| it.name.clone());
        let found = self.front().zip(name);
        if found.is_some() {
            self.advance(findings)?;
        }
        Ok(found)
    }

    fn front(&self) -> Option<Line> {
        self.files.front().and_then(|it| it.next)
    }

    fn advance(&mut self, findings: &mut Findings) -> io::Result<()> {
        let Some(file) = self.files.front_mut() else { return Ok(()) };
        if let Some(line) = file.next {
            let first = self.read.map_or(line.seq, |it| it.0);
            self.read = Some((first, line.seq));
        }
        file.step(findings)?;
        while self.files.front().is_some_and(|it| it.next.is_none()) {
            self.files.pop_front();
        }
        Ok(())
    }
}

impl Archive {
    /// Reads the next line. What is none, or has a place again, is told and has no place of its own.
    fn step(&mut self, findings: &mut Findings) -> io::Result<()> {
        self.next = None;
        while let Some(bytes) = self.lines.next()? {
            let line = if let Some((seq, event, stated)) = entry(&bytes) {
                Line { seq, hash: leaf(&event), stated }
            } else {
                findings.told(self.last + 1, FindingKind::Edited, format!("{}: this line is no entry", self.name));
                Line { seq: self.last + 1, hash: leaf(&bytes), stated: None }
            };
            if line.seq > self.last {
                self.last = line.seq;
                self.next = Some(line);
                break;
            }
            findings.told(line.seq, FindingKind::Inserted, self.name.clone());
        }
        Ok(())
    }
}
