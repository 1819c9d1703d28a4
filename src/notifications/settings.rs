//! `[notifications]` of the configuration.

use serde::Deserialize;

use crate::SecretRef;

/// Who is told of what.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct NotificationSettings {
    /// Where people find a request, with `{id}` for the approval's id: `https://app.example/approvals/{id}` (default:
    /// notifications have no link). Following it changes nothing, and whoever does must prove who they are.
    pub approval_url: Option<String>,
    /// At most 32.
    pub webhooks: Vec<WebhookSettings>,
}

/// One receiver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct WebhookSettings {
    /// 1 to 64 of `a-z`, `0-9`, `_` and `-`. What waits for it is kept under this name.
    pub name: String,
    /// https, or http to this machine itself.
    pub url: String,
    /// What messages are signed with, `whsec_..` as in Standard Webhooks: 1 to 4 of them, so that a new one can be brought in
    /// before the old one goes.
    pub secrets: Vec<SecretRef>,
    /// What it is told of: [topics](crate::Topic), `approval.*` or `execution.*` (default: everything).
    #[serde(default)]
    pub events: Vec<String>,
    /// Whose (default: every tenant's).
    #[serde(default)]
    pub tenants: Vec<String>,
    /// After how many attempts it is given up, 1 to 16 (default 8, which is about a day).
    #[serde(default)]
    pub attempts: Option<u32>,
}
