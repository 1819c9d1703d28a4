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
use super::program::{TRACE, arguments, environment, program, working_directory};
use super::secrets::Vault;
use super::trace;
use crate::BoxError;
use crate::capability::Reconciliation;
use crate::clock::Clock;
use crate::handler::{DeclaredError, HandlerError};
use crate::invocation::{AgentInvocationInfo, Invocation};

/// The exit code of `EX_TEMPFAIL`, by which a command states that nothing happened.
const NOTHING_HAPPENED: i32 = 75;
/// How much longer than its procedure a command may take, where no engine's deadline comes first.
const SLACK: Duration = Duration::from_secs(1);
/// How long after its end the guard may take to say how a command ended. It needs a fraction of it.
const REPORTING: Duration = Duration::from_secs(5);

/// One procedure that is a command.
pub(super) struct Command {
    guard: PathBuf,
    program: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    directory: String,
    /// As the manifest has it: paths are others on other machines.
    place: String,
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
            found.problem(fields.at(), fields.name(), "nothing would end the command if this process died", fix);
        }
        let program = program(&mut fields, directory, found);
        let arguments = arguments(&mut fields, found);
        let environment = environment(&mut fields, vault, found);
        let cwd = working_directory(&mut fields, directory, found);
        fields.end(found);
        let (guard, errors) = (guard?.to_owned(), errors.to_vec());
        let ((given, program), (within, directory)) = (program?, cwd?);
        let place = place(&given, &arguments, within.as_deref());
        Some(Self { guard, program, arguments, environment, directory, place, timeout, errors })
    }

    /// What runs, as far as that was agreed to.
    pub(super) fn place(&self) -> String {
        self.place.clone()
    }

    /// Whether the other would run the same, however its path is written.
    pub(super) fn is(&self, other: &Self) -> bool {
        Path::new(&self.program) == Path::new(&other.program) && self.arguments == other.arguments
    }

    /// Runs the command, until it ends or the invocation is to stop: then its whole group is ended, first gently.
    pub(super) async fn call<C>(&self, cx: &Invocation<C>, input: &Value) -> Result<Value, HandlerError> {
        let question = exchange::question(cx, input, self.timeout).map_err(HandlerError::not_executed)?;
        let stop = async {
            tokio::select! {
                () = cx.cancelled() => {}
                () = Clock::System.sleep(self.timeout + SLACK) => {}
            }
        };
        if cx.is_cancelled() {
            return Err(HandlerError::not_executed("the run was to stop before it began"));
        }
        match self.run(question, trace::parent(cx), stop).await {
            Ok(heard) => self.settle(&Report::parse(&heard)),
            Err(error) => Err(HandlerError::not_executed(error)),
        }
    }

    /// Asks what became of a run. No answer is no finding, and exit codes are no answers. Whoever asks no more ends the
    /// command: its guard sees that nobody is there.
    pub(super) async fn ask(&self, agent: &AgentInvocationInfo, input: &Value) -> Result<Reconciliation, BoxError> {
        let question = exchange::doubt(agent, input, self.timeout)?;
        let heard = self.run(question, None, Clock::System.sleep(self.timeout + SLACK)).await?;
        let report = Report::parse(&heard);
        let Some(end) = report.ended_well() else { return Err(no_answer(&report).into()) };
        Ok(exchange::finding(end.output).map_err(|cause| NoAnswer::Garbage { errors: end.errors, cause })?)
    }

    /// What the guard had to say. `Err`: nothing was started.
    async fn run(
        &self,
        question: String,
        trace: Option<String>,
        stop: impl Future<Output = ()>,
    ) -> Result<Vec<u8>, BoxError> {
        let order = self.order(question, trace)?;
        let mut guard = self.start()?;
        let (Some(mut lifeline), Some(out)) = (guard.stdin.take(), guard.stdout.take()) else {
            return Err("the guard has no pipes".into()); // it was asked for them
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
            return Err("the guard did not take the order".into());
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
        Ok(heard)
    }

    fn order(&self, mut question: String, trace: Option<String>) -> Result<Vec<u8>, serde_json::Error> {
        question.push('\n');
        let mut environment = self.environment.clone();
        environment.extend(trace.map(|it| (TRACE.to_owned(), it)));
        let order = Order {
            program: self.program.clone(),
            arguments: self.arguments.clone(),
            environment,
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
        if let Some(end) = report.ended_well() {
            return match Answer::parse(end.output) {
                Ok(answer) => answer.settle(&self.errors),
                Err(cause) => Err(HandlerError::unknown(NoAnswer::Garbage { errors: end.errors, cause })),
            };
        }
        Err(match no_answer(report) {
            it @ (NoAnswer::NotStarted(_) | NoAnswer::Nothing) => HandlerError::not_executed(it),
            it => HandlerError::unknown(it),
        })
    }
}

/// `command ["./refund","--fast"] in "shop"`: as JSON, so that no name of a file passes for an argument, nor for a directory.
fn place(program: &str, arguments: &[String], within: Option<&str>) -> String {
    let run: Value = std::iter::once(program).chain(arguments.iter().map(String::as_str)).collect();
    let within = within.map_or_else(String::new, |it| format!(" in {}", Value::from(it)));
    format!("command {run}{within}")
}

/// Why a report has no answer.
fn no_answer(report: &Report<'_>) -> NoAnswer {
    match report {
        Report::Refused(why) => NoAnswer::NotStarted(why.clone()),
        Report::Ended(end) if end.flooded => NoAnswer::Flood,
        Report::Ended(end) => match (end.code, end.signal) {
            (Some(NOTHING_HAPPENED), _) => NoAnswer::Nothing,
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
