//! What the claims of a verified token say of its actor. Whatever cannot be read as configured refuses the token: an actor
//! with a role, an attribute or an actor behind it too few could be allowed more.

use serde_json::{Map, Value};

use super::{AuthFailure, claims};
use crate::actor::{Actor, ActorKind, Identity, Party};

/// How many parties may act for one another (`act`, RFC 8693, section 4.1).
const MAX_CHAIN: usize = 8;

/// What an issuer's claims mean.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) tenant: Known<String>,
    pub(super) kind: Known<ActorKind>,
    pub(super) roles: Option<Place>,
    pub(super) scopes: Place,
    pub(super) name: Place,
    /// Default: `azp` or `client_id`.
    pub(super) client: Option<Place>,
    pub(super) attributes: Vec<(String, Place)>,
    pub(super) required_scopes: Vec<String>,
    pub(super) approver_clients: Vec<String>,
}

/// What the configuration says, or where a token says it.
#[derive(Debug)]
pub(super) enum Known<T> {
    Fixed(T),
    Claimed(Place),
}

/// Where a claim is.
#[derive(Debug)]
pub(super) enum Place {
    /// A member of the claims set: names may have slashes, as URLs do.
    Name(String),
    /// RFC 6901.
    Pointer(String),
}

impl Place {
    /// `/a/b` is a pointer, anything else a name. `None`: it is empty, or no pointer.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let escapes = || text.split('~').skip(1).all(|it| it.starts_with(['0', '1']));
        match text {
            "" => None,
            it if it.starts_with('/') => escapes().then(|| Self::Pointer(it.to_owned())),
            it => Some(Self::Name(it.to_owned())),
        }
    }

    /// What is there; null is nothing.
    fn of<'a>(&self, claims: &'a Value) -> Option<&'a Value> {
        let found = match self {
            Self::Name(it) => claims.get(it),
            Self::Pointer(it) => claims.pointer(it),
        };
        found.filter(|it| !it.is_null())
    }

    fn text<'a>(&self, claims: &'a Value) -> Result<Option<&'a str>, AuthFailure> {
        self.of(claims).map(|it| it.as_str().ok_or(AuthFailure::BadClaims)).transpose()
    }
}

impl Mapping {
    /// The party that a token stands for, and whether it is a person who may decide (APR-4).
    pub(super) fn identity(&self, issuer: &str, claims: &Value) -> Result<(Identity, bool), AuthFailure> {
        let scopes = texts(self.scopes.of(claims), |it| it.split(' ').filter(|it| !it.is_empty()).collect())?;
        if !self.required_scopes.iter().all(|it| scopes.contains(it)) {
            return Err(AuthFailure::MissingScope);
        }
        let roles = texts(self.roles.as_ref().and_then(|it| it.of(claims)), |it| vec![it])?;
        let attributes: Map<_, _> = self
            .attributes
            .iter()
            .filter_map(|(name, place)| Some((name.clone(), place.of(claims)?.clone())))
            .collect();
        let actor = Actor {
            issuer: Some(issuer.to_owned()),
            // For people to read, so that it is no reason to refuse anybody.
            name: self.name.of(claims).and_then(Value::as_str).filter(|it| it.len() <= 512).map(Into::into),
            roles,
            scopes,
            attributes,
            chain: chain(claims)?,
            ..Actor::new(self.kind(claims)?, claims::subject(claims)?)
        };
        let client = self.client(claims)?;
        let is_known = client.is_some_and(|it| self.approver_clients.iter().any(|known| known == it));
        let person = is_known && actor.kind == ActorKind::User && actor.chain.is_empty();
        let is_fit = actor.is_well_formed();
        let identity = Identity::new(actor).tenant(self.tenant(claims)?);
        let identity = match client {
            Some(client) => identity.client(client),
            None => identity,
        };
        if is_fit && identity.is_sound() { Ok((identity, person)) } else { Err(AuthFailure::BadClaims) }
    }

    fn kind(&self, claims: &Value) -> Result<ActorKind, AuthFailure> {
        let place = match &self.kind {
            Known::Fixed(kind) => return Ok(*kind),
            Known::Claimed(place) => place,
        };
        let name = place.text(claims)?.ok_or(AuthFailure::BadClaims)?;
        ActorKind::ALL.into_iter().find(|it| it.as_str() == name).ok_or(AuthFailure::BadClaims)
    }

    fn tenant<'a>(&'a self, claims: &'a Value) -> Result<&'a str, AuthFailure> {
        match &self.tenant {
            Known::Fixed(tenant) => Ok(tenant),
            Known::Claimed(place) => place.text(claims)?.ok_or(AuthFailure::BadClaims),
        }
    }

    /// Two claims that name two clients name none.
    fn client<'a>(&self, claims: &'a Value) -> Result<Option<&'a str>, AuthFailure> {
        if let Some(place) = &self.client {
            return place.text(claims);
        }
        let named = |name: &str| Place::Name(name.into()).text(claims);
        match (named("azp")?, named("client_id")?) {
            (Some(one), Some(two)) if one != two => Err(AuthFailure::BadClaims),
            (one, two) => Ok(one.or(two)),
        }
    }
}

/// A list of texts; a single text is taken apart by `split`.
fn texts<'a>(
    value: Option<&'a Value>,
    split: impl FnOnce(&'a str) -> Vec<&'a str>,
) -> Result<Vec<String>, AuthFailure> {
    let text = |it: &Value| it.as_str().map(Into::into).ok_or(AuthFailure::BadClaims);
    match value {
        None => Ok(Vec::new()),
        Some(Value::String(one)) => Ok(split(one).into_iter().map(Into::into).collect()),
        Some(Value::Array(all)) => all.iter().map(text).collect(),
        Some(_) => Err(AuthFailure::BadClaims),
    }
}

/// Who acts for the subject, nearest first. Who vouches for one of them is only known if the token says so; of an unknown
/// issuer, a party is taken for anybody's of that id (APR-3).
fn chain(claims: &Value) -> Result<Vec<Party>, AuthFailure> {
    let (mut chain, mut at) = (Vec::new(), claims);
    while let Some(act) = at.get("act") {
        let issuer = match act.get("iss") {
            None => None,
            Some(Value::String(it)) if !it.is_empty() => Some(it.clone()),
            Some(_) => return Err(AuthFailure::BadClaims),
        };
        chain.push(Party { issuer, id: claims::subject(act)?.to_owned() });
        if chain.len() > MAX_CHAIN {
            return Err(AuthFailure::BadClaims);
        }
        at = act;
    }
    Ok(chain)
}
