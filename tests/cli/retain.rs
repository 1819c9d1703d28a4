//! `audit retain`: what leaves is in an archive that verifies, whatever ends the command, and nothing is missed in silence.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use countersign::testing::Place;
use serde_json::{Value, json};
use sqlx::{ConnectOptions as _, Connection as _};

use super::{Ran, Shell};
use crate::ledger::{Forger, Log, seal};

/// Old events, and a place to work at.
struct Old {
    shell: Shell,
    database: PathBuf,
    _place: Place,
}

impl Old {
    /// As many events as the last size, with a checkpoint of each of them.
    async fn signed_at(sizes: &[i64]) -> Self {
        let log = Log::new().await;
        log.call(3).await;
        let database = log.place.database();
        for size in sizes {
            let mut forger = Forger::at(&database).await;
            let (there,): (i64,) = sqlx::query_as("SELECT seq FROM audit_head").fetch_one(&mut forger.0).await.unwrap();
            forger.records(size - there).await;
            forger.leaves().await;
            assert_eq!(i64::try_from(log.checkpoint().await.size).unwrap(), *size);
        }
        let (place, key) = log.close().await;
        seal(&database);
        let shell = Shell::new();
        shell.write("log.key.pub", &format!("{}\n", key.public()));
        Self { shell, database, _place: place }
    }

    /// The same in files of its own.
    fn copy(&self) -> Self {
        let (shell, place) = (Shell::new(), Place::new().unwrap());
        std::fs::copy(self.shell.path().join("log.key.pub"), shell.path().join("log.key.pub")).unwrap();
        let database = place.database();
        for ending in ["", ".key", ".checkpoints"] {
            let with = |it: &Path| PathBuf::from(format!("{}{ending}", it.display()));
            std::fs::copy(with(&self.database), with(&database)).unwrap();
        }
        Self { shell, database, _place: place }
    }

    fn arguments<'a>(&self, arguments: &[&'a str], db: &'a mut String) -> Vec<&'a str> {
        *db = format!("sqlite:{}", self.database.display());
        [&["audit"], arguments, &["--db", db]].concat()
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let mut db = String::new();
        self.shell.run(&self.arguments(arguments, &mut db))
    }

    fn retain(&self, archive: &str) -> Ran {
        self.run(&["retain", "--keep", "30d", "--archive", archive, "--json"])
    }

    fn verify(&self, more: &[&str]) -> (i32, Value) {
        let ran = self.run(&[&["verify", "--key", "log.key.pub", "--json"], more].concat());
        (ran.code, ran.json())
    }

    fn verify_alone(&self, archive: &str, more: &[&str]) -> (i32, Value) {
        let (key, checkpoints) = (format!("{archive}.pub"), format!("{archive}.checkpoints"));
        let flags = ["audit", "verify", "--export", archive, "--key", &key, "--checkpoints", &checkpoints, "--json"];
        let ran = self.shell.run(&[&flags, more].concat());
        (ran.code, ran.json())
    }

    fn lines(&self, archive: &str) -> usize {
        std::fs::read_to_string(self.shell.path().join(archive)).map_or(0, |it| it.lines().count())
    }

    /// The first event that is there, how many are, and how far they may leave.
    async fn state(&self) -> (i64, i64, i64) {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&self.database).read_only(true);
        let mut link = options.busy_timeout(Duration::from_secs(20)).connect().await.unwrap();
        let text = "SELECT MIN(seq), COUNT(*), (SELECT COALESCE(MAX(through), 0) FROM detachment) FROM audit_event";
        let state = sqlx::query_as(text).fetch_one(&mut link).await.unwrap();
        link.close().await.unwrap();
        state
    }
}

