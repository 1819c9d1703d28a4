//! `/v1/policies`: which set is active and was, loading the files again, and why a call would come out as it would. The
//! active policies themselves say who may.

use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::asking::Asking;
use super::body::Text;
use super::problem::Problem;
use super::query::Query;
use super::reply::json;
use crate::policies::{PolicyActivation, PolicyRefusal};
use crate::workbench::QUESTION;

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
pub(super) async fn list(asking: Asking, RawQuery(query): RawQuery) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["limit"])?;
    let limit = query.number("limit", 1, MOST)?.unwrap_or(LISTED);
    let history = asking.policies().history(usize::try_from(limit).unwrap_or(0)).await?;
    let policy_hash = asking.app.gateway.core.policies.current().set.hash().to_string();
    Ok(json(StatusCode::OK, &Listed { policy_hash, history }))
}

/// `POST /v1/policies/reload`
pub(super) async fn reload(asking: Asking, body: Text) -> Result<Response, Problem> {
    body.nothing()?;
    match asking.policies().reload().await {
        Ok(reload) => Ok(json(StatusCode::OK, &reload)),
        Err(PolicyRefusal::Refused(error)) => Err(error.into()),
        // Whoever may publish policies is told what is wrong with them.
        Err(PolicyRefusal::Problems(problems)) => Ok(Problem::one("", "policies", None).with("problems", &problems)),
    }
}

/// `POST /v1/policies/explain`
pub(super) async fn explain(asking: Asking, body: Text) -> Result<Response, Problem> {
    let question = body.object(&QUESTION)?;
    let explanation = asking.policies().explain(question, asking.app.surface).await?;
    Ok(json(StatusCode::OK, &explanation))
}
