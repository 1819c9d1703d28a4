//! Consume the approval, reserve the key, write the trail so far: one transaction, the point of no return.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::approval::ApprovalState;
use crate::audit::{ApproverRef, EventKind};
use crate::capability::Governed;
use crate::clock::{Clock, micros};
use crate::id::Ids;
use crate::invocation::{AgentInvocationInfo, ConsumedApproval};
use crate::outcome::ErrorCode;
use crate::rejection::{Nature, Rejection};
use crate::slot::Slot;
use crate::stage::actor::Identified;
use crate::stage::approval::{Grant, code_of};
use crate::stage::schema::Valid;
use crate::store::op::{Began, Begin, Holder};
use crate::store::{Owner, Store};
use crate::trail::Trail;

/// The key is known: proof that leads to an answer, never to a run (IDM-1).
pub(crate) struct Known {
    pub(super) valid: Valid,
    pub(super) holder: Holder,
}

impl Known {
    pub(super) fn new(valid: Valid, holder: Holder) -> Self {
        Self { valid, holder }
    }
}

/// An execution on record, or a read whose record is committed with its end. [`crate::stage::record::finish`] ends it.
pub(crate) struct Begun {
    grant: Grant,
    agent: AgentInvocationInfo,
    /// Fires when the process loses the lease under which this began (EXE-1).
    lost: CancellationToken,
    /// The start of a read: stages 9 and 14 share one transaction.
    deferred: Option<EventKind>,
}

impl Begun {
    pub(crate) fn capability(&self) -> &Arc<Governed> {
        &self.grant.valid().exposed.capability
    }

    pub(crate) fn input(&self) -> &Arc<Value> {
        &self.grant.valid().input.value
    }

    pub(crate) fn slot(&self) -> Option<&Slot> {
        self.grant.slot()
    }

    pub(crate) fn agent(&self) -> &AgentInvocationInfo {
        &self.agent
    }

    pub(crate) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    pub(crate) fn cancel(&self) -> &CancellationToken {
        &self.grant.valid().exposed.identified.call().cancel
    }

    pub(crate) fn trace(&self) -> Option<&Arc<str>> {
        self.grant.valid().exposed.identified.call().trace.as_ref()
    }

    /// `capability.started` of a read, which is not yet on record.
    pub(super) fn deferred(&self) -> Option<&EventKind> {
        self.deferred.as_ref()
    }

    pub(crate) fn generation(&self) -> i64 {
        self.grant.valid().exposed.policies.generation
    }

    /// A trail that goes on after the first one ended.
    pub(crate) fn late_trail(&self, clock: &Clock, ids: &Ids) -> Trail {
        let call = self.grant.valid().exposed.identified.call();
        Trail::open(clock, ids, None, &call.execution, &call.identity)
    }

    /// What a failure means here.
    pub(crate) fn nature(&self) -> Nature {
        let capability = self.capability();
        Nature {
            read: capability.side_effect.is_read(),
            idempotent: capability.meta.idempotent,
            keyed: self.slot().is_some(),
            approved: self.agent.approval.is_some(),
        }
    }
}

/// What became of the wish to begin.
#[expect(clippy::large_enum_variant, reason = "moved once")]
pub(crate) enum Beginning {
    Begun(Begun),
    /// The key changed hands meanwhile.
    KeyTaken(Identified),
    /// Another policy set is active by now.
    PolicyChanged(Identified),
}

pub(crate) async fn begin(trail: &mut Trail, grant: Grant, store: &Store) -> Result<Beginning, Rejection> {
    let started = started(&grant);
    let mut agent = agent(trail, &grant);
    let Owner { instance, lost } = store.owner();
    let capability = &grant.valid().exposed.capability;
    if capability.side_effect.is_read() && grant.permit().presented.is_none() && grant.slot().is_none() {
        // Its commit would be refused, so it does not run: the active set is another one, and may deny it.
        if grant.valid().exposed.policies.generation != store.generation() {
            return Ok(Beginning::PolicyChanged(grant.into_identified()));
        }
        return Ok(Beginning::Begun(Begun { grant, agent, lost, deferred: Some(started) }));
    }
    match store.begin(operation(trail, &grant, &agent, instance, started, store)).await? {
        Began::Begun { fence } => {
            trail.written();
            agent.fence = fence;
            Ok(Beginning::Begun(Begun { grant, agent, lost, deferred: None }))
        }
        Began::KeyTaken => Ok(Beginning::KeyTaken(grant.into_identified())),
        Began::PolicyChanged => Ok(Beginning::PolicyChanged(grant.into_identified())),
        Began::ApprovalRefused { state, consumed_by } => {
            Err(Rejection::Approval { code: state.map_or(ErrorCode::ApprovalNotFound, refusal), consumed_by })
        }
    }
}

/// An approval that was approved a moment ago and is no more.
fn refusal(state: ApprovalState) -> ErrorCode {
    match state {
        ApprovalState::Approved => ErrorCode::ApprovalExpired, // at the instant itself (APR-11)
        other => code_of(other),
    }
}

fn started(grant: &Grant) -> EventKind {
    EventKind::Started {
        approval_id: grant.permit().presented.as_ref().map(|it| it.record.id.clone()),
        keyed: grant.slot().is_some(),
        policies: grant.permit().policies.clone(),
        governance: grant.valid().exposed.capability.digest.clone(),
    }
}

fn agent(trail: &Trail, grant: &Grant) -> AgentInvocationInfo {
    let exposed = &grant.valid().exposed;
    let call = exposed.identified.call();
    let approval = grant.permit().presented.as_ref().map(|it| ConsumedApproval {
        id: it.record.id.clone(),
        approvers: it.record.decisions.iter().map(|it| it.approver.clone()).collect::<Vec<ApproverRef>>(),
    });
    AgentInvocationInfo {
        execution_id: call.execution.clone(),
        capability_id: exposed.capability.id.clone(),
        surface: call.identity.surface,
        tenant: Arc::clone(&call.identity.tenant),
        actor: Arc::clone(exposed.identified.actor()),
        client: call.identity.client.clone(),
        approval,
        correlation_id: trail.envelope().correlation_id.clone(),
        idempotency_key: grant.slot().map_or_else(|| Slot::of_execution(&call.execution), |it| it.as_str().to_owned()),
        attempt: 1,
        fence: 1,
    }
}

fn operation(
    trail: &Trail,
    grant: &Grant,
    agent: &AgentInvocationInfo,
    instance: String,
    started: EventKind,
    store: &Store,
) -> Begin {
    let valid = grant.valid();
    let capability = &valid.exposed.capability;
    let approval = grant.permit().presented.as_ref().map(|it| it.record.id.clone());
    Begin {
        execution: agent.execution_id.clone(),
        tenant: agent.tenant.to_string(),
        capability: capability.id.to_string(),
        requester: agent.actor.party().folded(),
        slot: grant.slot().map(|it| it.as_str().to_owned()),
        input_hash: valid.input.hash.to_string(),
        given_hash: valid.input.given_hash.to_string(),
        instance,
        retake: capability.is_repeatable() && approval.is_none(),
        ttl_us: micros(capability.meta.idempotency.ttl),
        approval,
        input: store.seal(&agent.execution_id, valid.input.canonical.as_bytes()),
        agent: serde_json::to_string(agent).unwrap_or_default(), // plain data
        envelope: trail.envelope().clone(),
        generation: valid.exposed.policies.generation,
        events: trail.with(started),
        seen: trail.seen(),
    }
}
