//! Where requests for decisions are filed.

use std::sync::Arc;
use std::time::Duration;

use super::{Approval, Filed, Grant, code_of, ended, present};
use crate::ApprovalId;
use crate::approval::{ApprovalState, Binding, binding_hash};
use crate::audit::{AuditEvent, EventKind, Requirement};
use crate::caller::{Call, Presented};
use crate::capability::{Governed, SideEffect};
use crate::clock::{Timestamp, micros};
use crate::id::Ids;
use crate::outcome::ApprovalRequest;
use crate::policy::Gates;
use crate::rejection::Rejection;
use crate::slot::Slot;
use crate::stage::policy::Permit;
use crate::stage::schema::Valid;
use crate::store::Store;
use crate::store::op::{ApprovalRecord, File, Filed as Answer};
use crate::trail::Trail;

/// For how long a refused request answers repetitions (APR-9).
const REFUSAL_HOLDS: Duration = Duration::from_hours(24);

/// What a person is asked for.
pub(super) struct Ask {
    requirements: Vec<Requirement>,
    reasons: Vec<String>,
    expires_in: Duration,
    policies: Vec<crate::audit::PolicyRef>,
}

impl From<Gates> for Ask {
    fn from(gates: Gates) -> Self {
        let Gates { requirements, expires_in, reasons, policies } = gates;
        Self { requirements, reasons, expires_in, policies }
    }
}

/// Where requests are filed.
pub(super) struct Desk<'a> {
    pub(super) store: &'a Store,
    pub(super) ids: &'a Ids,
    /// Whether an inline approver will be asked, so that filing does not end the execution.
    pub(super) inline: bool,
}

impl Desk<'_> {
    /// An approval was presented. If it does not cover today's gates, or the capability grew more dangerous since, a
    /// new request with the full union of today's gates replaces it (APR-7).
    pub(super) async fn presented(
        &self,
        trail: &mut Trail,
        permit: Permit,
        presented: &Presented,
        slot: Option<Slot>,
    ) -> Result<Approval, Rejection> {
        let raised = is_raised(&permit.valid.exposed.capability, &presented.binding);
        if permit.gates.is_none() && !raised {
            return Ok(Approval::Granted(Grant { permit, slot }));
        }
        let ask = match permit.all_gates(trail)? {
            Some(gates) => gates.into(),
            None => Ask {
                requirements: presented.binding.requirements.clone(),
                reasons: presented.binding.reasons.clone(),
                expires_in: Duration::from_micros(u64::try_from(presented.binding.life_us).unwrap_or(0)),
                policies: permit.policies.clone(),
            },
        };
        self.file(trail, permit, &ask, slot, Some(presented.record.id.clone())).await
    }

    /// The same call was made before, under the same key (APR-9).
    pub(super) async fn repeated(
        &self,
        trail: &mut Trail,
        permit: Permit,
        record: ApprovalRecord,
        gates: Gates,
        slot: Option<Slot>,
    ) -> Result<Approval, Rejection> {
        let same_input = *record.input_hash == *permit.valid.input.hash;
        match record.state {
            ApprovalState::Pending | ApprovalState::Approved if !same_input => {
                self.file(trail, permit, &gates.into(), slot, Some(record.id)).await
            }
            ApprovalState::Approved => {
                let presented = present(record, self.store)?;
                if !presented.binding.requester.is_same_caller(&permit.valid.exposed.identified.call().identity) {
                    return self.file(trail, permit, &gates.into(), slot, None).await; // finds the open one (APR-8)
                }
                let permit = permit.present(trail, Arc::clone(&presented))?;
                self.presented(trail, permit, &presented, slot).await
            }
            ApprovalState::Rejected if still_holds(&record, trail.now()) => Err(ended(&record)),
            ApprovalState::Withdrawn
                if record.withdrawn_by.as_deref() == Some("requester") && still_holds(&record, trail.now()) =>
            {
                Err(ended(&record))
            }
            ApprovalState::Pending
            | ApprovalState::Rejected
            | ApprovalState::Withdrawn
            | ApprovalState::Expired
            | ApprovalState::Consumed => self.file(trail, permit, &gates.into(), slot, None).await,
        }
    }

    /// Puts the request and its event on record in one transaction, before anybody is asked (APR-1).
    pub(super) async fn file(
        &self,
        trail: &mut Trail,
        permit: Permit,
        ask: &Ask,
        slot: Option<Slot>,
        supersedes: Option<ApprovalId>,
    ) -> Result<Approval, Rejection> {
        let operation = self.filing(trail, &permit.valid, ask, slot.as_ref(), supersedes);
        let asked = operation.requested.kind.clone();
        match self.store.file(operation).await? {
            Answer::Filed { approval, existing, expires_at } => {
                trail.written();
                let request = self.request(&permit, ask, approval, existing, expires_at).await?;
                let unsuspended = self.inline.then(|| suspended(asked, &request));
                Ok(Approval::Waiting(Filed { request, unsuspended, permit }))
            }
            Answer::RateLimited => Err(Rejection::RateLimited),
            Answer::SupersededEnded { state, consumed_by } => {
                tracing::debug!(?state, "the approval ended while it was being replaced");
                Err(Rejection::Approval { code: code_of(state), consumed_by })
            }
        }
    }

    fn filing(
        &self,
        trail: &Trail,
        valid: &Valid,
        ask: &Ask,
        slot: Option<&Slot>,
        supersedes: Option<ApprovalId>,
    ) -> File {
        let call = valid.exposed.identified.call();
        let capability = &valid.exposed.capability;
        let id = self.ids.approval();
        let binding = binding(trail, valid, ask, &id);
        let life_us = binding.life_us;
        let text = binding.text();
        let bound = self.store.evidence(&call.identity.tenant, &binding_hash(&text));
        File {
            execution: call.execution.clone(),
            tenant: call.identity.tenant.to_string(),
            capability: capability.id.to_string(),
            requester: valid.exposed.identified.actor().party().folded(),
            slot: slot.map(|it| it.as_str().to_owned()),
            input_hash: valid.input.hash.to_string(),
            given_hash: valid.input.given_hash.to_string(),
            binding: text,
            binding_hash: bound.clone(),
            input: self.store.seal(&id, valid.input.canonical.as_bytes()),
            requirements: ask.requirements.clone(),
            life_us,
            supersedes,
            envelope: trail.envelope().clone(),
            events: trail.unwritten().to_vec(),
            seen: trail.seen(),
            requested: self.requested(trail, ask, &id, bound, life_us),
            approval: id,
        }
    }

    /// The store fills in whose id, and until when.
    fn requested(&self, trail: &Trail, ask: &Ask, id: &ApprovalId, binding_hash: String, life_us: i64) -> AuditEvent {
        trail.event(EventKind::ApprovalRequested {
            approval_id: id.clone(),
            binding_hash,
            reasons: ask.reasons.clone(),
            requirements: ask.requirements.clone(),
            expires_at: Timestamp(trail.now().0.saturating_add(life_us)),
            policies: ask.policies.clone(),
            existing: false,
            suspended: !self.inline,
        })
    }

    /// What the caller is told: of an existing request, what that one asks for.
    async fn request(
        &self,
        permit: &Permit,
        ask: &Ask,
        id: ApprovalId,
        existing: bool,
        expires_at: Timestamp,
    ) -> Result<ApprovalRequest, Rejection> {
        let (mut reasons, mut requirements) = (ask.reasons.clone(), ask.requirements.clone());
        if existing
            && let Some(record) = self.store.approval(&id).await?
            && let Ok(binding) = serde_json::from_str::<Binding>(&record.binding)
        {
            (reasons, requirements) = (binding.reasons, binding.requirements);
        }
        let types = requirements.into_iter().map(|it| it.kind).collect();
        Ok(ApprovalRequest { id, reasons, types, expires_at, input_hash: permit.valid.input.hash.to_string() })
    }
}

