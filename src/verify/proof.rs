//! One event with its proof (C2SP tlog-proof).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::VerifyError;
use super::given::Given;
use super::hash::{Hash, follow, leaf};
use super::note::{Head, Note, Worth};

/// What a proof proves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proved {
    /// Whether the event is in the log that was signed.
    pub ok: bool,
    /// Its place in the log, from 1.
    pub seq: u64,
    /// How many events the checkpoint covers.
    pub size: u64,
    /// The log's name.
    pub origin: String,
    /// Whether a known key signed that; without one nobody knows.
    pub signed: bool,
    /// The event.
    pub entry: Vec<u8>,
}

/// Checks that an event is in the log: `entry` is its bytes, or those that the proof brings along; if there are both, they
/// must be the same.
///
/// Every bit of a proof counts, but for signatures of keys that are not given: of these nobody knows.
///
/// # Errors
/// If it is no proof. Whether it proves anything is in the answer.
pub fn proof(text: &str, entry: Option<&[u8]>, given: &Given) -> Result<Proved, VerifyError> {
    let no = VerifyError::NoProof;
    let (head, note) = text.split_once("\n\n").ok_or(no("there is no checkpoint in it"))?;
    let mut lines = head.split('\n');
    if lines.next() != Some("c2sp.org/tlog-proof@v1") {
        return Err(no("it does not begin with `c2sp.org/tlog-proof@v1`"));
    }
    let mut line = lines.next().unwrap_or_default();
    let mut extra = None;
    if let Some(encoded) = line.strip_prefix("extra ") {
        extra = Some(BASE64_STANDARD.decode(encoded).map_err(|_| no("its extra data is not Base64"))?);
        line = lines.next().unwrap_or_default();
    }
    let index = line.strip_prefix("index ").filter(|it| it.parse::<u64>().is_ok_and(|n| n.to_string() == **it));
    let index: u64 = index.and_then(|it| it.parse().ok()).ok_or(no("it has no index"))?;
    let hash = |it: &str| BASE64_STANDARD.decode(it).ok()?.try_into().ok();
    let path: Vec<Hash> = lines.map(hash).collect::<Option<_>>().ok_or(no("a line of its path is no hash"))?;
    let note = Note::parse(note).ok_or(no("its checkpoint is no signed note"))?;
    let checkpoint = Head::parse(&note.text).ok_or(no("its note is no checkpoint"))?;
    let agrees = entry.zip(extra.as_deref()).is_none_or(|(given, brought)| given == brought);
    let entry = entry.map(<[u8]>::to_vec).or(extra).ok_or(no("it has no event with it, and none was given"))?;
    let signed = note.worth_to(&checkpoint.origin, &given.keys) == Worth::Good;
    let leads = follow(index, checkpoint.size, leaf(&entry), &path) == Some(checkpoint.root);
    let ok = leads && agrees && (signed || given.keys.is_empty());
    let Head { origin, size, .. } = checkpoint;
    Ok(Proved { ok, seq: index.saturating_add(1), size, origin, signed, entry })
}
