//! Procedures that are local commands: JSON on standard input, JSON on standard output, no shell.
//!
//! A command runs under a guard, a process of its own that ends the command's whole group when the engine closes a pipe,
//! and so too when the engine dies (EXE-10). "Nothing happened" is believed if the command states it, exits with 75, or
//! could not be started. Whatever else goes wrong with a write leaves its outcome unknown (EXE-4).

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdout};

use super::exchange::{self, Answer, Garbage};
use super::fields::{Fields, Found};
use super::guard::{GUARD, MAX_REPORT, Order, Report, STOPPING, kill};
use super::secrets::{Vault, is_secret};
use crate::clock::Clock;
use crate::handler::{DeclaredError, HandlerError};
use crate::invocation::Invocation;

/// The exit code of `EX_TEMPFAIL`, by which a command states that nothing happened.
const NOTHING_HAPPENED: i32 = 75;
/// How much longer than its procedure a command may take, where no engine's deadline comes first.
const SLACK: Duration = Duration::from_secs(1);
/// How long after its end the guard may take to say how a command ended. It needs a fraction of it.
const REPORTING: Duration = Duration::from_secs(5);
const MAX_ARGUMENTS: usize = 64;
const MAX_VARIABLES: usize = 128;

/// One procedure that is a command.
pub(super) struct Command {
    guard: PathBuf,
    program: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    directory: String,
    timeout: Duration,
    errors: Vec<DeclaredError>,
}

/// Why there is no answer. What a command wrote is never in it.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error("the command could not be started: {0}")]
    NotStarted(String),
    #[error("the command exited with 75: nothing happened")]
    Nothing,
    #[error("the command exited with {code}, after {errors} bytes on standard error")]
    Exit { code: i32, errors: u64 },
    #[error("the command ended by signal {signal}, after {errors} bytes on standard error")]
    Signal { signal: i32, errors: u64 },
    #[error("the command wrote more than 1 MiB to standard output")]
    Flood,
    #[error("the command wrote something that is no answer, and {errors} bytes to standard error")]
    Garbage {
        errors: u64,
        #[source]
        cause: Garbage,
    },
    #[error("the guard of the command ended without a report")]
    NoReport,
}

