//! Commands, and the flags that many of them have; those of one group are in a file of its own.

mod approvals;
mod audit;
mod calls;
mod executions;
mod serving;
mod telling;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(super) use self::approvals::{Approvals, ApprovalsCommand, ApprovalsList, Decide};
pub(super) use self::audit::{About, Audit, AuditCommand, AuditList, AuditTail};
pub(super) use self::calls::{Capabilities, CapabilitiesCommand, Check, Drawn, Governing, Invoke, Snapshot, View};
pub(super) use self::executions::{Began, Executions, ExecutionsCommand, ExecutionsList, ResolveTo};
pub(super) use self::serving::{Doctor, Init, Serve, Token, TokenCommand, TokenNew};
pub(super) use self::telling::{Comments, CommentsCommand, CommentsErase, Notifications, NotificationsCommand, Which};
use super::exit::HELP;
use super::policy::Policy;
use crate::secret::Secret;
use crate::{Surface, Timestamp};

/// Stands between AI agents and an application's procedures: every call is checked, approved, recorded and run at most
/// once. This binary carries the demo application, a support desk; start with `countersign demo`, or `countersign serve`.
#[derive(Debug, Parser)]
#[command(name = "countersign", version, after_help = HELP, disable_help_subcommand = true)]
pub(super) struct Cli {
    /// Log more to standard error: -v info, -vv debug, -vvv everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Tell the whole story, on a temporary database
    Demo(Demo),
    /// Call a capability on somebody's behalf
    Invoke(Invoke),
    /// See what can be called
    Capabilities(Capabilities),
    /// See and decide what waits for a person, and run what was approved
    Approvals(Approvals),
    /// See executions, and settle those whose end nobody knows
    Executions(Executions),
    /// Read the audit trail
    Audit(Audit),
    /// See what others could not be told of, and try again
    Notifications(Notifications),
    /// Erase what approvers wrote; the log stays as it is
    Comments(Comments),
    /// Work on policies
    Policy(Policy),
    /// Serve the HTTP API; without a configuration, the demo application on loopback
    Serve(Serve),
    /// Write a configuration and policies to begin with
    Init(Init),
    /// Look at everything that a server needs, and say what to do
    Doctor(Doctor),
    /// Make static tokens
    Token(Token),
}

/// How the answer looks.
#[derive(Debug, Args)]
pub(super) struct Format {
    /// Answer in JSON, for machines
    #[arg(long)]
    pub(super) json: bool,
}

/// Which records and rules a command works on.
#[derive(Debug, Args)]
pub(super) struct Place {
    /// The database (default: sqlite:countersign.db). Whoever can write this file is an operator: they may name any actor
    /// and surface
    #[arg(long, value_name = "URL")]
    pub(super) db: Option<String>,
    /// A directory of `*.cedar` files (default: what is active there; else the demo's policies, compiled in)
    #[arg(long, value_name = "DIR")]
    pub(super) policies: Option<PathBuf>,
    #[command(flatten)]
    pub(super) remote: Remote,
    #[command(flatten)]
    pub(super) format: Format,
}

/// Which records a command works on, whatever the rules.
#[derive(Debug, Args)]
pub(super) struct Records {
    /// The database (default: sqlite:countersign.db). Whoever can write this file is an operator: they may name any actor
    #[arg(long, value_name = "URL")]
    pub(super) db: Option<String>,
    #[command(flatten)]
    pub(super) remote: Remote,
    #[command(flatten)]
    pub(super) format: Format,
}

/// The server that is asked instead of a database.
#[derive(Debug, Args)]
pub(super) struct Remote {
    /// Ask this server instead of a database, as whom its token stands for (or set `COUNTERSIGN_SERVER`)
    #[arg(long, value_name = "URL", help_heading = "Server")]
    pub(super) server: Option<String>,
    /// The token. Others on this machine can see it while the command runs: rather set `COUNTERSIGN_TOKEN`
    #[arg(long, value_name = "TOKEN", help_heading = "Server", allow_hyphen_values = true)]
    pub(super) token: Option<Secret>,
    /// A file that has nothing but the token
    #[arg(long, value_name = "FILE", help_heading = "Server", conflicts_with = "token")]
    pub(super) token_file: Option<PathBuf>,
    /// Send token and calls in clear text to another machine
    #[arg(long, help_heading = "Server")]
    pub(super) insecure_http: bool,
}

/// On whose behalf.
#[derive(Debug, Args)]
pub(super) struct As {
    /// dana, priya, omar, nightly, anonymous, or a JSON file `{"id", "kind", "tenant", "roles", "attributes"}`
    #[arg(long, value_name = "NAME|FILE")]
    pub(super) actor: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Demo {
    #[command(flatten)]
    pub(super) format: Format,
}

/// Which configuration a command works with.
#[derive(Debug, Args)]
pub(super) struct Configured {
    /// The configuration (default: `countersign.toml`, if it is there). `COUNTERSIGN_..` variables count before it
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}

impl Command {
    pub(super) fn wants_json(&self) -> bool {
        let format = match self {
            Self::Demo(it) => &it.format,
            Self::Invoke(it) => &it.place.format,
            Self::Capabilities(it) => match &it.command {
                CapabilitiesCommand::List { view, .. } | CapabilitiesCommand::Show { view, .. } => &view.place.format,
                CapabilitiesCommand::Snapshot(_) => return false,
                CapabilitiesCommand::Check(it) => return it.format == Drawn::Json,
            },
            Self::Approvals(it) => match &it.command {
                ApprovalsCommand::List(it) => &it.place.format,
                ApprovalsCommand::Watch { place, .. }
                | ApprovalsCommand::Show { place, .. }
                | ApprovalsCommand::Resume { place, .. }
                | ApprovalsCommand::Withdraw { place, .. } => &place.format,
                ApprovalsCommand::Approve(it) | ApprovalsCommand::Reject(it) => &it.place.format,
            },
            Self::Executions(it) => match &it.command {
                ExecutionsCommand::List(it) => &it.records.format,
                ExecutionsCommand::Show { place, .. } | ExecutionsCommand::Resolve { place, .. } => &place.format,
            },
            Self::Audit(it) => match &it.command {
                AuditCommand::List(it) => &it.place.format,
                AuditCommand::Tail(it) => &it.place.format,
                AuditCommand::Log(it) => it.format(),
            },
            Self::Notifications(it) => match &it.command {
                NotificationsCommand::List { records, .. }
                | NotificationsCommand::Retry { records, .. }
                | NotificationsCommand::Drop { records, .. } => &records.format,
            },
            Self::Comments(Comments { command: CommentsCommand::Erase(it) }) => &it.records.format,
            Self::Policy(it) => it.format(),
            Self::Serve(it) => &it.format,
            Self::Init(it) => &it.format,
            Self::Doctor(it) => &it.format,
            Self::Token(Token { command: TokenCommand::New(it) }) => &it.format,
        };
        format.json
    }
}

/// Whether arguments that could not be parsed ask for JSON.
pub(super) fn json_is_wanted() -> bool {
    std::env::args_os().take_while(|it| it != "--").any(|it| it == "--json")
}

pub(super) fn surface(text: &str) -> Result<Surface, String> {
    let found = Surface::ALL.into_iter().find(|it| it.as_str() == text);
    found.ok_or_else(|| "it is one of direct, http, mcp, workflow, test".to_owned())
}

pub(super) fn time(text: &str) -> Result<Timestamp, String> {
    let found = Timestamp::parse(text).or_else(|| Timestamp::parse(&format!("{text}T00:00:00Z")));
    found.ok_or_else(|| "it is an RFC 3339 time or a date".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
