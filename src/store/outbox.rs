//! What others are told of, as the store keeps it: who subscribes, and a row for each notification that is still to be
//! delivered. Rows are written by the batch, in the transaction of the event that they tell of.

use super::job::{Answer, Op};
use super::{Store, StoreError};
use crate::ApprovalId;
#[cfg(feature = "cli")]
use crate::actor::{Actor, ActorKind, Identity};
use crate::audit::AuditEvent;
#[cfg(feature = "cli")]
use crate::audit::{Envelope, EventKind};
use crate::clock::{Timestamp, micros};
use crate::topic::{Topic, Topics};

/// What a batch knows of the subscriptions: which topics somebody wants, as of the change with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) version: i64,
    pub(super) topics: Topics,
}

/// A webhook, as far as it matters to who writes events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subscriber {
    pub(crate) name: String,
    /// A digest of its URL.
    pub(crate) address: String,
    pub(crate) topics: Vec<Topic>,
    /// Empty: all of them.
    pub(crate) tenants: Vec<String>,
}

/// What the outbox can be asked.
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only the HTTP part tells others"))]
#[derive(Debug)]
pub(crate) enum Outbox {
    /// These are all the webhooks there are.
    Subscribe(Vec<Subscriber>),
    /// What is due for one webhook, for this process alone and for so long.
    Claim { webhook: String, limit: i64, claim_us: i64 },
    /// What became of attempts.
    Settle(Vec<Settlement>),
    /// The receiver said that it is gone: nobody is told any more.
    Disable { webhook: String },
    /// An operator: dead letters are due again, and the webhooks that they are for are enabled.
    Revive(Letters, Box<AuditEvent>),
    /// An operator: dead letters are forgotten.
    Drop(Letters, Box<AuditEvent>),
}

/// Some dead letters: of one webhook, one by its id, or all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Letters {
    pub(crate) id: Option<String>,
    pub(crate) webhook: Option<String>,
}

/// A notification that this process may try to deliver now.
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only the HTTP part tells others"))]
#[derive(Clone, Debug)]
pub(crate) struct Due {
    /// Stays the same over attempts: the id of the event, or of the warning.
    pub(crate) id: String,
    pub(crate) topic: Topic,
    pub(crate) approval: Option<ApprovalId>,
    /// When it was written.
    pub(crate) created_at: Timestamp,
    /// Counts from 1.
    pub(crate) attempt: i64,
    /// The canonical text of the event; a warning has none.
    pub(crate) event: Option<String>,
}

/// What became of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settlement {
    pub(crate) id: String,
    pub(crate) webhook: String,
    pub(crate) attempt: i64,
    pub(crate) fate: Fate,
}

#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only the HTTP part tells others"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Taken, or not needed any more.
    Gone,
    /// It failed, and is due again after so many microseconds.
    Later { wait_us: i64, why: String },
    /// It failed for the last time.
    Dead { why: String },
}

/// A row of the outbox as an operator sees it.
#[cfg(feature = "cli")]
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Letter {
    pub(crate) id: String,
    pub(crate) webhook: String,
    #[serde(rename = "type")]
    pub(crate) topic: String,
    pub(crate) tenant: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) execution_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) approval_id: Option<String>,
    pub(crate) created_at: Timestamp,
    /// `due` or `dead`.
    pub(crate) state: String,
    pub(crate) attempts: i64,
    /// Of one that is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_at: Option<Timestamp>,
    /// Why the last attempt failed: a class, never what the receiver answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
}

/// How full the outbox is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    pub(crate) due: i64,
    pub(crate) dead: i64,
    /// When the oldest that is due was written.
    pub(crate) oldest: Option<Timestamp>,
}

/// Approved requests that a worker may run.
#[derive(Clone, Debug)]
pub(crate) struct Pick {
    pub(crate) capability: String,
    /// What policies and governance are now: one that was refused for good under these is left alone.
    pub(crate) mark: String,
}

/// One that this process has taken up.
#[derive(Clone, Debug)]
pub(crate) struct Picked {
    pub(crate) approval: ApprovalId,
    pub(crate) capability: String,
    /// Canonical text of [`crate::approval::Binding`].
    pub(crate) binding: String,
    /// How often it was taken up, with this time.
    pub(crate) pick: i64,
}

/// Leaves one alone for a while: one that did not run, or that a call waits for.
#[derive(Clone, Debug)]
pub(crate) struct Laid {
    pub(crate) approval: ApprovalId,
    /// How often it was taken up; if it was again since, this is of no account.
    pub(crate) pick: i64,
    pub(crate) wait_us: i64,
    /// Refused for good, under this.
    pub(crate) refused_under: Option<String>,
}

