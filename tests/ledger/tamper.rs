//! Whoever owns the file changes it, and verification says what and where.

use std::path::{Path, PathBuf};

use countersign::LogKey;
use countersign::verify::Given;
use tempfile::TempDir;

use super::{Forger, Log, anchor, auditor, event, leaf, told, verified};

/// How many events are signed, in the first checkpoint and in the second.
const SIGNED: [i64; 2] = [300, 700];
/// How many there are.
const ALL: i64 = 705;

/// A log of 705 events, 700 of them signed, that tests take copies of.
struct Original {
    directory: TempDir,
    key: LogKey,
    copies: u32,
}

impl Original {
    async fn new() -> Self {
        let log = Log::new().await;
        log.call(3).await;
        let database = log.place.database();
        let mut forger = Forger::at(&database).await;
        let (begun,): (i64,) = sqlx::query_as("SELECT seq FROM audit_head").fetch_one(&mut forger.0).await.unwrap();
        forger.records(SIGNED[0] - begun).await;
        assert_eq!(i64::try_from(log.checkpoint().await.size).unwrap(), SIGNED[0]);
        forger.records(SIGNED[1] - SIGNED[0]).await;
        let (place, key) = log.close().await;
        forger.records(ALL - SIGNED[1]).await;
        forger.leaves().await;
        let directory = tempfile::tempdir().unwrap();
        std::fs::copy(place.database(), directory.path().join("original.db")).unwrap();
        std::fs::copy(anchor(&place.database()), directory.path().join("anchor")).unwrap();
        Self { directory, key, copies: 0 }
    }

    /// Another file with the same in it.
    fn copy(&mut self) -> PathBuf {
        self.copies += 1;
        let copy = self.directory.path().join(format!("{}.db", self.copies));
        std::fs::copy(self.directory.path().join("original.db"), &copy).unwrap();
        std::fs::copy(self.directory.path().join("anchor"), anchor(&copy)).unwrap();
        copy
    }

    fn auditor(&self, database: &Path) -> Given {
        auditor(&self.key, database)
    }

    /// What is found after these statements.
    async fn after(&mut self, statements: &str) -> Vec<String> {
        let copy = self.copy();
        let mut forger = Forger::at(&copy).await;
        forger.does(statements).await;
        forger.leaves().await;
        let report = verified(&copy, &self.auditor(&copy)).await;
        told(&report)
    }
}

#[tokio::test]
async fn an_untouched_log_is_in_order_and_its_young_events_are_named() {
    let mut original = Original::new().await;
    let copy = original.copy();
    let report = verified(&copy, &original.auditor(&copy)).await;
    let json = serde_json::to_value(&report).unwrap();
    let expected = serde_json::json!({
        "ok": true, "events": 705, "covered": 700, "uncovered": {"seq": 701, "through": 705}, "signatures": true,
        "findings": [], "more": 0,
    });
    assert_eq!(json, expected);
}

#[tokio::test]
async fn an_edit_of_any_column_is_found_where_it_is() {
    let mut original = Original::new().await;
    let changes = [
        ("id = 'evt-other'", "column"),
        ("id = id || ' '", "column"),
        ("tenant = 'other'", "column"),
        ("tenant = CAST(tenant AS BLOB)", "column"),
        ("execution_id = 'exe-x'", "column"),
        ("capability_id = 'orders.refund'", "column"),
        ("actor_id = 'omar'", "column"),
        ("type = 'capability.completed'", "column"),
        ("terminal = TRUE", "column"),
        ("terminal = 7", "column"),
        ("at = at + 1", "column"),
        ("at = 'yesterday'", "column"),
        ("leaf = '00' || SUBSTR(leaf, 3)", "column"),
        ("leaf = UPPER(leaf)", "column"),
        ("leaf = ''", "column"),
        ("body = REPLACE(body, 'unknown_key', 'unknown_kez')", "edited"),
        ("body = body || ' '", "edited"),
        ("body = ''", "edited"),
        ("body = CAST(body AS BLOB)", "column"),
    ];
    // The first, ones in the middle and at the edges of tiles, the last that is signed, the last.
    for seq in [20, 256, 257, 300, 512, 700, 705] {
        for (change, kind) in changes {
            let statement = format!("UPDATE audit_event SET {change} WHERE seq = {seq}");
            // Of an event that is not in the tree nobody knows whether it or its hash was changed.
            let kind = if change.starts_with("leaf") && seq > SIGNED[1] { "edited" } else { kind };
            assert_eq!(original.after(&statement).await, [format!("{seq} {kind}")], "{statement}");
        }
    }
    // Of an event of a call, which has all columns.
    for column in ["execution_id", "capability_id", "actor_id"] {
        let statement = format!("UPDATE audit_event SET {column} = NULL WHERE seq = 5");
        assert_eq!(original.after(&statement).await, ["5 column"], "{statement}");
    }
}

