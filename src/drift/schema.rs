//! The part of a JSON Schema that decides: without what is there for readers only (JSON Schema 2020-12, section 9).

use serde_json::{Map, Value};

/// Members that validate nothing.
const REMARKS: [&str; 7] = ["$comment", "title", "description", "examples", "deprecated", "readOnly", "writeOnly"];
/// Members whose members are names, each with a schema.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Members whose values are data.
const DATA: [&str; 5] = ["const", "enum", "default", "required", "dependentRequired"];

/// `sha256:` and hexadecimal: the same for schemas that differ in texts for readers only.
pub(super) fn digest(schema: &Value) -> String {
    crate::canonical::sha256(&["countersign/schema/v1\n", &crate::audit::canonical(&bare(schema))])
}

fn bare(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .filter(|(name, _)| !REMARKS.contains(&&***name))
                .map(|(name, value)| (name.clone(), member(name, value)))
                .collect::<Map<_, _>>(),
        ),
        Value::Array(all) => all.iter().map(bare).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

fn member(name: &str, value: &Value) -> Value {
    match value {
        Value::Object(named) if NAMED.contains(&name) => {
            Value::Object(named.iter().map(|(name, schema)| (name.clone(), bare(schema))).collect())
        }
        _ if DATA.contains(&name) => value.clone(),
        _ => bare(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn remarks_go_and_members_that_have_their_names_stay() {
        let schema = json!({
            "title": "T", "description": "d", "type": "object", "required": ["title"],
            "properties": {"title": {"type": "string", "description": "x"}, "kind": {"enum": [{"title": "kept"}]}},
            "$defs": {"description": {"examples": [1], "type": "null"}}, "allOf": [{"$comment": "c", "minProperties": 1}]
        });
        let expected = json!({
            "type": "object", "required": ["title"],
            "properties": {"title": {"type": "string"}, "kind": {"enum": [{"title": "kept"}]}},
            "$defs": {"description": {"type": "null"}}, "allOf": [{"minProperties": 1}]
        });
        assert_eq!(bare(&schema), expected);
        assert_eq!(digest(&schema), digest(&expected));
        assert_ne!(digest(&schema), digest(&json!({"type": "object"})));
    }
}