#[tokio::test]
async fn what_leaves_verifies_from_the_archive_alone_and_with_the_log_that_goes_on() {
    let old = Old::signed_at(&[300, 700, 1_000]).await;
    old.run(&["export", "--cursor", "siem", "--out", "siem.ndjson", "--until", "750"]);
    let held = json!([{"kind": "export", "name": "siem", "from": 751}]);
    let plan = old.run(&["retain", "--before", "2026-06-01", "--dry-run", "--json"]);
    let expected =
        json!({"detached": {"from": 1, "through": 700}, "old": 1_000, "needed": held.clone(), "dry_run": true});
    assert_eq!((plan.code, plan.json()), (0, expected));
    assert_eq!(old.state().await, (1, 1_000, 0), "it was only looked at");

    let ran = old.retain("a.ndjson");
    let told = ran.json();
    assert_eq!((ran.code, &told["detached"], &told["deleted"]), (0, &json!({"from": 1, "through": 700}), &json!(512)));
    assert_eq!(&told["needed"], &held);
    assert_eq!(old.state().await, (513, 1_001 - 512, 700), "the tile that is not over yet stays whole");
    let (code, report) = old.verify_alone("a.ndjson", &[]);
    assert_eq!((code, &report["events"], &report["covered"]), (0, &json!(700), &json!(700)), "{report}");
    let (code, report) = old.verify(&[]);
    let digest = format!("sha256:{}", told["digest"].as_str().unwrap());
    let left = json!({"seq": 1, "through": 512, "event": 1_001, "archive": "a.ndjson", "digest": digest});
    assert_eq!((code, &report["detached"], &report["events"]), (0, &left, &json!(489)), "{report}");
    assert_eq!(report["archived"], Value::Null);
    let (code, report) = old.verify(&["--archive", "a.ndjson"]);
    assert_eq!((code, &report["archived"]), (0, &json!({"seq": 1, "through": 700})), "{report}");

    assert_eq!(old.retain("a.ndjson").code, 1, "the export still holds the rest");
    assert_eq!(old.run(&["export", "--cursor", "siem", "--out", "siem.ndjson"]).code, 0);
    // Some rows of the archive before are still there, and go now.
    let away = old.shell.path().join("away");
    std::fs::rename(old.shell.path().join("a.ndjson"), &away).unwrap();
    let ran = old.retain("b.ndjson");
    assert!(ran.code == 5 && ran.err.contains("the archive before this one"), "{}", ran.err);
    let whole = std::fs::read_to_string(&away).unwrap();
    old.shell.write("a.ndjson", &whole.lines().take(690).fold(String::new(), |text, it| text + it + "\n"));
    let ran = old.retain("b.ndjson");
    assert!(ran.code == 1 && ran.err.contains("691 missing; nothing has left"), "{}", ran.err);
    let (code, report) = old.verify(&["--archive", "a.ndjson"]);
    let missing = json!([{"seq": 691, "through": 700, "kind": "missing", "detail": "in no archive"}]);
    assert_eq!((code, &report["findings"]), (1, &missing));
    std::fs::rename(&away, old.shell.path().join("a.ndjson")).unwrap();
    let ran = old.retain("b.ndjson");
    assert_eq!((ran.code, &ran.json()["detached"]), (0, &json!({"from": 701, "through": 1_000})), "{}", ran.err);
    assert_eq!(old.state().await, (769, 1_002 - 768, 1_000));
    let (code, report) = old.verify_alone("b.ndjson", &["--from", "b.ndjson.from"]);
    assert_eq!((code, &report["events"], &report["covered"]), (0, &json!(300), &json!(1_000)), "{report}");
    let both = ["--archive", "b.ndjson", "--archive", "a.ndjson"];
    let (code, report) = old.verify(&both);
    assert_eq!((code, &report["archived"], &report["ok"]), (0, &json!({"seq": 1, "through": 1_000}), &json!(true)));
    let (code, report) = old.verify(&["--archive", "b.ndjson"]);
    let missing = json!([{"seq": 1, "through": 700, "kind": "missing", "detail": "in no archive"}]);
    assert_eq!((code, &report["findings"]), (1, &missing));
    assert_eq!(old.run(&["retain", "status", "--json"]).json()[1]["through"], 1_000);

    let again = old.retain("b.ndjson");
    assert_eq!((again.code, &again.json()["detached"]), (0, &Value::Null), "nothing else is old enough");
}

#[tokio::test]
async fn one_file_can_have_all_that_ever_leaves() {
    let old = Old::signed_at(&[300, 600]).await;
    old.run(&["export", "--cursor", "siem", "--out", "siem.ndjson", "--until", "400"]);
    assert_eq!(old.retain("all.ndjson").code, 0);
    old.run(&["export", "forget", "siem"]);
    let ran = old.retain("all.ndjson");
    assert_eq!((ran.code, &ran.json()["detached"]["from"]), (0, &json!(301)), "{}", ran.err);
    let (code, report) = old.verify_alone("all.ndjson", &[]);
    assert_eq!((code, &report["events"], &report["covered"]), (0, &json!(600), &json!(600)), "{report}");
    assert_eq!(old.verify(&["--archive", "all.ndjson"]).0, 0);
}