#[tokio::test]
async fn an_event_that_is_rewritten_with_all_that_is_made_of_it_is_found_by_the_tree() {
    let mut original = Original::new().await;
    for seq in [1, 5, 256, 257, 700, 705] {
        let copy = original.copy();
        let mut forger = Forger::at(&copy).await;
        let (body, _) = forger.row(seq).await;
        forger.rewrites(seq, &body.replace("2026", "2025")).await;
        forger.does(&format!("UPDATE audit_event SET at = at - 31536000000000 WHERE seq = {seq}")).await;
        forger.leaves().await;
        // Nobody vouches for what is not in the tree yet, which the report says.
        let expected = if seq <= SIGNED[1] { vec![format!("{seq} edited")] } else { vec![] };
        assert_eq!(told(&verified(&copy, &original.auditor(&copy)).await), expected);
    }
}

#[tokio::test]
async fn what_is_taken_out_is_missed_where_it_was() {
    let mut original = Original::new().await;
    let cases: [(&str, &[&str]); 7] = [
        ("seq = 1", &["1 missing"]),
        ("seq = 256", &["256 missing"]),
        ("seq IN (300, 301, 512)", &["300 missing", "301 missing", "512 missing"]),
        ("seq = 705", &["705 tail"]),
        ("seq >= 690", &["690..705 tail"]),
        ("seq > 300", &["301..705 tail"]),
        ("seq > 0", &["1..705 tail"]),
    ];
    for (which, expected) in cases {
        assert_eq!(original.after(&format!("DELETE FROM audit_event WHERE {which}")).await, expected, "{which}");
    }
}

/// Closes the gap behind what was taken out.
fn renumber(behind: i64, by: i64) -> String {
    format!(
        "UPDATE audit_event SET seq = -seq WHERE seq > {behind};
         UPDATE audit_event SET seq = -seq + {by} WHERE seq < 0;
         UPDATE audit_head SET seq = seq + {by}"
    )
}

#[tokio::test]
async fn renumbering_hides_nothing() {
    let mut original = Original::new().await;
    for seq in [1, 5, 256, 300, 699] {
        let statements = format!("DELETE FROM audit_event WHERE seq = {seq}; {}", renumber(seq, -1));
        assert_eq!(original.after(&statements).await, [format!("{seq} missing")]);
    }
    for seq in [1, 256, 300, 700] {
        let body = event(9_999);
        let insert = format!(
            "INSERT INTO audit_event (seq, id, tenant, type, terminal, at, body, leaf)
             VALUES ({seq}, 'evt-x9999', 'acme', 'auth.failed', FALSE, 1767225600000000, '{body}', '{}')",
            leaf(&body)
        );
        let found = original.after(&format!("{}; {insert}", renumber(seq - 1, 1))).await;
        assert_eq!(found, [format!("{seq} inserted")]);
    }
    let both = format!("DELETE FROM audit_event WHERE seq IN (100, 400); {}; {}", renumber(400, -1), renumber(100, -1));
    assert_eq!(original.after(&both).await, ["100 missing", "400 missing"]);
}

