//! What the writer can be asked, and what it answers.
//!
//! Ids of executions and of callers' events are made before the transaction, so that nothing is written twice
//! (EXE-8). Events that only the transaction can know (progress of a decision, a superseded approval, an interrupted
//! execution) are made by the batch from the [`Envelope`] that is stored with the row.

mod export;
mod ledger;
mod retain;

use std::fmt;
use std::sync::Arc;

pub(crate) use self::export::{Erase, Export};
pub(crate) use self::ledger::{Ledger, TileRow};
pub(crate) use self::retain::{Detach, Detached, Need};
use super::SealError;
use crate::approval::{ApprovalState, Verdict};
use crate::audit::{ApproverRef, AuditEvent, Envelope, ReconciledBy, Requirement};
use crate::clock::Timestamp;
use crate::seen::Facts;
use crate::{ApprovalId, ExecutionId};

/// What policies saw when they decided, of a capability that keeps it. Stored with the record of what came of it, and
/// with that only.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) execution: ExecutionId,
    /// Counts the decisions of one execution that are on record, from 0.
    pub(crate) place: i64,
    pub(crate) tenant: String,
    pub(crate) capability: String,
    pub(crate) policy_hash: String,
    pub(crate) decided_at: Timestamp,
    /// JSON of [`crate::seen::Facts`]. The store seals it.
    pub(crate) facts: String,
}

// It holds an input, which no log may show (INV-9).
impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seen({}, {}, ..)", self.execution, self.place)
    }
}

/// Files a request for a decision (APR-1), or finds the open one of the same call (APR-9).
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) approval: ApprovalId,
    pub(crate) execution: ExecutionId,
    pub(crate) tenant: String,
    pub(crate) capability: String,
    /// [`crate::actor::Party::folded`] of the requester: what the caps and the list of one's own requests go by.
    pub(crate) requester: String,
    /// Names scope and key (IDM-5); `None` without a key: every call is its own.
    pub(crate) slot: Option<String>,
    pub(crate) input_hash: String,
    pub(crate) given_hash: String,
    /// Canonical text of [`crate::approval::Binding`].
    pub(crate) binding: String,
    /// HMAC of the binding hash under the tenant's evidence key: a database alone cannot forge one.
    pub(crate) binding_hash: String,
    /// Sealed normalised input.
    pub(crate) input: String,
    pub(crate) requirements: Vec<Requirement>,
    /// Microseconds of the store's clock.
    pub(crate) life_us: i64,
    /// An approval that this request replaces (APR-7): withdrawn in the same transaction.
    pub(crate) supersedes: Option<ApprovalId>,
    /// Envelope of the filing execution, stored with the approval for events about it later.
    pub(crate) envelope: Envelope,
    /// The trail so far.
    pub(crate) events: Vec<AuditEvent>,
    pub(crate) seen: Option<Seen>,
    /// The event of the filing itself, an [`EventKind::ApprovalRequested`]; the batch fills in `approvalId`,
    /// `existing` and `expiresAt`.
    pub(crate) requested: AuditEvent,
}

/// One person's decision about one type (APR-2, APR-5).
#[derive(Clone, Debug)]
pub(crate) struct Decide {
    pub(crate) approval: ApprovalId,
    /// [`crate::actor::Party::folded`]: distinct people are counted by it.
    pub(crate) person: String,
    pub(crate) approver: ApproverRef,
    pub(crate) kind: String,
    pub(crate) verdict: Verdict,
    pub(crate) via: String,
    /// The generation under which this was allowed; another one by now is [`Decided::PolicyChanged`]. `None`: of a process
    /// that only looks.
    pub(crate) generation: Option<i64>,
    /// The comment's text, salt and salted digest. The text goes to the erasable side table, the digest to the event.
    pub(crate) comment: Option<Comment>,
}

#[derive(Clone, Debug)]
pub(crate) struct Comment {
    pub(crate) text: String,
    pub(crate) salt: String,
    pub(crate) digest: String,
}

/// Takes an open request back.
#[derive(Clone, Debug)]
pub(crate) struct Withdraw {
    pub(crate) approval: ApprovalId,
    /// `requester` or `operator`.
    pub(crate) by: &'static str,
    /// As in [`Decide`].
    pub(crate) generation: Option<i64>,
    /// `management.done` for an operator's withdraw.
    pub(crate) events: Vec<AuditEvent>,
}

