//! Flags of calls, and of what can be called.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{As, Configured, Place, surface};
use crate::Surface;

#[derive(Debug, Args)]
pub(in crate::cli) struct Invoke {
    /// The capability's id, `orders.refund`
    pub(in crate::cli) capability: String,
    /// The input: JSON, `@FILE`, or `-` for standard input
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "{}", allow_hyphen_values = true)]
    pub(in crate::cli) input: String,
    #[command(flatten)]
    pub(in crate::cli) who: As,
    /// Where the call is said to come in: direct, http, mcp, workflow, test (default: direct)
    #[arg(long, value_parser = surface)]
    pub(in crate::cli) surface: Option<Surface>,
    /// The promise that two calls are the same call
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(in crate::cli) idempotency_key: Option<String>,
    /// The caller's own id of the conversation, for the record
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(in crate::cli) correlation_id: Option<String>,
    /// If a person must decide, wait so long for it, and run what was approved. For servers
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=50))]
    pub(in crate::cli) wait: Option<u32>,
    #[command(flatten)]
    pub(in crate::cli) place: Place,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Capabilities {
    #[command(subcommand)]
    pub(in crate::cli) command: CapabilitiesCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum CapabilitiesCommand {
    /// All of them, or what an actor could get allowed
    List {
        #[command(flatten)]
        view: View,
        /// Only those with one of these tags
        #[arg(long = "tag", value_name = "TAG")]
        tags: Vec<String>,
    },
    /// One of them, with its schemas
    Show {
        /// The capability's id
        capability: String,
        #[command(flatten)]
        view: View,
    },
    /// Write down everything that is governed, capabilities and policies, for version control
    Snapshot(Snapshot),
    /// Compare what is governed with a snapshot, and say what each difference means. Exit codes: 0 the same, 1 drift, 2 it
    /// could not look
    Check(Check),
}

/// Whose governance: what `countersign serve` would serve.
#[derive(Debug, Args)]
pub(in crate::cli) struct Governing {
    #[command(flatten)]
    pub(in crate::cli) config: Configured,
    /// A directory of `*.cedar` files, instead of what is configured
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) policies: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Snapshot {
    #[command(flatten)]
    pub(in crate::cli) of: Governing,
    /// Where to write it (default: standard output)
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Check {
    #[command(flatten)]
    pub(in crate::cli) of: Governing,
    /// The snapshot that was agreed to
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) snapshot: PathBuf,
    /// How the answer looks: for people, as annotations of GitHub Actions, as Markdown for a pull request, for machines
    #[arg(long, value_enum, default_value_t = Drawn::Text)]
    pub(in crate::cli) format: Drawn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Drawn {
    Text,
    Github,
    Md,
    Json,
}

/// Whose eyes to look through, and from where.
#[derive(Debug, Args)]
pub(in crate::cli) struct View {
    #[command(flatten)]
    pub(in crate::cli) who: As,
    /// Where the actor is said to come from (default: direct)
    #[arg(long, value_parser = surface)]
    pub(in crate::cli) surface: Option<Surface>,
    #[command(flatten)]
    pub(in crate::cli) place: Place,
}
