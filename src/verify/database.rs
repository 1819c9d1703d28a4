//! A database: its rows, its tree, its checkpoints, and what others kept of them.

use std::collections::{HashSet, VecDeque};
use std::path::Path;

use super::columns::Checked;
use super::given::{Given, Source, Start};
use super::hash::{Hash, Tree, complete, from_hex};
use super::left::Left;
use super::note::{Head, Note, Worth};
use super::report::{FindingKind, Findings, Report};
use super::tiles::Tiles;
use super::walk::{Mark, Walk};
use super::{Progress, VerifyError, report};
use crate::store::{Evidence, StoreError};

/// How many rows are read at once, and how many such portions are worked on while the next one is read.
const PAGE: i64 = 4_096;
const AT_ONCE: usize = 3;

/// How many executions with more than one end are named.
const ENDS: i64 = 1_000;

/// Verifies the log of a database file, which is only read, and as it stood at one instant.
///
/// # Errors
/// If it cannot be read, or what was given to go on from is not there. What is wrong with the log is in the report.
pub async fn database(path: &Path, given: &Given, progress: Progress<'_>) -> Result<Report, VerifyError> {
    let mut evidence = Evidence::open(path).await?;
    let report = look(&mut evidence, given, progress).await;
    evidence.close().await;
    report
}

/// What verification of an export goes on from, if that begins behind this checkpoint of the database: as
/// [`Report::verified`] gives it. Nothing is verified but that the stored tree is the one that was signed.
///
/// # Errors
/// If it is not.
#[cfg(feature = "cli")]
pub(crate) async fn standing(path: &Path, note: &str) -> Result<String, VerifyError> {
    let given = Given::new().from(note).map_err(|_| VerifyError::NoStart("it is no checkpoint"))?;
    let Some(start) = &given.start else { return Err(VerifyError::NoStart("it is no checkpoint")) };
    let mut evidence = Evidence::open(path).await?;
    let tree = start_at(&mut evidence, start).await;
    evidence.close().await;
    Ok(super::export::verified(&tree?, &start.note.whole))
}

async fn look(evidence: &mut Evidence, given: &Given, progress: Progress<'_>) -> Result<Report, VerifyError> {
    let heads = evidence.heads().await?;
    let mut findings = Findings::default();
    let marks = marks(evidence, given, &mut findings).await?;
    let tree = match &given.start {
        Some(start) => start_at(evidence, start).await?,
        None => Tree::default(),
    };
    let start = tree.size();
    let left = Left::find(evidence).await?;
    let mut walk = Walk::new(marks, tree, findings).by_tree();
    let mut tiles = Tiles::from(start);
    let total = heads.map_or(0, |it| u64::try_from(it.0).unwrap_or(0)).saturating_sub(start);
    pass_rows(evidence, &mut walk, &mut tiles, &left, (start, total), progress).await?;
    let end_of_rows = walk.last_row();
    while tiles.at(walk.place(), evidence).await?.is_some() {
        vacant(evidence, &mut walk, &mut tiles, &left, 0).await?;
    }
    left.check(evidence, &mut walk, start).await?;
    let archived = left.archived(evidence, &mut walk.findings, given, start).await?;
    let in_tiles = walk.place().min(tiles.end.unwrap_or(walk.place()));
    walk.finish(heads.map_or(0, |it| u64::try_from(it.0).unwrap_or(0)));
    check_heads(&mut walk, heads, end_of_rows, in_tiles);
    check_upper(evidence, &mut walk, start).await?;
    let named = walk.findings.places();
    for (seq,) in evidence.ends(ENDS).await? {
        if !named.contains(&seq) && seq > report::number(start) {
            walk.findings.at_number(seq, FindingKind::Ends);
        }
    }
    Ok(Report { detached: left.report(start), archived: archived.span(), ..conclude(walk, given) })
}

/// What is known of the next place, which has no row; where nothing is, up to this one.
async fn vacant(
    evidence: &mut Evidence,
    walk: &mut Walk,
    tiles: &mut Tiles,
    left: &Left,
    before: u64,
) -> Result<(), VerifyError> {
    let place = walk.place() + 1;
    let has_left = place <= left.through();
    match tiles.at(walk.place(), evidence).await? {
        Some(hash) if has_left => walk.detached(hash),
        Some(hash) => walk.absent(hash),
        None if !has_left && tiles.end.is_some_and(|it| it <= walk.place()) => walk.gap(before.max(place)),
        None => walk.gap(place),
    }
    Ok(())
}

