//! What is signed, when, and what never is.

use std::time::Duration;

use countersign::testing::Place;
use countersign::{Anchor, LedgerError, LogKey, LogTree};

use super::{Forger, Log, ORIGIN, anchor, auditor, told, verified};
use crate::shop::{App, shop};

async fn sizes(place: &Place) -> Vec<i64> {
    crate::tamper::numbers(&place.database(), "SELECT size FROM ledger_checkpoint ORDER BY size").await
}

#[tokio::test]
async fn a_checkpoint_covers_what_is_on_record_and_is_handed_over() {
    let log = Log::new().await;
    log.call(2).await;
    let first = log.checkpoint().await;
    assert_eq!(first, log.checkpoint().await, "nothing new, nothing signed");
    log.call(1).await;
    let second = log.checkpoint().await;
    assert!(second.size > first.size);
    let health = log.app.engine().log_health();
    assert_eq!((health.events, health.in_tree, health.signed), (second.size, second.size, second.size));
    assert_eq!(health.refusal, None);
    let (place, key) = log.close().await;
    let lines: Vec<_> = second.note.lines().take(2).map(str::to_owned).collect();
    assert_eq!(lines, [ORIGIN.to_owned(), second.size.to_string()]);
    let anchored = std::fs::read_to_string(anchor(&place.database())).unwrap();
    assert!(anchored.contains(&format!("{}\n", first.note)) && anchored.contains(&format!("{}\n", second.note)));
    let report = verified(&place.database(), &auditor(&key, &place.database())).await;
    assert_eq!((told(&report), report.uncovered), (vec![], None), "what closing recorded is signed, too");
}

#[tokio::test]
async fn an_empty_tree_and_a_tree_without_a_key_are_not_signed() {
    let app = App::with(shop().log_tree(LogTree::new())).await;
    assert!(matches!(app.engine().checkpoint().await, Err(LedgerError::NoKey)));
}

