//! The binary as people and scripts meet it.

mod audit_log;
mod awkward;
mod bad_input;
mod commands;
mod comments;
mod config;
mod deploy;
mod doctor;
mod documents;
mod drift;
mod export;
mod init;
mod notifications;
mod ocsf;
mod otel;
mod page;
mod policies;
mod policy_backtest;
mod policy_check;
mod policy_diff;
mod policy_explain;
mod policy_matrix;
#[cfg(feature = "prove")]
mod policy_prove;
mod policy_schema;
mod policy_test;
mod remote;
mod retain;
mod serve;
mod story;
mod token;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A directory to work in, and the binary.
struct Shell {
    directory: TempDir,
}

/// What a command came to.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Shell {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.fed(arguments, "")
    }

    fn fed(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Whoever does not read it may close it.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        // Paths of this run are none of a snapshot's business.
        let text = |it: Vec<u8>| String::from_utf8(it).unwrap().replace(self.path().to_str().unwrap(), "DIR");
        Ran { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// A script of the directory, with the shell.
    fn script(&self, name: &str) -> Ran {
        let output = Command::new("sh").arg(name).current_dir(self.path()).stdin(Stdio::null()).output().unwrap();
        let text = |it: Vec<u8>| String::from_utf8(it).unwrap().replace(self.path().to_str().unwrap(), "DIR");
        Ran { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
        command.args(arguments).current_dir(self.path());
        // Each of them may be a key of the configuration.
        for (name, _) in std::env::vars_os().filter(|it| it.0.to_string_lossy().starts_with("COUNTERSIGN_")) {
            command.env_remove(name);
        }
        command
    }
}

impl Ran {
    /// The document on standard output.
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).map_err(|_| self).unwrap()
    }
}
