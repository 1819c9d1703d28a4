//! What Cedar is asked about: the principal, the context, and entities. Never through Cedar's JSON form.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use cedar_policy::{Context, Entities, Entity, EntityTypeName, EntityUid, Request, RestrictedExpression};
use chrono::{DateTime, SecondsFormat};
use serde_json::{Map, Value};

use super::compile::{Compiled, Resource, principal_types};
use super::gather::{Gathered, resource_of};
use super::types::Member;
use super::value::{expression, string, strings, uid};
use super::{Case, PolicySet};
use crate::actor::{Actor, ActorKind, Client, Identity, Surface};
use crate::audit::PolicyError;
use crate::clock::Timestamp;

/// A principal as Cedar sees it, built once for a call and used at stages 5, 6 and 7.
pub(crate) struct Principal {
    pub(super) uid: EntityUid,
    entity: Entity,
    /// What hides and discovery see, the same for all capabilities of one listing.
    facts: OnceLock<Facts>,
}

struct Facts {
    surface: Surface,
    tenant: Arc<str>,
    client: Option<Client>,
    now: Timestamp,
    context: Context,
}

type Failed = Vec<PolicyError>;

/// A failure outside any policy.
pub(super) fn failure(part: &str, kind: &str) -> Failed {
    vec![PolicyError { policy: format!("<{part}>"), kind: kind.to_owned() }]
}

/// What of an actor policies see.
pub(super) struct Projection {
    kinds: HashMap<ActorKind, (EntityTypeName, BTreeMap<String, Member>)>,
    role: EntityTypeName,
    roles: Option<BTreeSet<String>>,
}

impl Projection {
    pub(super) fn new(
        mut attributes: HashMap<&'static str, BTreeMap<String, Member>>,
        roles: Option<BTreeSet<String>>,
    ) -> Result<Self, String> {
        let kinds = principal_types()?.into_iter();
        let kinds = kinds.map(|(kind, name)| (kind, (name, attributes.remove(kind.entity_type()).unwrap_or_default())));
        Ok(Self { kinds: kinds.collect(), role: "Role".parse().map_err(|_| "`Role` is no type")?, roles })
    }

    /// The names of all roles, if the application lists them: then no actor has another.
    #[cfg(feature = "prove")]
    pub(super) fn listed_roles(&self) -> Option<&BTreeSet<String>> {
        self.roles.as_ref()
    }

    /// Issuer and subject together, so that two issuers' `alice` are two principals.
    fn uid(&self, actor: &Actor) -> Result<EntityUid, Failed> {
        let (name, _) = self.kinds.get(&actor.kind).ok_or_else(|| failure("principal", "unknown_kind"))?;
        match &actor.issuer {
            // what stands before the first `|` must be the issuer, whatever the subject has
            Some(issuer) if issuer.contains('|') => Err(failure("principal", "malformed_issuer")),
            Some(issuer) => Ok(uid(name, &format!("{issuer}|{}", actor.id))),
            None => Ok(uid(name, &actor.id)),
        }
    }

    fn entity(&self, identity: &Identity) -> Result<Entity, Failed> {
        let actor = identity.actor().ok_or_else(|| failure("principal", "no_actor"))?;
        let uid_ = self.uid(actor)?;
        // if the application lists all roles, others mean nothing to its policies
        let known = |it: &&String| self.roles.as_ref().is_none_or(|all| all.contains(*it));
        let roles: BTreeSet<&String> = actor.roles.iter().filter(known).collect();
        let mut attributes = HashMap::from([
            ("roles".to_owned(), strings(&roles)),
            ("scopes".to_owned(), strings(&actor.scopes)),
            ("tenant".to_owned(), string(&identity.tenant)),
        ]);
        if let Some(issuer) = &actor.issuer {
            attributes.insert("issuer".into(), string(issuer));
        }
        let declared =
            self.kinds.get(&actor.kind).map(|it| &it.1).ok_or_else(|| failure("principal", "unknown_kind"))?;
        attributes.extend(projected("principal", declared, &actor.attributes)?);
        let parents: HashSet<EntityUid> = roles.into_iter().map(|it| uid(&self.role, it)).collect();
        Entity::new(uid_, attributes, parents).map_err(|_| failure("principal", "attribute"))
    }
}

/// The attributes that are declared. A wrong type is a failure, never a silent absence.
pub(super) fn projected(
    part: &str,
    declared: &BTreeMap<String, Member>,
    given: &Map<String, Value>,
) -> Result<HashMap<String, RestrictedExpression>, Failed> {
    let mut out = HashMap::new();
    for (name, member) in declared {
        match given.get(name).filter(|it| !it.is_null()) {
            Some(value) => {
                let value = expression(&member.kind, value).map_err(|it| failure(part, it))?;
                out.insert(name.clone(), value);
            }
            None if member.required => return Err(failure(part, "attribute_missing")),
            None => {}
        }
    }
    Ok(out)
}

