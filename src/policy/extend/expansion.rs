//! How large an application's types become. Cedar writes types out where they are named, each within the others, so that
//! a few lines can stand for more than memory and stack hold.

use std::collections::HashMap;

use serde_json::Value;

/// The most types that a file declares.
const MAX_TYPES: usize = 1_000;
/// The most parts of all its types, written out.
const MAX_PARTS: usize = 100_000;
/// The deepest type, written out.
const MAX_DEPTH: usize = 100;

/// A type, written out.
#[derive(Clone, Copy)]
struct Extent {
    parts: usize,
    depth: usize,
}

/// Whether everything that a fragment declares stays within the caps.
pub(super) fn is_bounded(fragment: &Value) -> bool {
    let declared = |part: &'static str| {
        let all = fragment.as_object().into_iter().flatten();
        all.flat_map(move |(namespace, it)| {
            it[part].as_object().into_iter().flatten().map(move |(name, kind)| (namespace.as_str(), name, kind))
        })
    };
    if declared("commonTypes").chain(declared("entityTypes")).count() > MAX_TYPES {
        return false;
    }
    let mut expansion = Expansion { fragment, measured: HashMap::new() };
    let commons = declared("commonTypes").map(|(namespace, _, kind)| (namespace, kind));
    let shapes =
        declared("entityTypes").flat_map(|(namespace, _, it)| [(namespace, &it["shape"]), (namespace, &it["tags"])]);
    let mut parts = 0_usize;
    commons.chain(shapes).all(|(namespace, kind)| {
        let extent = expansion.of(kind, namespace, 0);
        parts = parts.saturating_add(extent.map_or(MAX_PARTS + 1, |it| it.parts));
        parts <= MAX_PARTS
    })
}

struct Expansion<'a> {
    fragment: &'a Value,
    /// By full name; `None` while it is being measured: Cedar refuses a type within itself.
    measured: HashMap<String, Option<Extent>>,
}

impl<'a> Expansion<'a> {
    /// `None`: too much. `level`: how deep this stands.
    fn of(&mut self, kind: &'a Value, namespace: &'a str, level: usize) -> Option<Extent> {
        if level > MAX_DEPTH {
            return None;
        }
        let below: Vec<&Value> = match kind["type"].as_str() {
            Some("Record") => kind["attributes"].as_object().into_iter().flatten().map(|it| it.1).collect(),
            Some("Set") => vec![&kind["element"]],
            Some("EntityOrCommon") => return self.named(kind["name"].as_str()?, namespace, level),
            Some("Entity" | "Extension") | None => Vec::new(),
            Some(name) => return self.named(name, namespace, level),
        };
        let mut extent = Extent { parts: 1, depth: 1 };
        for it in below {
            let it = self.of(it, namespace, level + 1)?;
            extent.parts = extent.parts.checked_add(it.parts).filter(|it| *it <= MAX_PARTS)?;
            extent.depth = extent.depth.max(it.depth + 1);
        }
        Some(extent)
    }

    /// An unqualified name is looked up in its own namespace first.
    fn named(&mut self, name: &'a str, namespace: &'a str, level: usize) -> Option<Extent> {
        let places = match name.rsplit_once("::") {
            Some(place) => vec![place],
            None => vec![(namespace, name), ("", name)],
        };
        let leaf = Extent { parts: 1, depth: 1 };
        let fragment = self.fragment;
        let found =
            places.into_iter().find_map(|(at, base)| Some((at, base, fragment.get(at)?["commonTypes"].get(base)?)));
        let Some((at, base, kind)) = found else { return Some(leaf) };
        let full = format!("{at}::{base}");
        if let Some(known) = self.measured.get(&full) {
            let known = known.unwrap_or(leaf);
            return Some(known).filter(|it| level + it.depth <= MAX_DEPTH);
        }
        self.measured.insert(full.clone(), None);
        let Extent { parts, depth } = self.of(kind, at, level + 1)?;
        let extent = Extent { parts, depth: depth + 1 };
        self.measured.insert(full, Some(extent));
        Some(extent)
    }
}

#[cfg(test)]
mod tests {
    use cedar_policy::SchemaFragment;

    use super::*;

    fn bounded(text: &str) -> bool {
        is_bounded(&SchemaFragment::from_cedarschema_str(text).unwrap().0.to_json_value().unwrap())
    }

    fn chain(count: usize, link: impl Fn(usize) -> String) -> String {
        (1..count).map(|n| format!("type T{n} = {};\n", link(n - 1))).collect::<Vec<_>>().concat() + "type T0 = Long;"
    }

    #[test]
    fn types_within_types_are_measured_as_they_are_written_out() {
        assert!(bounded(&chain(50, |n| format!("{{a: T{n}}}"))));
        assert!(!bounded(&chain(900, |n| format!("{{a: T{n}}}"))), "depth");
        assert!(!bounded(&chain(900, |n| format!("T{n}"))), "depth, without brackets");
        assert!(bounded(&chain(10, |n| format!("{{a: T{n}, b: Set<T{n}>}}"))));
        assert!(!bounded(&chain(40, |n| format!("{{a: T{n}, b: Set<T{n}>}}"))), "size");
        assert!(!bounded(&(0..1_001).map(|n| format!("entity E{n};")).collect::<Vec<_>>().concat()), "count");
        assert!(bounded("namespace A { type T = {x: T2}; type T2 = Long; } type T = {y: A::T}; entity E = {t: T};"));
        assert!(bounded("type T = {x?: T};"), "which Cedar refuses");
    }
}
