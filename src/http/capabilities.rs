//! `/v1/capabilities`: what could be called, and calling it.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::Response;
use serde::Serialize;

use super::App;
use super::asking::Asking;
use super::body::Text;
use super::guard::Place;
use super::prefer::Wait;
use super::problem::{Problem, Transport};
use super::query::Query;
use super::waiting::Waiting;
use super::{key, reply};
use crate::capability::{Descriptor, Filter};
use crate::{JsonInput, Outcome};

const CORRELATION: HeaderName = HeaderName::from_static("x-correlation-id");

/// What a listing answers.
#[derive(Serialize)]
struct Listing {
    capabilities: Vec<Descriptor>,
}

/// GET: what this caller could get allowed. `tag` and `id` may be repeated.
pub(super) async fn list(asking: Asking, RawQuery(query): RawQuery) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["tag", "id"])?;
    let filter = Filter::tags(query.all("tag")).ids(query.all("id"));
    let capabilities = asking.caller().capabilities(filter).await?;
    Ok(reply::json(StatusCode::OK, &Listing { capabilities }))
}

/// POST: calls one.
pub(super) async fn invoke(
    State(app): State<Arc<App>>,
    asking: Asking,
    id: Result<Path<String>, PathRejection>,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
    body: Text,
) -> Result<Response, Problem> {
    let id = name(id)?;
    let input = body.input().map_or_else(JsonInput::unfit, JsonInput::text);
    let caller = asking.caller();
    let mut call = caller.invoke(id, input);
    if let Some(key) = key::of(&headers) {
        call = call.idempotency_key(key);
    }
    if let Some(id) = headers.get(CORRELATION).and_then(|it| it.to_str().ok()) {
        call = call.correlation_id(id);
    }
    let outcome = call.await;
    Ok(held(&app, &asking, &place, Wait::of(&headers), outcome, None).await)
}

/// Answers at once, or holds the call until it is decided, if its client wants that.
pub(super) async fn held(
    app: &App,
    asking: &Asking,
    place: &Place,
    wait: Option<Wait>,
    outcome: Outcome,
    resumed: Option<&str>,
) -> Response {
    let Some(waiting) = Waiting::admit(app, wait) else { return reply::outcome(outcome) };
    let wait = waiting.wait();
    let outcome = waiting.hold(app, &asking.caller(), place, outcome, resumed).await;
    let mut response = reply::outcome(outcome);
    wait.applied(&mut response);
    response
}

/// The one parameter of a path. What is no text is no name of anything.
pub(super) fn name(path: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    path.map(|Path(it)| it).map_err(|_| Transport::RouteNotFound.into())
}