/// Begins an execution: claims the key, consumes the approval, stores the input, appends the trail so far and
/// `capability.started`.
#[derive(Clone, Debug)]
pub(crate) struct Begin {
    pub(crate) execution: ExecutionId,
    pub(crate) tenant: String,
    pub(crate) capability: String,
    pub(crate) requester: String,
    pub(crate) slot: Option<String>,
    pub(crate) input_hash: String,
    pub(crate) given_hash: String,
    /// The process that owns it, [`crate::store::Store::instance`].
    pub(crate) instance: String,
    /// Whether another process may run it again if this one dies: effect none or read, or idempotent; never with an approval.
    pub(crate) retake: bool,
    /// How long a settled outcome is kept under the key, in microseconds.
    pub(crate) ttl_us: i64,
    /// Presented, to be consumed.
    pub(crate) approval: Option<ApprovalId>,
    /// Sealed normalised input.
    pub(crate) input: String,
    /// JSON of what a reconcile hook is told ([`crate::AgentInvocationInfo`]).
    pub(crate) agent: String,
    pub(crate) envelope: Envelope,
    /// The generation of the active policy set under which it was decided; another one by now is [`Began::PolicyChanged`].
    pub(crate) generation: i64,
    /// The trail so far and `capability.started`.
    pub(crate) events: Vec<AuditEvent>,
    pub(crate) seen: Option<Seen>,
}

/// How an execution ended, as the key's row keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The stored outcome answers repetitions.
    Completed,
    Failed,
    /// A write may have happened; nobody knows (INV-11).
    Unknown,
    /// Nothing happened, or repeating does no harm: the key is free.
    Free,
}

impl End {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Free => "free",
        }
    }
}

/// Ends an execution: the only licence for its terminal event (EXE-3). One that has ended already is reconciled instead.
#[derive(Clone, Debug)]
pub(crate) struct Finish {
    pub(crate) execution: ExecutionId,
    pub(crate) slot: Option<String>,
    pub(crate) end: End,
    /// What repetitions are answered with: opaque JSON text.
    pub(crate) outcome: Option<String>,
    /// `capability.retried` ones and the terminal event.
    pub(crate) events: Vec<AuditEvent>,
}

/// Settles an execution whose end is `unknown` (EXE-7), or records that somebody came later.
#[derive(Clone, Debug)]
pub(crate) struct Reconcile {
    pub(crate) execution: ExecutionId,
    pub(crate) slot: Option<String>,
    /// Not [`End::Unknown`]. [`End::Free`] is refused while the owner's lease is valid, unless the owner itself says so.
    pub(crate) end: End,
    pub(crate) outcome: Option<String>,
    pub(crate) by: ReconciledBy,
    /// The generation under which an operator was allowed to; another one by now changes nothing. `None`: policies are not
    /// asked.
    pub(crate) generation: Option<i64>,
    /// `management.done` for an operator.
    pub(crate) events: Vec<AuditEvent>,
}

/// Makes a policy set the active one, if it is not, and keeps a copy of its files.
///
/// Not done if `under` is not the generation any more; nor for files that were proposed before, if what they say gave
/// way to something else since: then that stays.
#[derive(Clone, Debug)]
pub(crate) struct Activate {
    pub(crate) hash: String,
    /// Name and text.
    pub(crate) files: Arc<[(String, String)]>,
    /// A digest of what they say, whatever the capabilities.
    pub(crate) said: String,
    /// Whether a process proposes its files; else somebody chose this set.
    pub(crate) proposed: bool,
    /// The generation under which this was allowed.
    pub(crate) under: Option<i64>,
    /// The set that `changes` in the event compares with; if another one came between, they are left out.
    pub(crate) compared: Option<String>,
    /// Its kind is [`EventKind::PolicyLoaded`]; the batch fills in `previousHash` and `generation`, and appends it only
    /// if the set changed.
    pub(crate) loaded: AuditEvent,
    /// `management.done`, if somebody chose it.
    pub(crate) events: Vec<AuditEvent>,
}

/// What became of [`File`].
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::enum_variant_names, reason = "the plain word for it")]
pub(crate) enum Filed {
    Filed {
        approval: ApprovalId,
        existing: bool,
        expires_at: Timestamp,
    },
    /// 100 pending of one requester, or 10,000 of one tenant.
    RateLimited,
    /// The superseded approval is not open any more: its state, and who consumed it.
    SupersededEnded {
        state: ApprovalState,
        consumed_by: Option<ExecutionId>,
    },
}

