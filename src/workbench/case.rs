//! Questions as people write them: the cases of `tests/*.yaml`, and the file of one call.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::given::{EntityGiven, Who};
use super::judge::{Question, Ruling, Word, judge};
use super::manage::{Deciding, ManageQuestion, is_about_a_request};
use super::{Cast, World};
use crate::actor::{Identity, Surface};
use crate::caller::JsonInput;
use crate::capability::Governed;
use crate::clock::Timestamp;
use crate::policy::{ManageAction, PolicySet, did_you_mean};
use crate::resource::ResourceEntity;

/// When a case happens that does not say so, 2026-01-01 at noon: a suite gives the same answer every day.
const NOON: Timestamp = Timestamp(1_767_268_800_000_000);

/// A case as it is written. A file's `defaults` are one too: what they say holds for every case that says nothing else.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(super) name: Option<String>,
    actor: Option<Who>,
    tenant: Option<String>,
    surface: Option<Surface>,
    client: Option<String>,
    at: Option<Timestamp>,
    capability: Option<String>,
    input: Option<Value>,
    /// Type -> people who approved the call.
    approved: Option<BTreeMap<String, u32>>,
    /// When they did; with the call unless the case says so.
    #[serde(alias = "approvedAt")]
    approved_at: Option<Timestamp>,
    entities: Option<Vec<EntityGiven>>,
    /// A management action instead of a call. With a capability it is about somebody's request for that one.
    manage: Option<String>,
    requester: Option<Who>,
    /// The type of approval that is decided.
    requirement: Option<String>,
    pub(super) expect: Option<Word>,
    pub(super) policies: Option<Vec<String>>,
}

/// What a case asks.
pub(crate) enum Asked {
    Call(Box<Question>),
    Manage(Box<ManageQuestion>),
}

impl Asked {
    pub(crate) fn ruling(&self, set: &PolicySet) -> Ruling {
        match self {
            Self::Call(question) => judge(set, question).ruling,
            Self::Manage(question) => question.ruling(set),
        }
    }
}

/// Why a case asks nothing, and the next step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) what: String,
    pub(crate) help: String,
}

impl Fault {
    pub(super) fn new(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self { what: what.into(), help: help.into() }
    }
}

impl Case {
    /// What it says, of this instant and this surface unless it says which.
    pub(crate) fn at(mut self, now: Timestamp, surface: Surface) -> Self {
        self.at.get_or_insert(now);
        self.surface.get_or_insert(surface);
        self
    }

    /// Whether it says on whose behalf.
    pub(crate) fn has_actor(&self) -> bool {
        self.actor.is_some()
    }

    /// The same on behalf of somebody known by name.
    pub(crate) fn by(mut self, name: &str) -> Self {
        self.actor = Some(Who::Name(name.to_owned()));
        self
    }

    /// What it says, and where it says nothing, what these say.
    pub(super) fn or(self, defaults: &Self) -> Self {
        let or = defaults.clone();
        Self {
            name: self.name.or(or.name),
            actor: self.actor.or(or.actor),
            tenant: self.tenant.or(or.tenant),
            surface: self.surface.or(or.surface),
            client: self.client.or(or.client),
            at: self.at.or(or.at),
            capability: self.capability.or(or.capability),
            input: self.input.or(or.input),
            approved: self.approved.or(or.approved),
            approved_at: self.approved_at.or(or.approved_at),
            entities: self.entities.or(or.entities),
            manage: self.manage.or(or.manage),
            requester: self.requester.or(or.requester),
            requirement: self.requirement.or(or.requirement),
            expect: self.expect.or(or.expect),
            policies: self.policies.or(or.policies),
        }
    }

    /// What it asks. `own` are the actors of its file, who come before the world's.
    pub(crate) fn asked(&self, world: &World, own: &Cast) -> Result<Asked, Fault> {
        let actor = self.actor.as_ref().ok_or_else(|| Fault::new("it has no `actor`", "say on whose behalf"))?;
        let identity = self.placed(find(actor, world, own)?)?;
        if let Some(action) = &self.manage {
            let question = self.managing(action, identity, world, own)?;
            return Ok(Asked::Manage(Box::new(question)));
        }
        if self.requester.is_some() || self.requirement.is_some() {
            let help = "say what is done: `manage: approve`";
            return Err(Fault::new("`requester` and `requirement` belong to a management action", help));
        }
        self.calling(identity, world).map(|it| Asked::Call(Box::new(it)))
    }

