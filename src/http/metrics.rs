//! `GET /metrics`: what operators count, in the Prometheus text format (0.0.4). Capability names are not public, so it
//! needs a permit for `read_metrics`, or a listener of its own.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::asking::Asking;
use super::problem::{self, Problem, Transport};
use super::serve::{self, Limits, Local};
use super::{App, HttpSettings, host};
use crate::Gateway;
use crate::policy::ManageAction;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// For whoever may.
pub(super) async fn permitted(State(app): State<Arc<App>>, asking: Asking) -> Result<Response, Problem> {
    let core = &app.gateway.core;
    core.may_see(ManageAction::ReadMetrics, &asking.identity()).await?;
    Ok(text(core.metrics().await))
}

/// How many connections the metrics' own listener takes at once: collectors are few.
const CONNECTIONS: usize = 16;

/// What the metrics' own listener knows.
#[derive(Clone)]
struct Alone {
    gateway: Gateway,
    settings: Arc<HttpSettings>,
}

/// Serves the metrics alone to everybody who reaches the listener, until `stop` is done: bind it to an address that only
/// the collector reaches. Its `Host` must be an address of this machine or one of `hosts`, so that no web page reads them.
pub async fn serve_metrics(
    gateway: Gateway,
    settings: &HttpSettings,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send,
) {
    let settings = HttpSettings { max_connections: CONNECTIONS, ..settings.clone() };
    let alone = Alone { gateway, settings: Arc::new(settings.clone()) };
    let metrics = get(async |State(it): State<Alone>| text(it.gateway.core.metrics().await));
    let router = Router::new()
        .route("/metrics", metrics)
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .layer(axum::middleware::from_fn_with_state(alone.clone(), addressed_here))
        .with_state(alone);
    serve::run(Limits { settings, stopping: CancellationToken::new() }, router, listener, stop).await;
}

async fn addressed_here(State(alone): State<Alone>, request: Request, next: Next) -> Response {
    let local = request.extensions().get::<Local>().map(|it| it.0);
    let is_ours = |it| host::is_ours(request.headers(), request.uri(), it, &alone.settings, true);
    if !local.is_some_and(is_ours) {
        return Problem::from(Transport::HostRefused).into_response();
    }
    next.run(request).await
}

fn text(text: String) -> Response {
    ([(CONTENT_TYPE, TEXT)], text).into_response()
}
