//! Errors on the wire: `application/problem+json` (RFC 9457), in one exhaustive mapping from codes to statuses.

use std::any::Any;
use std::borrow::Cow;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::reply::{Trip, json_text};
use crate::outcome::{Detail, Error, ErrorCode};
use crate::{ExecutionId, Outcome};

/// The media type of RFC 9457.
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

/// "Client closed request": what the design's table says of CANCELLED. Nobody registered it, everybody knows it.
const CLIENT_CLOSED: u16 = 499;

/// What the transport refuses before anything is asked of the engine. These codes are the HTTP API's own; all others are
/// [`ErrorCode`]s. Stable, and meanings are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// No such path.
    RouteNotFound,
    /// The path takes other methods: `Allow` says which.
    MethodNotAllowed,
    /// The request is addressed to a host that this server does not know.
    HostRefused,
    /// A web page sent it that may not.
    OriginRefused,
    /// More than 100 header fields, or 64 KiB of them.
    HeadersTooLarge,
    /// A path and query of more than 8 KiB.
    TargetTooLong,
    /// A body of more than 1 MiB.
    BodyTooLarge,
    /// A body that is not `application/json`, or is compressed.
    MediaTypeNotSupported,
    /// The body took too long.
    RequestTimeout,
}

impl Transport {
    /// Every one, for the API's description.
    pub(crate) const ALL: [Self; 9] = [
        Self::RouteNotFound,
        Self::MethodNotAllowed,
        Self::HostRefused,
        Self::OriginRefused,
        Self::HeadersTooLarge,
        Self::TargetTooLong,
        Self::BodyTooLarge,
        Self::MediaTypeNotSupported,
        Self::RequestTimeout,
    ];

    /// The name on the wire.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::RouteNotFound => "ROUTE_NOT_FOUND",
            Self::MethodNotAllowed => "METHOD_NOT_ALLOWED",
            Self::HostRefused => "HOST_REFUSED",
            Self::OriginRefused => "ORIGIN_REFUSED",
            Self::HeadersTooLarge => "HEADERS_TOO_LARGE",
            Self::TargetTooLong => "TARGET_TOO_LONG",
            Self::BodyTooLarge => "BODY_TOO_LARGE",
            Self::MediaTypeNotSupported => "MEDIA_TYPE_NOT_SUPPORTED",
            Self::RequestTimeout => "REQUEST_TIMEOUT",
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::RouteNotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::HostRefused | Self::OriginRefused => StatusCode::FORBIDDEN,
            Self::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::MediaTypeNotSupported => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::RouteNotFound => "There is no such route.",
            Self::MethodNotAllowed => "The route takes other methods.",
            Self::HostRefused => "This server does not answer under that host name.",
            Self::OriginRefused => "Pages of that origin may not call.",
            Self::HeadersTooLarge => "The request has more than 100 header fields, or 64 KiB of them.",
            Self::TargetTooLong => "The path and query are longer than 8 KiB.",
            Self::BodyTooLarge => "The body is larger than 1 MiB.",
            Self::MediaTypeNotSupported => "The body must be uncompressed application/json.",
            Self::RequestTimeout => "The body took too long.",
        }
    }
}

/// The status of an error of the engine: the table of document 3.
pub(crate) fn status(error: &Error) -> StatusCode {
    let any = |is: fn(&Detail) -> bool| error.details.iter().any(is);
    match error.code {
        ErrorCode::CapabilityNotFound | ErrorCode::ApprovalNotFound => StatusCode::NOT_FOUND,
        ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
        // What is no JSON at all is told apart from what does not fit.
        ErrorCode::InputInvalid if any(is_no_json) => StatusCode::BAD_REQUEST,
        ErrorCode::InputInvalid | ErrorCode::IdempotencyKeyReused => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorCode::IdempotencyKeyInvalid => StatusCode::BAD_REQUEST,
        ErrorCode::Forbidden
        | ErrorCode::PolicyDenied
        | ErrorCode::PolicyFailed
        | ErrorCode::ApprovalSelfApproval
        | ErrorCode::ApproverNotEligible => StatusCode::FORBIDDEN,
        ErrorCode::ApprovalPending
        | ErrorCode::ApprovalRejected
        | ErrorCode::ApprovalExpired
        | ErrorCode::ApprovalConsumed
        | ErrorCode::ApprovalWithdrawn
        | ErrorCode::ApprovalAlreadyDecided
        | ErrorCode::ApprovalInputMismatch
        | ErrorCode::IdempotencyInProgress
        | ErrorCode::OutcomeUnknown => StatusCode::CONFLICT,
        // Only a declared error has a code of its own.
        ErrorCode::ExecutionFailed if any(|it| matches!(it, Detail::Code { .. })) => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorCode::ExecutionFailed | ErrorCode::OutputInvalid | ErrorCode::InternalError => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
        ErrorCode::Timeout => StatusCode::GATEWAY_TIMEOUT,
        ErrorCode::Cancelled => StatusCode::from_u16(CLIENT_CLOSED).unwrap_or(StatusCode::BAD_REQUEST),
        ErrorCode::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Unavailable | ErrorCode::AuditUnavailable => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn is_no_json(detail: &Detail) -> bool {
    matches!(detail, Detail::Input { keyword, .. } if keyword == "not JSON")
}

/// In how many seconds it makes sense to ask again.
fn retry_after(code: ErrorCode) -> Option<u8> {
    match code {
        ErrorCode::IdempotencyInProgress | ErrorCode::Unavailable | ErrorCode::AuditUnavailable => Some(1),
        ErrorCode::RateLimited => Some(30),
        _ => None,
    }
}

/// One error on its way out.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    message: Cow<'static, str>,
    retryable: bool,
    details: Vec<Detail>,
    retry_after: Option<u8>,
    /// Of a call that went through the pipeline: its id, and how that calls its end.
    execution: Option<(ExecutionId, &'static str)>,
    replayed: bool,
    challenge: &'static str,
    is_malformed: bool,
}

/// Marks an answer to a request that this adapter could not take apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Malformed;

/// What a 401 asks for (RFC 6750, section 3).
const CHALLENGE: &str = "Bearer";
const BAD_TOKEN: &str = r#"Bearer error="invalid_token""#;

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self {
            status: status(&error),
            code: error.code.as_str(),
            retryable: error.retryable,
            retry_after: retry_after(error.code),
            message: error.message.into(),
            details: error.details,
            execution: None,
            replayed: false,
            challenge: CHALLENGE,
            is_malformed: false,
        }
    }
}

