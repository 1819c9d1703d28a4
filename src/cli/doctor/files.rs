//! Who else can read or change the files that decide who may do what.

use std::path::Path;

use super::super::settings;
use super::finding::Finding;
use crate::SecretRef;
use crate::config::Config;

pub(super) fn look(config: &Config, findings: &mut Vec<Finding>) {
    if let Some(file) = config.file() {
        findings.extend(changed_by_others("configuration", file));
    }
    if let Some(directory) = config.policy_directory() {
        findings.extend(changed_by_others("policies", &directory));
    }
    secrets(config, findings);
}

/// Whoever can write it can give themselves every right.
fn changed_by_others(check: &'static str, path: &Path) -> Option<Finding> {
    let shown = path.display();
    (mode(path)? & 0o022 != 0).then(|| {
        let what = format!("others can change `{shown}`, and with it give themselves every right");
        Finding::bad(check, what, format!("chmod go-w '{shown}'"))
    })
}

/// What the records hold is nobody else's to read.
pub(super) fn read_by_others(check: &'static str, path: &Path) -> Option<Finding> {
    let shown = path.display();
    (mode(path)? & 0o044 != 0).then(|| {
        let what = format!("others can read `{shown}`: who asked for what, and every comment");
        Finding::note(check, what, format!("chmod 600 '{shown}'"))
    })
}

/// Whether every secret that the configuration refers to is there, and nobody else's to read.
fn secrets(config: &Config, findings: &mut Vec<Finding>) {
    for (key, secret) in config.secrets() {
        if let Err(error) = secret.resolve(config.base(), &settings::variable) {
            findings.push(Finding::bad("secrets", format!("`{key}`: {error}"), "put the secret there"));
            continue;
        }
        let exposed = match secret {
            SecretRef::Env(_) => None,
            SecretRef::File(path) => {
                Some(config.base().join(path)).filter(|it| mode(it).is_some_and(|mode| mode & 0o077 != 0))
            }
        };
        findings.push(match exposed {
            None => Finding::good("secrets", format!("`{key}`")),
            Some(path) => Finding::bad(
                "secrets",
                format!("`{key}`: others can read `{}`", path.display()),
                format!("chmod 600 '{}', and think about who has", path.display()),
            ),
        });
    }
}

#[cfg(unix)]
fn mode(path: &Path) -> Option<u32> {
    std::fs::metadata(path).ok().map(|it| std::os::unix::fs::MetadataExt::mode(&it))
}

#[cfg(not(unix))]
fn mode(_: &Path) -> Option<u32> {
    None
}
