//! `[audit]` of the configuration.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::{Anchor, KeyError, LogKey, LogTree};
use crate::secret::{NoSecret, SecretRef};
use crate::{BuildError, Problem};

/// What becomes of the log: who signs it, who keeps the signatures, who may read it as such.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct AuditSettings {
    /// Where the log's private key is (`countersign audit key new`). A file must be readable by its owner only. Without
    /// one nothing is signed.
    pub key: Option<SecretRef>,
    /// A checkpoint whenever so many events have none (default 1,000).
    pub checkpoint_events: u64,
    /// A checkpoint whenever an event has had none for so long (default `60s`).
    #[serde(deserialize_with = "crate::duration::text")]
    pub checkpoint_every: Duration,
    /// Who else keeps checkpoints (default: a file beside the database).
    pub anchors: Option<Vec<AnchorSettings>>,
    /// Everybody may read checkpoints and hashes over HTTP, without credentials (default: no).
    pub public_log: bool,
    /// The tenant whose members may read the entries of all tenants over HTTP, as far as policy lets them `read_audit`
    /// (default: none).
    pub log_readers: Option<String>,
}

impl Default for AuditSettings {
    fn default() -> Self {
        let (checkpoint_events, checkpoint_every) = super::EVERY;
        Self { key: None, checkpoint_events, checkpoint_every, anchors: None, public_log: false, log_readers: None }
    }
}

/// One of `file`, `command` and `url`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct AnchorSettings {
    /// Appended to. A relative path counts from the directory of the file that names it.
    pub file: Option<PathBuf>,
    /// A program and its arguments, run for each checkpoint.
    pub command: Option<Vec<String>>,
    /// Gets each checkpoint by PUT: https, or http to this machine itself.
    pub url: Option<String>,
    /// With `url`: a bearer token.
    pub token: Option<SecretRef>,
}

