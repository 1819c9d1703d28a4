//! Reading the audit log, and the other things that policy lets some people read. One rule for every surface.

use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::actor::Identity;
use crate::audit::EventKind;
use crate::clock::Timestamp;
use crate::deciding::actor_of;
use crate::meters::{self, Family};
use crate::outcome::Error;
use crate::pipeline::Core;
use crate::policies::Loaded;
use crate::policy::{ManageAction, Managed};
use crate::rejection::Rejection;
use crate::store::{EventFilter, StoreError};

/// How many places of the log are searched with one statement.
const WINDOW: i64 = 10_000;

/// How long one page may search before it is given out as it is, with where to go on.
const PATIENCE: Duration = Duration::from_millis(250);

/// The most bytes of events on one page; one event is always given.
const MAX_PAGE: usize = 4 * 1024 * 1024;

/// The most events on one page.
pub(crate) const MAX_EVENTS: usize = 1_000;

/// The audit log as one party may read it: the events of its own tenant, by a permit for the Cedar action `read_audit`.
#[derive(Clone)]
pub struct AuditLog {
    pub(crate) core: Arc<Core>,
    pub(crate) identity: Identity,
}

/// Which events; what is `None` does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Only events behind this place.
    pub after: i64,
    /// How many at most: 1 to 1,000, 100 if 0.
    pub limit: usize,
    /// Those of one execution.
    pub execution: Option<String>,
    /// Those about one capability.
    pub capability: Option<String>,
    /// Those of one actor, by id.
    pub actor: Option<String>,
    /// Those of one type, `capability.denied`.
    pub kind: Option<String>,
    /// From this instant on.
    pub since: Option<Timestamp>,
    /// Before this instant.
    pub until: Option<Timestamp>,
}

/// Some events, in the order of the log.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditPage {
    /// May be none although there are more to come: a page searches a bounded part of the log.
    pub events: Vec<StoredEvent>,
    /// Where to go on, as `after`; absent at the end of the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
    /// How far the log was read.
    pub up_to: i64,
    /// Events up to this place have left the log for an archive, so that the page begins behind it; absent where it was to
    /// begin behind it anyway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detached: Option<i64>,
}

/// An event as it is stored, byte for byte, and its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its place, counted from 1 without gaps over all tenants.
    pub seq: i64,
    /// The canonical JSON that was hashed.
    pub body: String,
}

/// The stored members, with `seq` before them.
impl Serialize for StoredEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.text()).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl schemars::JsonSchema for StoredEvent {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AuditEvent".into()
    }

    /// What all types have. An event that would be too large is cut down to this.
    fn json_schema(types: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let surface = types.subschema_for::<crate::Surface>();
        let at = types.subschema_for::<Timestamp>();
        schemars::json_schema!({
            "description": "An event as it is stored, and its place in the log.",
            "type": "object",
            "required": ["seq", "id", "at", "type", "tenant", "surface"],
            "properties": {
                "seq": {"type": "integer", "minimum": 1},
                "id": {"type": "string"},
                "at": at,
                "type": {"type": "string"},
                "tenant": {"type": "string"},
                "surface": surface,
                "actor": types.subschema_for::<crate::ActorRef>(),
                "client": {"type": "string"},
                "executionId": {"type": "string"},
                "capabilityId": {"type": "string"},
                "correlationId": {"type": "string"},
                "inputHash": {"type": "string"},
                "policyHash": {"type": "string"},
                "data": {"type": "object"},
            },
        })
    }
}

impl StoredEvent {
    /// As JSON on one line.
    pub(crate) fn text(&self) -> String {
        let Self { seq, body } = self;
        match body.strip_prefix('{') {
            Some("}") | None => format!("{{\"seq\":{seq}}}"),
            Some(members) => format!("{{\"seq\":{seq},{members}"),
        }
    }
}

impl AuditLog {
    /// A page of the log.
    ///
    /// # Errors
    /// UNAUTHENTICATED without an actor; `POLICY_DENIED` without a permit, on record; `AUDIT_UNAVAILABLE` if the store is
    /// down.
    pub async fn page(&self, query: &AuditQuery) -> Result<AuditPage, Error> {
        self.core.may_read_audit(&self.identity).await?;
        let filter = self.filter(query);
        let limit = if query.limit == 0 { 100 } else { query.limit.min(MAX_EVENTS) };
        self.core.page(filter, limit).await.map_err(|it| Rejection::from(it).face())
    }

    /// Whether this party may read at this moment. Leaves no record.
    #[cfg(feature = "http")]
    pub(crate) async fn still_may(&self) -> bool {
        self.core.reading(ManageAction::ReadAudit, &self.identity).await.1.is_ok()
    }

