//! The form of a signed token: JWS compact serialisation (RFC 7515) of a claims set (RFC 7519).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, crypto};
use serde_json::Value;

use super::{AuthFailure, jwk};
use crate::canonical;

/// Header parameters that change what the others mean, or what is signed (RFC 7515, section 4.1.11; RFC 7797).
const CRITICAL: [&str; 2] = ["crit", "b64"];

/// What `typ` may say of an access token (RFC 9068, section 2.1; RFC 7519, section 5.1).
const TYPES: [&str; 4] = ["jwt", "application/jwt", "at+jwt", "application/at+jwt"];

/// A token whose signature is not verified yet.
#[derive(Debug)]
pub(super) struct Jwt<'a> {
    pub(super) header: Header,
    /// What it says, if the signature is good: always an object.
    claims: Value,
    signed: &'a str,
    signature: &'a str,
}

/// What of a header is looked at. Keys that it brings or points to (`jwk`, `jku`, `x5c`, `x5u`) never are.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) algorithm: Algorithm,
    pub(super) key: Option<String>,
}

impl<'a> Jwt<'a> {
    /// Takes a token apart. One that has not three parts is of another sort.
    pub(super) fn parse(token: &'a str) -> Result<Self, AuthFailure> {
        let (signed, signature) = token.rsplit_once('.').ok_or(AuthFailure::UnknownToken)?;
        let (header, claims) = signed.split_once('.').ok_or(AuthFailure::UnknownToken)?;
        if claims.contains('.') {
            return Err(AuthFailure::UnknownToken);
        }
        let header = Header::of(&object(header, AuthFailure::Malformed)?)?;
        Ok(Self { header, claims: object(claims, AuthFailure::BadClaims)?, signed, signature })
    }

    /// What it claims to be from. To find the key; the claims are checked once they are verified.
    pub(super) fn issuer(&self) -> Option<&str> {
        self.claims.get("iss").and_then(Value::as_str)
    }

    /// The claims, if this key signed them.
    pub(super) fn verified(self, key: &DecodingKey) -> Result<Value, AuthFailure> {
        match crypto::verify(self.signature, self.signed.as_bytes(), key, self.header.algorithm) {
            Ok(true) => Ok(self.claims),
            Ok(false) | Err(_) => Err(AuthFailure::BadSignature),
        }
    }
}

impl Header {
    fn of(header: &Value) -> Result<Self, AuthFailure> {
        if CRITICAL.iter().any(|it| header.get(it).is_some()) {
            return Err(AuthFailure::Malformed);
        }
        let algorithm = header.get("alg").and_then(Value::as_str).ok_or(AuthFailure::Malformed)?;
        let algorithm = jwk::algorithm(algorithm).ok_or(AuthFailure::BadAlgorithm)?;
        let key = match header.get("kid") {
            None => None,
            Some(Value::String(id)) => Some(id.clone()),
            Some(_) => return Err(AuthFailure::Malformed),
        };
        match header.get("typ") {
            None => Ok(Self { algorithm, key }),
            Some(Value::String(it)) if TYPES.contains(&&*it.to_ascii_lowercase()) => Ok(Self { algorithm, key }),
            Some(Value::String(_)) => Err(AuthFailure::WrongType),
            Some(_) => Err(AuthFailure::Malformed),
        }
    }
}

/// A part of a token: base64url of the JSON text of an object. Repeated members and the like are `unclear`.
fn object(part: &str, unclear: AuthFailure) -> Result<Value, AuthFailure> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| AuthFailure::Malformed)?;
    let text = String::from_utf8(bytes).map_err(|_| AuthFailure::Malformed)?;
    let value = canonical::parse(&text).map_err(|it| if it.well_formed { unclear } else { AuthFailure::Malformed })?;
    if value.is_object() { Ok(value) } else { Err(AuthFailure::Malformed) }
}
