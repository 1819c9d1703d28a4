//! What operators see of calls: spans, their names and fields, their way to a collector, and what is never in them.

mod metrics;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::demo::{self, Desk};
use countersign::telemetry::{Conventional, Export, TelemetrySettings, layer, otlp};
use countersign::testing::Place;
use countersign::{ErrorCode, Outcome};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use crate::http::harness::{PATIENCE, Request, TestServer, demo_app};
use crate::shop::{App, act, asked, cast, code};

const PAGE: &str = include_str!("../docs/telemetry.md");

/// What is logged is cached by place, from the point of view of whichever thread comes by first: none may see nobody listen.
fn known_to_all_threads() {
    crate::logs::watch_logs();
}

/// The spans of this thread, as a collector would get them.
pub(crate) struct Spans {
    exporter: InMemorySpanExporter,
    /// Ends with its last owner.
    provider: SdkTracerProvider,
}

impl Spans {
    fn new() -> Self {
        known_to_all_threads();
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(Conventional::new(exporter.clone())).build();
        Self { exporter, provider }
    }

    /// From here on, until the guard is dropped.
    pub(crate) fn collect() -> (Self, DefaultGuard) {
        let spans = Self::new();
        let guard = set_default(tracing_subscriber::registry().with(layer(&spans.provider)));
        (spans, guard)
    }

    /// In the order in which they began.
    pub(crate) fn all(&self) -> Vec<SpanData> {
        let mut all = self.exporter.get_finished_spans().unwrap();
        all.sort_by_key(|it| it.start_time);
        all
    }

    /// As a tree, one line a span.
    fn tree(&self) -> String {
        let all = self.all();
        let ids: BTreeSet<_> = all.iter().map(|it| it.span_context.span_id().to_string()).collect();
        let mut text = String::new();
        for root in all.iter().filter(|it| !ids.contains(&it.parent_span_id.to_string())) {
            draw(root, &all, 0, &mut text);
        }
        text
    }
}

fn draw(span: &SpanData, all: &[SpanData], depth: usize, text: &mut String) {
    let mut attributes: Vec<_> = span.attributes.iter().map(|it| format!("{}={}", it.key, it.value)).collect();
    attributes.sort();
    let indent = "  ".repeat(depth);
    writeln!(text, "{indent}{} ({:?}, {:?})", span.name, span.span_kind, span.status).unwrap();
    for it in attributes {
        writeln!(text, "{indent}  - {it}").unwrap();
    }
    for below in all.iter().filter(|it| it.parent_span_id == span.span_context.span_id()) {
        draw(below, all, depth + 1, text);
    }
}

#[tokio::test]
async fn an_approved_call_is_two_trees_of_spans() {
    let app = App::new().await;
    let (spans, guard) = Spans::collect();
    let id = app.ask("ord_1").await;
    app.approvals(cast("priya")).approve(&id, "manager").await.unwrap();
    assert_eq!(code(&app.dana().resume(&id).await), "-");
    drop(guard);
    insta::assert_snapshot!(spans.tree());
}

