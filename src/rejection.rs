//! Why an execution ended early: the private faces, and how each looks from outside.
//!
//! Two types, because two things are true. A [`Rejection`] comes before the begin commit: nothing ran, `?` is right.
//! A [`Failed`] comes after it: the claim must be settled first. No conversion leads from one to the other, so a
//! `?` that would leave a claim unsettled does not compile.

mod failed;

pub(crate) use self::failed::{Failed, Late, Nature};
use crate::audit::{DenialReason, EventKind, Executed, PolicyError, PolicyRef};
use crate::outcome::{Detail, Error, ErrorCode, Outcome};
use crate::schema::Refused;
use crate::stage::Stage;
use crate::store::StoreError;
use crate::trail::noted;
use crate::{BoxError, ExecutionId};

const FAILED: &str = "The operation failed.";

/// Refused before anything ran. `Display` is for logs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Rejection {
    #[error("no actor, or a malformed one")]
    Unauthenticated,
    #[error("capability `{}` is not there for this caller: {reason:?}", noted(.capability))]
    NotFound { capability: String, reason: DenialReason, policies: Vec<PolicyRef>, errors: Vec<PolicyError> },
    #[error("invalid idempotency key")]
    KeyInvalid,
    #[error("invalid input: {:?}", .0.paths)]
    InputInvalid(Refused),
    #[error("the stored input does not fit today's schema")]
    SchemaChanged,
    #[error("denied by policy")]
    PolicyDenied { reason: Option<String>, policies: Vec<PolicyRef> },
    #[error("policies could not be evaluated: {0:?}")]
    PolicyFailed(Vec<PolicyError>),
    #[error("the active policy set kept changing, or is not the one that this process has")]
    PolicyUnstable,
    #[error("the approval: {code}")]
    Approval { code: ErrorCode, consumed_by: Option<ExecutionId> },
    #[error("the idempotency key was used for another input")]
    KeyReused,
    #[error("the first execution under this key still runs")]
    InProgress,
    #[error("execution `{0}` may have happened, and nobody knows")]
    OutcomeUnknown(ExecutionId),
    #[error("too many pending approvals")]
    RateLimited,
    #[error("could not make the application context")]
    Context(#[source] BoxError),
    #[error("not available: {0}")]
    Unavailable(&'static str),
    #[error("cancelled before anything ran")]
    Cancelled,
    #[error("the stages before the effect took too long")]
    OutOfTime,
    #[error("a listing ran out of time")]
    ListingTimeout,
    #[error("no such execution for this party")]
    ExecutionNotFound,
    #[error("no record, no effect")]
    Audit(#[source] StoreError),
    #[error("a broken invariant: {0}")]
    Internal(&'static str),
}

impl Rejection {
    pub(crate) fn approval(code: ErrorCode) -> Self {
        Self::Approval { code, consumed_by: None }
    }

    /// A management action that policy does not allow.
    pub(crate) fn management(code: ErrorCode) -> Self {
        match code {
            ErrorCode::PolicyFailed => Self::PolicyFailed(Vec::new()),
            _ => Self::PolicyDenied { reason: None, policies: Vec::new() },
        }
    }

    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Unauthenticated => ErrorCode::Unauthenticated,
            Self::NotFound { .. } | Self::ExecutionNotFound => ErrorCode::CapabilityNotFound,
            Self::KeyInvalid => ErrorCode::IdempotencyKeyInvalid,
            Self::InputInvalid(_) | Self::SchemaChanged => ErrorCode::InputInvalid,
            Self::PolicyDenied { .. } => ErrorCode::PolicyDenied,
            Self::PolicyFailed(_) | Self::PolicyUnstable => ErrorCode::PolicyFailed,
            Self::Approval { code, .. } => *code,
            Self::KeyReused => ErrorCode::IdempotencyKeyReused,
            Self::InProgress => ErrorCode::IdempotencyInProgress,
            Self::OutcomeUnknown(_) => ErrorCode::OutcomeUnknown,
            Self::RateLimited => ErrorCode::RateLimited,
            Self::Context(_) => ErrorCode::ExecutionFailed,
            Self::Unavailable(_) | Self::OutOfTime => ErrorCode::Unavailable,
            Self::Cancelled => ErrorCode::Cancelled,
            Self::ListingTimeout => ErrorCode::Timeout,
            Self::Audit(_) => ErrorCode::AuditUnavailable,
            Self::Internal(_) => ErrorCode::InternalError,
        }
    }

    fn retryable(&self) -> bool {
        match self {
            Self::Approval { code, .. } => *code == ErrorCode::ApprovalPending,
            Self::InProgress
            | Self::RateLimited
            | Self::Context(_)
            | Self::Unavailable(_)
            | Self::OutOfTime
            | Self::ListingTimeout
            | Self::Audit(_) => true,
            Self::Unauthenticated
            | Self::NotFound { .. }
            | Self::KeyInvalid
            | Self::InputInvalid(_)
            | Self::SchemaChanged
            | Self::PolicyDenied { .. }
            | Self::PolicyFailed(_)
            | Self::PolicyUnstable
            | Self::KeyReused
            | Self::OutcomeUnknown(_)
            | Self::Cancelled
            | Self::ExecutionNotFound
            | Self::Internal(_) => false,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Unauthenticated => "The caller is not authenticated.".into(),
            // Whatever follows no grammar cannot exist, so that not repeating it tells nothing.
            Self::NotFound { capability, .. } if crate::CapabilityId::from(&**capability).is_well_formed() => {
                format!("There is no capability `{capability}`.")
            }
            Self::NotFound { .. } => "There is no such capability.".into(),
            Self::KeyInvalid => {
                "An idempotency key is 1 to 255 visible ASCII characters, and anonymous callers have none.".into()
            }
            Self::InputInvalid(_) => "The input is not valid.".into(),
            Self::SchemaChanged => "The input schema changed since this was asked for. Ask again.".into(),
            Self::PolicyDenied { reason, .. } => {
                reason.clone().unwrap_or_else(|| "No policy permits this call.".into())
            }
            Self::Approval { code, .. } => approval_sentence(*code).into(),
            Self::KeyReused => "The idempotency key was used for another input.".into(),
            Self::InProgress => "The first call with this idempotency key still runs.".into(),
            Self::OutcomeUnknown(_) => "An earlier call may have taken effect. It must be reconciled first.".into(),
            Self::RateLimited => "Too many requests are waiting for approval.".into(),
            Self::Unavailable(_) | Self::OutOfTime => "The service is not available right now.".into(),
            Self::Cancelled => "The call was cancelled.".into(),
            Self::ListingTimeout => "The listing ran out of time.".into(),
            Self::ExecutionNotFound => "There is no such execution.".into(),
            Self::PolicyFailed(_) | Self::PolicyUnstable | Self::Context(_) | Self::Audit(_) | Self::Internal(_) => {
                FAILED.into()
            }
        }
    }

    fn details(&self) -> Vec<Detail> {
        match self {
            Self::InputInvalid(refused) => refused.outward.clone(),
            Self::Approval { consumed_by: Some(execution_id), .. } | Self::OutcomeUnknown(execution_id) => {
                vec![Detail::Execution { execution_id: execution_id.clone() }]
            }
            _ => Vec::new(),
        }
    }

    /// The outward face.
    pub(crate) fn face(&self) -> Error {
        Error { code: self.code(), message: self.message(), retryable: self.retryable(), details: self.details() }
    }

    /// The terminal event: a denied call is as well documented as a completed one.
    pub(crate) fn event(self, stage: Stage, duration_us: u64) -> EventKind {
        let (code, retryable) = (self.code(), self.retryable());
        let denied = |reason, policies, errors| EventKind::Denied { reason, public_code: code, policies, errors };
        let failed = |paths| EventKind::Failed { code, stage, retryable, attempts: 0, executed: Executed::No, paths };
        match self {
            Self::NotFound { reason, policies, errors, .. } => denied(reason, policies, errors),
            Self::PolicyDenied { policies, .. } => denied(DenialReason::PolicyDenied, policies, Vec::new()),
            Self::PolicyFailed(errors) => denied(DenialReason::PolicyFailed, Vec::new(), errors),
            Self::PolicyUnstable => denied(DenialReason::PolicyFailed, Vec::new(), Vec::new()),
            Self::Cancelled => EventKind::Cancelled { code, duration_us, executed: Executed::No },
            Self::InputInvalid(refused) => failed(refused.paths),
            Self::Unauthenticated
            | Self::KeyInvalid
            | Self::SchemaChanged
            | Self::Approval { .. }
            | Self::KeyReused
            | Self::InProgress
            | Self::OutcomeUnknown(_)
            | Self::RateLimited
            | Self::Context(_)
            | Self::Unavailable(_)
            | Self::OutOfTime
            | Self::ListingTimeout
            | Self::ExecutionNotFound
            | Self::Audit(_)
            | Self::Internal(_) => failed(Vec::new()),
        }
    }

    /// What the caller gets.
    pub(crate) fn outcome(&self, execution_id: ExecutionId) -> Outcome {
        match self {
            Self::Cancelled => Outcome::Cancelled { execution_id, error: self.face() },
            _ => Outcome::Failed { execution_id, error: self.face(), replayed: false },
        }
    }
}

impl From<StoreError> for Rejection {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy => Self::Unavailable("the store's queue is full"),
            other => Self::Audit(other),
        }
    }
}

fn approval_sentence(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::ApprovalPending => "The approval is still waiting for a decision.",
        ErrorCode::ApprovalRejected => "The request was rejected.",
        ErrorCode::ApprovalExpired => "The approval has expired. Ask again.",
        ErrorCode::ApprovalConsumed => "The approval was used already.",
        ErrorCode::ApprovalWithdrawn => "The request was withdrawn.",
        ErrorCode::ApprovalAlreadyDecided => "This was decided already.",
        ErrorCode::ApprovalSelfApproval => "Nobody may approve their own request.",
        ErrorCode::ApproverNotEligible => "You may not decide this.",
        ErrorCode::ApprovalInputMismatch => FAILED,
        _ => "There is no such approval.",
    }
}
