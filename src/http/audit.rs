//! `GET /v1/audit/events`: the audit log of the caller's own tenant, page by page.

use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::response::Response;

use super::asking::Asking;
use super::problem::Problem;
use super::query::Query;
use super::reply::json;
use crate::reading::{AuditQuery, MAX_EVENTS};

/// What a page can be asked for.
const PAGED: [&str; 8] = ["actor", "after", "capability", "execution", "limit", "since", "type", "until"];

/// What a stream can be asked for.
pub(super) const STREAMED: [&str; 7] = ["actor", "after", "capability", "execution", "since", "type", "until"];

pub(super) async fn events(asking: Asking, RawQuery(given): RawQuery) -> Result<Response, Problem> {
    let parameters = Query::parse(given.as_deref(), &PAGED)?;
    let limit = parameters.number("limit", 1, i64::try_from(MAX_EVENTS).unwrap_or(i64::MAX))?.unwrap_or(0);
    let after = parameters.number("after", 0, i64::MAX)?.unwrap_or(0);
    let query = AuditQuery { after, limit: usize::try_from(limit).unwrap_or(0), ..query(&parameters)? };
    let page = asking.audit().page(&query).await?;
    Ok(json(StatusCode::OK, &page))
}

/// Which events, whatever the place.
pub(super) fn query(parameters: &Query) -> Result<AuditQuery, Problem> {
    Ok(AuditQuery {
        after: 0,
        limit: 0,
        execution: parameters.name("execution")?,
        capability: parameters.name("capability")?,
        actor: parameters.name("actor")?,
        kind: parameters.name("type")?,
        since: parameters.time("since")?,
        until: parameters.time("until")?,
    })
}
