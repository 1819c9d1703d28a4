//! Every statement of the writer, once, in the order in which their rows are locked: executions (which are the keys),
//! instances, approvals, executions by id, the tree, decision records, the head row last.
//!
//! `{rows}` is the batch, with the columns `v.column1`, `v.column2`, ..; `{now}` is the store's clock.

mod approval;
mod event;
mod execution;
mod export;
mod ledger;
mod outbox;
mod pick;
mod policy;
mod read;
mod retain;
mod seen;

pub(super) use approval::{
    APPROVAL_STATES, CONSUME, DECISIONS, ERASE_INPUTS, EXPIRE_CALL, EXPIRE_LAPSED, FILE, FLIP, GIVE_BACK,
    INSERT_COMMENTS, INSERT_DECISIONS, LOCK_APPROVALS, OPEN_OF_CALL, PENDING_COUNTS, WITHDRAW, WITHDRAW_OTHERS,
};
pub(super) use event::{BEHIND_HEAD, EVENT_AT, EVENTS_KNOWN, GENERATION, HEAD, INSERT_EVENTS};
pub(super) use execution::{
    BEGUN_WITH, BURY, CLAIM, CLAIM_UNKNOWN, END_OF_DEAD, ENROL, EXECUTION_STATES, EXECUTIONS, FINISH, FORGET_APPROVAL,
    HOLDERS, PURGE, RECONCILE, RENEW, RETIRE, SUPERSEDE, SWEEP, UNCLAIM,
};

#[cfg(feature = "cli")]
pub(super) use execution::EXECUTIONS_LATEST;
#[cfg(feature = "cli")]
pub(super) use export::{BEFORE_FIRST_FROM, COMMENTS, CURSORS, EXPORTED, LAST_BEFORE};
pub(super) use export::{DROP_CURSOR, ENVELOPES, ERASE_COMMENTS, MOVE_CURSOR, PUT_CURSOR, STOP_CURSOR};
#[cfg(feature = "http")]
pub(super) use ledger::BODIES;
#[cfg(feature = "cli")]
pub(super) use ledger::LOG_STATE;
pub(super) use ledger::{
    ANCHORED, CHECKPOINTS, EVIDENCE, EVIDENCE_ENDS, EVIDENCE_NOTES, EVIDENCE_TILES, GROW, HEADS, LAST_CHECKPOINT,
    LEAVES, PUT_ANCHORED, PUT_CHECKPOINT, PUT_TILES, TILES,
};
#[cfg(feature = "http")]
pub(super) use outbox::IS_DUE;
#[cfg(feature = "cli")]
pub(super) use outbox::OUTBOX;
pub(super) use outbox::{
    BURY_UNADDRESSED, CLAIM_DUE, DISABLE, DROP_DEAD, DROP_WEBHOOKS, ENABLE, ERASE_DEAD, ERASE_SURPLUS, OUTBOX_COUNTS,
    PUT_OFF, PUT_WEBHOOK, REVIVE, SUBSCRIBE, SUBSCRIBED, SUBSCRIPTIONS_CHANGED, TELL, TOLD, UNSUBSCRIBE, WARN,
    WEBHOOKS,
};
pub(super) use pick::{LAY_DOWN, PICK, TO_PICK};
pub(super) use policy::{ACTIVATE, COPY_SAYS, DROP_COPIES, INSERT_COPIED, INSERT_COPY, PROPOSAL, PROPOSE, RENEW_COPY};
#[cfg(feature = "cli")]
pub(super) use read::APPROVALS_LATEST;
#[cfg(feature = "http")]
pub(super) use read::STANDING;
pub(super) use read::{
    ACTIVE, APPROVAL, APPROVAL_OF_CALL, APPROVALS, COPIES, COPY, DECISIONS_OF, EVENTS_FIRST, EVENTS_LAST,
    EVENTS_OF_APPROVALS, EVENTS_OF_FIRST, EVENTS_OF_LAST, HOLDER, LAST, LOADED, PENDING, UNKNOWN,
};
#[cfg(feature = "cli")]
pub(super) use retain::FIRST;
#[cfg(feature = "cli")]
pub(super) use retain::{CHECKPOINT_UP_TO, DETACHMENTS};
pub(super) use retain::{DETACH, DETACHED, EVIDENCE_DETACHED, GONE, NEEDED, PURGE_EVENTS};
#[cfg(feature = "cli")]
pub(super) use seen::SEEN_OF;
pub(super) use seen::{ERASE_SEEN, INSERT_SEEN, SEEN};

/// A statement: its text, and a letter for each column of its batch (t text, i integer, b boolean).
#[derive(Clone, Copy, Debug)]
pub(super) struct Sql {
    pub(super) text: &'static str,
    pub(super) columns: &'static str,
}

/// The lease of instance `i` does not count: dead, at its end, or further ahead than it is long (EXE-5).
macro_rules! lapsed {
    () => {
        "(i.id IS NULL OR i.dead OR i.lease_until <= {now} OR i.lease_until > {now} + i.lease_us)"
    };
}
use lapsed;

/// Every statement, for the test that looks at the plans.
#[cfg(test)]
pub(super) const ALL: &[Sql] = &[
    ACTIVATE,
    APPROVAL_STATES,
    BEGUN_WITH,
    BEHIND_HEAD,
    BURY,
    BURY_UNADDRESSED,
    CLAIM,
    CLAIM_DUE,
    CLAIM_UNKNOWN,
    CONSUME,
    COPY_SAYS,
    DECISIONS,
    DETACH,
    DETACHED,
    DISABLE,
    DROP_COPIES,
    DROP_CURSOR,
    DROP_DEAD,
    DROP_WEBHOOKS,
    ENABLE,
    END_OF_DEAD,
    ENROL,
    ENVELOPES,
    ERASE_COMMENTS,
    ERASE_DEAD,
    ERASE_INPUTS,
    ERASE_SEEN,
    ERASE_SURPLUS,
    EVENTS_KNOWN,
    EVENT_AT,
    EXECUTIONS,
    EXECUTION_STATES,
    EXPIRE_CALL,
    EXPIRE_LAPSED,
    FILE,
    FINISH,
    FLIP,
    FORGET_APPROVAL,
    GENERATION,
    GIVE_BACK,
    GROW,
    HEAD,
    HOLDERS,
    INSERT_COMMENTS,
    INSERT_COPIED,
    INSERT_COPY,
    INSERT_DECISIONS,
    INSERT_EVENTS,
    INSERT_SEEN,
    LAY_DOWN,
    LOCK_APPROVALS,
    MOVE_CURSOR,
    NEEDED,
    OPEN_OF_CALL,
    PENDING_COUNTS,
    PICK,
    PROPOSAL,
    PROPOSE,
    PURGE,
    PURGE_EVENTS,
    PUT_CURSOR,
    PUT_OFF,
    PUT_WEBHOOK,
    PUT_ANCHORED,
    PUT_CHECKPOINT,
    PUT_TILES,
    RECONCILE,
    RENEW,
    RENEW_COPY,
    RETIRE,
    REVIVE,
    STOP_CURSOR,
    SUBSCRIBE,
    SUBSCRIBED,
    SUBSCRIPTIONS_CHANGED,
    SUPERSEDE,
    SWEEP,
    TELL,
    TOLD,
    TO_PICK,
    TILES,
    UNCLAIM,
    UNSUBSCRIBE,
    WARN,
    WEBHOOKS,
    WITHDRAW,
    WITHDRAW_OTHERS,
];
