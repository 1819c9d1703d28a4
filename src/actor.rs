//! Who calls, from where.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use unicode_normalization::UnicodeNormalization as _;

/// Where a call came in. Each adapter hard-codes its own; no input can set it (INV-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Surface {
    /// The application's own process, through [`crate::Engine::on_behalf_of`].
    Direct,
    /// The HTTP API.
    Http,
    /// The MCP server.
    Mcp,
    /// A workflow engine's worker.
    Workflow,
    /// The test kit.
    Test,
}

impl Surface {
    /// Every surface, in the order of the declaration.
    pub const ALL: [Self; 5] = [Self::Direct, Self::Http, Self::Mcp, Self::Workflow, Self::Test];

    /// The name in policies, events and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Http => "http",
            Self::Mcp => "mcp",
            Self::Workflow => "workflow",
            Self::Test => "test",
        }
    }
}

/// What sort of party an actor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// A person.
    User,
    /// A program with an identity of its own.
    Service,
    /// A scheduled job.
    Automation,
    /// Nobody in particular: a kind, never an absence.
    Anonymous,
}

impl ActorKind {
    /// Every kind, in the order of the declaration.
    pub const ALL: [Self; 4] = [Self::User, Self::Service, Self::Automation, Self::Anonymous];

    /// The name in events and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Service => "service",
            Self::Automation => "automation",
            Self::Anonymous => "anonymous",
        }
    }

    /// The Cedar entity type.
    pub(crate) fn entity_type(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Service => "Service",
            Self::Automation => "Automation",
            Self::Anonymous => "Anonymous",
        }
    }
}

/// One party: an issuer and a subject. Two issuers' `alice` are two parties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    /// Who vouched for the id; `None` for static tokens, the command line and the library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Unique within its issuer.
    pub id: String,
}

impl Party {
    /// Whether two parties must be taken for one person (APR-3): ids equal exactly or after trimming, NFC and case
    /// folding, and issuers equal, where an unverified issuer equals any.
    pub(crate) fn may_be(&self, other: &Self) -> bool {
        let issuers = match (&self.issuer, &other.issuer) {
            (Some(one), Some(two)) => one == two,
            _ => true,
        };
        issuers && (self.id == other.id || fold(&self.id) == fold(&other.id))
    }

    /// A text that is equal for all spellings of one person under one issuer: what "distinct people" counts by.
    pub(crate) fn folded(&self) -> String {
        serde_json::json!([self.issuer, fold(&self.id)]).to_string()
    }
}

/// Trim, NFC, case folding. Upper-casing first folds what has no lower-case pair of its own (`ß`, `ſ`).
fn fold(id: &str) -> String {
    let upper = id.trim().nfc().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).nfc().collect()
}

/// The authenticated party on whose behalf a call runs. The model is never the actor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Actor {
    /// Who vouched for the id, if somebody did. Set from verified credentials only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Unique within its issuer; not empty.
    pub id: String,
    /// What sort of party.
    pub kind: ActorKind,
    /// For people to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The role names that policies see: `principal in Role::"support"`.
    #[serde(default)]
    pub roles: Vec<String>,
    /// The scopes of the credential.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Whatever else policies may look at, if `schema.cedarschema` declares it.
    #[serde(default)]
    pub attributes: Map<String, Value>,
    /// The parties that act for this one (RFC 8693 `act`), nearest first. Each counts as the requester (APR-3).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<Party>,
}

impl Actor {
    /// An actor of this kind.
    pub fn new(kind: ActorKind, id: impl Into<String>) -> Self {
        Self {
            issuer: None,
            id: id.into(),
            kind,
            name: None,
            roles: Vec::new(),
            scopes: Vec::new(),
            attributes: Map::new(),
            chain: Vec::new(),
        }
    }

    /// A person.
    pub fn user(id: impl Into<String>) -> Self {
        Self::new(ActorKind::User, id)
    }

    /// A program with an identity of its own.
    pub fn service(id: impl Into<String>) -> Self {
        Self::new(ActorKind::Service, id)
    }

    /// A scheduled job.
    pub fn automation(id: impl Into<String>) -> Self {
        Self::new(ActorKind::Automation, id)
    }

    /// Nobody in particular.
    pub fn anonymous() -> Self {
        Self::new(ActorKind::Anonymous, "anonymous")
    }

