//! Whether the log is in its tree, signed, and kept by its anchors, as far as the database says. Whether it is what was
//! recorded, `audit verify` says.

use std::path::Path;

use super::super::settings;
use super::finding::Finding;
use crate::clock::Clock;
use crate::config::Config;
use crate::ledger::LogTree;
use crate::store::{LogReader, LogState, StoreError};

/// How many times over an event may have waited for its checkpoint before somebody should see to it.
const OVERDUE: u32 = 10;

/// The database is there, and of this version.
pub(super) async fn look(config: &Config, path: &Path, findings: &mut Vec<Finding>) {
    let tree = match config.audit.open(config.base(), &settings::variable) {
        Ok(tree) => tree,
        Err(error) => {
            return findings.extend(error.problems.into_iter().map(|it| Finding::problem("log", it)));
        }
    };
    let log = LogReader::open(path);
    if let Err(error) = report(config, path, &tree, &log, findings).await {
        let cause = std::error::Error::source(&error).map(|it| format!(": {it}")).unwrap_or_default();
        findings.push(Finding::bad("log", format!("{error}{cause}"), "see to the database, then look again"));
    }
}

async fn report(
    config: &Config,
    path: &Path,
    tree: &LogTree,
    log: &LogReader,
    findings: &mut Vec<Finding>,
) -> Result<(), StoreError> {
    let state = log.state().await?;
    let anchors = tree.kept_by(path);
    findings.push(of_log(config, &state));
    let mut have = 0_usize;
    for name in anchors.iter().map(crate::Anchor::name) {
        let size = log.anchored(&name).await?;
        if size < state.signed {
            let what = format!("`{name}` has checkpoints up to {size} events, the last one covers {}", state.signed);
            let next = "see whether it can be reached: a server that runs hands over what it lacks";
            findings.push(Finding::note("anchor", what, next));
        } else {
            have += 1;
        }
    }
    if state.signed > 0 && have > 0 {
        findings.push(Finding::good("anchors", format!("the last checkpoint is with {have} of {}", anchors.len())));
    }
    Ok(())
}

fn of_log(config: &Config, state: &LogState) -> Finding {
    let LogState { events, in_tree, signed, signed_at, unsigned_since } = *state;
    let counted = format!("{events} events, {in_tree} of them in the tree, {signed} signed");
    if in_tree > events || signed > in_tree {
        return Finding::bad("log", counted, "this cannot be: look into it with `countersign audit verify`");
    }
    if config.audit.key.is_none() {
        return Finding::good("log", format!("{counted}: there is no `audit.key`"));
    }
    let patience = config.audit.checkpoint_every.saturating_mul(OVERDUE);
    match (unsigned_since, signed_at) {
        (Some(since), _) if since.plus(patience) < Clock::System.now() => {
            let next = "if a server runs, its log says why; else sign them: `countersign audit checkpoint`";
            Finding::note("log", format!("{counted}: the next one has waited since {since}"), next)
        }
        (_, Some(at)) => Finding::good("log", format!("{counted}, last at {at}")),
        (_, None) => Finding::good("log", counted),
    }
}
