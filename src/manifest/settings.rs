//! `[capabilities]` of the configuration.

use serde::Deserialize;

/// Where manifests are, and what their procedures may reach.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ManifestSettings {}
