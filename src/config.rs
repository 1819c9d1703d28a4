//! The configuration: one TOML file.

use std::path::PathBuf;

use serde::Deserialize;

use crate::AuditSettings;
use crate::auth::AuthSettings;
use crate::http::HttpSettings;
use crate::manifest::ManifestSettings;
use crate::notifications::NotificationSettings;

/// The whole file. Unknown keys are errors.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Config {
    /// Where the records are, `sqlite:PATH`.
    pub database: Option<String>,
    /// The directory of `*.cedar` files.
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
}