/// What became of [`Decide`] or [`Withdraw`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Decided {
    /// Done, or done before by the same person in the same way; the state after it.
    Done {
        state: ApprovalState,
    },
    /// Not pending any more, or this person decided otherwise before (then `state` is `Pending`).
    Refused {
        state: ApprovalState,
    },
    Missing,
    /// The active policy set is another one by now.
    PolicyChanged,
}

/// What became of [`Begin`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Began {
    /// Counts the claims of one key from 1; 1 without a key.
    Begun {
        fence: i64,
    },
    /// The key is held by somebody else; look it up.
    KeyTaken,
    ApprovalRefused {
        state: Option<ApprovalState>,
        consumed_by: Option<ExecutionId>,
    },
    /// The active policy set is another one by now.
    PolicyChanged,
}

/// What became of [`Finish`] or [`Reconcile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Whether the row took this end.
    pub(crate) applied: bool,
    /// Whether it had ended before, so that `capability.reconciled` was written instead of the terminal event.
    pub(crate) late: bool,
}

/// The active policy set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Active {
    pub(crate) hash: String,
    pub(crate) generation: i64,
}

/// What became of [`Activate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Activated {
    /// It is active; `changed` if it was not before.
    Done { generation: i64, changed: bool },
    /// This one stays.
    Kept(Active),
}

/// Who holds a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Holder {
    pub(crate) execution: ExecutionId,
    pub(crate) state: HolderState,
    pub(crate) input_hash: String,
    pub(crate) given_hash: String,
    pub(crate) outcome: Option<String>,
}

/// How a key's current row stands. A freed one, or one past its time, is no holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HolderState {
    /// The owner's lease is valid.
    Running,
    /// The owner's lease lapsed, and the execution may be taken over: begin decides.
    Retakable,
    Completed,
    Failed,
    /// Ended unknown, or running under a lapsed lease and not to be taken over.
    Unknown,
}

/// An execution as the store keeps it. Reads are on the trail only.
#[derive(Clone, Debug)]
pub(crate) struct ExecutionRecord {
    pub(crate) id: ExecutionId,
    pub(crate) tenant: String,
    pub(crate) capability: String,
    pub(crate) slot: Option<String>,
    /// `running`, `completed`, `failed`, `unknown` or `free`.
    pub(crate) state: String,
    pub(crate) lease_valid: bool,
    pub(crate) approval: Option<ApprovalId>,
    /// Sealed; gone once settled.
    pub(crate) input: Option<String>,
    pub(crate) agent: String,
    pub(crate) envelope: Envelope,
    pub(crate) started_at: Timestamp,
    pub(crate) ended_at: Option<Timestamp>,
}

/// An approval as the store keeps it, with its decisions in order.
#[derive(Clone, Debug)]
pub(crate) struct ApprovalRecord {
    pub(crate) id: ApprovalId,
    pub(crate) tenant: String,
    pub(crate) capability: String,
    pub(crate) input_hash: String,
    pub(crate) binding: String,
    pub(crate) binding_hash: String,
    /// Sealed; gone 24 h after the end, and absent from listings.
    pub(crate) input: Option<String>,
    pub(crate) requirements: Vec<Requirement>,
    /// Lapsed ones read as expired, whether or not the sweep has been there.
    pub(crate) state: ApprovalState,
    /// `requester`, `operator` or `superseded`.
    pub(crate) withdrawn_by: Option<String>,
    pub(crate) expires_at: Timestamp,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) consumed_by: Option<ExecutionId>,
    pub(crate) decisions: Vec<crate::approval::DecisionRecord>,
    /// When the last quorum was reached.
    pub(crate) approved_at: Option<Timestamp>,
}

/// What policies saw, as the store keeps it.
#[derive(Debug)]
#[cfg_attr(not(any(test, feature = "testing")), expect(dead_code, reason = "shown by the test kit"))]
pub(crate) struct SeenRecord {
    pub(crate) execution: ExecutionId,
    pub(crate) place: i64,
    pub(crate) tenant: String,
    pub(crate) capability: String,
    pub(crate) policy_hash: String,
    pub(crate) decided_at: Timestamp,
    /// `Err`: sealed under another key, moved, or changed.
    pub(crate) facts: Result<Facts, SealError>,
}

/// An unknown execution that this process may try to reconcile now.
#[derive(Clone, Debug)]
pub(crate) struct Unresolved {
    pub(crate) execution: ExecutionRecord,
    /// How often a hook was asked before.
    pub(crate) tries: i64,
}
