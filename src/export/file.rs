//! A file that events are appended to. It goes on where it ends: what a crash left of a line is cut off, and what it has
//! already is not written again. A file that is something else is left as it is.

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
    /// Its last whole line, and where that ends.
    last: Option<String>,
    end: u64,
    /// What is behind that.
    torn: Vec<u8>,
}

impl FileSink {
    /// Opens or makes it.
    ///
    /// # Errors
    /// If it is no regular file, has no lines, or another export writes it.
    pub(crate) fn open(path: &Path) -> Result<Self, SinkError> {
        if path.exists() && !path.is_file() {
            return Err(SinkError::Unfit("it is no regular file".into()));
        }
        let is_new = !path.exists();
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = file.map_err(SinkError::Io)?;
        file.try_lock().map_err(|_| SinkError::Unfit("another export writes it".into()))?;
        let (last, end, torn) = look(&mut file).map_err(SinkError::Io)?;
        if is_new {
            sync_directory(path).map_err(SinkError::Io)?;
        }
        Ok(Self { path: path.to_owned(), file, last, end, torn })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The place of the last event that it has.
    ///
    /// # Errors
    /// If it ends with something else.
    pub(crate) fn last(&self, form: Form) -> Result<Option<i64>, SinkError> {
        let foreign = || SinkError::Unfit(format!("it is no export in the form {}", form.as_str()));
        match &self.last {
            Some(line) => form.seq(line).ok_or_else(foreign).map(Some),
            None if form.may_begin(&self.torn) => Ok(None),
            None => Err(foreign()),
        }
    }

    /// The hash that its last line states, which is one of [`Form::Ndjson`].
    pub(crate) fn leaf(&self) -> Option<String> {
        let value: serde_json::Value = serde_json::from_str(self.last.as_ref()?).ok()?;
        value["leaf"].as_str().map(str::to_owned)
    }

    /// Whether its last event is this one.
    pub(crate) fn ends_with(&self, form: Form, entry: &Entry, source: &str) -> bool {
        let (Some(line), Some(expected)) = (&self.last, form.line(entry, source)) else { return false };
        form.is_same(line, &expected)
    }

    /// Cuts off what a crash left of a line; the lines before it are on the disk then, though whoever wrote them may have
    /// been killed before it saw to that. Only once it is known whose file this is.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn settle(&mut self) -> Result<(), SinkError> {
        if !self.torn.is_empty() {
            self.file.set_len(self.end).map_err(SinkError::Io)?;
            self.torn.clear();
        }
        self.file.sync_data().map_err(SinkError::Io)?;
        self.file.seek(SeekFrom::Start(self.end)).map(drop).map_err(SinkError::Io)
    }

    /// Returns when it is on the disk.
    pub(super) fn append(&mut self, text: &str) -> io::Result<()> {
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()
    }
}

/// The last whole line, where it ends, and what is behind it.
fn look(file: &mut File) -> io::Result<(Option<String>, u64, Vec<u8>)> {
    let length = file.seek(SeekFrom::End(0))?;
    let from = length.saturating_sub(2 * MAX_LINE);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    io::Read::by_ref(file).take(2 * MAX_LINE).read_to_end(&mut tail)?;
    let whole = tail.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
    if whole == 0 && from > 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it has no lines"));
    }
    let (lines, torn) = tail.split_at_checked(whole).unwrap_or_default();
    let end = from + u64::try_from(whole).unwrap_or(0);
    let last = lines.strip_suffix(b"\n").map(|it| it.rsplit(|it| *it == b'\n').next().unwrap_or_default());
    Ok((last.map(|it| String::from_utf8_lossy(it).into_owned()), end, torn.to_vec()))
}

pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) if directory.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}
