//! Streams: what they show, how they are resumed, and what ends them.

use std::path::Path;
use std::time::Duration;

use countersign::demo::{self, POLICIES};
use countersign::testing::Place;
use countersign::{PolicySource, Surface};
use serde_json::{Value, json};

use super::harness::{Request, TestServer, Wire, demo_app, demo_tokens, refund};

const EVENTS: &str = "/v1/audit/events/stream";
const APPROVALS: &str = "/v1/approvals/stream";
const HEARTBEAT: Duration = Duration::from_secs(15);

/// A client of a stream.
struct Reader {
    wire: Wire,
    text: String,
}

/// One frame of a stream.
#[derive(Clone, Debug, PartialEq)]
struct Frame {
    id: i64,
    /// Empty of heartbeats and of the first frame, which have no data.
    kind: String,
    data: Value,
}

impl Reader {
    async fn open(server: &TestServer, request: Request) -> Self {
        let mut wire = server.connect().await;
        wire.write(&request.bytes(server.address)).await;
        let head = wire.head().await;
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")), "{head:?}");
        assert_eq!(head.header("cache-control"), Some("no-store"));
        Self { wire, text: String::new() }
    }

    async fn of(server: &TestServer, who: &str, path: &str) -> Self {
        Self::open(server, Request::new("GET", path).as_who(who)).await
    }

    /// The next frame; `None` if the stream ends.
    async fn frame(&mut self) -> Option<Frame> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let mut read = Frame { id: -1, kind: String::new(), data: Value::Null };
                for line in frame.lines() {
                    match line.split_once(": ") {
                        Some(("id", id)) => read.id = id.parse().unwrap(),
                        Some(("event", kind)) => read.kind = kind.into(),
                        Some(("data", data)) => read.data = serde_json::from_str(data).unwrap(),
                        Some(("retry", "1000") | ("", "heartbeat")) => {}
                        other => panic!("{other:?} in {frame}"),
                    }
                }
                let taken = self.text.len() - rest.len();
                self.text.drain(..taken);
                return Some(read);
            }
            let chunk = self.wire.chunk().await.filter(|it| !it.is_empty())?;
            self.text += std::str::from_utf8(&chunk).unwrap();
        }
    }

    /// The next frames that have data.
    async fn told(&mut self, count: usize) -> Vec<(i64, String)> {
        let mut told = Vec::new();
        while told.len() < count {
            let frame = self.frame().await.expect("the stream goes on");
            if !frame.kind.is_empty() {
                assert_eq!(frame.data["seq"].as_i64().unwrap_or(frame.id), frame.id);
                told.push((frame.id, frame.kind));
            }
        }
        told
    }
}

