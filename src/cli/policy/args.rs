//! The commands of `policy` and their flags.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::super::args::{As, Format, Place, Records, Remote, surface, time};
use crate::{Surface, Timestamp};

#[derive(Debug, Args)]
pub(in crate::cli) struct Policy {
    #[command(subcommand)]
    pub(super) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum PolicyCommand {
    /// Ask what another set of policies would have decided of the calls on record. Exit code 1 if something comes out
    /// otherwise
    Backtest(Backtest),
    /// Load the policies for the demo application, and report everything that is wrong with them
    Check(Check),
    /// See which decisions change from one set of policies to another: over their cases, over the matrix, and with --db
    /// over the calls on record. Exit code 1 if one does, or could
    Diff(Diff),
    /// Say why a call comes out as it does: a call that nobody makes, or one on record
    Explain(Box<Explain>),
    /// Print the schema that policies are checked against, with what they cannot see of each input
    Schema(Schema),
    /// See which policy sets were active, newest first: since when, what changed, who did it
    History(History),
    /// Have a server load its own policies again
    Reload(Reload),
    /// Make a set of policies the active one, for every process
    Publish(Publish),
    /// Go back to a set that was active before
    Rollback(Rollback),
    /// See who could do what, before there is input
    Matrix(Matrix),
    /// See who could get a capability allowed, and by which policies
    WhoCan(WhoCan),
    /// See what an actor could get allowed, and by which policies
    WhatCan(WhatCan),
    /// Run the cases beside the policies, and see which policies no case exercises
    Test(Test),
    /// Prove the statements beside the policies, or see a call that refutes them
    #[cfg(feature = "prove")]
    Prove(Prove),
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
pub(super) struct Reload {
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
    /// Exit with 3 for warnings too; notes are none
    #[arg(long)]
    pub(super) deny_warnings: bool,
    #[command(flatten)]
    pub(super) format: Format,
}

#[derive(Debug, Args)]
pub(super) struct Schema {
    /// A directory of `*.cedar` files, whose `schema.cedarschema` is a part of it (default: the demo's, compiled in)
    #[arg(long, value_name = "DIR")]
    pub(super) policies: Option<PathBuf>,
    /// Write it to `countersign.cedarschema` in that directory, unless that is what it says already
    #[arg(long, requires = "policies")]
    pub(super) write: bool,
    #[command(flatten)]
    pub(super) format: Format,
}

/// How changes look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Look {
    /// For terminals
    Table,
    /// For pull requests
    #[value(alias = "md")]
    Markdown,
}

/// Who is asked about, and how changes look.
#[derive(Debug, Args)]
pub(super) struct Comparing {
    /// Whom: names or files (default: all of the demo's people). Of calls whose input is not kept the record has only the
    /// actor's name: they are asked again for whoever of these is called so, as they are today
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',')]
    pub(super) actors: Vec<String>,
    /// Show the inputs that are kept
    #[arg(long)]
    pub(super) show_inputs: bool,
    /// How it looks
    #[arg(long = "format", value_enum, default_value = "table")]
    pub(super) look: Look,
    #[command(flatten)]
    pub(super) format: Format,
}

#[derive(Debug, Args)]
pub(super) struct Diff {
    /// A directory of `*.cedar` files; with --db also `current`, the active set, or the hash of one that was active, or how
    /// that begins: 6 digits at least
    pub(super) old: String,
    /// The same
    pub(super) new: String,
    /// Ask of the calls on record, too. Whoever can read this file is an operator
    #[arg(long, value_name = "URL")]
    pub(super) db: Option<String>,
    /// Of calls on record only those not before this time, `2026-06-01T12:00:00Z` or `2026-06-01`
    #[arg(long, value_name = "TIME", value_parser = time, requires = "db")]
    pub(super) since: Option<Timestamp>,
    /// The matrix at this time (default: now)
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) now: Option<Timestamp>,
    #[command(flatten)]
    pub(super) comparing: Comparing,
}

#[derive(Debug, Args)]
pub(super) struct Backtest {
    /// A directory of `*.cedar` files, `current`, or the hash of a set that was active, or how that begins
    pub(super) set: String,
    /// Not before this time, `2026-06-01T12:00:00Z` or `2026-06-01`
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) since: Timestamp,
    /// Before this time (default: all)
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) until: Option<Timestamp>,
    /// The database (default: sqlite:countersign.db). Whoever can read this file is an operator
    #[arg(long, value_name = "URL")]
    pub(super) db: Option<String>,
    #[command(flatten)]
    pub(super) remote: Remote,
    #[command(flatten)]
    pub(super) comparing: Comparing,
}

