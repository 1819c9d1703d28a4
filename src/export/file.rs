//! A file that events are appended to. It goes on where it ends: what a crash left of a line is cut off, and what it has
//! already is not written again.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::{Entry, Form, SinkError};

/// More than any line has.
const MAX_LINE: u64 = 128 * 1024;

/// An open file, for one export at a time.
pub(crate) struct FileSink {
    path: PathBuf,
    file: File,
    /// Its last whole line.
    last: Option<String>,
}

impl FileSink {
    /// Opens or makes it, and cuts off what a crash left of a line.
    ///
    /// # Errors
    /// If it is no regular file, another export writes it, or it is no export.
    pub(crate) fn open(path: &Path) -> Result<Self, SinkError> {
        if path.exists() && !path.is_file() {
            return Err(SinkError::Unfit("it is no regular file".into()));
        }
        let is_new = !path.exists();
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = file.map_err(SinkError::Io)?;
        file.try_lock().map_err(|_| SinkError::Unfit("another export writes it".into()))?;
        let last = end(&mut file).map_err(SinkError::Io)?;
        if is_new {
            sync_directory(path).map_err(SinkError::Io)?;
        }
        Ok(Self { path: path.to_owned(), file, last })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The place of the last event that it has.
    ///
    /// # Errors
    /// If it ends with something else.
    pub(crate) fn last(&self, form: Form) -> Result<Option<i64>, SinkError> {
        let Some(line) = &self.last else { return Ok(None) };
        let seq =
            form.seq(line).ok_or_else(|| SinkError::Unfit(format!("it is no export in the form {}", form.as_str())));
        seq.map(Some)
    }

    /// Whether its last event is this one.
    pub(crate) fn ends_with(&self, form: Form, entry: &Entry, source: &str) -> bool {
        self.last.is_some() && self.last == form.line(entry, source)
    }

    /// Returns when it is on the disk.
    pub(super) fn append(&mut self, text: &str) -> io::Result<()> {
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()
    }
}

/// The last whole line; whatever is behind it is gone, and what is written comes there.
fn end(file: &mut File) -> io::Result<Option<String>> {
    let length = file.seek(SeekFrom::End(0))?;
    let from = length.saturating_sub(2 * MAX_LINE);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    io::Read::by_ref(file).take(2 * MAX_LINE).read_to_end(&mut tail)?;
    let whole = tail.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
    if whole == 0 && from > 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it has no lines"));
    }
    let kept = from + u64::try_from(whole).unwrap_or(0);
    if whole == 0 && !tail.is_empty() && !tail.starts_with(b"{") {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is something else")); // never cut what is not ours
    }
    if kept < length {
        file.set_len(kept)?;
        file.sync_data()?;
    }
    file.seek(SeekFrom::Start(kept))?;
    let lines = tail.get(..whole.saturating_sub(1)).unwrap_or_default();
    if lines.is_empty() {
        return Ok(None);
    }
    let line = lines.rsplit(|it| *it == b'\n').next().unwrap_or_default();
    Ok(Some(String::from_utf8_lossy(line).into_owned()))
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) if directory.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}
