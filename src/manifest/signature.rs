//! Signatures of calls as Standard Webhooks has them: HMAC-SHA256 over `id.timestamp.body`, in `webhook-signature`.

use crate::notifications::{Keys, PREFIX, decoded};

/// The key that an endpoint checks calls by. `Debug` does not show it.
#[derive(Clone, Debug)]
pub(super) struct Key(Keys);

impl Key {
    /// Takes 24 to 64 bytes in Base64, with or without `whsec_` before them.
    pub(super) fn parse(secret: &str) -> Option<Self> {
        let key = decoded(secret.strip_prefix(PREFIX).unwrap_or(secret))?;
        Some(Self(Keys::new(vec![key])))
    }

    /// The value of `webhook-signature`. `id` holds no full stop.
    pub(super) fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        self.0.sign(id, seconds, body)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    #[test]
    fn signatures_are_those_of_the_standards_own_library() {
        for secret in ["whsec_Y291bnRlcnNpZ24tdGVzdC1rZXktMDAx", "Y291bnRlcnNpZ24tdGVzdC1rZXktMDAx"] {
            let theirs = standardwebhooks::Webhook::new(secret).unwrap();
            for body in [&b"{}"[..], "{\"input\":\"\u{e4}\"}".as_bytes()] {
                let expected = theirs.sign("exe-1-1", 1_700_000_000, body).unwrap();
                assert_eq!(Key::parse(secret).unwrap().sign("exe-1-1", 1_700_000_000, body), expected);
            }
        }
    }

    #[test]
    fn short_long_and_unreadable_keys_are_refused() {
        let of = |bytes: usize| BASE64_STANDARD.encode(vec![7; bytes]);
        let taken = [0, 23, 24, 64, 65].map(|it| Key::parse(&of(it)).is_some());
        assert_eq!(taken, [false, false, true, true, false]);
        assert!(Key::parse("whsec_not base64!").is_none());
    }
}
