//! Commands and their flags.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::audit_log::LogCommand;
use super::exit::HELP;
use super::policy::Policy;
use crate::config::LogFormat;
use crate::secret::Secret;
use crate::{ActorKind, ApprovalState, Surface, Timestamp};

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

#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    pub(super) config: Configured,
    /// Where to listen, instead of what is configured (default 127.0.0.1:8080); port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    pub(super) listen: Option<SocketAddr>,
    /// The database, instead of the one that is configured (default sqlite:countersign.db)
    #[arg(long, value_name = "URL")]
    pub(super) db: Option<String>,
    /// The demo application, without any file, on loopback, with the tokens demo-dana, demo-priya, demo-omar, demo-nightly
    #[arg(long, conflicts_with = "config")]
    pub(super) demo: bool,
    /// How log lines look, instead of what is configured: text or json
    #[arg(long, value_name = "FORMAT", value_parser = log_format)]
    pub(super) log_format: Option<LogFormat>,
    #[command(flatten)]
    pub(super) format: Format,
}

#[derive(Debug, Args)]
pub(super) struct Init {
    /// Where to write; it is made if it is not there
    #[arg(value_name = "DIR", default_value = ".")]
    pub(super) dir: PathBuf,
    #[command(flatten)]
    pub(super) format: Format,
}

#[derive(Debug, Args)]
pub(super) struct Doctor {
    #[command(flatten)]
    pub(super) config: Configured,
    /// The database, instead of the one that is configured
    #[arg(long, value_name = "URL")]
    pub(super) db: Option<String>,
    /// Ask the server that runs here whether it is ready, and look at nothing else
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "db"])]
    pub(super) running: Option<url::Url>,
    #[command(flatten)]
    pub(super) format: Format,
}

#[derive(Debug, Args)]
pub(super) struct Token {
    #[command(subcommand)]
    pub(super) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Make one: it is shown once, with what the configuration has of it
    New(TokenNew),
}

#[derive(Debug, Args)]
pub(super) struct TokenNew {
    /// What people call the token (default: the id)
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// The id of the actor that it stands for (default: the name)
    #[arg(long, value_name = "ID")]
    pub(super) id: Option<String>,
    /// What the actor is: user, service, automation or anonymous
    #[arg(long, value_name = "KIND", value_parser = kind, default_value = "user")]
    pub(super) kind: ActorKind,
    /// A role that policies see; more than once
    #[arg(long = "role", value_name = "ROLE")]
    pub(super) roles: Vec<String>,
    /// A scope of the token; more than once
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(super) scopes: Vec<String>,
    /// Whose data the calls are about (default: `default`)
    #[arg(long, value_name = "TENANT")]
    pub(super) tenant: Option<String>,
    /// It is a person's own, who may decide approvals with it
    #[arg(long)]
    pub(super) human: bool,
    /// Put the block at the end of this configuration, too
    #[arg(long, value_name = "FILE")]
    pub(super) append: Option<PathBuf>,
    #[command(flatten)]
    pub(super) format: Format,
}

#[derive(Debug, Args)]
pub(super) struct Invoke {
    /// The capability's id, `orders.refund`
    pub(super) capability: String,
    /// The input: JSON, `@FILE`, or `-` for standard input
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "{}", allow_hyphen_values = true)]
    pub(super) input: String,
    #[command(flatten)]
    pub(super) who: As,
    /// Where the call is said to come in: direct, http, mcp, workflow, test (default: direct)
    #[arg(long, value_parser = surface)]
    pub(super) surface: Option<Surface>,
    /// The promise that two calls are the same call
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(super) idempotency_key: Option<String>,
    /// The caller's own id of the conversation, for the record
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(super) correlation_id: Option<String>,
    /// If a person must decide, wait so long for it, and run what was approved. For servers
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=50))]
    pub(super) wait: Option<u32>,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
