//! Requests as they are stored: what they say, whether they still are what was bound, and what is shown of them.

use std::time::Duration;

use crate::actor::Identity;
use crate::approval::{ApprovalView, Binding, binding_hash};
use crate::audit::ApproverRef;
use crate::canonical;
use crate::outcome::ErrorCode;
use crate::pipeline::Core;
use crate::rejection::Rejection;
use crate::store::op::ApprovalRecord;
use crate::store::{Store, StoreError};

/// How long filing a request may take: its time to live counts from when it is stored.
const FILING: Duration = Duration::from_mins(1);

impl Core {
    /// An approval that was listed, and so came without its input.
    pub(crate) async fn with_input(&self, record: ApprovalRecord) -> Result<ApprovalRecord, StoreError> {
        let input = self.store.approval(&record.id).await?.and_then(|it| it.input);
        Ok(ApprovalRecord { input, ..record })
    }

    /// An approval in display form. `None` as the viewer is the operator, who has the database anyway.
    pub(crate) fn view(&self, record: &ApprovalRecord, viewer: Option<&Identity>) -> Result<ApprovalView, Rejection> {
        let binding = bound(record).ok_or(Rejection::approval(ErrorCode::ApprovalInputMismatch))?;
        let requester = binding.requester.actor().ok_or(Rejection::Internal("an approval without a requester"))?;
        let mine = viewer.is_none_or(|it| it.actor().map(crate::Actor::party) == Some(requester.party()));
        let capability = self.registry.get(&binding.capability_id);
        let input = opened(record, &self.store).ok().and_then(|it| serde_json::from_str(&it).ok());
        Ok(ApprovalView {
            id: record.id.clone(),
            status: record.state,
            side_effect: binding.side_effect,
            risk: binding.risk,
            tenant: record.tenant.clone(),
            surface: binding.requester.surface,
            requester: ApproverRef { id: requester.id.clone(), kind: requester.kind, issuer: requester.issuer.clone() },
            client: binding.requester.client.clone().map(|it| it.0),
            // Whoever is not registered any more has no display rules: then nothing is shown.
            input: capability.zip(input).map(|(capability, input)| capability.redact_for_display(input)),
            input_hash: binding.input_hash,
            reasons: binding.reasons,
            requirements: binding.requirements,
            decisions: record.decisions.clone(),
            requested_at: binding.requested_at,
            expires_at: record.expires_at,
            execution_id: record.consumed_by.clone().filter(|_| mine),
            capability_id: binding.capability_id,
        })
    }
}

/// What the stored request says, if it still parses. Not yet verified.
pub(crate) fn bound(record: &ApprovalRecord) -> Option<Binding> {
    serde_json::from_str(&record.binding).ok()
}

/// Recomputes what a decision binds: the request, the columns beside it, and the input (INV-5).
pub(crate) fn verified(record: &ApprovalRecord, store: &Store) -> Result<Binding, Rejection> {
    let mismatch = || Rejection::approval(ErrorCode::ApprovalInputMismatch);
    let binding = bound(record).ok_or_else(mismatch)?;
    let life = u64::try_from(binding.life_us).unwrap_or(0);
    let sound = store.evidence(&record.tenant, &binding_hash(&record.binding)) == record.binding_hash
        && binding.approval_id == record.id
        && *binding.requester.tenant == *record.tenant
        && *binding.capability_id == *record.capability
        && binding.requirements == record.requirements
        && binding.input_hash == record.input_hash
        && record.expires_at <= binding.requested_at.plus(Duration::from_micros(life)).plus(FILING);
    let input = opened(record, store)?;
    let hash = canonical::input_hash(&binding.capability_id, &input);
    if sound && *hash == *binding.input_hash { Ok(binding) } else { Err(mismatch()) }
}

/// The stored input. A seal that does not open is a mismatch (EXE-6).
pub(crate) fn opened(record: &ApprovalRecord, store: &Store) -> Result<String, Rejection> {
    let mismatch = || Rejection::approval(ErrorCode::ApprovalInputMismatch);
    let sealed = record.input.as_deref().ok_or_else(mismatch)?;
    let plain = store.open_sealed(&record.id, sealed).map_err(|_| mismatch())?;
    String::from_utf8(plain).map_err(|_| mismatch())
}
