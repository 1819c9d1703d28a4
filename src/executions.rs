//! Executions after the fact: their state, and settling those of which nobody knows whether they happened (EXE-7).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::actor::Identity;
use crate::audit::{AuditEvent, EventKind, ReconciledBy};
use crate::caller::{Call, JsonInput};
use crate::clock::Timestamp;
use crate::deciding::{Attempts, Standing, actor_of, opened, standing};
use crate::invocation::AgentInvocationInfo;
use crate::outcome::{Detail, Error, ErrorCode};
use crate::pipeline::Core;
use crate::policies::Loaded;
use crate::policy::{ManageAction, Managed};
use crate::rejection::Rejection;
use crate::schema::Refused;
use crate::stage::policy::Permit;
use crate::stage::redaction::Stored;
use crate::stage::{Stage, actor, exposure, policy, redaction, schema};
use crate::store::op::{End, ExecutionRecord, HolderState, Reconcile};
use crate::store::{EventFilter, Readers, StoreError};
use crate::trail::{Trail, hashed, is_locator};
use crate::{ApprovalId, CapabilityId, ExecutionId, Output};

/// Executions as one party sees them.
#[derive(Clone)]
pub struct Executions {
    pub(crate) core: Arc<Core>,
    pub(crate) identity: Identity,
    /// Who vouches for whoever settles, for the record.
    pub(crate) issuer: Option<String>,
}

/// Where an execution stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionStatus {
    /// It has begun, and its owner is alive.
    Running,
    /// It has an output.
    Completed,
    /// It was refused or it failed.
    Failed,
    /// It was stopped before anything happened.
    Cancelled,
    /// It waits for a decision.
    Waiting,
    /// It may have taken effect, and nobody knows: settle it.
    Unknown,
    /// Nothing happened, or repeating it does no harm.
    NotExecuted,
}

/// An execution as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionView {
    /// Its id.
    pub id: ExecutionId,
    /// Where it stands.
    pub status: ExecutionStatus,
    /// What was called; absent if the name asked for follows no grammar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability_id: Option<CapabilityId>,
    /// Whose data it is about.
    pub tenant: String,
    /// On whose behalf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<crate::ActorRef>,
    /// The approval that it consumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    /// When it was asked for or began.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// What an unknown execution is settled to.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolution {
    /// It happened; repetitions get this output, redacted as today.
    Completed(Option<Value>),
    /// It happened and failed, or is to be treated so.
    Failed,
    /// It did not happen: the key is free again. Refused while the owner may still be at it.
    NotExecuted,
}

impl Executions {
    /// One execution, if this party asked for it or may read the audit trail.
    ///
    /// # Errors
    /// `CAPABILITY_NOT_FOUND` if there is none that this party may know of.
    pub async fn show(&self, id: &str) -> Result<ExecutionView, Error> {
        self.try_show(id).await.map_err(|it| it.face())
    }

    /// Settles an execution of which nobody knows whether it happened.
    ///
    /// # Errors
    /// `CAPABILITY_NOT_FOUND` if there is none that this party may know of; `POLICY_DENIED` without a permit for the
    /// Cedar action `reconcile`, and always for its requester; `IDEMPOTENCY_IN_PROGRESS` while it still runs;
    /// `APPROVAL_ALREADY_DECIDED` if it is settled.
    pub async fn resolve(&self, id: &str, to: Resolution) -> Result<ExecutionView, Error> {
        let mut attempts = Attempts::default();
        loop {
            let policies = self.core.ruling().await;
            let done = self.try_resolve(&policies, id, to.clone()).await;
            if !attempts.is_last(&done) {
                continue;
            }
            return match done {
                Ok(view) => Ok(view),
                Err(rejection) => Err(self.denied(&policies, id, rejection).await),
            };
        }
    }

    /// What a completed execution answered: to its requester only, and only if the same call would be allowed today
    /// (EXE-11: stages 3 to 7 pass for the stored request, redacted as today). So it is there while an answer is kept,
    /// which takes an idempotency key, and while its request is, which ends 24 h after the end of its approval; a call that
    /// needed no approval is simply made again with its key.
    ///
    /// # Errors
    /// As for [`Self::show`].
    pub async fn output(&self, id: &str) -> Result<Option<Output>, Error> {
        self.try_output(id).await.map_err(|it| it.face())
    }

    async fn try_output(&self, id: &str) -> Result<Option<Output>, Rejection> {
        let actor = actor_of(&self.identity)?;
        let record = if is_locator(id) { self.core.store.execution(&id.into()).await? } else { None };
        let Some(record) = record.filter(|it| *it.tenant == *self.identity.tenant) else { return Ok(None) };
        let requester = record.envelope.actor.as_ref();
        let mine = requester.is_some_and(|it| it.id == actor.id && it.issuer == actor.issuer);
        if mine { self.core.output_today(&self.identity, &record).await } else { Ok(None) }
    }