/// What is wrong with `[audit]`.
#[derive(Debug, thiserror::Error)]
enum SettingsError {
    #[error("`audit.key`: {0}")]
    Secret(#[source] NoSecret),
    #[error("`audit.key`: others can read the file `{}`", .0.display())]
    Exposed(PathBuf),
    #[error("`audit.key`: {0}")]
    Key(#[source] KeyError),
    #[error("`audit.anchors`: {0}")]
    Token(#[source] NoSecret),
    #[error("`audit.anchors`: each has one of `file`, `command` and `url`, and `token` only with `url`")]
    NotOne,
    #[error("`audit.anchors`: a command needs a program")]
    NoProgram,
    #[error("`audit.anchors`: `{0}` is neither https nor this machine itself")]
    Address(String),
}

impl SettingsError {
    fn fix(&self) -> &'static str {
        match self {
            Self::Secret(_) | Self::Key(_) => "make a key with `countersign audit key new`, and name it",
            Self::Exposed(_) => "think about who has read it, and make another one if need be",
            Self::Token(_) => "name where the token is",
            Self::NotOne | Self::NoProgram => "see docs/audit/verifying.md",
            Self::Address(_) => "name an https address",
        }
    }
}

impl AuditSettings {
    /// With its secrets. `env` reads the environment, which only the command line may.
    ///
    /// # Errors
    /// Every secret that is not there, every anchor that cannot be one.
    pub fn open(&self, base: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<LogTree, BuildError> {
        let mut problems = Vec::new();
        let key = self.key.as_ref().map(|it| read_key(it, base, env)).transpose();
        let key = key.map_err(|it| problems.push(it)).ok().flatten();
        let mut anchors = Vec::new();
        for settings in self.anchors.iter().flatten() {
            match settings.open(base, env) {
                Ok(anchor) => anchors.push(anchor),
                Err(problem) => problems.push(problem),
            }
        }
        if !problems.is_empty() {
            let problem = |it: &SettingsError| Problem::new("[audit]", it.to_string(), it.fix());
            return Err(BuildError { problems: problems.iter().map(problem).collect() });
        }
        let mut log = LogTree::new().every(self.checkpoint_events, self.checkpoint_every).public(self.public_log);
        log.key = key;
        log.readers.tenant.clone_from(&self.log_readers);
        log.anchors = self.anchors.as_ref().map(|_| anchors);
        Ok(log)
    }
}

impl AnchorSettings {
    fn open(&self, base: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Anchor, SettingsError> {
        match self {
            Self { file: Some(file), command: None, url: None, token: None } => Ok(Anchor::file(base.join(file))),
            Self { file: None, command: Some(command), url: None, token: None } => {
                Anchor::command(command.clone()).ok_or(SettingsError::NoProgram)
            }
            Self { file: None, command: None, url: Some(url), token } => {
                let anchor = Anchor::put(url).ok_or_else(|| SettingsError::Address(url.clone()))?;
                match token {
                    None => Ok(anchor),
                    Some(token) => Ok(anchor.with_token(token.resolve(base, env).map_err(SettingsError::Token)?)),
                }
            }
            Self { .. } => Err(SettingsError::NotOne),
        }
    }
}

fn read_key(at: &SecretRef, base: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<LogKey, SettingsError> {
    if let SecretRef::File(path) = at {
        let path = base.join(path);
        if is_exposed(&path) {
            return Err(SettingsError::Exposed(path));
        }
    }
    let text = at.resolve(base, env).map_err(SettingsError::Secret)?;
    LogKey::parse(text.reveal()).map_err(SettingsError::Key)
}

/// Whether others than its owner may read a file.
#[cfg(unix)]
pub(crate) fn is_exposed(path: &Path) -> bool {
    let mode = std::fs::metadata(path).map(|it| std::os::unix::fs::MetadataExt::mode(&it));
    mode.is_ok_and(|it| it & 0o077 != 0)
}

#[cfg(not(unix))]
pub(crate) fn is_exposed(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<AuditSettings, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn a_whole_section_is_read() {
        let key = LogKey::generate("example.com/log").unwrap();
        let text = "key = { env = \"KEY\" }\ncheckpoint_events = 10\ncheckpoint_every = \"5m\"\npublic_log = true\n\
            log_readers = \"ops\"\nanchors = [{ file = \"a\" }, { command = [\"tee\", \"b\"] }, { url = \"https://x.example/y\" }]";
        let secret = key.reveal();
        let log = settings(text).unwrap().open(Path::new("/etc"), &|_| Some(secret.clone())).unwrap();
        assert_eq!(log.every, (10, Duration::from_mins(5)));
        assert_eq!(log.key.unwrap().public(), key.public());
        let names: Vec<_> = log.anchors.unwrap().iter().map(Anchor::name).collect();
        assert_eq!(names, ["file:/etc/a", "command:tee#1e57b933", "put:x.example/y"]);
        assert_eq!(log.readers, super::super::LogReaders { everybody: true, tenant: Some("ops".into()) });
    }

    #[test]
    fn everything_wrong_is_told_at_once_and_no_secret_with_it() {
        let text = "key = { env = \"KEY\" }\nanchors = [{}, { file = \"a\", token = { env = \"T\" } }, { command = [] }, { url = \"http://x.example\" }]";
        let problems = settings(text).unwrap().open(Path::new("/"), &|_| Some("hunter2".into())).unwrap_err();
        let told: Vec<_> = problems.problems.iter().map(|it| it.what.clone()).collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        `audit.key`: it does not begin with a private key, `PRIVATE+KEY+..`
        `audit.anchors`: each has one of `file`, `command` and `url`, and `token` only with `url`
        `audit.anchors`: each has one of `file`, `command` and `url`, and `token` only with `url`
        `audit.anchors`: a command needs a program
        `audit.anchors`: `http://x.example` is neither https nor this machine itself
        ");
        for wrong in ["checkpoint_every = \"soon\"", "checkpoint_every = 60", "kee = 1", "anchors = [{ fil = \"a\" }]"]
        {
            assert!(settings(wrong).is_err(), "{wrong}");
        }
    }
}
