//! Secrets by reference: configuration and manifests say where a secret is, never what it is.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The most bytes of a secret.
const MAX: u64 = 64 * 1024;

/// Where a secret is: `{ env = "NAME" }` or `{ file = "PATH" }`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
#[non_exhaustive]
pub enum SecretRef {
    /// An environment variable.
    Env(String),
    /// A file; a relative path counts from the directory of the file that names it. White space at its end is not part of the secret.
    File(PathBuf),
}

/// A secret. Neither `Debug` nor an error ever shows it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    /// The secret itself, for the one who needs it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Why there is no secret where it should be. Names the place, never the content.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSecret {
    #[error("the environment variable `{0}` is not set, or empty")]
    NotSet(String),
    #[error("the file `{}` cannot be read", .0.display())]
    Unreadable(PathBuf, #[source] std::io::Error),
    #[error("the file `{}` is empty, longer than 64 KiB, not a regular file, or not text", .0.display())]
    Unusable(PathBuf),
}

impl SecretRef {
    /// Fetches it. `env` reads the environment, which only the command line may.
    pub(crate) fn resolve(&self, base: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Secret, NoSecret> {
        match self {
            Self::Env(name) => {
                env(name).filter(|it| !it.is_empty()).map(Secret).ok_or_else(|| NoSecret::NotSet(name.clone()))
            }
            Self::File(path) => {
                let path = base.join(path);
                let unreadable = |error| NoSecret::Unreadable(path.clone(), error);
                if !std::fs::metadata(&path).map_err(unreadable)?.is_file() {
                    return Err(NoSecret::Unusable(path));
                }
                let mut text = Vec::new();
                let file = std::fs::File::open(&path).map_err(unreadable)?;
                file.take(MAX + 1).read_to_end(&mut text).map_err(unreadable)?;
                let fits = u64::try_from(text.len()).is_ok_and(|it| it <= MAX);
                let text = String::from_utf8(text).ok().filter(|_| fits);
                let text = text.map(|it| it.trim_end().to_owned()).filter(|it| !it.is_empty());
                text.map(Secret).ok_or(NoSecret::Unusable(path))
            }
        }
    }
}
