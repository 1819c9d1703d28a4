//! `audit tail --follow` and `approvals watch`: what comes is printed when it comes, by a database and through a server.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use super::fake::{Fake, answer};
use super::{LARGE, SEARCH, SMALL, Served, Shell, ask};

/// A command that goes on.
struct Going {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Going {
    fn start(shell: &Shell, arguments: &[&str]) -> Self {
        let mut child = shell.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn document(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
    }

    /// The next event's type.
    fn kind(&mut self) -> String {
        self.document()["type"].as_str().unwrap().to_owned()
    }

    /// Ctrl-C, and how it ends.
    fn interrupt(mut self) -> (Option<i32>, String) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.out, &mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn desk() -> (Shell, Served) {
    let shell = Shell::new();
    let served = Served::demo(&shell);
    (shell, served)
}

/// The end of the log, then what is done while somebody looks.
fn tails(shell: &Shell, arguments: &[&str]) {
    let mut tail = Going::start(shell, &[&["audit", "tail", "--follow", "-n", "1", "--json"], arguments].concat());
    assert_eq!(tail.kind(), "capability.completed");
    assert_eq!(shell.run(&["invoke", "orders.search", "--actor", "dana", "--input", SEARCH]).code, 0);
    let kinds = [tail.kind(), tail.kind(), tail.kind()];
    assert_eq!(kinds, ["capability.requested", "capability.started", "capability.completed"]);
    assert_eq!(tail.interrupt(), (Some(0), String::new()));
}

#[test]
fn what_comes_onto_the_log_is_printed_when_it_comes() {
    let (shell, served) = desk();
    ask(&shell, served.url(), "dana", &["invoke", "orders.search", "--input", SEARCH]);
    tails(&shell, &[]);
    tails(&shell, &["--actor", "priya"]);
    tails(&shell, &["--server", served.url(), "--token", "demo-priya"]);
    for name in [&["--actor", "dana"][..], &["--server", served.url(), "--token", "demo-dana"]] {
        let refused = shell.run(&[&["audit", "tail", "--follow"], name].concat());
        assert_eq!((refused.code, refused.err.contains("POLICY_DENIED")), (2, true), "{}", refused.err);
    }
}

/// What waits, then every change of it.
fn watches(name: Option<&[&str]>) {
    let (shell, served) = desk();
    let there = ["--server", served.url(), "--token", "demo-priya"];
    let (shell, served, arguments) = (&shell, &served, name.unwrap_or(&there));
    let file = || {
        let asked = ask(shell, served.url(), "dana", &["invoke", "orders.refund", "--input", LARGE, "--json"]);
        asked.json()["approval"]["id"].as_str().unwrap().to_owned()
    };
    let first = file();
    let mut watch = Going::start(shell, &[&["approvals", "watch", "--json"], arguments].concat());
    let seen = |view: Value| (view["id"].as_str().unwrap().to_owned(), view["status"].as_str().unwrap().to_owned());
    assert_eq!(seen(watch.document()), (first.clone(), "pending".to_owned()));
    let second = file();
    assert_eq!(seen(watch.document()), (second.clone(), "pending".to_owned()));
    for (id, status) in [(&first, "rejected"), (&second, "approved")] {
        let verb = if status == "rejected" { "reject" } else { "approve" };
        assert_eq!(ask(shell, served.url(), "priya", &["approvals", verb, id]).code, 0);
        assert_eq!(seen(watch.document()), (id.clone(), status.to_owned()));
    }
    assert_eq!(ask(shell, served.url(), "dana", &["approvals", "resume", &second]).code, 0);
    assert_eq!(seen(watch.document()), (second, "consumed".to_owned()));
    assert_eq!(watch.interrupt(), (Some(0), String::new()));
}

#[test]
fn what_waits_and_what_becomes_of_it_is_printed_when_it_happens() {
    watches(Some(&[]));
    watches(Some(&["--actor", "priya"]));
    watches(None);
}

#[test]
fn people_see_columns_under_a_heading() {
    let (shell, served) = desk();
    ask(&shell, served.url(), "dana", &["invoke", "orders.refund", "--input", SMALL]);
    let mut tail = Going::start(&shell, &["audit", "tail", "-f", "-n", "2"]);
    assert_eq!(
        tail.line(),
        "seq     at                           event                          actor         capability            about"
    );
    let (started, completed) = (tail.line(), tail.line());
    assert!(started.contains("capability.started             dana          orders.refund"), "{started}");
    assert!(completed.starts_with("4       ") && completed.contains("capability.completed"), "{completed}");
    assert_eq!(tail.interrupt().0, Some(0));
    let mut watch = Going::start(&shell, &["approvals", "watch"]);
    assert!(watch.line().starts_with("approval                         status     capability"));
    assert_eq!(watch.interrupt().0, Some(0));
}

#[test]
fn a_reader_that_has_seen_enough_ends_it_quietly() {
    let (shell, served) = desk();
    ask(&shell, served.url(), "dana", &["invoke", "orders.search", "--input", SEARCH]);
    for arguments in [&[][..], &["--server", served.url(), "--token", "demo-priya"]] {
        let tail = [&["audit", "tail", "--follow", "--json"], arguments].concat();
        let mut child = shell.command(&tail).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(0), ""));
    }
}

#[test]
fn a_stream_that_breaks_goes_on_where_it_was() {
    let shell = Shell::new();
    let stream = |text: &str| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        format!("{head}{text}").into_bytes()
    };
    let event = |seq: i64| format!("id: {seq}\nevent: x\ndata: {{\"seq\":{seq},\"type\":\"x.{seq}\"}}\n\n");
    let fake = Fake::new(vec![
        stream(&format!("retry: 1000\nid: 6\n\n{}id: 8\ndata: {{\"seq\":8,", event(7))),
        answer("503 Service Unavailable", "application/problem+json", r#"{"code":"UNAVAILABLE","retryable":true}"#),
        stream(&format!(": heartbeat\nid: 9\n\n{}", event(10))),
        answer(
            "403 Forbidden",
            "application/problem+json",
            r#"{"code":"POLICY_DENIED","detail":"No policy permits it."}"#,
        ),
    ]);
    let ran = ask(&shell, &fake.url, "priya", &["audit", "tail", "-f", "-n", "0", "--json"]);
    assert_eq!((ran.code, ran.out.lines().count()), (2, 3), "{}{}", ran.out, ran.err);
    let kinds: Vec<Value> = ran.out.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!((&kinds[0]["type"], &kinds[1]["type"]), (&"x.7".into(), &"x.10".into()), "half an event is none");
    assert_eq!(kinds[2]["error"]["code"], "POLICY_DENIED", "what trying again does not change ends it");
    let places: Vec<_> = fake
        .asked()
        .iter()
        .map(|it| it.lines().find_map(|it| Some(it.strip_prefix("last-event-id: ")?.to_owned())))
        .collect();
    assert_eq!(places, [None, Some("7".to_owned()), Some("7".to_owned()), Some("10".to_owned())]);
}
