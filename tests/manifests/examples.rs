//! The examples in other languages run, and do what the contract asks of a procedure.
//!
//! Python 3 and Node are looked for on the search path; the TypeScript example is built first (`npm ci && npm run build`).
//! Where something is missing a test is skipped, and says so; with `COUNTERSIGN_EXAMPLES` set it fails.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use countersign::manifest::load;
use countersign::testing::TestApp;
use countersign::{Actor, Capability, Outcome};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};

use super::{Files, SECRET, app, dana, env, fate, guarded, invoke};

/// One of the examples, and what its procedures are called with.
struct Example {
    directory: &'static str,
    /// What runs it, and from where in its directory.
    program: &'static str,
    script: &'static str,
    /// The origin in its manifests.
    origin: &'static str,
    read: Call,
    missing: Call,
    write: Call,
    declared: Call,
    locked: Call,
    /// A procedure that takes longer than its deadline.
    slow: &'static str,
}

/// A capability, an input, and what comes of it.
type Call = (&'static str, fn() -> Value, &'static str);

const PYTHON: Example = Example {
    directory: "examples/python",
    program: "python3",
    script: "server.py",
    origin: "http://127.0.0.1:8700",
    read: ("stock.get", || json!({"sku": "bolt"}), r#"completed {"sku":"bolt","count":40}"#),
    missing: ("stock.get", || json!({"sku": "cog"}), "EXECUTION_FAILED (There is no such item.), executed no: failed"),
    write: (
        "stock.adjust",
        || json!({"sku": "bolt", "by": -2}),
        r#"completed {"sku":"bolt","count":38,"approvedBy":["priya"]}"#,
    ),
    declared: (
        "stock.adjust",
        || json!({"sku": "nut", "by": -13}),
        "EXECUTION_FAILED (There are not that many.), executed unknown: failed",
    ),
    locked: ("stock.adjust", || json!({"sku": "washer", "by": 1}), "EXECUTION_FAILED, executed no: not_executed"),
    slow: "stock.stocktake",
};

const TYPESCRIPT: Example = Example {
    directory: "examples/typescript",
    program: "node",
    script: "dist/server.js",
    origin: "http://127.0.0.1:8800",
    read: (
        "tickets.get",
        || json!({"ticketId": "T-1"}),
        r#"completed {"subject":"The door does not close.","state":"open"}"#,
    ),
    missing: (
        "tickets.get",
        || json!({"ticketId": "T-9"}),
        "EXECUTION_FAILED (There is no such ticket.), executed no: failed",
    ),
    write: ("tickets.close", || json!({"ticketId": "T-1"}), r#"completed {"closedFor":"dana","approvedBy":["priya"]}"#),
    declared: (
        "tickets.close",
        || json!({"ticketId": "T-2"}),
        "EXECUTION_FAILED (Somebody has closed it before.), executed unknown: failed",
    ),
    locked: ("tickets.close", || json!({"ticketId": "T-3"}), "EXECUTION_FAILED, executed no: not_executed"),
    slow: "tickets.export",
};

impl Example {
    fn path(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(self.directory)
    }

    /// Whether everything is there that it needs; where it must be, fails.
    fn is_there(&self) -> bool {
        let found = std::process::Command::new(self.program).arg("--version").output();
        let missing = if !found.is_ok_and(|it| it.status.success()) {
            format!("there is no {}", self.program)
        } else if !self.path().join(self.script).exists() {
            format!("{}/{} is not built", self.directory, self.script)
        } else {
            return true;
        };
        let must = std::env::var_os("COUNTERSIGN_EXAMPLES").is_some();
        assert!(!must, "{missing}");
        eprintln!("SKIPPED, {missing}: {}", self.directory);
        false
    }

    /// Its manifests, with another origin and another secret.
    fn capabilities(&self, files: &Files, origin: &str, secret: &str) -> Vec<Capability> {
        for entry in std::fs::read_dir(self.path().join("capabilities")).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap().replace(self.origin, origin);
            files.write(&format!("capabilities/{}", path.file_name().unwrap().to_str().unwrap()), &text);
        }
        let label = self.path().join("label.py");
        if label.exists() {
            std::fs::copy(label, files.path().join("label.py")).unwrap();
        }
        let env = |name: &str| match name {
            "COUNTERSIGN_SIGNING_KEY" => Some(secret.to_owned()),
            "PATH" => std::env::var("PATH").ok(),
            _ => env(name),
        };
        load(&files.path().join("capabilities"), &guarded().endpoints([origin]), &env).unwrap()
    }
}

/// A running server. It ends with the test.
struct Server {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    origin: String,
}

impl Server {
    async fn start(example: &Example) -> Self {
        let mut command = Command::new(example.program);
        command.arg(example.path().join(example.script)).env("PORT", "0").env("COUNTERSIGN_SIGNING_KEY", SECRET);
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let origin = said(&mut lines, "listening on ").await;
        Self { _child: child, lines, origin }
    }
}

/// What follows this in the first line that begins with it.
async fn said(lines: &mut Lines<BufReader<ChildStdout>>, beginning: &str) -> String {
    let looking = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if let Some(rest) = line.strip_prefix(beginning) {
                return rest.to_owned();
            }
        }
        panic!("it never says `{beginning}`")
    };
    tokio::time::timeout(Duration::from_mins(1), looking).await.expect("it says so in time")
}

