//! An export: one line an event, with the event's bytes as they were recorded. `{"event":..,"leaf":"..","seq":..}` says
//! which hash the log has of it, so that an edit is found where it is; `{"seq":..,` and then the event's members, as pages
//! of the API have them, says nothing more than that, and an edit is found by the checkpoints around it.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::BufRead;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::columns::{Checked, said};
use super::database::{conclude, given_marks};
use super::given::{Given, VERIFIED};
use super::hash::{Hash, Tree, from_hex, leaf};
use super::report::{FindingKind, Findings, Report, number};
use super::walk::Walk;
use super::{Progress, VerifyError};

/// The longest line: an event has 16 KiB at most.
const MAX_LINE: u64 = 64 * 1024;

/// How often progress is told.
const PAGE: u64 = 4_096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow)]
    event: &'a RawValue,
    leaf: &'a str,
    seq: u64,
}

/// Verifies an export, without a database: what it says of itself, and by the checkpoints that were given. An export that
/// goes on from an earlier one needs what [`Report::verified`] gave of that.
///
/// # Errors
/// If it cannot be read, or does not go on from what was given. What is wrong with it is in the report.
pub fn export(export: impl BufRead, given: &Given, progress: Progress<'_>) -> Result<Report, VerifyError> {
    let mut findings = Findings::default();
    let marks = given_marks(given, &mut findings);
    let tree = match &given.start {
        Some(start) => {
            let peaks = start.peaks.as_deref().unwrap_or_default();
            let tree = Tree::of(start.head.size, peaks).filter(|it| it.root() == start.head.root);
            tree.ok_or(VerifyError::NoStart("without a database it takes what the last verification saved"))?
        }
        None => Tree::default(),
    };
    let mut walk = Walk::new(marks, tree, findings);
    let mut ended = HashSet::new();
    let mut lines = Lines(export);
    while let Some(bytes) = lines.next()? {
        take(&mut walk, &mut ended, &bytes);
        if walk.place().is_multiple_of(PAGE) {
            progress(walk.events, 0);
        }
    }
    walk.finish(0);
    Ok(conclude(walk, given))
}

fn take(walk: &mut Walk, ended: &mut HashSet<Hash>, bytes: &[u8]) {
    let Some((seq, event, stated)) = entry(bytes) else {
        walk.findings.told(walk.place() + 1, FindingKind::Edited, "this line is no entry");
        let hash = leaf(bytes);
        return walk.row(&Checked { seq: number(walk.place() + 1), hash, leaf: Some(hash), wrong: vec![] }, None);
    };
    if seq <= walk.place() {
        return walk.findings.at(seq, FindingKind::Inserted);
    }
    if seq > walk.place() + 1 {
        walk.gap(seq - 1);
    }
    let hash = leaf(&event);
    let row = Checked { seq: number(seq), hash, leaf: Some(stated.unwrap_or(hash)), wrong: vec![] };
    walk.row(&row, stated);
    let said = said(&event);
    if let Some(execution) =
        said.as_ref().filter(|it| it.is_end() == Some(true)).and_then(|it| it.execution_id.as_ref())
        && !ended.insert(leaf(execution.as_bytes()))
    {
        walk.findings.at(seq, FindingKind::Ends);
    }
}

/// What a log can count to.
fn is_place(seq: u64) -> bool {
    seq > 0 && i64::try_from(seq).is_ok_and(|it| it < i64::MAX)
}

/// A line, if it is one in its one spelling: place, event, and its hash if that is stated.
pub(super) fn entry(line: &[u8]) -> Option<(u64, Cow<'_, [u8]>, Option<Hash>)> {
    let text = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    if let Some((digits, members)) = text.strip_prefix("{\"seq\":").and_then(|it| it.split_once(',')) {
        let seq = digits.parse().ok().filter(|it| is_place(*it) && it.to_string() == digits)?;
        let event = format!("{{{members}");
        said(event.as_bytes())?; // it is an event
        return Some((seq, Cow::Owned(event.into_bytes()), None));
    }
    let Line { event, leaf, seq } = serde_json::from_str(text).ok()?;
    let is_plain = text == format!(r#"{{"event":{},"leaf":"{leaf}","seq":{seq}}}"#, event.get());
    let hash = from_hex(leaf.as_bytes())?;
    (is_plain && is_place(seq)).then_some((seq, Cow::Borrowed(event.get().as_bytes()), Some(hash)))
}

/// The text of an event of an export, as it was recorded; `None` if it is not in there.
///
/// # Errors
/// If the export cannot be read.
#[cfg(feature = "cli")]
pub(crate) fn event_of(export: impl BufRead, seq: i64) -> std::io::Result<Option<String>> {
    let mut lines = Lines(export);
    while let Some(bytes) = lines.next()? {
        if let Some((_, event, _)) = entry(&bytes).filter(|it| number(it.0) == seq) {
            return Ok(String::from_utf8(event.into_owned()).ok());
        }
    }
    Ok(None)
}

/// What the next verification goes on from: the tree's complete parts, and the checkpoint that vouches for them.
pub(super) fn verified(tree: &Tree, note: &str) -> String {
    let mut text = format!("{VERIFIED}\n");
    for peak in tree.peaks() {
        let _ = writeln!(text, "{}", BASE64_STANDARD.encode(peak)); // into a String: cannot fail
    }
    text + "\n" + note
}

pub(super) struct Lines<R>(pub(super) R);

impl<R: BufRead> Lines<R> {
    /// The next line with its end; of one that is too long, its beginning.
    pub(super) fn next(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let read = std::io::Read::take(&mut self.0, MAX_LINE).read_until(b'\n', &mut line)?;
        Ok((read > 0).then_some(line))
    }
}
