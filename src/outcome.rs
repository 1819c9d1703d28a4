//! What a caller gets back. Everything here is the outward face (INV-8).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::{ApprovalId, ExecutionId, Output};

/// How a governed call ended.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[must_use = "a call can end without having run"]
pub enum Outcome {
    /// It ran, now or before.
    Completed {
        /// The trip through the pipeline.
        execution_id: ExecutionId,
        /// Checked and redacted. Absent in a replay of a capability that does not keep outputs.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<serde_json::Value>")]
        output: Option<Output>,
        /// Whether an earlier execution with the same key made the output.
        replayed: bool,
        /// False if it ran but its end is not on record yet: the operator is told, and the record is retried.
        #[serde(skip_serializing_if = "is_true")]
        recorded: bool,
    },
    /// A person must decide first.
    ApprovalRequired {
        /// The trip through the pipeline.
        execution_id: ExecutionId,
        /// What to wait for.
        approval: ApprovalRequest,
    },
    /// It was refused, or it failed.
    Failed {
        /// The trip through the pipeline.
        execution_id: ExecutionId,
        /// Why, as far as a caller may know.
        error: Error,
        /// Whether an earlier execution with the same key failed so.
        #[serde(skip_serializing_if = "is_false")]
        replayed: bool,
    },
    /// It was stopped.
    Cancelled {
        /// The trip through the pipeline.
        execution_id: ExecutionId,
        /// Why.
        error: Error,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_true(it: &bool) -> bool {
    *it
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(it: &bool) -> bool {
    !*it
}

impl Outcome {
    /// The trip through the pipeline.
    pub fn execution_id(&self) -> &ExecutionId {
        match self {
            Self::Completed { execution_id, .. }
            | Self::ApprovalRequired { execution_id, .. }
            | Self::Failed { execution_id, .. }
            | Self::Cancelled { execution_id, .. } => execution_id,
        }
    }

    /// The output, for those who prefer `?`. A replay without a stored output is `null`.
    ///
    /// # Errors
    /// Any outcome other than completed; it displays one safe sentence.
    pub fn into_result(self) -> Result<Output, Unfinished> {
        match self {
            Self::Completed { output, .. } => Ok(output.unwrap_or_default()),
            other @ (Self::ApprovalRequired { .. } | Self::Failed { .. } | Self::Cancelled { .. }) => {
                Err(Unfinished(Box::new(other)))
            }
        }
    }

    /// The output, if it completed and the output is kept.
    pub fn output(&self) -> Option<&Output> {
        match self {
            Self::Completed { output, .. } => output.as_ref(),
            Self::ApprovalRequired { .. } | Self::Failed { .. } | Self::Cancelled { .. } => None,
        }
    }

    /// The error, if it failed or was cancelled.
    pub fn error(&self) -> Option<&Error> {
        match self {
            Self::Failed { error, .. } | Self::Cancelled { error, .. } => Some(error),
            Self::Completed { .. } | Self::ApprovalRequired { .. } => None,
        }
    }

    /// The approval to wait for, if a person must decide.
    pub fn approval(&self) -> Option<&ApprovalRequest> {
        match self {
            Self::ApprovalRequired { approval, .. } => Some(approval),
            Self::Completed { .. } | Self::Failed { .. } | Self::Cancelled { .. } => None,
        }
    }
}

/// An [`Outcome`] other than completed, as an error. Displays one safe sentence.
#[derive(Debug)]
pub struct Unfinished(Box<Outcome>);

impl Unfinished {
    /// The outcome itself.
    pub fn into_outcome(self) -> Outcome {
        *self.0
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Outcome::ApprovalRequired { approval, .. } => write!(f, "waiting for approval `{}`", approval.id),
            other => other.error().map_or(Ok(()), |it| it.fmt(f)),
        }
    }
}

impl std::error::Error for Unfinished {}

/// What a person is asked to decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequest {
    /// 160 random bits; a locator, never an authority.
    pub id: ApprovalId,
    /// Why a person is asked: the `@reason` of each gate.
    pub reasons: Vec<String>,
    /// The types of approval that are needed.
    pub types: Vec<String>,
    /// At this instant it is expired.
    pub expires_at: Timestamp,
    /// `sha256:` and hexadecimal. Binds the decision to one exact input.
    pub input_hash: String,
}

/// A failure as a caller may see it: a stable code and one safe sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error, schemars::JsonSchema)]
#[error("{message}")]
pub struct Error {
    /// What programs match on.
    pub code: ErrorCode,
    /// What people read.
    pub message: String,
    /// Whether the same call, sent again as it is, may succeed *and cannot run twice* (EXE-4).
    pub retryable: bool,
    /// Paths and keywords, a declared code, or an execution id; never a value.
    #[serde(default)]
    pub details: Vec<Detail>,
}

impl Error {
    /// It failed, and nobody is told more.
    pub(crate) fn unexplained() -> Self {
        let message = "The operation failed.".into();
        Self { code: ErrorCode::ExecutionFailed, message, retryable: false, details: Vec::new() }
    }
}

/// More about an [`Error`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Detail {
    /// A place in the input that is wrong.
    Input {
        /// JSON Pointer (RFC 6901) of the parent, as far as the schema declares it.
        path: String,
        /// The schema keyword that failed, or `duplicate member`, `not JSON`.
        keyword: String,
        /// The declared member that was probably meant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nearest: Option<String>,
    },
    /// The code of a declared error.
    Code {
        /// Declared by the capability.
        code: String,
    },
    /// Another execution that has to do with it.
    Execution {
        /// Its id.
        #[serde(rename = "executionId")]
        execution_id: ExecutionId,
    },
}