    fn calling(&self, identity: Identity, world: &World) -> Result<Question, Fault> {
        let help = "name one: `capability: orders.refund`";
        let id = self.capability.as_deref().ok_or_else(|| Fault::new("it has no `capability`", help))?;
        let capability = world.capability(id)?;
        let now = self.at.unwrap_or(NOON);
        if self.approved_at.is_some() && self.approved.is_none() {
            return Err(Fault::new(
                "`approved_at` is the time of no approval",
                "say what is approved: `approved: {manager: 1}`",
            ));
        }
        Ok(Question {
            identity,
            capability: std::sync::Arc::clone(capability),
            input: JsonInput::from(self.input.clone().unwrap_or_else(|| json!({}))),
            now,
            covers: self.approved.clone().map(|types| Question::approved(types, self.approved_at.unwrap_or(now))),
            entities: handed_over(self.entities.as_deref().unwrap_or_default(), capability)?,
        })
    }

    fn managing(&self, action: &str, identity: Identity, world: &World, own: &Cast) -> Result<ManageQuestion, Fault> {
        let known = ManageAction::ALL.map(ManageAction::as_str);
        let found = ManageAction::ALL.into_iter().find(|it| it.as_str() == action);
        let action = found.ok_or_else(|| unknown("management action", action, known))?;
        let about = match (&self.capability, &self.requester) {
            (Some(id), Some(requester)) => Some(Deciding {
                capability: std::sync::Arc::clone(world.capability(id)?),
                requester: find(requester, world, own)?,
                requirement: self.requirement.clone(),
            }),
            (None, None) => None,
            _ => {
                let help = "give it `capability` and `requester`, or neither if it is about the engine";
                return Err(Fault::new("half of the request that it is about is missing", help));
            }
        };
        if action.decides() && about.as_ref().is_none_or(|it| it.requirement.is_none()) {
            let help = "give it `capability`, `requester` and `requirement`, the type of approval";
            return Err(Fault::new(format!("what `{}` decides is missing", action.as_str()), help));
        }
        if about.is_none() && is_about_a_request(action) {
            let help = "give it `capability` and `requester`: whose request it is";
            return Err(Fault::new(format!("the request that `{}` is about is missing", action.as_str()), help));
        }
        Ok(ManageQuestion { action, identity, now: self.at.unwrap_or(NOON), about })
    }

    /// The actor, in the case's own tenant, on its surface, carried by its client.
    fn placed(&self, mut identity: Identity) -> Result<Identity, Fault> {
        if let Some(tenant) = &self.tenant {
            identity = identity.tenant(tenant.as_str());
        }
        if let Some(client) = &self.client {
            identity = identity.client(client.as_str());
        }
        let identity = identity.on(self.surface.unwrap_or(Surface::Direct));
        if identity.is_sound() {
            return Ok(identity);
        }
        Err(Fault::new(
            "no call has such a tenant or client",
            "write 1 to 512 bytes without control characters, or leave it out",
        ))
    }
}

impl World {
    /// A capability by its id.
    pub(crate) fn capability(&self, id: &str) -> Result<&std::sync::Arc<Governed>, Fault> {
        let known = self.registry.all().iter().map(|it| it.id.as_str());
        self.registry.get(id).ok_or_else(|| unknown("capability", id, known))
    }
}

fn find(who: &Who, world: &World, own: &Cast) -> Result<Identity, Fault> {
    match who {
        Who::Name(name) => own
            .get(name)
            .or_else(|| world.cast.get(name))
            .cloned()
            .ok_or_else(|| unknown("actor", name, own.keys().chain(world.cast.keys()).map(String::as_str))),
        Who::Actor(given) => {
            let identity = given.as_ref().clone().identity();
            identity.map_err(|what| Fault::new(format!("the actor {what}"), "correct it"))
        }
    }
}

/// There is nothing of this name.
pub(super) fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Fault {
    let help = did_you_mean(name, known.clone()).unwrap_or_else(|| {
        let known: Vec<&str> = known.into_iter().collect();
        if known.is_empty() { "there are none".into() } else { format!("there are {}", known.join(", ")) }
    });
    Fault::new(format!("there is no {what} `{name}`"), help)
}

/// What the application would give, for a capability that acts on an entity of its own.
fn handed_over(entities: &[EntityGiven], capability: &Governed) -> Result<Vec<ResourceEntity>, Fault> {
    if entities.is_empty() || capability.meta.resource.is_some() {
        return Ok(entities.iter().map(EntityGiven::entity).collect());
    }
    let what = format!("`{}` acts on no entity of the application, so policies see no `entities`", capability.id);
    Err(Fault::new(what, "leave them out, or register it with `.resource(\"Order\", \"/orderId\")`"))
}
