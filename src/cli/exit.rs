//! Exit codes: one exhaustive table from what a call came to.

use crate::ErrorCode;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// It is done.
    Done,
    /// It ran, or tried to, and failed.
    Failed,
    /// The engine said no: nothing ran, and the same call again gets the same answer.
    Denied,
    /// The input, a key or a policy is not valid.
    Invalid,
    /// A person must decide first.
    Waiting,
    /// The command itself could not run: wrong flags, a file or database that cannot be used.
    CouldNotRun,
    /// There was nothing to compare with, or nothing that could be compared: `capabilities check` only.
    CouldNotLook,
}

/// For `--help`.
pub(super) const HELP: &str = "\
Exit codes:
  0  done
  1  failed: it ran or tried to (EXECUTION_FAILED, OUTPUT_INVALID, TIMEOUT, CANCELLED, OUTCOME_UNKNOWN,
     IDEMPOTENCY_IN_PROGRESS, RATE_LIMITED, UNAVAILABLE, AUDIT_UNAVAILABLE, INTERNAL_ERROR)
  2  denied: CAPABILITY_NOT_FOUND, UNAUTHENTICATED, FORBIDDEN, POLICY_DENIED, POLICY_FAILED,
     APPROVER_NOT_ELIGIBLE, and every APPROVAL_* but pending
  3  invalid input or policy: INPUT_INVALID, IDEMPOTENCY_KEY_INVALID, IDEMPOTENCY_KEY_REUSED
  4  an approval is required, or still pending
  5  could not run: wrong flags, an actor, file, database or server that cannot be used

`capabilities check` has its own: 0 the same, 1 drift, 2 it could not look.

With --json the answer is one JSON document on standard output; a command that could not run writes
{\"error\":{..}} to standard error. Colours appear on a terminal only, and never where NO_COLOR is set.
COUNTERSIGN_LOG or -v say what is logged to standard error. COUNTERSIGN_SERVER and COUNTERSIGN_TOKEN stand for --server
and --token.";

impl Exit {
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Denied | Self::CouldNotLook => 2,
            Self::Invalid => 3,
            Self::Waiting => 4,
            Self::CouldNotRun => 5,
        }
    }

    pub(super) fn of_code(code: ErrorCode) -> Self {
        match code {
            ErrorCode::CapabilityNotFound
            | ErrorCode::Unauthenticated
            | ErrorCode::Forbidden
            | ErrorCode::PolicyDenied
            | ErrorCode::PolicyFailed
            | ErrorCode::ApprovalRejected
            | ErrorCode::ApprovalExpired
            | ErrorCode::ApprovalConsumed
            | ErrorCode::ApprovalWithdrawn
            | ErrorCode::ApprovalAlreadyDecided
            | ErrorCode::ApprovalSelfApproval
            | ErrorCode::ApproverNotEligible
            | ErrorCode::ApprovalInputMismatch
            | ErrorCode::ApprovalNotFound => Self::Denied,
            ErrorCode::InputInvalid | ErrorCode::IdempotencyKeyInvalid | ErrorCode::IdempotencyKeyReused => {
                Self::Invalid
            }
            ErrorCode::ApprovalPending => Self::Waiting,
            ErrorCode::ExecutionFailed
            | ErrorCode::OutputInvalid
            | ErrorCode::Timeout
            | ErrorCode::Cancelled
            | ErrorCode::OutcomeUnknown
            | ErrorCode::IdempotencyInProgress
            | ErrorCode::RateLimited
            | ErrorCode::Unavailable
            | ErrorCode::AuditUnavailable
            | ErrorCode::InternalError => Self::Failed,
        }
    }
}

/// What answered, which decides how the next command is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// A database, whose operator may name anybody.
    Database,
    /// A server, which knows who asks by the token.
    Server,
}

impl Side {
    /// On whose behalf a command is to be run, where that has to be said.
    pub(super) fn actor(self) -> &'static str {
        match self {
            Self::Database => " --actor NAME",
            Self::Server => "",
        }
    }
}

