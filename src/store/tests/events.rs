//! The log: append-only, gap-free, filtered; and the plans of the statements.

use sqlx::AssertSqlSafe;
use sqlx::{ConnectOptions as _, Executor as _};

use super::super::EventFilter;
use super::super::db::expand;
use super::super::sql;
use super::{Bench, bench, options};
use crate::audit::EventKind;

async fn noted(bench: &Bench, tenant: &str) -> crate::ExecutionId {
    let execution = bench.ids.execution();
    let mut event = bench.event(&execution, EventKind::Completed { duration_us: 1, attempts: 1 });
    event.envelope.tenant = tenant.into();
    bench.store.append(vec![event]).await.unwrap();
    execution
}

#[tokio::test]
async fn the_log_is_append_only() {
    let bench = bench().await;
    noted(&bench, "t1").await;
    let mut link = options(&bench.dir.path().join("store.db")).connect().await.unwrap();
    for text in [
        "UPDATE audit_event SET body = 'x'",
        "DELETE FROM audit_event",
        "UPDATE audit_head SET seq = seq - 1",
        "UPDATE audit_head SET generation = generation - 1",
        "DELETE FROM audit_head",
    ] {
        assert!(link.execute(text).await.is_err(), "{text}");
    }
}

#[tokio::test]
async fn stored_bytes_are_hashed_bytes() {
    let bench = bench().await;
    noted(&bench, "t1").await;
    let rows: Vec<(String, String)> = bench.rows("SELECT body, leaf FROM audit_event").await;
    assert_eq!(rows[0].1, crate::audit::leaf_hash(rows[0].0.as_bytes()));
}

#[tokio::test]
async fn events_are_filtered_and_paged_by_their_place() {
    let bench = bench().await;
    let first = noted(&bench, "t1").await;
    noted(&bench, "t2").await;
    noted(&bench, "t1").await;
    let list = async |filter: EventFilter, limit| {
        bench.store.events(&filter, limit).await.unwrap().into_iter().map(|it| it.0).collect::<Vec<_>>()
    };
    let all = EventFilter::default;
    assert_eq!(list(all(), 10).await, [1, 2, 3]);
    assert_eq!(list(EventFilter { after_seq: 1, ..all() }, 1).await, [2]);
    assert_eq!(list(EventFilter { last: true, ..all() }, 2).await, [2, 3]);
    assert_eq!(list(EventFilter { tenant: Some("t1".into()), ..all() }, 10).await, [1, 3]);
    assert_eq!(list(EventFilter { execution: Some(first.to_string()), ..all() }, 10).await, [1]);
    assert_eq!(list(EventFilter { execution: Some(first.to_string()), last: true, ..all() }, 10).await, [1]);
    assert_eq!(list(EventFilter { capability: Some("orders.refund".into()), ..all() }, 10).await, [1, 2, 3]);
    assert_eq!(list(EventFilter { actor: Some("eve".into()), ..all() }, 10).await, [0; 0]);
    assert_eq!(list(EventFilter { kind: Some("capability.completed".into()), ..all() }, 2).await, [1, 2]);
    assert_eq!(list(EventFilter { since: Some(bench.now()), ..all() }, 10).await, [1, 2, 3]);
    assert_eq!(list(EventFilter { until: Some(bench.now()), ..all() }, 10).await, [0; 0]);
}

/// A statement that reads a whole table grows slower with it. What may: the table of processes, and the head row; and
/// whoever looks for all that has not been told.
#[tokio::test]
async fn no_statement_reads_a_whole_table() {
    let bench = bench().await;
    let mut link = options(&bench.dir.path().join("store.db")).connect().await.unwrap();
    for statement in sql::ALL {
        let text = format!("EXPLAIN QUERY PLAN {}", expand(*statement).as_str());
        let query = sqlx::query_as::<_, (i64, i64, i64, String)>(AssertSqlSafe(text)).bind(1).bind("[]");
        for (_, _, _, step) in query.fetch_all(&mut link).await.unwrap() {
            let table = step.strip_prefix("SCAN ").unwrap_or_default();
            let whole =
                ["execution", "e", "approval", "a", "o", "decision", "d", "audit_event", "decision_record", "outbox"];
            let scans = whole.iter().any(|it| table == *it || table.starts_with(&format!("{it} ")));
            let short = ["INDEX approval_sealed", "INDEX outbox_due", "INDEX outbox_dead"];
            let is_short = short.iter().any(|it| table.ends_with(it));
            assert!(!scans || is_short, "{step} in {}", statement.text);
        }
    }
}
