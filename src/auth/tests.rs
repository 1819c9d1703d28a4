//! Whom credentials stand for, table by table.

mod documents;
mod issuers;
mod keys;
mod mapping;
mod r1;
mod r2;
mod settings;
mod statics;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, crypto, jwk::Jwk};
use serde_json::{Value, json};

use super::*;
use crate::testing::START;

/// An [`Auth`] of a configuration, whose clock stands at [`START`] until the test moves it.
async fn open(text: &str) -> Result<Auth, Vec<Problem>> {
    Auth::open(&read(text), Path::new("/nonexistent"), Clock::manual(START)).await
}

fn read(text: &str) -> AuthSettings {
    toml::from_str::<crate::config::Config>(text).unwrap().auth
}

/// What is wrong, one line each.
fn told(problems: &[Problem]) -> String {
    let lines: Vec<_> = problems.iter().map(|it| format!("{}: {}; {}", it.at, it.what, it.fix)).collect();
    lines.join("\n")
}

/// Moves a manual clock.
fn advance(clock: &Clock, seconds: u64) {
    let Clock::Manual(now) = clock else { panic!("a manual clock") };
    now.send_modify(|it| *it = it.plus(std::time::Duration::from_secs(seconds)));
}

/// Somebody who signs tokens.
struct Signer {
    key: EncodingKey,
    algorithm: Algorithm,
    name: &'static str,
}

impl Signer {
    /// Ed25519, from a seed.
    fn ed(name: &'static str, seed: u8) -> Self {
        // PKCS #8 (RFC 8410, section 7) around the 32 bytes.
        let head = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
        Self { key: EncodingKey::from_ed_der(&[&head[..], &[seed; 32]].concat()), algorithm: Algorithm::EdDSA, name }
    }

    fn rsa(algorithm: Algorithm) -> Self {
        let key = EncodingKey::from_rsa_der(&der(include_str!("../../fixtures/auth/rsa.pem")));
        Self { key, algorithm, name: "rsa" }
    }

    /// Another RSA key, of too few bits.
    fn weak() -> Self {
        let key = EncodingKey::from_rsa_der(&der(include_str!("../../fixtures/auth/rsa-weak.pem")));
        Self { key, ..Self::rsa(Algorithm::RS256) }
    }

    fn p256() -> Self {
        let key = EncodingKey::from_ec_der(&der(include_str!("../../fixtures/auth/p256.pem")));
        Self { key, algorithm: Algorithm::ES256, name: "p256" }
    }

    fn p384() -> Self {
        let key = EncodingKey::from_ec_der(&der(include_str!("../../fixtures/auth/p384.pem")));
        Self { key, algorithm: Algorithm::ES384, name: "p384" }
    }

    fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// The public key as issuers publish it.
    fn jwk(&self) -> Value {
        let mut jwk = serde_json::to_value(Jwk::from_encoding_key(&self.key, self.algorithm).unwrap()).unwrap();
        jwk["kid"] = self.name.into();
        jwk["use"] = "sig".into();
        jwk
    }

    fn header(&self) -> Value {
        json!({"alg": self.algorithm, "kid": self.name, "typ": "at+jwt"})
    }

    /// A token with the usual header.
    fn sign(&self, claims: &Value) -> String {
        self.sign_texts(&self.header().to_string(), &claims.to_string())
    }

    /// A token of any two texts, signed well.
    fn sign_texts(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", BASE64_URL_SAFE_NO_PAD.encode(header), BASE64_URL_SAFE_NO_PAD.encode(claims));
        let signature = crypto::sign(signed.as_bytes(), &self.key, self.algorithm).unwrap();
        format!("{signed}.{signature}")
    }
}

fn der(pem: &str) -> Vec<u8> {
    let body: String = pem.lines().filter(|it| !it.starts_with("-----")).collect();
    BASE64_STANDARD.decode(body).unwrap()
}

/// A key set in a file, gone with this.
struct KeyFile(tempfile::NamedTempFile);

impl KeyFile {
    fn new(keys: &[Value]) -> Self {
        let file = Self(tempfile::NamedTempFile::new().unwrap());
        file.publish(keys);
        file
    }

    fn publish(&self, keys: &[Value]) {
        self.write(&json!({"keys": keys}).to_string());
    }

    fn write(&self, text: &str) {
        std::fs::write(self.0.path(), text).unwrap();
    }

    /// The place of the keys in a configuration.
    fn place(&self) -> String {
        format!("jwks_file = '{}'", self.0.path().display())
    }
}

/// The issuer `https://i.example`, for whom this server is `us`.
fn block(keys: &str, more: &str) -> String {
    format!("[[auth.issuers]]\nissuer = \"https://i.example\"\naudience = \"us\"\n{keys}\n{more}\n")
}

const EVERYTHING: &str = r#"
algorithms = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
tenant = "acme"
kind = "user"
"#;

/// Seconds since the epoch, so long after [`START`].
fn seconds(after: i64) -> i64 {
    START.0 / 1_000_000 + after
}

/// The claims of a good token, with changes: null takes one away.
fn claims(changes: &Value) -> Value {
    let mut claims = json!({"iss": "https://i.example", "aud": "us", "sub": "dana", "exp": seconds(600)});
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => claims.as_object_mut().unwrap().remove(name),
            value => claims.as_object_mut().unwrap().insert(name.clone(), value.clone()),
        };
    }
    claims
}

impl Auth {
    /// What becomes of a token.
    async fn take(&self, token: &str) -> Result<Credential, AuthFailure> {
        self.identify(Some(&format!("Bearer {token}"))).await
    }

    /// The class of what is wrong with a token, or `taken`.
    async fn class(&self, token: &str) -> String {
        self.take(token).await.map_or_else(|it| it.to_string(), |_| "taken".into())
    }
}
