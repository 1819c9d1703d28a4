//! How a server says that it is there, and how it ends.

use std::time::Duration;

use countersign::http::HttpSettings;
use countersign::testing::Place;
use countersign::{Anchor, LogKey, LogTree, Surface, demo};
use serde_json::json;
use tokio::net::TcpStream;

use super::harness::{Request, TestServer, auth, demo_app, demo_tokens, refund};

#[tokio::test]
async fn a_process_that_is_up_says_so_and_one_that_can_work_says_that_too() {
    let server = TestServer::new().await;
    let live = server.get("", "/healthz").await;
    assert_eq!((live.status, live.text()), (200, r#"{"status":"ok"}"#.into()));
    let ready = server.get("", "/readyz").await;
    assert_eq!((ready.status, ready.text()), (200, r#"{"status":"ready"}"#.into()));
    server.app.break_store(true);
    assert_eq!(server.get("", "/readyz").await.status, 200); // asked within the second
    server.app.clock().advance(Duration::from_secs(1));
    let broken = server.get("", "/readyz").await;
    assert_eq!((broken.status, broken.code(), broken.header("retry-after")), (503, "UNAVAILABLE".into(), Some("1")));
    assert_eq!(server.get("", "/healthz").await.status, 200);
    server.app.break_store(false);
    server.app.clock().advance(Duration::from_secs(1));
    assert_eq!(server.get("", "/readyz").await.status, 200);
}

#[tokio::test]
async fn a_server_whose_log_cannot_be_signed_is_ready_and_says_so() {
    let place = Place::new().unwrap();
    let key = LogKey::generate("example.com/log").unwrap();
    let anchor = Anchor::file(place.database().with_file_name("missing").join("file"));
    // Signs when it is told to, and at no other time.
    let log = LogTree::new().key(key).every(u64::MAX, Duration::from_hours(24)).anchors([anchor]);
    let app = demo_app(demo::builder().log_tree(log), &place).await;
    let gateway = app.gateway();
    let server = TestServer::over(app, gateway, auth(demo_tokens()).await, Surface::Http, |_| {}).await;
    let ready = async || {
        let answer = server.get("", "/readyz").await;
        (answer.status, answer.text())
    };
    assert_eq!(ready().await, (200, r#"{"status":"ready"}"#.into()));
    server.app.engine().checkpoint().await.unwrap();
    assert_eq!(ready().await, (200, r#"{"status":"ready","warnings":["log_anchors_failing"]}"#.into()));
    for forgery in ["DROP TRIGGER ledger_checkpoint_no_delete", "DELETE FROM ledger_checkpoint"] {
        crate::tamper::alter(&place.database(), forgery).await;
    }
    server.app.engine().checkpoint().await.unwrap_err();
    let both = r#"{"status":"ready","warnings":["log_refused","log_anchors_failing"]}"#;
    assert_eq!(ready().await, (200, both.into()), "and why is told to nobody here");
    assert_eq!(server.invoke("demo-dana", "orders.search", &json!({"query": "lamp"})).await.status, 200);
}

#[tokio::test]
async fn an_engine_that_shuts_down_is_not_ready_and_takes_no_calls() {
    let server = TestServer::new().await;
    server.app.engine().shutdown(Duration::ZERO).await;
    assert_eq!(server.get("", "/readyz").await.status, 503);
    let refused = server.invoke("demo-dana", "orders.search", &json!({"query": "lamp"})).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
}

#[tokio::test]
async fn running_requests_are_finished_and_nothing_new_is_accepted() {
    let mut server = TestServer::new().await;
    let call = Request::new("POST", "/v1/capabilities/orders.refund/invoke").as_who("demo-dana");
    let bytes = call.json(&json!({ "input": refund(100) })).bytes(server.address);
    let (mut busy, mut idle) = (server.connect().await, server.connect().await);
    idle.write(&Request::new("GET", "/healthz").bytes(server.address)).await;
    assert_eq!(idle.answer().await.status, 200);
    let (head, rest) = bytes.split_at(bytes.len() - 5);
    busy.write(head).await;
    // Served after it: the head of the other one has been read by then, or is in the machine's hands.
    assert_eq!(server.get("", "/healthz").await.status, 200);
    server.stop();
    idle.hung_up().await;
    busy.write(rest).await;
    let answer = busy.answer().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    busy.hung_up().await;
    let address = server.address;
    let app = server.stopped().await;
    assert!(TcpStream::connect(address).await.is_err());
    assert_eq!(app.effects(), ["orders.refund #1"]);
}

#[tokio::test]
async fn what_is_not_finished_in_time_is_cut_off() {
    let cut = |it: &mut HttpSettings| it.shutdown_timeout = Duration::from_millis(20);
    let mut server = TestServer::tuned(cut).await;
    let mut wire = server.connect().await;
    wire.write(b"POST /v1/approvals/apr-1/resume HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        .await;
    wire.write(b"Content-Length: 10\r\n\r\n{").await;
    assert_eq!(server.get("", "/healthz").await.status, 200);
    server.stop();
    wire.hung_up().await;
    server.stopped().await;
}
