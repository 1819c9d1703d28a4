//! A request that a solver found, as a call that somebody could make.

use std::collections::BTreeMap;

use cedar_policy::{Entities, Entity, EntityUid, EvalResult, eval_expression};
use cedar_policy_symcc::Env;
use serde_json::{Map, Value, json};

use super::super::compile::{Compiled, Resource};
use super::super::schema::PRINCIPAL_ATTRIBUTES;
use super::super::types::{Member, Type};
use super::super::{Covers, PolicySet};
use super::Subject;
use crate::CapabilityId;
use crate::actor::{Actor, ActorKind, Identity, Surface};
use crate::capability::Governed;
use crate::clock::Timestamp;
use crate::resource::{EntityRef, ResourceEntity};

/// A request that shows that a claim does not hold.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Counterexample {
    pub(crate) principal: String,
    pub(crate) action: String,
    pub(crate) resource: String,
    /// In Cedar's JSON form.
    pub(crate) context: Value,
    /// In Cedar's JSON form: those that policies look at.
    pub(crate) entities: Value,
    /// The policies that err on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) erring: Vec<String>,
    /// The call that this is, if one can be made of it.
    #[serde(skip)]
    pub(crate) call: Option<Supposed>,
}

/// A call as somebody could make it.
#[derive(Clone, Debug)]
pub(crate) struct Supposed {
    pub(crate) capability: CapabilityId,
    pub(crate) identity: Identity,
    pub(crate) now: Timestamp,
    pub(crate) input: Value,
    pub(crate) covers: Option<Covers>,
    pub(crate) entities: Vec<ResourceEntity>,
}

/// More people than any gate asks for.
const EVERYBODY: u32 = 16;

impl Counterexample {
    pub(super) fn new(set: &PolicySet, subject: Subject<'_>, found: &Env, erring: Vec<String>) -> Self {
        let name = |it: Option<&EntityUid>| it.map(ToString::to_string).unwrap_or_default();
        let request = &found.request;
        let call = match subject {
            Subject::Call(governed, compiled) => Reader { set, found }.call(governed, compiled),
            Subject::Manage(_) => None,
        };
        Self {
            principal: name(request.principal()),
            action: name(request.action()),
            resource: name(request.resource()),
            context: request.context().and_then(|it| it.to_json_value().ok()).unwrap_or_default(),
            entities: shown(&found.entities),
            erring,
            call,
        }
    }
}

/// Actions are in every request's entities.
fn shown(entities: &Entities) -> Value {
    let is_action = |it: &Entity| it.uid().type_name().basename() == "Action";
    let all = entities.iter().filter(|it| !is_action(it)).filter_map(|it| it.to_json_value().ok());
    let mut all: Vec<Value> = all.collect();
    all.sort_by_cached_key(ToString::to_string);
    Value::Array(all)
}

struct Reader<'a> {
    set: &'a PolicySet,
    found: &'a Env,
}

impl Reader<'_> {
    fn call(&self, governed: &Governed, compiled: &Compiled) -> Option<Supposed> {
        let context = self.found.request.context()?;
        let text = |name: &str| context.get(name).and_then(|it| text(&it));
        let surface = text("surface")?;
        let surface = Surface::ALL.into_iter().find(|it| it.as_str() == surface)?;
        let mut identity = Identity::new(self.actor()?).tenant(text("tenant")?).on(surface);
        if let Some(client) = text("client") {
            identity = identity.client(client);
        }
        let now = Timestamp(millis(&context.get("now")?)?.checked_mul(1000)?);
        let mut input = json(&compiled.input, &context.get("input")?)?;
        if let Resource::Entity { pointer, .. } = &compiled.resource {
            // The resource is what the input names, which no type says.
            *input.pointer_mut(pointer)? = self.found.request.resource()?.id().unescaped().into();
        }
        let covers = context.get("approval").and_then(|it| covers(&it));
        let capability = governed.id.clone();
        Some(Supposed { capability, identity, now, input, covers, entities: self.entities() })
    }

    fn actor(&self) -> Option<Actor> {
        let uid = self.found.request.principal()?;
        let kind = uid.type_name().to_string();
        let kind = ActorKind::ALL.into_iter().find(|it| it.entity_type() == kind)?;
        let given = self.found.entities.get(uid)?;
        let attribute = |name: &str| given.attr(name).and_then(Result::ok);
        let issuer = attribute("issuer").and_then(|it| text(&it));
        let id = uid.id().unescaped();
        let id = issuer.as_ref().and_then(|it| id.strip_prefix(it.as_str())?.strip_prefix('|')).unwrap_or(id);
        // A name that nothing depends on may be any, an empty one none.
        let mut actor = Actor::new(kind, if id.is_empty() { "somebody" } else { id });
        actor.issuer = issuer;
        actor.roles = attribute("roles").map(|it| texts(&it)).unwrap_or_default();
        actor.scopes = attribute("scopes").map(|it| texts(&it)).unwrap_or_default();
        let declared = self.set.shapes.get(kind.entity_type()).map(|it| &it.attributes);
        actor.attributes = attributes(given, declared?);
        actor.attributes.retain(|name, _| !PRINCIPAL_ATTRIBUTES.iter().any(|(own, _)| own == name));
        Some(actor)
    }

    /// The application's.
    fn entities(&self) -> Vec<ResourceEntity> {
        let principal = self.found.request.principal().map(EntityUid::type_name);
        let mut all = Vec::new();
        for entity in self.found.entities.iter() {
            let uid = entity.uid();
            let fetched = self.set.shapes.get(&uid.type_name().to_string()).filter(|it| it.fetched);
            let Some(shape) = fetched.filter(|_| Some(uid.type_name()) != principal) else { continue };
            let mut given = ResourceEntity::new(shape.name.to_string(), uid.id().unescaped());
            given.attributes = attributes(entity, &shape.attributes);
            let parents = self.found.entities.ancestors(&uid).into_iter().flatten();
            given.parents = parents.map(|it| EntityRef::new(it.type_name().to_string(), it.id().unescaped())).collect();
            given.parents.sort();
            all.push(given);
        }
        all.sort_by(|one, two| one.entity.cmp(&two.entity));
        all
    }
}

