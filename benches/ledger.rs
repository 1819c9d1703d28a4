//! What the Merkle tree over the log costs those who call, and how long it takes to verify a million events.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use countersign::verify::{self, Given};
use countersign::{LogKey, LogTree};
use sha2::{Digest as _, Sha256};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};

use crate::Failure;
use crate::durable::{CALLERS, Load, POLICIES};
use crate::shop::{builder, directory};
use crate::table::{Table, Target, median, now};

const ROUNDS: usize = 7;
/// Long enough for the tree to grow some times within a turn.
const TURN: Duration = Duration::from_secs(2);

const EVENTS: u64 = 1_000_000;
const PORTION: u64 = 10_000;

pub(crate) async fn measure(table: &mut Table) -> Result<(), Failure> {
    let directory = directory()?;
    cost(table, directory.path()).await?;
    million(table, directory.path()).await
}

/// Everything that a turn recorded is in the tree and signed before the turn is over: nothing is left for the other's.
async fn cost(table: &mut Table, directory: &Path) -> Result<(), Failure> {
    let key = LogKey::generate("bench.example/log")?;
    let tree = LogTree::new().key(key).every(1_000, Duration::from_secs(1));
    let with = builder(1, POLICIES, directory, "with.db").log_tree(tree).build().await?;
    let without = builder(1, POLICIES, directory, "without.db").log_tree(LogTree::off()).build().await?;
    let loads = (Load::new(&with), Load::new(&without));
    let (mut took_with, mut took_without) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let began = now();
        let calls = loads.0.calls(CALLERS, TURN).await?;
        with.checkpoint().await?;
        let one = began.elapsed().as_secs_f64() * 1e6 / f64::from(calls);
        let began = now();
        let calls = loads.1.calls(CALLERS, TURN).await?;
        let other = began.elapsed().as_secs_f64() * 1e6 / f64::from(calls);
        // The first round is for warming up.
        if round > 0 {
            took_with.push(one);
            took_without.push(other);
        }
    }
    let pair = (median(&took_with), median(&took_without));
    table.judge("ledger, 64 callers : without a tree", pair, "us", Target::AtMost(1.15));
    with.shutdown(Duration::from_secs(5)).await;
    without.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

async fn million(table: &mut Table, directory: &Path) -> Result<(), Failure> {
    let key = LogKey::generate("bench.example/log")?;
    let public = key.public().to_owned();
    let tree = LogTree::off().key(key);
    let engine = builder(1, POLICIES, directory, "million.db").log_tree(tree).build().await?;
    let database = directory.join("million.db");
    fill(&database).await?;
    let began = now();
    engine.checkpoint().await?;
    table.note("ledger, 1,000,000 events into the tree, and signed", format!("{:.1} s", began.elapsed().as_secs_f64()));
    engine.shutdown(Duration::from_secs(5)).await;
    let given = Given::new().keys(&public)?;
    let began = now();
    let report = verify::database(&database, &given, &mut |_, _| {}).await?;
    let took = began.elapsed().as_secs_f64();
    if !report.ok || report.covered < EVENTS {
        return Err(format!("it is not in order: {report:?}").into());
    }
    table.limit("ledger, verifying 1,000,000 events", took, "s", 20.0);
    Ok(())
}

/// Events as long as those of a call, as an engine would have recorded them.
async fn fill(database: &Path) -> Result<(), Failure> {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(database);
    let mut link = options.busy_timeout(Duration::from_secs(20)).connect().await?;
    let (before,): (i64,) = sqlx::query_as("SELECT seq FROM audit_head").fetch_one(&mut link).await?;
    let before = u64::try_from(before)?;
    link.execute("BEGIN").await?;
    for portion in 0..EVENTS / PORTION {
        let mut rows = String::from("[");
        for number in portion * PORTION..(portion + 1) * PORTION {
            let (seq, body) = (before + number + 1, event(number));
            let leaf = Sha256::new_with_prefix([0]).chain_update(&body).finalize();
            let leaf: String = leaf.iter().fold(String::new(), |mut text, it| {
                let _ = write!(text, "{it:02x}"); // into a String: cannot fail
                text
            });
            let comma = if rows.len() > 1 { "," } else { "" };
            write!(rows, "{comma}[{seq},{},{}]", serde_json::to_string(&body)?, serde_json::to_string(&leaf)?)?;
        }
        rows.push(']');
        let insert = "INSERT INTO audit_event (seq, id, tenant, execution_id, capability_id, actor_id, type, terminal, at, body, leaf)
            SELECT value ->> 0, value ->> 1 ->> 'id', value ->> 1 ->> 'tenant', value ->> 1 ->> 'executionId',
                   value ->> 1 ->> 'capabilityId', value ->> 1 ->> 'actor' ->> 'id', value ->> 1 ->> 'type', FALSE,
                   1767225600000000, value ->> 1, value ->> 2 FROM json_each(?)";
        sqlx::query(insert).bind(rows).execute(&mut link).await?;
    }
    let head = format!("UPDATE audit_head SET seq = {}", before + EVENTS);
    link.execute(sqlx::AssertSqlSafe(head)).await?;
    link.execute("COMMIT").await?;
    link.close().await?;
    Ok(())
}

fn event(number: u64) -> String {
    let hash = format!("{number:064x}");
    format!(
        "{{\"actor\":{{\"id\":\"dana\",\"kind\":\"user\"}},\"at\":\"2026-01-01T00:00:00.000000Z\",\
         \"capabilityId\":\"orders.refund_0\",\"data\":{{\"governance\":\"sha256:{hash}\",\"keyed\":false,\"policies\":\
         [{{\"effect\":\"permit\",\"id\":\"support\"}}]}},\"executionId\":\"0192f0c1-a2b3-7c5d-8e9f-{number:012x}\",\
         \"id\":\"0192f0c1-a2b3-7c5d-8e9f-{number:012x}\",\"inputHash\":\"hmac-sha256:{hash}\",\
         \"policyHash\":\"sha256:{hash}\",\"surface\":\"direct\",\"tenant\":\"acme\",\"type\":\"capability.started\"}}"
    )
}
