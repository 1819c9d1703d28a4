//! Where a collector is, and with which headers it is spoken to.

use std::collections::HashMap;
use std::path::Path;

use reqwest::header::{HeaderName, HeaderValue};
use url::Url;

use super::TelemetrySettings;
use crate::{Problem, outbound};

/// What is behind the address where it takes spans (OTLP 1.x, "OTLP/HTTP Request").
pub(super) const SPANS: &str = "/v1/traces";

/// Where it takes metrics.
pub(super) const METRICS: &str = "/v1/metrics";

/// More headers than a collector asks for.
const MAX_HEADERS: usize = 16;

/// With something behind its path.
pub(super) fn with(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(&format!("{}{path}", url.path().trim_end_matches('/')));
    url
}

/// The address of everything that a collector takes. Secrets go to https or to this machine itself; without any, collectors are often plain http in a network of their own.
pub(super) fn url(endpoint: &str, has_secrets: bool, problems: &mut Vec<Problem>) -> Option<Url> {
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
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix(SPANS).unwrap_or(path).to_owned();
    url.set_path(&path);
    Some(url)
}

/// Names in lower case, with their secrets.
pub(super) fn headers(
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
                headers.insert(name.to_lowercase(), secret.reveal().to_owned());
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
