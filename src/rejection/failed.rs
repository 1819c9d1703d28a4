//! Why an execution ended after its begin, without an output.

use tokio::task::JoinHandle;

use super::FAILED;
use crate::audit::{EventKind, Executed};
use crate::handler::{DeclaredError, HandlerError, Kind};
use crate::outcome::{Detail, Error, ErrorCode, Outcome};
use crate::stage::Stage;
use crate::store::op::End;
use crate::{BoxError, ExecutionId};

const MAY_HAVE_HAPPENED: &str = "The operation failed. It may have taken effect.";

/// The most characters of a declared error's message that callers read: repetitions read them from the store.
const MAX_MESSAGE: usize = 2_000;

/// Ended after the begin commit, without an output.
#[derive(Debug)]
pub(crate) enum Failed {
    Declared(DeclaredError),
    /// The application said no; `entered` tells whether the handler itself had been reached.
    Unauthenticated {
        entered: bool,
    },
    Forbidden {
        entered: bool,
    },
    /// The last attempt said that nothing happened; `always` tells whether every attempt did.
    NotExecuted {
        cause: BoxError,
        always: bool,
    },
    /// Nobody knows whether it happened, and the handler says so.
    Unknown(BoxError),
    Other(BoxError),
    /// It ran, but its output cannot be given out: paths and keywords, for the log.
    Output(Vec<String>),
    /// The process's lease ended before this attempt began; `fresh` tells whether it was the first.
    LeaseLost {
        fresh: bool,
    },
    /// The deadline, the caller or the shutdown ended the wait.
    Stopped {
        code: ErrorCode,
        /// Whether every attempt stated that nothing happened.
        not_executed: bool,
        late: Option<Late>,
    },
}

/// A handler that runs on after its execution was answered.
pub(crate) type Late = JoinHandle<Result<serde_json::Value, HandlerError>>;

/// What a failure means depends on what was run.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts")]
pub(crate) struct Nature {
    /// Effect none or read.
    pub(crate) read: bool,
    /// Declared idempotent.
    pub(crate) idempotent: bool,
    /// The caller gave a key.
    pub(crate) keyed: bool,
    /// An approval was consumed.
    pub(crate) approved: bool,
}

