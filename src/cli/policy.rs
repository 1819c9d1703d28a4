//! `policy ..`: what a security team works with, a file a command.

mod args;
mod backtest;
mod changes;
mod check;
mod diff;
mod explain;
mod history;
mod matrix;
mod problem;
#[cfg(feature = "prove")]
mod prove;
mod publish;
mod reload;
mod rollback;
mod schema;
mod set;
mod test;
mod told;
mod who;

pub(super) use self::args::Policy;
use self::args::PolicyCommand;
pub(super) use self::problem::render;
use super::failure::Failure;
use super::screen::Answer;

pub(super) async fn run(args: Policy) -> Result<Answer, Failure> {
    match args.command {
        PolicyCommand::Backtest(args) => backtest::run(&args).await,
        PolicyCommand::Check(args) => check::run(&args),
        PolicyCommand::Diff(args) => diff::run(&args).await,
        PolicyCommand::Explain(args) => explain::run(*args).await,
        PolicyCommand::History(args) => history::run(&args).await,
        PolicyCommand::Reload(args) => reload::run(&args).await,
        PolicyCommand::Publish(args) => publish::run(&args).await,
        PolicyCommand::Rollback(args) => rollback::run(&args).await,
        PolicyCommand::Matrix(args) => matrix::run(&args),
        PolicyCommand::WhoCan(args) => who::who(&args),
        PolicyCommand::WhatCan(args) => who::what(&args),
        PolicyCommand::Test(args) => test::run(&args),
        #[cfg(feature = "prove")]
        PolicyCommand::Prove(args) => prove::run(&args),
        PolicyCommand::Schema(args) => schema::run(&args),
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
