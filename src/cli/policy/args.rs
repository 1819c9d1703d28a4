//! The commands of `policy` and their flags.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::super::args::Format;

#[derive(Debug, Args)]
pub(in crate::cli) struct Policy {
    #[command(subcommand)]
    pub(super) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum PolicyCommand {
    /// Load the policies for the demo application, and report everything that is wrong with them
    Check(Check),
}

#[derive(Debug, Args)]
pub(super) struct Check {
    /// A directory of `*.cedar` files (default: the demo's policies, compiled in)
    pub(super) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(super) format: Format,
}

impl Policy {
    pub(in crate::cli) fn format(&self) -> &Format {
        match &self.command {
            PolicyCommand::Check(it) => &it.format,
        }
    }
}
