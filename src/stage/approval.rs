//! Nobody needs to agree, or somebody did, or somebody is asked. The key is looked up first: what is known is answered.

use std::sync::Arc;
use std::time::Duration;

use crate::ApprovalId;
use crate::actor::SharedIdentity;
use crate::approval::{ApprovalState, Binding, Verdict, binding_hash};
use crate::audit::{AuditEvent, EventKind, Requirement};
use crate::caller::{Call, Presented};
use crate::capability::{Governed, SideEffect};
use crate::clock::{Timestamp, micros};
use crate::deciding::{Standing, standing, verified};
use crate::id::Ids;
use crate::outcome::{ApprovalRequest, ErrorCode};
use crate::policy::{Gates, ManageAction};
use crate::rejection::Rejection;
use crate::slot::Slot;
use crate::stage::actor::Identified;
use crate::stage::idempotency::Known;
use crate::stage::policy::Permit;
use crate::stage::schema::Valid;
use crate::store::Store;
use crate::store::op::{ApprovalRecord, File, Filed as Answer, Holder, HolderState};
use crate::trail::Trail;

/// For how long a refused request answers repetitions (APR-9).
const REFUSAL_HOLDS: Duration = Duration::from_hours(24);

/// A permitted call whose approval, if it needs one, was given. Not yet consumed: beginning does that.
pub(crate) struct Grant {
    permit: Permit,
    slot: Option<Slot>,
}

impl Grant {
    pub(crate) fn valid(&self) -> &Valid {
        &self.permit.valid
    }

    pub(crate) fn permit(&self) -> &Permit {
        &self.permit
    }

    pub(crate) fn slot(&self) -> Option<&Slot> {
        self.slot.as_ref()
    }

    pub(crate) fn identity(&self) -> &SharedIdentity {
        &self.permit.valid.exposed.identified.call().identity
    }

    /// The procedure's place in the registry.
    pub(crate) fn handler(&self) -> usize {
        self.permit.valid.exposed.capability.handler
    }

    /// Back to an earlier stage, with what was presented: something changed meanwhile.
    pub(super) fn into_identified(self) -> Identified {
        let Permit { valid, presented, .. } = self.permit;
        valid.exposed.identified.presenting(presented)
    }
}

/// A request for a decision that is on record.
pub(crate) struct Filed {
    pub(super) request: ApprovalRequest,
    /// The event of the suspension, if filing did not already end the execution.
    pub(super) unsuspended: Option<EventKind>,
    permit: Permit,
}

impl Filed {
    pub(crate) fn id(&self) -> &ApprovalId {
        &self.request.id
    }

    /// An inline approver decided: the same execution goes on, with the approval presented.
    pub(crate) async fn decided(self, trail: &mut Trail, store: &Store) -> Result<Result<Permit, Self>, Rejection> {
        let record = store.approval(self.id()).await?.ok_or(Rejection::approval(ErrorCode::ApprovalNotFound))?;
        match record.state {
            ApprovalState::Pending => Ok(Err(self)),
            ApprovalState::Approved => {
                let presented = present(record, store)?;
                // Filing may have found the open request of the same call over another surface or client (APR-8).
                if !presented.binding.requester.is_same_caller(&self.permit.valid.exposed.identified.call().identity) {
                    return Ok(Err(self));
                }
                self.permit.present(trail, presented).map(Ok)
            }
            ApprovalState::Rejected | ApprovalState::Expired | ApprovalState::Withdrawn | ApprovalState::Consumed => {
                Err(ended(&record))
            }
        }
    }
}

/// What became of the need for approval. Moved once, so that a box would only cost an allocation.
#[expect(clippy::large_enum_variant, reason = "moved once")]
pub(crate) enum Approval {
    Granted(Grant),
    Known(Known),
    Waiting(Filed),
}

impl Approval {
    /// The word for it, and which approval it is about.
    pub(crate) fn told(&self) -> (&'static str, Option<&ApprovalId>) {
        match self {
            Self::Granted(grant) => match &grant.permit.presented {
                Some(presented) => ("approved", Some(&presented.record.id)),
                None => ("not_needed", None),
            },
            Self::Known(_) => ("known", None),
            Self::Waiting(filed) => ("waiting", Some(filed.id())),
        }
    }
}

