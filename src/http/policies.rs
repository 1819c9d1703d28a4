//! `/v1/policies`: which set is active and was, loading the files again, and why a call would come out as it would. The
//! active policies themselves say who may.

use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::asking::Asking;
use super::body;
use super::problem::Problem;
use super::query::Query;
use super::reply::json;
use crate::policies::{PolicyActivation, PolicyRefusal};

/// How many changes are listed if nobody says how many, and at most.
const LISTED: i64 = 100;
const MOST: i64 = 1_000;

/// The active set and its past.
#[derive(Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Policies")]
pub(super) struct Listed {
    /// The hash of the set that this process decides by.
    policy_hash: String,
    /// The latest change first.
    history: Vec<PolicyActivation>,
}

/// `GET /v1/policies`
pub(super) async fn list(asking: Asking, uri: Uri) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["limit"])?;
    let limit = query.number("limit", 1, MOST)?.unwrap_or(LISTED);
    let history = asking.policies().history(usize::try_from(limit).unwrap_or(0)).await?;
    let policy_hash = asking.app.gateway.core.policies.current().set.hash().to_string();
    Ok(json(StatusCode::OK, &Listed { policy_hash, history }))
}

/// `POST /v1/policies/reload`
pub(super) async fn reload(asking: Asking, uri: Uri, request: Request) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    body::none(request).await?;
    match asking.policies().reload().await {
        Ok(reload) => Ok(json(StatusCode::OK, &reload)),
        Err(PolicyRefusal::Refused(error)) => Err(error.into()),
        Err(PolicyRefusal::Problems(problems)) => Ok(Problem::of_policies(problems).into_response()),
    }
}

/// `POST /v1/policies/explain`
pub(super) async fn explain(asking: Asking, uri: Uri, request: Request) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let question = body::text(request).await?;
    let explanation = asking.policies().explain(&question, asking.app.surface).await?;
    Ok(json(StatusCode::OK, &explanation))
}