#[tokio::test]
async fn events_come_into_the_tree_by_themselves_and_are_signed_when_that_is_due() {
    let place = Place::new().unwrap();
    let key = LogKey::generate(ORIGIN).unwrap();
    let log = LogTree::new().key(key.clone()).every(1_000_000, Duration::from_mins(1));
    let app = App::open(shop().log_tree(log), &place).await;
    app.dana().invoke("ping", serde_json::json!({})).await.into_result().unwrap();
    let health = || app.engine().log_health();
    // Half a second at a time, as far as the clock goes.
    let until = async |holds: &dyn Fn() -> bool| {
        for _ in 0..10_000 {
            if holds() {
                return;
            }
            app.clock().advance(Duration::from_millis(500));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("it never comes: {:?}", health());
    };
    until(&|| health().events > 0 && health().events == health().in_tree).await;
    until(&|| health().signed == health().events).await;
    until(&|| anchor(&place.database()).exists()).await;
}

#[tokio::test]
async fn two_processes_build_one_tree() {
    let place = Place::new().unwrap();
    let key = LogKey::generate(ORIGIN).unwrap();
    let (one, other) = (Log::with(key.clone(), &place).await, Log::with(key.clone(), &place).await);
    for _ in 0..5 {
        one.call(1).await;
        other.call(1).await;
        let (first, second) = tokio::join!(one.app.engine().checkpoint(), other.app.engine().checkpoint());
        let (first, second) = (first.unwrap().unwrap(), second.unwrap().unwrap());
        if first.size == second.size {
            assert_eq!(first, second);
        }
    }
    one.close().await;
    other.close().await;
    let report = verified(&place.database(), &auditor(&key, &place.database())).await;
    assert_eq!((told(&report), report.uncovered), (vec![], None));
}

/// Why the next checkpoint is refused.
async fn refusal(log: &Log) -> String {
    match log.app.engine().checkpoint().await {
        Err(LedgerError::Refused(why)) => why,
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn what_was_signed_and_is_another_now_is_never_signed_over() {
    // What a running process has in memory it writes again; whether it is that is seen by the next one.
    let (both, next) = (&[false, true][..], &[true][..]);
    for (restarts, forgery, expected) in [
        (
            next,
            "UPDATE ledger_tile SET hashes = '00' || SUBSTR(hashes, 3)",
            "its first 8 events are not what was signed",
        ),
        (next, "DELETE FROM ledger_tile", "tile 0 of level 0 is missing or too short"),
        (
            both,
            "DELETE FROM ledger_checkpoint",
            "a checkpoint of 8 events is known, and the last one on record is of 0",
        ),
        (both, "DELETE FROM audit_event WHERE seq > 9", "event 10 is missing"),
        (both, "UPDATE audit_head SET seq = 5", "it has 5 events, its tree 8"),
        (
            both,
            "UPDATE ledger_checkpoint SET note = REPLACE(note, '8', '9')",
            "the last checkpoint is not signed by this log's key",
        ),
    ] {
        for restarts in restarts {
            let mut log = Log::idle(LogKey::generate(ORIGIN).unwrap(), &Place::new().unwrap()).await;
            let mut forger = Forger::at(&log.place.database()).await;
            let (begun,): (i64,) = sqlx::query_as("SELECT seq FROM audit_head").fetch_one(&mut forger.0).await.unwrap();
            forger.records(8 - begun).await;
            assert_eq!(log.checkpoint().await.size, 8);
            forger.records(2).await;
            if *restarts {
                // As after a crash: nothing is remembered but what is stored and anchored.
                let (place, key) = (log.place.clone(), log.key.clone());
                log = Log::idle(key, &place).await;
            }
            forger.does(forgery).await;
            forger.leaves().await;
            let why = refusal(&log).await;
            assert_eq!(why, expected, "{forgery}, {restarts}");
            assert_eq!(log.app.engine().log_health().refusal.as_deref().map(|it| it.contains(&why)), Some(true));
        }
    }
}

#[tokio::test]
async fn the_anchor_remembers_for_the_signer_too() {
    let log = Log::new().await;
    log.call(3).await;
    let (place, key) = log.close().await;
    let old = std::fs::read(place.database()).unwrap();
    let log = Log::with(key.clone(), &place).await;
    log.call(3).await;
    log.close().await;
    let signed = sizes(&place).await;
    std::fs::write(place.database(), old).unwrap();
    let log = Log::with(key, &place).await;
    log.call(9).await;
    let why = refusal(&log).await;
    assert!(why.starts_with(&format!("a checkpoint of {} events is known", signed.last().unwrap())), "{why}");
}

#[tokio::test]
async fn an_anchor_that_fails_shows_until_it_works_again() {
    let place = Place::new().unwrap();
    let key = LogKey::generate(ORIGIN).unwrap();
    let directory = place.database().with_file_name("anchors");
    let file = directory.join("file");
    let log = LogTree::new().key(key).every(1, Duration::from_secs(1)).anchors([Anchor::file(&file)]);
    let app = App::open(shop().log_tree(log), &place).await;
    let health = || app.engine().log_health();
    let until = async |holds: &dyn Fn() -> bool| {
        for _ in 0..10_000 {
            if holds() {
                return;
            }
            app.clock().advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("it never comes: {:?}", health());
    };
    until(&|| !health().anchors.is_empty()).await;
    assert_eq!(health().anchors.values().collect::<Vec<_>>(), ["the file cannot be written"]);
    std::fs::create_dir(&directory).unwrap();
    until(&|| health().anchors.is_empty() && file.exists()).await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_command_gets_checkpoints_on_its_standard_input_and_nothing_else() {
    let place = Place::new().unwrap();
    let key = LogKey::generate(ORIGIN).unwrap();
    let file = place.database().with_file_name("kept");
    let words = ["sh".to_owned(), "-c".to_owned(), format!("cat >> '{0}'; env >> '{0}.env'", file.display())];
    let anchors = [Anchor::command(words).unwrap()];
    let log = LogTree::new().key(key).every(u64::MAX, Duration::from_hours(1)).anchors(anchors);
    let app = App::open(shop().log_tree(log), &place).await;
    app.dana().invoke("ping", serde_json::json!({})).await.into_result().unwrap();
    let checkpoint = app.engine().checkpoint().await.unwrap().unwrap();
    app.engine().shutdown(Duration::from_secs(5)).await;
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(kept.contains(&checkpoint.note), "{kept}");
    let environment = std::fs::read_to_string(format!("{}.env", file.display())).unwrap();
    assert!(!environment.contains("CARGO") && environment.contains("PATH="), "{environment}");
}

#[tokio::test]
async fn after_a_rotation_the_old_checkpoints_are_good_and_the_new_key_is_followed_to() {
    // Made by the command line, whose test is beside this one; here: a log that was signed by two keys.
    let shell = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_countersign"));
        let output = command.args(arguments).current_dir(shell.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let read = |name: &str| std::fs::read_to_string(shell.path().join(name)).unwrap();
    run(&["audit", "key", "new", "--origin", ORIGIN]);
    let (old, public) = (LogKey::parse(&read("log.key")).unwrap(), read("log.key.pub"));
    let place = Place::new().unwrap();
    let log = Log::with(old.clone(), &place).await;
    log.call(2).await;
    log.close().await;
    run(&["audit", "key", "rotate"]);
    let new = LogKey::parse(&read("log.key")).unwrap();
    assert_ne!(new.public(), old.public());
    let log = Log::with(new, &place).await;
    log.call(2).await;
    log.close().await;
    let anchored = std::fs::read_to_string(anchor(&place.database())).unwrap();
    let given = countersign::verify::Given::new().anchor("the anchor", &anchored);
    let followed = given.clone().keys(&read("log.key.pub")).unwrap();
    assert_eq!(told(&verified(&place.database(), &followed).await), [""; 0]);
    let left_behind = given.clone().keys(&public).unwrap();
    assert!(told(&verified(&place.database(), &left_behind).await).iter().all(|it| it.ends_with("signature")));
    let statement = read("log.key.pub").split_once("\n\n").unwrap().1.to_owned();
    let led_on = given.keys(&public).unwrap().rotations(&statement).unwrap();
    assert_eq!(told(&verified(&place.database(), &led_on).await), [""; 0]);
    let forged = statement.replace("v1\n", "v1\n ");
    assert!(countersign::verify::Given::new().keys(&public).unwrap().rotations(&forged).is_err());
}
