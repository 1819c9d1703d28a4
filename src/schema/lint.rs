//! What is refused in a schema at registration although it may be valid: whatever would be ignored in silence, whatever
//! is outside the document, and whatever would never end.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::declared::pointer_of;
use super::keywords::{Holds, holds};
use super::near::nearest;
use crate::builder::Problem;
use crate::canonical::{MAX_DEPTH, push_name};

/// The one dialect.
pub(super) const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

const KEYWORDS: &str = "use the keywords of JSON Schema 2020-12, or a name that starts with `x-`";

/// What a walk through a schema found.
pub(super) struct Findings<'a> {
    pub(super) problems: Vec<Problem>,
    /// Every `default`, and the JSON Pointer of the schema that has it.
    pub(super) defaults: Vec<(String, &'a Value)>,
}

/// Walks through `document`. `side` is `input` or `output`, `at` the capability's id.
pub(super) fn lint<'a>(
    document: &'a Value,
    at: &str,
    side: &'static str,
    is_format: &dyn Fn(&str) -> bool,
) -> Findings<'a> {
    let found = Findings { problems: Vec::new(), defaults: Vec::new() };
    let mut walk =
        Walk { at, side, is_format, found, places: HashSet::new(), references: Vec::new(), edges: HashMap::new() };
    walk.schema(document, "", 0);
    walk.check_references();
    walk.check_cycles();
    walk.found
}

/// What only inputs must be: an object that says whether it is open.
pub(super) fn lint_root(document: &Value, at: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if document.get("type").and_then(Value::as_str) != Some("object") {
        let what = "input schema: the root is not an object";
        problems.push(Problem::new(
            at,
            what,
            "say `\"type\": \"object\"` at the root; a handler takes a struct or `()`",
        ));
    }
    if document.get("additionalProperties").is_none() && document.get("unevaluatedProperties").is_none() {
        let what = "input schema: the root does not say whether undeclared members are allowed";
        problems.push(Problem::new(
            at,
            what,
            "close it with `\"additionalProperties\": false`, or open it with `true`",
        ));
    }
    problems
}

struct Walk<'a, 'w> {
    at: &'w str,
    side: &'static str,
    is_format: &'w dyn Fn(&str) -> bool,
    found: Findings<'a>,
    /// Where the document has schemas.
    places: HashSet<String>,
    /// Where a reference is, and its target.
    references: Vec<(String, String)>,
    /// From a schema to those that apply to the same value.
    edges: HashMap<String, Vec<String>>,
}

