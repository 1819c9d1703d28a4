//! Anchors: who else keeps checkpoints, so that whoever holds database and key cannot tell another story later.
//!
//! Each gets every checkpoint in order, at least once. One that fails is tried again for ever, and shows in the health.

#[cfg(feature = "http")]
mod remote;

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[cfg(feature = "http")]
use self::remote::{distinct, feed, put, split};
use super::key::LogKey;
use super::note::Signed;
use super::{Ledger, LedgerError};
use crate::store::Store;
use crate::store::op::Ledger as Step;

/// The longest that a failing anchor is left alone.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// How many checkpoints are handed over between two looks at the clock.
const PORTION: usize = 64;

/// How much of the end of an anchor's file is read for its last checkpoint.
const TAIL: u64 = 64 * 1024;

/// How long a command or a server may take with one checkpoint.
const LIMIT: Duration = Duration::from_secs(10);

/// Somebody who keeps checkpoints.
#[derive(Clone, Debug)]
pub struct Anchor(Kind);

#[derive(Clone, Debug)]
enum Kind {
    File(PathBuf),
    #[cfg(feature = "http")]
    Command(Vec<String>),
    #[cfg(feature = "http")]
    Put {
        url: url::Url,
        token: Option<crate::secret::Secret>,
    },
}

/// Why an anchor has not got a checkpoint.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnchorError {
    #[error("the file cannot be written")]
    File(#[source] std::io::Error),
    #[cfg(feature = "http")]
    #[error("the command cannot be run")]
    Command(#[source] std::io::Error),
    #[cfg(feature = "http")]
    #[error("the command ended with {0}")]
    Status(std::process::ExitStatus),
    #[cfg(feature = "http")]
    #[error("it took longer than 10 s")]
    TimedOut,
    #[cfg(feature = "http")]
    #[error("the server cannot be reached")]
    Unreachable(#[source] reqwest::Error),
    #[cfg(feature = "http")]
    #[error("the server answered {0}")]
    Answered(u16),
}

impl Anchor {
    /// A file that each checkpoint is appended to and made durable in, followed by an empty line. Nothing here ever
    /// shortens it: on an append-only medium it is worth most.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(Kind::File(path.into()))
    }

    /// The one that there is if nobody names another.
    pub(crate) fn beside(database: &Path) -> Self {
        let mut name = database.as_os_str().to_owned();
        name.push(".checkpoints");
        Self::file(name)
    }

    /// A program with its arguments, run for each checkpoint, which it reads from standard input; it has 10 s, and no
    /// environment but `PATH`. `None` without a program.
    #[cfg(feature = "http")]
    pub fn command(words: impl IntoIterator<Item = String>) -> Option<Self> {
        let words: Vec<String> = words.into_iter().collect();
        words.first().is_some_and(|it| !it.is_empty()).then_some(Self(Kind::Command(words)))
    }

    /// A server that gets each checkpoint by PUT, as `text/plain`: https, or http to this machine itself. `None` for any
    /// other address.
    #[cfg(feature = "http")]
    pub fn put(url: &str) -> Option<Self> {
        let url = url::Url::parse(url).ok().filter(crate::outbound::is_private)?;
        Some(Self(Kind::Put { url, token: None }))
    }

    /// With a bearer token.
    #[cfg(feature = "http")]
    pub(super) fn with_token(self, token: crate::secret::Secret) -> Self {
        match self.0 {
            Kind::Put { url, .. } => Self(Kind::Put { url, token: Some(token) }),
            kind @ (Kind::File(_) | Kind::Command(_)) => Self(kind),
        }
    }

    /// What it is called in the store and in the health. The store knows by it what an anchor has got, so that no two have
    /// one name; arguments and queries, which may be secrets, are told apart by a hash.
    pub(crate) fn name(&self) -> String {
        match &self.0 {
            // However it was spelled: from another directory it is the same anchor.
            Kind::File(path) => {
                let whole = std::path::absolute(path);
                format!("file:{}", whole.as_ref().unwrap_or(path).display())
            }
            #[cfg(feature = "http")]
            Kind::Command(words) => {
                let (program, arguments) = split(words);
                format!("command:{program}{}", distinct(arguments.iter().map(String::as_str)))
            }
            #[cfg(feature = "http")]
            Kind::Put { url, .. } => {
                let port = url.port().map(|it| format!(":{it}")).unwrap_or_default();
                let host = url.host_str().unwrap_or_default();
                format!("put:{host}{port}{}{}", url.path(), distinct(url.query()))
            }
        }
    }

    #[cfg_attr(
        not(feature = "http"),
        expect(clippy::unused_async, unused_variables, reason = "other anchors wait for others")
    )]
    async fn take(&self, note: &str, limit: Duration) -> Result<(), AnchorError> {
        match &self.0 {
            Kind::File(path) => append(path, note).map_err(AnchorError::File),
            #[cfg(feature = "http")]
            Kind::Command(words) => feed(words, note, limit).await,
            #[cfg(feature = "http")]
            Kind::Put { url, token } => put(url, token.as_ref(), note, limit).await,
        }
    }

    /// The last checkpoint of this log that a file has.
    pub(super) fn last(&self, key: &LogKey) -> Option<Signed> {
        let text = match &self.0 {
            Kind::File(path) => end(path, TAIL).ok()?,
            #[cfg(feature = "http")]
            Kind::Command(_) | Kind::Put { .. } => return None,
        };
        // A note is a text, an empty line, and lines of signatures up to the next empty line.
        let text = String::from_utf8_lossy(&text);
        let parts: Vec<&str> = text.split("\n\n").collect();
        let note = |pair: &[&str]| match pair {
            [text, signatures] => Some(format!("{}\n\n{}\n", text.trim_start_matches('\n'), signatures.trim_end())),
            _ => None,
        };
        let notes = parts.windows(2).filter_map(note).filter_map(|it| Signed::read(key, &it).ok());
        notes.max_by_key(|it| it.size)
    }
}

