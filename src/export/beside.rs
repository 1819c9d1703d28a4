//! What goes beside an export that is to be verified: the checkpoints of what it has, and the public key.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::file::sync_directory;
use super::{ExportError, SinkError};
use crate::store::LogReader;

/// How many checkpoints are read at once.
const PORTION: usize = 1_000;

/// How much of the end of a file is read for its last checkpoints: more than any two take.
const TAIL: u64 = 256 * 1024;

/// `PATH.checkpoints`, which grows with an export.
pub(crate) struct Checkpoints {
    file: File,
    /// The size of the largest one that is there.
    at: i64,
}

impl Checkpoints {
    /// Opens or makes it, and cuts off what a crash left of a checkpoint; what is left is on the disk then. Those of at most
    /// `after` events are not wanted.
    ///
    /// # Errors
    /// If it cannot be read or written, or is something else.
    pub(crate) fn open(export: &Path, after: i64) -> io::Result<Self> {
        let path = with(export, ".checkpoints");
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        let length = file.seek(SeekFrom::End(0))?;
        let from = length.saturating_sub(TAIL);
        file.seek(SeekFrom::Start(from))?;
        let mut tail = Vec::new();
        io::Read::by_ref(&mut file).take(TAIL).read_to_end(&mut tail)?;
        let (end, size) = whole(&tail);
        if end == 0 && !tail.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "there are no checkpoints in it"));
        }
        if end < tail.len() {
            file.set_len(from + u64::try_from(end).unwrap_or(0))?;
        }
        file.sync_data()?; // whoever wrote it may have been killed before it did
        file.seek(SeekFrom::End(0))?;
        sync_directory(&path)?;
        Ok(Self { file, at: size.max(after) })
    }

    /// Appends those of at most this size that are not there yet; how many.
    pub(crate) async fn follow(&mut self, size: i64, log: &LogReader) -> Result<usize, ExportError> {
        let mut count = 0;
        while self.at < size {
            let mut notes = log.checkpoints(self.at, PORTION).await?;
            notes.retain(|it| it.0 <= size);
            let Some((last, _)) = notes.last() else { break };
            let text: String = notes.iter().flat_map(|it| [it.1.as_str(), "\n"]).collect();
            let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
            written.map_err(SinkError::Io)?;
            self.at = *last;
            count += notes.len();
        }
        Ok(count)
    }
}

/// Whether a path is a database's, or that of a file which is always beside it.
pub(crate) fn is_of_database(database: &Path, path: &Path) -> bool {
    let resolved = |it: &Path| {
        let parent = it.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let there = || Some(std::fs::canonicalize(parent).ok()?.join(it.file_name()?));
        std::fs::canonicalize(it).ok().or_else(there)
    };
    let Some(path) = resolved(path) else { return false };
    let endings = ["", "-wal", "-shm", "-journal", ".key", ".writer", ".checkpoints"];
    endings.iter().any(|it| resolved(&with(database, it)).as_ref() == Some(&path))
}

/// Where the last whole checkpoint ends, and the size of the largest one. A note is a text, whose second line is its size,
/// an empty line, lines of signatures, and an empty line.
fn whole(text: &[u8]) -> (usize, i64) {
    let (mut end, mut size, mut from, mut stated) = (0, 0, 0, None);
    while let Some(rest) = text.get(from..)
        && let Some(length) = rest.windows(2).position(|it| it == b"\n\n")
    {
        let block = String::from_utf8_lossy(rest.get(..length).unwrap_or_default());
        from += length + 2;
        if block.starts_with('\u{2014}') {
            (end, size) = (from, stated.take().unwrap_or(size).max(size));
        } else {
            stated = block.lines().nth(1).and_then(|it| it.parse().ok());
        }
    }
    (end, size)
}

/// Writes a text to the path with this ending, so that at every moment it is the old one or the new one: the public key as
/// `.pub` (whoever verifies should have it by another way), or what an export begins with as `.from`.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn beside(export: &Path, ending: &str, text: &str) -> io::Result<PathBuf> {
    let (path, next) = (with(export, ending), with(export, &format!("{ending}.new")));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&next)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&next, &path)?;
    sync_directory(&path)?;
    Ok(path)
}

/// The path of what is beside a file, with this ending.
pub(crate) fn with(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_crash_left_of_a_checkpoint_does_not_count() {
        let note = |size: u32| format!("log\n{size}\nroot\n\n\u{2014} log one\n\u{2014} log two\n\n");
        let two = note(5) + &note(9);
        assert_eq!(whole(two.as_bytes()), (two.len(), 9));
        for cut in note(5).len()..two.len() {
            assert_eq!(whole(&two.as_bytes()[..cut]), (note(5).len(), 5), "{cut}");
        }
        assert_eq!((whole(b""), whole(b"These are notes.\n\nOf mine.\n\n")), ((0, 0), (0, 0)));
    }

    #[test]
    fn of_many_checkpoints_none_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let export = directory.path().join("log");
        let note = |size: i64| format!("log\n{size}\n{:0>44}\n\n\u{2014} log {}\n\n", "=", "A".repeat(100));
        let all: String = (1..=4_000).map(note).collect();
        assert!(all.len() > 2 * usize::try_from(TAIL).unwrap());
        let torn = note(4_001);
        let path = with(&export, ".checkpoints");
        for cut in 0..torn.len() {
            std::fs::write(&path, [all.as_bytes(), &torn.as_bytes()[..cut]].concat()).unwrap();
            assert_eq!(Checkpoints::open(&export, 7).unwrap().at, 4_000, "{cut}");
            assert!(std::fs::read(&path).unwrap() == all.as_bytes(), "{cut}");
        }
        std::fs::write(&path, "a line\n".repeat(100_000)).unwrap();
        assert!(Checkpoints::open(&export, 7).is_err());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 700_000, "what is something else stays");
    }
}