#[tokio::test]
async fn whoever_asks_for_what_has_left_is_told_so() {
    let old = Old::signed_at(&[600]).await;
    assert_eq!(old.retain("a.ndjson").code, 0);
    let ran = old.run(&["prove", "5"]);
    let told = "event 5 has left the database";
    assert!(ran.code == 5 && ran.err.contains(told) && ran.err.contains("`--archive FILE`"), "{}", ran.err);
    assert_eq!(old.run(&["prove", "5", "--archive", "a.ndjson", "--out", "proof"]).code, 0);
    let proof = ["audit", "verify", "--proof", "proof", "--key", "log.key.pub"];
    assert_eq!(old.shell.run(&proof).code, 0);
    assert_eq!(old.run(&["prove", "9999", "--archive", "a.ndjson"]).code, 5);
    for flags in [&["export"][..], &["export", "--out", "new.ndjson"], &["export", "--after", "511"]] {
        let ran = old.run(flags);
        let told = "events up to 512 have left the database";
        assert!(ran.code == 5 && ran.err.contains(told) && ran.err.contains("`--after 512`"), "{}", ran.err);
        assert_eq!(ran.out, "");
    }
    for flags in [
        &["export", "--until", "100"][..],
        &["export", "--until", "512", "--after", "99"],
        &["export", "--cursor", "new"],
        &["export", "--cursor", "new", "--until", "100", "--out", "some.ndjson"],
    ] {
        let ran = old.run(flags);
        assert!(ran.code == 5 && ran.err.contains("events up to 512 have left the database"), "{flags:?}: {}", ran.err);
    }
    assert_eq!(old.run(&["export", "status", "--json"]).json(), json!([]), "no cursor that can go nowhere");
    assert_eq!(old.run(&["export", "--until", "512", "--after", "512"]).code, 0);
    let ran = old.run(&["export", "--after", "2025-01-01"]);
    assert!(
        ran.code == 5 && ran.err.contains("have left the database"),
        "some of them may be of that time: {}",
        ran.err
    );
    assert_eq!(old.run(&["export", "--after", "512", "--out", "rest.ndjson"]).code, 0);
    let listed = old.run(&["list", "--limit", "1"]);
    assert!(listed.out.contains("events up to 512 have left the database"), "{}", listed.out);
    assert!(!old.run(&["list", "--after", "512"]).out.contains("have left"));
    for flags in [&["list", "--json"][..], &["tail", "--lines", "900"], &["tail", "--lines", "900", "--json"]] {
        let ran = old.run(flags);
        assert!(ran.err.contains("events up to 512 have left the database"), "{flags:?}: {}", ran.err);
    }
    assert_eq!(old.run(&["tail", "--lines", "2"]).err, "");
    let db = format!("sqlite:{}", old.database.display());
    let history = old.shell.run(&["policy", "history", "--db", &db]);
    assert!(history.out.contains("all changes have left the database"), "{}", history.out);
    // What a command writes anew is what it has written before, and nothing else.
    for name in ["a.ndjson", "log.key.pub"] {
        let before = std::fs::read_to_string(old.shell.path().join(name)).unwrap();
        assert_eq!(old.run(&["prove", "5", "--archive", "a.ndjson", "--out", name]).code, 5);
        let ran = old.run(&["verify", "--key", "log.key.pub", "--archive", "a.ndjson", "--save", name]);
        assert!(ran.code == 5 && ran.err.contains("is something else, and stays"), "{}", ran.err);
        assert_eq!(std::fs::read_to_string(old.shell.path().join(name)).unwrap(), before);
    }
    assert_eq!(old.run(&["prove", "6", "--archive", "a.ndjson", "--out", "proof"]).code, 0);
    // An archive whose lines are others proves nothing.
    let archive = std::fs::read_to_string(old.shell.path().join("a.ndjson")).unwrap();
    old.shell.write("forged.ndjson", &archive.replace("\"count\":150", "\"count\":151"));
    assert_eq!(old.run(&["prove", "150", "--archive", "forged.ndjson"]).code, 5);
    assert_eq!(old.run(&["prove", "151", "--archive", "forged.ndjson"]).code, 0);
}

