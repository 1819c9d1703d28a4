//! The log as others follow it: C2SP tlog-tiles over HTTP.

use std::time::Duration;

use countersign::verify::{self, Given};
use countersign::{LogKey, LogTree, PolicySource, demo};

use super::harness::{Answer, TestServer};

/// A server whose log is signed, with so many calls on record.
pub(super) async fn server(tree: impl FnOnce(LogTree) -> LogTree, calls: u32) -> (TestServer, LogKey) {
    let key = LogKey::generate("example.com/log").unwrap();
    let log = LogTree::new().key(key.clone()).every(u64::MAX, Duration::from_hours(24 * 365)).anchors([]);
    let server = TestServer::built(demo::builder().log_tree(tree(log)), |_| {}).await;
    for _ in 0..calls {
        server.invoke("demo-dana", "orders.get", &serde_json::json!({"orderId": "ord_42"})).await;
    }
    (server, key)
}

fn about(answer: &Answer) -> (u16, Option<&str>, Option<&str>) {
    (answer.status, answer.header("content-type"), answer.header("cache-control"))
}

#[tokio::test]
async fn a_follower_gets_the_checkpoint_its_hashes_and_for_one_tenant_the_entries() {
    let (server, key) = server(|it| it.readers("acme"), 3).await;
    assert_eq!(server.get("demo-priya", "/v1/audit/log/checkpoint").await.status, 404, "nothing is signed yet");
    let signed = server.app.engine().checkpoint().await.unwrap().unwrap();
    let checkpoint = server.get("demo-priya", "/v1/audit/log/checkpoint").await;
    assert_eq!(about(&checkpoint), (200, Some("text/plain; charset=utf-8"), Some("no-store")));
    assert_eq!(checkpoint.text(), signed.note);
    let size = usize::try_from(signed.size).unwrap();
    let immutable = Some("private, max-age=31536000, immutable");
    let tile = server.get("demo-priya", &format!("/v1/audit/log/tile/0/000.p/{size}")).await;
    assert_eq!(about(&tile), (200, Some("application/octet-stream"), immutable));
    assert_eq!(tile.body.len(), size * 32);
    let entries = server.get("demo-priya", &format!("/v1/audit/log/tile/entries/000.p/{size}")).await;
    assert_eq!(about(&entries), (200, Some("application/octet-stream"), immutable));
    // What is served is what is signed: an export of it is verified by the checkpoint alone.
    let (mut rest, mut export, mut seq) = (&*entries.body, String::new(), 0);
    while let [high, low, more @ ..] = rest {
        let (entry, behind) = more.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        let entry = std::str::from_utf8(entry).unwrap();
        seq += 1;
        let line = format!("{{\"seq\":{seq},{}\n", entry.strip_prefix('{').unwrap());
        export.push_str(&line);
        rest = behind;
    }
    let given = Given::new().keys(key.public()).unwrap().checkpoints(&checkpoint.text());
    let report = verify::export(export.as_bytes(), &given, &mut |_, _| {}).unwrap();
    assert_eq!((report.ok, report.covered), (true, signed.size), "{report:?}");
    let hashes: Vec<String> = tile.body.chunks(32).map(crate::ledger::hex).collect();
    let leaves: Vec<String> =
        export.lines().map(|it| crate::ledger::leaf(&format!("{{{}", it.split_once(',').unwrap().1))).collect();
    assert_eq!(hashes, leaves);
}

#[tokio::test]
async fn what_no_checkpoint_covers_and_what_is_no_tile_is_not_there() {
    let (server, _) = server(|it| it.readers("acme"), 1).await;
    let signed = server.app.engine().checkpoint().await.unwrap().unwrap();
    server.invoke("demo-dana", "orders.get", &serde_json::json!({"orderId": "ord_42"})).await;
    let more = signed.size + 1;
    for path in [
        &format!("0/000.p/{more}"),
        &format!("entries/000.p/{more}"),
        "0/000",
        "1/000.p/1",
        "0/001.p/1",
        "0/0",
        "64/000",
        "x",
        "0/000.p/0",
        "0/%2e%2e/000",
        "0/x000/000",
    ] {
        let answer = server.get("demo-priya", &format!("/v1/audit/log/tile/{path}")).await;
        assert_eq!((answer.status, answer.code()), (404, "ROUTE_NOT_FOUND".into()), "{path}");
    }
}

#[tokio::test]
async fn who_may_read_what_is_decided_by_policy_and_entries_exist_for_one_tenant_only() {
    let statuses = async |server: &TestServer| {
        let mut found = Vec::new();
        for who in ["", "no-such-token", "demo-dana", "demo-priya"] {
            for path in ["checkpoint", "tile/0/000.p/1", "tile/entries/000.p/1"] {
                found.push(server.get(who, &format!("/v1/audit/log/{path}")).await.status);
            }
        }
        found
    };
    let (closed, _) = server(|it| it, 1).await;
    closed.app.engine().checkpoint().await.unwrap();
    assert_eq!(statuses(&closed).await, [401, 401, 401, 401, 401, 401, 403, 403, 404, 200, 200, 404]);
    let (public, _) = server(|it| it.public(true), 1).await;
    public.app.engine().checkpoint().await.unwrap();
    assert_eq!(statuses(&public).await, [200, 200, 401, 401, 401, 401, 200, 200, 404, 200, 200, 404]);
    let tile = public.get("", "/v1/audit/log/tile/0/000.p/1").await;
    assert_eq!(tile.header("cache-control"), Some("public, max-age=31536000, immutable"));
    let (read, _) = server(|it| it.readers("acme"), 1).await;
    read.app.engine().checkpoint().await.unwrap();
    assert_eq!(statuses(&read).await, [401, 401, 401, 401, 401, 401, 403, 403, 403, 200, 200, 200]);
    let (other, _) = server(|it| it.readers("elsewhere"), 1).await;
    other.app.engine().checkpoint().await.unwrap();
    assert_eq!(other.get("demo-priya", "/v1/audit/log/tile/entries/000.p/1").await.status, 404);
}

