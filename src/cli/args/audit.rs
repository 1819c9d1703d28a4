//! Flags of the audit trail; those of its log are in `audit_log/args.rs`.

use clap::{Args, Subcommand};

use super::{As, Place, time};
use crate::Timestamp;
use crate::cli::audit_log::LogCommand;

#[derive(Debug, Args)]
pub(in crate::cli) struct Audit {
    #[command(subcommand)]
    pub(in crate::cli) command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum AuditCommand {
    /// Events in the order of their numbers
    List(AuditList),
    /// The last events, and with --follow those that come
    Tail(AuditTail),
    #[command(flatten)]
    Log(LogCommand),
}

/// Which events.
#[derive(Debug, Args)]
pub(in crate::cli) struct About {
    /// Only this execution's
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) execution: Option<String>,
    /// Only this capability's
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) capability: Option<String>,
    /// Only what this actor did
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) actor_id: Option<String>,
    /// Only events of this type, `capability.denied`
    #[arg(long = "type", value_name = "TYPE")]
    pub(in crate::cli) kind: Option<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct AuditTail {
    #[command(flatten)]
    pub(in crate::cli) who: As,
    #[command(flatten)]
    pub(in crate::cli) about: About,
    /// Go on until Ctrl-C
    #[arg(short, long)]
    pub(in crate::cli) follow: bool,
    /// How many of the last events
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub(in crate::cli) lines: u32,
    #[command(flatten)]
    pub(in crate::cli) place: Place,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct AuditList {
    #[command(flatten)]
    pub(in crate::cli) who: As,
    #[command(flatten)]
    pub(in crate::cli) about: About,
    /// Not before this time, `2026-06-01T12:00:00Z` or `2026-06-01`
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(in crate::cli) since: Option<Timestamp>,
    /// Before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(in crate::cli) until: Option<Timestamp>,
    /// Only events after this number
    #[arg(long, value_name = "SEQ", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    pub(in crate::cli) after: i64,
    /// At most so many events
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(in crate::cli) limit: u32,
    #[command(flatten)]
    pub(in crate::cli) place: Place,
}
