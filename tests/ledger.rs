//! The log as evidence: what is signed, what verification finds, and what it costs a forger.

mod anchors;
mod offline;
mod proofs;
mod signing;
mod tamper;

use std::path::{Path, PathBuf};

use countersign::testing::Place;
use countersign::verify::{self, Given, Report};
use countersign::{Anchor, Checkpoint, LogKey, LogTree};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, Row as _};
use std::time::Duration;

use crate::shop::{App, shop};

/// The name of the log under test.
pub(crate) const ORIGIN: &str = "example.com/log";

/// A shop whose log is signed, and its anchor's file.
pub(crate) struct Log {
    pub(crate) place: Place,
    pub(crate) key: LogKey,
    pub(crate) app: App,
}

impl Log {
    pub(crate) async fn new() -> Self {
        Self::with(LogKey::generate(ORIGIN).unwrap(), &Place::new().unwrap()).await
    }

    /// Another process at the same place.
    pub(crate) async fn with(key: LogKey, place: &Place) -> Self {
        Self::of(LogTree::new(), key, place).await
    }

    /// One that does nothing by itself, not even when it is closed.
    pub(crate) async fn idle(key: LogKey, place: &Place) -> Self {
        Self::of(LogTree::off(), key, place).await
    }

    async fn of(log: LogTree, key: LogKey, place: &Place) -> Self {
        // Signs when it is told to, and at no other time.
        let log = log.key(key.clone()).every(u64::MAX, Duration::from_hours(24 * 365));
        let log = log.anchors([Anchor::file(anchor(&place.database()))]);
        let app = App::open(shop().log_tree(log), place).await;
        Self { place: place.clone(), key, app }
    }

    /// Some more events, by calls.
    pub(crate) async fn call(&self, times: u32) {
        for _ in 0..times {
            self.app.dana().invoke("ping", serde_json::json!({})).await.into_result().unwrap();
        }
    }

    pub(crate) async fn checkpoint(&self) -> Checkpoint {
        self.app.engine().checkpoint().await.unwrap().unwrap()
    }

    /// Closes the process; its last checkpoint is signed and anchored by then.
    pub(crate) async fn close(self) -> (Place, LogKey) {
        self.app.engine().shutdown(Duration::from_secs(5)).await;
        (self.place, self.key)
    }
}

pub(crate) fn anchor(database: &Path) -> PathBuf {
    PathBuf::from(format!("{}.checkpoints", database.display()))
}

