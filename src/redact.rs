//! Paths of what never leaves: JSON Pointers (RFC 6901) in which `*` stands for every member or element.

use serde_json::Value;

use crate::schema::declared::{self, Facets};

/// A compiled path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RedactPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Every,
    /// A member, or an element if the name is an index.
    One(String, Option<usize>),
}

/// Why a text is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathError {
    #[error("it would remove everything")]
    Whole,
    #[error("it does not start with `/`")]
    NoSlash,
    #[error("`~` is not followed by `0` or `1`")]
    Escape,
}

impl RedactPath {
    /// Compiles `/customer/email` or `/items/*/note`.
    pub(crate) fn compile(text: &str) -> Result<Self, PathError> {
        if text.is_empty() {
            return Err(PathError::Whole);
        }
        let steps = text.strip_prefix('/').ok_or(PathError::NoSlash)?.split('/');
        Ok(Self(steps.map(Step::compile).collect::<Result<_, _>>()?))
    }

    /// Whether `schema` has such a place. One that it does not have is a typing error that would leak.
    pub(crate) fn is_declared_in(&self, schema: &Value) -> bool {
        let mut facets = declared::root(schema);
        for step in &self.0 {
            facets = step.below(schema, &facets);
        }
        !facets.is_empty()
    }
}

impl Step {
    fn compile(escaped: &str) -> Result<Self, PathError> {
        if escaped == "*" {
            return Ok(Self::Every);
        }
        let mut name = String::with_capacity(escaped.len());
        let mut chars = escaped.chars();
        while let Some(char) = chars.next() {
            name.push(match (char, char == '~') {
                (_, true) => match chars.next() {
                    Some('0') => '~',
                    Some('1') => '/',
                    Some(_) | None => return Err(PathError::Escape),
                },
                (other, false) => other,
            });
        }
        let is_index = name == "0" || (!name.starts_with('0') && name.bytes().all(|it| it.is_ascii_digit()));
        let index = if is_index { name.parse().ok() } else { None };
        Ok(Self::One(name, index))
    }

    fn below<'a>(&self, schema: &'a Value, facets: &Facets<'a>) -> Facets<'a> {
        match self {
            Self::Every => declared::every(schema, facets),
            Self::One(name, index) => {
                let mut found = declared::member(schema, facets, name);
                if let Some(index) = index {
                    found.extend(declared::element(schema, facets, *index));
                }
                found
            }
        }
    }
}

/// Removes what `paths` name. A named element becomes null, so that the others keep their places; `*` at the end
/// empties an array.
pub(crate) fn redact(value: &mut Value, paths: &[RedactPath]) {
    for path in paths {
        remove(value, &path.0);
    }
}

fn remove(value: &mut Value, steps: &[Step]) {
    let Some((step, rest)) = steps.split_first() else { return };
    if !rest.is_empty() {
        return below(value, step).into_iter().for_each(|it| remove(it, rest));
    }
    match (value, step) {
        (Value::Object(members), Step::Every) => members.clear(),
        (Value::Object(members), Step::One(name, _)) => {
            members.remove(name); // the order of the others is not kept, and never said
        }
        (Value::Array(items), Step::Every) => items.clear(),
        (Value::Array(items), Step::One(_, Some(index))) => {
            if let Some(item) = items.get_mut(*index) {
                *item = Value::Null;
            }
        }
        (Value::Array(_), Step::One(_, None))
        | (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _) => {}
    }
}

fn below<'v>(value: &'v mut Value, step: &Step) -> Vec<&'v mut Value> {
    match (value, step) {
        (Value::Object(members), Step::Every) => members.values_mut().collect(),
        (Value::Object(members), Step::One(name, _)) => members.get_mut(name).into_iter().collect(),
        (Value::Array(items), Step::Every) => items.iter_mut().collect(),
        (Value::Array(items), Step::One(_, Some(index))) => items.get_mut(*index).into_iter().collect(),
        (Value::Array(_), Step::One(_, None))
        | (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redacted(mut value: Value, paths: &[&str]) -> Value {
        let paths: Vec<_> = paths.iter().map(|it| RedactPath::compile(it).unwrap()).collect();
        redact(&mut value, &paths);
        value
    }

    #[test]
    fn members_go_and_elements_keep_their_places() {
        let value = json!({
            "a": 1, "b": {"x": 1, "y": 2}, "list": [{"p": 1, "q": 2}, {"p": 3}, 7], "all": [1, 2], "pair": [1, 2, 3],
            "a/b": 1, "m~n": 1, "map": {"k": {"s": 1, "t": 2}}, "0": "zero"
        });
        let paths = ["/a", "/b/x", "/list/*/p", "/all/*", "/pair/1", "/a~1b", "/m~0n", "/map/*/s", "/none/*/x", "/0"];
        let expected = json!({
            "b": {"y": 2}, "list": [{"q": 2}, {}, 7], "all": [], "pair": [1, null, 3], "map": {"k": {"t": 2}}
        });
        assert_eq!(redacted(value, &paths), expected);
    }

    #[test]
    fn a_text_that_is_no_path_is_refused() {
        let refused: Vec<_> = ["", "a", "/a~2", "/~"].iter().map(|it| RedactPath::compile(it).unwrap_err()).collect();
        assert_eq!(refused, [PathError::Whole, PathError::NoSlash, PathError::Escape, PathError::Escape]);
    }

    #[test]
    fn a_path_is_declared_through_references_lists_maps_and_combinations() {
        let schema = json!({
            "type": "object",
            "properties": {
                "who": {"$ref": "#/$defs/person"},
                "people": {"type": "array", "items": {"$ref": "#/$defs/person"}},
                "maybe": {"anyOf": [{"$ref": "#/$defs/person"}, {"type": "null"}]},
                "map": {"additionalProperties": {"$ref": "#/$defs/person"}},
                "open": {"type": "object"},
                "pair": {"prefixItems": [{"type": "string"}, {"$ref": "#/$defs/person"}], "items": false},
            },
            "allOf": [{"properties": {"also": {"type": "string"}}}],
            "$defs": {"person": {"type": "object", "properties": {"email": {"type": "string"}, "boss": {"$ref": "#/$defs/person"}}}}
        });
        let is_declared = |it: &&str| RedactPath::compile(it).unwrap().is_declared_in(&schema);
        let paths = [
            "/who/email",
            "/who/boss/boss/email",
            "/people/*/email",
            "/people/3/email",
            "/maybe/email",
            "/map/*/email",
            "/also",
            "/*",
            "/pair/1/email",
            "/who/*",
            "/nobody",
            "/who/mail",
            "/people/email",
            "/map/key/email",
            "/open/x",
            "/open/*",
            "/pair/2",
            "/who/email/x",
        ];
        let declared: Vec<_> = paths.iter().filter(|it| is_declared(it)).copied().collect();
        assert_eq!(declared, paths[..10]);
    }
}
