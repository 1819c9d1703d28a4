//! The guard of a command: a small process between the engine and what it runs.
//!
//! It reads one line from standard input, the order, and from then on its standard input is a lifeline: when the other end
//! closes, by intent or because the engine was killed, the guard ends the command's whole process group. It says how the
//! command ended on standard output: a line when it began, a line at the end, and the command's own output.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::FusedFuture;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use super::exchange::MAX_ANSWER;

/// The argument that makes a program the guard.
pub const GUARD: &str = "__guard";

/// How long a command may take to end after it was asked to, before it is killed.
pub(super) const STOPPING: Duration = Duration::from_secs(2);
/// How long what is left in the pipes may take to arrive. Only processes that left the group hold them open longer.
const DRAINING: Duration = Duration::from_millis(200);
/// How long the processes of a killed group may take to be gone.
const DYING: Duration = Duration::from_secs(1);
/// The most bytes of an order: the longest input, with everything in it escaped.
const MAX_ORDER: u64 = 16 << 20;
/// The most bytes of what a guard says.
pub(super) const MAX_REPORT: u64 = MAX_ANSWER as u64 + 4_096;

/// What to run.
#[derive(Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) directory: String,
    /// What the command reads.
    pub(super) input: String,
}

/// The first line of a report.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Begun {
    /// The command runs in this process group.
    Started(i32),
    /// It was not started, and why.
    Refused(String),
}

/// The second line; the output follows it.
#[derive(Serialize, Deserialize)]
struct Ended {
    code: Option<i32>,
    signal: Option<i32>,
    flooded: bool,
    errors: u64,
    output: usize,
}

/// How a command ended.
#[derive(Debug, PartialEq)]
pub(super) struct End<'a> {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    /// Whether it was killed for writing more than an answer may have.
    pub(super) flooded: bool,
    /// How many bytes it wrote to standard error. They are kept nowhere.
    pub(super) errors: u64,
    pub(super) output: &'a [u8],
}

/// What a guard said, from the engine's side.
#[derive(Debug, PartialEq)]
pub(super) enum Report<'a> {
    /// Nothing was started.
    Refused(String),
    Ended(End<'a>),
    /// The guard ended before it could say; the group, if it had begun one.
    Missing {
        group: Option<i32>,
    },
}

impl<'a> Report<'a> {
    /// The end of a command that exited with 0 and wrote no more than it may.
    pub(super) fn ended_well(&self) -> Option<&End<'a>> {
        match self {
            Self::Ended(end) if end.code == Some(0) && !end.flooded => Some(end),
            Self::Ended(_) | Self::Refused(_) | Self::Missing { .. } => None,
        }
    }

    pub(super) fn parse(heard: &'a [u8]) -> Self {
        let Some((begun, rest)) = line(heard) else { return Self::Missing { group: None } };
        let group = match begun {
            Begun::Refused(why) => return Self::Refused(why),
            Begun::Started(group) => group,
        };
        match line::<Ended>(rest) {
            Some((Ended { code, signal, flooded, errors, output }, bytes)) if bytes.len() == output => {
                Self::Ended(End { code, signal, flooded, errors, output: bytes })
            }
            Some(_) | None => Self::Missing { group: Some(group) },
        }
    }
}

