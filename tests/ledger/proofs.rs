//! Proof files: every bit of one counts.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use countersign::verify::{self, Given, Proved};
use ed25519_dalek::{Signer as _, SigningKey};
use sha2::{Digest as _, Sha256};

use super::offline::flips;
use super::{Forger, Log, ORIGIN};

/// A log of so many events, all of them signed.
async fn signed(events: i64) -> Log {
    let log = Log::new().await;
    log.call(2).await;
    let mut forger = Forger::at(&log.place.database()).await;
    let (begun,): (i64,) = sqlx::query_as("SELECT seq FROM audit_head").fetch_one(&mut forger.0).await.unwrap();
    forger.records(events - begun).await;
    forger.leaves().await;
    assert_eq!(i64::try_from(log.checkpoint().await.size).unwrap(), events);
    log
}

/// The proof of one event, as the command line writes it.
fn proof(database: &Path, seq: i64) -> String {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_countersign"));
    let database = format!("sqlite:{}", database.display());
    let output = command.args(["audit", "prove", &seq.to_string(), "--db", &database]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn known(log: &Log) -> Given {
    Given::new().keys(log.key.public()).unwrap()
}

/// What a file with these bytes proves; nothing if it is no proof, or no text.
fn proved(bytes: &[u8], given: &Given) -> Option<Proved> {
    let proved = std::str::from_utf8(bytes).ok().and_then(|it| verify::proof(it, None, given).ok());
    proved.filter(|it| it.ok)
}

/// Where a proof's checkpoint begins.
fn note(proof: &str) -> usize {
    proof.find("\n\n").unwrap() + 2
}

/// Event, place and path are covered by the signed root, so of them flips are found without the key, and that much
/// sooner. In the checkpoint the key is what finds them: name, size, root, and every part of the signature.
fn is_found(bytes: &[u8], proof: &str, key: &Given) -> bool {
    let is_in_note = bytes[..note(proof)] == proof.as_bytes()[..note(proof)];
    let given = if is_in_note { key.clone() } else { Given::new() };
    proved(bytes, &given).is_none()
}

#[tokio::test]
async fn every_single_flipped_bit_of_a_proof_is_found() {
    let log = signed(9).await;
    let key = known(&log);
    for seq in [1, 6, 9] {
        let proof = proof(&log.place.database(), seq);
        assert!(proved(proof.as_bytes(), &key).is_some_and(|it| it.signed && it.entry.starts_with(b"{\"")));
        // The checkpoint is the same in all of them.
        let end = if seq == 1 { proof.len() } else { note(&proof) };
        for (at, bit) in (0..end).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut bytes = proof.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            assert!(is_found(&bytes, &proof, &key), "event {seq}: bit {bit} of byte {at}");
        }
    }
}

#[tokio::test]
async fn of_10_000_flipped_bits_of_a_proof_from_a_large_log_every_one_is_found() {
    let log = signed(700).await;
    let key = known(&log);
    for seq in [1, 300, 700] {
        let proof = proof(&log.place.database(), seq);
        assert!(proved(proof.as_bytes(), &key).is_some(), "{proof}");
        flips(&proof, 10_000 / 3 + 1, |bytes| is_found(bytes, &proof, &key));
    }
}

#[tokio::test]
async fn a_proof_is_written_in_one_way_only() {
    let log = signed(9).await;
    let key = known(&log);
    let whole = proof(&log.place.database(), 7);
    let lines: Vec<&str> = whole.lines().collect();
    assert_eq!((lines[2], lines.len()), ("index 6", 13), "{whole}");
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines: Vec<String> = lines.iter().map(|it| (*it).to_owned()).collect();
        change(&mut lines);
        lines.join("\n") + "\n"
    };
    assert_eq!(with(&|_| {}), whole);
    let changed = [
        whole.trim_end().to_owned(),
        format!("{whole}\n"),
        format!("{whole}more\n"),
        format!(" {whole}"),
        format!("\u{feff}{whole}"),
        format!("{whole}{whole}"),
        whole.replace('\n', "\r\n"),
        with(&|it| it[0].push(' ')),
        with(&|it| it[0] = "c2sp.org/tlog-proof@v2".into()),
        with(&|it| it.insert(1, it[1].clone())),
        with(&|it| it.swap(1, 2)),
        with(&|it| it[1].push('=')),
        with(&|it| it[1].push(' ')),
        with(&|it| it[2] = "index 06".into()),
        with(&|it| it[2] = "index +6".into()),
        with(&|it| it[2] = "index 5".into()),
        with(&|it| it[2] = "index 6 ".into()),
        with(&|it| it[2] = format!("index {}", u64::MAX)),
        with(&|it| it.insert(3, "other line".into())),
        with(&|it| it.insert(3, it[3].clone())),
        with(&|it| it.insert(3, String::new())),
        with(&|it| it.swap(3, 4)),
        with(&|it| drop(it.remove(3))),
        with(&|it| it[3].truncate(43)),
        with(&|it| it.insert(11, "an extension".into())),
        with(&|it| it[12].push(' ')),
        with(&|it| it[12] = it[12].trim_end_matches('=').into()),
        with(&|it| drop(it.remove(12))),
    ];
    for it in changed {
        assert_eq!(proved(it.as_bytes(), &key), None, "{it}");
    }
    // What somebody else signed below is no claim of this log: keys that are not known are passed over.
    let more = with(&|it| it.push(format!("\u{2014} witness.example {}", BASE64_STANDARD.encode([7; 76]))));
    assert_eq!(proved(more.as_bytes(), &key), proved(whole.as_bytes(), &key));
}