#[tokio::test]
async fn every_attempt_has_a_span_and_a_failure_is_one() {
    let app = App::new().await;
    let (spans, guard) = Spans::collect();
    let call = app.dana().invoke("act.retried", act("fail"));
    assert_eq!(code(&app.retrying(call.start()).await), "EXECUTION_FAILED");
    assert_eq!(code(&app.dana().invoke("no.such.thing", json!({})).await), "CAPABILITY_NOT_FOUND");
    assert_eq!(code(&app.caller("anonymous").invoke("orders.search", json!({"query": "x"})).await), "POLICY_DENIED");
    drop(guard);
    let told = |it: &SpanData| {
        let find = |key: &str| it.attributes.iter().find(|it| it.key.as_str() == key).map(|it| it.value.to_string());
        let told: Vec<_> =
            ["countersign.attempt", "countersign.outcome", "error.type"].into_iter().filter_map(find).collect();
        format!("{}: {}", it.name, told.join(" "))
    };
    let told: Vec<_> = spans.all().iter().map(told).collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[tokio::test]
async fn a_call_over_http_is_part_of_the_trace_that_its_caller_names() {
    let (spans, guard) = Spans::collect();
    let server = TestServer::new().await;
    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let request = Request::new("POST", "/v1/capabilities/orders.search/invoke").as_who("demo-dana");
    let request = request.header("traceparent", &format!("00-{trace}-{parent}-01"));
    assert_eq!(server.send(&request.json(&json!({"input": {"query": "lamp"}}))).await.status, 200);
    drop(guard);
    let all = spans.all();
    let find = |name: &str| all.iter().find(|it| it.name.contains(name)).unwrap_or_else(|| panic!("{name}: {all:#?}"));
    let (http, call) = (find("POST /v1/"), find("execute_tool orders.search"));
    assert_eq!(
        (http.span_context.trace_id().to_string(), http.parent_span_id.to_string()),
        (trace.into(), parent.into())
    );
    assert_eq!(
        (call.span_context.trace_id(), call.parent_span_id),
        (http.span_context.trace_id(), http.span_context.span_id())
    );
    let status = http.attributes.iter().find(|it| it.key.as_str() == "http.response.status_code");
    assert_eq!(status.map(|it| it.value.to_string()).as_deref(), Some("200"));
}

/// Names and fields of the spans that begin.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<&'static str, BTreeSet<&'static str>>>>);

impl<S: tracing::Subscriber> Layer<S> for Seen {
    fn on_new_span(&self, span: &tracing::span::Attributes<'_>, _: &tracing::span::Id, _: Context<'_, S>) {
        let metadata = span.metadata();
        if metadata.target().starts_with("countersign::") {
            self.0.lock().unwrap().insert(metadata.name(), metadata.fields().iter().map(|it| it.name()).collect());
        }
    }
}

/// The names in backticks of a table's row, by column.
fn row(line: &str) -> Vec<BTreeSet<&str>> {
    line.split('|').skip(1).map(|it| it.split('`').skip(1).step_by(2).collect()).collect()
}

#[tokio::test]
async fn the_page_lists_the_spans_with_their_fields_and_what_they_are_exported_as() {
    let (seen, spans) = (Seen::default(), Spans::new());
    let guard = set_default(tracing_subscriber::registry().with(layer(&spans.provider)).with(seen.clone()));
    let server = TestServer::new().await;
    let input = json!({"orderId": "ord_42", "amountCents": 64_900, "reason": "Broken."});
    assert_eq!(server.invoke("demo-dana", "orders.refund", &input).await.status, 202);
    assert_eq!(server.invoke("demo-dana", "orders.search", &json!({"query": "lamp"})).await.status, 200);
    assert_ne!(server.invoke("demo-dana", "orders.get", &json!({"orderId": "ord_13"})).await.status, 200);
    drop(guard);
    let rows = PAGE.lines().filter(|it| it.starts_with("| `")).map(row);
    let listed: BTreeMap<&str, BTreeSet<&str>> = rows
        .clone()
        .filter_map(|it| Some((*it.first()?.first()?, it.get(1)?.clone())))
        .filter(|(name, _)| name.starts_with("countersign.") && !name.ends_with("outcome") || *name == "http.request")
        .collect();
    assert_eq!(listed, *seen.0.lock().unwrap());
    let exported: BTreeSet<String> =
        spans.all().iter().flat_map(|it| it.attributes.iter().map(|it| it.key.to_string())).collect();
    let named: BTreeSet<&str> = PAGE.split('`').skip(1).step_by(2).collect();
    assert!(exported.contains("gen_ai.tool.name"), "{exported:?}");
    let missing: Vec<_> = exported.iter().filter(|it| !named.contains(it.as_str())).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

fn export(endpoint: &str) -> Export {
    known_to_all_threads();
    let settings =
        json!({"endpoint": endpoint, "headers": {"X-Key": {"env": "COLLECTOR_KEY"}}, "service_name": "desk-7"});
    let settings: TelemetrySettings = serde_json::from_value(settings).unwrap();
    otlp(&settings, Path::new("."), &|name| (name == "COLLECTOR_KEY").then(|| "a%20b".into())).unwrap().unwrap()
}

/// One request: head and body, as text where it is.
async fn request(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|it| it.strip_prefix("content-length: ")?.parse::<usize>().ok());
            let whole = head.len() + 4 + length.unwrap_or(0);
            if read.len() >= whole {
                return text;
            }
        }
        assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0, "cut off: {text}");
    }
}

