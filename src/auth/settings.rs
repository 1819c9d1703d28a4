//! `[auth]` of the configuration.

mod read;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::actor::ActorKind;
use crate::clock::Timestamp;

/// Which credentials are taken, and whom they stand for. Empty: none is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct AuthSettings {
    /// `[[auth.tokens]]`: tokens that this file knows.
    pub tokens: Vec<TokenSettings>,
    /// `[[auth.issuers]]`: whose signed tokens (JWT, RFC 7519) are taken.
    pub issuers: Vec<IssuerSettings>,
}

/// One static token, known by its hash, and the actor that it stands for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TokenSettings {
    /// What people call this token; in problems and logs. Unique.
    pub name: String,
    /// SHA-256 of the token, 64 hexadecimal digits.
    pub sha256: String,
    /// The actor's id.
    pub id: String,
    /// The actor's kind.
    pub kind: ActorKind,
    /// Whose data its calls are about (default `default`).
    #[serde(default = "default_tenant")]
    pub tenant: String,
    /// The actor's name, for people to read.
    #[serde(default)]
    pub display_name: Option<String>,
    /// The role names that policies see.
    #[serde(default)]
    pub roles: Vec<String>,
    /// The scopes of the token.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Whatever else policies may look at.
    #[serde(default)]
    pub attributes: Map<String, Value>,
    /// The agent software that uses the token.
    #[serde(default)]
    pub client: Option<String>,
    /// Whether it is a person's own, who may decide approvals with it (APR-4). Only of kind `user`.
    #[serde(default)]
    pub human: bool,
    /// From when on it is refused (default: never), RFC 3339.
    #[serde(default, deserialize_with = "read::time")]
    pub expires: Option<Timestamp>,
}

/// One issuer of signed tokens: how they are verified, and what their claims mean.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct IssuerSettings {
    /// What the claim `iss` must be, byte for byte.
    pub issuer: String,
    /// What this server is called in the claim `aud`: one of these must be in it. A text or a list.
    #[serde(default, deserialize_with = "read::one_or_more")]
    pub audience: Vec<String>,
    /// Where the issuer publishes its keys (JWK Set, RFC 7517): https, or http to this machine itself.
    #[serde(default)]
    pub jwks_url: Option<String>,
    /// A file with its keys instead; a relative path counts from the directory of the configuration.
    #[serde(default)]
    pub jwks_file: Option<PathBuf>,
    /// The signature algorithms that are taken: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, `EdDSA`. At least
    /// one.
    #[serde(default)]
    pub algorithms: Vec<String>,
    /// The tenant of all its actors; else `claims.tenant` says which claim tells.
    #[serde(default)]
    pub tenant: Option<String>,
    /// The kind of all its actors; else `claims.kind` says which claim tells.
    #[serde(default)]
    pub kind: Option<ActorKind>,
    /// What the other claims mean.
    #[serde(default)]
    pub claims: ClaimSettings,
    /// Scopes that a token must have, all of them.
    #[serde(default)]
    pub required_scopes: Vec<String>,
    /// Clients that people use themselves: users who come through one, and for whom nobody acts, may decide approvals
    /// (APR-4). Default none.
    #[serde(default)]
    pub approver_clients: Vec<String>,
    /// How far clocks may differ (default `60s`, at most `5m`).
    #[serde(default = "default_leeway", deserialize_with = "crate::duration::text")]
    pub leeway: Duration,
    /// How long after a fetch of keys an unknown one is not worth another (default `30s`, `1s` to `1h`).
    #[serde(default = "default_cooldown", deserialize_with = "crate::duration::text")]
    pub cooldown: Duration,
    /// After which time keys are fetched again (default `10m`, `1m` to `24h`); if that fails the old ones stay.
    #[serde(default = "default_keep_keys", deserialize_with = "crate::duration::text")]
    pub keep_keys: Duration,
}

/// Which claim says what. Each is a claim's name, or where it is: a JSON Pointer (RFC 6901), which begins with `/`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ClaimSettings {
    /// The actor's kind, as a text: `user`, `service`, `automation` or `anonymous`. Must be there.
    pub kind: Option<String>,
    /// The tenant, as a text. Must be there.
    pub tenant: Option<String>,
    /// The role names, as a text or a list of texts (default: no roles).
    pub roles: Option<String>,
    /// The scopes, as one text with spaces between them or a list (default `scope`).
    pub scopes: Option<String>,
    /// The name for people to read (default `name`).
    pub name: Option<String>,
    /// The agent software (default `azp` or `client_id`, whichever is there).
    pub client: Option<String>,
    /// Attributes of the actor by name, and the claim of each.
    pub attributes: BTreeMap<String, String>,
}

fn default_tenant() -> String {
    "default".into()
}

fn default_leeway() -> Duration {
    Duration::from_mins(1)
}

fn default_cooldown() -> Duration {
    Duration::from_secs(30)
}

fn default_keep_keys() -> Duration {
    Duration::from_mins(10)
}
