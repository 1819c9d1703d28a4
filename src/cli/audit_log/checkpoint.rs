//! `audit checkpoint`: what a process that serves does by itself, once.

use std::time::Duration;

use serde_json::json;

use super::args::Checkpoint;
use super::files::{database, private};
use crate::Anchor;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::screen::{Answer, ERROR};
use crate::clock::Clock;
use crate::id::Ids;
use crate::ledger::{LedgerError, LogTree};
use crate::store::{Config, KeySource, Probe, Store};

const LOOK: &str = "look into it: `countersign audit verify`";

pub(super) async fn run(args: Checkpoint) -> Result<Answer, Failure> {
    let path = database(&args.db.db)?;
    let (key, _) = private(&args.private)?;
    let config = Config {
        path,
        clock: Clock::System,
        ids: Ids::Random,
        lease: Duration::from_secs(30),
        renew: Duration::from_secs(5),
        sweep: None,
        keep_decisions: Duration::from_hours(24 * 90),
        key: KeySource::File,
        probe: Probe::default(),
    };
    let store = Store::open(config).await.map_err(|error| {
        let problem = crate::Problem::from(error);
        Failure::could_not_run(format!("{}: {}", problem.at, problem.what), problem.fix)
    })?;
    let mut log = LogTree::new().key(key);
    if !args.anchors.is_empty() {
        log = log.anchors(args.anchors.iter().map(Anchor::file));
    }
    let done = sign(&store, log).await;
    store.close(Duration::from_secs(5)).await;
    done
}

async fn sign(store: &Store, log: LogTree) -> Result<Answer, Failure> {
    let ledger = log.ready(store, false);
    let signed = match ledger.checkpoint(store).await {
        Ok(signed) => signed,
        Err(error @ LedgerError::Refused(_)) => {
            let json = json!({"status": "refused", "cause": error.to_string()});
            let text = format!("{ERROR}error:{ERROR:#} {error}: nothing is signed\n  next: {LOOK}\n");
            return Ok(Answer::new(Exit::Failed, &json, text).on_standard_error());
        }
        Err(error) => return Err(unavailable(&error)),
    };
    let Some(checkpoint) = signed else {
        return Ok(Answer::new(Exit::Done, &json!({"size": 0}), "Nothing is on record yet.\n"));
    };
    let failures = ledger.anchor_all(store).await.map_err(|it| unavailable(&it))?;
    let told: Vec<_> =
        failures.iter().map(|(name, error)| json!({"anchor": name, "cause": error.to_string()})).collect();
    let json = json!({"size": checkpoint.size, "checkpoint": checkpoint.note, "anchors_failed": told});
    let lines = failures.iter().map(|(name, error)| format!("{ERROR}error:{ERROR:#} {name}: {error}\n"));
    let exit = if failures.is_empty() { Exit::Done } else { Exit::Failed };
    Ok(Answer::new(exit, &json, checkpoint.note + &lines.collect::<String>()))
}

fn unavailable(error: &LedgerError) -> Failure {
    let cause = std::error::Error::source(error).map(|it| format!(": {it}")).unwrap_or_default();
    Failure::could_not_run(format!("{error}{cause}"), "see to the database, then try again")
}