    async fn try_show(&self, id: &str) -> Result<ExecutionView, Rejection> {
        let actor = actor_of(&self.identity)?;
        let view = self.core.execution_view(id).await?.ok_or(Rejection::ExecutionNotFound)?;
        let same_tenant = *view.tenant == *self.identity.tenant;
        let mine = view.actor.as_ref().is_some_and(|it| it.id == actor.id && it.issuer == actor.issuer);
        if same_tenant && (mine || self.may_read().await) { Ok(view) } else { Err(Rejection::ExecutionNotFound) }
    }

    async fn may_read(&self) -> bool {
        self.core.reading(ManageAction::ReadAudit, &self.identity).await.1.is_ok()
    }

    async fn try_resolve(&self, policies: &Loaded, id: &str, to: Resolution) -> Result<ExecutionView, Rejection> {
        actor_of(&self.identity)?;
        self.core.check_active(policies)?;
        let record = if is_locator(id) { self.core.store.execution(&id.into()).await? } else { None };
        let record = record.filter(|it| *it.tenant == *self.identity.tenant).ok_or(Rejection::ExecutionNotFound)?;
        let agent: AgentInvocationInfo =
            serde_json::from_str(&record.agent).map_err(|_| Rejection::Internal("an execution without its caller"))?;
        let requester = Identity::new((*agent.actor).clone()).tenant(agent.tenant);
        let allowed = self.core.may(&policies.set, ManageAction::Reconcile, &Managed::Engine, &self.identity);
        allowed.map_err(Rejection::management)?;
        if standing(ManageAction::Reconcile, &self.identity, &requester) != Standing::Asked {
            let reason = Some("Nobody settles their own execution.".into());
            return Err(Rejection::PolicyDenied { reason, policies: Vec::new() });
        }
        let (end, outcome) = self.core.settlement(&record, to)?;
        let done = EventKind::ManagementDone {
            action: ManageAction::Reconcile.as_str().into(),
            count: None,
            approval_id: None,
            execution_id: Some(id.to_owned()),
        };
        let operation = Reconcile {
            execution: record.id.clone(),
            slot: record.slot.clone(),
            end,
            outcome,
            by: ReconciledBy::Operator,
            generation: policies.deciding(),
            events: vec![self.event(policies, done)],
        };
        let settled = self.core.store.reconcile(operation).await?.ok_or(Rejection::PolicyUnstable)?;
        match (settled.applied, settled.late) {
            (true, _) => self.core.execution_view(id).await?.ok_or(Rejection::ExecutionNotFound),
            // It runs, or its owner lives and could still say otherwise (EXE-7).
            (false, false) => Err(Rejection::InProgress),
            (false, true) => Err(Rejection::approval(ErrorCode::ApprovalAlreadyDecided)),
        }
    }

    async fn denied(&self, policies: &Loaded, id: &str, rejection: Rejection) -> Error {
        if let Rejection::Audit(_) = rejection {
            return rejection.face(); // it may have been done: a denial on record would say that it was not (EXE-8)
        }
        let denied = EventKind::ManagementDenied {
            action: ManageAction::Reconcile.as_str().into(),
            approval_id: None,
            execution_id: Some(if is_locator(id) { id.to_owned() } else { hashed(id) }),
            code: rejection.code(),
        };
        match self.core.store.append(vec![self.event(policies, denied)]).await {
            Ok(()) => rejection.face(),
            Err(error) => Rejection::from(error).face(),
        }
    }

    /// Whoever vouched for the actor, else who sits there.
    fn event(&self, policies: &Loaded, kind: EventKind) -> AuditEvent {
        let mut event = self.core.management_event(&policies.set, &self.identity, kind);
        if let Some(actor) = &mut event.envelope.actor {
            actor.issuer = actor.issuer.take().or_else(|| self.issuer.clone());
        }
        event
    }
}

/// What the store keeps of an execution; of refusals and reads, what the trail says.
pub(crate) async fn execution_view(records: &Readers, id: &str) -> Result<Option<ExecutionView>, StoreError> {
    if !is_locator(id) {
        return Ok(None);
    }
    if let Some(record) = records.execution(&id.into()).await? {
        return Ok(Some(view_of(record)));
    }
    let filter = EventFilter { execution: Some(id.to_owned()), ..EventFilter::default() };
    let events = records.events(&filter, 200).await?;
    let events = events.iter().filter_map(|(_, body)| serde_json::from_str::<AuditEvent>(body).ok());
    Ok(told_by(id, &events.collect::<Vec<_>>()))
}

/// Executions that began, the latest first, older than `before`: for operators.
#[cfg(feature = "cli")]
pub(crate) async fn execution_views(
    records: &Readers,
    status: Option<ExecutionStatus>,
    before: Option<&str>,
    limit: usize,
) -> Result<Vec<ExecutionView>, StoreError> {
    let state = status.map(|it| match it {
        ExecutionStatus::Running => "running",
        ExecutionStatus::Completed => "completed",
        ExecutionStatus::Failed => "failed",
        ExecutionStatus::Unknown => "unknown",
        ExecutionStatus::NotExecuted | ExecutionStatus::Cancelled => "free",
        ExecutionStatus::Waiting => "none", // it has not begun
    });
    let records = records.executions(state, before, limit).await?;
    Ok(records.into_iter().map(view_of).collect())
}

