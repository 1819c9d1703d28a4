//! What an engine counts, at a collector: the same figures as `/metrics`, cumulative, without payload.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use countersign::telemetry::{TelemetrySettings, otlp};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::metrics::v1::NumberDataPoint;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use prost::Message as _;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{PAGE, PAYLOAD, export, known_to_all_threads, the_whole_demo};
use crate::http::harness::{PATIENCE, TestServer};
use crate::shop::{App, code};

/// What a collector gets: the path, the head, and the message.
async fn received(listener: &TcpListener) -> (String, String, Vec<u8>) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut read = Vec::new();
    let whole = loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        let end = text.find("\r\n\r\n").map(|it| it + 4);
        let length = text.lines().find_map(|it| it.strip_prefix("content-length: ")?.parse::<usize>().ok());
        match end.zip(length) {
            // The head is ASCII: its length is the same in both.
            Some((end, length)) if read.len() >= end + length => break (text[..end].to_owned(), read[end..].to_vec()),
            _ => assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0, "cut off: {text}"),
        }
    };
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await.unwrap();
    let path = whole.0.split(' ').nth(1).unwrap().to_owned();
    (path, whole.0, whole.1)
}

/// The next message about metrics.
async fn metrics(listener: &TcpListener) -> (String, ExportMetricsServiceRequest) {
    let arrives = async {
        loop {
            let (path, head, body) = received(listener).await;
            if path == "/v1/metrics" {
                return (head, ExportMetricsServiceRequest::decode(&*body).unwrap());
            }
            assert_eq!(path, "/v1/traces");
        }
    };
    tokio::time::timeout(PATIENCE, arrives).await.expect("they arrive")
}

/// Lets time pass until something comes of it.
async fn passing<T>(app: &App, outcome: impl Future<Output = T>) -> T {
    let mut outcome = std::pin::pin!(outcome);
    loop {
        app.clock().advance(Duration::from_mins(1));
        if let Ok(outcome) = tokio::time::timeout(Duration::from_millis(20), &mut outcome).await {
            return outcome;
        }
    }
}

/// Series of a message by name and attributes, each with its value, and of histograms how many they have seen.
fn series(request: &ExportMetricsServiceRequest) -> BTreeMap<String, String> {
    let [of] = &*request.resource_metrics else { panic!("{request:?}") };
    let [scope] = &*of.scope_metrics else { panic!("{request:?}") };
    let text = |attributes: &[KeyValue]| {
        let one = |it: &KeyValue| match it.value.clone().unwrap().value.unwrap() {
            Any::StringValue(value) => format!("{}={value}", it.key),
            Any::IntValue(value) => format!("{}={value}", it.key),
            other => panic!("{other:?}"),
        };
        attributes.iter().map(one).collect::<Vec<_>>().join(" ")
    };
    let number = |it: &NumberDataPoint| match it.value.unwrap() {
        Number::AsInt(value) => value.to_string(),
        Number::AsDouble(value) => format!("{value:?}"),
    };
    let mut found = BTreeMap::new();
    for metric in &scope.metrics {
        let mut add = |attributes: &[KeyValue], value: String| {
            let name = format!("{} {}", metric.name, text(attributes));
            assert!(found.insert(name.trim_end().to_owned(), value).is_none(), "{name} is there twice");
        };
        match metric.data.as_ref().unwrap() {
            Data::Sum(sum) => {
                assert!(sum.is_monotonic && sum.aggregation_temporality == 2, "cumulative");
                sum.data_points.iter().for_each(|it| add(&it.attributes, number(it)));
            }
            Data::Gauge(gauge) => gauge.data_points.iter().for_each(|it| add(&it.attributes, number(it))),
            Data::Histogram(histogram) => {
                assert_eq!((histogram.aggregation_temporality, &*metric.unit), (2, "s"));
                for it in &histogram.data_points {
                    assert_eq!(it.bucket_counts.len(), it.explicit_bounds.len() + 1);
                    assert_eq!(it.bucket_counts.iter().sum::<u64>(), it.count);
                    assert!(it.explicit_bounds.is_sorted() && it.sum.is_some() && it.start_time_unix_nano > 0);
                    add(&it.attributes, it.count.to_string());
                }
            }
            other => panic!("{other:?}"),
        }
    }
    found
}