    pub(crate) fn filter(&self, query: &AuditQuery) -> EventFilter {
        let AuditQuery { after, limit: _, execution, capability, actor, kind, since, until } = query.clone();
        EventFilter {
            tenant: Some(self.identity.tenant_name().to_owned()),
            execution,
            capability,
            actor,
            kind,
            since,
            until,
            after_seq: after,
            ..EventFilter::default()
        }
    }
}

impl Core {
    /// Whether policy lets this party read the audit log of its own tenant. A refusal is on record.
    pub(crate) async fn may_read_audit(&self, identity: &Identity) -> Result<(), Error> {
        self.may_see(ManageAction::ReadAudit, identity).await
    }

    /// Whether policy lets this party take an action that changes nothing. A refusal is on record.
    pub(crate) async fn may_see(&self, action: ManageAction, identity: &Identity) -> Result<(), Error> {
        let (policies, allowed) = self.reading(action, identity).await;
        let Err(rejection) = allowed else { return Ok(()) };
        let (action, code) = (action.as_str(), rejection.code());
        tracing::info!(action, %code, cause = &rejection as &dyn std::error::Error, "refused");
        let denied = EventKind::ManagementDenied { action: action.into(), approval_id: None, execution_id: None, code };
        match self.store.append(vec![self.management_event(&policies.set, identity, denied)]).await {
            Ok(()) => Err(rejection.face()),
            Err(error) => Err(Rejection::from(error).face()),
        }
    }

    /// The same without a record, and the set that says so.
    pub(crate) async fn reading(
        &self,
        action: ManageAction,
        identity: &Identity,
    ) -> (Arc<Loaded>, Result<(), Rejection>) {
        let policies = self.ruling().await;
        let allowed = actor_of(identity)
            .map(drop)
            .and_then(|()| self.check_active(&policies))
            .and_then(|()| self.may(&policies.set, action, &Managed::Engine, identity).map_err(Rejection::management));
        (policies, allowed)
    }

    /// A bounded look at the log, from `filter.after_seq` on.
    pub(crate) async fn page(&self, mut filter: EventFilter, limit: usize) -> Result<AuditPage, StoreError> {
        let (began, end) = (self.clock.monotonic(), self.store.end().await?);
        let after = filter.after_seq;
        filter.after_seq = after.max(self.store.log().gone().await?);
        let window = if filter.execution.is_some() { i64::MAX } else { WINDOW }; // which has an index
        let (mut events, mut bytes) = (Vec::new(), 0);
        loop {
            let up_to = filter.after_seq.saturating_add(window).min(end);
            filter.up_to = Some(up_to);
            let wanted = limit - events.len();
            let found = self.store.events(&filter, wanted).await?;
            let is_full = found.len() == wanted;
            filter.after_seq =
                if is_full { found.last().map_or(up_to, |it| it.0) } else { up_to.max(filter.after_seq) };
            for (seq, body) in found {
                bytes += body.len();
                if bytes > MAX_PAGE && !events.is_empty() {
                    let detached = self.detached(after).await?;
                    return Ok(page(events, end, detached));
                }
                events.push(StoredEvent { seq, body });
            }
            let is_late = self.clock.monotonic().since(began) > PATIENCE;
            if is_full || is_late || filter.after_seq >= end {
                let (up_to, detached) = (filter.after_seq, self.detached(after).await?);
                return Ok(AuditPage { events, next: (up_to < end).then_some(up_to), up_to, detached });
            }
        }
    }

    /// Up to where events have left that a page was to begin with. Asked when it is read: some may have left meanwhile.
    async fn detached(&self, after: i64) -> Result<Option<i64>, StoreError> {
        Ok(Some(self.store.log().gone().await?).filter(|it| *it > after))
    }

    /// The metrics as text.
    pub(crate) async fn metrics(&self) -> String {
        meters::text(self.measured().await)
    }

    /// The metrics.
    pub(crate) async fn measured(&self) -> Vec<Family> {
        let outbox = self.store.backlog().await.ok().map(|it| [it.due, it.dead]);
        let beside = self.tallies.beside(outbox);
        self.meters.told(self.store.figures().await, self.tasks.len(), self.ledger.health(), beside)
    }
}

/// A page that was cut behind its last event.
fn page(events: Vec<StoredEvent>, end: i64, detached: Option<i64>) -> AuditPage {
    let up_to = events.last().map_or(0, |it| it.seq);
    AuditPage { events, next: (up_to < end).then_some(up_to), up_to, detached }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_shown_with_its_place_and_otherwise_as_it_is_stored() {
        let event = |body: &str| StoredEvent { seq: 7, body: body.into() };
        let shown = |body| serde_json::to_string(&event(body)).unwrap();
        assert_eq!(shown(r#"{"at":"2026","data":{"n":1.50}}"#), r#"{"seq":7,"at":"2026","data":{"n":1.50}}"#);
        assert_eq!(shown("{}"), r#"{"seq":7}"#);
    }
}