async fn read_an_order(server: &TestServer) {
    let answer = server.invoke("demo-dana", "orders.get", &json!({"orderId": "ord_42"})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

const OF_A_READ: [&str; 3] = ["capability.requested", "capability.started", "capability.completed"];

#[tokio::test]
async fn a_stream_says_where_it_begins_and_shows_what_happens_from_then_on() {
    let server = TestServer::new().await;
    read_an_order(&server).await;
    let mut reader = Reader::of(&server, "demo-priya", EVENTS).await;
    let first = reader.frame().await.unwrap();
    assert_eq!((first.kind.as_str(), &first.data), ("", &Value::Null));
    read_an_order(&server).await;
    let told = reader.told(3).await;
    let expected: Vec<_> = (first.id + 1..).zip(OF_A_READ.map(String::from)).collect();
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_stream_is_resumed_behind_the_last_event_that_was_seen() {
    let server = TestServer::new().await;
    read_an_order(&server).await;
    let mut whole = Reader::of(&server, "demo-priya", &format!("{EVENTS}?after=0")).await;
    let all = whole.told(3).await;
    drop(whole);
    let resumed = Request::new("GET", &format!("{EVENTS}?after=0")).as_who("demo-priya");
    let resumed = resumed.header("Last-Event-ID", &all[0].0.to_string());
    let mut resumed = Reader::open(&server, resumed).await;
    assert_eq!(resumed.told(2).await, all[1..]);
    for odd in ["x", "-1", "1.5", ""] {
        let request = Request::new("GET", EVENTS).as_who("demo-priya").header("Last-Event-ID", odd);
        let answer = server.send(&request).await;
        assert_eq!((answer.status, answer.code().as_str()), (422, "INPUT_INVALID"), "{odd}");
    }
}

#[tokio::test]
async fn a_stream_shows_its_filter_and_its_tenant_only_and_heartbeats_say_how_far_it_is() {
    let server = TestServer::new().await;
    let mut reader = Reader::of(&server, "demo-priya", &format!("{EVENTS}?type=capability.completed")).await;
    let start = reader.frame().await.unwrap().id;
    assert_eq!(server.invoke("demo-omar", "orders.search", &json!({"query": "a"})).await.status, 200);
    read_an_order(&server).await;
    assert_eq!(reader.told(1).await, [(start + 6, "capability.completed".to_owned())]);
    assert_eq!(server.invoke("demo-omar", "orders.search", &json!({"query": "a"})).await.status, 200);
    server.app.clock().advance(HEARTBEAT);
    // Behind what the other tenant did, or it would be read again.
    let mut heartbeat = reader.frame().await.unwrap();
    if heartbeat.id < start + 9 {
        server.app.clock().advance(HEARTBEAT);
        heartbeat = reader.frame().await.unwrap();
    }
    assert_eq!(heartbeat, Frame { id: start + 9, kind: String::new(), data: Value::Null });
}

#[tokio::test]
async fn a_stream_ends_when_its_reader_may_read_no_more() {
    let server = TestServer::new().await;
    let mut reader = Reader::of(&server, "demo-priya", EVENTS).await;
    reader.frame().await.unwrap();
    let without = POLICIES
        .map(|(name, text)| (name.to_owned(), text.replace("Action::\"read_audit\",", "Action::\"read_metrics\",")));
    let priya = demo::actor("priya").unwrap();
    server.app.engine().policies(priya).publish(PolicySource::Files(without.to_vec())).await.unwrap();
    read_an_order(&server).await;
    while let Some(frame) = reader.frame().await {
        assert_eq!(frame.data, Value::Null, "nothing is shown any more");
    }
    assert_eq!(server.get("demo-priya", EVENTS).await.status, 403);
}

/// A server at which Priya's token ends 20 s after it opened.
async fn with_a_token_that_ends() -> TestServer {
    let app = demo_app(demo::builder(), &Place::new().unwrap()).await;
    let mut tokens = demo_tokens();
    tokens[1]["expires"] = json!(app.clock().now().plus(Duration::from_secs(20)));
    let auth = app.auth(&serde_json::from_value(json!({ "tokens": tokens })).unwrap(), Path::new(".")).await.unwrap();
    let gateway = app.gateway();
    TestServer::over(app, gateway, auth, Surface::Http, |_| {}).await
}

#[tokio::test]
async fn a_stream_shows_nothing_that_happens_after_its_token_ended() {
    for path in [EVENTS, APPROVALS] {
        let server = with_a_token_that_ends().await;
        let mut reader = Reader::of(&server, "demo-priya", path).await;
        reader.frame().await.unwrap();
        let before = server.ask().await;
        while !reader.frame().await.unwrap().data.to_string().contains(&before) {}
        server.app.clock().advance(Duration::from_secs(20));
        let after = server.invoke("demo-dana", "orders.refund", &refund(64_901)).await.json();
        let after = after["approval"]["id"].as_str().unwrap();
        while let Some(frame) = reader.frame().await {
            assert!(!frame.data.to_string().contains(after), "{frame:?}");
        }
        assert_eq!(server.get("demo-priya", path).await.status, 401);
    }
}

#[tokio::test]
async fn a_stream_on_which_nothing_happens_ends_at_the_first_heartbeat_after_its_token_ended() {
    let server = with_a_token_that_ends().await;
    let mut readers =
        [Reader::of(&server, "demo-priya", EVENTS).await, Reader::of(&server, "demo-priya", APPROVALS).await];
    for reader in &mut readers {
        reader.frame().await.unwrap();
    }
    server.app.clock().advance(HEARTBEAT); // 15 s: the token is good
    for reader in &mut readers {
        assert_eq!(reader.frame().await.unwrap().data, Value::Null);
    }
    server.app.clock().advance(HEARTBEAT); // 30 s
    for reader in &mut readers {
        assert_eq!(reader.frame().await, None, "there is no last event");
    }
    let answer = server.get("demo-priya", EVENTS).await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "UNAUTHENTICATED"));
}

#[tokio::test]
async fn streams_end_when_the_server_stops() {
    let mut server = TestServer::new().await;
    let mut events = Reader::of(&server, "demo-priya", EVENTS).await;
    let mut approvals = Reader::of(&server, "demo-dana", APPROVALS).await;
    assert!(events.frame().await.is_some() && approvals.frame().await.is_some());
    server.stop();
    assert_eq!((events.frame().await, approvals.frame().await), (None, None));
    server.stopped().await;
}

#[tokio::test]
async fn there_are_so_many_streams_and_no_more() {
    let server = TestServer::tuned(|it| it.max_streams = 2).await;
    let (first, second) =
        (Reader::of(&server, "demo-priya", EVENTS).await, Reader::of(&server, "demo-dana", APPROVALS).await);
    let refused = server.get("demo-priya", EVENTS).await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "UNAVAILABLE"));
    assert!(refused.header("retry-after").is_some());
    // Whoever only reads is served all the same, and so is whoever finds a place again.
    assert_eq!(server.get("demo-priya", "/v1/audit/events").await.status, 200);
    drop((first, second));
    server.app.clock().advance(HEARTBEAT); // a client that is gone is noticed when something is sent
    for _ in 0..1_000 {
        let mut wire = server.connect().await;
        wire.write(&Request::new("GET", EVENTS).as_who("demo-priya").bytes(server.address)).await;
        if wire.head().await.status == 200 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the places are not given back");
}

