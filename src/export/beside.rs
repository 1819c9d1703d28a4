//! What goes beside an export that is to be verified: the checkpoints of what it has, and the public key.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::file::sync_directory;
use crate::store::LogReader;

/// How many checkpoints are read at once.
const PORTION: usize = 1_000;

/// The most bytes of checkpoints that are looked at for the last one.
const MAX: u64 = 256 * 1024 * 1024;

/// Appends to `PATH.checkpoints` those of at most this size that are not there yet; how many.
///
/// # Errors
/// If it cannot be read or written, or the database cannot.
pub(crate) async fn checkpoints(
    export: &Path,
    after: i64,
    size: i64,
    log: &LogReader,
) -> Result<usize, crate::BoxError> {
    let path = with(export, ".checkpoints");
    let mut at = last(&path)?.max(after);
    let mut count = 0;
    while at < size {
        let mut notes = log.checkpoints(at, PORTION).await?;
        let is_all = notes.len() < PORTION;
        notes.retain(|it| it.0 <= size);
        let Some((last, _)) = notes.last() else { break };
        at = *last;
        count += notes.len();
        let text: String = notes.iter().flat_map(|it| [it.1.as_str(), "\n"]).collect();
        let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        if is_all {
            break;
        }
    }
    Ok(count)
}

/// Writes the public key to `PATH.pub`. Whoever verifies should have it by another way.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn public_key(export: &Path, text: &str) -> io::Result<PathBuf> {
    let (path, next) = (with(export, ".pub"), with(export, ".pub.new"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&next)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&next, &path)?;
    sync_directory(&path)?;
    Ok(path)
}

/// The size of the largest checkpoint that is there. A note is a text, whose second line is its size, an empty line, and
/// signatures.
fn last(path: &Path) -> io::Result<i64> {
    let length = match std::fs::metadata(path) {
        Ok(it) => it.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    if length > MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the checkpoints are larger than 256 MiB"));
    }
    let text = std::fs::read_to_string(path)?;
    let size = |it: &str| it.trim_start_matches('\n').lines().nth(1)?.parse::<i64>().ok();
    Ok(text.split("\n\n").filter_map(size).max().unwrap_or(0))
}

fn with(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