impl From<Transport> for Problem {
    fn from(it: Transport) -> Self {
        Self {
            status: it.status(),
            code: it.as_str(),
            message: it.sentence().into(),
            retryable: it == Transport::RequestTimeout,
            details: Vec::new(),
            retry_after: None,
            execution: None,
            replayed: false,
            challenge: CHALLENGE,
            is_malformed: false,
        }
    }
}

impl Problem {
    /// How a call ended that did not complete. `None` if it did, or waits.
    pub(super) fn of_outcome(outcome: Outcome) -> Option<Self> {
        let (execution_id, error, replayed, ended) = match outcome {
            Outcome::Failed { execution_id, error, replayed } => (execution_id, error, replayed, "failed"),
            Outcome::Cancelled { execution_id, error } => (execution_id, error, false, "cancelled"),
            Outcome::Completed { .. } | Outcome::ApprovalRequired { .. } => return None,
        };
        Some(Self { execution: Some((execution_id, ended)), replayed, ..Self::from(error) })
    }

    /// A body or a query that the adapter itself takes apart.
    pub(crate) fn invalid(details: Vec<Detail>) -> Self {
        let (code, message) = (ErrorCode::InputInvalid, "The request is not valid.".into());
        Self { is_malformed: true, ..Error { code, message, retryable: false, details }.into() }
    }

    /// One fault of such a body or query.
    pub(crate) fn one(path: &str, keyword: &str, nearest: Option<&str>) -> Self {
        let (path, keyword) = (path.to_owned(), keyword.to_owned());
        Self::invalid(vec![Detail::Input { path, keyword, nearest: nearest.map(Into::into) }])
    }

    /// No credential.
    pub(crate) fn unauthenticated() -> Self {
        Self { challenge: CHALLENGE, ..Self::bad_credential() }
    }

    /// A credential that is not taken, whatever the reason.
    pub(crate) fn bad_credential() -> Self {
        let (code, message) = (ErrorCode::Unauthenticated, "The caller is not authenticated.".into());
        Self { challenge: BAD_TOKEN, ..Error { code, message, retryable: false, details: Vec::new() }.into() }
    }

    /// Overloaded, or about to stop.
    pub(crate) fn unavailable() -> Self {
        let (code, message) = (ErrorCode::Unavailable, "The service is not available right now.".into());
        Error { code, message, retryable: true, details: Vec::new() }.into()
    }

    /// A broken invariant.
    pub(crate) fn internal() -> Self {
        let (code, message) = (ErrorCode::InternalError, "The operation failed.".into());
        Error { code, message, retryable: false, details: Vec::new() }.into()
    }

    /// The same with one more member: a problem's type says what is there besides the usual ones (RFC 9457, section 3.2).
    pub(super) fn with(self, name: &str, member: &impl Serialize) -> Response {
        let mut document = serde_json::to_value(self.body()).unwrap_or_default();
        document[name] = serde_json::to_value(member).unwrap_or_default();
        let mut response = self.into_response();
        *response.body_mut() = document.to_string().into();
        response
    }

    fn body(&self) -> Body<'_> {
        Body {
            kind: format!("urn:countersign:problem:{}", self.code),
            title: title(self.code),
            status: self.status.as_u16(),
            detail: &self.message,
            code: self.code,
            retryable: self.retryable,
            execution_id: self.execution.as_ref().map(|it| &it.0),
            outcome: self.execution.as_ref().map(|it| it.1),
            details: &self.details,
        }
    }
}