#[tokio::test]
async fn what_is_counted_arrives_at_a_collector_as_it_stands_each_time_and_at_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut export = export(&format!("http://{}", listener.local_addr().unwrap()));
    let app = App::new().await;
    export.measure(app.engine());
    let search = async || code(&app.dana().invoke("orders.search", json!({"query": "lamp"})).await);
    assert_eq!(search().await, "-");
    app.ask("ord_1").await;
    assert_eq!(code(&app.dana().invoke("no.such.thing", json!({})).await), "CAPABILITY_NOT_FOUND");
    let (head, first) = passing(&app, metrics(&listener)).await;
    for header in ["x-key: a%20b", "content-type: application/x-protobuf"] {
        assert!(head.contains(&format!("\r\n{header}\r\n")), "{header}: {head}");
    }
    let service = first.resource_metrics[0].resource.as_ref().unwrap().attributes[0].clone();
    assert_eq!(service.value.unwrap().value, Some(Any::StringValue("desk-7".into())));
    let told = series(&first);
    let completed = "countersign.executions gen_ai.tool.name=orders.search countersign.outcome=completed";
    assert_eq!(told.get(completed).map(String::as_str), Some("1"), "{told:#?}");
    let refused = "countersign.executions error.type=CAPABILITY_NOT_FOUND countersign.outcome=failed";
    assert_eq!(told.get(refused).map(String::as_str), Some("1"), "{told:#?}");
    assert_eq!(told["countersign.execution_duration gen_ai.tool.name=orders.search"], "1");
    assert_eq!(told["countersign.approvals_pending gen_ai.tool.name=orders.refund"], "1");
    assert_eq!(told["countersign.store_readable"], "1.0");
    // What `/metrics` shows has the same figures.
    let text = app.engine().metrics().await;
    assert!(
        text.contains("countersign_executions_total{capability=\"orders.search\",code=\"\",outcome=\"completed\"} 1")
    );
    let names = |it: &str| it.strip_prefix("# TYPE countersign_").map(|it| it.split(' ').next().unwrap().to_owned());
    let shown: BTreeSet<String> = text.lines().filter_map(names).collect();
    for name in told.keys().map(|it| it.split(' ').next().unwrap().strip_prefix("countersign.").unwrap()) {
        let is_shown = [name.to_owned(), format!("{name}_total"), format!("{name}_seconds")];
        assert!(is_shown.iter().any(|it| shown.contains(it)), "{name}");
    }
    // Cumulative: nothing is counted anew.
    assert_eq!(search().await, "-");
    let (_, second) = passing(&app, async {
        loop {
            let (head, request) = metrics(&listener).await;
            if series(&request)[completed] == "2" {
                return (head, request);
            }
        }
    })
    .await;
    assert!(series(&second).contains_key("countersign.http_streams"));
    assert_eq!(search().await, "-");
    let last = async {
        loop {
            let (_, request) = metrics(&listener).await;
            if !series(&request).contains_key("countersign.store_readable") {
                return request;
            }
        }
    };
    let (last, ()) =
        tokio::time::timeout(PATIENCE, async { tokio::join!(last, export.close(PATIENCE)) }).await.unwrap();
    assert_eq!(series(&last)[completed], "3", "and no gauge is in it: {:#?}", series(&last));
}

#[tokio::test]
async fn no_metric_holds_payload_and_all_of_their_attributes_are_on_the_page() {
    known_to_all_threads();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut export = export(&format!("http://{}", listener.local_addr().unwrap()));
    let server = TestServer::new().await;
    export.measure(server.app.engine());
    the_whole_demo(&server.app).await;
    assert_eq!(server.invoke("canary-token", "orders.canary", &json!({"query": "canary-query"})).await.status, 401);
    assert_eq!(server.get("demo-dana", "/canary-path").await.status, 404);
    let ((_, request), ()) = tokio::join!(metrics(&listener), export.close(PATIENCE));
    let told = series(&request);
    assert!(told.len() > 40, "{told:#?}");
    let text = format!("{told:?}");
    assert_eq!(PAYLOAD.into_iter().filter(|it| text.contains(it)).collect::<Vec<_>>(), Vec::<&str>::new());
    let named: BTreeSet<&str> = PAGE.split('`').skip(1).step_by(2).collect();
    let attributes = told.keys().flat_map(|it| it.split(' ').skip(1)).filter_map(|it| Some(it.split_once('=')?.0));
    let missing: BTreeSet<_> = attributes.filter(|it| !named.contains(it)).collect();
    assert_eq!(missing, BTreeSet::new());
}

#[tokio::test]
async fn metrics_that_a_collector_does_not_take_hold_nobody_up_and_none_are_sent_if_none_are_wanted() {
    known_to_all_threads();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let app = App::new().await;
    let mut export = export(&format!("http://{}", listener.local_addr().unwrap()));
    export.measure(app.engine());
    let (stream, _) = passing(&app, listener.accept()).await.unwrap();
    assert_eq!(code(&app.dana().invoke("orders.search", json!({"query": "lamp"})).await), "-");
    let closed = tokio::time::timeout(PATIENCE, export.close(Duration::from_millis(10)));
    closed.await.expect("closing has an end, too");
    drop(stream);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = json!({"endpoint": format!("http://{}", listener.local_addr().unwrap()), "metrics_period": "0s"});
    let settings: TelemetrySettings = serde_json::from_value(settings).unwrap();
    let mut export = otlp(&settings, Path::new("."), &|_| None).unwrap().unwrap();
    export.measure(app.engine());
    app.clock().advance(Duration::from_hours(1));
    export.close(PATIENCE).await;
    assert!(tokio::time::timeout(Duration::ZERO, listener.accept()).await.is_err(), "nobody came");
}