macro_rules! codes {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// Why a call did not complete: closed, stable, never reused (document 3 has the table).
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
        )]
        #[expect(missing_docs, reason = "document 3 is the table")]
        pub enum ErrorCode {
            $(#[serde(rename = $name)] $variant),+
        }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name on the wire and in the audit log.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }
    };
}

codes! {
    CapabilityNotFound = "CAPABILITY_NOT_FOUND",
    Unauthenticated = "UNAUTHENTICATED",
    InputInvalid = "INPUT_INVALID",
    Forbidden = "FORBIDDEN",
    PolicyDenied = "POLICY_DENIED",
    PolicyFailed = "POLICY_FAILED",
    ApprovalPending = "APPROVAL_PENDING",
    ApprovalRejected = "APPROVAL_REJECTED",
    ApprovalExpired = "APPROVAL_EXPIRED",
    ApprovalConsumed = "APPROVAL_CONSUMED",
    ApprovalWithdrawn = "APPROVAL_WITHDRAWN",
    ApprovalAlreadyDecided = "APPROVAL_ALREADY_DECIDED",
    ApprovalSelfApproval = "APPROVAL_SELF_APPROVAL",
    ApproverNotEligible = "APPROVER_NOT_ELIGIBLE",
    ApprovalInputMismatch = "APPROVAL_INPUT_MISMATCH",
    ApprovalNotFound = "APPROVAL_NOT_FOUND",
    IdempotencyKeyInvalid = "IDEMPOTENCY_KEY_INVALID",
    IdempotencyKeyReused = "IDEMPOTENCY_KEY_REUSED",
    IdempotencyInProgress = "IDEMPOTENCY_IN_PROGRESS",
    OutcomeUnknown = "OUTCOME_UNKNOWN",
    ExecutionFailed = "EXECUTION_FAILED",
    OutputInvalid = "OUTPUT_INVALID",
    Timeout = "TIMEOUT",
    Cancelled = "CANCELLED",
    RateLimited = "RATE_LIMITED",
    Unavailable = "UNAVAILABLE",
    AuditUnavailable = "AUDIT_UNAVAILABLE",
    InternalError = "INTERNAL_ERROR",
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
