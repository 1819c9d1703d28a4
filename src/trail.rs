//! The audit events of one execution, in stage order.

use std::sync::Arc;
use std::time::Duration;

use crate::actor::Identity;
use crate::audit::{AuditEvent, Envelope, EventKind, hex};
use crate::capability::Governed;
use crate::clock::{Clock, Monotonic, Timestamp};
use crate::id::Ids;
use crate::meters::{Meters, Watch};
use crate::stage::Stage;
use crate::store::op::Seen;
use crate::{CapabilityId, ExecutionId};
use sha2::{Digest as _, Sha256};

/// Called when an execution enters a stage. For tests that kill or stop a process at each step.
pub(crate) type StageProbe = Arc<dyn Fn(Stage) + Send + Sync>;

/// Collects the events of one execution, knows the stage it is in, and hands the events to the store's operations.
///
/// `capability.started` and every terminal event are arguments of store operations, never noted here beforehand: a
/// failed commit must leave neither behind.
pub(crate) struct Trail {
    clock: Clock,
    ids: Ids,
    probe: Option<StageProbe>,
    watch: Option<Watch>,
    execution: ExecutionId,
    began: Monotonic,
    stage: Stage,
    envelope: Envelope,
    unwritten: Vec<AuditEvent>,
    /// What policies saw last, until it is on record.
    seen: Option<Seen>,
    /// How many of them are.
    decisions: i64,
    pub(crate) attempts: u32,
}

impl Trail {
    /// A trail with its first event: before anything is looked up, so that probing is on record.
    pub(crate) fn open(
        clock: &Clock,
        ids: &Ids,
        probe: Option<StageProbe>,
        execution: &ExecutionId,
        identity: &Identity,
    ) -> Self {
        let envelope = Envelope { execution_id: Some(execution.clone()), ..Envelope::of(identity) };
        Self {
            began: clock.monotonic(),
            clock: clock.clone(),
            ids: ids.clone(),
            probe,
            watch: None,
            execution: execution.clone(),
            stage: Stage::Identified,
            envelope,
            unwritten: Vec::with_capacity(4),
            seen: None,
            decisions: 0,
            attempts: 0,
        }
    }

    /// From here on, how long each stage takes is counted.
    pub(crate) fn metered(mut self, meters: &Meters) -> Self {
        self.watch = Some(meters.watch(&self.clock));
        self
    }

    /// Notes `capability.requested`.
    pub(crate) fn requested(&mut self, approval: Option<&str>) {
        let approval_id = approval.map(|it| if is_locator(it) { it.to_owned() } else { hashed(it) });
        self.note(EventKind::Requested { side_effect: None, risk: None, approval_id });
    }

    /// Enters a stage: the first argument of every stage function, so that none can run unnamed.
    pub(crate) fn at(&mut self, stage: Stage) -> &mut Self {
        if let Some(watch) = &mut self.watch {
            watch.leaves(self.stage, &self.clock);
        }
        self.stage = stage;
        if let Some(probe) = &self.probe {
            probe(stage);
        }
        self
    }

    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    pub(crate) fn execution(&self) -> &ExecutionId {
        &self.execution
    }

    pub(crate) fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// How long the execution has been on its way.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.monotonic().since(self.began)
    }

    /// The engine's clock: what policies see as `context.now`.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn elapsed_us(&self) -> u64 {
        u64::try_from(self.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Names what is called, in the events so far too.
    pub(crate) fn names(&mut self, capability: &CapabilityId) {
        let id = noted(capability);
        for event in &mut self.unwritten {
            event.envelope.capability_id = Some(id.clone());
        }
        self.envelope.capability_id = Some(id);
    }

    /// Fills in what the registry knows of the capability.
    pub(crate) fn resolves(&mut self, capability: &Governed) {
        for event in &mut self.unwritten {
            if let EventKind::Requested { side_effect, risk, .. } = &mut event.kind {
                *side_effect = Some(capability.side_effect);
                *risk = Some(capability.risk);
            }
        }
    }

    /// The caller's own id, if it is one.
    pub(crate) fn correlates(&mut self, id: Option<&str>) {
        let id = id.filter(|it| (1..=128).contains(&it.len()) && it.bytes().all(|b| b.is_ascii_graphic()));
        self.envelope.correlation_id = id.map(Into::into);
    }

    pub(crate) fn decided_by(&mut self, policy_hash: &str) {
        self.envelope.policy_hash = Some(policy_hash.into());
    }

    pub(crate) fn has_input(&mut self, evidence: String) {
        self.envelope.input_hash = Some(evidence);
    }

    /// An event of this execution that is not noted: an argument of a store operation.
    pub(crate) fn event(&self, kind: EventKind) -> AuditEvent {
        AuditEvent { id: self.ids.event(), at: self.clock.now(), kind, envelope: self.envelope.clone() }
    }

    pub(crate) fn note(&mut self, kind: EventKind) {
        let event = self.event(kind);
        self.unwritten.push(event);
    }

    /// A candidate policy set was asked beside the active one. Calls are decided again when something changed meanwhile:
    /// the last answer counts.
    pub(crate) fn compared(&mut self, difference: Option<EventKind>) {
        self.unwritten.retain(|it| !matches!(it.kind, EventKind::PolicyShadowDifference { .. }));
        if let Some(difference) = difference {
            self.note(difference);
        }
    }

    /// A read whose run was thrown away: what was noted of its attempts goes with it.
    pub(crate) fn starts_over(&mut self) {
        self.unwritten.retain(|it| !matches!(it.kind, EventKind::Retried { .. }));
    }

    /// What is not yet written, with this at its end. Call [`Self::written`] once it is committed.
    pub(crate) fn with(&self, kind: EventKind) -> Vec<AuditEvent> {
        let mut events = Vec::with_capacity(self.unwritten.len() + 1);
        events.extend_from_slice(&self.unwritten);
        events.push(self.event(kind));
        events
    }

    pub(crate) fn unwritten(&self) -> &[AuditEvent] {
        &self.unwritten
    }

    /// What policies saw, for the operation that records what came of it.
    pub(crate) fn seen(&self) -> Option<Seen> {
        self.seen.clone()
    }

    /// Notes what policies saw (JSON of [`crate::seen::Facts`]), in place of an earlier decision that led nowhere.
    pub(crate) fn saw(&mut self, decided_at: Timestamp, facts: Option<String>) {
        let Envelope { tenant, capability_id, policy_hash, .. } = &self.envelope;
        self.seen = facts.map(|facts| Seen {
            execution: self.execution.clone(),
            place: self.decisions,
            tenant: tenant.clone(),
            capability: capability_id.as_deref().unwrap_or_default().to_owned(),
            policy_hash: policy_hash.as_deref().unwrap_or_default().to_owned(),
            decided_at,
            facts,
        });
    }

    pub(crate) fn written(&mut self) {
        self.unwritten.clear();
        self.decisions += i64::from(self.seen.take().is_some());
    }
}

/// Whether a text can be an approval's id, and so be recorded as it is.
pub(crate) fn is_locator(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// A capability's name as it is recorded and logged.
pub(crate) fn noted(capability: &str) -> CapabilityId {
    let id = CapabilityId::from(capability);
    if id.is_well_formed() { id } else { hashed(capability).into() }
}

/// How a name that follows no grammar is recorded: it may be payload.
pub(crate) fn hashed(text: &str) -> String {
    format!("sha256:{}", hex(&Sha256::digest(text.as_bytes())))
}