impl Ledger {
    /// Hands an anchor what it has not got. False: it does not take it now.
    pub(crate) async fn anchor(&self, number: usize, store: &Store) -> bool {
        let Some(anchor) = self.anchors.get(number) else { return true };
        let name = anchor.name();
        let failure = match hand_over(anchor, &name, store).await {
            Ok(failure) => failure,
            Err(error) => {
                tracing::warn!(anchor = name, cause = %error, "checkpoints for an anchor cannot be read");
                return false;
            }
        };
        let text = failure.as_ref().map(ToString::to_string);
        let is_new = self.health.anchored(&name, text);
        match &failure {
            Some(error) if is_new => {
                let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
                tracing::error!(anchor = name, %error, cause, "AN ANCHOR TAKES NO CHECKPOINTS");
            }
            None if is_new => tracing::info!(anchor = name, "the anchor takes checkpoints again"),
            Some(_) | None => {}
        }
        failure.is_none()
    }

    /// Hands every anchor what it has not got, now, and all of them at once: one that hangs must not cost another its
    /// time. What became of those that failed, by name.
    pub(crate) async fn anchor_all(&self, store: &Store) -> Result<Vec<(String, AnchorError)>, LedgerError> {
        let mut all = tokio::task::JoinSet::new();
        for anchor in self.anchors.clone() {
            let (store, name) = (store.clone(), anchor.name());
            all.spawn(async move { (hand_over(&anchor, &name, &store).await, name) });
        }
        let mut failures = Vec::new();
        while let Some(done) = all.join_next().await {
            let (failure, name) = done.map_err(|it| LedgerError::Store(it.into()))?;
            failures.extend(failure?.map(|it| (name, it)));
        }
        failures.sort_by(|one, two| one.0.cmp(&two.0));
        Ok(failures)
    }
}

async fn hand_over(anchor: &Anchor, name: &str, store: &Store) -> Result<Option<AnchorError>, LedgerError> {
    let log = store.log();
    loop {
        let after = log.anchored(name).await?;
        let notes = log.checkpoints(after, PORTION).await?;
        let count = notes.len();
        let (mut last, mut failure) = (after, None);
        for (size, note) in notes {
            if let Err(error) = anchor.take(&note, LIMIT).await {
                failure = Some(error);
                break;
            }
            last = size;
        }
        if last > after {
            store.ledger(Step::Anchored { anchor: name.to_owned(), size: last }).await?;
        }
        if failure.is_some() || count < PORTION {
            return Ok(failure);
        }
    }
}

fn append(path: &Path, note: &str) -> std::io::Result<()> {
    let is_new = !path.exists();
    let gap = gap(path);
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    // One write: whatever else appends, notes stay whole.
    file.write_all(format!("{gap}{note}\n").as_bytes())?;
    file.sync_all()?;
    match path.parent().filter(|it| is_new && !it.as_os_str().is_empty()) {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// What makes the end of a file an empty line: a full disk leaves the beginning of a note there, and the next one must not
/// go on in it.
fn gap(path: &Path) -> &'static str {
    match end(path, 2).as_deref() {
        Ok(b"" | b"\n\n") => "",
        Ok(end) if end.ends_with(b"\n") => "\n",
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "",
        Ok(_) | Err(_) => "\n\n", // one too many, where it cannot be read, does no harm
    }
}

/// The last bytes of a file, at most so many; none of what is no regular file.
fn end(path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if std::fs::metadata(path)?.is_file() {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
        file.take(most).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
