//! Flags of what others are told, and of what approvers wrote.

use clap::{Args, Subcommand};

use super::Records;

#[derive(Debug, Args)]
pub(in crate::cli) struct Comments {
    #[command(subcommand)]
    pub(in crate::cli) command: CommentsCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum CommentsCommand {
    /// Erase comments for good, and record that. Every proof stays valid: the log has a salted digest of each, and no text
    Erase(CommentsErase),
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("whose").required(true).multiple(true).args(["approval", "person"])))]
pub(in crate::cli) struct CommentsErase {
    /// Those about this approval
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) approval: Option<String>,
    /// Those of this person, by id, whoever vouched for it
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) person: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) records: Records,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Notifications {
    #[command(subcommand)]
    pub(in crate::cli) command: NotificationsCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum NotificationsCommand {
    /// What waits to be told, and what was given up, the oldest first
    List {
        /// Only what is for this webhook
        #[arg(long, value_name = "NAME")]
        webhook: Option<String>,
        /// Only what was given up
        #[arg(long)]
        dead: bool,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        #[command(flatten)]
        records: Records,
    },
    /// Try again what was given up; a webhook whose receiver said that it is gone is told again
    Retry {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        records: Records,
    },
    /// Forget what was given up
    Drop {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        records: Records,
    },
}

/// Which of those that were given up.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct Which {
    /// The notification's id
    pub(in crate::cli) id: Option<String>,
    /// Everything for this webhook
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) webhook: Option<String>,
    /// Everything
    #[arg(long)]
    pub(in crate::cli) all: bool,
}
