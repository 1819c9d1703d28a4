//! One issuer of signed tokens.

use std::sync::Arc;

use super::claims::Expected;
use super::jwt::Jwt;
use super::keys::Keyring;
use super::mapping::Mapping;
use super::{AuthFailure, Credential};
use crate::clock::Timestamp;

/// An issuer whose configuration is whole.
#[derive(Debug)]
pub(super) struct Issuer {
    pub(super) expected: Expected,
    pub(super) keys: Arc<Keyring>,
    pub(super) mapping: Mapping,
}

impl Issuer {
    /// Verifies a token that claims to be this issuer's: algorithm, key, signature, then what it says.
    pub(super) async fn credential(&self, token: Jwt<'_>, now: Timestamp) -> Result<Credential, AuthFailure> {
        let (issuer, algorithm) = (&self.expected.issuer, token.header.algorithm);
        if !self.keys.allowed.contains(&algorithm) {
            return Err(AuthFailure::BadAlgorithm);
        }
        let key = self.keys.key(&token.header).await?;
        let claims = token.verified(&key)?;
        let expires = self.expected.check(&claims, now)?;
        let (identity, person) = self.mapping.identity(issuer, &claims)?;
        Ok(Credential { identity, person, expires: Some(expires) })
    }
}