impl Failed {
    /// Sorts a handler's error. `entered` tells whether the handler was reached.
    pub(crate) fn of(HandlerError(kind): HandlerError, entered: bool) -> Self {
        match kind {
            Kind::Declared(error) => Self::Declared(error),
            Kind::Unauthenticated => Self::Unauthenticated { entered },
            Kind::Forbidden => Self::Forbidden { entered },
            Kind::NotExecuted(cause) => Self::NotExecuted { cause, always: true },
            Kind::Unknown(cause) => Self::Unknown(cause),
            Kind::Other(cause) => Self::Other(cause),
        }
    }

    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Declared(_) | Self::NotExecuted { .. } | Self::Unknown(_) | Self::Other(_) => {
                ErrorCode::ExecutionFailed
            }
            Self::Unauthenticated { .. } => ErrorCode::Unauthenticated,
            Self::Forbidden { .. } => ErrorCode::Forbidden,
            Self::Output(_) => ErrorCode::OutputInvalid,
            Self::LeaseLost { .. } => ErrorCode::Unavailable,
            Self::Stopped { code, .. } => *code,
        }
    }

    /// Whether the effect happened, as far as this failure tells.
    pub(crate) fn executed(&self, nature: Nature) -> Executed {
        let unsure = if nature.read { Executed::No } else { Executed::Unknown };
        match self {
            Self::Output(_) => Executed::Yes,
            Self::Unauthenticated { entered: false }
            | Self::Forbidden { entered: false }
            | Self::NotExecuted { always: true, .. }
            | Self::LeaseLost { fresh: true }
            | Self::Stopped { not_executed: true, .. } => Executed::No,
            Self::Unauthenticated { entered: true }
            | Self::Forbidden { entered: true }
            | Self::Declared(_)
            | Self::NotExecuted { always: false, .. }
            | Self::LeaseLost { fresh: false }
            | Self::Unknown(_)
            | Self::Other(_)
            | Self::Stopped { not_executed: false, .. } => unsure,
        }
    }

    /// The handler that still runs, if one does.
    pub(crate) fn take_late(&mut self) -> Option<Late> {
        match self {
            Self::Stopped { late, .. } => late.take(),
            _ => None,
        }
    }

    /// What becomes of the key (document 5's diagram).
    pub(crate) fn end(&self, nature: Nature) -> End {
        let harmless = nature.read || (nature.idempotent && !nature.approved);
        match self {
            Self::Unauthenticated { entered: false }
            | Self::Forbidden { entered: false }
            | Self::NotExecuted { always: true, .. }
            | Self::LeaseLost { fresh: true }
            | Self::Stopped { not_executed: true, .. } => End::Free,
            Self::Stopped { .. } | Self::LeaseLost { .. } | Self::NotExecuted { always: false, .. } => {
                if harmless {
                    End::Free
                } else {
                    End::Unknown
                }
            }
            Self::Unknown(_) if !nature.read => {
                if harmless {
                    End::Free
                } else {
                    End::Unknown
                }
            }
            Self::Unauthenticated { .. }
            | Self::Forbidden { .. }
            | Self::Declared(_)
            | Self::Unknown(_)
            | Self::Other(_)
            | Self::Output(_) => End::Failed,
        }
    }

    /// EXE-4: an agent acts on it. Never for an execution that consumed an approval.
    fn retryable(&self, nature: Nature) -> bool {
        if nature.approved {
            return false;
        }
        let safe = nature.read || (nature.idempotent && nature.keyed);
        match self {
            Self::NotExecuted { always, .. } => *always || safe,
            Self::LeaseLost { fresh } => *fresh || safe,
            Self::Stopped { code: ErrorCode::Timeout, not_executed, .. } => *not_executed || safe,
            Self::Unknown(_) => safe && !nature.read, // a read that failed has failed
            Self::Stopped { .. }
            | Self::Unauthenticated { .. }
            | Self::Forbidden { .. }
            | Self::Declared(_)
            | Self::Other(_)
            | Self::Output(_) => false,
        }
    }

    fn message(&self, nature: Nature) -> String {
        match self {
            Self::Declared(error) => error.message.chars().take(MAX_MESSAGE).collect(),
            Self::Unauthenticated { .. } => "The caller is not authenticated.".into(),
            Self::Forbidden { .. } => "The caller may not do this.".into(),
            Self::Output(_) => "It ran, but its answer was not usable.".into(),
            Self::LeaseLost { .. } => "The service is not available right now.".into(),
            Self::Stopped { code: ErrorCode::Timeout, .. } => "The operation ran out of time.".into(),
            Self::Stopped { .. } => "The call was cancelled.".into(),
            Self::NotExecuted { .. } => FAILED.into(),
            Self::Unknown(_) | Self::Other(_) if nature.read => FAILED.into(),
            Self::Unknown(_) | Self::Other(_) => MAY_HAVE_HAPPENED.into(),
        }
    }

    pub(crate) fn face(&self, nature: Nature) -> Error {
        let details = match self {
            Self::Declared(error) => vec![Detail::Code { code: error.code.clone().into_owned() }],
            _ => Vec::new(),
        };
        Error { code: self.code(), message: self.message(nature), retryable: self.retryable(nature), details }
    }

    pub(crate) fn event(&self, stage: Stage, attempts: u32, duration_us: u64, nature: Nature) -> EventKind {
        let (code, executed, retryable) = (self.code(), self.executed(nature), self.retryable(nature));
        match self {
            Self::Stopped { .. } => EventKind::Cancelled { code, duration_us, executed },
            _ => EventKind::Failed { code, stage, retryable, attempts, executed, paths: Vec::new() },
        }
    }

    pub(crate) fn outcome(&self, execution_id: ExecutionId, nature: Nature) -> Outcome {
        let error = self.face(nature);
        match self {
            Self::Stopped { .. } => Outcome::Cancelled { execution_id, error },
            _ => Outcome::Failed { execution_id, error, replayed: false },
        }
    }
}
