//! Retention: old events leave the database for an archive, and nothing is lost on the way.
//!
//! In this order, each step on the disk before the next one begins: the archive has every event and the checkpoints that
//! vouch for it; archive and database verify, by the code that auditors use; one transaction says that they may leave,
//! with an event; their rows go, some at a time. Whatever ends it early, the same command goes on: before the transaction
//! nothing has left, after it the archive has everything. Their hashes stay in the tree.

mod archive;

use std::path::{Path, PathBuf};

pub(crate) use self::archive::{Archive, ArchiveError};
use crate::audit::{AuditEvent, Envelope, EventKind};
use crate::clock::{Clock, Timestamp};
use crate::id::Ids;
use crate::store::op::{Detach, Detached, Need};
use crate::store::{LogReader, Store, StoreError};
use crate::verify::{self, Given, Report, VerifyError};
use crate::{Identity, verify::Progress};

/// How many rows one transaction deletes.
const PORTION: i64 = 1_000;

/// How many consecutive events others read at once (C2SP tlog-tiles): rows of a portion go together.
const TILE: i64 = 256;

/// What can leave now.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The last event that has left already, or may.
    pub(crate) after: i64,
    /// The last one that can leave now: a signed checkpoint ends there. Not behind `after` if none can.
    pub(crate) through: i64,
    /// The last one that is old enough.
    pub(crate) old: i64,
    /// What needs events that are old enough, what needs the oldest first; at most 100.
    pub(crate) needed: Vec<Need>,
}

impl Plan {
    /// What of the log is older than `before`, needed by nobody, and signed.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub(crate) async fn make(log: &LogReader, before: Timestamp) -> Result<Self, StoreError> {
        let after = log.detached().await?;
        let old = log.before_first_from(before).await?;
        let needed = if old > after { log.needed(old).await? } else { Vec::new() };
        let free = needed.iter().map(|it| it.seq).min().unwrap_or(old).min(old);
        let through = log.checkpoint_up_to(free).await?.map_or(0, |it| it.0);
        Ok(Self { after, through: through.max(after), old, needed })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.through <= self.after
    }
}

/// Why events do not leave. Unless it says otherwise, nothing has.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RetentionError {
    #[error("the database is not available")]
    Store(#[from] StoreError),
    #[error("the archive `{0}`: {1}")]
    Archive(String, #[source] ArchiveError),
    /// The log or the archive is not what was recorded.
    #[error("the log and its archive do not verify")]
    Unverified(Box<Report>),
    #[error("no checkpoint that counts covers all that is to leave")]
    Uncovered,
    #[error("what is beside the archive cannot be read: {0}")]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// Since the plan was made.
    #[error("another command detached events meanwhile")]
    Overtaken,
    /// Since the plan was made.
    #[error("the {} `{}` needs events from {} on", _0.kind, _0.name, _0.seq + 1)]
    Needed(Need),
}

/// Rows that may go, and have not gone yet, since an earlier command was ended: the first and the last event that must be
/// in its archives, and those.
///
/// # Errors
/// If the database cannot be read.
pub(crate) async fn unfinished(log: &LogReader) -> Result<Option<(i64, i64, Vec<PathBuf>)>, StoreError> {
    let (first, through) = (log.first().await?, log.detached().await?);
    let Some(first) = first.filter(|it| *it <= through - through % TILE) else { return Ok(None) };
    Ok(Some((first, through, archives_from(log, first).await?)))
}

/// The first row that goes when this plan is carried out, and the archives that have what comes before the plan's own part:
/// rows that stayed since their portion of 256 was not over.
///
/// # Errors
/// If the database cannot be read.
pub(crate) async fn going_too(log: &LogReader, plan: &Plan) -> Result<(i64, Vec<PathBuf>), StoreError> {
    match log.first().await?.filter(|it| *it <= plan.after) {
        Some(first) => Ok((first, archives_from(log, first).await?)),
        None => Ok((plan.after + 1, Vec::new())),
    }
}

async fn archives_from(log: &LogReader, first: i64) -> Result<Vec<PathBuf>, StoreError> {
    let parts = log.detachments().await?.into_iter().filter(|it| it.through >= first);
    let mut archives: Vec<PathBuf> = parts.map(|it| it.archive.into()).collect();
    archives.dedup();
    Ok(archives)
}

/// Checks the log from its beginning, and archives of a part of it; what is wrong with one of them is an error.
///
/// # Errors
/// If anything is wrong, or not all from the first to the last of these events is in the archives and signed.
pub(crate) async fn check(
    database: &Path,
    archives: &[PathBuf],
    given: &Given,
    (from, through): (i64, i64),
    progress: Progress<'_>,
) -> Result<(), RetentionError> {
    let place = |it: i64| u64::try_from(it).unwrap_or(u64::MAX);
    let given = given.clone().part(archives, (place(from), place(through)));
    let report = verify::database(database, &given, progress).await?;
    if !report.ok {
        return Err(RetentionError::Unverified(Box::new(report)));
    }
    if report.covered >= place(through) { Ok(()) } else { Err(RetentionError::Uncovered) }
}

/// Checks an archive by itself, with nothing but what is beside it and the public key.
///
/// # Errors
/// If anything is wrong, or its checkpoints do not cover all up to `through`.
pub(crate) fn check_alone(archive: &Archive, keys: &Given, through: i64) -> Result<(), RetentionError> {
    let (export, beside) = archive.open()?;
    let mut given = keys.clone().checkpoints(&beside.checkpoints);
    if let Some(from) = &beside.from {
        given =
            given.from(from).map_err(|_| VerifyError::NoStart("what is beside the archive is no beginning of it"))?;
    }
    let report = verify::export(export, &given, &mut |_, _| {})?;
    if !report.ok {
        return Err(RetentionError::Unverified(Box::new(report)));
    }
    let covers = report.covered >= u64::try_from(through).unwrap_or(u64::MAX);
    covers.then_some(()).ok_or(RetentionError::Uncovered)
}

/// Says in the log that these events may leave, as one transaction with its being so.
///
/// # Errors
/// If another command was faster, or something needs them by now.
pub(crate) async fn detach(store: &Store, plan: &Plan, archive: &Archive, by: String) -> Result<(), RetentionError> {
    let (after, through, digest) = (plan.after, plan.through, archive.digest().to_owned());
    let kind = EventKind::AuditDetached {
        after,
        archive: archive.file_name(),
        bytes: archive.bytes(),
        by,
        digest: format!("sha256:{digest}"),
        root: archive.root().to_owned(),
        through,
    };
    let envelope = Envelope::of(&Identity::none());
    let event = AuditEvent { id: Ids::Random.event(), at: Clock::System.now(), kind, envelope };
    match store.detach(Detach { after, through, archive: archive.place(), digest, event }).await? {
        Detached::Done => Ok(()),
        Detached::Overtaken => Err(RetentionError::Overtaken),
        Detached::Needed(all) => match all.into_iter().next() {
            Some(first) => Err(RetentionError::Needed(first)),
            None => Err(RetentionError::Overtaken),
        },
    }
}

/// Deletes the rows that may go; how many.
///
/// # Errors
/// If the database is not available: the next command deletes the rest.
pub(crate) async fn purge(store: &Store, progress: Progress<'_>) -> Result<u64, StoreError> {
    let mut count = 0;
    loop {
        let gone = store.purge(PORTION).await?;
        count += u64::try_from(gone).unwrap_or(0);
        if gone == 0 {
            return Ok(count);
        }
        progress(count, 0);
    }
}