pub(super) struct Capabilities {
    #[command(subcommand)]
    pub(super) command: CapabilitiesCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum CapabilitiesCommand {
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
pub(super) struct Governing {
    #[command(flatten)]
    pub(super) config: Configured,
    /// A directory of `*.cedar` files, instead of what is configured
    #[arg(long, value_name = "DIR")]
    pub(super) policies: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct Snapshot {
    #[command(flatten)]
    pub(super) of: Governing,
    /// Where to write it (default: standard output)
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct Check {
    #[command(flatten)]
    pub(super) of: Governing,
    /// The snapshot that was agreed to
    #[arg(long, value_name = "FILE")]
    pub(super) snapshot: PathBuf,
    /// How the answer looks: for people, as annotations of GitHub Actions, as Markdown for a pull request, for machines
    #[arg(long, value_enum, default_value_t = Drawn::Text)]
    pub(super) format: Drawn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Drawn {
    Text,
    Github,
    Md,
    Json,
}

/// Whose eyes to look through, and from where.
#[derive(Debug, Args)]
pub(super) struct View {
    #[command(flatten)]
    pub(super) who: As,
    /// Where the actor is said to come from (default: direct)
    #[arg(long, value_parser = surface)]
    pub(super) surface: Option<Surface>,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
pub(super) struct Approvals {
    #[command(subcommand)]
    pub(super) command: ApprovalsCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum ApprovalsCommand {
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
pub(super) struct ApprovalsList {
    /// pending, approved, rejected, expired, withdrawn or consumed
    #[arg(long, value_parser = state)]
    pub(super) status: Option<ApprovalState>,
    /// At most so many requests
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) limit: u32,
    /// Only requests that are older than this one
    #[arg(long, value_name = "ID")]
    pub(super) before: Option<String>,
    #[command(flatten)]
    pub(super) who: As,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
pub(super) struct Decide {
    /// The approval's id
    pub(super) id: String,
    #[command(flatten)]
    pub(super) who: As,
    /// Which type is decided; may be left out where only one is outstanding
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) kind: Option<String>,
    /// Why, for people to read
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(super) comment: Option<String>,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
pub(super) struct Executions {
    #[command(subcommand)]
    pub(super) command: ExecutionsCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum ExecutionsCommand {
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
pub(super) struct ExecutionsList {
    /// Only those that stand so
    #[arg(long, value_enum)]
    pub(super) status: Option<Began>,
    /// At most so many executions
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) limit: u32,
    /// Only executions that began before this one
    #[arg(long, value_name = "ID")]
    pub(super) before: Option<String>,
    #[command(flatten)]
    pub(super) records: Records,
}

/// Where an execution that began may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Began {
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
pub(super) enum ResolveTo {
    /// It happened
    Completed,
    /// It happened and failed, or is to be treated so
    Failed,
    /// It did not happen: the key is free again
    NotExecuted,
}

#[derive(Debug, Args)]
pub(super) struct Audit {
    #[command(subcommand)]
    pub(super) command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum AuditCommand {
    /// Events in the order of their numbers
    List(AuditList),
    /// The last events, and with --follow those that come
    Tail(AuditTail),
    #[command(flatten)]
    Log(LogCommand),
}

/// Which events.
#[derive(Debug, Args)]
pub(super) struct About {
    /// Only this execution's
    #[arg(long, value_name = "ID")]
    pub(super) execution: Option<String>,
    /// Only this capability's
    #[arg(long, value_name = "ID")]
    pub(super) capability: Option<String>,
    /// Only what this actor did
    #[arg(long, value_name = "ID")]
    pub(super) actor_id: Option<String>,
    /// Only events of this type, `capability.denied`
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) kind: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct AuditTail {
    #[command(flatten)]
    pub(super) who: As,
    #[command(flatten)]
    pub(super) about: About,
    /// Go on until Ctrl-C
    #[arg(short, long)]
    pub(super) follow: bool,
    /// How many of the last events
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub(super) lines: u32,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
pub(super) struct AuditList {
    #[command(flatten)]
    pub(super) who: As,
    #[command(flatten)]
    pub(super) about: About,
    /// Not before this time, `2026-06-01T12:00:00Z` or `2026-06-01`
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) since: Option<Timestamp>,
    /// Before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) until: Option<Timestamp>,
    /// Only events after this number
    #[arg(long, value_name = "SEQ", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    pub(super) after: i64,
    /// At most so many events
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) limit: u32,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, Args)]
pub(super) struct Comments {
    #[command(subcommand)]
    pub(super) command: CommentsCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum CommentsCommand {
    /// Erase comments for good, and record that. Every proof stays valid: the log has a salted digest of each, and no text
    Erase(CommentsErase),
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("whose").required(true).multiple(true).args(["approval", "person"])))]
pub(super) struct CommentsErase {
    /// Those about this approval
    #[arg(long, value_name = "ID")]
    pub(super) approval: Option<String>,
    /// Those of this person, by id, whoever vouched for it
    #[arg(long, value_name = "ID")]
    pub(super) person: Option<String>,
    #[command(flatten)]
    pub(super) records: Records,
}

#[derive(Debug, Args)]
pub(super) struct Notifications {
    #[command(subcommand)]
    pub(super) command: NotificationsCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum NotificationsCommand {
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
pub(super) struct Which {
    /// The notification's id
    pub(super) id: Option<String>,
    /// Everything for this webhook
    #[arg(long, value_name = "NAME")]
    pub(super) webhook: Option<String>,
    /// Everything
    #[arg(long)]
    pub(super) all: bool,
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

fn kind(text: &str) -> Result<ActorKind, String> {
    let found = ActorKind::ALL.into_iter().find(|it| it.as_str() == text);
    found.ok_or_else(|| "it is one of user, service, automation, anonymous".to_owned())
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("it is text or json".to_owned()),
    }
}

fn state(text: &str) -> Result<ApprovalState, String> {
    let states = "it is one of pending, approved, rejected, expired, withdrawn, consumed";
    ApprovalState::parse(text).ok_or_else(|| states.to_owned())
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
