//! The command line: operates a database of calls with the demo application on it, and tells the demo's story.
//!
//! Every command makes an `Answer` or a `Failure`; what is printed, where, and with which exit code is decided
//! here, once.

mod actors;
mod approvals;
mod args;
mod audit;
mod capabilities;
mod demo;
mod executions;
mod exit;
mod failure;
mod invoke;
mod notifications;
mod open;
mod policy;
mod screen;
mod user;

use std::process::ExitCode;

use clap::Parser as _;
use tracing_subscriber::EnvFilter;

use args::{Cli, Command};
use exit::Exit;
use failure::Failure;
use screen::Answer;

/// The variable that says what is logged, in the syntax of `tracing_subscriber::EnvFilter`.
const LOG: &str = "COUNTERSIGN_LOG";

/// Parses the arguments, runs the command, prints its answer.
pub fn main() -> ExitCode {
    let exit = match Cli::try_parse() {
        Ok(cli) => {
            let json = cli.command.wants_json();
            run(cli).unwrap_or_else(|failure| failure.print(json))
        }
        Err(error) if error.use_stderr() => Failure::of_arguments(&error).print(args::json_is_wanted()),
        Err(help) => screen::print(&help.render().ansi().to_string()),
    };
    ExitCode::from(exit.code())
}

fn run(cli: Cli) -> Result<Exit, Failure> {
    init_log(cli.verbose, matches!(cli.command, Command::Demo(_)))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        Failure::could_not_run(format!("no threads to work with: {error}"), "free some of the machine's memory")
    })?;
    let json = cli.command.wants_json();
    let answer = runtime.block_on(command(cli.command))?;
    Ok(answer.print(json))
}

async fn command(command: Command) -> Result<Answer, Failure> {
    match command {
        Command::Demo(args) => demo::run(args).await,
        Command::Invoke(args) => invoke::run(args).await,
        Command::Capabilities(args) => capabilities::run(args).await,
        Command::Approvals(args) => approvals::run(args).await,
        Command::Executions(args) => executions::run(args).await,
        Command::Audit(args) => audit::run(args).await,
        Command::Notifications(args) => notifications::run(args).await,
        Command::Policy(args) => policy::run(args).await,
    }
}

/// Logs go to standard error; by default only what the operator must see to, and nothing that breaks into the demo's story.
#[expect(clippy::disallowed_methods, reason = "the environment is read by the command line only")]
fn init_log(verbose: u8, story: bool) -> Result<(), Failure> {
    let default = match (verbose, story) {
        (0, true) => "off",
        (0, false) => "error,sqlx=off",
        (1, _) => "info,sqlx=warn", // causes of failed calls, too
        (2, _) => "debug,sqlx=warn",
        (3.., _) => "trace",
    };
    let wanted = std::env::var(LOG).ok().filter(|it| !it.is_empty());
    let filter = EnvFilter::try_new(wanted.as_deref().unwrap_or(default)).map_err(|error| {
        let cause = format!("`{LOG}` holds no log filter: {error}");
        Failure::could_not_run(cause, format!("set it to a level, `{LOG}=info`, or unset it"))
    })?;
    // Refused only if a logger is there already: then that one logs.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(anstream::stderr).try_init();
    Ok(())
}