impl PolicySet {
    pub(super) fn principal_of(&self, identity: &Identity) -> Result<Principal, Failed> {
        let entity = self.projection.entity(identity)?;
        Entities::empty()
            .add_entities([entity.clone()], Some(&self.schema))
            .map_err(|_| failure("principal", "not_in_schema"))?;
        Ok(Principal { uid: entity.uid(), entity, facts: OnceLock::new() })
    }

    /// The principal's name alone, for an actor whose attributes do not fit the schema.
    pub(super) fn uid_of(&self, actor: &Actor) -> Result<EntityUid, Failed> {
        self.projection.uid(actor)
    }

    /// The request of stage 7, checked against the schema.
    pub(super) fn request(
        &self,
        compiled: &Compiled,
        principal: &Principal,
        context: Context,
        input: &Value,
    ) -> Result<Request, Failed> {
        let resource = resource_of(compiled, input)?;
        Request::new(principal.uid.clone(), compiled.action.clone(), resource, context, Some(&self.schema))
            .map_err(|_| failure("request", "not_in_schema")) // Cedar's text has the whole context
    }
}

impl Principal {
    /// The principal among other entities. All were checked when they were built.
    pub(super) fn among(&self, base: &Entities, more: &Gathered) -> Result<Entities, Failed> {
        let all = [&self.entity].into_iter().chain(&more.entities).cloned();
        base.clone().add_entities(all, None).map_err(|_| failure("principal", "entity"))
    }

    pub(super) fn entity(&self) -> Entity {
        self.entity.clone()
    }

    /// A request in which the input is not known, and the resource only if it is the capability itself.
    pub(super) fn early_request(
        &self,
        compiled: &Compiled,
        identity: &Identity,
        now: Timestamp,
    ) -> Result<Request, Failed> {
        let (Resource::Capability(resource) | Resource::Entity { unknown: resource, .. }) = &compiled.resource;
        let context = self.facts(identity, now)?;
        Request::new(self.uid.clone(), compiled.action.clone(), resource.clone(), context, None)
            .map_err(|_| failure("request", "not_in_schema"))
    }

    fn facts(&self, identity: &Identity, now: Timestamp) -> Result<Context, Failed> {
        let make = || {
            let context = context(base(identity, now))?;
            let (tenant, client) = (Arc::clone(&identity.tenant), identity.client.clone());
            Ok(Facts { surface: identity.surface, tenant, client, now, context })
        };
        if self.facts.get().is_none() {
            let _ = self.facts.set(make()?);
        }
        match self.facts.get() {
            Some(it) if it.is_of(identity, now) => Ok(it.context.clone()),
            _ => make().map(|it| it.context),
        }
    }
}

impl Facts {
    fn is_of(&self, identity: &Identity, now: Timestamp) -> bool {
        (self.now, self.surface) == (now, identity.surface)
            && (&self.tenant, &self.client) == (&identity.tenant, &identity.client)
    }
}

pub(super) type Pairs = Vec<(String, RestrictedExpression)>;

/// What every action's context has.
pub(super) fn base(identity: &Identity, now: Timestamp) -> Pairs {
    let mut pairs = Vec::with_capacity(6);
    pairs.push(("surface".to_owned(), string(identity.surface.as_str())));
    pairs.push(("tenant".to_owned(), string(&identity.tenant)));
    pairs.push(("now".to_owned(), time(now)));
    if let Some(client) = &identity.client {
        pairs.push(("client".to_owned(), string(&client.0)));
    }
    pairs
}

/// The context of stage 7.
pub(super) fn invoke_context(compiled: &Compiled, case: &Case<'_>) -> Result<Context, Failed> {
    let mut pairs = base(case.identity, case.now);
    pairs.push(("input".to_owned(), expression(&compiled.input, case.input).map_err(|it| failure("input", it))?));
    if let Some(covers) = case.covers {
        let members = [
            ("id", string(&covers.id)),
            ("types", strings(covers.types.keys())),
            ("decidedAt", time(covers.decided_at)),
        ];
        let record = RestrictedExpression::new_record(members.map(|(name, it)| (name.to_owned(), it)));
        pairs.push(("approval".to_owned(), record.map_err(|_| failure("approval", "repeated_member"))?));
    }
    context(pairs)
}

pub(super) fn context(pairs: Pairs) -> Result<Context, Failed> {
    Context::from_pairs(pairs).map_err(|_| failure("context", "malformed"))
}

fn time(at: Timestamp) -> RestrictedExpression {
    let text = DateTime::from_timestamp_micros(at.0).map(|it| it.to_rfc3339_opts(SecondsFormat::Millis, true));
    // beyond the calendar: what Cedar refuses, so that the call fails closed
    RestrictedExpression::new_datetime(text.unwrap_or_default())
}
