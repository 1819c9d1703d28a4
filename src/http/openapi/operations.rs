//! What an operation is: what it takes, what it answers, and which errors it can end with.

use utoipa::openapi::path::HttpMethod;

use crate::http::problem::Transport;
use crate::outcome::ErrorCode;

/// A method of a route.
pub(super) struct Described {
    pub(super) method: HttpMethod,
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) parameters: &'static [Given],
    pub(super) body: Body,
    /// Status, media type, schema and description of what is no error.
    pub(super) answers: &'static [(u16, &'static str, &'static str, &'static str)],
    pub(super) codes: &'static [ErrorCode],
    /// Whether it needs no credentials.
    pub(super) is_open: bool,
    /// Whether it runs capabilities, with all that their answers say.
    pub(super) runs: bool,
}

/// A parameter.
pub(super) struct Given {
    pub(super) name: &'static str,
    pub(super) place: Where,
    pub(super) kind: Kind,
    pub(super) about: &'static str,
}

pub(super) enum Where {
    Path,
    Query,
    Header,
}

pub(super) enum Kind {
    Any,
    Text { most: usize },
    Visible { most: usize },
    Time,
    Number { least: i64, most: i64 },
    Word(&'static [&'static str]),
    Texts,
}

pub(super) enum Body {
    None,
    Optional(&'static str),
    Required(&'static str),
}

impl Described {
    /// What the transport can refuse.
    pub(super) fn transport(&self) -> Vec<Transport> {
        let mut all = vec![
            Transport::HostRefused,
            Transport::OriginRefused,
            Transport::HeadersTooLarge,
            Transport::TargetTooLong,
            Transport::BodyTooLarge,
        ];
        if self.path.contains('{') || self.id == "logCheckpoint" {
            all.push(Transport::RouteNotFound); // an id that is no text, or nothing there
        }
        if !matches!(self.body, Body::None) {
            all.extend([Transport::MediaTypeNotSupported, Transport::RequestTimeout]);
        }
        all
    }

    /// Whether a problem of this status lists what is wrong with policies.
    pub(super) fn problem_has_more(&self, status: u16) -> bool {
        self.id == "reloadPolicies" && status == 422
    }
}

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// What every request of a party may say.
pub(super) const HEADERS: &[Given] = &[
    hint("X-Request-Id", "The caller's own id of this request: 1 to 128 visible ASCII characters, else one is made."),
    hint("traceparent", "W3C Trace Context; what is malformed is ignored."),
];

/// What is ignored if it is malformed.
const fn hint(name: &'static str, about: &'static str) -> Given {
    Given { name, place: Where::Header, kind: Kind::Any, about }
}

const fn header(name: &'static str, most: usize, about: &'static str) -> Given {
    Given { name, place: Where::Header, kind: Kind::Visible { most }, about }
}

const fn query(name: &'static str, kind: Kind, about: &'static str) -> Given {
    Given { name, place: Where::Query, kind, about }
}

const fn path(about: &'static str) -> Given {
    Given { name: "id", place: Where::Path, kind: Kind::Text { most: 512 }, about }
}

const KEY: Given = header(
    "Idempotency-Key",
    255,
    "The caller's promise that two calls are the same call: quoted as a structured-field string, or bare.",
);
const CORRELATION: Given = hint(
    "X-Correlation-Id",
    "The caller's own id of the conversation, for the record: 1 to 128 visible ASCII characters, else it is dropped.",
);
const PREFER: Given =
    hint("Prefer", "`wait=N`: hold the call until it is decided, at most 50 seconds. What is malformed is ignored.");
const LAST: Given = Given {
    name: "Last-Event-ID",
    place: Where::Header,
    kind: Kind::Number { least: 0, most: i64::MAX },
    about: "The place of the last event that was seen: the stream goes on behind it.",
};
const AFTER: Given = query("after", Kind::Number { least: 0, most: i64::MAX }, "Only events behind this place.");
const NAME: Kind = Kind::Text { most: 512 };

/// What any request of a party can end with.
macro_rules! codes {
    ($($code:ident),* $(,)?) => {
        &[
            ErrorCode::Unauthenticated, ErrorCode::Unavailable, ErrorCode::AuditUnavailable, ErrorCode::InternalError,
            $(ErrorCode::$code),*
        ]
    };
}

/// What running a capability can end with, besides.
macro_rules! running {
    ($($code:ident),* $(,)?) => {
        codes![
            CapabilityNotFound, InputInvalid, Forbidden, PolicyDenied, PolicyFailed, ApprovalPending, ApprovalRejected,
            ApprovalExpired, ApprovalConsumed, ApprovalWithdrawn, ApprovalInputMismatch, ApprovalSelfApproval,
            ApproverNotEligible, ApprovalNotFound, IdempotencyKeyInvalid, IdempotencyKeyReused, IdempotencyInProgress,
            OutcomeUnknown, ExecutionFailed, OutputInvalid, Timeout, Cancelled, RateLimited, $($code),*
        ]
    };
}

const RAN: &[(u16, &str, &str, &str)] = &[
    (200, JSON, "Completed", "It ran, now or before."),
    (202, JSON, "ApprovalRequired", "A person must decide first."),
];

// Behind the macros that it uses.
mod table;

pub(super) use self::table::OPERATIONS;