/// The kit's sealing key in a file, where commands look for it.
pub(crate) fn seal(database: &Path) {
    let path = PathBuf::from(format!("{}.key", database.display()));
    std::fs::write(&path, hex(&countersign::testing::KEY)).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// What an auditor has who trusts a key and has access to the anchor.
pub(crate) fn auditor(key: &LogKey, database: &Path) -> Given {
    let anchored = std::fs::read_to_string(anchor(database)).unwrap_or_default();
    Given::new().keys(key.public()).unwrap().anchor("the anchor", &anchored)
}

pub(crate) async fn verified(database: &Path, given: &Given) -> Report {
    verify::database(database, given, &mut |_, _| {}).await.unwrap()
}

/// Findings in short: `7 edited`, `9..12 tail`.
pub(crate) fn told(report: &Report) -> Vec<String> {
    let line = |it: &verify::Finding| match it.through {
        Some(through) => format!("{}..{through} {}", it.seq, it.kind),
        None => format!("{} {}", it.seq, it.kind),
    };
    assert_eq!(report.ok, report.findings.is_empty());
    report.findings.iter().map(line).collect()
}

/// The triggers that stand in a forger's way, who owns the file.
pub(crate) const TRIGGERS: [&str; 13] = [
    "audit_event_no_update",
    "audit_event_no_delete",
    "audit_head_forward",
    "audit_head_no_delete",
    "ledger_head_forward",
    "ledger_head_no_delete",
    "ledger_tile_grows",
    "ledger_tile_no_delete",
    "ledger_checkpoint_no_update",
    "ledger_checkpoint_no_delete",
    "detachment_forward",
    "detachment_no_update",
    "detachment_no_delete",
];

/// A database file in the hands of a forger.
pub(crate) struct Forger(pub(crate) sqlx::SqliteConnection);

impl Forger {
    pub(crate) async fn at(database: &Path) -> Self {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(database);
        let mut link = options.busy_timeout(Duration::from_secs(20)).connect().await.unwrap();
        for trigger in TRIGGERS {
            link.execute(sqlx::AssertSqlSafe(format!("DROP TRIGGER IF EXISTS {trigger}"))).await.unwrap();
        }
        Self(link)
    }

    /// Statements, separated by `;`.
    pub(crate) async fn does(&mut self, statements: &str) {
        for statement in statements.split(';').map(str::trim).filter(|it| !it.is_empty()) {
            let done = self.0.execute(sqlx::AssertSqlSafe(statement.to_owned())).await;
            done.unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
    }

    /// One row's body and leaf.
    pub(crate) async fn row(&mut self, seq: i64) -> (String, String) {
        let row = sqlx::query("SELECT body, leaf FROM audit_event WHERE seq = ?").bind(seq);
        let row = row.fetch_one(&mut self.0).await.unwrap();
        (row.get(0), row.get(1))
    }

    /// Writes another event at a place, with everything that is made of it.
    pub(crate) async fn rewrites(&mut self, seq: i64, body: &str) {
        let event: Value = serde_json::from_str(body).unwrap();
        let statement = "UPDATE audit_event SET body = ?, leaf = ?, id = ?, actor_id = ? WHERE seq = ?";
        let query = sqlx::query(statement).bind(body).bind(leaf(body)).bind(event["id"].as_str().unwrap());
        query.bind(event["actor"]["id"].as_str()).bind(seq).execute(&mut self.0).await.unwrap();
    }

    /// So many more events behind the last one, as an engine could have recorded them.
    pub(crate) async fn records(&mut self, count: i64) {
        let (last,): (i64,) = sqlx::query_as("SELECT seq FROM audit_head").fetch_one(&mut self.0).await.unwrap();
        self.does("BEGIN").await;
        for seq in last + 1..=last + count {
            let body = event(seq);
            let statement = "INSERT INTO audit_event (seq, id, tenant, type, terminal, at, body, leaf)
                VALUES (?, ?, 'acme', 'auth.failed', FALSE, 1767225600000000, ?, ?)";
            let query = sqlx::query(statement).bind(seq).bind(format!("evt-x{seq}")).bind(&body).bind(leaf(&body));
            query.execute(&mut self.0).await.unwrap();
        }
        self.does(&format!("UPDATE audit_head SET seq = {}; COMMIT", last + count)).await;
    }

    pub(crate) async fn leaves(self) {
        self.0.close().await.unwrap();
    }
}

/// An event as an engine would write it.
pub(crate) fn event(number: i64) -> String {
    format!(
        r#"{{"at":"2026-01-01T00:00:00.000000Z","data":{{"count":{number},"reason":"unknown_key"}},"id":"evt-x{number}","surface":"http","tenant":"acme","type":"auth.failed"}}"#
    )
}

/// RFC 6962, section 2.1, once more.
pub(crate) fn leaf(body: &str) -> String {
    let hash = Sha256::new_with_prefix([0]).chain_update(body).finalize();
    hex(&hash)
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, it| text + &format!("{it:02x}"))
}

/// An export of a database, by hand.
pub(crate) async fn exported(database: &Path) -> String {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(database);
    let mut link = options.connect().await.unwrap();
    let rows = sqlx::query("SELECT body, leaf, seq FROM audit_event ORDER BY seq").fetch_all(&mut link).await.unwrap();
    let entry = |row: &sqlx::sqlite::SqliteRow| {
        let (body, leaf, seq): (String, String, i64) = (row.get(0), row.get(1), row.get(2));
        format!("{{\"event\":{body},\"leaf\":\"{leaf}\",\"seq\":{seq}}}\n")
    };
    rows.iter().map(entry).collect()
}
