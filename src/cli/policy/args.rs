//! The commands of `policy` and their flags.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::super::args::{As, Format};

#[derive(Debug, Args)]
pub(in crate::cli) struct Policy {
    #[command(subcommand)]
    pub(super) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum PolicyCommand {
    /// Load the policies for the demo application, and report everything that is wrong with them
    Check(Check),
    /// See which policy sets were active, newest first: since when, what changed, who did it
    History(History),
    /// Make a set of policies the active one, for every process
    Publish(Publish),
    /// Go back to a set that was active before
    Rollback(Rollback),
    /// Run the cases beside the policies, and see which policies no case exercises
    Test(Test),
}

/// Which records a command works on.
#[derive(Debug, Args)]
pub(super) struct Records {
    /// The database. Whoever can write this file is an operator: they may name any actor
    #[arg(long, value_name = "URL", default_value = "sqlite:countersign.db")]
    pub(super) db: String,
    #[command(flatten)]
    pub(super) format: Format,
}

#[derive(Debug, Args)]
pub(super) struct History {
    #[command(flatten)]
    pub(super) who: As,
    /// At most so many sets
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) limit: u32,
    #[command(flatten)]
    pub(super) records: Records,
}

#[derive(Debug, Args)]
pub(super) struct Publish {
    /// A directory of `*.cedar` files
    pub(super) dir: PathBuf,
    #[command(flatten)]
    pub(super) who: As,
    #[command(flatten)]
    pub(super) records: Records,
}

#[derive(Debug, Args)]
pub(super) struct Rollback {
    /// The set's hash, or how it begins: 6 digits at least
    #[arg(value_name = "HASH|PREFIX")]
    pub(super) hash: String,
    #[command(flatten)]
    pub(super) who: As,
    #[command(flatten)]
    pub(super) records: Records,
}

#[derive(Debug, Args)]
pub(super) struct Check {
    /// A directory of `*.cedar` files (default: the demo's policies, compiled in)
    pub(super) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(super) format: Format,
}

#[derive(Debug, Args)]
pub(super) struct Test {
    /// A directory of `*.cedar` files with cases in `tests/*.yaml` (default: the demo's, compiled in)
    pub(super) dir: Option<PathBuf>,
    /// Write a report for build servers, too: JUnit's XML
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
    #[command(flatten)]
    pub(super) format: Format,
}

impl Policy {
    pub(in crate::cli) fn format(&self) -> &Format {
        match &self.command {
            PolicyCommand::Check(it) => &it.format,
            PolicyCommand::History(it) => &it.records.format,
            PolicyCommand::Publish(it) => &it.records.format,
            PolicyCommand::Rollback(it) => &it.records.format,
            PolicyCommand::Test(it) => &it.format,
        }
    }
}
