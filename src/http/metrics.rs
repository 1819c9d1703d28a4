//! `GET /metrics`: what operators count, in the Prometheus text format (0.0.4). Capability names are not public, so it
//! needs a permit for `read_metrics`, or a listener of its own.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::App;
use super::asking::Asking;
use super::problem::Problem;
use crate::Gateway;
use crate::policy::ManageAction;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// For whoever may.
pub(super) async fn permitted(State(app): State<Arc<App>>, asking: Asking) -> Result<Response, Problem> {
    let core = &app.gateway.core;
    core.may_see(ManageAction::ReadMetrics, &asking.identity()).await?;
    Ok(text(core.metrics().await))
}

/// The metrics alone, for everybody who reaches it: serve it on an address that only the collector does.
pub fn router(gateway: Gateway) -> Router {
    let metrics = get(async |State(gateway): State<Gateway>| text(gateway.core.metrics().await));
    Router::new().route("/metrics", metrics).with_state(gateway)
}

fn text(text: String) -> Response {
    ([(CONTENT_TYPE, TEXT)], text).into_response()
}
