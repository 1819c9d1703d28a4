//! The archive: an export that goes on where it ends, with all that it takes to verify it by itself.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::Plan;
use crate::audit::hex;
use crate::export::{self, Checkpoints, ExportError, Exporter, FileSink, Form, Sink, SinkError};
use crate::store::{LogReader, StoreError};
use crate::verify::{self, VerifyError};

/// How many events are written at once.
const PORTION: usize = 1_000;

/// More than any line has.
const MAX_LINE: u64 = 128 * 1024;

/// Why an archive has not got what it should have.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    #[error("{0}")]
    Sink(#[from] SinkError),
    #[error("{0}")]
    Export(#[from] ExportError),
    #[error("the database is not available")]
    Store(#[from] StoreError),
    #[error("it ends with event {ends}, and what leaves now begins behind {after}")]
    Gap { ends: i64, after: i64 },
    #[error("it belongs to the database itself")]
    Own,
    #[error("it begins with event {first}, and what leaves now begins behind {after}")]
    Late { first: i64, after: i64 },
    #[error("it ends with an event {0} that is not this log's")]
    Foreign(i64),
    #[error("what it begins with cannot be vouched for: {0}")]
    Beginning(#[from] VerifyError),
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("beside it is a `{0}` of another file")]
    Beside(&'static str),
    #[error("the checkpoint that it ends with is gone")]
    NoCheckpoint,
}

/// An archive that is written.
#[derive(Debug)]
pub(crate) struct Archive {
    path: PathBuf,
    digest: String,
    bytes: u64,
    root: String,
}

impl Archive {
    /// Writes what leaves now behind what the file has, and returns when all of it is on the disk: the events, and beside
    /// them `.checkpoints`, the public key as `.pub`, and `.from` if the file does not begin with the first event.
    ///
    /// # Errors
    /// If it is another file, ends too early, or cannot be written.
    pub(crate) async fn write(
        log: &LogReader,
        database: &Path,
        plan: &Plan,
        path: &Path,
        public: &str,
    ) -> Result<Self, ArchiveError> {
        if export::is_of_database(database, path) {
            return Err(ArchiveError::Own);
        }
        let mut file = FileSink::open(path)?;
        let last = file.last(Form::Ndjson)?;
        if let Some(last) = last {
            belongs(log, &file, last).await?;
        }
        let at = last.unwrap_or(plan.after);
        if at < plan.after {
            return Err(ArchiveError::Gap { ends: at, after: plan.after });
        }
        // From now on by its own name, whatever leads to it.
        let path = &std::fs::canonicalize(path)?;
        if let Some(first) = first(path)?.filter(|it| *it > plan.after + 1) {
            return Err(ArchiveError::Late { first, after: plan.after });
        }
        file.settle()?;
        if last.is_none() {
            let beginning = match plan.after {
                0 => None,
                after => Some(verify::standing(database, &checkpoint(log, after).await?.1).await?),
            };
            begins(path, beginning.as_deref())?;
        }
        let mut beside = Checkpoints::open(path, plan.after)?;
        export::beside(path, ".pub", public)?;
        let (log, until, sink) = (log.clone(), plan.through.max(at), Sink::File(file));
        let (form, source) = (Form::Ndjson, String::new());
        let mut exporter = Exporter { log, cursor: None, form, source, sink, at, until, portion: PORTION };
        exporter.round().await?;
        if exporter.at < plan.through {
            return Err(ArchiveError::Gap { ends: exporter.at, after: plan.through });
        }
        beside.follow(exporter.at, &exporter.log).await?;
        let (_, note) = checkpoint(&exporter.log, plan.through).await?;
        let root = note.lines().nth(2).unwrap_or_default().to_owned();
        // Whatever an ended command wrote and nobody saw on the disk: now it is there.
        File::open(path)?.sync_all()?;
        export::sync_directory(path)?;
        let (digest, bytes) = digest(path)?;
        Ok(Self { path: path.clone(), digest, bytes, root })
    }

    /// SHA-256 of the file, in hexadecimal.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// How long it is.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The root of the tree up to its end, as the checkpoint has it.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// Itself and what is beside it.
    pub(crate) fn open(&self) -> io::Result<(BufReader<File>, Beside)> {
        let checkpoints = std::fs::read_to_string(export::with(&self.path, ".checkpoints"))?;
        let from = export::with(&self.path, ".from");
        let from = if from.exists() { Some(std::fs::read_to_string(from)?) } else { None };
        Ok((BufReader::new(File::open(&self.path)?), Beside { checkpoints, from }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is.
    pub(crate) fn place(&self) -> String {
        self.path.display().to_string()
    }

    /// What it is called, wherever it goes.
    pub(crate) fn file_name(&self) -> String {
        self.path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// What is beside an archive.
pub(crate) struct Beside {
    pub(crate) checkpoints: String,
    /// What it goes on from, if it does not begin with the first event.
    pub(crate) from: Option<String>,
}

/// What a file without any event has beside it is what this file begins with, and nothing of another one.
fn begins(path: &Path, beginning: Option<&str>) -> Result<(), ArchiveError> {
    let beside = |ending: &str| std::fs::read_to_string(export::with(path, ending)).ok();
    if beside(".checkpoints").is_some_and(|it| !it.is_empty()) {
        return Err(ArchiveError::Beside(".checkpoints"));
    }
    match (beside(".from"), beginning) {
        (None, None) => Ok(()),
        (None, Some(beginning)) => Ok(export::beside(path, ".from", beginning).map(drop)?),
        (Some(there), Some(beginning)) if there == beginning => Ok(()), // an ended command wrote it
        (Some(_), _) => Err(ArchiveError::Beside(".from")),
    }
}

/// Whether the last event of a file is the one that the tree has there. Its row may be gone.
async fn belongs(log: &LogReader, file: &FileSink, last: i64) -> Result<(), ArchiveError> {
    let tile = log.tiles(&[(0, (last - 1).max(0) / 256)]).await?.pop();
    let start = usize::try_from((last - 1).max(0) % 256 * 64).unwrap_or(usize::MAX);
    let mut hash = tile.and_then(|it| it.3.get(start..start.saturating_add(64)).map(str::to_owned));
    if hash.is_none() {
        hash = log.exported(last - 1, last, 1).await?.pop().map(|it| it.2); // not in the tree yet
    }
    let is_it = hash.is_some() && hash.as_deref() == file.leaf().as_deref();
    is_it.then_some(()).ok_or(ArchiveError::Foreign(last))
}

async fn checkpoint(log: &LogReader, size: i64) -> Result<(i64, String), ArchiveError> {
    let found = log.checkpoint_up_to(size).await?;
    found.filter(|it| it.0 == size).ok_or(ArchiveError::NoCheckpoint)
}

/// The place of the first event of a file.
fn first(path: &Path) -> io::Result<Option<i64>> {
    let mut line = String::new();
    BufReader::new(File::open(path)?.take(MAX_LINE)).read_line(&mut line)?;
    Ok(Form::Ndjson.seq(line.trim_end()))
}

/// SHA-256 in hexadecimal, and of how many bytes.
fn digest(path: &Path) -> io::Result<(String, u64)> {
    let (mut file, mut digest, mut part, mut bytes) = (File::open(path)?, Sha256::new(), vec![0; 64 * 1024], 0);
    loop {
        let read = file.read(&mut part)?;
        if read == 0 {
            return Ok((hex(&digest.finalize()), bytes));
        }
        digest.update(part.get(..read).unwrap_or_default());
        bytes += u64::try_from(read).unwrap_or(0);
    }
}