#[derive(Debug, Args)]
pub(super) struct Explain {
    /// The capability's id, `orders.refund`
    #[arg(required_unless_present_any = ["file", "execution"], conflicts_with_all = ["file", "execution"])]
    pub(super) capability: Option<String>,
    /// Take the call from a YAML file, written like a case of `policy test`
    #[arg(long, conflicts_with_all = ["execution", "actor", "input", "surface", "client", "tenant", "now", "approved"])]
    pub(super) file: Option<PathBuf>,
    /// Take the call from the trail of `--db`
    #[arg(long, value_name = "ID", conflicts_with_all = ["actor", "input", "surface", "client", "tenant", "now", "approved"])]
    pub(super) execution: Option<String>,
    /// The input: JSON, `@FILE`, or `-` for standard input
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "{}", allow_hyphen_values = true)]
    pub(super) input: String,
    #[command(flatten)]
    pub(super) who: As,
    /// Where the call is said to come in: direct, http, mcp, workflow, test (default: direct)
    #[arg(long, value_parser = surface)]
    pub(super) surface: Option<Surface>,
    /// The agent software that is said to carry the call
    #[arg(long, value_name = "ID")]
    pub(super) client: Option<String>,
    /// Whose data the call is about (default: the actor's tenant)
    #[arg(long, value_name = "TENANT")]
    pub(super) tenant: Option<String>,
    /// When it is made, `2026-06-01T12:00:00Z` or `2026-06-01` (default: now)
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) now: Option<Timestamp>,
    /// An approval that is presented: its type, and how many people gave it
    #[arg(long = "approved", value_name = "TYPE[=N]", value_parser = approved)]
    pub(super) approved: Vec<(String, u32)>,
    /// Who is tried as an approver: names or files (default: all of the demo's people)
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',')]
    pub(super) actors: Vec<String>,
    #[command(flatten)]
    pub(super) place: Place,
}

/// From where, when, and by which policies.
#[derive(Debug, Args)]
pub(super) struct Outlooks {
    /// Only from there: direct, http, mcp, workflow, test (default: all but test)
    #[arg(long = "surface", value_name = "SURFACE", value_delimiter = ',', value_parser = surface)]
    pub(super) surfaces: Vec<Surface>,
    /// At this time, `2026-06-01T12:00:00Z` or `2026-06-01` (default: now)
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) now: Option<Timestamp>,
    /// A directory of `*.cedar` files (default: the demo's policies, compiled in)
    #[arg(long, value_name = "DIR")]
    pub(super) policies: Option<PathBuf>,
    #[command(flatten)]
    pub(super) format: Format,
}

#[derive(Debug, Args)]
pub(super) struct Matrix {
    /// Whom: names or files (default: all of the demo's people)
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',')]
    pub(super) actors: Vec<String>,
    /// How the matrix looks
    #[arg(long = "format", value_enum, default_value = "table")]
    pub(super) layout: Layout,
    #[command(flatten)]
    pub(super) view: Outlooks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Layout {
    /// For terminals
    Table,
    /// For pull requests
    Markdown,
    /// For spreadsheets, a line a cell
    Csv,
    /// For machines, as `--json`
    Json,
}

#[derive(Debug, Args)]
pub(super) struct WhoCan {
    /// The capability's id, `orders.refund`
    pub(super) capability: String,
    /// Whom: names or files (default: all of the demo's people)
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',')]
    pub(super) actors: Vec<String>,
    #[command(flatten)]
    pub(super) view: Outlooks,
}

#[derive(Debug, Args)]
pub(super) struct WhatCan {
    /// dana, priya, omar, nightly, anonymous, or a JSON file `{"id", "kind", "tenant", "roles", "attributes"}`
    pub(super) actor: String,
    #[command(flatten)]
    pub(super) view: Outlooks,
}

#[derive(Debug, Args)]
pub(super) struct Test {
    /// A directory of `*.cedar` files with cases in `tests/*.yaml` (default: the demo's, compiled in)
    pub(super) dir: Option<PathBuf>,
    /// Write a report for build servers, too: the XML of `JUnit`
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
    #[command(flatten)]
    pub(super) format: Format,
}

#[cfg(feature = "prove")]
#[derive(Debug, Args)]
pub(super) struct Prove {
    /// A directory of `*.cedar` files with statements in `invariants/*.yaml` (default: the demo's, compiled in)
    pub(super) dir: Option<PathBuf>,
    /// The solver cvc5: a path, or a name to look for in `PATH`
    #[arg(long, value_name = "PATH", env = "CVC5", default_value = "cvc5")]
    pub(super) solver: PathBuf,
    /// How long one question to the solver may take
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(super) limit: u64,
    #[command(flatten)]
    pub(super) format: Format,
}

impl Policy {
    pub(in crate::cli) fn format(&self) -> &Format {
        match &self.command {
            PolicyCommand::Backtest(it) => &it.comparing.format,
            PolicyCommand::Check(it) => &it.format,
            PolicyCommand::Diff(it) => &it.comparing.format,
            PolicyCommand::Explain(it) => &it.place.format,
            PolicyCommand::History(it) => &it.records.format,
            PolicyCommand::Reload(it) => &it.records.format,
            PolicyCommand::Publish(it) => &it.records.format,
            PolicyCommand::Rollback(it) => &it.records.format,
            PolicyCommand::Matrix(it) => &it.view.format,
            PolicyCommand::WhoCan(it) => &it.view.format,
            PolicyCommand::WhatCan(it) => &it.view.format,
            PolicyCommand::Test(it) => &it.format,
            #[cfg(feature = "prove")]
            PolicyCommand::Prove(it) => &it.format,
            PolicyCommand::Schema(it) => &it.format,
        }
    }
}

fn approved(text: &str) -> Result<(String, u32), String> {
    let (kind, people) = text.split_once('=').unwrap_or((text, "1"));
    let people = people.parse().ok().filter(|it| *it > 0);
    match people {
        Some(people) if !kind.is_empty() => Ok((kind.to_owned(), people)),
        Some(_) | None => Err("it is a type, or `TYPE=N` with the number of people who approved".into()),
    }
}
