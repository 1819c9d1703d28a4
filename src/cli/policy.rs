//! `policy ..`: what a security team works with, a file a command.

mod args;
mod check;
mod problem;

pub(super) use self::args::Policy;
use self::args::PolicyCommand;
pub(super) use self::problem::render;
use super::failure::Failure;
use super::screen::Answer;

#[expect(clippy::unused_async, reason = "like every command")]
pub(super) async fn run(args: Policy) -> Result<Answer, Failure> {
    match args.command {
        PolicyCommand::Check(args) => check::run(&args),
    }
}
