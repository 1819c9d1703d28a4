//! `cargo bench`: how fast the engine is, measured against floors that are written by hand and run in the same process,
//! in turns. `docs/performance.md` says what is measured and why.
//!
//! `cargo bench --bench speed -- [--check] [gate] [listing] [start] [check] [durable] [ledger] [http]`:
//! all groups, or those named. `--check`
//! ends with exit code 1 if a target is missed.

#![expect(clippy::disallowed_methods, reason = "benchmarks read the clock")]

mod check;
mod durable;
mod floor;
mod gate;
mod http;
mod ledger;
mod listing;
mod raw;
mod shop;
mod start;
mod table;

use std::error::Error;
use std::process::ExitCode;

use table::Table;

/// What went wrong with a benchmark itself.
type Failure = Box<dyn Error + Send + Sync>;

const GROUPS: [&str; 7] = ["gate", "listing", "start", "check", "durable", "ledger", "http"];

fn main() -> Result<ExitCode, Failure> {
    let (mut check, mut chosen) = (false, Vec::new());
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--bench" => {} // what cargo says
            "--check" => check = true,
            name if GROUPS.contains(&name) => chosen.push(argument),
            other => return Err(format!("`{other}` is no group; the groups are {}", GROUPS.join(", ")).into()),
        }
    }
    let mut table = Table::default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    for group in GROUPS.into_iter().filter(|it| chosen.is_empty() || chosen.iter().any(|name| name == it)) {
        match group {
            "gate" => runtime.block_on(gate::measure(&mut table))?,
            "listing" => runtime.block_on(listing::measure(&mut table))?,
            "start" => start::measure(&runtime, &mut table)?,
            "check" => check::measure(&mut table)?,
            "http" => runtime.block_on(http::measure(&mut table))?,
            "ledger" => runtime.block_on(ledger::measure(&mut table))?,
            _ => runtime.block_on(durable::measure(&mut table))?,
        }
    }
    table.print();
    Ok(if check && table.missed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
