//! `[notifications]` of the configuration.

use serde::Deserialize;

/// Who is told of what.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct NotificationSettings {}
