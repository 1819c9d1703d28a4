//! Flags of approvals.

use clap::{Args, Subcommand};

use super::{As, Place, surface};
use crate::{ApprovalState, Surface};

#[derive(Debug, Args)]
pub(in crate::cli) struct Approvals {
    #[command(subcommand)]
    pub(in crate::cli) command: ApprovalsCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ApprovalsCommand {
    /// All requests, or those that an actor may see, newest first
    List(ApprovalsList),
    /// Print what waits for a decision, and every change, until Ctrl-C
    Watch {
        #[command(flatten)]
        who: As,
        #[command(flatten)]
        place: Place,
    },
    /// One request: who asked, and exactly what will run
    Show {
        /// The approval's id
        id: String,
        #[command(flatten)]
        who: As,
        #[command(flatten)]
        place: Place,
    },
    /// Agree, for one type of approval
    Approve(Decide),
    /// Refuse, finally
    Reject(Decide),
    /// Run what was approved, on behalf of whoever asked for it
    Resume {
        /// The approval's id
        id: String,
        #[command(flatten)]
        who: As,
        /// Where the call came in (default: direct)
        #[arg(long, value_parser = surface)]
        surface: Option<Surface>,
        #[command(flatten)]
        place: Place,
    },
    /// Take a request back
    Withdraw {
        /// The approval's id
        id: String,
        #[command(flatten)]
        who: As,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ApprovalsList {
    /// pending, approved, rejected, expired, withdrawn or consumed
    #[arg(long, value_parser = state)]
    pub(in crate::cli) status: Option<ApprovalState>,
    /// At most so many requests
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(in crate::cli) limit: u32,
    /// Only requests that are older than this one
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) before: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) who: As,
    #[command(flatten)]
    pub(in crate::cli) place: Place,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Decide {
    /// The approval's id
    pub(in crate::cli) id: String,
    #[command(flatten)]
    pub(in crate::cli) who: As,
    /// Which type is decided; may be left out where only one is outstanding
    #[arg(long = "type", value_name = "TYPE")]
    pub(in crate::cli) kind: Option<String>,
    /// Why, for people to read
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(in crate::cli) comment: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) place: Place,
}

fn state(text: &str) -> Result<ApprovalState, String> {
    let states = "it is one of pending, approved, rejected, expired, withdrawn, consumed";
    ApprovalState::parse(text).ok_or_else(|| states.to_owned())
}
