//! `[telemetry]` of the configuration.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::SecretRef;

/// Where spans go. Only a build with the feature `otel` can send them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct TelemetrySettings {
    /// The address of an OpenTelemetry collector that takes OTLP over HTTP, `http://collector:4318` (default: none, and
    /// nothing is sent). `/v1/traces` is added unless the address ends with it.
    pub endpoint: Option<String>,
    /// Headers of every request to it. Their values are secrets, so the endpoint must be https or this machine itself. At
    /// most 16.
    pub headers: BTreeMap<String, SecretRef>,
    /// The portion of traces that is sent, 0 to 1 (default 1). Calls that say that they are part of a trace are sent if
    /// that trace is.
    pub sample_ratio: Option<f64>,
    /// The name under which the collector knows this server (default `countersign`).
    pub service_name: Option<String>,
}
