//! What somebody with write access to the database file can do, short of owning the sealing key.

use std::path::Path;

use countersign::testing::Place;
use countersign::{ApprovalState, ErrorCode};
use sqlx::{ConnectOptions, Connection};

use crate::shop::{App, cast, code, refused, shop};

/// Runs one statement on the database file, behind the engine's back.
pub(crate) async fn alter(database: &Path, statement: &str) -> u64 {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(database);
    let mut connection = options.busy_timeout(std::time::Duration::from_secs(20)).connect().await.unwrap();
    let done = sqlx::query(sqlx::AssertSqlSafe(statement.to_owned())).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    done.rows_affected()
}

/// The first column of what a query finds.
pub(crate) async fn numbers(database: &Path, query: &str) -> Vec<i64> {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(database);
    let mut connection = options.connect().await.unwrap();
    sqlx::query_scalar(sqlx::AssertSqlSafe(query.to_owned())).fetch_all(&mut connection).await.unwrap()
}

/// Statements that change one thing of a stored request.
const CHANGES: [&str; 8] = [
    "UPDATE approval SET binding = replace(binding, '\"risk\":\"high\"', '\"risk\":\"low\"')",
    "UPDATE approval SET binding = replace(binding, 'dana', 'nina')",
    "UPDATE approval SET binding_hash = replace(binding_hash, substr(binding_hash, -1), 'g')",
    "UPDATE approval SET input_hash = 'sha256:0'",
    "UPDATE approval SET requirements = replace(requirements, 'manager', 'finance')",
    "UPDATE approval SET input = substr(input, 1, length(input) - 8) || 'AAAAAAAA'",
    "UPDATE approval SET input = NULL",
    "UPDATE approval SET expires_at = expires_at + 3600000000",
];

#[tokio::test]
async fn r19_one_changed_byte_of_a_request_is_seen_when_running() {
    for change in CHANGES {
        let app = App::new().await;
        let id = app.approved("ord_1").await;
        assert_eq!(alter(&app.place().database(), change).await, 1, "{change}");
        let found = code(&app.dana().resume(&id).await);
        // Another requester's request does not exist; everything else is a mismatch.
        let expected = if change.contains("nina") { "APPROVAL_NOT_FOUND" } else { "APPROVAL_INPUT_MISMATCH" };
        assert_eq!(found, expected, "{change}");
        assert_eq!(app.runs(), 0);
    }
}

#[tokio::test]
async fn inv_4_who_agreed_is_looked_at_again_when_running() {
    let changes = [
        ("UPDATE decision SET approver = replace(approver, 'priya', 'dana')", "APPROVAL_SELF_APPROVAL"),
        ("UPDATE decision SET approver = replace(approver, 'user', 'automation')", "APPROVAL_INPUT_MISMATCH"),
    ];
    for (change, expected) in changes {
        let app = App::new().await;
        let id = app.approved("ord_1").await;
        assert_eq!(alter(&app.place().database(), change).await, 1, "{change}");
        assert_eq!(code(&app.dana().resume(&id).await), expected, "{change}");
        assert_eq!(app.runs(), 0);
    }
}

#[tokio::test]
async fn apr_1_one_changed_byte_of_a_request_is_seen_when_deciding() {
    for change in CHANGES {
        let app = App::new().await;
        let id = app.ask("ord_1").await;
        assert_eq!(alter(&app.place().database(), change).await, 1, "{change}");
        let decision = app.approvals(cast("priya")).approve(&id, "manager").await;
        assert_eq!(refused(decision), ErrorCode::ApprovalInputMismatch, "{change}");
    }
}

#[tokio::test]
async fn exe_6_a_seal_of_another_row_or_another_key_does_not_open() {
    let place = Place::new().unwrap();
    let app = App::open(shop(), &place).await;
    let (one, _) = (app.approved("ord_1").await, app.approved("ord_2").await);
    let builder = shop().sealing_key([9; 32]).database(format!("sqlite:{}", place.database().display()));
    let refused = builder.build().await.err().unwrap().to_string();
    assert!(refused.contains("the sealing key is not the one of"), "{refused}");
    let swap = "UPDATE approval SET input = (SELECT input FROM approval WHERE id = 'apr-2') WHERE id = 'apr-1'";
    assert_eq!(alter(&place.database(), swap).await, 1);
    assert_eq!(code(&app.dana().resume(&one).await), "APPROVAL_INPUT_MISMATCH");
    assert_eq!(app.approvals(cast("priya")).show(&one).await.unwrap().status, ApprovalState::Approved);
    assert_eq!(app.approvals(cast("priya")).show(&one).await.unwrap().input, None);
}

#[tokio::test]
async fn the_trail_cannot_be_changed_by_a_statement() {
    let app = App::new().await;
    app.dana().invoke("ping", serde_json::json!({})).await.into_result().unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(app.place().database());
    let mut connection = options.connect().await.unwrap();
    for statement in ["UPDATE audit_event SET body = 'x'", "DELETE FROM audit_event"] {
        let refused = sqlx::query(statement).execute(&mut connection).await.unwrap_err().to_string();
        assert!(refused.contains("append"), "{refused}");
    }
}
