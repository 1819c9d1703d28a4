//! What is on record when all is over, read without the engine, row by row.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use serde::Deserialize;
use sqlx::{ConnectOptions as _, SqliteConnection};

/// The part of an event that matters here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    execution_id: Option<String>,
    /// The key, since clients send it as their conversation's id.
    correlation_id: Option<String>,
    data: Data,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    original_execution_id: Option<String>,
}

#[derive(Default)]
pub(super) struct Record {
    pub(super) events: i64,
    /// How many of each type.
    pub(super) tally: BTreeMap<String, usize>,
    /// By key, the executions that completed.
    pub(super) completed: HashMap<String, Vec<String>>,
    /// Executions without a key that completed.
    pub(super) reads: HashSet<String>,
    pub(super) denied: HashSet<String>,
    /// By execution, the one whose answer it repeated.
    pub(super) replays: HashMap<String, String>,
    /// Executions that started and have no end.
    pub(super) open: HashSet<String>,
    /// Where the record contradicts itself.
    pub(super) faults: Vec<String>,
}

async fn connect(place: &Path) -> SqliteConnection {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(place.join("soak.db"));
    options.busy_timeout(Duration::from_secs(20)).connect().await.unwrap()
}

/// Waits until no execution runs: those of the dead are ended by the living.
pub(super) async fn settled(place: &Path, patience: Duration) {
    let (mut link, until) = (connect(place).await, Instant::now() + patience);
    loop {
        let query = sqlx::query_scalar("SELECT COUNT(*) FROM execution WHERE state = 'running'");
        let running: i64 = query.fetch_one(&mut link).await.unwrap();
        if running == 0 {
            return;
        }
        assert!(Instant::now() < until, "{running} executions are not ended");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

impl Record {
    pub(super) async fn read(place: &Path) -> Self {
        let (mut record, mut link) = (Self::default(), connect(place).await);
        let query = sqlx::query_as::<_, (i64, String)>("SELECT seq, body FROM audit_event ORDER BY seq");
        let mut rows = query.fetch(&mut link);
        while let Some((seq, body)) = rows.try_next().await.unwrap() {
            record.events += 1;
            if seq != record.events {
                record.faults.push(format!("event {} has the place {seq}", record.events));
                record.events = seq;
            }
            record.note(serde_json::from_str(&body).unwrap());
        }
        record
    }

    fn note(&mut self, event: Event) {
        let Event { kind, execution_id, correlation_id, data } = event;
        *self.tally.entry(kind.clone()).or_default() += 1;
        let Some(execution) = execution_id else { return };
        let mut is_wrong = false;
        match kind.as_str() {
            "capability.started" => is_wrong = !self.open.insert(execution.clone()),
            "capability.completed" => {
                is_wrong = !self.open.remove(&execution);
                match correlation_id {
                    Some(key) => self.completed.entry(key).or_default().push(execution.clone()),
                    None => is_wrong |= !self.reads.insert(execution.clone()),
                }
            }
            "capability.interrupted" => is_wrong = !self.open.remove(&execution),
            // They may end what never started.
            "capability.failed" | "capability.cancelled" => {
                self.open.remove(&execution);
            }
            "capability.denied" => is_wrong = !self.denied.insert(execution.clone()),
            "capability.replayed" => {
                let original = data.original_execution_id.unwrap_or_default();
                is_wrong = self.replays.insert(execution.clone(), original).is_some();
            }
            _ => {}
        }
        if is_wrong {
            self.faults.push(format!("{kind} of {execution} is out of order"));
        }
    }
}
