//! The keys of one issuer: fetched when the server starts, again when they are old or one is not among them, and kept
//! while the issuer cannot be reached.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jsonwebtoken::{Algorithm, DecodingKey};
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;
use url::Url;

use super::AuthFailure;
use super::jwk::{KeySet, NoKeySet};
use super::jwt::Header;
use crate::clock::{Clock, Monotonic};

/// The most bytes of a key set.
const MAX_SET: usize = 1 << 20;

/// How long a fetch may take, from connecting to the last byte.
pub(super) const FETCH: Duration = Duration::from_secs(5);

/// Where keys come from.
#[derive(Debug)]
pub(super) enum Source {
    Url(reqwest::Client, Url),
    File(PathBuf),
}

/// One issuer's keys, and when they were asked for.
#[derive(Debug)]
pub(crate) struct Keyring {
    pub(super) issuer: String,
    pub(super) source: Source,
    pub(super) allowed: Vec<Algorithm>,
    pub(super) cooldown: Duration,
    pub(super) keep: Duration,
    pub(super) clock: Clock,
    pub(super) state: Mutex<State>,
    /// Held by the one fetch that there may be at a time.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    keys: Option<Arc<KeySet>>,
    fetched: Option<Monotonic>,
    tried: Option<Monotonic>,
    tries: u64,
    failures: u64,
    /// Why the last try failed.
    trouble: Option<String>,
}

/// How things are with an issuer's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IssuerKeys {
    /// The issuer, as configured.
    pub issuer: String,
    /// How many keys could verify an allowed algorithm; `None` if they were never had.
    pub usable: Option<usize>,
    /// How often fetching them failed since the process started.
    pub failures: u64,
    /// Why the last try failed, if it did.
    pub trouble: Option<String>,
}