/// Every row with its reference.
async fn pass_rows(
    evidence: &mut Evidence,
    walk: &mut Walk,
    tiles: &mut Tiles,
    left: &Left,
    (start, total): (u64, u64),
    progress: Progress<'_>,
) -> Result<(), VerifyError> {
    // From the beginning on also what stands before it.
    let (mut after, mut more) = (if start == 0 { i64::MIN } else { report::number(start) }, true);
    let mut work = VecDeque::new();
    loop {
        while more && work.len() < AT_ONCE {
            let rows = evidence.rows(after, PAGE).await?;
            more = !rows.is_empty();
            after = rows.last().map_or(after, |it| it.seq);
            if more {
                work.push_back(tokio::task::spawn_blocking(move || rows.iter().map(Checked::of).collect::<Vec<_>>()));
            }
        }
        let Some(page) = work.pop_front() else { return Ok(()) };
        for row in page.await.map_err(|_| VerifyError::Threads)? {
            pass(evidence, walk, tiles, left, &row).await?;
        }
        progress(walk.events, total);
    }
}

async fn pass(
    evidence: &mut Evidence,
    walk: &mut Walk,
    tiles: &mut Tiles,
    left: &Left,
    row: &Checked,
) -> Result<(), VerifyError> {
    let place = u64::try_from(row.seq).unwrap_or(0);
    if place == 0 {
        walk.findings.at_number(row.seq, FindingKind::Inserted);
        return Ok(());
    }
    while walk.place() + 1 < place {
        vacant(evidence, walk, tiles, left, place - 1).await?;
    }
    let reference = tiles.at(walk.place(), evidence).await?;
    walk.row(row, reference);
    Ok(())
}

/// Every checkpoint whose signature is worth something, wherever it is from.
async fn marks(evidence: &mut Evidence, given: &Given, findings: &mut Findings) -> Result<Vec<Mark>, VerifyError> {
    let mut marks = Vec::new();
    let (mut after, mut stored) = (-1, HashSet::new());
    loop {
        let notes = evidence.notes(after, PAGE).await?;
        let Some((last, _)) = notes.last() else { break };
        after = *last;
        for (size, text) in notes {
            stored.insert(u64::try_from(size).unwrap_or(0));
            let note = text.and_then(|it| String::from_utf8(it).ok()).and_then(|it| Note::parse(&it));
            let head = note.as_ref().and_then(|it| Head::parse(&it.text)).filter(|it| report::number(it.size) == size);
            match (note, head) {
                (Some(note), Some(head)) => {
                    marks.extend(mark(note, head, Source::Stored, given, findings));
                }
                _ => findings.at_number(size, FindingKind::Checkpoint),
            }
        }
    }
    for mark in given_marks(given, findings) {
        if matches!(mark.source, Source::Anchor(_)) && !stored.contains(&mark.head.size) {
            let told = "it is anchored, and not on record";
            findings.told(mark.head.size, FindingKind::Checkpoint, told);
        }
        marks.push(mark);
    }
    Ok(marks)
}

/// The checkpoints that whoever verifies brought along.
pub(super) fn given_marks(given: &Given, findings: &mut Findings) -> Vec<Mark> {
    let mut marks = Vec::new();
    for (name, count) in &given.torn {
        findings.told(0, FindingKind::Anchor, format!("{count} parts of {name} are no checkpoints"));
    }
    for (source, note) in &given.notes {
        match Head::parse(&note.text) {
            Some(head) => marks.extend(mark(note.clone(), head, source.clone(), given, findings)),
            None => findings.told(0, FindingKind::Anchor, "a signed note is no checkpoint"),
        }
    }
    if let Some(start) = &given.start {
        marks.extend(mark(start.note.clone(), start.head.clone(), Source::Earlier, given, findings));
    }
    marks
}

/// A checkpoint, unless its signature speaks against it.
fn mark(note: Note, head: Head, source: Source, given: &Given, findings: &mut Findings) -> Option<Mark> {
    let worth = note.worth_to(&head.origin, &given.keys);
    if !given.keys.is_empty() && worth != Worth::Good {
        let detail = if worth == Worth::Bad { "it is forged" } else { "it is signed by no known key" };
        findings.told(head.size, FindingKind::Signature, detail);
        return None;
    }
    Some(Mark::new(head, source, note.whole))
}

/// The tree of what was verified before, from its own record or from the stored tiles: it must be that tree.
async fn start_at(evidence: &mut Evidence, start: &Start) -> Result<Tree, VerifyError> {
    let peaks = match &start.peaks {
        Some(peaks) => peaks.clone(),
        None => stored_peaks(evidence, start.head.size).await?,
    };
    let tree = Tree::of(start.head.size, &peaks).filter(|it| it.root() == start.head.root);
    tree.ok_or(VerifyError::NoStart("the stored tree is not the one that it signs; verify everything"))
}

