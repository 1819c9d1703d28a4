//! Flags of executions.

use clap::{Args, Subcommand, ValueEnum};

use super::{As, Place, Records};

#[derive(Debug, Args)]
pub(in crate::cli) struct Executions {
    #[command(subcommand)]
    pub(in crate::cli) command: ExecutionsCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ExecutionsCommand {
    /// Those that began, newest first: what is still open is among them
    List(ExecutionsList),
    /// Where an execution stands
    Show {
        /// The execution's id
        id: String,
        #[command(flatten)]
        who: As,
        #[command(flatten)]
        place: Place,
    },
    /// Settle an execution of which nobody knows whether it happened
    Resolve {
        /// The execution's id
        id: String,
        #[command(flatten)]
        who: As,
        /// What is known now
        #[arg(long = "as", value_enum)]
        to: ResolveTo,
        /// The output that repetitions get, with `--as completed`: JSON, `@FILE`, or `-`
        #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
        output: Option<String>,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExecutionsList {
    /// Only those that stand so
    #[arg(long, value_enum)]
    pub(in crate::cli) status: Option<Began>,
    /// At most so many executions
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(in crate::cli) limit: u32,
    /// Only executions that began before this one
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) before: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) records: Records,
}

/// Where an execution that began may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(in crate::cli) enum Began {
    /// Its owner is at it
    Running,
    /// It has an output
    Completed,
    /// It failed
    Failed,
    /// It may have taken effect, and nobody knows: settle it
    Unknown,
    /// Nothing happened, or repeating it does no harm
    NotExecuted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(in crate::cli) enum ResolveTo {
    /// It happened
    Completed,
    /// It happened and failed, or is to be treated so
    Failed,
    /// It did not happen: the key is free again
    NotExecuted,
}