/// Asks the outbox and unpacks its answer.
macro_rules! ask {
    ($store:expr, $op:expr, $answer:path) => {{
        let answer = $store.writer.ask($op).await?;
        if let $answer(it) = answer { Ok(it) } else { Err(StoreError::Refused(format!("unfit answer {answer:?}"))) }
    }};
}

impl Store {
    /// Says which webhooks there are; whoever writes events learns of it with the next one.
    #[cfg(feature = "http")]
    pub(crate) async fn subscribe(&self, all: Vec<Subscriber>) -> Result<(), StoreError> {
        self.writer.ask(Op::Outbox(Outbox::Subscribe(all))).await.map(drop)
    }

    /// Claims what is due for a webhook: each for one process, until it is settled or the claim lapses.
    #[cfg(feature = "http")]
    pub(crate) async fn due(
        &self,
        webhook: &str,
        limit: usize,
        claim: std::time::Duration,
    ) -> Result<Vec<Due>, StoreError> {
        if !self.readers.is_due(webhook).await? {
            return Ok(Vec::new());
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let op = Outbox::Claim { webhook: webhook.to_owned(), limit, claim_us: micros(claim) };
        ask!(self, Op::Outbox(op), Answer::Due)
    }

    #[cfg(feature = "http")]
    pub(crate) async fn settle(&self, settled: Vec<Settlement>) -> Result<(), StoreError> {
        self.writer.ask(Op::Outbox(Outbox::Settle(settled))).await.map(drop)
    }

    #[cfg(feature = "http")]
    pub(crate) async fn disable_webhook(&self, webhook: &str) -> Result<(), StoreError> {
        self.writer.ask(Op::Outbox(Outbox::Disable { webhook: webhook.to_owned() })).await.map(drop)
    }

    /// Fires whenever this process wrote something that others are to be told of.
    #[cfg(feature = "http")]
    pub(crate) fn told(&self) -> tokio::sync::watch::Receiver<u64> {
        self.shared.told.subscribe()
    }

    /// Fires whenever a request was approved through this process.
    pub(crate) fn approved(&self) -> tokio::sync::watch::Receiver<u64> {
        self.shared.approved.subscribe()
    }

    /// How many dead letters are due again.
    #[cfg(feature = "cli")]
    pub(crate) async fn revive(&self, letters: Letters, by: &str) -> Result<usize, StoreError> {
        let done = self.operators("retry_notifications", by);
        ask!(self, Op::Outbox(Outbox::Revive(letters, done)), Answer::Letters)
    }

    /// How many dead letters are gone.
    #[cfg(feature = "cli")]
    pub(crate) async fn drop_letters(&self, letters: Letters, by: &str) -> Result<usize, StoreError> {
        let done = self.operators("drop_notifications", by);
        ask!(self, Op::Outbox(Outbox::Drop(letters, done)), Answer::Letters)
    }

    /// What an operator did, who sits at the database and is nobody in policies: appended if it was done to anything.
    #[cfg(feature = "cli")]
    fn operators(&self, action: &str, by: &str) -> Box<AuditEvent> {
        let actor = Actor::new(ActorKind::User, by.strip_prefix("cli:").unwrap_or(by)).issuer(by);
        let kind =
            EventKind::ManagementDone { action: action.into(), count: None, approval_id: None, execution_id: None };
        let envelope = Envelope::of(&Identity::new(actor));
        Box::new(AuditEvent { id: self.shared.ids.event(), at: self.shared.clock.now(), kind, envelope })
    }

    /// What waits to be delivered, the oldest first.
    #[cfg(feature = "cli")]
    pub(crate) async fn letters(
        &self,
        webhook: Option<&str>,
        state: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Letter>, StoreError> {
        self.readers.letters(webhook, state, limit).await
    }

    /// How full the outbox is. Reads all of it: not for every call.
    pub(crate) async fn backlog(&self) -> Result<Backlog, StoreError> {
        self.readers.backlog().await
    }

    /// Takes up approved requests of these capabilities, each for one process and for so long (APR-8).
    pub(crate) async fn pick(
        &self,
        of: Vec<Pick>,
        limit: usize,
        claim: std::time::Duration,
    ) -> Result<Vec<Picked>, StoreError> {
        if of.is_empty() || limit == 0 || !self.readers.can_pick(&of).await? {
            return Ok(Vec::new());
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        ask!(self, Op::Pick { of, limit, claim_us: micros(claim) }, Answer::Picked)
    }

    /// Leaves one alone for a while.
    pub(crate) async fn lay_down(&self, laid: Laid) -> Result<(), StoreError> {
        self.writer.ask(Op::LayDown(laid)).await.map(drop)
    }
}