#[tokio::test]
async fn a_proof_that_brings_another_event_than_the_one_in_question_proves_nothing() {
    let log = signed(9).await;
    let key = known(&log);
    let proof = proof(&log.place.database(), 7);
    let entry = proved(proof.as_bytes(), &key).unwrap().entry;
    let bare: String = proof.split_inclusive('\n').filter(|it| !it.starts_with("extra ")).collect();
    let other = proof.replacen("extra ", "extra AAAA", 1);
    let is_proved = |text: &str, entry: Option<&[u8]>| verify::proof(text, entry, &key).map(|it| it.ok).ok();
    assert_eq!(is_proved(&proof, Some(&entry)), Some(true));
    assert_eq!(is_proved(&bare, Some(&entry)), Some(true));
    assert_eq!(is_proved(&bare, None), None);
    assert_eq!(is_proved(&bare, Some(b"{}")), Some(false));
    assert_eq!(is_proved(&other, Some(&entry)), Some(false));
}

/// A log of one event, whose checkpoint is signed under some log's name.
fn by_hand(origin: &str, signer: &str) -> (String, String) {
    let key = SigningKey::from_bytes(&[7; 32]);
    let encoded = [&[1][..], key.verifying_key().as_bytes()].concat();
    let id = Sha256::new_with_prefix(signer).chain_update("\n").chain_update(&encoded).finalize()[..4].to_vec();
    let public = format!("{signer}+{}+{}", super::hex(&id), BASE64_STANDARD.encode(&encoded));
    let root = BASE64_STANDARD.encode(Sha256::new_with_prefix([0]).chain_update("{}").finalize());
    let text = format!("{origin}\n1\n{root}\n");
    let signature = BASE64_STANDARD.encode([&id[..], &key.sign(text.as_bytes()).to_bytes()].concat());
    (public, format!("c2sp.org/tlog-proof@v1\nextra e30=\nindex 0\n\n{text}\n\u{2014} {signer} {signature}\n"))
}

#[tokio::test]
async fn a_trusted_key_signs_for_its_own_log_only() {
    let ours = Log::new().await.key.public().to_owned();
    for (origin, ok) in [("other.example/log", true), (ORIGIN, false)] {
        let (other, proof) = by_hand(origin, "other.example/log");
        let both = Given::new().keys(&format!("{ours}\n{other}\n")).unwrap();
        assert_eq!(proved(proof.as_bytes(), &both).is_some(), ok, "{origin}");
    }
}
