//! An issuer's public keys (JWK Set, RFC 7517): which of them may verify what.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, crypto};
use serde_json::Value;

use super::AuthFailure;
use super::jwt::Header;
use crate::canonical;

/// The most keys of a set, whether they are usable or not.
const MAX_KEYS: usize = 100;

/// RSA keys of fewer bits are not safe any more (RFC 7518, section 3.3), and the verifier takes none of more.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=8_192;

/// The keys of a set that can verify an algorithm that is allowed.
#[derive(Debug, Default)]
pub(super) struct KeySet(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    /// What the key itself is for: a token's header only chooses among these.
    algorithms: Vec<Algorithm>,
    verifies: Arc<DecodingKey>,
}

/// Why a text is no key set.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoKeySet {
    #[error("it is no JSON text of an object with a list `keys`, without repeated members, of at most 1 MiB")]
    NotASet,
    #[error("it has {0} keys, and at most {MAX_KEYS} are taken")]
    TooMany(usize),
}

/// The signature algorithm of this name, if it is one with a public key: never `none`, never a shared secret (`HS256`).
pub(super) fn algorithm(name: &str) -> Option<Algorithm> {
    Some(match name {
        "RS256" => Algorithm::RS256,
        "RS384" => Algorithm::RS384,
        "RS512" => Algorithm::RS512,
        "PS256" => Algorithm::PS256,
        "PS384" => Algorithm::PS384,
        "PS512" => Algorithm::PS512,
        "ES256" => Algorithm::ES256,
        "ES384" => Algorithm::ES384,
        "EdDSA" | "Ed25519" => Algorithm::EdDSA, // RFC 9864 gave it a name that says which curve
        _ => return None,
    })
}

impl KeySet {
    /// Reads a set. Keys that cannot verify any of the allowed algorithms are left out.
    pub(super) fn parse(text: &[u8], allowed: &[Algorithm]) -> Result<Self, NoKeySet> {
        let text = std::str::from_utf8(text).map_err(|_| NoKeySet::NotASet)?;
        let set = canonical::parse(text).map_err(|_| NoKeySet::NotASet)?;
        let keys = set.get("keys").and_then(Value::as_array).ok_or(NoKeySet::NotASet)?;
        if keys.len() > MAX_KEYS {
            return Err(NoKeySet::TooMany(keys.len()));
        }
        Ok(Self(keys.iter().filter_map(|it| usable(it, allowed)).collect()))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The key that a token names; without a name, the only one there is. `None`: there is no such key, and another
    /// fetch could bring it.
    pub(super) fn find(&self, header: &Header) -> Option<Result<Arc<DecodingKey>, AuthFailure>> {
        let named: Vec<&Key> = match &header.key {
            Some(id) => self.0.iter().filter(|it| it.id.as_ref() == Some(id)).collect(),
            None => self.0.iter().collect(),
        };
        let fitting = || named.iter().filter(|it| it.algorithms.contains(&header.algorithm));
        match (named.len(), fitting().count()) {
            (0, _) => None,
            (2.., _) if header.key.is_none() => Some(Err(AuthFailure::UnknownKey)), // whichever fits: we do not try keys
            (_, 0) => Some(Err(AuthFailure::BadAlgorithm)),
            (_, 1) => fitting().next().map(|it| Ok(Arc::clone(&it.verifies))),
            (_, _) => Some(Err(AuthFailure::UnknownKey)),
        }
    }
}

/// The key as the verifier takes it, if it is a public one, for signatures, of an allowed algorithm.
fn usable(jwk: &Value, allowed: &[Algorithm]) -> Option<Key> {
    let text = |name: &str| jwk.get(name).and_then(Value::as_str);
    let absent_or = |name: &str, fits: &dyn Fn(&Value) -> bool| jwk.get(name).is_none_or(fits);
    let is_for_signatures = absent_or("use", &|it| it == "sig")
        && absent_or("key_ops", &|it| it.as_array().is_some_and(|it| it.iter().any(|it| it == "verify")));
    let is_private = ["d", "k"].iter().any(|it| jwk.get(*it).is_some()); // published, it is nobody's any more
    if !is_for_signatures || is_private || !absent_or("kid", &Value::is_string) {
        return None;
    }
    let (possible, key) = match (text("kty")?, text("crv")) {
        ("RSA", None) => (&RSA[..], rsa(text("n")?, text("e")?)?),
        ("EC", Some("P-256")) => (&[Algorithm::ES256][..], curve(text("x")?, text("y")?, 32)?),
        ("EC", Some("P-384")) => (&[Algorithm::ES384][..], curve(text("x")?, text("y")?, 48)?),
        ("OKP", Some("Ed25519")) => (&[Algorithm::EdDSA][..], DecodingKey::from_ed_der(&bytes(text("x")?, 32)?)),
        _ => return None,
    };
    let declared = match jwk.get("alg") {
        Some(it) => Some(algorithm(it.as_str()?)?),
        None => None,
    };
    let may = |it: &Algorithm| allowed.contains(it) && declared.is_none_or(|only| only == *it);
    let algorithms: Vec<_> = possible.iter().copied().filter(may).collect();
    // A key that no verifier takes is told from a wrong signature here, once.
    let is_sound = |it: &Algorithm| crypto::verify("", b"", &key, *it).is_ok();
    let sound = !algorithms.is_empty() && algorithms.iter().all(is_sound);
    sound.then(|| Key { id: text("kid").map(Into::into), algorithms, verifies: Arc::new(key) })
}

const RSA: [Algorithm; 6] =
    [Algorithm::RS256, Algorithm::RS384, Algorithm::RS512, Algorithm::PS256, Algorithm::PS384, Algorithm::PS512];

fn rsa(modulus: &str, exponent: &str) -> Option<DecodingKey> {
    let decoded = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).ok();
    let (modulus, exponent) = (decoded(modulus)?, decoded(exponent)?);
    let is_odd = |it: &[u8]| it.last().is_some_and(|it| it % 2 == 1);
    let sizes = RSA_BITS.contains(&bits(&modulus)) && (2..=33).contains(&bits(&exponent));
    let is_sound = sizes && is_odd(&modulus) && is_odd(&exponent);
    is_sound.then(|| DecodingKey::from_rsa_raw_components(&modulus, &exponent))
}

/// How many bits a number has, its most significant byte first.
fn bits(number: &[u8]) -> usize {
    let significant = number.iter().skip_while(|it| **it == 0);
    let leading = significant.clone().next().map_or(0, |it| it.leading_zeros());
    significant.map(|_| 8).sum::<usize>() - leading as usize
}

/// An uncompressed point (SEC 1, section 2.3.3).
fn curve(x: &str, y: &str, length: usize) -> Option<DecodingKey> {
    let point = [vec![4], bytes(x, length)?, bytes(y, length)?].concat();
    Some(DecodingKey::from_ec_der(&point))
}

/// Exactly so many bytes: the verifier of Ed25519 would panic at fewer.
fn bytes(text: &str, length: usize) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok().filter(|it| it.len() == length)
}
