//! Who a credential stands for: static tokens and JWTs of configured issuers. Bearer only (RFC 6750). Everything that an
//! identity says comes from a verified credential (INV-3).

mod check;
mod claims;
mod failure;
mod issuer;
mod jwk;
mod jwt;
mod keys;
mod mapping;
mod recorded;
mod settings;
mod token;

use std::path::Path;
use std::sync::Arc;

use futures_util::future::join_all;

pub(crate) use self::failure::AuthFailure;
use self::issuer::Issuer;
use self::jwt::Jwt;
pub use self::keys::IssuerKeys;
pub(crate) use self::keys::Keyring;
pub(crate) use self::recorded::Failures;
pub use self::settings::{AuthSettings, ClaimSettings, IssuerSettings, TokenSettings};
use self::token::Tokens;
use crate::Identity;
use crate::builder::{BuildError, Problem};
use crate::clock::{Clock, Timestamp};

/// The longest credential that is looked at.
const MAX_TOKEN: usize = 16 * 1024;

/// Verifies credentials.
#[derive(Debug)]
pub struct Auth {
    tokens: Tokens,
    issuers: Vec<Issuer>,
    clock: Clock,
}

/// What a verified credential says. Without credentials: no actor.
#[derive(Clone, Debug)]
pub(crate) struct Credential {
    pub(crate) identity: Identity,
    /// Whether it is marked as a person's, so that it may decide approvals (APR-4).
    pub(crate) person: bool,
    /// From when on it is refused, if ever: what lasts longer than a request looks again.
    pub(crate) expires: Option<Timestamp>,
}

impl Credential {
    /// A party without credentials.
    fn none() -> Self {
        Self { identity: Identity::none(), person: false, expires: None }
    }

    /// Whether it would be refused by now.
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|it| now >= it)
    }
}

impl Auth {
    /// Checks the settings. `base` is the directory that relative paths count from: that of the configuration file.
    ///
    /// # Errors
    /// Every problem at once, each with what to do.
    pub async fn new(settings: &AuthSettings, base: &Path) -> Result<Self, BuildError> {
        Self::open(settings, base, Clock::System).await.map_err(|problems| BuildError { problems })
    }

    /// As [`Self::new`], with a clock of the engine's.
    ///
    /// # Errors
    /// Every problem at once, each with what to do.
    pub(crate) async fn open(settings: &AuthSettings, base: &Path, clock: Clock) -> Result<Self, Vec<Problem>> {
        let (tokens, mut problems) = Tokens::new(&settings.tokens);
        let (issuers, found) = check::issuers(&settings.issuers, base, &clock);
        problems.extend(found);
        // Those that cannot be reached are logged: they may come later than this server.
        join_all(issuers.iter().map(|it| it.keys.refresh(0))).await;
        problems.extend(check::key_files(&issuers));
        if problems.is_empty() { Ok(Self { tokens, issuers, clock }) } else { Err(problems) }
    }

    /// Whether no credential at all would be taken: no server should start so.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty() && self.issuers.is_empty()
    }

    /// Verifies the one value of a request's `Authorization` header. An empty value is a bad credential, none at all is
    /// a party without an actor.
    ///
    /// # Errors
    /// The class of what is wrong with it.
    pub(crate) async fn identify(&self, authorization: Option<&str>) -> Result<Credential, AuthFailure> {
        let Some(authorization) = authorization else { return Ok(Credential::none()) };
        let token = bearer(authorization).ok_or(AuthFailure::Malformed)?;
        let now = self.clock.now();
        if let Some(known) = self.tokens.find(token) {
            return if known.is_expired(now) { Err(AuthFailure::Expired) } else { Ok(known.clone()) };
        }
        if self.issuers.is_empty() {
            return Err(AuthFailure::UnknownToken);
        }
        let token = Jwt::parse(token)?;
        let issuer = self.issuers.iter().find(|it| token.issuer() == Some(&it.expected.issuer));
        issuer.ok_or(AuthFailure::WrongIssuer)?.credential(token, now).await
    }

    /// What the static tokens stand for.
    #[cfg(feature = "cli")]
    pub(crate) fn of_tokens(&self) -> Vec<Credential> {
        self.tokens.credentials().cloned().collect()
    }

    pub(crate) fn keyrings(&self) -> Vec<Arc<Keyring>> {
        self.issuers.iter().map(|it| Arc::clone(&it.keys)).collect()
    }

    /// How things are with the keys of each issuer, in the order of the configuration.
    pub fn keys(&self) -> Vec<IssuerKeys> {
        self.issuers.iter().map(|it| it.keys.report()).collect()
    }
}

/// The token of `Bearer TOKEN` (RFC 6750, section 2.1): any case of the scheme, spaces, and `b64token`.
fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, rest) = authorization.split_once(' ')?;
    let token = rest.trim_matches(' ');
    let body = token.trim_end_matches('=');
    let legal = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'.' | b'_' | b'~' | b'+' | b'/');
    let fits = !body.is_empty() && token.len() <= MAX_TOKEN && body.bytes().all(legal);
    (scheme.eq_ignore_ascii_case("bearer") && fits).then_some(token)
}

#[cfg(test)]
mod tests;
