//! The configuration that a command works with: the file, the environment, the flags.

use std::path::{Path, PathBuf};

use super::failure::Failure;
use crate::Problem;
use crate::config::{Config, DEFAULT_FILE};

/// Reads the file that is named, or `countersign.toml` if there is one, and the environment over it.
pub(super) fn read(named: Option<&Path>) -> Result<Config, Vec<Problem>> {
    // A link that leads nowhere is there, too: it is no reason to serve something else.
    let found = Some(PathBuf::from(DEFAULT_FILE)).filter(|it| it.symlink_metadata().is_ok());
    let found = named.map(Path::to_owned).or(found);
    Config::read(found.as_deref(), variables()?)
}

/// Without any file: what the environment says.
pub(super) fn read_environment() -> Result<Config, Vec<Problem>> {
    Config::read(None, variables()?)
}

/// The environment, as far as it can be the configuration's.
fn variables() -> Result<Vec<(String, String)>, Vec<Problem>> {
    let ours = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let (mut variables, mut problems) = (Vec::new(), Vec::new());
    for (name, value) in ours.filter(|it| it.0.starts_with("COUNTERSIGN_")) {
        match value.into_string() {
            Ok(value) => variables.push((name, value)),
            Err(_) => problems.push(Problem::new(name, "is not UTF-8 text", "set it to such text")),
        }
    }
    variables.sort();
    if problems.is_empty() { Ok(variables) } else { Err(problems) }
}

/// Where secrets in the environment are read.
#[expect(clippy::disallowed_methods, reason = "the environment is read by the command line only")]
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A server that cannot be started as it is configured.
pub(super) fn unfit(problems: &[Problem]) -> Failure {
    let next = "correct it, and look again: `countersign doctor`";
    Failure::of_problems("the configuration cannot be used", problems, next)
}