#[tokio::test]
async fn the_stream_of_approvals_shows_each_as_it_stands_to_whom_may_see_it() {
    let server = TestServer::new().await;
    let mut readers = Vec::new();
    for who in ["demo-dana", "demo-priya", "demo-omar"] {
        readers.push(Reader::of(&server, who, APPROVALS).await);
    }
    let id = server.ask().await;
    server.approve(&id).await;
    assert_eq!(server.post("demo-dana", &format!("/v1/approvals/{id}/resume"), &json!({})).await.status, 200);
    let [dana, priya, omar] = &mut readers[..] else { unreachable!() };
    for reader in [dana, priya] {
        let mut seen = Vec::new();
        while seen.len() < 3 {
            let frame = reader.frame().await.unwrap();
            if !frame.kind.is_empty() {
                assert_eq!(frame.data["id"], id);
                seen.push((frame.kind, frame.data["status"].as_str().unwrap().to_owned()));
            }
        }
        let kinds: Vec<_> = seen.iter().map(|it| it.0.as_str()).collect();
        assert_eq!(kinds, ["capability.approval_requested", "capability.approved", "capability.started"]);
        assert_eq!(seen[2].1, "consumed");
    }
    server.app.clock().advance(HEARTBEAT);
    omar.frame().await.unwrap();
    assert_eq!(omar.frame().await.unwrap().kind, "", "another tenant hears nothing but heartbeats");
    let anonymous = server.get("", APPROVALS).await;
    assert_eq!((anonymous.status, anonymous.code().as_str()), (401, "UNAUTHENTICATED"));
}

#[tokio::test]
async fn a_refused_refund_is_no_event_of_approvals() {
    let server = TestServer::new().await;
    let mut reader = Reader::of(&server, "demo-priya", &format!("{APPROVALS}?after=0")).await;
    read_an_order(&server).await;
    assert_eq!(server.invoke("demo-dana", "orders.refund", &refund(600_000)).await.status, 403);
    let id = server.ask().await;
    assert_eq!(reader.frame().await.unwrap().kind, "");
    let frame = reader.frame().await.unwrap();
    assert_eq!((frame.kind.as_str(), &frame.data["id"]), ("capability.approval_requested", &json!(id)));
}

#[tokio::test]
async fn a_stream_that_was_to_begin_with_what_has_left_says_where_it_begins() {
    let (server, key) = super::log::server(|it| it, 3).await;
    super::log::detach(&server, &key).await;
    let mut reader = Reader::of(&server, "demo-priya", &format!("{EVENTS}?after=5")).await;
    assert_eq!(reader.frame().await.unwrap().id, 5);
    let expected = Frame { id: 512, kind: "detached".into(), data: json!({"through": 512}) };
    assert_eq!(reader.frame().await.unwrap(), expected);
    assert_eq!(reader.frame().await.unwrap().id, 513);
}
