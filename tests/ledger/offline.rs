//! Verification away from the database: exports, earlier checkpoints, single events.

use countersign::verify::{self, Given, Report};

use super::{Forger, Log, ORIGIN, auditor, exported, told, verified};

fn check(export: &str, given: &Given) -> Report {
    verify::export(export.as_bytes(), given, &mut |_, _| {}).unwrap()
}

/// A signed log, its export, and what an auditor has.
async fn signed(more: i64) -> (String, Given) {
    let log = Log::new().await;
    log.call(2).await;
    let mut forger = Forger::at(&log.place.database()).await;
    forger.records(more).await;
    forger.leaves().await;
    let (place, key) = log.close().await;
    (exported(&place.database()).await, auditor(&key, &place.database()))
}

#[tokio::test]
async fn an_export_is_verified_without_a_database() {
    let (export, given) = signed(300).await;
    let report = check(&export, &given);
    let count = export.lines().count() as u64;
    assert_eq!((told(&report), report.events, report.covered), (vec![], count, count));
}

#[tokio::test]
async fn what_happens_to_an_export_is_named() {
    let (export, given) = signed(20).await;
    let lines: Vec<String> = export.split_inclusive('\n').map(str::to_owned).collect();
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines = lines.clone();
        change(&mut lines);
        told(&check(&lines.concat(), &given))
    };
    let renumbered = |lines: &mut Vec<String>, from: usize| {
        for (at, line) in lines.iter_mut().enumerate().skip(from) {
            let (head, _) = line.rsplit_once(':').unwrap();
            *line = format!("{head}:{}}}\n", at + 1);
        }
    };
    let last = lines.len();
    assert_eq!(with(&|_| {}), [""; 0]);
    assert_eq!(with(&|it| it[9] = it[9].replace("acme", "acne")), ["10 edited"]);
    // What is missing cannot be hashed: the checkpoint that covers it says nothing of the others, either.
    assert_eq!(with(&|it| drop(it.remove(9))), [format!("1..{last} anchor"), "10 missing".into()]);
    assert_eq!(with(&|it| drop(it.pop())), [format!("{last} tail")]);
    assert_eq!(with(&|it| it.insert(9, it[9].clone())), ["10 inserted"]);
    assert_eq!(with(&|it| it[9] = "{}\n".into()), [format!("1..{last} anchor"), "10 edited".into()]);
    // Renumbered, it is whole in itself; what was signed says otherwise.
    let found = with(&|it| {
        it.remove(9);
        renumbered(it, 9);
    });
    assert_eq!(found, [format!("{last} tail")]);
    let found = with(&|it| {
        it.swap(9, 10);
        renumbered(it, 9);
    });
    assert_eq!(found, [format!("1..{last} anchor")]);
}

/// Flips bits of a text, the same in every run, and gives each result to a check.
pub(super) fn flips(text: &str, count: u32, mut found: impl FnMut(&[u8]) -> bool) {
    let mut state = 42_u64;
    let mut random = |below: usize| {
        state ^= state << 13; // xorshift
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    for _ in 0..count {
        let (at, bit) = (random(text.len()), random(8));
        let mut bytes = text.as_bytes().to_vec();
        bytes[at] ^= 1 << bit;
        assert!(found(&bytes), "bit {bit} of byte {at}");
    }
}

#[tokio::test]
async fn of_10_000_flipped_bits_of_an_export_every_one_is_found() {
    let log = Log::new().await;
    log.call(2).await;
    let (place, _) = log.close().await;
    let export = exported(&place.database()).await;
    // The checkpoint is not what is flipped, so its signature need not be checked 10,000 times.
    let anchored = std::fs::read_to_string(super::anchor(&place.database())).unwrap();
    let given = Given::new().anchor("the anchor", &anchored);
    assert_eq!(told(&check(&export, &given)), [""; 0]);
    flips(&export, 10_000, |bytes| !verify::export(bytes, &given, &mut |_, _| {}).unwrap().ok);
}

#[tokio::test]
async fn flipped_bits_of_a_checkpoint_are_found() {
    let log = Log::new().await;
    log.call(2).await;
    let checkpoint = log.checkpoint().await.note;
    let key = Given::new().keys(log.key.public()).unwrap();
    let export = exported(&log.place.database()).await;
    assert_eq!(told(&check(&export, &key.clone().checkpoints(&checkpoint))), [""; 0]);
    flips(&checkpoint, 300, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return true };
        !check(&export, &key.clone().checkpoints(text)).ok
    });
}

#[tokio::test]
async fn the_next_verification_goes_on_where_the_last_one_ended() {
    let log = Log::new().await;
    log.call(3).await;
    let mut forger = Forger::at(&log.place.database()).await;
    forger.records(700).await;
    let first = log.checkpoint().await;
    let database = log.place.database();
    let before = exported(&database).await;
    let given = Given::new().keys(log.key.public()).unwrap().checkpoints(&first.note);
    let report = check(&before, &given);
    let saved = report.verified().unwrap().to_owned();
    assert_eq!(verified(&database, &given).await.verified(), Some(&*saved));
    forger.records(30).await;
    let second = log.checkpoint().await;
    let after = exported(&database).await;
    let rest = after.strip_prefix(&before).unwrap();
    let given = Given::new().keys(log.key.public()).unwrap().checkpoints(&second.note);
    let went_on = check(rest, &given.clone().from(&saved).unwrap());
    assert_eq!((told(&went_on), went_on.events, went_on.covered), (vec![], 30, second.size));
    for start in [&saved, &first.note] {
        let report = verified(&database, &given.clone().from(start).unwrap()).await;
        assert_eq!((told(&report), report.events), (vec![], 30));
    }
    // From a checkpoint alone an export cannot go on, and from one of a stranger nothing can.
    assert!(verify::export(rest.as_bytes(), &given.clone().from(&first.note).unwrap(), &mut |_, _| {}).is_err());
    let stranger = countersign::LogKey::generate(ORIGIN).unwrap();
    assert!(Given::new().keys(stranger.public()).unwrap().from(&saved).is_err());
    // What was changed behind the start is found; the start itself is what it was.
    forger.does("UPDATE audit_event SET body = REPLACE(body, 'acme', 'acne') WHERE seq = 720").await;
    let report = verified(&database, &given.from(&saved).unwrap()).await;
    assert_eq!(told(&report), ["720 edited"]);
}
