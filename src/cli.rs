//! The command line: operates a database of calls with the demo application on it, and tells the demo's story.
//!
//! Every command makes an `Answer` or a `Failure`; what is printed, where, and with which exit code is decided
//! here, once.

mod actors;
mod application;
mod approvals;
mod args;
mod audit;
mod audit_log;
mod capabilities;
mod comments;
mod demo;
mod doctor;
mod drift;
mod executions;
mod exit;
mod failure;
mod init;
mod interrupt;
mod invoke;
mod log;
mod notifications;
mod open;
mod place;
mod policy;
mod remote;
mod screen;
mod serve;
mod settings;
mod token;
mod user;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;

use args::{Cli, Command};
use exit::Exit;
use failure::Failure;
use screen::Answer;

/// How long threads that still work may go on when there is an answer.
const LAST_MOMENT: Duration = Duration::from_secs(1);

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
    // A server logs as its configuration says.
    if !matches!(cli.command, Command::Serve(_)) {
        log::init(cli.verbose, matches!(cli.command, Command::Demo(_)))?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        Failure::could_not_run(format!("no threads to work with: {error}"), "free some of the machine's memory")
    })?;
    let json = cli.command.wants_json();
    let answer = runtime.block_on(command(cli.command, cli.verbose));
    runtime.shutdown_timeout(LAST_MOMENT);
    Ok(answer?.print(json))
}

async fn command(command: Command, verbose: u8) -> Result<Answer, Failure> {
    match command {
        Command::Demo(args) => demo::run(args).await,
        Command::Invoke(args) => invoke::run(args).await,
        Command::Capabilities(args) => capabilities::run(args).await,
        Command::Approvals(args) => approvals::run(args).await,
        Command::Executions(args) => executions::run(args).await,
        Command::Audit(args) => audit::run(args).await,
        Command::Notifications(args) => notifications::run(args).await,
        Command::Comments(args) => comments::run(args).await,
        Command::Policy(args) => policy::run(args).await,
        Command::Serve(args) => Box::pin(serve::run(args, verbose)).await,
        Command::Init(args) => init::run(&args),
        Command::Doctor(args) => doctor::run(args).await,
        Command::Token(args) => token::run(args),
    }
}