/// What whoever reads this code does next.
pub(super) fn next_step(code: ErrorCode, side: Side) -> &'static str {
    match side {
        Side::Database => next_step_here(code),
        Side::Server => next_step_there(code),
    }
}

fn next_step_there(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::CapabilityNotFound => "see what there is: `countersign capabilities list`",
        ErrorCode::Unauthenticated => "give a token that the server takes: `--token-file FILE`, or COUNTERSIGN_TOKEN",
        ErrorCode::ApprovalPending => "have it decided: `countersign approvals approve ID`, by somebody who may",
        ErrorCode::ApprovalNotFound => "see what this token may know of: `countersign approvals list`",
        ErrorCode::OutcomeUnknown => "have it settled: `countersign executions resolve ID --as ..`",
        ErrorCode::PolicyFailed => "a policy could not be evaluated: the server's log says more",
        ErrorCode::ExecutionFailed | ErrorCode::OutputInvalid => "the server's log has the cause",
        ErrorCode::AuditUnavailable => "have the server's database seen to: nothing runs that cannot be recorded",
        ErrorCode::InternalError => "the server's log says more; report it",
        other => next_step_here(other),
    }
}

fn next_step_here(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::CapabilityNotFound => "see what there is: `countersign capabilities list --actor NAME`",
        ErrorCode::Unauthenticated => "say on whose behalf: `--actor NAME|FILE`",
        ErrorCode::InputInvalid => "see the input's schema: `countersign capabilities show CAPABILITY`",
        ErrorCode::Forbidden => "the application itself refuses this actor: ask its owner",
        ErrorCode::PolicyDenied => "see which policy: `countersign audit list --type capability.denied`",
        ErrorCode::PolicyFailed => "a policy could not be evaluated: see the log, with `-v`",
        ErrorCode::ApprovalPending => "have it decided: `countersign approvals approve ID --actor NAME`",
        ErrorCode::ApprovalRejected | ErrorCode::ApprovalExpired | ErrorCode::ApprovalWithdrawn => {
            "call the capability again if it is still needed"
        }
        ErrorCode::ApprovalConsumed => "see what came of it: `countersign approvals show ID`",
        ErrorCode::ApprovalAlreadyDecided => "see how: `countersign approvals show ID`",
        ErrorCode::ApprovalSelfApproval => "let somebody else decide",
        ErrorCode::ApproverNotEligible => "let somebody decide whom a policy permits `approve` for this type",
        ErrorCode::ApprovalInputMismatch => "the stored request was changed: call the capability again",
        ErrorCode::ApprovalNotFound => "see what this actor may know of: `countersign approvals list --actor NAME`",
        ErrorCode::IdempotencyKeyInvalid => "use 1 to 255 visible ASCII characters, with an actor who is somebody",
        ErrorCode::IdempotencyKeyReused => "use another key for another input",
        ErrorCode::IdempotencyInProgress | ErrorCode::Unavailable | ErrorCode::RateLimited => "try again in a moment",
        ErrorCode::OutcomeUnknown => "settle it: `countersign executions resolve ID --actor NAME --as ..`",
        ErrorCode::ExecutionFailed | ErrorCode::OutputInvalid => "see the cause in the log, with `-v`",
        ErrorCode::Timeout => "ask for less, or try again later",
        ErrorCode::Cancelled => "call again if it is still needed",
        ErrorCode::AuditUnavailable => "see to the database: nothing runs that cannot be recorded",
        ErrorCode::InternalError => "see the log, with `-v`, and report it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_code_under_its_exit_code() {
        for code in ErrorCode::ALL {
            let exit = Exit::of_code(*code).code();
            let from = HELP.find(&format!("\n  {exit}  ")).unwrap();
            let lines: Vec<&str> = HELP[from + 1..].lines().collect();
            let end = lines[1..].iter().position(|it| !it.starts_with("     ")).unwrap() + 1;
            let section = lines[..end].join(" ");
            let group = code.as_str().starts_with("APPROVAL_") && section.contains("APPROVAL_*");
            let pending = *code == ErrorCode::ApprovalPending && section.contains("still pending");
            assert!(section.contains(code.as_str()) || group || pending, "{code} is not under {exit}");
        }
    }
}
