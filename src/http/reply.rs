//! Answers: JSON, and what a call came to.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::problem::Problem;
use crate::{ExecutionId, Outcome};

/// `true`: the answer is that of an earlier call with the same idempotency key.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// `false`: it ran, and its end is not on record yet.
const RECORDED: HeaderName = HeaderName::from_static("countersign-recorded");

/// What the log of requests says of an answer.
#[derive(Clone, Debug)]
pub(super) struct Executed(pub(super) ExecutionId);

/// What headers say of a call.
pub(super) struct Trip {
    pub(super) execution: Option<ExecutionId>,
    pub(super) replayed: bool,
    pub(super) recorded: bool,
}

impl Trip {
    pub(super) fn mark(self, response: &mut Response) {
        if self.replayed {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        }
        if !self.recorded {
            response.headers_mut().insert(RECORDED, HeaderValue::from_static("false"));
        }
        if let Some(id) = self.execution {
            response.extensions_mut().insert(Executed(id));
        }
    }
}

/// A document.
pub(crate) fn json(status: StatusCode, document: &impl Serialize) -> Response {
    json_text(status, serde_json::to_string(document))
}

/// Text that is JSON, unless serialising it failed.
pub(super) fn json_text(status: StatusCode, text: Result<String, serde_json::Error>) -> Response {
    let (status, text) = text.map_or_else(
        |error| {
            tracing::error!(cause = &error as &dyn std::error::Error, "an answer cannot be written as JSON");
            (StatusCode::INTERNAL_SERVER_ERROR, String::new())
        },
        |text| (status, text),
    );
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// 200 with the output, 202 with the approval to wait for, or the problem.
pub(super) fn outcome(outcome: Outcome) -> Response {
    let execution = Some(outcome.execution_id().clone());
    match &outcome {
        Outcome::Completed { replayed, recorded, .. } => {
            let trip = Trip { execution, replayed: *replayed, recorded: *recorded };
            let mut response = json(StatusCode::OK, &outcome);
            trip.mark(&mut response);
            response
        }
        Outcome::ApprovalRequired { approval, .. } => {
            let mut response = json(StatusCode::ACCEPTED, &outcome);
            if let Ok(place) = HeaderValue::from_str(&format!("/v1/approvals/{}", approval.id)) {
                response.headers_mut().insert(LOCATION, place);
            }
            Trip { execution, replayed: false, recorded: true }.mark(&mut response);
            response
        }
        Outcome::Failed { .. } | Outcome::Cancelled { .. } => {
            Problem::of_outcome(outcome).unwrap_or_else(Problem::internal).into_response()
        }
    }
}