#[tokio::test]
async fn spans_arrive_at_a_collector_by_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let export = export(&format!("http://{}", listener.local_addr().unwrap()));
    let app = App::new().await;
    let guard = set_default(tracing_subscriber::registry().with(export.layer()));
    assert_eq!(code(&app.dana().invoke("orders.search", json!({"query": "lamp"})).await), "-");
    drop(guard);
    let collector = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        request
    };
    let both = async { tokio::join!(collector, export.close(PATIENCE)) };
    let (request, ()) = tokio::time::timeout(PATIENCE, both).await.expect("it arrives");
    assert!(request.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{request}");
    for text in
        ["\r\nx-key: a%20b\r\n", "desk-7", "execute_tool orders.search", "gen_ai.tool.name", "countersign.policy"]
    {
        assert!(request.contains(text), "{text}: {request}");
    }
}

#[tokio::test]
async fn a_collector_that_never_answers_holds_nobody_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let export = export(&format!("http://{}/otlp/", listener.local_addr().unwrap()));
    let app = App::new().await;
    let guard = set_default(tracing_subscriber::registry().with(export.layer()));
    for _ in 0..150 {
        // more than one batch of spans: some of them are being sent meanwhile
        assert_eq!(code(&app.dana().invoke("orders.search", json!({"query": "lamp"})).await), "-");
    }
    drop(guard);
    let (mut stream, _) = tokio::time::timeout(PATIENCE, listener.accept()).await.expect("it was tried").unwrap();
    assert!(request(&mut stream).await.starts_with("POST /otlp/v1/traces HTTP/1.1\r\n"));
    let closed = tokio::time::timeout(PATIENCE, export.close(Duration::from_millis(10)));
    closed.await.expect("closing has an end, too");
}

#[tokio::test]
async fn what_is_wrong_with_the_settings_is_told_at_once() {
    let problems = |settings: serde_json::Value| {
        let settings: TelemetrySettings = serde_json::from_value(settings).unwrap();
        let opened = otlp(&settings, Path::new("."), &|name| (name == "KEY").then(|| "secret-1".into()));
        opened.map_or_else(
            |it| it.iter().map(|it| format!("{}: {}", it.at, it.what)).collect::<Vec<_>>().join("\n"),
            |it| format!("{}", it.is_some()),
        )
    };
    assert_eq!(problems(json!({})), "false");
    let wrong = problems(json!({
        "endpoint": "http://dana:pw@collector.test", "sample_ratio": 1.5, "metrics_period": "999ms",
        "headers": {"a b": {"env": "KEY"}, "x-key": {"env": "KEY"}, "x-other": {"env": "NONE"}},
    }));
    let expected = [
        "telemetry.sample_ratio: is no number from 0 to 1",
        "telemetry.metrics_period: is shorter than a second",
        "telemetry.headers.a b: is not the name of a header",
        "telemetry.headers.x-other: the environment variable `NONE` is not set, or empty",
        "telemetry.endpoint: has a name, a password or a query in it",
        "telemetry.endpoint: gets secrets in `headers`, and is neither https nor this machine itself",
    ];
    assert_eq!(wrong.lines().collect::<Vec<_>>(), expected);
    assert_eq!(problems(json!({"endpoint": "collector:4318"})).lines().count(), 1);
}

/// Everything that is logged on this thread, spans and events of every level.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What the desk's customers, orders and archive say, and nobody but a caller may read.
const PAYLOAD: [&str; 7] = ["canary-", "mina@", "555 01", "Okafor", "Reading lamp", "hunter2", "db-7"];

