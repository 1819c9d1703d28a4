//! What an engine counts, as OpenTelemetry has it: the same figures that `/metrics` shows, read when they are sent. They are
//! cumulative, so that a message that is lost is made up for by the next one.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use url::Url;

use crate::clock::Timestamp;
use crate::meters::{Family, Labels, Points, UNKNOWN, Value};
use crate::pipeline::Core;

/// The way of the metrics to a collector.
#[derive(Debug)]
pub(super) struct Metrics {
    way: Arc<Way>,
    period: Duration,
    runtime: Handle,
    /// Whose metrics, and who sends them.
    followed: Option<Followed>,
}

#[derive(Debug)]
struct Followed {
    core: Weak<Core>,
    /// Before that nothing was counted.
    since: Timestamp,
    sending: JoinHandle<()>,
}

/// Where they go.
#[derive(Debug)]
pub(super) struct Way {
    client: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    service: String,
}

/// Since when, and when.
#[derive(Clone, Copy)]
struct Span(u64, u64);

impl Metrics {
    pub(super) fn new(way: Way, period: Duration, runtime: Handle) -> Self {
        Self { way: Arc::new(way), period, runtime, followed: None }
    }

    /// Sends what an engine counts, from now on.
    pub(super) fn follow(&mut self, core: &Arc<Core>) {
        let since = core.clock.now();
        let sending = send(Arc::clone(&self.way), self.period, Arc::downgrade(core), since);
        let sending = self.runtime.spawn(sending);
        let followed = Followed { core: Arc::downgrade(core), since, sending };
        if let Some(before) = self.followed.replace(followed) {
            before.sending.abort();
        }
    }

    /// The last counts, for at most this long. What is only now, as gauges tell it, is no more.
    pub(super) async fn close(self, within: Duration) {
        let Some(Followed { core, since, sending }) = self.followed else { return };
        sending.abort();
        let Some(core) = core.upgrade() else { return };
        let last = async {
            let mut told = core.measured().await;
            told.retain(|it| !matches!(it.points, Points::Gauges(_)));
            self.way.send(told, since, core.clock.now()).await
        };
        if !matches!(tokio::time::timeout(within, last).await, Ok(true)) {
            tracing::warn!("the last metrics did not reach the collector");
        }
    }
}

/// Until the engine is gone. That the collector takes none is told once, not every time.
async fn send(way: Arc<Way>, period: Duration, core: Weak<Core>, since: Timestamp) {
    let mut had_failed = false;
    loop {
        let Some(running) = core.upgrade() else { return };
        let clock = running.clock.clone();
        drop(running);
        clock.sleep(period).await;
        let Some(running) = core.upgrade() else { return };
        let told = running.measured().await;
        let now = running.clock.now();
        drop(running);
        let is_sent = way.send(told, since, now).await;
        match (is_sent, had_failed) {
            (false, false) => tracing::warn!("the collector takes no metrics"),
            (true, true) => tracing::info!("the collector takes metrics again"),
            (true, false) | (false, true) => {}
        }
        had_failed = !is_sent;
    }
}

impl Way {
    pub(super) fn new(client: reqwest::Client, url: Url, headers: &HashMap<String, String>, service: &str) -> Self {
        let header = |(name, value): (&String, &String)| {
            let mut value = HeaderValue::try_from(value).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::try_from(name).ok()?, value))
        };
        let headers = headers.iter().filter_map(header).collect();
        Self { client, url, headers, service: service.to_owned() }
    }

    /// Whether the collector has it.
    async fn send(&self, told: Vec<Family>, since: Timestamp, now: Timestamp) -> bool {
        let body = request(told, &self.service, Span(nanoseconds(since), nanoseconds(now))).encode_to_vec();
        let request = self.client.post(self.url.clone()).headers(self.headers.clone());
        let answer = request.header("content-type", "application/x-protobuf").body(body).send().await;
        answer.is_ok_and(|it| it.status().is_success())
    }
}

