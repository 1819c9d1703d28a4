//! The types that input and attributes have in Cedar.

use std::collections::BTreeMap;

use cedar_policy::EntityTypeName;
use serde_json::{Map, Value, json};

/// A type that input or an actor's attribute has in Cedar.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    Bool,
    Long,
    String,
    DateTime,
    Ip,
    Decimal,
    Set(Box<Type>),
    Record(BTreeMap<String, Member>),
    Entity(EntityTypeName),
}

/// A member of a record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub(super) kind: Type,
    pub(super) required: bool,
}

impl Type {
    /// The type in Cedar's JSON form of schemas. Short names, so that the printed schema reads well.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Bool => named("Bool"),
            Self::Long => named("Long"),
            Self::String => named("String"),
            Self::DateTime => named("datetime"),
            Self::Ip => named("ipaddr"),
            Self::Decimal => named("decimal"),
            Self::Entity(name) => json!({"type": "Entity", "name": name.to_string()}),
            Self::Set(element) => json!({"type": "Set", "element": element.to_json()}),
            Self::Record(members) => record(members.iter().map(|(name, member)| {
                let mut kind = member.kind.to_json();
                kind["required"] = json!(member.required);
                (name.clone(), kind)
            })),
        }
    }

    /// The type that a schema document declares, seen from a namespace; `None` for what no JSON value stands for
    /// (`duration`). Not by way of the printed schema: parsing it again costs more than all the rest.
    pub(super) fn from_json(declared: &Value, document: &Value, namespace: &str) -> Option<Self> {
        let kind = declared["type"].as_str()?;
        let named = matches!(kind, "Entity" | "EntityOrCommon" | "Extension");
        let name = if named { declared["name"].as_str()? } else { kind };
        Some(match name.trim_start_matches("__cedar::") {
            "Bool" | "Boolean" => Self::Bool,
            "Long" => Self::Long,
            "String" => Self::String,
            "datetime" => Self::DateTime,
            "decimal" => Self::Decimal,
            "ipaddr" => Self::Ip,
            "Set" => Self::Set(Box::new(Self::from_json(&declared["element"], document, namespace)?)),
            "Record" => Self::Record(Self::members(declared, document, namespace)?),
            other => return Self::resolve(other, document, namespace, kind != "Entity"),
        })
    }

    /// The entity types within it.
    pub(super) fn entities(&self) -> Vec<&EntityTypeName> {
        match self {
            Self::Entity(name) => vec![name],
            Self::Set(element) => element.entities(),
            Self::Record(members) => members.values().flat_map(|it| it.kind.entities()).collect(),
            _ => Vec::new(),
        }
    }

    /// An unqualified name is looked up in its own namespace first, and common types come before entity types.
    fn resolve(name: &str, document: &Value, namespace: &str, common: bool) -> Option<Self> {
        let places = match name.rsplit_once("::") {
            Some(place) => vec![place],
            None => vec![(namespace, name), ("", name)],
        };
        places.into_iter().find_map(|(namespace, base)| {
            let all = document.get(namespace)?;
            if let Some(it) = all["commonTypes"].get(base).filter(|_| common) {
                return Self::from_json(it, document, namespace);
            }
            all["entityTypes"].get(base)?;
            let full = if namespace.is_empty() { base.to_owned() } else { format!("{namespace}::{base}") };
            full.parse().ok().map(Self::Entity)
        })
    }

    fn members(declared: &Value, document: &Value, namespace: &str) -> Option<BTreeMap<String, Member>> {
        let attributes = declared["attributes"].as_object()?;
        let member = |it: &Value| {
            let kind = Self::from_json(it, document, namespace)?;
            Some(Member { kind, required: it["required"] != json!(false) })
        };
        attributes.iter().map(|(name, it)| Some((name.clone(), member(it)?))).collect()
    }
}

/// A type by its name, in Cedar's JSON form.
pub(super) fn named(name: &str) -> Value {
    json!({"type": "EntityOrCommon", "name": name})
}

/// A record type, in Cedar's JSON form.
pub(super) fn record(members: impl IntoIterator<Item = (String, Value)>) -> Value {
    json!({"type": "Record", "attributes": members.into_iter().collect::<Map<_, _>>()})
}
