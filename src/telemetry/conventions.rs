//! The names that OpenTelemetry has for what the engine's spans are: tools that are executed (`execute_tool`, of its semantic
//! conventions for generative AI), and HTTP servers.

use std::time::Duration;

use opentelemetry::trace::{SpanKind, Status};
use opentelemetry::{Key, KeyValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

/// Names the engine's spans and their attributes as OpenTelemetry does, and hands all spans on. [`super::otlp`] has one; put
/// it around an exporter of your own, for traces that look the same.
#[derive(Debug)]
pub struct Conventional<E>(E);

impl<E: SpanExporter> Conventional<E> {
    /// Around this exporter.
    pub fn new(exporter: E) -> Self {
        Self(exporter)
    }
}

impl<E: SpanExporter> SpanExporter for Conventional<E> {
    fn export(&self, mut batch: Vec<SpanData>) -> impl Future<Output = OTelSdkResult> + Send {
        batch.iter_mut().for_each(name);
        self.0.export(batch)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

fn name(span: &mut SpanData) {
    match &*span.name {
        "countersign.execution" => execution(span),
        "countersign.policy" | "countersign.approval" | "countersign.handler" => ours(span),
        "http.request" => request(span),
        _ => {}
    }
}

/// `execute_tool orders.refund`. Of what is not registered there is no tool to name.
fn execution(span: &mut SpanData) {
    let (tool, call) = (text(span, "capability"), text(span, "execution"));
    ours(span);
    let is_known = tool.as_deref().is_some_and(|it| it != super::UNKNOWN);
    span.name = match tool.as_deref().filter(|_| is_known) {
        Some(tool) => format!("execute_tool {tool}").into(),
        None => "execute_tool".into(),
    };
    span.attributes.push(KeyValue::new("gen_ai.operation.name", "execute_tool"));
    span.attributes.extend(tool.filter(|_| is_known).map(|it| KeyValue::new("gen_ai.tool.name", it)));
    span.attributes.extend(call.map(|it| KeyValue::new("gen_ai.tool.call.id", it)));
}

/// Attributes under the engine's own name; a failure as a failure.
fn ours(span: &mut SpanData) {
    let has_failed = text(span, "outcome").is_some_and(|it| it == "failed" || it == "error");
    let code = text(span, "code").filter(|_| has_failed);
    for it in &mut span.attributes {
        it.key = Key::new(format!("countersign.{}", it.key));
    }
    if has_failed {
        span.status = Status::error(""); // what could be told of it is its code
        span.attributes.extend(code.map(|it| KeyValue::new("error.type", it)));
    }
}

fn request(span: &mut SpanData) {
    span.span_kind = SpanKind::Server;
    if let (Some(method), Some(route)) = (text(span, "method"), text(span, "route")) {
        span.name = if route == "none" { method.into() } else { format!("{method} {route}").into() };
    }
    // Which trace it is part of, the span says itself.
    span.attributes.retain(|it| !matches!(it.key.as_str(), "trace" | "parent"));
    for it in &mut span.attributes {
        it.key = match it.key.as_str() {
            "method" => Key::new("http.request.method"),
            "route" => Key::new("http.route"),
            "status" => Key::new("http.response.status_code"),
            other => Key::new(format!("countersign.{other}")),
        };
    }
    let status =
        |it: &KeyValue| it.key.as_str() == "http.response.status_code" && matches!(it.value, Value::I64(500..));
    if span.attributes.iter().any(status) {
        span.status = Status::error("");
    }
}

fn text(span: &SpanData, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|it| it.key.as_str() == key);
    found.map(|it| it.value.as_str().into_owned())
}
