//! Decisions on record, and the calls behind them as questions, where their input is still sealed in the store: in the
//! decision records of capabilities that keep them, while an approval is kept, and while an execution is not settled.
//! Events hold hashes only (INV-9).

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::judge::{Question, Word};
use crate::actor::{Client, Identity, Surface};
use crate::audit::{ActorRef, AuditEvent, DenialReason, EventKind, PolicyError, PolicyRef, Requirement};
use crate::caller::{JsonInput, Presented};
use crate::clock::Timestamp;
use crate::deciding::{bound, opened};
use crate::pipeline::Core;
use crate::seen::{Facts, Said};
use crate::stage::policy::covers;
use crate::store::op::SeenRecord;
use crate::store::{EventFilter, StoreError};
use crate::{ApprovalId, CapabilityId, ErrorCode};

/// More events than one execution has.
const EVENTS: usize = 500;

/// What the trail says about the decision of one execution.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Recorded {
    pub(crate) execution: String,
    pub(crate) at: Timestamp,
    pub(crate) actor: Option<ActorRef>,
    pub(crate) tenant: String,
    pub(crate) surface: Surface,
    pub(crate) client: Option<Client>,
    pub(crate) capability: Option<CapabilityId>,
    /// In the words of a ruling; absent if the execution ended before it was decided.
    #[serde(skip)]
    pub(crate) word: Option<Word>,
    /// Whether it was as if the capability were not there.
    #[serde(skip)]
    pub(super) concealed: bool,
    /// Whether an approval was presented.
    #[serde(skip)]
    pub(super) presented: bool,
    /// Of a request for an approval.
    #[serde(skip)]
    pub(super) requirements: Vec<Requirement>,
    pub(crate) policies: Vec<PolicyRef>,
    pub(crate) errors: Vec<PolicyError>,
    /// The set that decided.
    pub(crate) policy_hash: Option<String>,
}

/// The decision of an execution, and its question if that can be asked again.
pub(crate) async fn recorded(core: &Core, execution: &str) -> Result<Option<(Recorded, Option<Question>)>, StoreError> {
    let filter = EventFilter { execution: Some(execution.to_owned()), ..EventFilter::default() };
    let events = core.store.events(&filter, EVENTS).await?;
    let events: Vec<AuditEvent> = events.iter().filter_map(|(_, body)| serde_json::from_str(body).ok()).collect();
    let Some(decision) = events.iter().rfind(|it| decides(&it.kind)).or(events.first()) else { return Ok(None) };
    let question = question_of(core, execution, decision).await?;
    Ok(Some((told(execution, decision), question)))
}

/// The question of one decision, if that can be asked again.
pub(super) async fn question_of(
    core: &Core,
    execution: &str,
    decision: &AuditEvent,
) -> Result<Option<Question>, StoreError> {
    match kept(core, execution, &decision.kind).await? {
        Some(question) => Ok(Some(question)),
        None => question(core, execution, decision).await,
    }
}

fn decides(kind: &EventKind) -> bool {
    match kind {
        EventKind::Denied { .. } | EventKind::ApprovalRequested { .. } | EventKind::Started { .. } => true,
        EventKind::Failed { code, .. } => *code == ErrorCode::InputInvalid,
        _ => false,
    }
}

pub(super) fn told(execution: &str, event: &AuditEvent) -> Recorded {
    let (word, policies, errors) = match &event.kind {
        EventKind::Denied { reason, policies, errors, .. } => {
            let word = match reason {
                DenialReason::Hidden => Word::Hidden,
                DenialReason::Unknown | DenialReason::NotExposed => Word::Unexposed,
                DenialReason::PolicyDenied => Word::Deny,
                DenialReason::PolicyFailed => Word::Failed,
            };
            (Some(word), policies.clone(), errors.clone())
        }
        EventKind::ApprovalRequested { requirements, policies, .. } => {
            let types = requirements.iter().map(|it| it.kind.clone()).collect();
            (Some(Word::Approval(types)), policies.clone(), Vec::new())
        }
        EventKind::Started { policies, .. } => (Some(Word::Allow), policies.clone(), Vec::new()),
        EventKind::Failed { .. } => (Some(Word::Invalid), Vec::new(), Vec::new()),
        _ => (None, Vec::new(), Vec::new()),
    };
    let requirements = match &event.kind {
        EventKind::ApprovalRequested { requirements, .. } => requirements.clone(),
        _ => Vec::new(),
    };
    let envelope = event.envelope.clone();
    Recorded {
        execution: execution.to_owned(),
        at: event.at,
        actor: envelope.actor,
        tenant: envelope.tenant,
        surface: envelope.surface,
        client: envelope.client,
        capability: envelope.capability_id,
        word,
        concealed: matches!(event.kind, EventKind::Denied { public_code: ErrorCode::CapabilityNotFound, .. }),
        presented: matches!(event.kind, EventKind::Started { approval_id: Some(_), .. }),
        requirements,
        policies,
        errors,
        policy_hash: envelope.policy_hash,
    }
}

