//! Signed notes (C2SP signed-note), checkpoints (C2SP tlog-checkpoint) and the keys that sign them, read strictly.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest as _, Sha256};

use super::hash::Hash;

/// What a statement of rotation begins with.
const ROTATION: &str = "countersign key rotation v1";

/// The most signatures of a note.
const MAX_SIGNATURES: usize = 100;

/// What a line of a signature begins with.
const DASH: &str = "\u{2014} ";

/// A note: its text, and who is said to have signed it.
#[derive(Clone, Debug)]
pub(super) struct Note {
    /// As it was signed, with the line break at its end.
    pub(super) text: String,
    signatures: Vec<(String, [u8; 4], Vec<u8>)>,
    /// All of it.
    pub(super) whole: String,
}

/// What a note's signatures are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worth {
    /// A known key signed it.
    Good,
    /// No known key did.
    Unknown,
    /// A known key is named, and did not.
    Bad,
}

impl Note {
    /// Reads one note and nothing else.
    pub(super) fn parse(whole: &str) -> Option<Self> {
        let (text, signatures) = whole.rsplit_once("\n\n")?;
        let lines = signatures.strip_suffix('\n')?;
        let signatures: Vec<_> = lines.split('\n').map(signature).collect::<Option<_>>()?;
        let is_plain = !whole.chars().any(|it| it.is_control() && it != '\n');
        let fits = is_plain && signatures.len() <= MAX_SIGNATURES && !text.is_empty();
        fits.then(|| Self { text: format!("{text}\n"), signatures, whole: whole.to_owned() })
    }

    pub(super) fn worth(&self, keys: &[PublicKey]) -> Worth {
        let mut worth = Worth::Unknown;
        for (name, id, bytes) in &self.signatures {
            for key in keys.iter().filter(|it| it.name == *name && it.id == *id) {
                if !key.has_signed(&self.text, bytes) {
                    return Worth::Bad;
                }
                worth = Worth::Good;
            }
        }
        worth
    }

    /// As [`Self::worth`], for a checkpoint of this log: that another log's key signed it says nothing.
    pub(super) fn worth_to(&self, origin: &str, keys: &[PublicKey]) -> Worth {
        let own: Vec<_> = keys.iter().filter(|it| it.name == origin).cloned().collect();
        match self.worth(keys) {
            Worth::Good => self.worth(&own),
            worth @ (Worth::Unknown | Worth::Bad) => worth,
        }
    }
}

fn signature(line: &str) -> Option<(String, [u8; 4], Vec<u8>)> {
    let (name, encoded) = line.strip_prefix(DASH)?.split_once(' ')?;
    let bytes = BASE64_STANDARD.decode(encoded).ok()?;
    let (id, rest) = bytes.split_first_chunk::<4>()?;
    (!rest.is_empty() && !name.is_empty()).then(|| (name.to_owned(), *id, rest.to_vec()))
}

/// The notes of a file in which each is followed by an empty line, and how many parts of it are none. What the note behind
/// it begins with is neither: a full disk left it, and then the whole was written.
pub(super) fn notes(file: &str) -> (Vec<Note>, usize) {
    let (mut notes, mut torn) = (Vec::new(), 0);
    let mut whole: Option<String> = None;
    for part in parts(file).into_iter().rev() {
        if whole.as_ref().is_some_and(|it| it.len() > part.len() && it.starts_with(&part)) {
            continue;
        }
        let note = Note::parse(&format!("{part}\n"));
        torn += usize::from(note.is_none());
        whole = note.is_some().then_some(part);
        notes.extend(note);
    }
    notes.reverse();
    (notes, torn)
}

/// What may be notes: texts with the signatures behind them. Either may lack the other, and both may lack their end, which
/// can be within a character, too.
fn parts(file: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut is_text = false;
    for block in file.split("\n\n") {
        let block = block.trim_start_matches('\n').trim_end_matches(['\n', char::REPLACEMENT_CHARACTER]);
        if block.is_empty() {
            continue;
        }
        let is_signed = block.starts_with(DASH.trim_end());
        match parts.last_mut().filter(|_| is_signed && is_text) {
            Some(text) => text.extend(["\n\n", block]),
            None => parts.push(block.to_owned()),
        }
        is_text = !is_signed;
    }
    parts
}

/// What a checkpoint says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) origin: String,
    pub(super) size: u64,
    pub(super) root: Hash,
}

impl Head {
    /// Reads the text of a checkpoint. Further lines, which the standard allows, are none of our business.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        let (origin, size, root) = (lines.next()?, lines.next()?, lines.next()?);
        let number: u64 = size.parse().ok()?;
        let root = BASE64_STANDARD.decode(root).ok()?.try_into().ok()?;
        let is_plain = !origin.is_empty() && number.to_string() == size && i64::try_from(number).is_ok();
        is_plain.then(|| Self { origin: origin.to_owned(), size: number, root })
    }
}

/// A key that signs notes: what C2SP signed-note calls a vkey, of Ed25519.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PublicKey {
    pub(super) name: String,
    id: [u8; 4],
    key: VerifyingKey,
}

impl PublicKey {
    /// `name+id+key`, where the id must be that of name and key.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '+');
        let (name, id, encoded) = (parts.next()?, parts.next()?, parts.next()?);
        let bytes = BASE64_STANDARD.decode(encoded).ok()?;
        let (1, key) = bytes.split_first().map(|(kind, key)| (*kind, key))? else { return None };
        let key = VerifyingKey::from_bytes(key.try_into().ok()?).ok()?;
        let digest = Sha256::new_with_prefix(name).chain_update("\n").chain_update(&bytes).finalize();
        let expected: [u8; 4] = digest.first_chunk().copied()?;
        let shown = format!("{:08x}", u32::from_be_bytes(expected));
        let fits = !name.is_empty() && !name.chars().any(char::is_whitespace) && shown == id;
        fits.then(|| Self { name: name.to_owned(), id: expected, key })
    }

    fn has_signed(&self, text: &str, signature: &[u8]) -> bool {
        let signature = signature.try_into().map(|it| Signature::from_bytes(&it));
        signature.is_ok_and(|it| self.key.verify_strict(text.as_bytes(), &it).is_ok())
    }

    /// What a statement of rotation adds to known keys: the new one, if a known one and it itself signed that.
    pub(super) fn succeeding(note: &Note, known: &[Self]) -> Option<Self> {
        let mut lines = note.text.lines();
        let (ROTATION, Some(old), Some(new), None) = (lines.next()?, lines.next(), lines.next(), lines.next()) else {
            return None;
        };
        let (old, new) = (Self::parse(old)?, Self::parse(new)?);
        let by = |key: &Self| note.worth(std::slice::from_ref(key)) == Worth::Good;
        (known.contains(&old) && old.name == new.name && by(&old) && by(&new)).then_some(new)
    }
}
