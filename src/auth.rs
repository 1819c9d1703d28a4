//! Who a credential stands for: static tokens and JWTs of configured issuers. Bearer only. Everything that an identity
//! says comes from a verified credential (INV-3).

mod settings;

pub use self::settings::AuthSettings;
use crate::Identity;

/// Verifies credentials.
#[derive(Debug, Default)]
pub struct Auth {}

/// What a verified credential says. Without credentials: no actor.
#[derive(Clone, Debug)]
pub(crate) struct Credential {
    pub(crate) identity: Identity,
    /// Whether it is marked as a person's, so that it may decide approvals (APR-4).
    pub(crate) person: bool,
}

/// Why a credential was not taken. Its `Display` is the reason class of `auth.failed`, and never shows a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed")]
pub(crate) struct AuthFailure;

impl Auth {
    /// Verifies the one value of a request's `Authorization` header. An empty value is a bad credential, none at all is
    /// a party without an actor.
    #[expect(clippy::unused_async, reason = "issuers' keys may have to be fetched")]
    pub(crate) async fn identify(&self, authorization: Option<&str>) -> Result<Credential, AuthFailure> {
        match authorization {
            None => Ok(Credential { identity: Identity::none(), person: false }),
            Some(_) => Err(AuthFailure),
        }
    }
}
