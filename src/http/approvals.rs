//! `/v1/approvals`: seeing them, deciding them, running what was approved, taking a request back.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use super::App;
use super::asking::Asking;
use super::body::{Text, text_of};
use super::capabilities::{held, name};
use super::guard::Place;
use super::prefer::Wait;
use super::problem::Problem;
use super::query::Query;
use super::reply;
use crate::deciding::PAGE;
use crate::{ApprovalState, Verdict};

type Id = Result<Path<String>, PathRejection>;

/// GET: what this caller requested or may decide, in the order of filing, page by page.
pub(super) async fn list(asking: Asking, RawQuery(query): RawQuery) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["after", "limit", "status"])?;
    let status = query.read("status", ApprovalState::parse)?;
    let limit = query.number("limit", 1, i64::try_from(PAGE).unwrap_or(i64::MAX))?;
    let limit = limit.and_then(|it| usize::try_from(it).ok()).unwrap_or(PAGE);
    let page = asking.approvals().page(status, query.name("after")?.as_deref(), limit).await?;
    Ok(reply::json(StatusCode::OK, &page))
}

/// GET: one of them. Looking changes nothing (R26).
pub(super) async fn show(asking: Asking, id: Id) -> Result<Response, Problem> {
    let view = asking.approvals().show(&name(id)?).await?;
    Ok(reply::json(StatusCode::OK, &view))
}

/// POST: agrees or refuses. Runs nothing.
pub(super) async fn decide(asking: Asking, id: Id, body: Text) -> Result<Response, Problem> {
    let id = name(id)?;
    let members = body.object(&["decision", "type", "comment"])?;
    let verdict = match text_of(&members, "decision")? {
        Some("approve") => Verdict::Approve,
        Some("reject") => Verdict::Reject,
        Some(_) => return Err(Problem::one("/decision", "enum", None)),
        None => return Err(Problem::one("", "required", Some("decision"))),
    };
    let (kind, comment) = (text_of(&members, "type")?, text_of(&members, "comment")?);
    let approvals = asking.approvals();
    let decided = match kind {
        Some(kind) => approvals.decide(&id, kind, verdict, comment).await,
        None => approvals.decide_outstanding(&id, verdict, comment).await,
    };
    Ok(reply::json(StatusCode::OK, &decided?))
}

/// POST: runs what was approved, as its requester.
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    asking: Asking,
    id: Id,
    Extension(place): Extension<Place>,
    headers: HeaderMap,
    body: Text,
) -> Result<Response, Problem> {
    let id = name(id)?;
    body.nothing()?;
    let outcome = asking.caller().resume(id.as_str()).await;
    Ok(held(&app, &asking, &place, Wait::of(&headers), outcome, Some(&id)).await)
}

/// POST: takes a request back.
pub(super) async fn withdraw(asking: Asking, id: Id, body: Text) -> Result<Response, Problem> {
    let id = name(id)?;
    body.nothing()?;
    let decided = asking.approvals().withdraw(&id).await?;
    Ok(reply::json(StatusCode::OK, &decided))
}