/// A line of JSON, and what follows it.
fn line<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Option<(T, &[u8])> {
    let end = bytes.iter().position(|it| *it == b'\n')?;
    Some((serde_json::from_slice(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

/// Ends every process of a group, at once.
pub(super) fn kill(group: i32) {
    send(group, Signal::KILL);
}

/// A group whose last process is gone cannot be signalled, and need not be.
fn send(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group) {
        let _ = rustix::process::kill_process_group(group, signal);
    }
}

/// Guards one command. A program that is named as `guard` in the settings calls this, and nothing before it, when its first
/// argument is [`GUARD`].
///
/// It ends with the command that it was ordered to run, or within about three seconds after its standard input is closed.
pub fn guard() -> ExitCode {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return ExitCode::FAILURE;
    };
    let ran = runtime.block_on(run());
    runtime.shutdown_background(); // a thread may still wait for a process that does not die
    if ran.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn run() -> io::Result<()> {
    // Ends with its lifeline only: whoever stops a whole service at once must not stop the guard before the command.
    let _kept = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?];
    adopt();
    let mut lifeline = pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    let Some(order) = order(&mut lifeline).await? else { return Ok(()) };
    let mut child = match start(&order) {
        Ok(child) => child,
        Err(error) => return say(&Begun::Refused(error.kind().to_string()), &[]),
    };
    let group = child.id().and_then(|it| i32::try_from(it).ok()).ok_or(io::ErrorKind::NotFound)?;
    // Whoever should read it may be gone: then the lifeline says so, too.
    let _ = say(&Begun::Started(group), &[]);
    let (ended, output) = watch(&mut child, group, order.input, lifeline).await?;
    say(&ended, &output)
}

/// Reads the one line of the order; nothing if the other end closes before it is complete.
async fn order(lifeline: &mut pipe::Receiver) -> io::Result<Option<Order>> {
    let mut line = Vec::new();
    let mut limited = lifeline.take(MAX_ORDER);
    while line.last() != Some(&b'\n') {
        if limited.read_buf(&mut line).await? == 0 {
            return Ok(None);
        }
    }
    Ok(serde_json::from_slice(&line).ok())
}

fn start(order: &Order) -> io::Result<Child> {
    let mut command = Command::new(&order.program);
    command.args(&order.arguments).env_clear().envs(order.environment.iter().map(|(name, value)| (name, value)));
    command.current_dir(&order.directory).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// Sees the command to its end, and its group too.
async fn watch(child: &mut Child, group: i32, input: String, lifeline: pipe::Receiver) -> io::Result<(Ended, Vec<u8>)> {
    let (mut output, mut errors, flood) = (Vec::new(), 0, Notify::new());
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else { return Err(io::ErrorKind::BrokenPipe.into()) };
    {
        let pumps = async {
            tokio::join!(feed(stdin, input), collect(stdout, &mut output, &flood), drain(stderr, &mut errors));
        };
        let pumps = pumps.fuse();
        tokio::pin!(pumps);
        let exit = exit(group).shared();
        let is_abandoned = async {
            tokio::select! {
                () = exit.clone() => false,
                () = flood.notified() => false,
                () = closed(lifeline) => true,
            }
        };
        if beside(&mut pumps, is_abandoned).await {
            send(group, Signal::TERM);
            let _ = beside(&mut pumps, tokio::time::timeout(STOPPING, exit.clone())).await; // obeyed or not
        }
        // Whatever the command started ends with it. It is not waited for yet, so the group's number is nobody else's.
        kill(group);
        beside(&mut pumps, exit).await;
        if !pumps.is_terminated() {
            let _ = tokio::time::timeout(DRAINING, pumps).await;
        }
    }
    let status: ExitStatus = child.wait().await?;
    bury(group).await;
    let flooded = output.len() > MAX_ANSWER;
    output.truncate(if flooded { 0 } else { output.len() });
    let ended = Ended { code: status.code(), signal: status.signal(), flooded, errors, output: output.len() };
    Ok((ended, output))
}

/// Waits while the pumps go on; a command that has closed its pipes may still run.
async fn beside<T>(pumps: &mut (impl FusedFuture<Output = ()> + Unpin), wait: impl Future<Output = T>) -> T {
    tokio::pin!(wait);
    loop {
        tokio::select! {
            biased;
            it = &mut wait => return it,
            () = &mut *pumps, if !pumps.is_terminated() => {}
        }
    }
}

/// Whoever does not read it may close it.
async fn feed(mut stdin: ChildStdin, input: String) {
    let _ = stdin.write_all(input.as_bytes()).await;
}

/// Collects what an answer may have, and one byte more.
async fn collect(out: impl AsyncRead + Unpin, output: &mut Vec<u8>, flood: &Notify) {
    let mut limited = out.take(MAX_ANSWER as u64 + 1);
    let _ = limited.read_to_end(output).await;
    if output.len() > MAX_ANSWER {
        flood.notify_one();
    }
}

/// Reads and forgets: standard error may hold payload, and nobody may block on it.
async fn drain(mut out: impl AsyncRead + Unpin, count: &mut u64) {
    let mut buffer = [0; 8_192];
    while let Ok(read @ 1..) = out.read(&mut buffer).await {
        *count += read as u64;
    }
}

/// Waits until the other end is closed. Nothing more is ever written to it.
async fn closed(mut lifeline: pipe::Receiver) {
    let mut buffer = [0; 64];
    while let Ok(1..) = lifeline.read(&mut buffer).await {}
}

/// Waits until the process has ended, and leaves it to be waited for.
async fn exit(process: i32) {
    let _ = tokio::task::spawn_blocking(move || {
        let Some(process) = Pid::from_raw(process) else { return };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = rustix::process::waitid(WaitId::Pid(process), options) {}
    })
    .await;
}

/// What the command started becomes this process's to wait for, once its own parent is gone.
#[cfg(target_os = "linux")]
fn adopt() {
    // Without it they are whoever's who waits for orphans.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

#[cfg(not(target_os = "linux"))]
fn adopt() {}

/// Waits for what is left of a killed group, so that when the command's end is told, the group is gone.
async fn bury(group: i32) {
    let waiting = tokio::task::spawn_blocking(move || {
        let Some(group) = Pid::from_raw(group) else { return };
        loop {
            match rustix::process::waitpgid(group, WaitOptions::empty()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return, // there are no more
            }
        }
    });
    tokio::select! {
        _ = waiting => {}
        () = tokio::time::sleep(DYING) => {}
    }
}

/// Writes a line and what follows it, at once.
fn say(line: &impl Serialize, output: &[u8]) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    bytes.extend_from_slice(output);
    let mut out = io::stdout().lock();
    out.write_all(&bytes)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_report_says_how_a_command_ended() {
        let whole = b"{\"started\":7}\n{\"code\":0,\"signal\":null,\"flooded\":false,\"errors\":3,\"output\":2}\n{}";
        let end = End { code: Some(0), signal: None, flooded: false, errors: 3, output: b"{}" };
        assert_eq!(Report::parse(whole), Report::Ended(end));
        for cut in 0..whole.len() {
            let group = (cut > 13).then_some(7);
            assert_eq!(Report::parse(&whole[..cut]), Report::Missing { group }, "{cut}");
        }
        assert_eq!(Report::parse(b"{\"refused\":\"x\"}\n"), Report::Refused("x".into()));
    }
}