    /// Adds a role.
    #[must_use]
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.roles.push(role.into());
        self
    }

    /// Sets who vouched for the id. Only for ids that a verified credential carried.
    #[must_use]
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Sets the display name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Adds an attribute.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// Issuer and id.
    pub fn party(&self) -> Party {
        Party { issuer: self.issuer.clone(), id: self.id.clone() }
    }

    /// This actor and everybody who acts for it.
    pub(crate) fn parties(&self) -> impl Iterator<Item = Party> + '_ {
        std::iter::once(self.party()).chain(self.chain.iter().cloned())
    }

    /// Whether the id is fit to be recorded and compared: not blank, at most 512 bytes, no control characters.
    pub(crate) fn is_well_formed(&self) -> bool {
        let fit = |it: &str| !it.trim().is_empty() && it.len() <= 512 && !it.chars().any(char::is_control);
        fit(&self.id) && self.issuer.as_deref().is_none_or(fit) && self.chain.iter().all(|it| fit(&it.id))
    }
}

/// The agent software that carried a call (an OAuth client id, say). Recorded and visible to policies, never an
/// identity to run as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Client(pub String);

/// Where a call comes from: all of it from credentials, none of it from input (INV-3).
///
/// It can be rebuilt from a stored approval, which is why the context factory of a [`crate::Gateway`] takes one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    pub(crate) actor: Option<Arc<Actor>>,
    pub(crate) tenant: Arc<str>,
    pub(crate) client: Option<Client>,
    pub(crate) surface: Surface,
}

impl Identity {
    /// An identity in the tenant `default`.
    pub fn new(actor: Actor) -> Self {
        Self { actor: Some(Arc::new(actor)), ..Self::none() }
    }

    /// An identity without an actor. Every call from it ends `UNAUTHENTICATED`, on record.
    pub fn none() -> Self {
        Self { actor: None, tenant: "default".into(), client: None, surface: Surface::Direct }
    }

    /// Sets the tenant (default `default`).
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<Arc<str>>) -> Self {
        self.tenant = tenant.into();
        self
    }

    /// Names the agent software that carries the calls.
    #[must_use]
    pub fn client(mut self, client: impl Into<String>) -> Self {
        self.client = Some(Client(client.into()));
        self
    }

    /// The actor, if there is one.
    pub fn actor(&self) -> Option<&Actor> {
        self.actor.as_deref()
    }

    /// Whose data a call belongs to.
    pub fn tenant_name(&self) -> &str {
        &self.tenant
    }

    /// Where a call came in.
    pub fn surface(&self) -> Surface {
        self.surface
    }

    /// Without the actor's name and who acts for it, which no policy sees.
    pub(crate) fn as_policies_see(&self) -> Self {
        let actor = self.actor.as_ref().map(|it| Arc::new(Actor { name: None, chain: Vec::new(), ..(**it).clone() }));
        Self { actor, ..self.clone() }
    }

    pub(crate) fn on(mut self, surface: Surface) -> Self {
        self.surface = surface;
        self
    }

    /// Whether tenant and client are fit to be recorded and compared: not empty, at most 512 bytes, no control
    /// characters.
    pub(crate) fn is_sound(&self) -> bool {
        let fit = |it: &str| !it.is_empty() && it.len() <= 512 && !it.chars().any(char::is_control);
        fit(&self.tenant) && self.client.as_ref().is_none_or(|it| fit(&it.0))
    }

    /// Whether this is exactly the party that filed a request: APR-8 compares tenant, issuer, id, client, surface.
    pub(crate) fn is_same_caller(&self, other: &Self) -> bool {
        let party = |it: &Self| it.actor.as_ref().map(|actor| actor.party());
        self.tenant == other.tenant
            && party(self) == party(other)
            && self.client == other.client
            && self.surface == other.surface
    }
}

impl From<Actor> for Identity {
    fn from(actor: Actor) -> Self {
        Self::new(actor)
    }
}

pub(crate) type SharedIdentity = Arc<Identity>;

#[cfg(test)]
mod tests {
    use super::*;

    fn party(issuer: Option<&str>, id: &str) -> Party {
        Party { issuer: issuer.map(Into::into), id: id.into() }
    }

    #[test]
    fn apr_3_spellings_of_one_person_are_one_person() {
        for (one, two) in [
            ("Owner@example.test", "owner@example.test"),
            ("owner@example.test", "owner@example.test "),
            ("jos\u{e9}", "jose\u{301}"),
            ("STRASSE", "straße"),
        ] {
            assert!(party(None, one).may_be(&party(None, two)), "{one} and {two}");
            assert_eq!(party(None, one).folded(), party(None, two).folded());
        }
    }

    #[test]
    fn apr_3_one_subject_of_two_issuers_is_two_people_and_an_unverified_issuer_is_any() {
        assert!(!party(Some("https://a"), "alice").may_be(&party(Some("https://b"), "alice")));
        assert!(party(None, "alice").may_be(&party(Some("https://b"), "Alice")));
    }
}