fn binding(trail: &Trail, valid: &Valid, ask: &Ask, id: &ApprovalId) -> Binding {
    let call: &Call = valid.exposed.identified.call();
    let capability = &valid.exposed.capability;
    Binding {
        approval_id: id.clone(),
        capability_id: capability.id.clone(),
        requester: (*call.identity).clone(),
        input_hash: valid.input.hash.to_string(),
        given_hash: valid.input.given_hash.to_string(),
        reasons: ask.reasons.clone(),
        requirements: ask.requirements.clone(),
        risk: capability.risk,
        side_effect: capability.side_effect,
        governance: capability.digest.clone(),
        idempotency_key: call.key.clone(),
        correlation_id: call.correlation.clone(),
        requested_at: trail.now(),
        life_us: micros(ask.expires_in),
    }
}

fn still_holds(record: &ApprovalRecord, now: Timestamp) -> bool {
    record.ended_at.is_some_and(|it| now < it.plus(REFUSAL_HOLDS))
}

/// Whether what would run is more dangerous than what was approved. An effect of another sort is.
fn is_raised(capability: &Governed, binding: &Binding) -> bool {
    let harmless = matches!(capability.side_effect, SideEffect::None | SideEffect::Read);
    capability.risk > binding.risk || (capability.side_effect != binding.side_effect && !harmless)
}

/// The event of an execution that an inline approver left waiting.
fn suspended(asked: EventKind, request: &ApprovalRequest) -> EventKind {
    match asked {
        EventKind::ApprovalRequested { binding_hash, reasons, requirements, policies, .. } => {
            EventKind::ApprovalRequested {
                approval_id: request.id.clone(),
                binding_hash,
                reasons,
                requirements,
                expires_at: request.expires_at,
                policies,
                existing: true,
                suspended: true,
            }
        }
        other => other,
    }
}