impl<'a> Walk<'a, '_> {
    fn problem(&mut self, pointer: &str, what: impl AsRef<str>, fix: impl Into<String>) {
        let place = if pointer.is_empty() { String::new() } else { format!("`{pointer}`: ") };
        let what = format!("{} schema: {place}{}", self.side, what.as_ref());
        self.found.problems.push(Problem::new(self.at, what, fix));
    }

    fn schema(&mut self, schema: &'a Value, pointer: &str, depth: usize) {
        if depth > MAX_DEPTH {
            self.problem("", format!("it is nested more than {MAX_DEPTH} levels deep"), "flatten it with `$defs`");
            return;
        }
        self.places.insert(pointer.to_owned());
        let Some(members) = schema.as_object() else { return };
        for (keyword, value) in members {
            match holds(keyword) {
                None => self.unknown(pointer, keyword, members),
                Some(Holds::Plain) => self.plain(pointer, keyword, value),
                Some(held) => self.inner(held, value, pointer, keyword, depth),
            }
        }
    }

    fn inner(&mut self, held: Holds, value: &'a Value, pointer: &str, keyword: &str, depth: usize) {
        let base = format!("{pointer}/{keyword}");
        let inside: Vec<(String, &'a Value)> = match held {
            Holds::Child | Holds::Same => vec![(base, value)],
            Holds::Children | Holds::SameMap | Holds::Definitions => {
                let named = value.as_object().into_iter().flatten();
                named.map(|(name, it)| (join(&base, name), it)).collect()
            }
            Holds::ChildList | Holds::SameList => {
                let listed = value.as_array().into_iter().flatten().enumerate();
                listed.map(|(index, it)| (format!("{base}/{index}"), it)).collect()
            }
            Holds::Plain => Vec::new(),
        };
        for (place, it) in inside {
            if matches!(held, Holds::Same | Holds::SameList | Holds::SameMap) {
                self.edges.entry(pointer.to_owned()).or_default().push(place.clone());
            }
            self.schema(it, &place, depth + 1);
        }
    }

    fn plain(&mut self, pointer: &str, keyword: &str, value: &'a Value) {
        match (keyword, value) {
            ("default", _) => self.found.defaults.push((pointer.to_owned(), value)),
            ("format", Value::String(name)) if !(self.is_format)(name) => {
                let what = format!("unknown format `{name}`, which would check nothing");
                self.problem(pointer, what, "use a format of JSON Schema 2020-12, or `pattern`");
            }
            ("$schema", Value::String(dialect)) if dialect.trim_end_matches('#') != DIALECT => {
                self.problem(
                    pointer,
                    format!("dialect `{dialect}`"),
                    format!("leave `$schema` out, or say `{DIALECT}`"),
                );
            }
            ("$schema" | "$id", _) if !pointer.is_empty() => {
                self.problem(pointer, format!("`{keyword}` inside a schema"), format!("remove `{keyword}`"));
            }
            ("$ref", Value::String(target)) => self.reference(pointer, target),
            _ => {}
        }
    }

    fn reference(&mut self, pointer: &str, target: &str) {
        let Some(place) = pointer_of(target) else {
            let what = format!("`$ref` to `{target}`, which is not a place in this schema and is never fetched");
            self.problem(pointer, what, "copy what it refers to under `$defs` and refer to `#/$defs/..`");
            return;
        };
        self.edges.entry(pointer.to_owned()).or_default().push(place.clone());
        self.references.push((pointer.to_owned(), place));
    }

    fn unknown(&mut self, pointer: &str, keyword: &str, members: &Map<String, Value>) {
        let fix = match keyword {
            "nullable" => {
                let kind = members.get("type").and_then(Value::as_str).unwrap_or("string");
                format!("write `\"type\": [\"{kind}\", \"null\"]`")
            }
            "example" => "write `examples`, an array".to_owned(),
            "$anchor" | "$dynamicAnchor" | "$dynamicRef" | "$recursiveAnchor" | "$recursiveRef" => {
                "refer to `#/$defs/..` with `$ref`".to_owned()
            }
            _ => match nearest(KNOWN.iter().copied(), keyword) {
                Some(known) => format!("did you mean `{known}`?"),
                None => KEYWORDS.to_owned(),
            },
        };
        let fate = if keyword.starts_with('$') { "is not supported" } else { "would be ignored" };
        self.problem(pointer, format!("keyword `{keyword}` {fate}"), fix);
    }

    fn check_references(&mut self) {
        for (pointer, target) in std::mem::take(&mut self.references) {
            if !self.places.contains(&target) {
                let what = format!("`$ref` to `#{target}`, where this schema has no schema");
                self.problem(&pointer, what, "add it under `$defs`, or correct the reference");
            }
        }
    }

    /// A schema that applies itself to the same value would be evaluated for ever.
    fn check_cycles(&mut self) {
        let mut done = HashSet::new();
        let mut starts: Vec<String> = self.edges.keys().cloned().collect();
        starts.sort();
        for start in starts {
            if let Some(place) = find_cycle(&self.edges, &start, &mut done) {
                self.problem(
                    &place,
                    "the schema applies itself to the same value, without end",
                    "remove the reference",
                );
            }
        }
    }
}

/// A place on a cycle that is reachable from `start`. Places in `done` are settled.
fn find_cycle(edges: &HashMap<String, Vec<String>>, start: &str, done: &mut HashSet<String>) -> Option<String> {
    let mut path: Vec<(&str, usize)> = vec![(start, 0)];
    while let Some((place, next)) = path.last_mut() {
        let target = edges.get(*place).and_then(|it| it.get(*next));
        *next += 1;
        let Some(target) = target else {
            done.insert((*place).to_owned());
            path.pop();
            continue;
        };
        if path.iter().any(|(it, _)| it == target) {
            done.extend(path.iter().map(|(it, _)| (*it).to_owned()));
            return Some(target.clone());
        }
        if !done.contains(target) {
            path.push((target, 0));
        }
    }
    None
}

fn join(base: &str, name: &str) -> String {
    let mut out = format!("{base}/");
    push_name(&mut out, name);
    out
}

/// The keywords that people misspell.
const KNOWN: [&str; 30] = [
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "default",
    "dependentRequired",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "examples",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "required",
    "type",
    "uniqueItems",
];
