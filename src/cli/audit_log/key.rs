//! `audit key`: making, showing and rotating the log's key.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::args::{KeyNew, KeyShow};
use super::files::{append, beside, private, replace, write};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::screen::{Answer, facts};
use crate::ledger::LogKey;

/// What precedes an Ed25519 key in the form that X.509 gives it (RFC 8410).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

pub(super) fn new(args: &KeyNew) -> Result<Answer, Failure> {
    let key = LogKey::generate(&args.origin)
        .map_err(|it| Failure::could_not_run(it.to_string(), "choose another name: `--origin audit.example.com`"))?;
    write(&args.out, &key.reveal(), true, true)?;
    let public = beside(&args.out, ".pub");
    write(&public, &format!("{}\n", key.public()), true, false)?;
    let (file, public_file) = (args.out.display().to_string(), public.display().to_string());
    let json = json!({"file": file, "public_file": public_file, "public": key.public()});
    let text = facts(&[("private key", file), ("public key", public_file), ("for auditors", key.public().to_owned())]);
    Ok(Answer::new(Exit::Done, &json, text))
}

pub(super) fn show(args: &KeyShow) -> Result<Answer, Failure> {
    let (key, _) = private(&args.private)?;
    let pem = pem(&key);
    let json = json!({"origin": key.origin(), "public": key.public(), "pem": pem, "earlier": key.earlier()});
    let mut rows = vec![("log", key.origin().to_owned()), ("public key", key.public().to_owned())];
    rows.extend(key.earlier().iter().map(|it| ("earlier", it.clone())));
    Ok(Answer::new(Exit::Done, &json, facts(&rows) + &pem))
}

pub(super) fn rotate(args: &KeyShow) -> Result<Answer, Failure> {
    let (key, path) = private(&args.private)?;
    let Some(path) = path else {
        let next = "put it in a file, and name that with `--key`";
        return Err(Failure::could_not_run("a key in the environment cannot be replaced", next));
    };
    let wrong = |it: crate::KeyError| Failure::could_not_run(it.to_string(), "report it");
    let (next, statement) = key.rotated().map_err(wrong)?;
    let public = beside(&path, ".pub");
    // The statement first: a key that nobody can follow to would be worse than a statement about none.
    append(&public, &format!("\n{statement}"))?;
    replace(&path, &next.reveal())?;
    let json = json!({
        "file": path.display().to_string(), "public_file": public.display().to_string(), "public": next.public(),
        "earlier": next.earlier(), "statement": statement,
    });
    let text = facts(&[
        ("private key", format!("{}: another one, the old one is gone", path.display())),
        ("statement", format!("{}: give it to whoever has the old public key", public.display())),
        ("for auditors", next.public().to_owned()),
    ]);
    Ok(Answer::new(Exit::Done, &json, text))
}

/// The public key as other tools take it.
fn pem(key: &LogKey) -> String {
    let encoded = key.public().splitn(3, '+').nth(2).unwrap_or_default();
    let bytes = BASE64_STANDARD.decode(encoded).unwrap_or_default();
    let bytes = [&SPKI[..], bytes.get(1..).unwrap_or_default()].concat();
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", BASE64_STANDARD.encode(bytes))
}