#[tokio::test]
async fn what_is_put_before_the_first_event_is_found() {
    let mut original = Original::new().await;
    for seq in [0, -7] {
        let statement = format!(
            "INSERT INTO audit_event (seq, id, tenant, type, terminal, at, body, leaf)
             SELECT {seq}, id, tenant, type, terminal, at, body, leaf FROM audit_event WHERE seq = 20"
        );
        assert_eq!(original.after(&statement).await, [format!("{seq} inserted")]);
    }
}

#[tokio::test]
async fn who_changed_places_is_named() {
    let mut original = Original::new().await;
    let swap = |one: i64, other: i64| {
        format!(
            "UPDATE audit_event SET seq = -1 WHERE seq = {one}; UPDATE audit_event SET seq = {one} WHERE seq = {other};
             UPDATE audit_event SET seq = {other} WHERE seq = -1"
        )
    };
    for (one, other) in [(1, 2), (20, 600), (256, 257), (300, 301), (699, 700)] {
        let expected = [format!("{one} swapped"), format!("{other} swapped")];
        assert_eq!(original.after(&swap(one, other)).await, expected);
    }
}

#[tokio::test]
async fn a_tree_that_was_changed_is_told_from_events_that_were() {
    let mut original = Original::new().await;
    let cases: [(&str, &[&str]); 9] = [
        (
            "UPDATE ledger_tile SET hashes = '00' || SUBSTR(hashes, 3) WHERE level = 0 AND place = 1",
            &["257 tree", "257..512 tree"],
        ),
        (
            "UPDATE ledger_tile SET hashes = SUBSTR(hashes, 1, 64) || '00' || SUBSTR(hashes, 67) WHERE level = 1",
            &["257..512 tree"],
        ),
        ("DELETE FROM ledger_tile WHERE level = 1", &["1..256 tree", "257..512 tree"]),
        ("DELETE FROM ledger_tile WHERE level = 0 AND place = 2", &["513..700 tree"]),
        ("DELETE FROM ledger_tile WHERE level = 0 AND place = 1", &["257..512 tree"]),
        ("DELETE FROM ledger_tile", &["1..700 tree"]),
        ("UPDATE ledger_head SET size = 600", &["601..700 tree"]),
        ("DELETE FROM ledger_head", &["705 column"]),
        ("DROP TABLE ledger_tile", &["1..700 tree"]),
    ];
    for (statement, expected) in cases {
        assert_eq!(original.after(statement).await, expected, "{statement}");
    }
}

/// Makes the stored tree that of the rows, as the engine would: by taking everything into it anew.
async fn rebuilt(original: &Original, database: &Path) {
    let mut forger = Forger::at(database).await;
    forger.does("DELETE FROM ledger_tile; UPDATE ledger_head SET size = 0").await;
    forger.leaves().await;
    let keyless = countersign::LogTree::new();
    let app = crate::shop::shop().sealing_key(countersign::testing::KEY).log_tree(keyless);
    let engine = app.database(format!("sqlite:{}", database.display())).build().await.unwrap();
    engine.shutdown(std::time::Duration::from_secs(5)).await;
    let _ = original;
}

#[tokio::test]
async fn where_the_tree_was_rewritten_too_the_range_is_named() {
    let mut original = Original::new().await;
    for (seq, expected) in [(100, "1..300 checkpoint"), (300, "1..300 checkpoint"), (301, "301..700 checkpoint")] {
        let copy = original.copy();
        let mut forger = Forger::at(&copy).await;
        let (body, _) = forger.row(seq).await;
        forger.rewrites(seq, &body.replace("unknown_key", "expired_key")).await;
        forger.leaves().await;
        rebuilt(&original, &copy).await;
        let report = verified(&copy, &original.auditor(&copy)).await;
        assert_eq!(told(&report), [expected], "{seq}");
    }
}

