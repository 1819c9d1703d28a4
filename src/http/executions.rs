//! `/v1/executions`: what became of a call, and settling it where nobody knows.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::asking::Asking;
use super::body::{Text, text_of};
use super::capabilities::name;
use super::problem::Problem;
use super::reply;
use crate::{ExecutionView, Output, Resolution};

/// The state, and the output if it may be seen today (EXE-11).
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    view: ExecutionView,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Output>,
}

/// GET: one that this caller asked for, or may read of.
pub(super) async fn show(asking: Asking, id: Result<Path<String>, PathRejection>) -> Result<Response, Problem> {
    let (id, executions) = (name(id)?, asking.executions());
    let view = executions.show(&id).await?;
    let output = executions.output(&id).await?;
    Ok(reply::json(StatusCode::OK, &Shown { view, output }))
}

/// POST: settles one of which nobody knows whether it happened.
pub(super) async fn resolve(
    asking: Asking,
    id: Result<Path<String>, PathRejection>,
    body: Text,
) -> Result<Response, Problem> {
    let id = name(id)?;
    let mut members = body.object(&["as", "output"])?;
    let output = members.remove("output");
    let to = match (text_of(&members, "as")?, output) {
        (Some("completed"), output) => Resolution::Completed(output),
        (Some("failed" | "not_executed"), Some(_)) => {
            return Err(Problem::one("/output", "additionalProperties", None));
        }
        (Some("failed"), None) => Resolution::Failed,
        (Some("not_executed"), None) => Resolution::NotExecuted,
        (Some(_), _) => return Err(Problem::one("/as", "enum", None)),
        (None, _) => return Err(Problem::one("", "required", Some("as"))),
    };
    let view = asking.executions().resolve(&id, to).await?;
    Ok(reply::json(StatusCode::OK, &view))
}
