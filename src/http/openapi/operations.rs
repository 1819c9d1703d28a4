//! Every operation: what it takes, what it answers, and which errors it can end with.

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

/// In the order of the document.
pub(super) static OPERATIONS: [Described; 20] = [
    Described {
        method: HttpMethod::Get,
        path: "/v1/capabilities",
        id: "listCapabilities",
        tag: "capabilities",
        summary: "What this caller could get allowed. A courtesy: every call is checked again.",
        parameters: &[
            query("tag", Kind::Texts, "Those with any of these tags."),
            query("id", Kind::Texts, "Those with one of these ids."),
        ],
        body: Body::None,
        answers: &[(200, JSON, "Capabilities", "In the order of their registration.")],
        codes: codes![InputInvalid, PolicyFailed, Timeout],
        is_open: false,
        runs: false,
    },
    Described {
        method: HttpMethod::Post,
        path: "/v1/capabilities/{id}/invoke",
        id: "invokeCapability",
        tag: "capabilities",
        summary: "Requests one call of a capability.",
        parameters: &[path("The capability's id."), KEY, CORRELATION, PREFER],
        body: Body::Required("Call"),
        answers: RAN,
        codes: running![],
        is_open: false,
        runs: true,
    },
    Described {
        method: HttpMethod::Get,
        path: "/v1/approvals",
        id: "listApprovals",
        tag: "approvals",
        summary: "What this party requested or may decide, in the order of filing, at most 200.",
        parameters: &[query(
            "status",
            Kind::Word(&["pending", "approved", "rejected", "expired", "withdrawn", "consumed"]),
            "Where it stands now.",
        )],
        body: Body::None,
        answers: &[(200, JSON, "Approvals", "Each as it stands, in display form.")],
        codes: codes![InputInvalid, PolicyFailed, Timeout],
        is_open: false,
        runs: false,
    },
    Described {
        method: HttpMethod::Get,
        path: "/v1/approvals/stream",
        id: "streamApprovals",
        tag: "approvals",
        summary: "Each approval that this party may see, as it stands, whenever something happens to it.",
        parameters: &[AFTER, LAST],
        body: Body::None,
        answers: &[(200, EVENTS, "ApprovalEvents", "`id` is the place in the log, `event` the event's type.")],
        codes: codes![InputInvalid, PolicyFailed],
        is_open: false,
        runs: false,
    },
    Described {
        method: HttpMethod::Get,
        path: "/v1/approvals/{id}",
        id: "showApproval",
        tag: "approvals",
        summary: "One approval, if this party requested it or may decide it. Looking changes nothing.",
        parameters: &[path("The approval's id.")],
        body: Body::None,
        answers: &[(200, JSON, "ApprovalView", "As it stands, in display form.")],
        codes: codes![ApprovalNotFound, PolicyFailed, ApprovalInputMismatch],
        is_open: false,
        runs: false,
    },
    Described {
        method: HttpMethod::Post,
        path: "/v1/approvals/{id}/decision",
        id: "decideApproval",
        tag: "approvals",
        summary: "Agrees or refuses. Runs nothing.",
        parameters: &[path("The approval's id.")],
        body: Body::Required("Decision"),
        answers: &[(200, JSON, "Decided", "What the decision came to.")],
        codes: codes![
            InputInvalid,
            ApprovalNotFound,
            ApprovalSelfApproval,
            ApproverNotEligible,
            ApprovalRejected,
            ApprovalExpired,
            ApprovalConsumed,
            ApprovalWithdrawn,
            ApprovalAlreadyDecided,
            ApprovalInputMismatch,
            PolicyFailed,
        ],
        is_open: false,
        runs: false,
    },
    Described {
        method: HttpMethod::Post,
        path: "/v1/approvals/{id}/resume",
        id: "resumeApproval",
        tag: "approvals",
        summary: "Runs what was approved: the stored input, through every stage again.",
        parameters: &[path("The approval's id."), PREFER],
        body: Body::Optional("Nothing"),
        answers: RAN,
        codes: running![],
        is_open: false,
        runs: true,
    },
    Described {
        method: HttpMethod::Post,
        path: "/v1/approvals/{id}/withdraw",
        id: "withdrawApproval",
        tag: "approvals",
        summary: "Takes a request back: its requester, or whoever policy lets withdraw.",
        parameters: &[path("The approval's id.")],
        body: Body::Optional("Nothing"),
        answers: &[(200, JSON, "Decided", "Where it stands now.")],
        codes: codes![
            InputInvalid,
            ApprovalNotFound,
            ApproverNotEligible,
            ApprovalRejected,
            ApprovalExpired,
            ApprovalConsumed,
            ApprovalWithdrawn,
            ApprovalAlreadyDecided,
            PolicyFailed,
        ],
        is_open: false,
        runs: false,
    },
    Described {
        method: HttpMethod::Get,
        path: "/v1/executions/{id}",
        id: "showExecution",
        tag: "executions",
        summary: "The state of one that this party asked for or may read of; its output, if it may be seen today.",
        parameters: &[path("The execution's id.")],
        body: Body::None,
        answers: &[(200, JSON, "Execution", "Where it stands.")],
        codes: codes![CapabilityNotFound, PolicyFailed],
        is_open: false,
        runs: false,
    },
    Described {
        method: HttpMethod::Post,
        path: "/v1/executions/{id}/resolve",
        id: "resolveExecution",
        tag: "executions",
        summary: "Settles one of which nobody knows whether it happened.",
        parameters: &[path("The execution's id.")],
        body: Body::Required("Resolve"),
        answers: &[(200, JSON, "ExecutionView", "Where it stands now.")],
        codes: codes![
            InputInvalid,
            CapabilityNotFound,
            PolicyDenied,
            PolicyFailed,
            IdempotencyInProgress,
            ApprovalAlreadyDecided,
        ],
        is_open: false,
        runs: false,
    },
    Described {
        method: HttpMethod::Get,
        path: "/v1/audit/events",
        id: "listEvents",
        tag: "audit",
        summary: "The audit log of this party's tenant, page by page. Needs a permit for `read_audit`.",
        parameters: &[
            AFTER,
            query("limit", Kind::Number { least: 1, most: 1_000 }, "How many at most; 100 if it is left out."),
            query("execution", NAME, "Those of one execution."),
            query("capability", NAME, "Those about one capability."),
            query("actor", NAME, "Those of one actor, by id."),
            query("type", NAME, "Those of one type."),
            query("since", Kind::Time, "From this instant on."),
            query("until", Kind::Time, "Before this instant."),
        ],
        body: Body::None,
        answers: &[(200, JSON, "AuditPage", "In the order of the log.")],
        codes: codes![InputInvalid, PolicyDenied, PolicyFailed],
        is_open: false,
        runs: false,
    },
    Described {
        method: HttpMethod::Get,
        path: "/v1/audit/events/stream",
        id: "streamEvents",
        tag: "audit",
        summary: "The same events as they come; from now on, unless `after` or `Last-Event-ID` says otherwise.",
        parameters: &[
            AFTER,
            LAST,
            query("execution", NAME, "Those of one execution."),
            query("capability", NAME, "Those about one capability."),
            query("actor", NAME, "Those of one actor, by id."),
            query("type", NAME, "Those of one type."),
            query("since", Kind::Time, "From this instant on."),
            query("until", Kind::Time, "Before this instant."),
        ],
        body: Body::None,
        answers: &[(200, EVENTS, "AuditEvents", "`id` is the place in the log, `event` the event's type.")],
        codes: codes![InputInvalid, PolicyDenied, PolicyFailed],
        is_open: false,
        runs: false,
    },
    Described {
        method: HttpMethod::Get,
        path: "/v1/policies",
        id: "listPolicies",
        tag: "policies",
        summary: "The active policy set and those before it. Needs a permit for `read_policies`.",
        parameters: &[query(
            "limit",
            Kind::Number { least: 1, most: 1_000 },
            "How many changes at most; 100 if it is left out.",
        )],
        body: Body::None,
        answers: &[(200, JSON, "Policies", "The latest change first.")],
        codes: codes![InputInvalid, PolicyDenied, PolicyFailed],
        is_open: false,
        runs: false,
    },
    Described {
        method: HttpMethod::Post,
        path: "/v1/policies/reload",
        id: "reloadPolicies",
        tag: "policies",
        summary: "Loads the server's own policy files again. Needs a permit for `publish_policies`.",
        parameters: &[],
        body: Body::Optional("Nothing"),
        answers: &[(200, JSON, "PolicyReload", "What is active now.")],
        codes: codes![InputInvalid, PolicyDenied, PolicyFailed],
        is_open: false,
        runs: false,
    },
    Described {
        method: HttpMethod::Post,
        path: "/v1/policies/explain",
        id: "explainPolicies",
        tag: "policies",
        summary: "Why a call would come out as it would. Runs nothing. Needs a permit for `read_policies`.",
        parameters: &[],
        body: Body::Required("Question"),
        answers: &[(200, JSON, "Explanation", "The ruling, and what made it so.")],
        codes: codes![InputInvalid, PolicyDenied, PolicyFailed],
        is_open: false,
        runs: false,
    },
    Described {
        method: HttpMethod::Get,
        path: "/v1/audit/log/checkpoint",
        id: "logCheckpoint",
        tag: "audit",
        summary: "The last signed checkpoint of the log (C2SP tlog-checkpoint). Tiles are beside it, as C2SP tlog-tiles has \
            them: `/v1/audit/log/tile/..`.",
        parameters: &[],
        body: Body::None,
        answers: &[(200, "text/plain; charset=utf-8", "Text", "A signed note.")],
        codes: codes![PolicyDenied, PolicyFailed],
        is_open: false,
        runs: false,
    },
    Described {
        method: HttpMethod::Get,
        path: "/metrics",
        id: "metrics",
        tag: "operation",
        summary: "Metrics in the Prometheus text format. Needs a permit for `read_metrics`.",
        parameters: &[],
        body: Body::None,
        answers: &[(200, "text/plain; version=0.0.4; charset=utf-8", "Text", "Version 0.0.4 of the format.")],
        codes: codes![PolicyDenied, PolicyFailed],
        is_open: false,
        runs: false,
    },
    Described {
        method: HttpMethod::Get,
        path: "/healthz",
        id: "isLive",
        tag: "operation",
        summary: "The process is up.",
        parameters: &[],
        body: Body::None,
        answers: &[(200, JSON, "Health", "It is.")],
        codes: &[ErrorCode::InternalError],
        is_open: true,
        runs: false,
    },
    Described {
        method: HttpMethod::Get,
        path: "/readyz",
        id: "isReady",
        tag: "operation",
        summary: "It can take calls: the store takes writes, the active policies are here, and it is not about to stop.",
        parameters: &[],
        body: Body::None,
        answers: &[(200, JSON, "Health", "It can.")],
        codes: &[ErrorCode::Unavailable, ErrorCode::InternalError],
        is_open: true,
        runs: false,
    },
    Described {
        method: HttpMethod::Get,
        path: "/openapi.json",
        id: "openapi",
        tag: "operation",
        summary: "This document. The same for everybody: it names no capability.",
        parameters: &[],
        body: Body::None,
        answers: &[(200, JSON, "Document", "OpenAPI 3.1.")],
        codes: &[ErrorCode::Unavailable, ErrorCode::InternalError],
        is_open: true,
        runs: false,
    },
];