#[tokio::test]
async fn a_damaged_log_is_not_served() {
    let (server, _) = server(|it| it.readers("acme"), 2).await;
    server.app.engine().checkpoint().await.unwrap();
    let mut forger = crate::ledger::Forger::at(&server.app.place().database()).await;
    forger.does("DELETE FROM audit_event WHERE seq = 1; UPDATE ledger_tile SET hashes = 'zz'").await;
    forger.leaves().await;
    for path in ["tile/0/000.p/1", "tile/entries/000.p/1"] {
        let answer = server.get("demo-priya", &format!("/v1/audit/log/{path}")).await;
        assert_eq!((answer.status, answer.code()), (500, "INTERNAL_ERROR".into()), "{path}");
    }
}

#[tokio::test]
async fn who_counts_sees_how_far_the_log_is_signed_and_that_it_is_refused() {
    let (read, both) = (
        "Countersign::Action::\"read_audit\"",
        "Countersign::Action::\"read_audit\", Countersign::Action::\"read_metrics\"",
    );
    let policies = demo::POLICIES.map(|(name, text)| (name.to_owned(), text.replace(read, both)));
    let log = LogTree::new().key(LogKey::generate("example.com/log").unwrap()).every(u64::MAX, Duration::from_hours(1));
    let builder = demo::builder().policies(PolicySource::Files(policies.to_vec())).log_tree(log.anchors([]));
    let server = TestServer::built(builder, |_| {}).await;
    let signed = server.app.engine().checkpoint().await.unwrap().unwrap();
    let figure = async |name: &str| {
        let text = server.get("demo-priya", "/metrics").await.text();
        let name = format!("countersign_log_{name} ");
        text.lines().find_map(|it| it.strip_prefix(&name)).unwrap().parse::<f64>().unwrap()
    };
    let found = [figure("signed_events").await, figure("refused").await, figure("anchors_failing").await];
    assert_eq!(found.map(|it| it.to_string()), [signed.size.to_string(), "0".into(), "0".into()]);
    let mut forger = crate::ledger::Forger::at(&server.app.place().database()).await;
    forger.does("DELETE FROM ledger_checkpoint").await;
    forger.leaves().await;
    assert!(server.app.engine().checkpoint().await.is_err());
    assert!(figure("refused").await > 0.5);
}

/// Lets 600 old events leave for an archive, by a command beside the server: those up to 512 are gone then.
pub(super) async fn detach(server: &TestServer, key: &LogKey) {
    let database = server.app.place().database();
    let mut forger = crate::ledger::Forger::at(&database).await;
    let (there,): (i64,) = sqlx::query_as("SELECT seq FROM audit_head").fetch_one(&mut forger.0).await.unwrap();
    forger.records(600 - there).await;
    forger.leaves().await;
    assert_eq!(server.app.engine().checkpoint().await.unwrap().unwrap().size, 600);
    crate::ledger::seal(&database);
    let directory = tempfile::tempdir().unwrap();
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_countersign"));
    command.current_dir(directory.path()).args(["audit", "retain", "--keep", "30d", "--archive", "a.ndjson"]);
    command.args(["--key", key.public(), "--db", &format!("sqlite:{}", database.display())]);
    let ran = command.output().await.unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[tokio::test]
async fn of_what_has_left_there_are_hashes_and_no_entries_and_a_page_says_so() {
    let (server, key) = server(|it| it.readers("acme"), 3).await;
    detach(&server, &key).await;
    for (path, status) in [
        ("entries/000", 404),
        ("entries/000.p/7", 404),
        ("entries/001", 404),
        ("entries/002.p/88", 200),
        ("0/000", 200),
        ("0/001", 200),
        ("1/000.p/2", 200),
    ] {
        let answer = server.get("demo-priya", &format!("/v1/audit/log/tile/{path}")).await;
        assert_eq!(answer.status, status, "{path}");
    }
    let page = server.get("demo-priya", "/v1/audit/events?after=7").await.json();
    assert_eq!((&page["detached"], &page["events"][0]["seq"]), (&512.into(), &513.into()), "{page}");
    let page = server.get("demo-priya", "/v1/audit/events?after=512").await.json();
    assert_eq!((&page["detached"], &page["events"][0]["seq"]), (&serde_json::Value::Null, &513.into()), "{page}");
    // The log goes on: from the tree, which has everything.
    let called = server.invoke("demo-dana", "orders.get", &serde_json::json!({"orderId": "ord_42"})).await;
    assert_eq!(called.status, 200);
    let signed = server.app.engine().checkpoint().await.unwrap().unwrap();
    assert!(signed.size > 601);
    let given = Given::new().keys(key.public()).unwrap();
    let report = verify::database(&server.app.place().database(), &given, &mut |_, _| {}).await.unwrap();
    assert_eq!((report.findings, report.covered), (vec![], signed.size));
}
