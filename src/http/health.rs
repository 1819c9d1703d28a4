//! `/healthz` and `/readyz`: for whoever starts processes and spreads load. Without credentials, addressed to any address
//! of this machine, and however much is going on. They tell nothing but yes or no, and what to look into, in words of a
//! closed set.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use tokio::sync::Mutex;

use super::problem::Problem;
use super::{App, reply};
use crate::clock::Monotonic;

pub(super) const LIVE: &str = "/healthz";
pub(super) const READY: &str = "/readyz";

/// For how long an answer is everybody's: anybody may ask, and looking costs a write.
const KEPT: Duration = Duration::from_secs(1);

/// When somebody looked, and whether all was well.
pub(super) type Readiness = Mutex<Option<(Monotonic, bool)>>;

#[derive(Serialize)]
struct Status {
    status: &'static str,
    /// What an operator should look into; calls go on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<&'static str>,
}

pub(super) fn is_probe(path: &str) -> bool {
    matches!(path, LIVE | READY)
}

/// The process is up.
pub(super) async fn live() -> Response {
    reply::json(StatusCode::OK, &Status { status: "ok", warnings: Vec::new() })
}

/// It can take calls: the store takes writes, the active policies are here, and it is not about to stop.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Response {
    if !app.stopping.is_cancelled() && is_ready(&app).await {
        let warnings = app.gateway.core.ledger.health().warnings();
        reply::json(StatusCode::OK, &Status { status: "ready", warnings })
    } else {
        Problem::unavailable().into_response()
    }
}

async fn is_ready(app: &App) -> bool {
    let core = &app.gateway.core;
    let mut known = app.readiness.lock().await;
    let now = core.clock.monotonic();
    if let Some((at, ready)) = *known
        && now.since(at) < KEPT
    {
        return ready;
    }
    let ready = core.ready().await;
    if let Err(reason) = ready {
        tracing::warn!(%reason, "not ready");
    }
    *known = Some((core.clock.monotonic(), ready.is_ok()));
    ready.is_ok()
}
