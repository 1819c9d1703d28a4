//! Who could do what, from where: every actor, capability and surface, before there is input.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::World;
use crate::CapabilityId;
use crate::actor::{Identity, Surface};
use crate::audit::{PolicyError, PolicyRef};
use crate::capability::Governed;
use crate::clock::Timestamp;
use crate::policy::{Forecast, Outlook, PolicySet};

/// One actor, one capability, one surface.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) surface: Surface,
    pub(crate) capability: CapabilityId,
    pub(crate) actor: String,
    pub(crate) forecast: Forecast,
}

/// For machines.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    surface: Surface,
    capability: &'a CapabilityId,
    actor: &'a str,
    outcome: &'static str,
    types: &'a [String],
    policies: Vec<Value>,
    errors: &'a [PolicyError],
}

/// Cells by surface, then by capability in the order of registration, then by actor.
///
/// # Errors
/// A fault of the engine: what it could not rewrite.
pub(crate) fn matrix(
    set: &PolicySet,
    world: &World,
    surfaces: &[Surface],
    now: Timestamp,
) -> Result<Vec<Cell>, String> {
    let mut cells = Vec::new();
    for governed in world.registry.all() {
        cells.extend(of_capability(set, governed, world, surfaces, now)?);
    }
    cells.sort_by_key(|it| it.surface); // stable: the rest keeps its order
    Ok(cells)
}

/// The part of the matrix about one capability.
///
/// # Errors
/// As for [`matrix`].
pub(crate) fn of_capability(
    set: &PolicySet,
    governed: &Arc<Governed>,
    world: &World,
    surfaces: &[Surface],
    now: Timestamp,
) -> Result<Vec<Cell>, String> {
    let forecaster = set.forecaster(governed)?;
    let cell = |surface: Surface, name: &String, identity: &Identity| Cell {
        surface,
        capability: governed.id.clone(),
        actor: name.clone(),
        forecast: forecaster.forecast(&identity.clone().on(surface), now),
    };
    let of_surface = |surface: &Surface| {
        let surface = *surface;
        world.cast.iter().map(move |(name, identity)| (surface, name, identity))
    };
    Ok(surfaces.iter().flat_map(of_surface).map(|(surface, name, identity)| cell(surface, name, identity)).collect())
}

impl Cell {
    /// The outlook in one word.
    pub(crate) fn word(&self) -> &'static str {
        word(&self.forecast.outlook)
    }

    /// The types of approval that every permitted call needs, or that some do.
    pub(crate) fn types(&self) -> &[String] {
        types(&self.forecast.outlook)
    }

    /// The outlook with its types, `sometimes (manager)`.
    pub(crate) fn text(&self) -> String {
        text(&self.forecast.outlook)
    }

    /// Whether some input could come through.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.forecast.outlook, Outlook::Allow | Outlook::Approval(_) | Outlook::Sometimes(_))
    }

    /// The policies behind it, with their places.
    pub(crate) fn policies<'a>(&'a self, set: &'a PolicySet) -> impl Iterator<Item = (&'a PolicyRef, String)> {
        let place = |id: &str| set.place(id).map(ToString::to_string).unwrap_or_default();
        self.forecast.policies.iter().map(move |it| (it, place(&it.id)))
    }

    /// For machines.
    pub(crate) fn json(&self, set: &PolicySet) -> Value {
        let policies = self.policies(set);
        json!(Row {
            surface: self.surface,
            capability: &self.capability,
            actor: &self.actor,
            outcome: self.word(),
            types: self.types(),
            policies: policies.map(|(it, place)| json!({"id": it.id, "effect": it.effect, "place": place})).collect(),
            errors: &self.forecast.errors,
        })
    }
}

fn word(outlook: &Outlook) -> &'static str {
    match outlook {
        Outlook::Allow => "allow",
        Outlook::Approval(_) => "approval",
        Outlook::Sometimes(_) => "sometimes",
        Outlook::Deny => "deny",
        Outlook::Hidden => "hidden",
        Outlook::Unexposed => "unexposed",
        Outlook::Failed => "failed",
    }
}

fn types(outlook: &Outlook) -> &[String] {
    match outlook {
        Outlook::Approval(types) | Outlook::Sometimes(types) => types,
        Outlook::Allow | Outlook::Deny | Outlook::Hidden | Outlook::Unexposed | Outlook::Failed => &[],
    }
}

/// An outlook with its types.
pub(super) fn text(outlook: &Outlook) -> String {
    let types = types(outlook).join(", ");
    if types.is_empty() { word(outlook).to_owned() } else { format!("{} ({types})", word(outlook)) }
}