/// From what is kept of the last decision of this execution that came out so: exactly what policies saw.
async fn kept(core: &Core, execution: &str, kind: &EventKind) -> Result<Option<Question>, StoreError> {
    let said = match kind {
        EventKind::Started { .. } => Said::Allow,
        EventKind::ApprovalRequested { .. } => Said::RequireApproval,
        EventKind::Denied { reason: DenialReason::PolicyFailed, .. } => Said::Failed,
        EventKind::Denied { .. } => Said::Deny,
        _ => return Ok(None),
    };
    let records = core.store.decisions_of(&execution.into()).await?;
    let facts = |it: SeenRecord| Some((core.registry.get(&it.capability)?, it.facts.ok()?));
    let found = records.into_iter().rev().filter_map(facts).find(|(_, facts)| facts.outcome == said);
    Ok(found.map(|(capability, facts)| {
        let Facts { identity, now, input, covers, entities, .. } = facts;
        let (capability, input) = (Arc::clone(capability), JsonInput::Value(input));
        Question { identity, capability, input, now, covers, entities }
    }))
}

/// The call as it was decided: the actor with the attributes of then, the stored input, the time on record.
async fn question(core: &Core, execution: &str, decision: &AuditEvent) -> Result<Option<Question>, StoreError> {
    let of_approval = match &decision.kind {
        EventKind::ApprovalRequested { approval_id, .. } => approved(core, approval_id, false, decision.at).await?,
        EventKind::Started { approval_id: Some(id), .. } => approved(core, id, true, decision.at).await?,
        _ => None,
    };
    match of_approval {
        Some(question) => Ok(Some(question)),
        None => sealed(core, execution, decision.at).await,
    }
}

/// From the request for an approval. `presented`: whether the call ran with it.
async fn approved(
    core: &Core,
    id: &ApprovalId,
    presented: bool,
    now: Timestamp,
) -> Result<Option<Question>, StoreError> {
    let Some(record) = core.store.approval(id).await? else { return Ok(None) };
    let (Some(binding), Ok(input)) = (bound(&record), opened(&record, &core.store)) else { return Ok(None) };
    let Some(capability) = core.registry.get(&binding.capability_id).map(Arc::clone) else { return Ok(None) };
    let identity = binding.requester.clone();
    let covers = presented.then(|| covers(&Presented { record, binding }));
    Ok(asked(Question { identity, capability, input: JsonInput::text(input), now, covers, entities: Vec::new() }))
}

/// From an execution that is not settled.
async fn sealed(core: &Core, execution: &str, now: Timestamp) -> Result<Option<Question>, StoreError> {
    let Some(record) = core.store.execution(&execution.into()).await? else { return Ok(None) };
    let Some((agent, input)) = core.asked(&record) else { return Ok(None) };
    let Some(capability) = core.registry.get(&agent.capability_id).map(Arc::clone) else { return Ok(None) };
    let identity =
        Identity { actor: Some(agent.actor), tenant: agent.tenant, client: agent.client, surface: agent.surface };
    let input = JsonInput::from(input);
    Ok(asked(Question { identity, capability, input, now, covers: None, entities: Vec::new() }))
}

/// What the application said of its entities then is not on record.
fn asked(question: Question) -> Option<Question> {
    question.capability.meta.resource.is_none().then_some(question)
}

impl Recorded {
    /// For machines.
    pub(crate) fn json(&self) -> Value {
        let mut json = json!(self);
        json["outcome"] = json!(self.word.as_ref().map(Word::as_str));
        json
    }
}
