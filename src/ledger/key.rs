//! The log's key: Ed25519, in the form that C2SP signed-note gives keys.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::SigningKey;
use signed_note::{
    Note, Signer as _, StandardSigner, StandardVerifier, Verifier, VerifierList, is_key_name_valid, key_id,
    new_ed25519_verifier_key,
};

use crate::id::random;

/// The longest name of a log.
const MAX_ORIGIN: usize = 255;

/// What a statement of rotation begins with.
#[cfg(feature = "cli")]
const ROTATION: &str = "countersign key rotation v1";

/// Why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The first line is no private key of a signed note.
    #[error("it does not begin with a private key, `PRIVATE+KEY+..`")]
    NotPrivate,
    /// A later line is no public key of a signed note.
    #[error("a line behind the first is no public key of an earlier time")]
    NotPublic,
    /// A log's name has 1..=255 bytes, no white space, no control characters and no plus sign.
    #[error("a log's name has 1 to 255 bytes, no white space and no plus sign")]
    Origin,
}

/// Signs checkpoints, and knows the public keys that it came after. `Debug` never shows the key.
#[derive(Clone)]
pub struct LogKey {
    signer: StandardSigner,
    #[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "for the command line"))]
    text: String,
    public: String,
    earlier: Vec<String>,
}

impl fmt::Debug for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogKey({})", self.public)
    }
}

impl LogKey {
    /// A new key for the log of this name: by convention where it is served, without the scheme,
    /// `audit.example.com/countersign`.
    ///
    /// # Errors
    /// If the name is none.
    pub fn generate(origin: &str) -> Result<Self, KeyError> {
        let plain = !origin.chars().any(char::is_control) && origin.len() <= MAX_ORIGIN;
        if !plain || !is_key_name_valid(origin) {
            return Err(KeyError::Origin);
        }
        let secret = random::<32>();
        let key = SigningKey::from_bytes(&secret);
        let public = [&[1][..], key.verifying_key().as_bytes()].concat(); // 1: Ed25519
        let id = key_id(origin, &public);
        let private = BASE64_STANDARD.encode([&[1][..], &secret].concat());
        Self::parse(&format!("PRIVATE+KEY+{origin}+{id:08x}+{private}"))
    }

