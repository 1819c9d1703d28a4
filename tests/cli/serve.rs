//! `serve`, as those who run it and those who call it meet it.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::{Ran, Shell};

/// A server of its own; it ends with this.
pub(super) struct Served {
    child: Child,
    out: BufReader<ChildStdout>,
    /// What it said on one line when it was there.
    pub(super) said: Value,
}

impl Served {
    /// The demo with its fixed tokens, on a free port.
    pub(super) fn demo(shell: &Shell) -> Self {
        Self::start(shell, &["--demo", "--listen", "127.0.0.1:0"])
    }

    pub(super) fn start(shell: &Shell, arguments: &[&str]) -> Self {
        Self::of(&mut shell.command(&[&["serve", "--json"], arguments].concat()))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let Ok(said) = serde_json::from_str(&line) else {
            let mut err = String::new();
            child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
            panic!("it said {line:?} and {err}");
        };
        Self { child, out, said }
    }

    pub(super) fn url(&self) -> &str {
        self.said["listening"].as_str().unwrap()
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.said["address"].as_str().unwrap()).unwrap()
    }

    /// One request on a connection of its own: status and body.
    pub(super) fn ask(&self, request: &str, token: &str, body: &str) -> (u16, Value) {
        let mut stream = self.connect();
        let (host, length) = (self.said["address"].as_str().unwrap(), body.len());
        let credentials = if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
        write!(
            stream,
            "{request} HTTP/1.1\r\nHost: {host}\r\n{credentials}Content-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (status, serde_json::from_str(body).unwrap_or_else(|_| json!(body)))
    }

    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    /// Asks it to stop, and waits until it has.
    fn stop(mut self) -> Ran {
        self.signal(rustix::process::Signal::TERM);
        self.ended()
    }

    fn ended(&mut self) -> Ran {
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        if let Some(mut it) = self.child.stderr.take() {
            it.read_to_string(&mut err).unwrap();
        }
        Ran { code: self.child.wait().unwrap().code().unwrap_or(-1), out, err }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const SEARCH: &str = r#"{"input":{"query":"lamp"}}"#;

/// Starts a server that cannot.
fn refused(shell: &Shell, arguments: &[&str]) -> String {
    let ran = shell.run(&[&["serve"], arguments].concat());
    format!("{} {}{}", ran.code, ran.out, ran.err)
}

#[test]
fn the_three_commands_that_it_prints_work_when_pasted() {
    let shell = Shell::new();
    let mut child = shell.command(&["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = Vec::new();
    while lines.last().is_none_or(|it: &String| !it.starts_with("listening on http://127.0.0.1:")) {
        let mut line = String::new();
        assert!(out.read_line(&mut line).unwrap() > 0, "{lines:?}");
        lines.push(line.trim_end().to_owned());
    }
    let commands: Vec<&str> = lines.iter().filter_map(|it| it.strip_prefix("  curl")).collect();
    let answers: Vec<Value> = commands
        .iter()
        .map(|it| {
            let ran = Command::new("sh").arg("-c").arg(format!("curl{it}")).output().unwrap();
            serde_json::from_slice(&ran.stdout).unwrap()
        })
        .collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(answers.len(), 3, "{lines:?}");
    assert_eq!(answers[0]["status"], "completed");
    assert_eq!(answers[0]["output"]["orders"][0]["id"], "ord_42");
    assert_eq!(answers[1]["status"], "approval_required");
    let waiting = answers[2].to_string();
    assert!(waiting.contains(answers[1]["approval"]["id"].as_str().unwrap()), "{waiting}");
}

#[test]
fn the_demo_has_four_fixed_tokens() {
    let shell = Shell::new();
    let served = Served::demo(&shell);
    assert_eq!(
        served.said["tokens"],
        json!({"dana": "demo-dana", "priya": "demo-priya", "omar": "demo-omar", "nightly": "demo-nightly"})
    );
    let search = "POST /v1/capabilities/orders.search/invoke";
    for (token, status) in [
        ("demo-dana", 200),
        ("demo-priya", 200),
        ("demo-omar", 200),
        ("demo-nightly", 200),
        ("demo-eve", 401),
        ("", 401),
    ] {
        assert_eq!(served.ask(search, token, SEARCH).0, status, "{token}");
    }
    // Omar's orders are those of his tenant.
    assert_eq!(served.ask(search, "demo-omar", SEARCH).1["output"]["orders"][0]["id"], "ord_90");
    // Dana's agent asks; only Priya's token is a person's own.
    let input = r#"{"input":{"orderId":"ord_42","amountCents":64900,"reason":"Cracked."}}"#;
    let (status, asked) = served.ask("POST /v1/capabilities/orders.refund/invoke", "demo-dana", input);
    assert_eq!(status, 202, "{asked}");
    let id = asked["approval"]["id"].as_str().unwrap();
    let decide = |token| served.ask(&format!("POST /v1/approvals/{id}/decision"), token, r#"{"decision":"approve"}"#).0;
    assert_ne!(decide("demo-dana"), 200);
    assert_eq!(decide("demo-priya"), 200);
    assert_eq!(served.ask(&format!("POST /v1/approvals/{id}/resume"), "demo-dana", "").0, 200);
}

#[test]
fn tokens_of_a_run_without_configuration_are_nobodys_guess() {
    let (one, other) = (Shell::new(), Shell::new());
    let tokens = |shell: &Shell| Served::start(shell, &["--listen", "127.0.0.1:0"]).said["tokens"].clone();
    let (first, second) = (tokens(&one), tokens(&other));
    for (name, token) in first.as_object().unwrap() {
        let token = token.as_str().unwrap();
        assert!(token.starts_with("csgn_") && token.len() == 48, "{name}: {token}");
        assert_ne!(second[name], token);
    }
}

#[test]
fn nothing_is_served_that_anybody_could_call_or_nobody() {
    let shell = Shell::new();
    shell.write("empty.toml", "");
    shell.write("weak.toml", "[[auth.tokens]]\nname = \"a\"\nsha256 = \"00\"\nid = \"a\"\nkind = \"user\"\n");
    let mut told = String::new();
    for arguments in [
        &["--demo", "--listen", "0.0.0.0:0"][..],
        &["--listen", "0.0.0.0:0"],
        &["--demo", "--listen", "[::]:0"],
        &["--config", "empty.toml", "--listen", "127.0.0.1:0"],
        &["--config", "empty.toml", "--demo"],
        &["--config", "weak.toml"],
        &["--listen", "everywhere"],
        &["--log-format", "yaml"],
    ] {
        writeln!(told, "$ countersign serve {}\n{}", arguments.join(" "), refused(&shell, arguments)).unwrap();
    }
    insta::assert_snapshot!(told);
    assert_eq!(std::fs::read_dir(shell.path()).unwrap().count(), 2, "nothing was made");
}

#[test]
fn an_address_that_is_taken_and_a_bad_database_are_told() {
    let shell = Shell::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let told = refused(&shell, &["--demo", "--listen", &address]);
    assert!(told.starts_with(&format!("5 error: `{address}` cannot be listened on: ")), "{told}");
    assert!(told.contains("\n  next: stop what listens there"), "{told}");
    let told = refused(&shell, &["--demo", "--listen", "127.0.0.1:0", "--db", "sqlite:missing/x.db"]);
    assert!(told.starts_with("5 error: the database: the directory of "), "{told}");
}

#[test]
fn a_file_in_the_working_directory_is_the_configuration() {
    let shell = Shell::new();
    shell.write("countersign.toml", "databse = \"sqlite:x.db\"\n");
    let told = refused(&shell, &[]);
    assert!(told.contains("countersign.toml:1: unknown key `databse`\n  next: did you mean `database`?"), "{told}");
    // The demo looks at no file.
    drop(Served::demo(&shell));
}

#[test]
fn what_is_configured_is_served_and_policies_are_followed() {
    let shell = Shell::new();
    let made = shell.run(&["token", "new", "--id", "dana", "--role", "support", "--json"]).json();
    for (name, text) in countersign::demo::POLICIES {
        shell.write(&format!("etc/policies/{name}"), text);
    }
    let block = made["toml"].as_str().unwrap();
    shell.write("etc/c.toml", &format!("database = \"sqlite:calls.db\"\npolicies = \"policies\"\n\n{block}"));
    let served = Served::start(&shell, &["--config", "etc/c.toml", "--listen", "127.0.0.1:0"]);
    assert!(shell.path().join("etc/calls.db").exists(), "relative to the file");
    assert_eq!(served.said["tokens"], json!({}));
    let token = made["token"].as_str().unwrap();
    let search = || served.ask("POST /v1/capabilities/orders.search/invoke", token, SEARCH);
    assert_eq!(search().0, 200);
    shell.write("etc/policies/closed.cedar", "@id(\"closed\")\nforbid (principal, action, resource);\n");
    // It takes effect once the directory was quiet; a server that does not look never answers otherwise.
    let answers = std::iter::repeat_with(|| search().0);
    assert!(answers.take(2_000).any(|it| it == 403), "the directory is not watched");
}

#[test]
fn metrics_have_a_listener_of_their_own_if_it_is_configured() {
    let shell = Shell::new();
    let mut command = shell.command(&["serve", "--json", "--listen", "127.0.0.1:0"]);
    let served = Served::of(command.env("COUNTERSIGN_METRICS__LISTEN", "127.0.0.1:0"));
    let url = served.said["metrics"].as_str().unwrap();
    let ran = Command::new("curl").args(["-sS", url]).output().unwrap();
    assert!(String::from_utf8_lossy(&ran.stdout).contains("countersign_"), "{ran:?}");
    // On the API's own address they are not for everybody.
    assert_eq!(served.ask("GET /metrics", "", "").0, 401);
    assert_eq!(served.stop().code, 0);
}

/// A procedure that says when it began, and ends when it is told to.
#[cfg(unix)]
const SLOW: &str = "\
#!/bin/sh
touch began
while [ ! -e go ]; do sleep 0.02; done
echo '{\"status\":\"completed\",\"output\":{\"done\":true}}'
";

#[cfg(unix)]
const MANIFEST: &str = r#"
id = "work.slow"
description = "Works until it is told to stop."
expose = ["http"]
side_effect = "write"
risk = "low"
timeout = "60s"
input_schema = { type = "object", additionalProperties = false }
output_schema = { type = "object", required = ["done"], properties = { done = { type = "boolean" } } }
[handler]
kind = "command"
program = "slow.sh"
env = ["PATH"]
"#;

/// A server of that procedure, for whoever has the token.
#[cfg(unix)]
fn slow(shell: &Shell) -> (Served, String) {
    use std::os::unix::fs::PermissionsExt as _;

    shell.write("capabilities/slow.toml", MANIFEST);
    shell.write("capabilities/slow.sh", SLOW);
    let program = shell.path().join("capabilities/slow.sh");
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    shell.write("policies/all.cedar", "@id(\"all\") permit (principal, action == Action::\"work.slow\", resource);");
    shell.write("countersign.toml", "policies = \"policies\"\n[capabilities]\ndirectory = \"capabilities\"\n");
    let made = shell.run(&["token", "new", "--id", "dana", "--append", "countersign.toml", "--json"]).json();
    assert_eq!(shell.run(&["doctor"]).code, 0, "{}", shell.run(&["doctor"]).out);
    (Served::start(shell, &["--listen", "127.0.0.1:0"]), made["token"].as_str().unwrap().to_owned())
}

#[cfg(unix)]
#[test]
fn a_signal_ends_it_after_what_runs() {
    let shell = Shell::new();
    let (mut served, token) = slow(&shell);
    let address = served.said["address"].as_str().unwrap().to_owned();
    let mut stream = served.connect();
    write!(
        stream,
        "POST /v1/capabilities/work.slow/invoke HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: 12\r\n\r\n{{\"input\":{{}}}}"
    )
    .unwrap();
    let began = shell.path().join("capabilities/began");
    let looks = std::iter::repeat_with(|| std::thread::sleep(std::time::Duration::from_millis(10)));
    assert!(looks.take(6_000).any(|()| began.exists()), "it never began");
    served.signal(rustix::process::Signal::TERM);
    let mut log = BufReader::new(served.child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("stopping") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "it does not say that it stops");
    }
    shell.write("capabilities/go", "");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"done\":true"), "{answer}");
    let stopped = served.ended();
    assert_eq!((stopped.code, &*stopped.out), (0, ""));
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    let ends = shell.run(&["audit", "list", "--type", "capability.completed", "--json"]).json();
    assert_eq!(ends.as_array().unwrap().len(), 1);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let shell = Shell::new();
    let mut served = Served::demo(&shell);
    // A request whose body never comes keeps the server from ending.
    let mut stream = served.connect();
    let address = served.said["address"].as_str().unwrap();
    write!(
        stream,
        "POST /v1/capabilities/orders.search/invoke HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer demo-dana\r\n\
         Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n"
    )
    .unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 100", "the body is waited for");
    served.signal(rustix::process::Signal::INT);
    let mut log = BufReader::new(served.child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("stopping") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "it does not say that it stops");
    }
    served.signal(rustix::process::Signal::TERM);
    assert_eq!(served.ended().code, 1);
}

#[test]
fn logs_are_one_document_a_line_and_hold_no_payload() {
    let shell = Shell::new();
    let served = Served::start(&shell, &["--demo", "--listen", "127.0.0.1:0", "--log-format", "json"]);
    let search = "POST /v1/capabilities/orders.search/invoke?canary=canary-query";
    served.ask(search, "demo-dana", r#"{"input":{"query":"canary-input"}}"#);
    served.ask("GET /v1/capabilities?tag=canary-tag", "canary-token", "");
    served.ask("GET /canary-path", "demo-dana", "");
    let stopped = served.stop();
    let lines: Vec<Value> = stopped.err.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert!(lines.iter().any(|it| it["message"] == "listening"), "{}", stopped.err);
    let answered: Vec<&Value> = lines.iter().filter(|it| it["message"] == "answered").collect();
    let told: Vec<_> = answered.iter().map(|it| (&it["span"]["method"], &it["span"]["route"], &it["status"])).collect();
    let (invoke, list) = ("/v1/capabilities/{id}/invoke", "/v1/capabilities");
    assert_eq!(
        told,
        [
            (&json!("POST"), &json!(invoke), &json!(200)),
            (&json!("GET"), &json!(list), &json!(401)),
            (&json!("GET"), &json!("none"), &json!(404))
        ],
        "{}",
        stopped.err
    );
    assert!(answered.iter().all(|it| it["duration_us"].is_u64() && it["span"]["request"].is_string()));
    assert!(answered[0]["execution"].is_string());
    assert!(!stopped.err.contains("canary"), "{}", stopped.err);
}

#[test]
fn a_reader_of_its_output_may_go_away() {
    let shell = Shell::new();
    let served = Served::demo(&shell);
    assert_eq!(served.ask("GET /healthz", "", "").0, 200);
    let url = served.url().to_owned();
    let ready = shell.run(&["doctor", "--running", &url, "--json"]);
    assert_eq!((ready.code, &ready.json()["ok"]), (0, &json!(true)), "{}", ready.out);
    assert_eq!(served.stop().code, 0);
    assert_eq!(shell.run(&["doctor", "--running", &url]).code, 1, "it is gone");
}

#[test]
fn what_a_running_server_warns_of_is_told() {
    let shell = Shell::new();
    assert_eq!(shell.run(&["init"]).code, 0);
    assert_eq!(shell.run(&["audit", "key", "new", "--origin", "example.com/log"]).code, 0);
    assert_eq!(
        shell.run(&["token", "new", "--id", "dana", "--role", "support", "--append", "countersign.toml"]).code,
        0
    );
    let text = std::fs::read_to_string(shell.path().join("countersign.toml")).unwrap();
    let audit = "[audit]\nkey = { file = \"log.key\" }\ncheckpoint_events = 1\nanchors = [{ command = [\"false\"] }]\n";
    shell.write("countersign.toml", &format!("{text}\n{audit}"));
    let served = Served::start(&shell, &["--listen", "127.0.0.1:0"]);
    let url = served.url().to_owned();
    let found = || shell.run(&["doctor", "--running", &url, "--json"]).json()["findings"].clone();
    let mut findings = found();
    while findings.as_array().unwrap().len() == 1 {
        findings = found(); // it signs what it recorded when it started, and then it knows
    }
    assert_eq!(findings[0]["state"], "good");
    let expected = json!({
        "check": "anchors", "state": "note", "what": "some take no checkpoints now",
        "next": "see the server's log, and to what they need",
    });
    assert_eq!(findings[1], expected);
    assert_eq!(served.stop().code, 0);
}