async fn the_whole_demo(app: &countersign::testing::TestApp<Desk>) -> Vec<&'static str> {
    let call = async |who: &str, capability: &str, input: serde_json::Value| {
        let caller = app.on_behalf_of(demo::actor(who).unwrap());
        caller.invoke(capability, input).idempotency_key(format!("{who}-{capability}").as_str()).await
    };
    let reason = "canary-reason";
    let small = json!({"orderId": "ord_42", "amountCents": 4_900, "reason": reason});
    let large = json!({"orderId": "ord_42", "amountCents": 64_900, "reason": reason});
    let mut outcomes: Vec<Outcome> = vec![
        call("dana", "orders.search", json!({"query": "canary-query"})).await,
        call("dana", "orders.get", json!({"orderId": "ord_42"})).await,
        call("dana", "orders.get", json!({"orderId": "canary-order"})).await,
        call("dana", "orders.get", json!({"orderId": "ord_13"})).await,
        call("dana", "orders.refund", small.clone()).await,
        call("dana", "orders.refund", small).await,
        call("dana", "orders.refund", large.clone()).await,
        call("dana", "orders.refund", json!({"orderId": "ord_42", "amountCents": "canary-cents", "canary-member": 1}))
            .await,
        call("dana", "orders.purge", json!({"olderThanDays": "canary-days"})).await,
        call("dana", "orders.canary", json!({"query": "canary-query"})).await,
        call("dana", "customers.search", json!({"query": "mina"})).await,
        call("dana", "customers.get", json!({"customerId": "cus_7"})).await,
        call("dana", "messages.draft", json!({"customerId": "cus_7", "topic": "refund"})).await,
        call("nightly", "reports.export", json!({"month": "2026-06"})).await,
        call("omar", "orders.search", json!({"query": "canary-query"})).await,
        call("anonymous", "orders.search", json!({"query": "canary-query"})).await,
    ];
    let dana = app.on_behalf_of(demo::actor("dana").unwrap());
    let priya = app.approvals(demo::actor("priya").unwrap());
    let id = asked(&dana.invoke("orders.refund", large.clone()).await);
    priya.approve(&id, "manager").await.unwrap();
    outcomes.extend([dana.resume(&id).await, dana.resume(&id).await]);
    let message = json!({"customerId": "cus_8", "subject": "canary-subject", "body": "canary-body"});
    let id = asked(&dana.invoke("messages.send", message).await);
    priya.reject(&id, "human").await.unwrap();
    outcomes.push(dana.resume(&id).await);
    outcomes.iter().map(code).collect()
}

#[tokio::test]
async fn no_event_span_or_log_of_the_whole_demo_holds_payload() {
    let (written, spans) = (Written::default(), Spans::new());
    let writer = written.clone();
    let log = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
        .with_writer(move || writer.clone());
    let guard = set_default(tracing_subscriber::registry().with(layer(&spans.provider)).with(log));
    let place = Place::new().unwrap();
    let app = demo_app(demo::builder(), &place).await;
    let codes = the_whole_demo(&app).await;
    drop(guard);
    assert_eq!(
        codes.join(" "),
        "- - EXECUTION_FAILED EXECUTION_FAILED - - IDEMPOTENCY_KEY_REUSED INPUT_INVALID CAPABILITY_NOT_FOUND \
         CAPABILITY_NOT_FOUND - - - - - POLICY_DENIED - APPROVAL_CONSUMED APPROVAL_REJECTED"
    );
    assert_eq!(ErrorCode::ALL.len(), 28, "is there a new way to end? call it above, if the demo can");
    let log = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("countersign.execution") && log.contains("the handler failed"), "the log is empty: {log}");
    let events: String = countersign::testing::stored_events(place.database())
        .await
        .iter()
        .map(|it| serde_json::to_string(&it.1).unwrap())
        .collect();
    let tree = spans.tree();
    assert!(tree.contains("execute_tool messages.send") && events.contains("messages.send"), "{tree}");
    let found = |text: &str| PAYLOAD.into_iter().filter(|it| text.contains(it)).collect::<Vec<_>>();
    assert_eq!((found(&log), found(&events), found(&tree)), (vec![], vec![], vec![]));
    for marker in ["canary-reason", "canary-query", "canary-subject", "canary-cents"] {
        assert_eq!(crate::logs::logged(marker), Vec::<String>::new());
    }
}