#[tokio::test]
async fn who_cuts_log_and_tree_is_found_by_what_was_signed() {
    let mut original = Original::new().await;
    for keep in [600, 300, 299] {
        let copy = original.copy();
        let mut forger = Forger::at(&copy).await;
        forger.does(&format!("DELETE FROM audit_event WHERE seq > {keep}; UPDATE audit_head SET seq = {keep}")).await;
        forger.leaves().await;
        rebuilt(&original, &copy).await;
        let report = verified(&copy, &original.auditor(&copy)).await;
        // Rebuilding says who made policies active, behind the cut, where something else was signed.
        let found = told(&report);
        assert!(!report.ok, "{keep}: {found:?}");
        let expected = format!("{}..700 tail", report.events + 1);
        assert!(found.contains(&expected), "{keep}: {found:?}");
        // Without the stored checkpoints, too: the anchor has them.
        let mut forger = Forger::at(&copy).await;
        forger.does("DELETE FROM ledger_checkpoint").await;
        forger.leaves().await;
        let found = told(&verified(&copy, &original.auditor(&copy)).await);
        assert!(found.contains(&expected), "{keep}: {found:?}");
    }
}

#[tokio::test]
async fn an_old_database_under_a_newer_anchor_is_a_cut_log() {
    let log = Log::new().await;
    log.call(4).await;
    let first = log.checkpoint().await;
    let (place, key) = log.close().await;
    let old = std::fs::read(place.database()).unwrap();
    let log = Log::with(key.clone(), &place).await;
    log.call(4).await;
    let second = log.checkpoint().await;
    log.close().await;
    std::fs::write(place.database(), old).unwrap();
    let report = verified(&place.database(), &auditor(&key, &place.database())).await;
    let expected = format!("{}..{} tail", report.events + 1, second.size);
    assert!(told(&report).contains(&expected), "{:?}", report.findings);
    assert!(report.events >= first.size);
    // Without what somebody else kept it is in order: that is what anchors are for.
    let alone = Given::new().keys(key.public()).unwrap();
    assert_eq!(told(&verified(&place.database(), &alone).await), [""; 0]);
}

#[tokio::test]
async fn checkpoints_that_were_changed_are_found() {
    let mut original = Original::new().await;
    let stranger = LogKey::generate(super::ORIGIN).unwrap();
    assert_eq!(
        original.after("UPDATE ledger_checkpoint SET note = REPLACE(note, '300', '301') WHERE size = 300").await,
        ["300 checkpoint"]
    );
    let swapped =
        "UPDATE ledger_checkpoint SET note = (SELECT note FROM ledger_checkpoint WHERE size = 700) WHERE size = 300";
    assert_eq!(original.after(swapped).await, ["300 checkpoint"]);
    assert_eq!(original.after("DELETE FROM ledger_checkpoint WHERE size = 300").await, ["300 checkpoint"]);
    let copy = original.copy();
    let report = verified(&copy, &auditor(&stranger, &copy)).await;
    let kinds: Vec<_> = told(&report);
    assert!(kinds.contains(&"300 signature".to_owned()) && kinds.contains(&"700 signature".to_owned()), "{kinds:?}");
}

#[tokio::test]
async fn a_second_end_of_an_execution_is_found() {
    let mut original = Original::new().await;
    let statement = "DROP INDEX audit_event_terminal;
        UPDATE audit_event SET execution_id = (SELECT execution_id FROM audit_event WHERE terminal LIMIT 1),
               terminal = TRUE WHERE seq = 705";
    // Its columns give it away as well: the event itself says nothing of an execution.
    assert_eq!(original.after(statement).await, ["705 column"]);
    let log = Log::new().await;
    log.call(1).await;
    let (place, key) = log.close().await;
    let mut forger = Forger::at(&place.database()).await;
    let again = "DROP INDEX audit_event_terminal;
        INSERT INTO audit_event SELECT (SELECT seq + 1 FROM audit_head), id, tenant, execution_id, capability_id, actor_id,
               type, terminal, at, body, leaf FROM audit_event WHERE terminal ORDER BY seq LIMIT 1;
        UPDATE audit_head SET seq = seq + 1";
    forger.does(again).await;
    forger.leaves().await;
    let report = verified(&place.database(), &auditor(&key, &place.database())).await;
    assert_eq!(told(&report), [format!("{} ends", report.events)]);
}

