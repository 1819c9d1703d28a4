//! `[http]` of the configuration.

use serde::Deserialize;

/// How the HTTP API is served.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct HttpSettings {}