/// `decidedAt` and the approval's id stay ours to say.
fn covers(approval: &EvalResult) -> Option<Covers> {
    let EvalResult::Record(members) = approval else { return None };
    let types: BTreeMap<String, u32> = texts(members.get("types")?).into_iter().map(|it| (it, EVERYBODY)).collect();
    let decided_at = Timestamp(millis(members.get("decidedAt")?)?.checked_mul(1000)?);
    Some(Covers { id: text(members.get("id")?)?.as_str().into(), types, decided_at })
}

fn attributes(entity: &Entity, declared: &BTreeMap<String, Member>) -> Map<String, Value> {
    let value = |(name, member): (&String, &Member)| {
        let value = entity.attr(name)?.ok()?;
        Some((name.clone(), json(&member.kind, &value)?))
    };
    declared.iter().filter_map(value).collect()
}

/// The JSON value that becomes this value in Cedar; `None` if none does.
fn json(kind: &Type, value: &EvalResult) -> Option<Value> {
    Some(match (kind, value) {
        (Type::Bool, EvalResult::Bool(it)) => json!(it),
        (Type::Long, EvalResult::Long(it)) => json!(it),
        (Type::String, EvalResult::String(it)) => json!(it),
        (Type::DateTime, it) => json!(Timestamp(millis(it)?.checked_mul(1000)?)),
        (Type::Decimal, EvalResult::ExtensionValue(it)) => json!(quoted(it)?.parse::<f64>().ok()?),
        // A range is what no input has.
        (Type::Ip, EvalResult::ExtensionValue(it)) => {
            let it = quoted(it)?;
            let single = it.strip_suffix("/32").or_else(|| it.strip_suffix("/128")).unwrap_or(it);
            single.parse::<std::net::IpAddr>().ok().map(|it| json!(it.to_string()))?
        }
        (Type::Entity(_), EvalResult::EntityUid(it)) => json!(it.id().unescaped()),
        (Type::Set(element), EvalResult::Set(all)) => {
            Value::Array(all.iter().map(|it| json(element, it)).collect::<Option<_>>()?)
        }
        (Type::Record(members), EvalResult::Record(all)) => {
            let member = |(name, it): (&String, &EvalResult)| Some((name.clone(), json(&members.get(name)?.kind, it)?));
            Value::Object(all.iter().map(member).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

fn text(value: &EvalResult) -> Option<String> {
    match value {
        EvalResult::String(it) => Some(it.clone()),
        _ => None,
    }
}

fn texts(value: &EvalResult) -> Vec<String> {
    match value {
        EvalResult::Set(all) => all.iter().filter_map(text).collect(),
        _ => Vec::new(),
    }
}

/// What stands between the quotes.
fn quoted(text: &str) -> Option<&str> {
    text.split('"').nth(1)
}

/// Of a time, since the epoch: counted by Cedar, whose own texts for times are many.
fn millis(time: &EvalResult) -> Option<i64> {
    let EvalResult::ExtensionValue(it) = time else { return None };
    let text = format!("({it}).durationSince(datetime(\"1970-01-01\")).toMilliseconds()");
    let context = cedar_policy::Context::empty();
    let nobody: EntityUid = "Nobody::\"\"".parse().ok()?;
    let request = cedar_policy::Request::new(nobody.clone(), nobody.clone(), nobody, context, None).ok()?;
    match eval_expression(&request, &Entities::empty(), &text.parse().ok()?).ok()? {
        EvalResult::Long(it) => Some(it),
        _ => None,
    }
}
