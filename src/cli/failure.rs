//! Why a command gave no answer: a one-line cause, and the next step.

use serde_json::json;

use super::exit::Exit;
use super::policy::render;
use super::screen::{ERROR, HINT, plain, print_error};
use crate::{BuildError, PolicyProblem};

/// A command that did not get to an answer.
#[derive(Debug)]
pub(super) struct Failure {
    exit: Exit,
    cause: String,
    next: String,
    problems: Vec<PolicyProblem>,
}

impl Failure {
    pub(super) fn could_not_run(cause: impl Into<String>, next: impl Into<String>) -> Self {
        Self { exit: Exit::CouldNotRun, cause: cause.into(), next: next.into(), problems: Vec::new() }
    }

    pub(super) fn invalid(cause: impl Into<String>, next: impl Into<String>) -> Self {
        Self { exit: Exit::Invalid, ..Self::could_not_run(cause, next) }
    }

    /// Policies that do not load.
    pub(super) fn of_policies(problems: Vec<PolicyProblem>) -> Self {
        let fatal = problems.iter().filter(|it| it.fatal).count();
        let cause = format!("the policies do not load: {fatal} problem{}", if fatal == 1 { "" } else { "s" });
        let next = "correct them, and look again: `countersign policy check DIR`";
        Self { problems, ..Self::invalid(cause, next) }
    }

    /// An engine that does not start although its policies load: the database.
    pub(super) fn of_engine(error: &BuildError) -> Self {
        let causes: Vec<_> = error.problems.iter().map(|it| format!("{}: {}", it.at, it.what)).collect();
        let steps: Vec<_> = error.problems.iter().map(|it| &*it.fix).collect();
        Self::could_not_run(causes.join("; "), steps.join("; "))
    }

    /// Wrong arguments: what the parser says, in one line.
    pub(super) fn of_arguments(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let cause: Vec<_> = text.lines().take_while(|it| !it.trim().is_empty()).map(str::trim).collect();
        let cause = cause.join(" ");
        let cause = cause.strip_prefix("error: ").unwrap_or(&cause);
        let tip = text.lines().find_map(|it| it.trim().strip_prefix("tip: "));
        let help = "see `countersign --help`, or `countersign COMMAND --help`";
        let next = tip.map_or_else(|| help.to_owned(), |tip| format!("{tip}; {help}"));
        Self::could_not_run(if cause.is_empty() { "no command was named" } else { cause }, next)
    }

    /// To standard error; for machines `{"error":{..}}`.
    pub(super) fn print(self, json: bool) -> Exit {
        let Self { exit, cause, next, problems } = self;
        let text = if json {
            let mut error = json!({"message": cause, "next": next});
            if !problems.is_empty() {
                error["problems"] = json!(problems);
            }
            format!("{}\n", json!({"error": error}))
        } else {
            let problems: String = problems.iter().map(render).collect();
            let (cause, next) = (plain(&cause).replace('\n', " "), plain(&next).replace('\n', " "));
            format!("{ERROR}error:{ERROR:#} {cause}\n{problems}  {HINT}next:{HINT:#} {next}\n")
        };
        print_error(&text);
        exit
    }
}