    /// Reads a key file: the private key, then the public keys of earlier times, a line each.
    ///
    /// # Errors
    /// Never with any of the text in it.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let mut lines = text.lines().map(str::trim).filter(|it| !it.is_empty());
        let first = lines.next().ok_or(KeyError::NotPrivate)?;
        let signer = StandardSigner::new(first).map_err(|_| KeyError::NotPrivate)?;
        // Base64 may have plus signs in it: the key is all that follows the fourth one.
        let encoded = first.splitn(5, '+').nth(4).ok_or(KeyError::NotPrivate)?;
        let secret = BASE64_STANDARD.decode(encoded).map_err(|_| KeyError::NotPrivate)?;
        let secret: [u8; 32] = secret.get(1..).and_then(|it| it.try_into().ok()).ok_or(KeyError::NotPrivate)?;
        let verifying = SigningKey::from_bytes(&secret).verifying_key();
        let public = new_ed25519_verifier_key(signer.name(), &verifying);
        let earlier: Vec<String> = lines.map(str::to_owned).collect();
        let is_ours = |it: &String| StandardVerifier::new(it).is_ok_and(|it| it.name() == signer.name());
        if !earlier.iter().all(is_ours) {
            return Err(KeyError::NotPublic);
        }
        Ok(Self { text: first.to_owned(), public, earlier, signer })
    }

    /// The key file's text. A secret.
    #[cfg(feature = "cli")]
    pub(crate) fn reveal(&self) -> String {
        let lines: Vec<_> = std::iter::once(&self.text).chain(&self.earlier).map(|it| format!("{it}\n")).collect();
        lines.concat()
    }

    /// The log's name, which every checkpoint begins with.
    pub fn origin(&self) -> &str {
        self.signer.name()
    }

    /// The public key, in the form that C2SP signed-note calls a vkey: what auditors keep.
    pub fn public(&self) -> &str {
        &self.public
    }

    /// The public keys before this one, the first one first.
    pub fn earlier(&self) -> &[String] {
        &self.earlier
    }

    /// Another key of the same log, and the statement with which each of the two vouches for the other.
    #[cfg(feature = "cli")]
    pub(crate) fn rotated(&self) -> Result<(Self, String), KeyError> {
        let next = Self::generate(self.origin())?;
        let earlier = self.earlier.iter().chain([&self.public]).cloned().collect();
        let next = Self { earlier, ..next };
        let text = format!("{ROTATION}\n{}\n{}\n", self.public, next.public);
        let mut note = Note::new(text.as_bytes(), &[]).map_err(|_| KeyError::Origin)?;
        note.add_sigs(&[&self.signer, &next.signer]).map_err(|_| KeyError::Origin)?;
        let note = String::from_utf8(note.to_bytes()).map_err(|_| KeyError::Origin)?;
        Ok((next, note))
    }

    /// Signs a note's text. `None` only if that is no text of a note.
    pub(super) fn sign(&self, text: &str) -> Option<String> {
        let mut note = Note::new(text.as_bytes(), &[]).ok()?;
        note.add_sigs(&[&self.signer]).ok()?;
        String::from_utf8(note.to_bytes()).ok()
    }

    /// The text of a note that this key or an earlier one signed.
    pub(super) fn check(&self, note: &str) -> Option<String> {
        let keys = std::iter::once(&self.public).chain(&self.earlier);
        let verifiers = keys.filter_map(|it| StandardVerifier::new(it).ok());
        let known = VerifierList::new(verifiers.map(|it| Box::new(it) as Box<dyn Verifier>).collect());
        let note = Note::from_bytes(note.as_bytes()).ok()?;
        note.verify(&known).ok()?;
        String::from_utf8(note.text().to_vec()).ok()
    }
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written_and_shown_to_nobody() {
        for _ in 0..64 {
            let key = LogKey::generate("example.com/log").unwrap();
            let read = LogKey::parse(&key.reveal()).unwrap();
            assert_eq!((read.public(), read.origin()), (key.public(), "example.com/log"));
            assert_eq!(format!("{read:?}"), format!("LogKey({})", key.public()));
        }
    }

    #[test]
    fn a_name_that_would_break_a_note_is_refused() {
        for origin in ["", "a b", "a+b", "a\nb", "a\u{a0}b", "a\u{7}b", &"x".repeat(256)] {
            assert_eq!(LogKey::generate(origin).unwrap_err(), KeyError::Origin, "{origin:?}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let key = LogKey::generate("example.com/log").unwrap();
        let other = LogKey::generate("example.com/other").unwrap();
        assert_eq!(LogKey::parse("").unwrap_err(), KeyError::NotPrivate);
        assert_eq!(LogKey::parse(key.public()).unwrap_err(), KeyError::NotPrivate);
        assert_eq!(LogKey::parse(&format!("{}{}", key.reveal(), "x")).unwrap_err(), KeyError::NotPublic);
        assert_eq!(LogKey::parse(&format!("{}{}", key.reveal(), other.public())).unwrap_err(), KeyError::NotPublic);
    }

    #[test]
    fn after_a_rotation_notes_of_the_old_key_are_still_this_logs() {
        let old = LogKey::generate("example.com/log").unwrap();
        let note = old.sign("text\n").unwrap();
        let (new, statement) = old.rotated().unwrap();
        let (newer, _) = LogKey::parse(&new.reveal()).unwrap().rotated().unwrap();
        assert_eq!(newer.earlier(), [old.public(), new.public()]);
        assert_eq!(newer.check(&note).as_deref(), Some("text\n"));
        assert_eq!(old.check(&newer.sign("text\n").unwrap()), None);
        assert!(old.check(&statement).is_some() && new.check(&statement).is_some());
        assert_eq!(LogKey::generate("example.com/log").unwrap().check(&statement), None);
    }
}
