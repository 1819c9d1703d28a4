//! What goes beside an export that is to be verified: the checkpoints of what it has, and the public key.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::file::sync_directory;
use super::{ExportError, SinkError};
use crate::store::LogReader;

/// How many checkpoints are read at once.
const PORTION: usize = 1_000;

/// The most bytes of checkpoints: a million of them.
const MAX: u64 = 256 * 1024 * 1024;

/// `PATH.checkpoints`, which grows with an export.
pub(crate) struct Checkpoints {
    file: File,
    /// The size of the largest one that is there.
    at: i64,
}

impl Checkpoints {
    /// Opens or makes it, and cuts off what a crash left of a checkpoint. Those of at most `after` events are not wanted.
    ///
    /// # Errors
    /// If it cannot be read or written, or is something else.
    pub(crate) fn open(export: &Path, after: i64) -> io::Result<Self> {
        let path = with(export, ".checkpoints");
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        let mut text = String::new();
        io::Read::by_ref(&mut file).take(MAX).read_to_string(&mut text)?;
        let (end, size) = whole(&text);
        if end == 0 && !text.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "there are no checkpoints in it"));
        }
        if end < text.len() {
            file.set_len(u64::try_from(end).unwrap_or(0))?;
        }
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

/// Where the last whole checkpoint ends, and the size of the largest one. A note is a text, whose second line is its size,
/// an empty line, lines of signatures, and an empty line.
fn whole(text: &str) -> (usize, i64) {
    let (mut end, mut size, mut from, mut stated) = (0, 0, 0, None);
    for (at, _) in text.match_indices("\n\n") {
        let block = text.get(from..at).unwrap_or_default();
        if block.starts_with('\u{2014}') {
            (end, size) = (at + 2, stated.take().unwrap_or(size).max(size));
        } else {
            stated = block.lines().nth(1).and_then(|it| it.parse().ok());
        }
        from = at + 2;
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

fn with(path: &Path, ending: &str) -> PathBuf {
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
        assert_eq!(whole(&two), (two.len(), 9));
        for cut in note(5).len()..two.len() {
            let Some(part) = two.get(..cut) else { continue }; // within a character
            assert_eq!(whole(part), (note(5).len(), 5), "{part:?}");
        }
        assert_eq!((whole(""), whole("These are notes.\n\nOf mine.\n\n")), ((0, 0), (0, 0)));
    }
}
