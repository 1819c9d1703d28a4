//! Decisions on record, asked again one by one. Exactly, where what policies saw is kept; else as far as the answer does
//! not depend on the input; and what cannot be asked again is counted, with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::Cast;
use super::change::{About, Change, Changes, Class, Side};
use super::judge::Question;
use super::recorded::{Recorded, question_of, told};
use crate::CapabilityId;
use crate::actor::Identity;
use crate::audit::{AuditEvent, DenialReason, EventKind};
use crate::caller::JsonInput;
use crate::capability::Governed;
use crate::clock::Timestamp;
use crate::invocation::AgentInvocationInfo;
use crate::pipeline::Core;
use crate::policy::{Forecast, PolicySet};
use crate::registry::Registry;
use crate::store::{EventFilter, StoreError};

/// How many events are read at once.
const PAGE: usize = 500;

/// Which part of the trail, and with what.
pub(crate) struct Replaying<'a> {
    pub(crate) core: &'a Core,
    /// People as they are known today, for calls of which the record has only their names.
    pub(crate) cast: &'a Cast,
    pub(crate) since: Timestamp,
    pub(crate) until: Option<Timestamp>,
    /// Whether changes show the inputs that are kept.
    pub(crate) show_inputs: bool,
}

/// What became of asking again.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Replay {
    /// All that policies decided.
    pub(crate) decisions: usize,
    /// Asked again as it was.
    pub(crate) exact: usize,
    /// The answer is the same for every input.
    pub(crate) without_input: usize,
    pub(crate) not_replayed: BTreeMap<Missing, usize>,
    /// Capabilities of which an input was missed.
    pub(crate) inputs_not_kept: BTreeSet<CapabilityId>,
}

/// Why a decision cannot be asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Missing {
    /// The answer depends on the input, or on the application's entities, and events hold hashes only.
    InputNotKept,
    /// The record has the actor's name, and nobody of that name is known here.
    ActorUnknown,
    /// The application has no such capability any more.
    CapabilityGone,
    /// The event was cut, or is of another version.
    Unreadable,
}

/// What of a decision is known.
pub(super) enum Known {
    All(Box<Question>),
    /// All but the input.
    Early {
        identity: Identity,
        capability: Arc<Governed>,
    },
}

/// What comes of asking again.
pub(super) enum Again {
    Same,
    Changed(Class, Side, Side),
    /// It depends on the input.
    Open,
}

/// What each capability of an application looks like before there is input, under one set.
pub(super) struct Forecasts<'a>(BTreeMap<&'a str, crate::policy::Forecaster<'a>>);

impl<'a> Forecasts<'a> {
    /// # Errors
    /// A fault of the engine: what it could not rewrite.
    pub(super) fn new(set: &'a PolicySet, registry: &'a Registry) -> Result<Self, String> {
        let each = registry.all().iter().map(|it| Ok((it.id.as_str(), set.forecaster(it)?)));
        each.collect::<Result<_, String>>().map(Self)
    }

    pub(super) fn of(&self, capability: &Governed, identity: &Identity, now: Timestamp) -> Option<Forecast> {
        Some(self.0.get(capability.id.as_str())?.forecast(identity, now))
    }
}

