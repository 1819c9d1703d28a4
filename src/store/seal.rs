//! Sealing: what is stored of inputs cannot be read, moved to another row or searched (EXE-6), and what events say
//! of them can be compared by the holder of the key only.

use std::fmt;

use aes_gcm::aead::{Aead as _, Payload};
use aes_gcm::{Aes256Gcm, KeyInit as _, Nonce};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use crate::audit::hex;
use crate::id::random;

const SALT: usize = 16;
const NONCE: usize = 12;
const VERSION: &str = "v1.";

/// Does not open: another key, another row, or a changed text. `APPROVAL_INPUT_MISMATCH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the seal does not open: the text, its row or the key is another one")]
pub(crate) struct SealError;

/// The sealing key, never shown.
#[derive(Clone)]
pub(super) struct Key([u8; 32]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    pub(super) fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// AES-256-GCM with the row's id as associated data. Each text has a key of its own, derived from a random salt, so
    /// that no number of texts wears out the 96-bit nonce.
    pub(super) fn seal(&self, row_id: &str, plain: &[u8]) -> String {
        let head = random::<{ SALT + NONCE }>();
        let (salt, nonce) = head.split_at(SALT);
        let payload = Payload { msg: plain, aad: row_id.as_bytes() };
        let sealed = nonce_of(nonce).and_then(|nonce| self.cipher(salt).encrypt(&nonce, payload).ok());
        // Fails beyond 64 GiB only; a text without a body never opens.
        let bytes = [&head[..], &sealed.unwrap_or_default()].concat();
        format!("{VERSION}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }

    pub(super) fn open(&self, row_id: &str, text: &str) -> Result<Vec<u8>, SealError> {
        let encoded = text.strip_prefix(VERSION).ok_or(SealError)?;
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(encoded).map_err(|_| SealError)?;
        let (salt, rest) = bytes.split_at_checked(SALT).ok_or(SealError)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE).ok_or(SealError)?;
        let nonce = nonce_of(nonce).ok_or(SealError)?;
        self.cipher(salt).decrypt(&nonce, Payload { msg: sealed, aad: row_id.as_bytes() }).map_err(|_| SealError)
    }

    /// HMAC-SHA-256 of a text under the tenant's evidence key.
    pub(super) fn evidence(&self, tenant: &str, text: &str) -> String {
        let key = mac(&self.0, &[b"countersign/evidence/v1\n", tenant.as_bytes()]);
        format!("hmac-sha256:{}", hex(&mac(&key, &[text.as_bytes()])))
    }

    /// HMAC-SHA-256 of a copy of a policy set, in the order of its files' names.
    pub(super) fn copy(&self, hash: &str, said: &str, files: &[(String, String)]) -> String {
        let mut files: Vec<&(String, String)> = files.iter().collect();
        files.sort();
        let texts = [hash, said].into_iter().chain(files.into_iter().flat_map(|(name, text)| [&**name, &**text]));
        // With their lengths before them, no two lists of texts are one.
        let text: Vec<u8> = texts.flat_map(|it| [&it.len().to_be_bytes(), it.as_bytes()].concat()).collect();
        let key = mac(&self.0, &[b"countersign/policy-copy/v1\n"]);
        hex(&mac(&key, &[&text]))
    }

    /// What the database remembers of its key, to tell another one at once.
    pub(super) fn check(&self) -> String {
        hex(&mac(&self.0, &[b"countersign/key-check/v1\n"]))
    }

    fn cipher(&self, salt: &[u8]) -> Aes256Gcm {
        Aes256Gcm::new(&mac(&self.0, &[b"countersign/seal/v1\n", salt]).into())
    }
}

fn nonce_of(bytes: &[u8]) -> Option<Nonce<aes_gcm::aead::consts::U12>> {
    <[u8; NONCE]>::try_from(bytes).ok().map(Into::into)
}

/// HMAC-SHA-256 (RFC 2104) of some texts, one after the other.
fn mac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new(&block(key));
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// A short key is padded with zeros to the block size: RFC 2104, section 2.
fn block(key: &[u8; 32]) -> hmac::digest::Key<Hmac<Sha256>> {
    let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
    block[..32].copy_from_slice(key);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::new([7; 32])
    }

    #[test]
    fn exe_6_a_seal_opens_with_its_key_and_row_only() {
        let text = key().seal("exe-1", b"{\"amount\":1}");
        assert_eq!(key().open("exe-1", &text), Ok(b"{\"amount\":1}".to_vec()));
        assert_eq!(key().open("exe-2", &text), Err(SealError));
        assert_eq!(Key::new([8; 32]).open("exe-1", &text), Err(SealError));
        assert_ne!(text, key().seal("exe-1", b"{\"amount\":1}"), "equal inputs do not look equal");
    }

    #[test]
    fn exe_6_a_changed_text_does_not_open() {
        let text = key().seal("exe-1", b"secret");
        for i in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[i] = if bytes[i] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(key().open("exe-1", &changed), Err(SealError), "at {i}");
        }
        for short in ["", "v1.", "v1.AAAA", "v2.AAAA", "secret"] {
            assert_eq!(key().open("exe-1", short), Err(SealError), "{short}");
        }
    }

    #[test]
    fn an_empty_input_is_an_input() {
        assert_eq!(key().open("a", &key().seal("a", b"")), Ok(Vec::new()));
    }

    #[test]
    fn evidence_differs_by_tenant_key_and_text() {
        let one = key().evidence("t1", "sha256:00");
        assert_eq!(one.len(), "hmac-sha256:".len() + 64);
        assert_eq!(one, key().evidence("t1", "sha256:00"));
        assert_ne!(one, key().evidence("t2", "sha256:00"));
        assert_ne!(one, key().evidence("t1", "sha256:01"));
        assert_ne!(one, Key::new([8; 32]).evidence("t1", "sha256:00"));
    }

    #[test]
    fn a_copys_seal_depends_on_every_text_and_on_where_it_ends() {
        let of = |hash: &str, said: &str, files: &[(&str, &str)]| {
            let files: Vec<_> = files.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect();
            key().copy(hash, said, &files)
        };
        let all = [
            of("h", "s", &[("a", "1"), ("b", "2")]),
            of("H", "s", &[("a", "1"), ("b", "2")]),
            of("h", "S", &[("a", "1"), ("b", "2")]),
            of("h", "s", &[("a", "1b"), ("", "2")]),
            of("h", "s", &[("a", "2"), ("b", "1")]),
            of("h", "s", &[("a", "1")]),
            Key::new([8; 32]).copy("h", "s", &[]),
            of("h", "s", &[]),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(all[0], of("h", "s", &[("b", "2"), ("a", "1")]), "files have no order");
    }

    #[test]
    fn the_mac_is_hmac_sha_256() {
        // RFC 4231, test case 2's data under a 32-byte key, from another implementation.
        insta::assert_snapshot!(hex(&mac(&[0x0b; 32], &[b"Hi ", b"There"])), @"198a607eb44bfbc69903a0f1cf2bbdc5ba0aa3f3d9ae3c1c7a3b1696a0b68cf7");
    }
}
