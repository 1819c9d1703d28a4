//! Proofs that an event is in the log (C2SP tlog-proof).

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tlog_tiles::{HashReader as _, prove_record, record_hash, stored_hash_index};

use super::{LedgerError, nodes};
use crate::store::LogReader;

/// A proof that the event at this place is in the tree of the last checkpoint, with its bytes as extra data; `None` if no
/// checkpoint covers it.
///
/// # Errors
/// If the tree has no proof of it, or the database cannot be read.
pub(crate) async fn prove(log: &LogReader, seq: u64, body: &str) -> Result<Option<String>, LedgerError> {
    let Some((size, note)) = log.last_checkpoint().await? else { return Ok(None) };
    let size = u64::try_from(size).unwrap_or(0);
    let Some(index) = seq.checked_sub(1).filter(|it| *it < size) else { return Ok(None) };
    let hashes = nodes::ask(log, |it| prove_record(size, index, it)).await?;
    let leaf = nodes::ask(log, |it| it.read_hashes(&[stored_hash_index(0, index)])).await?;
    if leaf.first() != Some(&record_hash(body.as_bytes())) {
        return Err(LedgerError::Refused(format!("this event {seq} is another one than its tree has")));
    }
    let mut text = format!("c2sp.org/tlog-proof@v1\nextra {}\nindex {index}\n", BASE64_STANDARD.encode(body));
    for hash in hashes {
        let _ = writeln!(text, "{hash}"); // into a String: cannot fail
    }
    text.push('\n');
    text.push_str(&note);
    Ok(Some(text))
}