#[tokio::test]
async fn an_export_stops_at_a_hole_in_the_log_and_says_so() {
    let old = Old::signed_at(&[600]).await;
    let mut forger = Forger::at(&old.database).await;
    forger.does("DELETE FROM audit_event WHERE seq IN (300, 301)").await;
    forger.leaves().await;
    for times in [1, 2] {
        let ran = old.run(&["export", "--cursor", "siem", "--out", "siem.ndjson", "--json"]);
        let failure = "event 300 is missing, and has not left for an archive";
        assert_eq!((ran.code, &ran.json()["failure"], &ran.json()["through"]), (1, &json!(failure), &json!(299)));
        assert_eq!(old.lines("siem.ndjson"), 299);
        let cursor = &old.run(&["export", "status", "--json"]).json()[0];
        assert_eq!(
            (&cursor["seq"], &cursor["failure"], &cursor["failures"]),
            (&json!(299), &json!(failure), &json!(times))
        );
    }
    let ran = old.run(&["export", "--cursor", "siem", "--out", "siem.ndjson"]);
    assert!(ran.err.contains("`countersign audit verify`"), "{}", ran.err);
    // Wherever the hole is in what was asked for.
    for flags in [&["--after", "299"][..], &["--after", "298", "--until", "300"], &["--after", "300", "--until", "301"]]
    {
        let ran = old.run(&[&["export"], flags].concat());
        assert!(ran.code != 0 && ran.err.contains("is missing"), "{flags:?}: {} {}", ran.code, ran.err);
    }
    assert_eq!(old.run(&["export", "--after", "301"]).code, 0);
    let ran = old.run(&["export", "--after", "299", "--cursor", "late"]);
    assert_eq!((ran.code, old.run(&["export", "status", "--json"]).json().as_array().unwrap().len()), (5, 1));
}

#[tokio::test]
async fn nothing_leaves_a_log_that_is_not_in_order_nor_for_an_archive_that_is_not() {
    let old = Old::signed_at(&[300, 600]).await;
    let changed = old.copy();
    let mut forger = Forger::at(&changed.database).await;
    forger.does("UPDATE audit_event SET body = REPLACE(body, 'unknown_key', 'unknown_kez') WHERE seq = 290").await;
    forger.leaves().await;
    let ran = changed.retain("a.ndjson");
    assert!(ran.code == 1 && ran.err.contains("beginning with 290 edited; nothing has left"), "{}", ran.err);
    assert_eq!(changed.state().await, (1, 600, 0));

    // An archive that was begun, changed, and is continued.
    old.run(&["export", "--out", "begun.ndjson", "--until", "200"]);
    let text = std::fs::read_to_string(old.shell.path().join("begun.ndjson")).unwrap();
    old.shell.write("begun.ndjson", &text.replace("\"count\":150", "\"count\":151"));
    let ran = old.retain("begun.ndjson");
    assert!(ran.code == 1 && ran.err.contains("beginning with 150 edited"), "{}", ran.err);
    // One whose checkpoints somebody else made.
    old.run(&["export", "--out", "other-key.ndjson", "--until", "200"]);
    let log = Log::new().await;
    log.checkpoint().await;
    let foreign = std::fs::read_to_string(crate::ledger::anchor(&log.place.database())).unwrap();
    old.shell.write("other-key.ndjson.checkpoints", &foreign);
    let ran = old.retain("other-key.ndjson");
    assert!(ran.code == 1 && ran.err.contains("signature"), "{}", ran.err);

    assert_eq!(old.state().await, (1, 600, 0));
}

#[tokio::test]
async fn what_is_no_archive_of_this_log_stays_as_it_is_and_so_does_the_log() {
    let old = Old::signed_at(&[300, 600]).await;
    old.shell.write("notes.md", "# Notes\n\nOf mine.\n");
    old.run(&["export", "--out", "begun.ndjson", "--until", "200"]);
    let text = std::fs::read_to_string(old.shell.path().join("begun.ndjson")).unwrap();
    old.shell.write("other.ndjson", &text.replace("unknown_key", "unknown_kez"));
    for (name, told) in [("notes.md", "it is no export"), (".", "no regular file")] {
        let ran = old.retain(name);
        assert!(ran.code == 5 && ran.err.contains(told), "{}", ran.err);
    }
    for ending in ["checkpoints", "from"] {
        old.shell.write(&format!("{ending}.ndjson.{ending}"), "of another file");
        let ran = old.retain(&format!("{ending}.ndjson"));
        assert!(ran.code == 5 && ran.err.contains(&format!("`.{ending}` of another file")), "{}", ran.err);
    }
    old.run(&["export", "--out", "late.ndjson", "--after", "100"]);
    let ran = old.retain("late.ndjson");
    assert!(ran.code == 5 && ran.err.contains("it begins with event 101"), "{}", ran.err);
    assert_eq!(old.shell.run(&["audit", "verify", "--export", "other.ndjson"]).code, 1);
    assert_eq!(old.retain("other.ndjson").code, 1, "each line of an archive is looked at");
    for ending in ["", "-wal", ".key", ".checkpoints"] {
        let path = format!("{}{ending}", old.database.display());
        let before = std::fs::read(&path).ok();
        let ran = old.retain(&path);
        assert!(ran.code == 5 && ran.err.contains("it belongs to the database itself"), "{ending}: {}", ran.err);
        assert!(std::fs::read(&path).ok() == before || ending == "-wal", "{ending}");
    }
    assert_eq!(old.state().await, (1, 600, 0));
    assert_eq!(std::fs::read_to_string(old.shell.path().join("notes.md")).unwrap(), "# Notes\n\nOf mine.\n");
}

