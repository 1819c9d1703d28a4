//! Clients that mean ill or do badly, on real sockets: the server stays up, and serves everybody else.

use std::time::Duration;

use countersign::http::HttpSettings;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use super::harness::{PATIENCE, Request, TestServer, refund};

const SHORT: Duration = Duration::from_millis(60);

/// Others are served.
async fn serves(server: &TestServer) {
    let answer = server.invoke("demo-dana", "orders.search", &json!({"query": "lamp"})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// The head of a call, up to its body.
fn head(length: &str) -> Vec<u8> {
    let head =
        "POST /v1/capabilities/orders.refund/invoke HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer demo-dana\r\n";
    format!("{head}Content-Type: application/json\r\n{length}\r\n\r\n").into_bytes()
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up() {
    let server = TestServer::tuned(|it| it.head_timeout = SHORT).await;
    let mut slow = Vec::new();
    for part in ["G", "GET /healthz HTTP/1.1\r\n", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: 1"] {
        let mut wire = server.connect().await;
        wire.write(part.as_bytes()).await;
        slow.push(wire);
    }
    serves(&server).await;
    for mut wire in slow {
        wire.hung_up().await;
    }
}

#[tokio::test]
async fn a_head_that_drips_is_given_up_however_often_a_byte_comes() {
    let server = TestServer::tuned(|it| it.head_timeout = SHORT).await;
    let mut wire = server.connect().await;
    wire.write(b"GET /healthz HTTP/1.1\r\nX-Slow: ").await;
    let drips = async {
        while wire.stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(SHORT / 20).await;
        }
    };
    tokio::time::timeout(PATIENCE, drips).await.expect("the server hangs up");
    serves(&server).await;
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_given_up_and_a_second_head_has_its_own_time() {
    let server = TestServer::tuned(|it| (it.idle_timeout, it.head_timeout) = (SHORT * 10, SHORT)).await;
    let (mut silent, mut once, mut half) = (server.connect().await, server.connect().await, server.connect().await);
    let request = Request::new("GET", "/healthz").bytes(server.address);
    once.write(&request).await;
    half.write(&request).await;
    assert_eq!((once.answer().await.status, half.answer().await.status), (200, 200));
    half.write(b"GET /healthz HT").await;
    for wire in [&mut silent, &mut once, &mut half] {
        wire.hung_up().await;
    }
    serves(&server).await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let server = TestServer::tuned(|it| it.body_timeout = SHORT).await;
    let (mut long, mut chunked) = (server.connect().await, server.connect().await);
    long.write(&head("Content-Length: 10")).await;
    long.write(b"{\"in").await;
    chunked.write(&head("Transfer-Encoding: chunked")).await;
    chunked.write(b"4\r\n{\"in\r\n").await;
    serves(&server).await;
    for wire in [&mut long, &mut chunked] {
        let answer = wire.answer().await;
        assert_eq!((answer.status, answer.code()), (408, "REQUEST_TIMEOUT".into()));
        wire.hung_up().await;
    }
    assert_eq!(server.app.effects(), ["orders.search #1"]);
}

#[tokio::test]
async fn ten_thousand_headers_are_too_many() {
    let server = TestServer::new().await;
    let mut wire = server.connect().await;
    let mut bytes = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n".to_vec();
    (0..10_000).for_each(|it| bytes.extend_from_slice(format!("X-{it}: 1\r\n").as_bytes()));
    wire.write(&bytes).await;
    wire.write(b"\r\n").await;
    assert!(wire.try_answer().await.is_none_or(|it| it.status == 431));
    wire.hung_up().await;
    serves(&server).await;
}

#[tokio::test]
async fn ten_gigabytes_are_refused_by_their_announcement() {
    let server = TestServer::new().await;
    let mut wire = server.connect().await;
    wire.write(&head("Content-Length: 10737418240")).await;
    let answer = wire.answer().await;
    assert_eq!((answer.status, answer.code()), (413, "BODY_TOO_LARGE".into()));
    let mut waiting = server.connect().await;
    waiting.write(&head("Content-Length: 10737418240\r\nExpect: 100-continue")).await;
    assert_eq!(waiting.answer().await.status, 413); // and not 100
    serves(&server).await;
}

#[tokio::test]
async fn ten_gigabytes_in_chunks_are_cut_at_the_limit() {
    let server = TestServer::new().await;
    let chunk = [b"8000\r\n".as_slice(), &vec![b' '; 0x8000], b"\r\n"].concat();
    let mut wire = server.connect().await;
    wire.write(&head("Transfer-Encoding: chunked")).await;
    for _ in 0..40 {
        wire.write(&chunk).await;
    }
    let answer = wire.answer().await; // although more was sent than was read
    assert_eq!((answer.status, answer.code()), (413, "BODY_TOO_LARGE".into()));
    let mut endless = server.connect().await;
    endless.write(&head("Transfer-Encoding: chunked")).await;
    let mut sent = 0_usize;
    while sent < 1 << 30 && endless.stream.write_all(&chunk).await.is_ok() {
        sent += chunk.len();
    }
    assert!(sent < 1 << 30, "nobody takes a gigabyte");
    serves(&server).await;
}

#[tokio::test]
async fn a_hundred_thousand_idle_bytes_are_no_request() {
    let server = TestServer::new().await;
    for filler in [b"\r\n".as_slice(), b"xx", b"\0\0", b"  "] {
        let mut wire = server.connect().await;
        wire.write(&Request::new("GET", "/healthz").bytes(server.address)).await;
        assert_eq!(wire.answer().await.status, 200);
        wire.write(&filler.repeat(50_000)).await;
        wire.write(&Request::new("GET", "/nowhere").bytes(server.address)).await;
        let answer = wire.try_answer().await;
        assert!(answer.is_none_or(|it| matches!(it.status, 400 | 404 | 431)));
        serves(&server).await;
    }
}

#[tokio::test]
async fn half_closed_and_reset_connections_hurt_nobody_and_what_has_begun_goes_on() {
    let server = TestServer::new().await;
    let whole = Request::new("POST", "/v1/capabilities/orders.refund/invoke").as_who("demo-dana");
    let whole = whole.json(&json!({ "input": refund(100) })).bytes(server.address);
    for part in [&b""[..], b"GET /hea", &whole[..whole.len() - 5], &whole] {
        let mut wire = server.connect().await;
        wire.write(part).await;
        wire.stream.shutdown().await.unwrap();
        wire.hung_up().await;
        let mut gone = server.connect().await;
        gone.write(part).await;
        drop(gone);
        serves(&server).await;
    }
    let ended = async {
        while server.app.effects().iter().filter(|it| *it == "orders.refund #1").count() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("a call goes on without its client");
}

#[tokio::test]
async fn a_client_that_takes_no_answer_is_given_up() {
    let server = TestServer::tuned(|it| it.write_timeout = SHORT).await;
    let mut wire = server.connect().await;
    let request = Request::new("GET", "/nowhere").bytes(server.address).repeat(100);
    let asks = async { while wire.stream.write_all(&request).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, asks).await.expect("the server hangs up");
    serves(&server).await;
}

#[tokio::test]
async fn more_connections_than_there_are_places_wait_for_one() {
    let server = TestServer::tuned(|it| it.max_connections = 1).await;
    let mut first = server.connect().await;
    let request = Request::new("GET", "/healthz").bytes(server.address);
    first.write(&request).await;
    assert_eq!(first.answer().await.status, 200);
    let mut second = server.connect().await;
    second.write(&request).await;
    first.write(&request).await;
    assert_eq!(first.answer().await.status, 200);
    drop(first);
    assert_eq!(second.answer().await.status, 200);
}

#[tokio::test]
async fn more_calls_than_are_worked_on_are_sent_away_and_probes_never() {
    let server = TestServer::tuned(|it: &mut HttpSettings| it.max_calls = 1).await;
    let mut slow = server.connect().await;
    slow.write(&head("Content-Length: 12")).await;
    let refused = async {
        loop {
            let answer = server.get("demo-dana", "/v1/approvals").await;
            if answer.status == 503 {
                return answer;
            }
        }
    };
    let answer = tokio::time::timeout(PATIENCE, refused).await.expect("the place is taken");
    assert_eq!((answer.code(), answer.header("retry-after")), ("UNAVAILABLE".into(), Some("1")));
    assert_eq!((server.get("", "/healthz").await.status, server.get("", "/readyz").await.status), (200, 200));
    slow.write(b"{\"input\":{}}").await;
    assert_eq!(slow.answer().await.status, 422);
    serves(&server).await;
}
