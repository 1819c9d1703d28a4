//! The headers of a manifest: those of an author's own, none of the engine's, and no secret in clear.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use toml::de::DeValue;

use super::fields::{Found, Placed};
use super::secrets::{Vault, is_secret};
use crate::secret::Secret;

/// The most headers of a manifest's own.
const MAX_HEADERS: usize = 32;

/// Headers that belong to the engine and to the protocol.
const OURS: [&str; 17] = [
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "traceparent",
    "tracestate",
    "upgrade",
    "user-agent",
];

/// The headers of a manifest.
pub(super) struct Headers {
    pub(super) all: HeaderMap,
    /// A field whose value is a secret.
    pub(super) has_secrets: Option<Placed<()>>,
}

impl Headers {
    pub(super) fn bearer(&mut self, given: Placed<DeValue<'_>>, vault: &Vault<'_>, found: &mut Found<'_>) {
        let place = Placed { value: (), field: given.field.clone(), at: given.at };
        if let Some(secret) = vault.fetch(given, found) {
            self.secret(reqwest::header::AUTHORIZATION, &place, &format!("Bearer {}", secret.reveal()), found);
        }
    }

    pub(super) fn take(&mut self, name: &str, given: Placed<DeValue<'_>>, vault: &Vault<'_>, found: &mut Found<'_>) {
        let place = Placed { value: (), field: given.field.clone(), at: given.at };
        let Ok(header) = HeaderName::try_from(name) else {
            return place.problem(found, "it is not the name of a header", "write it as `X-Region`");
        };
        if OURS.contains(&header.as_str()) || header.as_str().starts_with("webhook-") {
            return place.problem(found, "this header belongs to the engine or to the protocol", "remove it");
        }
        if self.all.contains_key(&header) {
            return place.problem(
                found,
                "this header is there twice",
                "keep one of them; letters of any size are the same",
            );
        }
        if self.all.len() >= MAX_HEADERS {
            return place.problem(found, format!("there are more than {MAX_HEADERS} headers"), "remove some");
        }
        let Some(text) = given.value.as_str() else {
            let secret: Option<Secret> = vault.fetch(given, found);
            if let Some(secret) = secret {
                self.secret(header, &place, secret.reveal(), found);
            }
            return;
        };
        if is_secret(name, text) {
            let fix = "say where the secret is: `{ env = \"NAME\" }` or `{ file = \"PATH\" }`";
            return place.problem(found, "it looks like a secret, which is never written into a manifest", fix);
        }
        match HeaderValue::try_from(text) {
            Ok(value) => _ = self.all.insert(header, value),
            Err(_) => place.problem(found, "it is not the value of a header", "use visible ASCII characters"),
        }
    }

    fn secret(&mut self, header: HeaderName, place: &Placed<()>, text: &str, found: &mut Found<'_>) {
        match HeaderValue::try_from(text) {
            Ok(mut value) => {
                value.set_sensitive(true);
                self.all.insert(header, value);
                self.has_secrets = Some(place.clone());
            }
            Err(_) => place.problem(found, "its secret is not the value of a header", "use visible ASCII characters"),
        }
    }
}
