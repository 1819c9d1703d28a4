//! Rows of the store as the engine reads them.

use sqlx::FromRow;

use super::job::SeenRow;
use super::op::{ApprovalRecord, ExecutionRecord, SeenRecord};
use super::seal::{Key, SealError};
use crate::approval::{ApprovalState, DecisionRecord, Verdict};
use crate::clock::Timestamp;

/// [`super::sql::EXECUTIONS`].
#[derive(FromRow)]
pub(super) struct ExecutionRow {
    id: String,
    tenant: String,
    capability: String,
    slot: Option<String>,
    state: String,
    lease_valid: bool,
    approval_id: Option<String>,
    input: Option<String>,
    agent: String,
    envelope: String,
    started_at: i64,
    ended_at: Option<i64>,
    pub(super) tries: i64,
}

impl ExecutionRow {
    pub(super) fn record(self) -> Result<ExecutionRecord, sqlx::Error> {
        Ok(ExecutionRecord {
            id: self.id.into(),
            tenant: self.tenant,
            capability: self.capability,
            slot: self.slot,
            state: self.state,
            lease_valid: self.lease_valid,
            approval: self.approval_id.map(Into::into),
            input: self.input,
            agent: self.agent,
            envelope: parse(&self.envelope)?,
            started_at: Timestamp(self.started_at),
            ended_at: self.ended_at.map(Timestamp),
        })
    }
}

/// A row of [`super::read`]'s approval statements.
#[derive(FromRow)]
pub(super) struct ApprovalRow {
    pub(super) id: String,
    tenant: String,
    capability: String,
    input_hash: String,
    binding: String,
    binding_hash: String,
    input: Option<String>,
    requirements: String,
    state: String,
    withdrawn_by: Option<String>,
    expires_at: i64,
    approved_at: Option<i64>,
    ended_at: Option<i64>,
    consumed_by: Option<String>,
}

impl ApprovalRow {
    pub(super) fn record(self, decisions: Vec<DecisionRecord>) -> Result<ApprovalRecord, sqlx::Error> {
        Ok(ApprovalRecord {
            id: self.id.into(),
            tenant: self.tenant,
            capability: self.capability,
            input_hash: self.input_hash,
            binding: self.binding,
            binding_hash: self.binding_hash,
            input: self.input,
            requirements: parse(&self.requirements)?,
            state: ApprovalState::parse(&self.state).ok_or_else(|| unreadable(&self.state))?,
            withdrawn_by: self.withdrawn_by,
            expires_at: Timestamp(self.expires_at),
            ended_at: self.ended_at.map(Timestamp),
            consumed_by: self.consumed_by.map(Into::into),
            decisions,
            approved_at: self.approved_at.map(Timestamp),
        })
    }
}

/// execution, place, tenant, capability, policy hash, decided at, sealed.
pub(super) type SeenColumns = (String, i64, String, String, String, i64, String);

pub(super) fn seen_record(columns: SeenColumns, key: &Key) -> SeenRecord {
    let (execution, place, tenant, capability, policy_hash, decided_at, sealed) = columns;
    let opened = key.open(&SeenRow::id(&execution, place), &sealed);
    let facts = opened.and_then(|it| serde_json::from_slice(&it).map_err(|_| SealError));
    let decided_at = Timestamp(decided_at);
    SeenRecord { execution: execution.into(), place, tenant, capability, policy_hash, decided_at, facts }
}

#[derive(FromRow)]
pub(super) struct DecisionRow {
    pub(super) approval_id: String,
    approver: String,
    #[sqlx(rename = "type")]
    kind: String,
    verdict: String,
    via: String,
    at: i64,
}

impl DecisionRow {
    pub(super) fn record(self) -> Result<DecisionRecord, sqlx::Error> {
        let verdict = [Verdict::Approve, Verdict::Reject].into_iter().find(|it| it.as_str() == self.verdict);
        Ok(DecisionRecord {
            approver: parse(&self.approver)?,
            kind: self.kind,
            verdict: verdict.ok_or_else(|| unreadable(&self.verdict))?,
            via: self.via,
            at: Timestamp(self.at),
        })
    }
}

/// [`super::sql::OUTBOX`].
#[cfg(feature = "cli")]
#[derive(FromRow)]
pub(super) struct LetterRow {
    event: String,
    webhook: String,
    topic: String,
    tenant: String,
    execution: Option<String>,
    approval: Option<String>,
    created_at: i64,
    state: String,
    attempts: i64,
    next_at: i64,
    failure: Option<String>,
}

#[cfg(feature = "cli")]
impl LetterRow {
    pub(super) fn letter(self) -> super::outbox::Letter {
        super::outbox::Letter {
            id: self.event,
            webhook: self.webhook,
            topic: self.topic,
            tenant: self.tenant,
            execution_id: self.execution,
            approval_id: self.approval,
            created_at: Timestamp(self.created_at),
            next_at: (self.state == "due").then_some(Timestamp(self.next_at)),
            state: self.state,
            attempts: self.attempts,
            failure: self.failure,
        }
    }
}

fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, sqlx::Error> {
    serde_json::from_str(text).map_err(|it| sqlx::Error::Decode(it.into()))
}

pub(super) fn unreadable(text: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("`{text}` is not a state").into())
}
