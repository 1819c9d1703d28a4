//! Files of these commands: regular ones, of a bounded size, secrets readable by their owner only.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::args::Private;
use crate::builder;
use crate::cli::failure::Failure;
use crate::ledger::LogKey;

/// The most bytes of a file that is read whole: one checkpoint a second for half a year.
const MAX: u64 = 4 * 1024 * 1024 * 1024;

/// Holds the private key itself.
const VARIABLE: &str = "CSGN_AUDIT_KEY";

/// The path of an existing database.
pub(super) fn database(url: &str) -> Result<PathBuf, Failure> {
    let next = "name it like `--db sqlite:countersign.db`";
    let path =
        builder::path(Some(url)).map_err(|it| Failure::could_not_run(format!("{}: {}", it.at, it.what), next))?;
    if path.is_file() {
        return Ok(path);
    }
    Err(Failure::could_not_run(format!("there is no database `{}`", path.display()), next))
}

/// The file beside a path with this ending.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

pub(super) fn open(path: &Path) -> Result<File, Failure> {
    let unreadable = |why: String| {
        Failure::could_not_run(format!("`{}` cannot be read: {why}", path.display()), "name a file that can be read")
    };
    let data = std::fs::metadata(path).map_err(|it| unreadable(it.to_string()))?;
    if !data.is_file() {
        return Err(unreadable("it is no regular file".into()));
    }
    File::open(path).map_err(|it| unreadable(it.to_string()))
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = open(path)?.take(MAX + 1).read_to_end(&mut bytes);
    let fits = u64::try_from(bytes.len()).is_ok_and(|it| it <= MAX);
    match read {
        Ok(_) if fits => Ok(bytes),
        Ok(_) => {
            let next = "name a smaller one: of checkpoints, the first and the newer ones do";
            Err(Failure::could_not_run(format!("`{}` is larger than 4 GiB", path.display()), next))
        }
        Err(error) => Err(Failure::could_not_run(
            format!("`{}` cannot be read: {error}", path.display()),
            "name a file that can be read",
        )),
    }
}

/// As text, with the replacement character for what is none: an anchor whose disk was full may have the beginning of a
/// character in it.
pub(super) fn read_text(path: &Path) -> Result<String, Failure> {
    let text = String::from_utf8(read(path)?);
    Ok(text.unwrap_or_else(|it| String::from_utf8_lossy(it.as_bytes()).into_owned()))
}

/// Writes a file that must not be there yet, if `is_new`; for its owner only, if it is a secret.
pub(super) fn write(path: &Path, text: &str, is_new: bool, is_secret: bool) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).create_new(is_new).truncate(true);
    #[cfg(unix)]
    if is_secret {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    let written = options.open(path).and_then(|mut it| it.write_all(text.as_bytes()).and_then(|()| it.sync_all()));
    written.map_err(|error| unwritable(path, &error))
}

/// Writes a file anew that is not there, is empty, or begins so already: whatever else has that name stays.
pub(super) fn rewrite(path: &Path, text: &str, beginning: &str) -> Result<(), Failure> {
    let mut there = Vec::new();
    let length = u64::try_from(beginning.len()).unwrap_or(u64::MAX);
    match File::open(path).and_then(|it| it.take(length).read_to_end(&mut there)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unwritable(path, &error)),
        Ok(_) if !there.is_empty() && there != beginning.as_bytes() => {
            let cause = format!("`{}` is something else, and stays", path.display());
            Err(Failure::could_not_run(cause, "name another file"))
        }
        Ok(_) | Err(_) => write(path, text, false, false),
    }
}

/// Puts a secret in the place of another, so that at every moment one of them is whole.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let next = beside(path, ".new");
    let _ = std::fs::remove_file(&next); // what an earlier try left; if it stays, it is not overwritten
    write(&next, text, true, true)?;
    std::fs::rename(&next, path).map_err(|error| unwritable(path, &error))
}

pub(super) fn append(path: &Path, text: &str) -> Result<(), Failure> {
    let file = OpenOptions::new().append(true).create(true).open(path);
    let written = file.and_then(|mut it| it.write_all(text.as_bytes()).and_then(|()| it.sync_all()));
    written.map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let next = match error.kind() {
        io::ErrorKind::AlreadyExists => "it is never overwritten: name another one",
        _ => "name a place that can be written",
    };
    Failure::could_not_run(format!("`{}` cannot be written: {error}", path.display()), next)
}

/// The private key, and the file that it is in, if it is in one.
#[expect(clippy::disallowed_methods, reason = "the environment is read by the command line only")]
pub(super) fn private(args: &Private) -> Result<(LogKey, Option<PathBuf>), Failure> {
    let held = std::env::var(VARIABLE).ok().filter(|it| !it.is_empty() && args.key.is_none());
    let (text, path) = if let Some(text) = held {
        (text, None)
    } else {
        let path = args.key.clone().unwrap_or_else(|| "log.key".into());
        if !path.exists() {
            let next = "make one: `countersign audit key new --origin NAME`, or name it with `--key`";
            return Err(Failure::could_not_run(format!("there is no key `{}`", path.display()), next));
        }
        if crate::ledger::is_exposed(&path) {
            let cause = format!("others can read the private key `{}`", path.display());
            return Err(Failure::could_not_run(cause, "`chmod 600` it, and think about who has"));
        }
        (read_text(&path)?, Some(path))
    };
    let place = path.as_ref().map_or_else(|| format!("`{VARIABLE}`"), |it| format!("`{}`", it.display()));
    let key = LogKey::parse(&text);
    let key = key.map_err(|error| Failure::could_not_run(format!("{place}: {error}"), "name the right key"))?;
    Ok((key, path))
}
