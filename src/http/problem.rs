//! Errors on the wire: `application/problem+json` (RFC 9457), in one exhaustive mapping.

use axum::http::StatusCode;

use crate::ErrorCode;

/// The status of a code. `well_formed` tells a broken body (400) from a readable one that does not fit (422).
pub(crate) fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::CapabilityNotFound | ErrorCode::ApprovalNotFound => StatusCode::NOT_FOUND,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
