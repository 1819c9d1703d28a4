//! The keywords of JSON Schema 2020-12, and where schemas are inside schemas.

use serde_json::Value;

/// What stands under a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// One schema for members or elements of the value.
    Child,
    /// Schemas by member name or pattern.
    Children,
    /// An array of schemas, one for each element.
    ChildList,
    /// One schema for the value itself.
    Same,
    /// An array of schemas for the value itself.
    SameList,
    /// Schemas for the value itself, by member name.
    SameMap,
    /// Schemas that apply where a `$ref` says so.
    Definitions,
    /// No schema.
    Plain,
}

/// Every keyword that is accepted, or `None`. An unknown one would be ignored in silence.
pub(crate) fn holds(keyword: &str) -> Option<Holds> {
    Some(match keyword {
        "additionalProperties"
        | "unevaluatedProperties"
        | "propertyNames"
        | "items"
        | "contains"
        | "unevaluatedItems"
        | "contentSchema" => Holds::Child,
        "properties" | "patternProperties" => Holds::Children,
        "prefixItems" => Holds::ChildList,
        "not" | "if" | "then" | "else" => Holds::Same,
        "allOf" | "anyOf" | "oneOf" => Holds::SameList,
        "dependentSchemas" => Holds::SameMap,
        "$defs" | "definitions" => Holds::Definitions,
        "$schema" | "$id" | "$ref" | "$comment" | "type" | "enum" | "const" | "multipleOf" | "maximum"
        | "exclusiveMaximum" | "minimum" | "exclusiveMinimum" | "maxLength" | "minLength" | "pattern" | "maxItems"
        | "minItems" | "uniqueItems" | "maxContains" | "minContains" | "maxProperties" | "minProperties"
        | "required" | "dependentRequired" | "format" | "contentEncoding" | "contentMediaType" | "title"
        | "description" | "default" | "deprecated" | "readOnly" | "writeOnly" | "examples" => Holds::Plain,
        _ if keyword.starts_with("x-") => Holds::Plain,
        _ => return None,
    })
}

/// Runs `change` on `schema` and on every schema inside it. Values (`default`, `const`, `examples`) are left alone.
pub(crate) fn for_each_mut(schema: &mut Value, change: &mut impl FnMut(&mut serde_json::Map<String, Value>)) {
    let Some(members) = schema.as_object_mut() else { return };
    change(members);
    for (keyword, value) in members.iter_mut() {
        match holds(keyword) {
            Some(Holds::Child | Holds::Same) => for_each_mut(value, change),
            Some(Holds::Children | Holds::SameMap | Holds::Definitions) => {
                let inner = value.as_object_mut();
                inner.into_iter().flat_map(|it| it.values_mut()).for_each(|it| for_each_mut(it, change));
            }
            Some(Holds::ChildList | Holds::SameList) => {
                let inner = value.as_array_mut();
                inner.into_iter().flatten().for_each(|it| for_each_mut(it, change));
            }
            Some(Holds::Plain) | None => {}
        }
    }
}