/// Why keys cannot be had.
#[derive(Debug, thiserror::Error)]
enum NoKeys {
    #[error("the issuer cannot be reached")]
    Unreachable(#[source] reqwest::Error),
    #[error("the issuer answers with status {0}")]
    Status(u16),
    #[error("the file cannot be read")]
    Unreadable(#[source] std::io::Error),
    #[error("it is not a regular file")]
    NotAFile,
    #[error("the key set is longer than 1 MiB")]
    TooLong,
    #[error("the key set cannot be read")]
    NotASet(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the fetch was broken off")]
    BrokenOff,
}

impl From<NoKeySet> for NoKeys {
    fn from(error: NoKeySet) -> Self {
        Self::NotASet(Box::new(error))
    }
}

impl Keyring {
    /// The key that a token names. Fetches the keys if they are old, or do not have it.
    pub(super) async fn key(self: &Arc<Self>, header: &Header) -> Result<Arc<DecodingKey>, AuthFailure> {
        let (keys, tries, age) = self.known();
        let found = keys.as_deref().and_then(|it| it.find(header));
        match (found, age) {
            (Some(found), Age::Fresh) => return found,
            (Some(found), Age::OldAndInTrouble) => {
                // Whoever has a key does not wait for an issuer that did not answer last time.
                if let Ok(turn) = Arc::clone(&self.turn).try_lock_owned() {
                    drop(self.fetch(turn, tries));
                }
                return found;
            }
            (Some(_), Age::Old) | (None, _) => {}
        }
        self.refresh(tries).await;
        let keys = self.state().keys.clone().ok_or(AuthFailure::KeysUnavailable)?;
        keys.find(header).ok_or(AuthFailure::UnknownKey)?
    }

    /// Fetches the keys, unless that was tried since `seen`, or within the cool-down. All who ask meanwhile wait for the
    /// same fetch.
    pub(super) async fn refresh(self: &Arc<Self>, seen: u64) {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        if let Some(fetch) = self.fetch(turn, seen)
            && fetch.await.is_err()
        {
            self.state().trouble = Some(NoKeys::BrokenOff.to_string()); // by the end of the runtime
        }
    }

    pub(crate) fn report(&self) -> IssuerKeys {
        let state = self.state();
        IssuerKeys {
            issuer: self.issuer.clone(),
            usable: state.keys.as_deref().map(KeySet::len),
            failures: state.failures,
            trouble: state.trouble.clone(),
        }
    }

    /// In a task of its own: a caller that goes away must not break off what others wait for, nor use up the cool-down.
    #[expect(clippy::disallowed_methods, reason = "documented: one bounded fetch at a time")]
    fn fetch(self: &Arc<Self>, turn: OwnedMutexGuard<()>, seen: u64) -> Option<JoinHandle<()>> {
        self.begin(seen).then(|| {
            let keyring = Arc::clone(self);
            tokio::spawn(async move {
                let loaded = keyring.load().await;
                keyring.end(loaded);
                drop(turn);
            })
        })
    }

    fn begin(&self, seen: u64) -> bool {
        let (now, mut state) = (self.clock.monotonic(), self.state());
        if state.tries != seen || state.tried.is_some_and(|it| now.since(it) < self.cooldown) {
            return false;
        }
        state.tries += 1;
        state.tried = Some(now);
        true
    }

    fn end(&self, loaded: Result<KeySet, NoKeys>) {
        let (issuer, mut state) = (&self.issuer, self.state());
        match loaded {
            Ok(keys) => {
                tracing::info!(issuer, usable = keys.len(), "keys fetched");
                *state = State {
                    keys: Some(Arc::new(keys)),
                    fetched: Some(self.clock.monotonic()),
                    tried: state.tried,
                    tries: state.tries,
                    failures: state.failures,
                    trouble: None,
                };
            }
            Err(error) => {
                let kept = state.keys.is_some();
                tracing::warn!(issuer, kept, cause = &error as &dyn std::error::Error, "keys could not be fetched");
                state.failures += 1;
                let below = std::error::Error::source(&error).map(|it| format!(": {it}")).unwrap_or_default();
                state.trouble = Some(format!("{error}{below}"));
            }
        }
    }

    fn known(&self) -> (Option<Arc<KeySet>>, u64, Age) {
        let (now, state) = (self.clock.monotonic(), self.state());
        let is_fresh = state.fetched.is_some_and(|it| now.since(it) < self.keep);
        let age = match (is_fresh, &state.trouble) {
            (true, _) => Age::Fresh,
            (false, None) => Age::Old,
            (false, Some(_)) => Age::OldAndInTrouble,
        };
        (state.keys.clone(), state.tries, age)
    }

    async fn load(&self) -> Result<KeySet, NoKeys> {
        let text = match &self.source {
            Source::Url(client, url) => download(client, url).await?,
            Source::File(path) => {
                let path = path.clone();
                tokio::task::spawn_blocking(move || read(&path)).await.map_err(|_| NoKeys::BrokenOff)??
            }
        };
        Ok(KeySet::parse(&text, &self.allowed)?)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much keys may be trusted without asking again.
enum Age {
    Fresh,
    Old,
    OldAndInTrouble,
}

async fn download(client: &reqwest::Client, url: &Url) -> Result<Vec<u8>, NoKeys> {
    let request = client.get(url.clone()).header("accept", "application/json, application/jwk-set+json");
    let mut response = request.send().await.map_err(unreachable)?;
    if response.status().as_u16() != 200 {
        return Err(NoKeys::Status(response.status().as_u16()));
    }
    let mut text = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if text.len() + chunk.len() > MAX_SET {
            return Err(NoKeys::TooLong);
        }
        text.extend_from_slice(&chunk);
    }
    Ok(text)
}

/// Without the address: what it has behind a question mark is nobody's business.
fn unreachable(error: reqwest::Error) -> NoKeys {
    NoKeys::Unreachable(error.without_url())
}

fn read(path: &std::path::Path) -> Result<Vec<u8>, NoKeys> {
    // A pipe or a device could keep us waiting.
    if !std::fs::metadata(path).map_err(NoKeys::Unreadable)?.is_file() {
        return Err(NoKeys::NotAFile);
    }
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(NoKeys::Unreadable)?;
    file.take(MAX_SET as u64 + 1).read_to_end(&mut text).map_err(NoKeys::Unreadable)?;
    if text.len() > MAX_SET { Err(NoKeys::TooLong) } else { Ok(text) }
}
