//! Whether the records could be read and written.

use std::path::{Path, PathBuf};

use super::files::read_by_others;
use super::finding::Finding;
use crate::Problem;
use crate::clock::Timestamp;
use crate::config::Config;
use crate::store::{Examined, OpenError, examine};

/// Less free space than this is worth a word: 1 GiB.
const SCANT: u64 = 1 << 30;
/// Less than this, and a server would stop soon: 64 MiB.
const NONE: u64 = 64 << 20;
/// A log of changes of more than this is not folded into the file, for whatever reason: 256 MiB.
const LONG_LOG: u64 = 256 << 20;

/// When its latest event was recorded.
pub(super) async fn look(config: &Config, findings: &mut Vec<Finding>) -> Option<Timestamp> {
    let path = match config.database_path() {
        Ok(path) => path,
        Err(problem) => {
            findings.push(Finding::bad("database", problem.what, problem.fix));
            return None;
        }
    };
    let directory = path.parent().filter(|it| !it.as_os_str().is_empty()).map_or(PathBuf::from("."), Path::to_owned);
    if path.symlink_metadata().is_err() {
        findings.push(absent(&path, &directory));
    }
    findings.extend(space(&directory));
    if !path.exists() {
        return None;
    }
    if path.is_dir() {
        findings.push(of_open(OpenError::IsDirectory(path)));
        return None;
    }
    match examine(&path).await {
        Ok(examined) => {
            let (latest, (found, known)) = (examined.latest, examined.schema);
            report(&path, examined, findings);
            if found == known {
                super::ledger::look(config, &path, findings).await;
            }
            latest
        }
        Err(error) => {
            findings.push(of_open(error));
            None
        }
    }
}

/// A database that the first start would make.
fn absent(path: &Path, directory: &Path) -> Finding {
    let (shown, place) = (path.display(), directory.display());
    if !directory.is_dir() {
        return Finding::bad("database", format!("there is no directory `{place}`"), format!("mkdir -p '{place}'"));
    }
    // As the first start would: the only way to know.
    match tempfile::tempfile_in(directory) {
        Ok(_) => Finding::good("database", format!("`{shown}` is not there yet: the first start makes it")),
        Err(error) => {
            let what = format!("`{shown}` is not there, and could not be made: {error}");
            Finding::bad("database", what, format!("give this user the right to write `{place}`"))
        }
    }
}

fn report(path: &Path, it: Examined, findings: &mut Vec<Finding>) {
    let Examined { writable, key, journal, schema: (found, known), log_bytes, latest: _ } = it;
    let shown = path.display();
    findings.extend(read_by_others("database", path));
    findings.push(match writable {
        Ok(()) => Finding::good("database", format!("`{shown}` can be read and written")),
        Err(error) => of_open(error),
    });
    if found < known {
        let what = format!("its schema is {found}, this version's {known}");
        findings.push(Finding::note("schema", what, "back it up: the next start upgrades it"));
    } else {
        findings.push(Finding::good("schema", format!("{found}, the latest")));
    }
    if journal != "wal" {
        findings.push(Finding::note("journal", format!("`{journal}`"), "the next start switches it to WAL"));
    } else if log_bytes > LONG_LOG {
        let what = format!("{} MiB of changes are not folded into the file", log_bytes >> 20);
        findings.push(Finding::note("journal", what, "see which program keeps the database open, and end it"));
    } else {
        findings.push(Finding::good("journal", "WAL"));
    }
    findings.push(match key {
        Ok(()) => Finding::good("sealing key", format!("`{shown}.key`")),
        Err(error) => Finding { check: "sealing key", ..of_open(error) },
    });
}

fn of_open(error: OpenError) -> Finding {
    let Problem { what, fix, .. } = Problem::from(error);
    Finding::bad("database", what, fix)
}

#[cfg(unix)]
fn space(directory: &Path) -> Option<Finding> {
    let system = rustix::fs::statvfs(directory).ok()?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let what = format!("{} MiB free for the database", free >> 20);
    Some(match free {
        ..NONE => Finding::bad("space", what, "free some: nothing runs that cannot be recorded"),
        NONE..SCANT => Finding::note("space", what, "free some before there is none"),
        SCANT.. => Finding::good("space", what),
    })
}

#[cfg(not(unix))]
fn space(_: &Path) -> Option<Finding> {
    None
}