impl Core {
    /// What an execution answered, if its stored request passes stages 3 to 7 today (EXE-11). Nothing of this is on record:
    /// it is a look, and runs nothing.
    pub(crate) async fn output_today(
        &self,
        identity: &Identity,
        record: &ExecutionRecord,
    ) -> Result<Option<Output>, Rejection> {
        let (Some(slot), Some(approval)) = (&record.slot, &record.approval) else { return Ok(None) };
        let holder = self.store.holder(slot).await?.filter(|it| it.execution == record.id);
        let completed = holder.filter(|it| it.state == HolderState::Completed).and_then(|it| it.outcome);
        let request = self.store.approval(approval).await?;
        let input = request.and_then(|it| opened(&it, &self.store).ok());
        let (Some(text), Some(input)) = (completed, input) else { return Ok(None) };
        let call = Call {
            execution: record.id.clone(),
            identity: Arc::new(identity.clone()),
            capability: Some(record.capability.as_str().into()),
            input: JsonInput::text(input),
            key: None,
            correlation: None,
            trace: None,
            presented: None,
            cancel: CancellationToken::new(),
        };
        let mut trail = Trail::open(&self.clock, &self.ids, None, &record.id, identity);
        self.store.active().await?; // whoever lost the right since this process last heard has lost it
        let policies = self.ruling().await;
        self.check_active(&policies)?;
        let permit = async {
            let identified = actor::require(trail.at(Stage::Actor), call)?;
            let exposed = exposure::find(trail.at(Stage::Resolve), identified, &self.registry, policies)?;
            let valid = schema::validate(trail.at(Stage::Schema), exposed, &self.store)?;
            policy::decide(trail.at(Stage::Policy), valid, &self.resources).await
        };
        Ok(permit.await.ok().and_then(|it: Permit| redaction::shown(&it, &text)))
    }

    /// See [`execution_view`].
    pub(crate) async fn execution_view(&self, id: &str) -> Result<Option<ExecutionView>, StoreError> {
        execution_view(self.store.readers(), id).await
    }

    /// What repetitions are answered with after a resolution.
    pub(crate) fn settlement(
        &self,
        record: &ExecutionRecord,
        to: Resolution,
    ) -> Result<(End, Option<String>), Rejection> {
        let capability = self.registry.get(&record.capability).ok_or(Rejection::ExecutionNotFound)?;
        Ok(match to {
            Resolution::NotExecuted => (End::Free, None),
            Resolution::Failed => (End::Failed, Some(Stored::seal_failure(&Error::unexplained()))),
            Resolution::Completed(None) => (End::Completed, Some(Stored::seal_nothing())),
            Resolution::Completed(Some(output)) => {
                let sealed = Stored::seal_settled(capability, output).map_err(|_| bad_output())?;
                (End::Completed, Some(sealed))
            }
        })
    }
}

fn view_of(record: ExecutionRecord) -> ExecutionView {
    let status = match record.state.as_str() {
        "completed" => ExecutionStatus::Completed,
        "failed" => ExecutionStatus::Failed,
        "free" => ExecutionStatus::NotExecuted,
        "running" if record.lease_valid => ExecutionStatus::Running,
        _ => ExecutionStatus::Unknown,
    };
    ExecutionView {
        id: record.id,
        status,
        capability_id: record.envelope.capability_id,
        tenant: record.tenant,
        actor: record.envelope.actor,
        approval_id: record.approval,
        started_at: record.started_at,
        ended_at: record.ended_at,
    }
}

fn told_by(id: &str, events: &[AuditEvent]) -> Option<ExecutionView> {
    let first = events.first()?;
    let last = events.iter().find(|it| it.kind.is_terminal()).unwrap_or(first);
    let status = match &last.kind {
        EventKind::Completed { .. } | EventKind::Replayed { .. } => ExecutionStatus::Completed,
        EventKind::ApprovalRequested { .. } => ExecutionStatus::Waiting,
        EventKind::Cancelled { .. } => ExecutionStatus::Cancelled,
        _ => ExecutionStatus::Failed,
    };
    Some(ExecutionView {
        id: id.into(),
        status,
        capability_id: last.envelope.capability_id.clone(),
        tenant: first.envelope.tenant.clone(),
        actor: first.envelope.actor.clone(),
        approval_id: None,
        started_at: first.at,
        ended_at: last.kind.is_terminal().then_some(last.at),
    })
}

fn bad_output() -> Rejection {
    let detail = Detail::Input { path: "/output".into(), keyword: "schema".into(), nearest: None };
    Rejection::InputInvalid(Refused { outward: vec![detail], paths: vec!["/output".into()], well_formed: true })
}
