//! The configuration: one TOML file, and environment variables over it. Every problem is told at once, each with its
//! line or variable, and with what was probably meant.

mod document;
mod problem;
mod process;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

pub(crate) use self::document::toml_string;
use self::document::{Document, PREFIX};
pub use self::process::ProcessSettings;
use crate::AuditSettings;
use crate::auth::AuthSettings;
use crate::builder::{self, Problem};
use crate::http::HttpSettings;
use crate::manifest::{self, ManifestSettings};
use crate::notifications::NotificationSettings;
use crate::secret::SecretRef;
use crate::telemetry::TelemetrySettings;

/// The file that is read if none is named.
pub const DEFAULT_FILE: &str = "countersign.toml";

/// The database if nothing else is said.
const DEFAULT_DATABASE: &str = "sqlite:countersign.db";

/// The variable that says where manifests are.
const MANIFESTS: &str = "COUNTERSIGN_CAPABILITIES__DIRECTORY";

/// The most bytes of a configuration file.
const MAX_FILE: u64 = 1024 * 1024;

/// The whole file. Unknown keys are errors.
///
/// Each key can be set by an environment variable, which counts as if it stood in the file:
/// `COUNTERSIGN_DATABASE`, `COUNTERSIGN_HTTP__LISTEN`; a value that is no string is written as in TOML. An empty variable
/// sets nothing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Config {
    /// Where the records are, `sqlite:PATH` (default `sqlite:countersign.db`).
    pub database: Option<String>,
    /// The directory of `*.cedar` files. It is watched (default: the demo application's own policies).
    pub policies: Option<PathBuf>,
    /// `[http]`
    pub http: HttpSettings,
    /// `[auth]`
    pub auth: AuthSettings,
    /// `[audit]`
    pub audit: AuditSettings,
    /// `[capabilities]`
    pub capabilities: ManifestSettings,
    /// `[notifications]`
    pub notifications: NotificationSettings,
    /// `[log]`
    pub log: LogSettings,
    /// `[metrics]`
    pub metrics: MetricsSettings,
    /// `[telemetry]`
    pub telemetry: TelemetrySettings,
    /// `[process]`
    pub process: ProcessSettings,
    /// Where relative paths count from.
    #[serde(skip)]
    base: PathBuf,
    /// The file, if there is one.
    #[serde(skip)]
    file: Option<PathBuf>,
    /// Every secret that it refers to, with the key that does.
    #[serde(skip)]
    secrets: Vec<(String, SecretRef)>,
}

/// What is logged to standard error, and how.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct LogSettings {
    /// Lines for people, or JSON documents for machines (default text).
    pub format: LogFormat,
    /// A level, or a filter in the syntax of `tracing_subscriber::EnvFilter` (default `info`). `COUNTERSIGN_LOG` and `-v`
    /// count before it.
    pub level: Option<String>,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LogFormat {
    /// One line of text each.
    #[default]
    Text,
    /// One JSON document a line.
    Json,
}

/// Metrics without a token, on a listener of their own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct MetricsSettings {
    /// Address and port that serve `/metrics` to whoever can reach them (default: none; on the API's own address
    /// `/metrics` needs a permit for `read_metrics`).
    pub listen: Option<SocketAddr>,
}

