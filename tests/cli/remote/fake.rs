//! What answers like no Countersign, or breaks off.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use super::{SEARCH, Shell, ask};

/// Answers one connection after the other with these texts, and gives what it was asked.
pub(super) struct Fake {
    pub(super) url: String,
    thread: JoinHandle<Vec<String>>,
}

impl Fake {
    pub(super) fn new(answers: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            let answer = |answer: Vec<u8>| {
                let (mut stream, _) = listener.accept().unwrap();
                let request = read(&mut stream);
                let _ = stream.write_all(&answer); // whoever has seen enough may hang up
                request
            };
            answers.into_iter().map(answer).collect()
        });
        Self { url, thread }
    }

    pub(super) fn asked(self) -> Vec<String> {
        self.thread.join().unwrap()
    }
}

/// A request with its body.
fn read(stream: &mut TcpStream) -> String {
    let (mut text, mut byte) = (Vec::new(), [0; 1]);
    while !text.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
        text.push(byte[0]);
    }
    let head = String::from_utf8(text).unwrap();
    let length = head.lines().find_map(|it| it.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

pub(super) fn answer(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
        .into()
}

/// What is told of an answer, and what the server was asked.
fn told(arguments: &[&str], answer: Vec<u8>) -> (i32, String, Vec<String>) {
    let (shell, fake) = (Shell::new(), Fake::new(vec![answer]));
    let ran = ask(&shell, &fake.url, "dana", arguments);
    let text = (ran.out + &ran.err).replace(&fake.url, "URL");
    (ran.code, text, fake.asked())
}

const LOOK: &[&str] = &["approvals", "list"];
const ACT: &[&str] = &["invoke", "orders.search", "--input", SEARCH];

#[test]
fn an_answer_that_no_countersign_gives_is_told_apart_from_a_call_that_may_have_happened() {
    let html = || answer("200 OK", "text/html", "<html>Welcome</html>");
    let gateway = || answer("502 Bad Gateway", "text/html", "<html>Bad gateway</html>");
    let redirect =
        || b"HTTP/1.1 302 Found\r\nlocation: https://elsewhere.example/\r\ncontent-length: 0\r\n\r\n".to_vec();
    let huge = || {
        let mut huge = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n".to_vec();
        huge.resize(33 * 1024 * 1024, b' ');
        huge
    };
    let newer = || answer("418 Teapot", "application/problem+json", r#"{"code":"BREWING","detail":"It brews."}"#);
    let mut text = String::new();
    for (name, arguments, answer) in [
        ("a page", LOOK, html()),
        ("a page, of a call", ACT, html()),
        ("a gateway", LOOK, gateway()),
        ("a gateway, of a call", ACT, gateway()),
        ("a redirect", LOOK, redirect()),
        ("nothing", LOOK, Vec::new()),
        ("nothing, of a call", ACT, Vec::new()),
        ("no end", LOOK, huge()),
        ("no end, of a call", ACT, huge()),
        ("what nobody knows yet", LOOK, newer()),
        ("another document", LOOK, answer("200 OK", "application/json", "[1]")),
    ] {
        let (code, said, asked) = told(arguments, answer);
        assert_eq!(asked.len(), 1, "nothing is followed or repeated");
        writeln!(text, "{name}: exit {code}\n{said}").unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_call_goes_out_as_it_was_given() {
    let outcome = r#"{"status":"completed","executionId":"e1","output":null,"replayed":false,"recorded":false}"#;
    let arguments =
        ["invoke", "a/b", "--input", r#"{"n":1.50,"n":2}"#, "--idempotency-key", "k 1", "--wait", "7", "--json"];
    let (code, said, asked) = told(&arguments, answer("200 OK", "application/json", outcome));
    assert_eq!((code, said.trim_end()), (0, outcome), "an output that is null is an output");
    let request = &asked[0];
    assert!(request.starts_with("POST /v1/capabilities/a%2Fb/invoke HTTP/1.1\r\n"), "{request}");
    for line in
        ["idempotency-key: k 1", "prefer: wait=7", "authorization: Bearer demo-dana", "content-type: application/json"]
    {
        assert!(request.lines().any(|it| it == line), "{line}: {request}");
    }
    assert!(request.ends_with("\r\n\r\n{\"input\":{\"n\":1.50,\"n\":2}}"), "{request}");
}

#[test]
fn a_server_that_is_down_is_a_command_that_could_not_run() {
    let shell = Shell::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    for arguments in [LOOK, ACT, &["audit", "tail", "--follow"], &["approvals", "watch"]] {
        let ran = ask(&shell, &url, "dana", arguments);
        assert_eq!(ran.code, 5, "{arguments:?}");
        let cause = format!("error: the server {url} cannot be reached: ");
        let next = "\n  next: see that it runs there (`countersign serve`), or name the right one: `--server URL`\n";
        assert!(ran.err.starts_with(&cause) && ran.err.ends_with(next), "{}", ran.err);
        let machine = ask(&shell, &url, "dana", &[arguments, &["--json"]].concat());
        assert!(machine.err.starts_with("{\"error\":{\"message\":\"the server "), "{}", machine.err);
    }
}

#[test]
fn every_page_of_a_listing_is_asked_for() {
    let pages = [r#"{"approvals":[],"next":"apr_1"}"#, r#"{"approvals":[],"next":"apr_2"}"#, r#"{"approvals":[]}"#];
    let answers = pages.map(|it| answer("200 OK", "application/json", it));
    let (shell, fake) = (Shell::new(), Fake::new(answers.into()));
    let ran = ask(&shell, &fake.url, "dana", &["approvals", "list", "--status", "pending", "--json"]);
    assert_eq!((ran.code, ran.json()), (0, serde_json::json!([])), "{}", ran.err);
    let asked = fake.asked();
    let asked: Vec<_> = asked.iter().map(|it| it.split(' ').nth(1).unwrap()).collect();
    assert_eq!(
        asked,
        [
            "/v1/approvals?status=pending",
            "/v1/approvals?status=pending&after=apr_1",
            "/v1/approvals?status=pending&after=apr_2"
        ]
    );
}
