//! Spans and metrics to a collector: OTLP over HTTP, spans in batches, from a thread of their own. No call waits for it: what
//! the collector does not take in time is dropped.

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
use tokio::runtime::Handle;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;
use url::Url;

use super::endpoint::{self, METRICS, SPANS, headers, url};
use super::metrics::{Metrics, Way};
use super::{Conventional, TelemetrySettings};
use crate::{Engine, Problem, outbound};

/// For how long one batch is tried.
const LIMIT: Duration = Duration::from_secs(10);

/// The shortest time between two messages about metrics.
const SHORTEST: Duration = Duration::from_secs(1);

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
pub struct Export {
    spans: SdkTracerProvider,
    /// `None` if none are sent.
    metrics: Option<Metrics>,
}

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
    let period = settings.metrics_period;
    if !period.is_zero() && period < SHORTEST {
        let next = "write `60s`, or `0s` for none";
        problems.push(Problem::new("telemetry.metrics_period", "is shorter than a second", next));
    }
    let headers = headers(settings, base, env, &mut problems);
    let Some(endpoint) = &settings.endpoint else {
        return if problems.is_empty() { Ok(None) } else { Err(problems) };
    };
    let Some(url) = url(endpoint, !headers.is_empty(), &mut problems).filter(|_| problems.is_empty()) else {
        return Err(problems);
    };
    let client = client().map_err(|it| vec![it])?;
    let service = settings.service_name.clone().unwrap_or_else(|| "countersign".to_owned());
    let way = Way::new(client.clone(), endpoint::with(&url, METRICS), &headers, &service);
    let exporter = exporter(client, &endpoint::with(&url, SPANS), headers).map_err(|it| vec![it])?;
    let metrics = Metrics::new(way, period, exporter.runtime.clone());
    let spans = SdkTracerProvider::builder()
        .with_span_processor(BatchSpanProcessor::builder(Conventional::new(exporter)).build())
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio))))
        .with_resource(Resource::builder_empty().with_service_name(service).build())
        .build();
    Ok(Some(Export { spans, metrics: Some(metrics).filter(|_| !period.is_zero()) }))
}

fn client() -> Result<reqwest::Client, Problem> {
    let wrong = |it| Problem::new("telemetry", format!("no client can be made: {it}"), "see to the trust store");
    outbound::client(LIMIT).map_err(wrong)
}

fn exporter(
    client: reqwest::Client,
    url: &Url,
    headers: HashMap<String, String>,
) -> Result<OnRuntime<opentelemetry_otlp::SpanExporter>, Problem> {
    let wrong = |error: String| Problem::new("telemetry", error, "see to the trust store, then start again");
    // It takes values percent-encoded, as in OTEL_EXPORTER_OTLP_HEADERS.
    let headers = headers.into_iter().map(|(name, value)| (name, value.replace('%', "%25"))).collect();
    let built = opentelemetry_otlp::SpanExporter::builder().with_http().with_http_client(client);
    let built = built.with_endpoint(url.as_str()).with_timeout(LIMIT).with_headers(headers).build();
    let exporter = Arc::new(built.map_err(|it| wrong(format!("no exporter can be made: {it}")))?);
    let runtime = Handle::try_current().map_err(|it| wrong(it.to_string()))?;
    Ok(OnRuntime { exporter, runtime, is_failing: AtomicBool::new(false) })
}

impl Export {
    /// The layer that feeds it.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        layer(&self.spans)
    }

    /// From here on the collector is told of what an engine counts, every `metrics_period`, until this is closed or the engine
    /// is gone: of one engine, that which was named last.
    pub fn measure<C>(&mut self, engine: &Engine<C>) {
        if let Some(metrics) = &mut self.metrics {
            metrics.follow(&engine.core);
        }
    }

    /// Sends what has ended and what was counted, for at most this long, and closes the way. What is not taken by then is
    /// lost.
    pub async fn close(self, within: Duration) {
        let Self { spans, metrics } = self;
        // It blocks its thread, and the batch is sent from this runtime meanwhile.
        let closed = tokio::task::spawn_blocking(move || spans.shutdown_with_timeout(within));
        let counted = async {
            if let Some(metrics) = metrics {
                metrics.close(within).await;
            }
        };
        let (closed, ()) = tokio::join!(closed, counted);
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
