//! Why a command gave no answer: a one-line cause, and the next step.

use clap::error::ErrorKind;
use serde_json::json;

use super::exit::Exit;
use super::policy::render;
use super::screen::{ERROR, HINT, plain, print_error};
use crate::store::StoreError;
use crate::{BuildError, PolicyProblem, Problem};

/// A command that did not get to an answer.
#[derive(Debug)]
pub(super) struct Failure {
    exit: Exit,
    cause: String,
    next: String,
    problems: Vec<PolicyProblem>,
    /// What is wrong with a configuration.
    settings: Vec<Problem>,
}

impl Failure {
    pub(super) fn could_not_run(cause: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            exit: Exit::CouldNotRun,
            cause: cause.into(),
            next: next.into(),
            problems: Vec::new(),
            settings: Vec::new(),
        }
    }

    pub(super) fn invalid(cause: impl Into<String>, next: impl Into<String>) -> Self {
        Self::ending(Exit::Invalid, cause, next)
    }

    /// An end of another sort.
    pub(super) fn ending(exit: Exit, cause: impl Into<String>, next: impl Into<String>) -> Self {
        Self { exit, ..Self::could_not_run(cause, next) }
    }

    /// The same, ending in another way.
    pub(super) fn and_end(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// Policies that do not load.
    pub(super) fn of_policies(problems: Vec<PolicyProblem>) -> Self {
        let fatal = problems.iter().filter(|it| it.is_fatal()).count();
        let cause = format!("the policies do not load: {fatal} problem{}", if fatal == 1 { "" } else { "s" });
        let next = "correct them, and look again: `countersign policy check DIR`";
        Self { problems, ..Self::invalid(cause, next) }
    }

    /// Cases that cannot be asked.
    pub(super) fn of_cases(problems: Vec<PolicyProblem>) -> Self {
        let count = problems.len();
        let cause = format!("the cases cannot be run: {count} problem{}", if count == 1 { "" } else { "s" });
        Self { problems, ..Self::invalid(cause, "correct them, and test again") }
    }

    /// Records that cannot be read.
    pub(super) fn of_trail(error: &StoreError) -> Self {
        Self::could_not_run(format!("the trail cannot be read: {error}"), "see to the database, then try again")
    }

    /// Statements that cannot be proved or refuted as they are written.
    #[cfg(feature = "prove")]
    pub(super) fn of_statements(problems: Vec<PolicyProblem>) -> Self {
        let count = problems.len();
        let cause = format!("the statements cannot be read: {count} problem{}", if count == 1 { "" } else { "s" });
        Self { problems, ..Self::invalid(cause, "correct them, and prove again") }
    }

    /// An engine that does not start although its policies load: the database.
    pub(super) fn of_engine(error: &BuildError) -> Self {
        let causes: Vec<_> = error.problems.iter().map(|it| format!("{}: {}", it.at, it.what)).collect();
        let steps: Vec<_> = error.problems.iter().map(|it| &*it.fix).collect();
        Self::could_not_run(causes.join("; "), steps.join("; "))
    }

    /// Settings that cannot be used: each problem with its place.
    pub(super) fn of_problems(cause: &str, problems: &[Problem], next: &str) -> Self {
        let count = problems.len();
        let cause = format!("{cause}: {count} problem{}", if count == 1 { "" } else { "s" });
        Self { settings: problems.to_vec(), ..Self::could_not_run(cause, next) }
    }

    /// Wrong arguments: what the parser says, in one line.
    pub(super) fn of_arguments(error: &clap::Error) -> Self {
        const HELP: &str = "see `countersign --help`, or `countersign COMMAND --help`";
        if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            return Self::could_not_run("a command is missing", HELP);
        }
        let text = error.render().to_string().replace('\'', "`");
        let cause: Vec<_> = text.lines().take_while(|it| !it.trim().is_empty()).map(str::trim).collect();
        let cause = cause.join(" ");
        let tip = text.lines().find_map(|it| it.trim().strip_prefix("tip: ")).filter(|it| !it.contains("as a value"));
        let next = tip.map_or_else(|| HELP.to_owned(), |tip| format!("{tip}; {HELP}"));
        Self::could_not_run(cause.strip_prefix("error: ").unwrap_or(&cause), next)
    }

    /// To standard error; for machines `{"error":{..}}`.
    pub(super) fn print(self, json: bool) -> Exit {
        let Self { exit, cause, next, problems, settings } = self;
        let text = if json {
            let mut error = json!({"message": cause, "next": next});
            if !problems.is_empty() {
                error["problems"] = json!(problems);
            }
            if !settings.is_empty() {
                let shown = settings.iter().map(|it| json!({"at": it.at, "what": it.what, "next": it.fix}));
                error["problems"] = shown.collect();
            }
            format!("{}\n", json!({"error": error}))
        } else {
            let settings = settings.iter().map(|it| {
                let (at, what, fix) = (plain(&it.at), plain(&it.what), plain(&it.fix));
                format!("{at}: {what}\n  {HINT}next:{HINT:#} {fix}\n")
            });
            let problems: String = problems.iter().map(render).chain(settings).collect();
            let (cause, next) = (plain(&cause).replace('\n', " "), plain(&next).replace('\n', " "));
            format!("{ERROR}error:{ERROR:#} {cause}\n{problems}  {HINT}next:{HINT:#} {next}\n")
        };
        print_error(&text);
        exit
    }
}
