//! The files of a directory of manifests, read with bounds.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::builder::Problem;

/// The most manifests of a directory.
const MAX_FILES: usize = 1_024;
/// The most bytes of a manifest, and of a schema beside one.
const MAX_BYTES: u64 = 1 << 20;

/// Why a file is of no use.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("it cannot be read ({})", .0.kind())]
    Io(#[source] std::io::Error),
    #[error("it is not a regular file")]
    NotRegular,
    #[error("it has more than 1 MiB")]
    TooLong,
    #[error("it is not UTF-8 text")]
    NotText,
}

/// The text of a regular file. A pipe or a device is never opened: it could block, or have no end.
pub(super) fn text(path: &Path) -> Result<String, Unreadable> {
    if !std::fs::metadata(path).map_err(Unreadable::Io)?.is_file() {
        return Err(Unreadable::NotRegular);
    }
    let file = std::fs::File::open(path).map_err(Unreadable::Io)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(Unreadable::Io)?;
    if u64::try_from(bytes.len()).is_ok_and(|it| it > MAX_BYTES) {
        return Err(Unreadable::TooLong);
    }
    String::from_utf8(bytes).map_err(|_| Unreadable::NotText)
}

/// Every manifest of a directory with its text, by name, and what is wrong with the others. Schemas and programs may lie
/// beside them: only `*.toml` counts.
pub(super) fn manifests(directory: &Path, problems: &mut Vec<Problem>) -> Vec<(PathBuf, String)> {
    let mut paths = match names(directory) {
        Ok(paths) => paths,
        Err(error) => {
            let fix = "name a directory of manifests with `[capabilities] directory`";
            problems.push(Problem::new(directory.display().to_string(), Unreadable::Io(error).to_string(), fix));
            return Vec::new();
        }
    };
    paths.sort();
    if paths.len() > MAX_FILES {
        let what = format!("it holds more than {MAX_FILES} manifests");
        problems.push(Problem::new(directory.display().to_string(), what, "remove some"));
        return Vec::new();
    }
    let mut out = Vec::with_capacity(paths.len());
    for path in paths {
        match text(&path) {
            Ok(_) if path.extension().is_none_or(|it| it != "toml") => {
                let what = "its name does not end in `.toml`";
                problems.push(Problem::new(path.display().to_string(), what, "rename it, in small letters"));
            }
            Ok(text) => out.push((path, text)),
            Err(error) => {
                let fix = "make it a readable text file, or remove it";
                problems.push(Problem::new(path.display().to_string(), error.to_string(), fix));
            }
        }
    }
    out
}

/// Whatever is called `*.toml`, in letters of any size: one that would be passed over for its spelling is told.
fn names(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it.eq_ignore_ascii_case("toml")) {
            paths.push(path);
        }
        if paths.len() > MAX_FILES {
            break;
        }
    }
    Ok(paths)
}
