//! `[telemetry]` of the configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use crate::SecretRef;

/// Where spans and metrics go. Only a build with the feature `otel` can send them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct TelemetrySettings {
    /// The address of an OpenTelemetry collector that takes OTLP over HTTP, `http://collector:4318` (default: none, and
    /// nothing is sent). `/v1/traces` and `/v1/metrics` are added; an address that ends with the first is that without it.
    pub endpoint: Option<String>,
    /// Headers of every request to it. Their values are secrets, so the endpoint must be https or this machine itself. At
    /// most 16.
    pub headers: BTreeMap<String, SecretRef>,
    /// The portion of traces that is sent, 0 to 1 (default 1). Calls that say that they are part of a trace are sent if
    /// that trace is.
    pub sample_ratio: Option<f64>,
    /// The name under which the collector knows this server (default `countersign`).
    pub service_name: Option<String>,
    /// How often metrics are sent (default `60s`; at least `1s`; `0s`: never).
    #[serde(deserialize_with = "crate::duration::text")]
    pub metrics_period: Duration,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        let (headers, metrics_period) = (BTreeMap::new(), Duration::from_mins(1));
        Self { endpoint: None, headers, sample_ratio: None, service_name: None, metrics_period }
    }
}