pub(crate) async fn settle(
    trail: &mut Trail,
    permit: Permit,
    store: &Store,
    ids: &Ids,
    inline: bool,
) -> Result<Approval, Rejection> {
    let slot = slot(&permit);
    if let Some(slot) = &slot
        && let Some(holder) = store.holder(slot.as_str()).await?
        && (holder.state != HolderState::Retakable || !is_same(&holder, &permit))
    {
        return Ok(Approval::Known(Known::new(permit.valid, holder)));
    }
    let desk = Desk { store, ids, inline };
    if let Some(presented) = permit.presented.clone() {
        return desk.presented(trail, permit, &presented, slot).await;
    }
    let Some(gates) = permit.gates.clone() else {
        return Ok(Approval::Granted(Grant { permit, slot }));
    };
    let Some(open) = slot.as_ref() else {
        return desk.file(trail, permit, &gates.into(), slot, None).await;
    };
    let input = &permit.valid.input;
    let Some(record) = store.approval_of_call(open.as_str(), &input.hash, &input.given_hash).await? else {
        return desk.file(trail, permit, &gates.into(), slot, None).await;
    };
    desk.repeated(trail, permit, record, gates, slot).await
}

/// Whether the holder is this very call. A lapsed execution is taken over by its own call only.
fn is_same(holder: &Holder, permit: &Permit) -> bool {
    let input = &permit.valid.input;
    *holder.input_hash == *input.hash || *holder.given_hash == *input.given_hash
}

/// The key's name in the store, if the call has one and it counts.
fn slot(permit: &Permit) -> Option<Slot> {
    let exposed = &permit.valid.exposed;
    let call = exposed.identified.call();
    let key = call.key.as_ref().filter(|_| exposed.capability.uses_keys())?;
    Some(Slot::new(&call.identity, &exposed.capability.id, key))
}

/// What a person is asked for.
struct Ask {
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
struct Desk<'a> {
    store: &'a Store,
    ids: &'a Ids,
    /// Whether an inline approver will be asked, so that filing does not end the execution.
    inline: bool,
}

impl Desk<'_> {
    /// An approval was presented. If it does not cover today's gates, or the capability grew more dangerous since, a
    /// new request with the full union of today's gates replaces it (APR-7).
    async fn presented(
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
    async fn repeated(
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
    async fn file(
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

/// Checks that the stored request still is what was bound and that others than the requester agreed, people all of them
/// (INV-4: when running, too), and makes it presentable.
pub(crate) fn present(record: ApprovalRecord, store: &Store) -> Result<Arc<Presented>, Rejection> {
    let binding = verified(&record, store)?;
    for decision in record.decisions.iter().filter(|it| it.verdict == Verdict::Approve) {
        let approver = decision.approver.identity().tenant(binding.requester.tenant_name());
        match standing(ManageAction::Approve, &approver, &binding.requester) {
            Standing::Asked => {}
            Standing::Own => return Err(Rejection::approval(ErrorCode::ApprovalSelfApproval)),
            Standing::NoPerson | Standing::Granted | Standing::Foreign | Standing::NotRequester => {
                return Err(Rejection::approval(ErrorCode::ApprovalInputMismatch));
            }
        }
    }
    Ok(Arc::new(Presented { record, binding }))
}

/// Why an approval that is not open lets nothing run.
pub(crate) fn ended(record: &ApprovalRecord) -> Rejection {
    Rejection::Approval { code: code_of(record.state), consumed_by: record.consumed_by.clone() }
}

pub(crate) fn code_of(state: ApprovalState) -> ErrorCode {
    match state {
        ApprovalState::Pending => ErrorCode::ApprovalPending,
        ApprovalState::Approved => ErrorCode::ApprovalAlreadyDecided,
        ApprovalState::Rejected => ErrorCode::ApprovalRejected,
        ApprovalState::Expired => ErrorCode::ApprovalExpired,
        ApprovalState::Withdrawn => ErrorCode::ApprovalWithdrawn,
        ApprovalState::Consumed => ErrorCode::ApprovalConsumed,
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
