//! Which defaults apply where, worked out once at registration.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::declared::{Combine, Facets, flatten};
use crate::canonical::{MAX_DEPTH, adopt};

/// How many members all defaults of one schema may add: a default may hold members that have defaults.
const MAX_ADDED: usize = 4096;

/// How many places a schema may have that defaults reach.
const MAX_PLACES: usize = 4096;

/// The defaults of absent members that are reachable through `properties` and local references.
#[derive(Debug)]
pub(super) struct Defaults {
    places: Vec<Place>,
}

/// All schemas of one object.
#[derive(Debug, Default)]
struct Place {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    name: String,
    /// With its own inner defaults: once inserted, nothing is left to do.
    default: Option<Value>,
    place: usize,
}

/// Defaults that add members without end, or far too many.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Endless;

impl Defaults {
    /// The plan for `schema`, a part of `document`; `None` if there is nothing to do.
    pub(super) fn plan(document: &Value, schema: &Value) -> Result<Option<Self>, Endless> {
        let mut plan = Self { places: Planner::run(document, schema)? };
        plan.prune();
        if plan.places.first().is_none_or(|it| it.members.is_empty()) {
            return Ok(None);
        }
        plan.complete()?;
        Ok(Some(plan))
    }

    /// Adds what is absent. Whether anything was.
    pub(super) fn apply(&self, value: &mut Value) -> bool {
        value.as_object_mut().is_some_and(|it| self.apply_at(0, it))
    }

    fn apply_at(&self, place: usize, object: &mut Map<String, Value>) -> bool {
        let mut added = false;
        for member in &self.places[place].members {
            match (object.get_mut(&member.name), &member.default) {
                (Some(Value::Object(inner)), _) => added |= self.apply_at(member.place, inner),
                (Some(_), _) | (None, None) => {}
                (None, Some(default)) => {
                    object.insert(member.name.clone(), default.clone());
                    added = true;
                }
            }
        }
        added
    }

    /// Forgets members that have no default and lead to none.
    fn prune(&mut self) {
        let mut live = vec![false; self.places.len()];
        loop {
            let mut grew = false;
            for (at, place) in self.places.iter().enumerate() {
                if !live[at] && place.members.iter().any(|it| it.default.is_some() || live[it.place]) {
                    live[at] = true;
                    grew = true;
                }
            }
            if !grew {
                break;
            }
        }
        for place in &mut self.places {
            place.members.retain(|it| it.default.is_some() || live[it.place]);
        }
    }

    /// Gives every default its own inner defaults.
    fn complete(&mut self) -> Result<(), Endless> {
        let mut left = MAX_ADDED;
        let mut completed = Vec::new();
        for (at, place) in self.places.iter().enumerate() {
            for (number, member) in place.members.iter().enumerate() {
                let Some(mut default) = member.default.clone() else { continue };
                self.expand(member.place, &mut default, 1, &mut left)?;
                completed.push((at, number, default));
            }
        }
        for (at, number, default) in completed {
            self.places[at].members[number].default = Some(default);
        }
        Ok(())
    }

    fn expand(&self, place: usize, value: &mut Value, depth: usize, left: &mut usize) -> Result<(), Endless> {
        let Some(object) = value.as_object_mut() else { return Ok(()) };
        if depth > MAX_DEPTH {
            return Err(Endless);
        }
        for member in &self.places[place].members {
            if let (false, Some(default)) = (object.contains_key(&member.name), &member.default) {
                *left = left.checked_sub(1).ok_or(Endless)?;
                object.insert(member.name.clone(), default.clone());
            }
            if let Some(inner) = object.get_mut(&member.name) {
                self.expand(member.place, inner, depth + 1, left)?;
            }
        }
        Ok(())
    }
}

/// Makes the places: one for each *set* of schemas that apply to one object, so that recursive schemas end.
struct Planner<'a> {
    document: &'a Value,
    known: HashMap<Vec<*const Value>, usize>,
    facets: Vec<Facets<'a>>,
}

impl<'a> Planner<'a> {
    fn run(document: &'a Value, schema: &'a Value) -> Result<Vec<Place>, Endless> {
        let mut planner = Self { document, known: HashMap::new(), facets: Vec::new() };
        planner.place(vec![schema]);
        let mut places = Vec::new();
        while let Some(facets) = planner.facets.get(places.len()).cloned() {
            if places.len() == MAX_PLACES {
                return Err(Endless);
            }
            places.push(Place { members: planner.members(&facets) });
        }
        Ok(places)
    }

    fn members(&mut self, facets: &Facets<'a>) -> Vec<Member> {
        let mut order: Vec<(&'a str, Vec<&'a Value>)> = Vec::new();
        for (name, schema) in facets.iter().filter_map(|it| it.get("properties")?.as_object()).flatten() {
            match order.iter_mut().find(|(it, _)| it == name) {
                Some((_, schemas)) => schemas.push(schema),
                None => order.push((name, vec![schema])),
            }
        }
        let mut out = Vec::new();
        for (name, schemas) in order {
            let schemas = flatten(self.document, schemas, &Combine::References);
            // A default beside a reference comes before the one that is referred to.
            let default = schemas.iter().find_map(|it| it.get("default")).and_then(|it| adopt(it).ok());
            out.push(Member { name: name.to_owned(), default, place: self.place(schemas) });
        }
        out
    }

    fn place(&mut self, schemas: Vec<&'a Value>) -> usize {
        let facets = flatten(self.document, schemas, &Combine::References);
        let key = facets.iter().map(|it| std::ptr::from_ref::<Value>(it)).collect();
        let next = self.facets.len();
        let place = *self.known.entry(key).or_insert(next);
        if place == next {
            self.facets.push(facets);
        }
        place
    }
}
