//! The real binary, serving the demo on the database of the place: started, looked at, killed, asked to stop.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

/// However busy the machine is.
const STARTED: Duration = Duration::from_mins(1);

/// What the kernel says of a process, in KiB; nothing where there is no `/proc`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    /// All that is resident, the binary's own pages too.
    pub(super) resident: u64,
    /// What no file is behind: heap and stacks.
    pub(super) own: u64,
}

pub(super) struct Serving {
    child: Child,
    pub(super) address: SocketAddr,
    /// When it had just begun to listen.
    pub(super) idle: Memory,
    /// Open, as a supervisor would hold it.
    _out: BufReader<ChildStdout>,
}

fn binary() -> PathBuf {
    std::env::var_os("COUNTERSIGN_SOAK_BINARY").map_or_else(|| env!("CARGO_BIN_EXE_countersign").into(), PathBuf::from)
}

/// A command on the place's database, which none of this run's variables reach.
fn command(place: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).args(["--db", "sqlite:soak.db", "--json"]).current_dir(place).kill_on_drop(true);
    for (name, _) in std::env::vars_os().filter(|it| it.0.to_string_lossy().starts_with("COUNTERSIGN_")) {
        command.env_remove(name);
    }
    command
}

impl Serving {
    pub(super) async fn start(place: &Path) -> Self {
        let log = OpenOptions::new().create(true).append(true).open(place.join("log")).unwrap();
        let mut command = command(place, &["serve", "--demo", "--listen", "127.0.0.1:0"]);
        let mut child =
            command.env("COUNTERSIGN_LOG", "warn").stdout(Stdio::piped()).stderr(Stdio::from(log)).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let read = tokio::time::timeout(STARTED, out.read_line(&mut line)).await.expect("it starts");
        let said: Option<Value> = read.ok().and_then(|_| serde_json::from_str(&line).ok());
        let Some(said) = said else {
            panic!("it said {line:?} and {}", std::fs::read_to_string(place.join("log")).unwrap());
        };
        let address = said["address"].as_str().unwrap().parse().unwrap();
        let mut serving = Self { child, address, idle: Memory::default(), _out: out };
        serving.idle = serving.memory();
        serving
    }

    /// Now.
    pub(super) fn memory(&self) -> Memory {
        let path = format!("/proc/{}/status", self.child.id().unwrap());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let figure = |name: &str| {
            let line = status.lines().find_map(|it| it.strip_prefix(name));
            line.and_then(|it| it.split_whitespace().next()?.parse().ok()).unwrap_or_default()
        };
        Memory { resident: figure("VmRSS:"), own: figure("RssAnon:") }
    }

    /// With SIGKILL: it finishes nothing.
    pub(super) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// With SIGTERM: in good order.
    pub(super) async fn stop(mut self) {
        let process = rustix::process::Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
        let ended = tokio::time::timeout(STARTED, self.child.wait()).await.expect("it ends").unwrap();
        assert_eq!(ended.code(), Some(0), "it ends in good order");
    }
}

/// The log as evidence: nothing is edited, missing, inserted or swapped.
pub(super) async fn verify(place: &Path) {
    let ran = command(place, &["audit", "verify"]).output().await.unwrap();
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
    assert_eq!((ran.status.code(), &report["ok"]), (Some(0), &Value::Bool(true)), "{report}");
}