impl Command {
    /// Reads `[handler]` of kind `command`.
    pub(super) fn read(
        mut fields: Fields<'_>,
        (directory, guard, vault): (&Path, Option<&Path>, &Vault<'_>),
        (timeout, errors): (Duration, &[DeclaredError]),
        found: &mut Found<'_>,
    ) -> Option<Self> {
        if guard.is_none() {
            let fix = "name the `countersign` binary with `guard` of `[capabilities]`";
            found.problem(fields.at(), "handler", "nothing would end the command if this process died", fix);
        }
        let program = program(&mut fields, directory, found);
        let arguments = arguments(&mut fields, found);
        let environment = environment(&mut fields, vault, found);
        let directory = working_directory(&mut fields, directory, found);
        fields.end(found);
        let (guard, errors) = (guard?.to_owned(), errors.to_vec());
        Some(Self { guard, program: program?, arguments, environment, directory: directory?, timeout, errors })
    }

    /// Runs the command, until it ends or the invocation is to stop: then its whole group is ended, first gently.
    pub(super) async fn call<C>(&self, cx: &Invocation<C>, input: &Value) -> Result<Value, HandlerError> {
        let order = self.order(cx, input).map_err(HandlerError::not_executed)?;
        let stop = async {
            tokio::select! {
                () = cx.cancelled() => {}
                () = Clock::System.sleep(self.timeout + SLACK) => {}
            }
        };
        if cx.is_cancelled() {
            return Err(HandlerError::not_executed("the run was to stop before it began"));
        }
        let mut guard = match self.start() {
            Ok(guard) => guard,
            Err(error) => return Err(HandlerError::not_executed(error)),
        };
        let (Some(mut lifeline), Some(out)) = (guard.stdin.take(), guard.stdout.take()) else {
            return Err(HandlerError::not_executed("the guard has no pipes")); // it was asked for them
        };
        tokio::pin!(stop);
        let ordered = tokio::select! {
            biased;
            written = lifeline.write_all(&order) => written.is_ok(),
            () = &mut stop => false,
        };
        if !ordered {
            // The guard acts on a whole line only, and its end is not written.
            drop(lifeline);
            reap(guard).await;
            return Err(HandlerError::not_executed("the guard did not take the order"));
        }
        let mut heard = Vec::new();
        {
            let listening = listen(out, &mut heard);
            tokio::pin!(listening);
            tokio::select! {
                biased;
                () = &mut listening => {}
                () = &mut stop => {
                    drop(lifeline);
                    tokio::select! {
                        () = listening => {}
                        () = Clock::System.sleep(STOPPING + REPORTING) => {}
                    }
                }
            }
        }
        reap(guard).await;
        self.settle(&Report::parse(&heard))
    }

    fn order<C>(&self, cx: &Invocation<C>, input: &Value) -> Result<Vec<u8>, serde_json::Error> {
        let mut question = exchange::question(cx, input, self.timeout)?;
        question.push('\n');
        let order = Order {
            program: self.program.clone(),
            arguments: self.arguments.clone(),
            environment: self.environment.clone(),
            directory: self.directory.clone(),
            input: question,
        };
        let mut line = serde_json::to_vec(&order)?;
        line.push(b'\n');
        Ok(line)
    }

    /// Starts the guard, in a group of its own: what ends the engine's group does not end it before it has done its work.
    fn start(&self) -> std::io::Result<Child> {
        let mut command = tokio::process::Command::new(&self.guard);
        command.arg(GUARD).env_clear().current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    }

    fn settle(&self, report: &Report<'_>) -> Result<Value, HandlerError> {
        let cause = match report {
            Report::Refused(why) => return Err(HandlerError::not_executed(NoAnswer::NotStarted(why.clone()))),
            Report::Ended(end) if end.flooded => NoAnswer::Flood,
            Report::Ended(end) => match (end.code, end.signal) {
                (Some(0), _) => match Answer::parse(end.output) {
                    Ok(answer) => return answer.settle(&self.errors),
                    Err(cause) => NoAnswer::Garbage { errors: end.errors, cause },
                },
                (Some(NOTHING_HAPPENED), _) => return Err(HandlerError::not_executed(NoAnswer::Nothing)),
                (Some(code), _) => NoAnswer::Exit { code, errors: end.errors },
                (None, signal) => NoAnswer::Signal { signal: signal.unwrap_or_default(), errors: end.errors },
            },
            Report::Missing { group } => {
                // The guard was killed: what it guarded is ended from here.
                if let Some(group) = group {
                    kill(*group);
                }
                NoAnswer::NoReport
            }
        };
        Err(HandlerError::unknown(cause))
    }
}

/// Collects what the guard says, until it closes its end.
async fn listen(mut out: ChildStdout, heard: &mut Vec<u8>) {
    let mut limited = (&mut out).take(MAX_REPORT);
    // A pipe that breaks is a report that is not complete, which `Report::parse` sees.
    let _ = limited.read_to_end(heard).await;
}

/// Leaves no process without its end noticed, and no guard behind that does not end.
async fn reap(mut guard: Child) {
    tokio::select! {
        _ = guard.wait() => {}
        () = Clock::System.sleep(REPORTING) => {
            let _ = guard.kill().await; // it ended meanwhile
        }
    }
}

/// The program, from the manifests' directory. There is no search path: what runs is what is named.
fn program(fields: &mut Fields<'_>, directory: &Path, found: &mut Found<'_>) -> Option<String> {
    let given = fields.required::<String>("program", "name the program: `program = \"./refund\"`", found)?;
    let path = directory.join(&given.value);
    let fix = "name an executable file, absolute or from the manifests' directory; no search path is used";
    let Ok(about) = std::fs::metadata(&path) else {
        given.problem(found, "there is no such program", fix);
        return None;
    };
    if !about.is_file() || !is_executable(&about) {
        given.problem(found, "it is not an executable file", fix);
        return None;
    }
    text(&path, &given, found)
}

fn is_executable(about: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;

    about.permissions().mode() & 0o111 != 0
}

fn working_directory(fields: &mut Fields<'_>, directory: &Path, found: &mut Found<'_>) -> Option<String> {
    let Some(given) = fields.optional::<String>("cwd", found) else {
        return directory.to_str().map(Into::into);
    };
    let path = directory.join(&given.value);
    if !path.is_dir() {
        given.problem(found, "there is no such directory", "name one, absolute or from the manifests' directory");
        return None;
    }
    text(&path, &given, found)
}

fn text(path: &Path, given: &super::fields::Placed<String>, found: &mut Found<'_>) -> Option<String> {
    let text = path.to_str().filter(|it| !it.contains('\0')).map(Into::into);
    if text.is_none() {
        given.problem(found, "the path is not text", "give the directory a name in UTF-8");
    }
    text
}

fn arguments(fields: &mut Fields<'_>, found: &mut Found<'_>) -> Vec<String> {
    let Some(given) = fields.optional::<Vec<String>>("args", found) else { return Vec::new() };
    if given.value.len() > MAX_ARGUMENTS {
        given.problem(found, format!("there are more than {MAX_ARGUMENTS} arguments"), "remove some");
    }
    for argument in &given.value {
        let option = argument.split_once('=').filter(|(name, _)| is_option(name));
        let (name, value) = option.unwrap_or(("", argument));
        if argument.contains('\0') {
            given.problem(found, "an argument holds a NUL", "remove it");
        } else if is_secret(name, value) {
            let fix = "hand it over in the environment, by reference: `secrets = { NAME = { file = \"PATH\" } }`";
            given.problem(found, "an argument looks like a secret, and everybody sees arguments", fix);
        }
    }
    given.value
}

/// The whole environment of the command: the variables that the manifest passes on, as far as they are set, and secrets.
fn environment(fields: &mut Fields<'_>, vault: &Vault<'_>, found: &mut Found<'_>) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    if let Some(given) = fields.optional::<Vec<String>>("env", found) {
        for name in &given.value {
            if is_variable(name) {
                out.extend((vault.env)(name).filter(|it| !it.contains('\0')).map(|value| (name.clone(), value)));
            } else {
                given.problem(found, "it lists what is no name of a variable", "use letters, digits and `_`");
            }
        }
    }
    if let Some(table) = fields.table("secrets", found) {
        for (name, given) in table.open() {
            if !is_variable(&name) {
                given.problem(found, "it is no name of a variable", "use letters, digits and `_`");
            } else if out.iter().any(|(it, _)| *it == name) {
                given.problem(found, "`handler.env` passes it on too", "keep one of the two");
            } else {
                out.extend(vault.fetch(given, found).map(|it| (name, it.reveal().to_owned())));
            }
        }
    }
    if out.len() > MAX_VARIABLES {
        found.problem(fields.at(), "handler", format!("it has more than {MAX_VARIABLES} variables"), "remove some");
    }
    out
}

/// `--name` of `--name=value`.
fn is_option(name: &str) -> bool {
    name.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.'))
}

fn is_variable(name: &str) -> bool {
    name.bytes().next().is_some_and(|it| it.is_ascii_alphabetic() || it == b'_')
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_')
}