#[tokio::test]
async fn erasing_an_approvers_comment_leaves_every_proof_valid() {
    let log = Log::new().await;
    let id = log.app.ask("ord_1").await;
    let priya = log.app.approvals(crate::shop::cast("priya"));
    let approve = countersign::Verdict::Approve;
    priya.decide(&id, "manager", approve, Some("their name is Ada")).await.unwrap();
    let (place, key) = log.close().await;
    let database = place.database();
    let texts = "SELECT COUNT(*) FROM comment WHERE text LIKE '%Ada%'";
    assert_eq!(crate::tamper::numbers(&database, texts).await, [1]);
    let mut forger = Forger::at(&database).await;
    forger.does("DELETE FROM comment").await;
    forger.leaves().await;
    assert_eq!(crate::tamper::numbers(&database, texts).await, [0]);
    let report = verified(&database, &auditor(&key, &database)).await;
    assert_eq!((told(&report), report.uncovered), (vec![], None));
}

#[tokio::test]
async fn events_that_nobody_said_would_leave_are_missing_whatever_the_table_says() {
    let mut original = Original::new().await;
    let gone = "INSERT INTO detachment VALUES (300, 0, 'a', 'd', 0); DELETE FROM audit_event WHERE seq <= 256";
    let expected: Vec<_> = (1..=256).map(|it| format!("{it} missing")).collect();
    assert_eq!(original.after(gone).await, expected);
}

#[tokio::test]
async fn of_a_log_that_was_detached_only_its_beginning_may_be_missing_and_its_hashes_may_not() {
    let mut original = Original::new().await;
    let body = event(706).replace("auth.failed", "audit.detached");
    let anchored = std::fs::read_to_string(original.directory.path().join("anchor")).unwrap();
    let root = anchored.lines().nth(2).unwrap();
    let told = |through: i64, root: &str| format!(r#"{{"after":0,"root":"{root}","through":{through}}}"#);
    let body = body.replace(r#"{"count":706,"reason":"unknown_key"}"#, &told(300, root));
    let said = |body: &str| {
        format!(
            "INSERT INTO audit_event (seq, id, tenant, type, terminal, at, body, leaf)
             VALUES (706, 'evt-x706', 'acme', 'audit.detached', FALSE, 1767225600000000, '{body}', '{}');
             UPDATE audit_head SET seq = 706;",
            leaf(body)
        )
    };
    // What no checkpoint ends with, and another root than that of the tree.
    let gone = "DELETE FROM audit_event WHERE seq <= 256";
    let other = body.replace(&told(300, root), &told(301, root));
    assert_eq!(original.after(&(said(&other) + gone)).await, ["301 checkpoint", "706 tree"]);
    let other = body.replace(root, &root.replace(|it: char| it.is_ascii_digit(), "x"));
    assert_eq!(original.after(&(said(&other) + gone)).await, ["706 tree"]);
    let said = said(&body);
    for (then, expected) in [
        ("DELETE FROM audit_event WHERE seq <= 256", vec![]),
        ("DELETE FROM audit_event WHERE seq <= 300", vec![]),
        ("DELETE FROM audit_event WHERE seq <= 302", vec!["301 missing".to_owned(), "302 missing".to_owned()]),
        ("DELETE FROM audit_event WHERE seq <= 256 OR seq = 258", vec!["258 missing".to_owned()]),
        ("DELETE FROM audit_event WHERE seq = 5", vec!["5 missing".to_owned()]),
    ] {
        assert_eq!(original.after(&(said.clone() + then)).await, expected, "{then}");
    }
    let changed = "DELETE FROM audit_event WHERE seq <= 256;
        UPDATE ledger_tile SET hashes = '00' || SUBSTR(hashes, 3) WHERE level = 0 AND place = 0";
    let found = original.after(&(said + changed)).await;
    assert!(found.contains(&"1..300 checkpoint".to_owned()), "{found:?}");
}