/// Calls, has Priya approve, resumes.
async fn approved(app: &TestApp<()>, (capability, input, _): &Call) -> Outcome {
    let outcome = invoke(app, capability, input()).await;
    let approval = outcome.approval().unwrap_or_else(|| panic!("{outcome:?}")).id.clone();
    let priya = Actor::user("priya").role("manager");
    app.approvals(priya).approve(&approval, "manager").await.unwrap();
    app.on_behalf_of(dana()).resume(&approval).await
}

async fn the_story_of(example: &Example) {
    if !example.is_there() {
        return;
    }
    let mut server = Server::start(example).await;
    let files = Files::new();
    let app = app(example.capabilities(&files, &server.origin, SECRET)).await;
    for (capability, input, expected) in [&example.read, &example.missing] {
        let outcome = invoke(&app, capability, input()).await;
        assert_eq!(&fate(&app, &outcome).await, expected);
    }
    for call in [&example.write, &example.declared, &example.locked] {
        let outcome = approved(&app, call).await;
        assert_eq!(fate(&app, &outcome).await, call.2);
    }

    let running = app.on_behalf_of(dana()).invoke(example.slow, json!({})).start();
    said(&mut server.lines, &format!("/{}", example.slow)).await;
    app.clock().advance(Duration::from_secs(2));
    assert_eq!(fate(&app, &running.await).await, "TIMEOUT, retryable, executed no: cancelled");
    if example.directory == TYPESCRIPT.directory {
        said(&mut server.lines, "the export was stopped").await;
    }

    let other = "whsec_YW5vdGhlci1rZXktb2YtMjQtYnl0ZXMh";
    let files = Files::new();
    let stranger = super::app(example.capabilities(&files, &server.origin, other)).await;
    let outcome = invoke(&stranger, example.read.0, (example.read.1)()).await;
    assert_eq!(
        fate(&stranger, &outcome).await,
        "EXECUTION_FAILED, retryable, executed no: failed",
        "a wrong signature"
    );
    let outcome = approved(&stranger, &example.write).await;
    assert_eq!(fate(&stranger, &outcome).await, "EXECUTION_FAILED, executed no: not_executed", "a wrong signature");
    forged(&server.origin, example).await;
}

/// Calls that Countersign did not make, or made before.
async fn forged(origin: &str, example: &Example) {
    let path = format!("/{}", example.read.0);
    let body = json!({"input": (example.read.1)(), "invocation": {"idempotencyKey": "k"}}).to_string();
    let ours = standardwebhooks::Webhook::new(SECRET).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = i64::try_from(now.as_secs()).unwrap();
    let sign = |id: &str, at: i64| ours.sign(id, at, body.as_bytes()).unwrap();
    let (nothing, again) = (r#"{"status":"not_executed"}"#, "was here before");
    for (id, at, signature, sent, expected) in [
        ("a", now, sign("a", now), body.clone(), "completed"),
        ("a", now, sign("a", now), body.clone(), again),
        ("b", now, sign("c", now), body.clone(), nothing),
        ("d", now, sign("d", now), body.replace("input", "inpuT"), nothing),
        ("e", now - 301, sign("e", now - 301), body.clone(), nothing),
        ("f", now + 330, sign("f", now + 330), body.clone(), nothing),
        ("g", now, sign("g", now + 1), body.clone(), nothing),
        ("h", now, "v1,".into(), body.clone(), nothing),
        ("i", now, String::new(), body.clone(), nothing),
        ("j", now, format!("v1,AAAA {}", sign("j", now)), body.clone(), "completed"),
    ] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\nwebhook-id: {id}\r\n\
             webhook-timestamp: {at}\r\nwebhook-signature: {signature}\r\n\r\n",
            sent.len()
        );
        let mut stream = TcpStream::connect(origin.trim_start_matches("http://")).await.unwrap();
        stream.write_all(format!("{head}{sent}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.replace(": ", ":").contains(expected), "{id}: {answer}");
    }
}

#[tokio::test]
async fn the_python_example_does_what_the_contract_asks() {
    the_story_of(&PYTHON).await;
}

#[tokio::test]
async fn the_typescript_example_does_what_the_contract_asks() {
    the_story_of(&TYPESCRIPT).await;
}

#[tokio::test]
async fn the_python_command_prints_labels() {
    if !PYTHON.is_there() {
        return;
    }
    let files = Files::new();
    let app = app(PYTHON.capabilities(&files, PYTHON.origin, SECRET)).await;
    for (sku, expected) in [
        ("bolt", r#"completed {"text":"BOLT for dana"}"#),
        ("unprintable", "EXECUTION_FAILED (This item has no label.), executed unknown: failed"),
        ("jam", "EXECUTION_FAILED, retryable, executed no: not_executed"),
    ] {
        let outcome = invoke(&app, "labels.print", json!({"sku": sku})).await;
        assert_eq!(fate(&app, &outcome).await, expected);
    }
}