#[tokio::test]
async fn what_became_of_an_archive_is_found_where_it_is() {
    let old = Old::signed_at(&[300, 600]).await;
    assert_eq!(old.retain("a.ndjson").code, 0);
    let archive = std::fs::read_to_string(old.shell.path().join("a.ndjson")).unwrap();
    let part = archive.lines().take(100).fold(String::new(), |text, it| text + it + "\n");
    old.shell.write("part.ndjson", &part);
    old.shell.write("a.ndjson", &archive.replace("\"count\":150", "\"count\":151"));
    let (code, report) = old.verify(&["--archive", "a.ndjson"]);
    let edited = json!([{"seq": 150, "kind": "edited", "detail": "a.ndjson"}]);
    assert_eq!((code, &report["findings"]), (1, &edited));
    // Of two that have the same, each is read.
    old.shell.write("copy.ndjson", &archive);
    for order in [["a.ndjson", "copy.ndjson"], ["copy.ndjson", "a.ndjson"]] {
        let (code, report) = old.verify(&["--archive", order[0], "--archive", order[1]]);
        assert_eq!((code, &report["findings"]), (1, &edited));
    }
    let (code, report) = old.verify(&["--archive", "part.ndjson"]);
    let missing = json!([{"seq": 101, "through": 600, "kind": "missing", "detail": "in no archive"}]);
    assert_eq!((code, &report["findings"]), (1, &missing));
    assert_eq!(old.verify(&["--archive", "part.ndjson", "--archive", "copy.ndjson"]).0, 0);
    let ran = old.run(&["verify", "--archive", "none.ndjson"]);
    assert!(ran.code == 5 && ran.err.contains("`none.ndjson` cannot be read"), "{}", ran.err);
}

#[tokio::test]
async fn what_cannot_be_checked_or_is_too_young_stays() {
    let old = Old::signed_at(&[300]).await;
    for (flags, told) in [
        (&["retain", "--keep", "1h", "--archive", "a"][..], "events of the last day stay"),
        (&["retain", "--before", "2099-01-01", "--archive", "a"], "events of the last day stay"),
        (&["retain", "--keep", "30d"], "events leave for an archive, and there is none"),
        (&["retain", "--archive", "a"], "--before"),
        (&["retain", "--keep", "soon", "--archive", "a"], "it is a number and a unit"),
        (&["retain", "--keep", "30d", "--archive", "a", "--key", "none"], "`none` cannot be read"),
    ] {
        let ran = old.run(flags);
        assert!(ran.code == 5 && ran.err.contains(told), "{flags:?}: {}", ran.err);
    }
    assert_eq!(old.run(&["retain", "--before", "2020-01-01", "--archive", "a"]).out, "No events are old enough.\n");
    std::fs::remove_file(old.shell.path().join("log.key.pub")).unwrap();
    let ran = old.retain("a");
    assert!(ran.code == 5 && ran.err.contains("there is no public key"), "{}", ran.err);
    assert!(!old.shell.path().join("a").exists() && old.state().await == (1, 300, 0));
}

/// Where a command is killed.
#[derive(Clone, Copy, Debug)]
enum At {
    Writing,
    Checking,
    Deleting,
}

