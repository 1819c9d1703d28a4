//! `[capabilities]` of the configuration.

use std::path::PathBuf;

use serde::Deserialize;

/// Where manifests are, and what their procedures may reach.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ManifestSettings {
    /// The directory of `*.toml` files (default: none, and so no manifests).
    pub directory: Option<PathBuf>,
    /// The origins that endpoints may be at, each written exactly as `https://app.example` or `http://127.0.0.1:9000`:
    /// scheme, host, and the port where it is not the scheme's own (default: none, so no endpoint may be anywhere).
    pub endpoints: Vec<String>,
    /// The program that ends a command whose engine died: the `countersign` binary, or any that calls
    /// [`guard`](fn@super::guard) when its first argument is [`GUARD`](super::GUARD). `countersign serve` knows itself; without
    /// one, manifests with commands are refused, since nothing would end them.
    pub guard: Option<PathBuf>,
}

impl ManifestSettings {
    /// What may be reached, for an application that has no configuration file.
    #[must_use]
    pub fn endpoints<T: Into<String>>(mut self, origins: impl IntoIterator<Item = T>) -> Self {
        self.endpoints.extend(origins.into_iter().map(Into::into));
        self
    }

    /// The program that guards commands.
    #[must_use]
    pub fn guard(mut self, program: impl Into<PathBuf>) -> Self {
        self.guard = Some(program.into());
        self
    }
}
