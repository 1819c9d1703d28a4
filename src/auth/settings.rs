//! `[auth]` of the configuration.

use serde::Deserialize;

/// Which credentials are taken, and whom they stand for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct AuthSettings {}