/// The roots of the complete parts of a stored tree.
pub(super) async fn stored_peaks(evidence: &mut Evidence, size: u64) -> Result<Vec<Hash>, VerifyError> {
    let missing = || VerifyError::NoStart("the stored tree is not whole; verify everything");
    let (mut peaks, mut before) = (Vec::new(), 0_u64);
    for height in (0..u64::BITS - 1).rev().filter(|it| size >> it & 1 == 1) {
        let (level, inside) = (height / 8, height % 8);
        let first = before >> (8 * level);
        let tile = evidence.tiles(i64::from(level), report::number(first / 256), 1).await?;
        let found =
            tile.into_iter().next().filter(|(place, _)| place.as_deref() == Some((first / 256).to_string().as_bytes()));
        let hashes = found.and_then(|it| it.1).unwrap_or_default();
        let from = usize::try_from(first % 256).unwrap_or(0);
        let part: Option<Vec<Hash>> = hashes.chunks(64).skip(from).take(1 << inside).map(from_hex).collect();
        let part = part.filter(|it| it.len() == 1 << inside).ok_or_else(missing)?;
        peaks.push(complete(&part).ok_or_else(missing)?);
        before += 1 << height;
    }
    Ok(peaks)
}

/// What the head rows say must be what there is.
fn check_heads(walk: &mut Walk, heads: Option<(i64, i64)>, end_of_rows: u64, in_tiles: u64) {
    let Some((events, in_tree)) = heads else {
        return walk.findings.told(end_of_rows, FindingKind::Column, "the head rows are gone");
    };
    let (events, in_tree) = (u64::try_from(events).unwrap_or(0), u64::try_from(in_tree).unwrap_or(0));
    if walk.findings.is_empty() && events > end_of_rows {
        walk.findings.range(end_of_rows + 1, events, FindingKind::Tail, Some("the head row counts them".into()));
    } else if events < end_of_rows {
        walk.findings.told(end_of_rows, FindingKind::Column, "audit_head.seq");
    }
    let signed = walk.marks().iter().map(|it| it.head.size).filter(|it| *it <= end_of_rows).max().unwrap_or(0);
    let expected = in_tree.max(signed);
    if expected > in_tiles {
        walk.findings.range(in_tiles + 1, expected, FindingKind::Tree, Some("its hashes are gone".into()));
    } else if in_tree < in_tiles && in_tree < end_of_rows {
        walk.findings.range(in_tree + 1, in_tiles, FindingKind::Tree, Some("ledger_head.size".into()));
    }
}

/// The levels of the stored tree above its leaves, worked out anew.
async fn check_upper(evidence: &mut Evidence, walk: &mut Walk, start: u64) -> Result<(), VerifyError> {
    if start > 0 {
        return Ok(()); // what is below was verified before, and is not read again
    }
    let (mut parts, mut level, mut span) = (std::mem::take(&mut walk.parts), 1, 256_u64);
    while !parts.is_empty() {
        let (mut place, mut above) = (0_u64, Vec::new());
        for portion in parts.chunks(256) {
            let stored = evidence.tiles(level, report::number(place), 1).await?;
            let is_it = |at: &[u8]| at == place.to_string().as_bytes();
            let stored = stored.into_iter().next().filter(|it| it.0.as_deref().is_some_and(is_it));
            let stored = stored.and_then(|it| it.1).unwrap_or_default();
            for (at, hash) in portion.iter().enumerate() {
                let found = stored.get(at * 64..(at + 1) * 64).and_then(from_hex);
                if found != Some(*hash) {
                    let first = (place * 256 + u64::try_from(at).unwrap_or(0)) * span;
                    let detail = Some(format!("level {level}"));
                    walk.findings.range(first + 1, first + span, FindingKind::Tree, detail);
                }
            }
            above.extend(if portion.len() == 256 { complete(portion) } else { None });
            place += 1;
        }
        (parts, level, span) = (above, level + 1, span.saturating_mul(256));
    }
    Ok(())
}

/// The report of a walk that has ended.
pub(super) fn conclude(mut walk: Walk, given: &Given) -> Report {
    let (covered, last) = (walk.covered(), walk.last_row());
    if !given.keys.is_empty() && walk.marks().is_empty() && last > 0 {
        walk.findings.range(1, last, FindingKind::Checkpoint, Some("nothing is signed".into()));
    }
    let verified = walk.verified().map(|(tree, note)| super::export::verified(&tree, &note));
    let events = walk.events;
    let (findings, more) = walk.findings.sorted();
    let uncovered =
        (last > covered).then(|| report::Span { seq: report::number(covered + 1), through: report::number(last) });
    let ok = findings.is_empty();
    let (detached, archived) = (None, None);
    let signatures = !given.keys.is_empty();
    Report { ok, events, covered, uncovered, detached, archived, signatures, findings, more, verified }
}

impl From<StoreError> for VerifyError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.into())
    }
}