fn nanoseconds(at: Timestamp) -> u64 {
    u64::try_from(at.0).unwrap_or(0).saturating_mul(1_000)
}

fn request(told: Vec<Family>, service: &str, span: Span) -> ExportMetricsServiceRequest {
    let attributes = vec![attribute("service.name", Any::StringValue(service.to_owned()))];
    let scope = InstrumentationScope {
        name: "countersign".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..InstrumentationScope::default()
    };
    // What has nothing to tell is not told.
    let metrics = told.into_iter().map(|it| metric(it, span)).filter(|it| it.data.is_some()).collect();
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }];
    let resource = Some(Resource { attributes, ..Resource::default() });
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() }],
    }
}

/// Units have a member of their own there, and are no part of the name.
fn metric(Family { name, help, points }: Family, span: Span) -> Metric {
    let (name, unit) = name.strip_suffix("_seconds").map_or((name, ""), |it| (it, "s"));
    let aggregation_temporality = AggregationTemporality::Cumulative.into();
    let data = match points {
        Points::Counts(points) if !points.is_empty() => {
            let count = |it| Number::AsInt(i64::try_from(it).unwrap_or(i64::MAX));
            let data_points = points.into_iter().map(|(labels, it)| number(labels, count(it), span)).collect();
            Some(Data::Sum(Sum { data_points, aggregation_temporality, is_monotonic: true }))
        }
        Points::Gauges(points) if !points.is_empty() => {
            let value = |it| match it {
                Value::Whole(it) => Number::AsInt(it),
                Value::Real(it) => Number::AsDouble(it),
            };
            // A gauge is of a moment, and began at none.
            let now = Span(0, span.1);
            let data_points = points.into_iter().map(|(labels, it)| number(labels, value(it), now)).collect();
            Some(Data::Gauge(Gauge { data_points }))
        }
        Points::Durations(points) if !points.is_empty() => {
            let point = |(labels, seen): (Labels, crate::meters::Seen)| HistogramDataPoint {
                attributes: attributes(labels),
                start_time_unix_nano: span.0,
                time_unix_nano: span.1,
                count: seen.count,
                sum: Some(seen.seconds),
                bucket_counts: seen.classes.iter().map(|it| it.1).collect(),
                // The last class has no upper bound.
                explicit_bounds: seen.classes.iter().map(|it| it.0).filter(|it| it.is_finite()).collect(),
                ..HistogramDataPoint::default()
            };
            let data_points = points.into_iter().map(point).collect();
            Some(Data::Histogram(Histogram { data_points, aggregation_temporality }))
        }
        Points::Counts(_) | Points::Gauges(_) | Points::Durations(_) => None,
    };
    let (name, description) = (format!("countersign.{name}"), help.to_owned());
    Metric { name, description, unit: unit.to_owned(), data, ..Metric::default() }
}

fn number(labels: Labels, value: Number, Span(since, now): Span) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: since,
        time_unix_nano: now,
        value: Some(value),
        ..NumberDataPoint::default()
    }
}

/// As the attributes of spans are called. What is empty is absent, and of what is not registered there is no tool to name.
fn attributes(labels: Labels) -> Vec<KeyValue> {
    let present =
        labels.into_iter().filter(|(label, value)| !value.is_empty() && (*label, &**value) != ("capability", UNKNOWN));
    let named = present.map(|(label, value)| match (label, value.parse()) {
        ("status", Ok(status)) => attribute("http.response.status_code", Any::IntValue(status)),
        ("capability", _) => attribute("gen_ai.tool.name", Any::StringValue(value)),
        ("code", _) => attribute("error.type", Any::StringValue(value)),
        ("method", _) => attribute("http.request.method", Any::StringValue(value)),
        ("route", _) => attribute("http.route", Any::StringValue(value)),
        (other, _) => attribute(&format!("countersign.{other}"), Any::StringValue(value)),
    });
    named.collect()
}

fn attribute(key: &str, value: Any) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}