impl Replaying<'_> {
    /// Reads page by page. `progress` hears how many decisions there were so far.
    pub(super) async fn run(
        &self,
        changes: &mut Changes,
        progress: &mut dyn FnMut(usize),
        ask: &mut dyn FnMut(&Recorded, &Known) -> Again,
    ) -> Result<Replay, StoreError> {
        let mut replay = Replay::default();
        let mut filter = EventFilter { since: Some(self.since), until: self.until, ..EventFilter::default() };
        loop {
            let page = self.core.store.events(&filter, PAGE).await?;
            for (seq, body) in &page {
                filter.after_seq = *seq;
                match serde_json::from_str::<AuditEvent>(body) {
                    Ok(event) if is_by_policies(&event.kind) => self.one(&event, &mut replay, changes, ask).await?,
                    Err(_) if was_decision(body) => replay.misses(Missing::Unreadable),
                    Ok(_) | Err(_) => {}
                }
            }
            progress(replay.decisions);
            if page.len() < PAGE {
                return Ok(replay);
            }
        }
    }

    async fn one(
        &self,
        event: &AuditEvent,
        replay: &mut Replay,
        changes: &mut Changes,
        ask: &mut dyn FnMut(&Recorded, &Known) -> Again,
    ) -> Result<(), StoreError> {
        let (record, known) = match self.known(event).await? {
            Ok(both) => both,
            Err(missing) => {
                replay.misses(missing);
                return Ok(());
            }
        };
        let again = ask(&record, &known);
        replay.counts(&known, &again);
        if let Again::Changed(class, before, after) = again {
            changes.push(self.change(record, &known, (class, before, after)));
        }
        Ok(())
    }

    async fn known(&self, event: &AuditEvent) -> Result<Result<(Recorded, Known), Missing>, StoreError> {
        let (Some(execution), Some(id)) = (&event.envelope.execution_id, &event.envelope.capability_id) else {
            return Ok(Err(Missing::Unreadable));
        };
        let Some(capability) = self.core.registry.get(id).map(Arc::clone) else {
            return Ok(Err(Missing::CapabilityGone));
        };
        let record = told(execution, event);
        if let Some(question) = question_of(self.core, execution, event).await? {
            return Ok(Ok((record, Known::All(Box::new(question)))));
        }
        let identity = self.identity(&record).await?;
        let known = identity.map(|identity| (record, Known::Early { identity, capability }));
        Ok(known.ok_or(Missing::ActorUnknown))
    }

    /// The actor with the attributes of then, if an execution has them; else as that actor is known today.
    async fn identity(&self, record: &Recorded) -> Result<Option<Identity>, StoreError> {
        let Some(actor) = &record.actor else { return Ok(None) };
        let execution = self.core.store.execution(&record.execution.as_str().into()).await?;
        let then = execution.and_then(|it| serde_json::from_str::<AgentInvocationInfo>(&it.agent).ok());
        let today = || {
            let is_it = |it: &&Identity| {
                *it.tenant == *record.tenant && it.actor().map(crate::ActorRef::from).as_ref() == Some(actor)
            };
            self.cast.values().find(is_it).and_then(|it| it.actor.clone())
        };
        let actor = then.map(|it| it.actor).or_else(today);
        Ok(actor.map(|actor| Identity {
            actor: Some(actor),
            tenant: record.tenant.as_str().into(),
            client: record.client.clone(),
            surface: record.surface,
        }))
    }

    fn change(&self, record: Recorded, known: &Known, (class, before, after): (Class, Side, Side)) -> Change {
        let input = match known {
            Known::All(question) if self.show_inputs => Some(shown(&question.input)),
            Known::All(_) | Known::Early { .. } => None,
        };
        let about = About::Trail {
            execution: record.execution,
            at: record.at,
            capability: known.capability().id.clone(),
            actor: record.actor.map(|it| it.id).unwrap_or_default(),
            exact: matches!(known, Known::All(_)),
        };
        Change { class, about, before, after, input }
    }
}

impl Known {
    fn capability(&self) -> &Governed {
        match self {
            Self::All(question) => &question.capability,
            Self::Early { capability, .. } => capability,
        }
    }
}

impl Replay {
    fn misses(&mut self, why: Missing) {
        self.decisions += 1;
        *self.not_replayed.entry(why).or_default() += 1;
    }

    fn counts(&mut self, known: &Known, again: &Again) {
        match (known, again) {
            (Known::Early { capability, .. }, Again::Open) => {
                self.misses(Missing::InputNotKept);
                self.inputs_not_kept.insert(capability.id.clone());
                return;
            }
            (Known::All(_), _) => self.exact += 1,
            (Known::Early { .. }, Again::Same | Again::Changed(..)) => self.without_input += 1,
        }
        self.decisions += 1;
    }

    /// How many could not be asked again.
    pub(crate) fn missed(&self) -> usize {
        self.not_replayed.values().sum()
    }
}

/// Which surfaces a capability lists, and which capabilities there are, no policy says.
fn is_by_policies(kind: &EventKind) -> bool {
    match kind {
        EventKind::Denied { reason, .. } => !matches!(reason, DenialReason::Unknown | DenialReason::NotExposed),
        EventKind::ApprovalRequested { .. } | EventKind::Started { .. } => true,
        _ => false,
    }
}

fn was_decision(body: &str) -> bool {
    let event: Value = serde_json::from_str(body).unwrap_or_default();
    matches!(event["type"].as_str(), Some("capability.denied" | "capability.approval_requested" | "capability.started"))
}

fn shown(input: &JsonInput) -> Value {
    match input {
        JsonInput::Value(value) => (**value).clone(),
        JsonInput::Text(text) => serde_json::from_str(text).unwrap_or_default(),
        JsonInput::Unfit(_) => Value::Null,
    }
}
