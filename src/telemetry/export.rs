//! Spans to a collector: OTLP over HTTP, in batches, from a thread of its own. No call waits for it: what the collector
//! does not take in time is dropped.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{BatchSpanProcessor, Sampler, SdkTracerProvider, SpanData, SpanExporter};
use reqwest::header::{HeaderName, HeaderValue};
use tokio::runtime::Handle;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;
use url::Url;

use super::{Conventional, TelemetrySettings};
use crate::{Problem, outbound};

/// For how long one batch is tried.
const LIMIT: Duration = Duration::from_secs(10);

/// What the path of an endpoint ends with (OTLP 1.x, "OTLP/HTTP Request").
const PATH: &str = "/v1/traces";

/// More headers than a collector asks for.
const MAX_HEADERS: usize = 16;

/// The engine's spans for any provider of tracers: without events, which are for logs and may name causes.
pub fn layer<S>(provider: &SdkTracerProvider) -> impl Layer<S> + Send + Sync + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let ours = |target: &str| target == "countersign" || target.starts_with("countersign::");
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("countersign"))
        .with_location(false)
        .with_threads(false)
        .with_level(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(filter_fn(move |it| it.is_span() && ours(it.target())))
}

/// An open way to a collector.
#[derive(Debug)]
pub struct Export(SdkTracerProvider);

/// Opens the way that the settings describe; `None` if they name no endpoint. Relative files of secrets count from `base`,
/// and `env` reads the environment. Sends from the runtime in which it is called.
///
/// # Errors
/// Every problem with the settings at once.
pub fn otlp(
    settings: &TelemetrySettings,
    base: &Path,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Export>, Vec<Problem>> {
    let mut problems = Vec::new();
    let ratio = settings.sample_ratio.unwrap_or(1.0);
    if !(0.0..=1.0).contains(&ratio) {
        let next = "1 sends every trace, 0.01 one of a hundred";
        problems.push(Problem::new("telemetry.sample_ratio", "is no number from 0 to 1", next));
    }
    let headers = headers(settings, base, env, &mut problems);
    let Some(endpoint) = &settings.endpoint else {
        return if problems.is_empty() { Ok(None) } else { Err(problems) };
    };
    let Some(url) = url(endpoint, !headers.is_empty(), &mut problems).filter(|_| problems.is_empty()) else {
        return Err(problems);
    };
    let exporter = exporter(&url, headers).map_err(|it| vec![it])?;
    let service = settings.service_name.clone().unwrap_or_else(|| "countersign".to_owned());
    let provider = SdkTracerProvider::builder()
        .with_span_processor(BatchSpanProcessor::builder(Conventional::new(exporter)).build())
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio))))
        .with_resource(Resource::builder_empty().with_service_name(service).build())
        .build();
    Ok(Some(Export(provider)))
}

fn exporter(
    url: &Url,
    headers: HashMap<String, String>,
) -> Result<OnRuntime<opentelemetry_otlp::SpanExporter>, Problem> {
    let wrong = |error: String| Problem::new("telemetry", error, "see to the trust store, then start again");
    let client = outbound::client(LIMIT).map_err(|it| wrong(format!("no client can be made: {it}")))?;
    let built = opentelemetry_otlp::SpanExporter::builder().with_http().with_http_client(client);
    let built = built.with_endpoint(url.as_str()).with_timeout(LIMIT).with_headers(headers).build();
    let exporter = Arc::new(built.map_err(|it| wrong(format!("no exporter can be made: {it}")))?);
    let runtime = Handle::try_current().map_err(|it| wrong(it.to_string()))?;
    Ok(OnRuntime { exporter, runtime, is_failing: AtomicBool::new(false) })
}

/// Secrets go to https or to this machine itself; without any, collectors are often plain http in a network of their own.
fn url(endpoint: &str, has_secrets: bool, problems: &mut Vec<Problem>) -> Option<Url> {
    let key = "telemetry.endpoint";
    let next = "write `https://collector.example`, or `http://localhost:4318`";
    let url = Url::parse(endpoint).ok().filter(|it| matches!(it.scheme(), "http" | "https") && it.has_host());
    let Some(mut url) = url else {
        problems.push(Problem::new(key, "is no address of an HTTP server", next));
        return None;
    };
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        problems.push(Problem::new(key, "has a name, a password or a query in it", "put secrets into `headers`"));
    }
    if has_secrets && !outbound::is_private(&url) {
        problems.push(Problem::new(
            key,
            "gets secrets in `headers`, and is neither https nor this machine itself",
            next,
        ));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&if path.ends_with(PATH) { path } else { path + PATH });
    Some(url)
}

fn headers(
    settings: &TelemetrySettings,
    base: &Path,
    env: &dyn Fn(&str) -> Option<String>,
    problems: &mut Vec<Problem>,
) -> HashMap<String, String> {
    let mut headers = HashMap::new();
    if settings.headers.len() > MAX_HEADERS {
        problems.push(Problem::new("telemetry.headers", format!("are more than {MAX_HEADERS}"), "remove some"));
        return headers;
    }
    for (name, secret) in &settings.headers {
        let key = format!("telemetry.headers.{name}");
        if HeaderName::try_from(name).is_err() {
            problems.push(Problem::new(key, "is not the name of a header", "write it as `x-api-key`"));
            continue;
        }
        match secret.resolve(base, env) {
            Ok(secret) if HeaderValue::try_from(secret.reveal()).is_ok() => {
                // The exporter takes values percent-encoded, as in OTEL_EXPORTER_OTLP_HEADERS.
                headers.insert(name.to_lowercase(), secret.reveal().replace('%', "%25"));
            }
            Ok(_) => {
                let next = "use visible ASCII characters";
                problems.push(Problem::new(key, "its secret is not the value of a header", next));
            }
            Err(error) => problems.push(Problem::new(key, error.to_string(), "put the secret there")),
        }
    }
    headers
}

impl Export {
    /// The layer that feeds it.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        layer(&self.0)
    }

    /// Sends what has ended, for at most this long, and closes the way. What is not taken by then is lost.
    pub async fn close(self, within: Duration) {
        let provider = self.0;
        // It blocks its thread, and the batch is sent from this runtime meanwhile.
        let closed = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(within)).await;
        if !matches!(closed, Ok(Ok(()))) {
            tracing::warn!("the last spans did not reach the collector");
        }
    }
}

/// Sends from a runtime what a thread without one hands over.
#[derive(Debug)]
struct OnRuntime<E> {
    exporter: Arc<E>,
    runtime: Handle,
    /// Whether the last batch was not taken. Told once, not for every batch.
    is_failing: AtomicBool,
}

impl<E: SpanExporter + 'static> SpanExporter for OnRuntime<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let exporter = Arc::clone(&self.exporter);
        let sent = self.runtime.spawn(async move { exporter.export(batch).await }).await;
        let sent = sent.unwrap_or_else(|_| Err(OTelSdkError::InternalFailure("the runtime is gone".into())));
        let had_failed = self.is_failing.swap(sent.is_err(), Ordering::Relaxed);
        match &sent {
            Err(_) if !had_failed => tracing::warn!("the collector takes no spans: they are dropped"),
            Ok(()) if had_failed => tracing::info!("the collector takes spans again"),
            Ok(()) | Err(_) => {}
        }
        sent
    }

    fn set_resource(&mut self, resource: &Resource) {
        if let Some(exporter) = Arc::get_mut(&mut self.exporter) {
            exporter.set_resource(resource); // before the first batch: nobody else has it yet
        }
    }
}