#[tokio::test]
async fn a_command_that_is_killed_anywhere_has_lost_nothing_and_the_same_one_goes_on() {
    const ALL: i64 = 12_000;
    let original = Old::signed_at(&[ALL]).await;
    let whole = original.copy();
    assert_eq!(whole.retain("a.ndjson").code, 0);
    let size = std::fs::metadata(whole.shell.path().join("a.ndjson")).unwrap().len();
    for at in [At::Writing, At::Checking, At::Deleting] {
        let mut hit = false;
        for _ in 0..10 {
            let old = original.copy();
            hit |= killed(&old, at, size).await;
            let (first, count, through) = old.state().await;
            let (code, report) = old.verify(&[]);
            assert_eq!(code, 0, "{at:?}: {report}");
            if through == 0 {
                assert_eq!((first, count), (1, ALL), "{at:?}: before it is said nothing has left");
            } else {
                assert_eq!(count, ALL + 1 - (first - 1), "{at:?}: what left was the beginning");
                assert_eq!(old.verify(&["--archive", "a.ndjson"]).0, 0, "{at:?}");
            }
            let again = old.retain("a.ndjson");
            assert_eq!(again.code, 0, "{at:?}: {}", again.err);
            assert_eq!(old.state().await, (ALL - ALL % 256 + 1, 1 + ALL % 256, ALL), "{at:?}");
            assert_eq!(i64::try_from(old.lines("a.ndjson")).unwrap(), ALL, "{at:?}");
            let (code, report) = old.verify(&["--archive", "a.ndjson"]);
            assert_eq!((code, &report["archived"]["through"]), (0, &json!(ALL)), "{at:?}: {report}");
            assert_eq!(old.verify_alone("a.ndjson", &[]).0, 0, "{at:?}");
            let said = old.run(&["list", "--type", "audit.detached", "--json"]).json();
            assert_eq!(said.as_array().unwrap().len(), 1, "{at:?}: {said}");
            if hit {
                break;
            }
        }
        assert!(hit, "it was never killed while {at:?}");
    }
}

/// Runs the command and kills it there; whether it came to that.
async fn killed(old: &Old, at: At, size: u64) -> bool {
    let mut db = String::new();
    let arguments = old.arguments(&["retain", "--keep", "30d", "--archive", "a.ndjson"], &mut db);
    let mut command = old.shell.command(&arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let archive = old.shell.path().join("a.ndjson");
    loop {
        let written = std::fs::metadata(&archive).map_or(0, |it| it.len());
        let is_there = match at {
            At::Writing => written > 0 && written < size,
            At::Checking => written == size,
            At::Deleting => written == size && old.state().await.2 > 0,
        };
        if is_there {
            child.kill().unwrap();
        }
        if child.try_wait().unwrap().is_some() || is_there {
            child.wait().unwrap();
            let (first, _, through) = old.state().await;
            let written = std::fs::metadata(&archive).map_or(0, |it| it.len());
            return match at {
                At::Writing => written < size,
                At::Checking => written == size && through == 0,
                At::Deleting => through > 0 && first < through - through % 256,
            };
        }
    }
}

#[tokio::test]
async fn an_ended_command_goes_on_only_with_its_archive() {
    const ALL: i64 = 6_000;
    let original = Old::signed_at(&[ALL]).await;
    let whole = original.copy();
    assert_eq!(whole.retain("a.ndjson").code, 0);
    let size = std::fs::metadata(whole.shell.path().join("a.ndjson")).unwrap().len();
    for _ in 0..10 {
        let old = original.copy();
        if !killed(&old, At::Deleting, size).await {
            continue;
        }
        let (first, ..) = old.state().await;
        std::fs::rename(old.shell.path().join("a.ndjson"), old.shell.path().join("elsewhere")).unwrap();
        let ran = old.retain("b.ndjson");
        assert!(ran.code == 5 && ran.err.contains("is not there"), "{}", ran.err);
        assert_eq!(old.state().await.0, first, "nothing more is deleted");
        assert!(old.run(&["retain", "status"]).out.contains("still in the database"));
        // With a hole where rows are still to go.
        let whole = std::fs::read_to_string(old.shell.path().join("elsewhere")).unwrap();
        let at = usize::try_from(first).unwrap();
        let (from, to) = (at.saturating_sub(5), at + 5);
        let kept = whole.lines().enumerate().filter(|(place, _)| !(from..to).contains(place));
        old.shell.write("a.ndjson", &kept.fold(String::new(), |text, it| text + it.1 + "\n"));
        let ran = old.retain("b.ndjson");
        assert!(ran.code == 1 && ran.err.contains("missing; nothing more has left"), "{}", ran.err);
        assert_eq!(old.state().await.0, first, "nothing more is deleted");
        old.shell.write("a.ndjson", &whole);
        assert_eq!(old.retain("b.ndjson").code, 0);
        assert_eq!(old.state().await.0, ALL - ALL % 256 + 1);
        return;
    }
    panic!("it was never killed while it deleted");
}