/// The document, in the order in which people read it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(rename = "type")]
    kind: String,
    title: String,
    status: u16,
    detail: &'a str,
    code: &'a str,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_id: Option<&'a ExecutionId>,
    /// `failed` or `cancelled`, where there is an execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a str>,
    details: &'a [Detail],
}

/// `POLICY_DENIED` is "Policy denied": the same for every occurrence, as RFC 9457 wants it.
fn title(code: &str) -> String {
    let words = code.replace('_', " ").to_ascii_lowercase();
    let mut letters = words.chars();
    letters.next().map(|it| it.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = json_text(self.status, serde_json::to_string(&self.body()));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, PROBLEM);
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(u16::from(seconds)));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(self.challenge));
        }
        if self.is_malformed {
            response.extensions_mut().insert(Malformed);
        }
        let id = self.execution.map(|it| it.0);
        Trip { execution: id, replayed: self.replayed, recorded: true }.mark(&mut response);
        response
    }
}

pub(super) async fn no_route() -> Problem {
    Transport::RouteNotFound.into()
}

pub(super) async fn no_method() -> Problem {
    Transport::MethodNotAllowed.into()
}

/// The panic's text stays in the log of whoever set a hook: it may hold anything.
pub(super) fn panicked(_: Box<dyn Any + Send>) -> Response {
    tracing::error!("a request's own code panicked");
    Problem::internal().into_response()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;
    use tower_http::catch_panic::CatchPanicLayer;

    use super::*;

    fn error(code: ErrorCode, details: Vec<Detail>) -> Error {
        Error { code, message: String::new(), retryable: false, details }
    }

    #[test]
    fn every_code_has_the_status_of_the_table() {
        let mut lines = String::new();
        for code in ErrorCode::ALL {
            lines = format!("{lines}{} {code}\n", status(&error(*code, Vec::new())).as_u16());
        }
        insta::assert_snapshot!(lines, @r"
        404 CAPABILITY_NOT_FOUND
        401 UNAUTHENTICATED
        422 INPUT_INVALID
        403 FORBIDDEN
        403 POLICY_DENIED
        403 POLICY_FAILED
        409 APPROVAL_PENDING
        409 APPROVAL_REJECTED
        409 APPROVAL_EXPIRED
        409 APPROVAL_CONSUMED
        409 APPROVAL_WITHDRAWN
        409 APPROVAL_ALREADY_DECIDED
        403 APPROVAL_SELF_APPROVAL
        403 APPROVER_NOT_ELIGIBLE
        409 APPROVAL_INPUT_MISMATCH
        404 APPROVAL_NOT_FOUND
        400 IDEMPOTENCY_KEY_INVALID
        422 IDEMPOTENCY_KEY_REUSED
        409 IDEMPOTENCY_IN_PROGRESS
        409 OUTCOME_UNKNOWN
        500 EXECUTION_FAILED
        500 OUTPUT_INVALID
        504 TIMEOUT
        499 CANCELLED
        429 RATE_LIMITED
        503 UNAVAILABLE
        503 AUDIT_UNAVAILABLE
        500 INTERNAL_ERROR
        ");
    }

    #[tokio::test]
    async fn a_panic_of_the_adapter_is_a_problem_without_its_text() {
        let route = axum::routing::get(async || -> StatusCode { panic!("canary-panic") });
        let router: axum::Router = axum::Router::new().route("/", route).layer(CatchPanicLayer::custom(panicked));
        let response = router.oneshot(axum::extract::Request::new(axum::body::Body::empty())).await.unwrap();
        assert_eq!(
            (response.status(), &response.headers()[CONTENT_TYPE]),
            (StatusCode::INTERNAL_SERVER_ERROR, &PROBLEM)
        );
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(!String::from_utf8_lossy(&body).contains("canary"), "{body:?}");
    }

    #[test]
    fn no_json_and_declared_errors_are_told_apart_by_their_details() {
        let no_json = Detail::Input { path: String::new(), keyword: "not JSON".into(), nearest: None };
        let declared = Detail::Code { code: "NOT_ELIGIBLE".into() };
        assert_eq!(status(&error(ErrorCode::InputInvalid, vec![no_json])), StatusCode::BAD_REQUEST);
        assert_eq!(status(&error(ErrorCode::ExecutionFailed, vec![declared])), StatusCode::UNPROCESSABLE_ENTITY);
    }

    #[test]
    fn the_transports_own_codes_are_none_of_the_engines() {
        for it in Transport::ALL {
            assert!(ErrorCode::ALL.iter().all(|code| code.as_str() != it.as_str()), "{it:?}");
            assert!(it.status().is_client_error() && it.sentence().ends_with('.'));
        }
        let page = include_str!("../../docs/http.md");
        let row = |it: Transport| format!("| `{}` | {} |", it.as_str(), it.status().as_u16());
        let missing: Vec<_> = Transport::ALL.into_iter().map(row).filter(|it| !page.contains(it)).collect();
        assert_eq!(missing, Vec::<String>::new(), "the page on HTTP lacks them");
        assert_eq!((title("POLICY_DENIED"), title("TIMEOUT")), ("Policy denied".into(), "Timeout".into()));
    }
}
