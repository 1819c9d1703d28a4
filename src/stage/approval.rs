//! Nobody needs to agree, or somebody did, or somebody is asked. The key is looked up first: what is known is answered.

mod desk;

use std::sync::Arc;

use self::desk::Desk;
use crate::ApprovalId;
use crate::actor::SharedIdentity;
use crate::approval::{ApprovalState, Verdict};
use crate::audit::EventKind;
use crate::caller::Presented;
use crate::deciding::{Standing, standing, verified};
use crate::id::Ids;
use crate::outcome::{ApprovalRequest, ErrorCode};
use crate::policy::ManageAction;
use crate::rejection::Rejection;
use crate::slot::Slot;
use crate::stage::actor::Identified;
use crate::stage::idempotency::Known;
use crate::stage::policy::Permit;
use crate::stage::schema::Valid;
use crate::store::Store;
use crate::store::op::{ApprovalRecord, Holder, HolderState};
use crate::trail::Trail;

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