impl Config {
    /// Reads a file, and over it what these environment variables say. Without a file the variables are all there is.
    ///
    /// Looks at variables with the prefix `COUNTERSIGN_` alone. Those that no key answers to are problems, but for
    /// `COUNTERSIGN_LOG` and others that the command line has for itself, those that the file or a manifest names, and what
    /// container platforms set for a service of that name.
    ///
    /// # Errors
    /// Every problem, with its line or variable. Values are never shown: they may be secrets in the wrong place.
    pub fn read(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Vec<Problem>> {
        let text = file.map_or_else(|| Ok(String::new()), read).map_err(|it| vec![it])?;
        Self::parse(file, &text, variables)
    }

    /// As [`Self::read`], of a file whose text is known.
    pub(crate) fn parse(
        file: Option<&Path>,
        text: &str,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Vec<Problem>> {
        let variables: Vec<_> = variables.into_iter().filter(|(name, _)| name.starts_with(PREFIX)).collect();
        let name = file.map_or_else(|| DEFAULT_FILE.to_owned(), |it| it.display().to_string());
        let mut document = Document::parse(name, text)?;
        let mut problems = document.set_all(&variables, &others(&document, file, &variables));
        let secrets = document.secrets();
        let mut config: Self = match document.settings() {
            Ok(config) if problems.is_empty() => config,
            Ok(_) => return Err(problems),
            Err(more) => {
                problems.extend(more);
                return Err(problems);
            }
        };
        config.base = file.and_then(Path::parent).map(Path::to_owned).unwrap_or_default();
        config.file = file.map(Path::to_owned);
        config.secrets = secrets;
        let problems = [config.http.problems(), config.process.problems()].concat();
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }

    /// Where relative paths count from: the directory of the file, or the working directory.
    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    /// The file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Every secret that the file itself refers to, with the key that does.
    pub(crate) fn secrets(&self) -> &[(String, SecretRef)] {
        &self.secrets
    }

    /// The database, as a URL for the engine. A path without a root counts from the file's directory.
    pub(crate) fn database_url(&self) -> String {
        let url = self.database.as_deref().unwrap_or(DEFAULT_DATABASE);
        match sqlite_path(url) {
            Some(path) => format!("sqlite:{}", self.base.join(path).display()),
            None => url.to_owned(), // what is wrong with it, the engine says
        }
    }

    /// The file of the database.
    pub(crate) fn database_path(&self) -> Result<PathBuf, Problem> {
        builder::path(Some(&self.database_url()))
            .map_err(|it| Problem::new("database", it.what, "write `sqlite:PATH`, say `sqlite:countersign.db`"))
    }

    /// Takes the database of a flag: its path counts from the working directory.
    pub(crate) fn set_database(&mut self, url: &str) {
        let absolute = |path: &str| std::path::absolute(path).map(|it| format!("sqlite:{}", it.display()));
        let path = sqlite_path(url).and_then(|it| absolute(it).ok());
        self.database = Some(path.unwrap_or_else(|| url.to_owned()));
    }

    /// The directory of policies, if one is named.
    pub(crate) fn policy_directory(&self) -> Option<PathBuf> {
        self.policies.as_ref().map(|it| self.base.join(it))
    }
}

/// Variables that the file or a manifest speaks of, as secrets or as what commands are passed: they may be called like
/// keys.
fn others(document: &Document<'_>, file: Option<&Path>, variables: &[(String, String)]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    document.spoken_of(&mut names);
    let set = variables.iter().find(|it| it.0 == MANIFESTS).map(|it| it.1.trim_matches('"'));
    let directory = set.filter(|it| !it.is_empty()).or_else(|| document.manifests());
    let base = file.and_then(Path::parent).unwrap_or(Path::new(""));
    // What is wrong with them, they are told for when they are read as manifests.
    let texts = directory.map(|it| manifest::texts(&base.join(it))).unwrap_or_default();
    for text in &texts {
        if let Ok(manifest) = Document::parse(String::new(), text) {
            manifest.spoken_of(&mut names);
        }
    }
    names
}

/// The path in a URL of a database that is a file.
fn sqlite_path(url: &str) -> Option<&str> {
    let path = url.strip_prefix("sqlite:")?;
    Some(path.strip_prefix("//").unwrap_or(path)).filter(|it| !it.is_empty() && !it.starts_with(':'))
}

/// A regular file of bounded length: whatever else is there would make a process wait, or never end.
fn read(path: &Path) -> Result<String, Problem> {
    let wrong = |what: String| {
        let next = format!("name another with `--config`, or make one: `countersign init` writes a `{DEFAULT_FILE}`");
        Problem::new(path.display().to_string(), what, next)
    };
    let unreadable = |error: std::io::Error| wrong(format!("cannot be read: {error}"));
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(wrong("is no regular file".into()));
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(unreadable)?.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if u64::try_from(bytes.len()).is_ok_and(|it| it > MAX_FILE) {
        return Err(wrong("is longer than 1 MiB".into()));
    }
    String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8 text".into()))
}
