//! Signatures of calls as Standard Webhooks has them: HMAC-SHA256 over `id.timestamp.body`, in `webhook-signature`.

use toml::de::DeValue;

use super::fields::{Found, Placed};
use super::secrets::Vault;
use crate::notifications::{Keys, PREFIX, decoded};

/// The most secrets of one endpoint.
const MAX_SECRETS: usize = 4;

/// What calls are signed with: one secret, or several while one takes the place of another.
pub(super) fn keys(given: Placed<DeValue<'_>>, vault: &Vault<'_>, found: &mut Found<'_>) -> Option<Keys> {
    let Placed { value, field, at } = given;
    let DeValue::Array(listed) = value else {
        return key(Placed { value, field, at }, vault, found).map(|it| Keys::new(vec![it]));
    };
    if !(1..=MAX_SECRETS).contains(&listed.len()) {
        let fix = "name one, and another while one takes the place of the other";
        found.problem(at, &field, format!("it does not list 1 to {MAX_SECRETS} secrets"), fix);
        return None;
    }
    let placed = listed.into_iter().map(|it| (it.span().start, it.into_inner()));
    let keys: Vec<_> =
        placed.map(|(at, value)| key(Placed { value, field: field.clone(), at }, vault, found)).collect();
    keys.into_iter().collect::<Option<_>>().map(Keys::new)
}

fn key(given: Placed<DeValue<'_>>, vault: &Vault<'_>, found: &mut Found<'_>) -> Option<Vec<u8>> {
    let (at, field) = (given.at, given.field.clone());
    let secret = vault.fetch(given, found)?;
    let key = bytes(secret.reveal());
    if key.is_none() {
        let fix = "make one with `echo whsec_$(openssl rand -base64 32)`";
        found.problem(at, &field, "the secret is not 24 to 64 bytes in Base64", fix);
    }
    key
}

/// Takes 24 to 64 bytes in Base64, with or without `whsec_` before them.
fn bytes(secret: &str) -> Option<Vec<u8>> {
    decoded(secret.strip_prefix(PREFIX).unwrap_or(secret))
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
                let ours = Keys::new(vec![bytes(secret).unwrap()]);
                assert_eq!(ours.sign("exe-1-1", 1_700_000_000, body), expected);
            }
        }
    }

    #[test]
    fn short_long_and_unreadable_keys_are_refused() {
        let of = |bytes: usize| BASE64_STANDARD.encode(vec![7; bytes]);
        let taken = [0, 23, 24, 64, 65].map(|it| bytes(&of(it)).is_some());
        assert_eq!(taken, [false, false, true, true, false]);
        assert!(bytes("whsec_not base64!").is_none());
    }
}
