//! Signatures as in Standard Webhooks: HMAC-SHA-256 over id, time and body.

use std::fmt;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::secret::Secret;

/// How a secret begins.
pub(crate) const PREFIX: &str = "whsec_";

/// What Standard Webhooks demand of a key, in bytes.
const KEY: std::ops::RangeInclusive<usize> = 24..=64;

/// The key of a secret: `whsec_` and base64.
pub(crate) fn key(secret: &Secret) -> Option<Vec<u8>> {
    decoded(secret.reveal().strip_prefix(PREFIX)?)
}

/// A key in base64, if it is as long as it has to be.
pub(crate) fn decoded(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text).ok().filter(|it| KEY.contains(&it.len()))
}

/// What one receiver's messages are signed with: by each of them, so that either is enough for who checks.
#[derive(Clone)]
pub(crate) struct Keys(Vec<Vec<u8>>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

impl Keys {
    pub(crate) fn new(keys: Vec<Vec<u8>>) -> Self {
        Self(keys)
    }

    /// The value of `webhook-signature`: `v1,BASE64` for each key, with blanks between.
    pub(crate) fn sign(&self, id: &str, seconds: i64, body: impl AsRef<[u8]>) -> String {
        let mut signatures = String::new();
        for key in &self.0 {
            // Any length of key will do: RFC 2104, section 2.
            let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { continue };
            mac.update(format!("{id}.{seconds}.").as_bytes());
            mac.update(body.as_ref());
            let blank = if signatures.is_empty() { "" } else { " " };
            let signature = BASE64_STANDARD.encode(mac.finalize().into_bytes());
            let _ = write!(signatures, "{blank}v1,{signature}"); // into a String: cannot fail
        }
        signatures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_published_library() {
        let secrets = ["C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr"];
        let keys = secrets.map(|it| BASE64_STANDARD.decode(it).unwrap());
        let (id, seconds, body) = ("evt-1", 1_767_225_600, r#"{"type":"approval.requested"}"#);
        let oracle =
            secrets.map(|it| standardwebhooks::Webhook::new(it).unwrap().sign(id, seconds, body.as_bytes()).unwrap());
        assert_eq!(Keys::new(keys.into()).sign(id, seconds, body), oracle.join(" "));
    }

    #[test]
    fn keys_are_never_shown() {
        assert_eq!(format!("{:?}", Keys::new(vec![b"secret".to_vec()])), "Keys(1)");
    }
}
