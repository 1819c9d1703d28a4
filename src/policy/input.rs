//! JSON Schema to Cedar types: total and boring. What has no Cedar type is left out, with the reason.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::types::{Member, Type};

/// A path of the input of which policies see less than a call has, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LeftOut {
    pub(super) path: String,
    pub(super) why: String,
}

/// Where policies see a set instead of an array.
pub(super) fn of_arrays(kind: &Type, path: &str) -> Vec<LeftOut> {
    match kind {
        Type::Set(element) => {
            let why = "policies see a set: the order, the number and the repetitions of its elements are lost".into();
            let own = LeftOut { path: path.to_owned(), why };
            std::iter::once(own).chain(of_arrays(element, &format!("{path}/*"))).collect()
        }
        Type::Record(members) => {
            members.iter().flat_map(|(name, it)| of_arrays(&it.kind, &below(path, name))).collect()
        }
        _ => Vec::new(),
    }
}

/// The JSON Pointer of a member.
fn below(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The record type of a capability's input.
pub(super) fn of_input(schema: &Value, left_out: &mut Vec<LeftOut>) -> Type {
    let mut mapper = Mapper { document: schema, open: Vec::new(), left_out };
    let why = match mapper.map(schema, "", true) {
        Ok((kind @ Type::Record(_), _)) => return kind,
        Ok(_) => "it is not an object".to_owned(),
        Err(why) => why,
    };
    left_out.push(LeftOut { path: "/".into(), why });
    Type::Record(BTreeMap::new())
}

/// The type and whether null is legal too; or why there is none.
type Mapped = Result<(Type, bool), String>;

struct Mapper<'a> {
    document: &'a Value,
    /// The references that are being followed.
    open: Vec<String>,
    left_out: &'a mut Vec<LeftOut>,
}

impl Mapper<'_> {
    /// `defaults`: whether stage 6 fills in defaults here. It reaches members through `properties` and `$ref` only.
    fn map(&mut self, schema: &Value, path: &str, defaults: bool) -> Mapped {
        let Some(keywords) = schema.as_object() else { return Err("it has no type".into()) };
        if let Some(reference) = keywords.get("$ref").and_then(Value::as_str) {
            return self.follow(reference, path, defaults);
        }
        // All keywords hold together, so `type` is enough: what stands beside it only narrows.
        if !keywords.contains_key("type") {
            for keyword in ["anyOf", "oneOf"] {
                if let Some(Value::Array(alternatives)) = keywords.get(keyword) {
                    return self.union(alternatives, path);
                }
            }
        }
        let (name, nullable) = type_name(keywords)?;
        let kind = match name.as_str() {
            "boolean" => Type::Bool,
            "integer" => Type::Long,
            "string" => string(keywords),
            "number" => number(keywords)?,
            "array" => self.array(keywords, path)?,
            "object" => self.object(keywords, path, defaults)?,
            "null" => return Err("it is always null".into()),
            other => return Err(format!("`{other}` is no type")),
        };
        Ok((kind, nullable))
    }

    fn follow(&mut self, reference: &str, path: &str, defaults: bool) -> Mapped {
        let document = self.document;
        let Some(pointer) = reference.strip_prefix('#') else { return Err("its reference is not local".into()) };
        if self.open.iter().any(|it| it == pointer) {
            return Err("it is recursive".into());
        }
        let Some(target) = document.pointer(pointer) else { return Err("its reference leads nowhere".into()) };
        self.open.push(pointer.to_owned());
        let mapped = self.map(target, path, defaults);
        self.open.pop();
        mapped
    }

    /// `anyOf` and `oneOf`: one type with or without null (an `Option`), or one scalar type (a documented enum).
    fn union(&mut self, alternatives: &[Value], path: &str) -> Mapped {
        let is_null = |it: &&Value| it["type"] == "null" || it.get("const") == Some(&Value::Null);
        let (nulls, rest): (Vec<&Value>, Vec<&Value>) = alternatives.iter().partition(is_null);
        let mut found: Option<(Type, bool)> = None;
        for alternative in rest {
            let (kind, nullable) = self.map(alternative, path, false)?;
            match &mut found {
                None => found = Some((kind, nullable)),
                Some((same, null)) if *same == kind && !matches!(kind, Type::Record(_)) => *null |= nullable,
                Some(_) => return Err("it is a union".into()),
            }
        }
        let (kind, nullable) = found.ok_or("it is always null")?;
        Ok((kind, nullable || !nulls.is_empty()))
    }

    fn array(&mut self, keywords: &Map<String, Value>, path: &str) -> Result<Type, String> {
        if keywords.contains_key("prefixItems") {
            return Err("it is a tuple".into());
        }
        let items = keywords.get("items").ok_or("it is an array of anything")?;
        match self.map(items, &format!("{path}/*"), false)? {
            (_, true) => Err("its elements may be null".into()),
            (kind, false) => Ok(Type::Set(Box::new(kind))),
        }
    }

    fn object(&mut self, keywords: &Map<String, Value>, path: &str, defaults: bool) -> Result<Type, String> {
        let Some(properties) = keywords.get("properties").and_then(Value::as_object) else {
            let closed = keywords.get("additionalProperties") == Some(&json!(false));
            return if closed { Ok(Type::Record(BTreeMap::new())) } else { Err("it is a map".into()) };
        };
        let required = keywords.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|it| it.iter().any(|it| it == name));
        let mut members = BTreeMap::new();
        for (name, schema) in properties {
            let path = below(path, name);
            match self.map(schema, &path, defaults) {
                Ok((kind, nullable)) => {
                    let filled = defaults && schema.get("default").is_some_and(|it| !it.is_null());
                    let required = !nullable && (is_required(name) || filled);
                    members.insert(name.clone(), Member { kind, required });
                }
                Err(why) => self.left_out.push(LeftOut { path, why }),
            }
        }
        Ok(Type::Record(members))
    }
}

/// The one type besides null, and whether null is legal.
fn type_name(keywords: &Map<String, Value>) -> Result<(String, bool), String> {
    let literals = match (keywords.get("const"), keywords.get("enum")) {
        (Some(it), _) => Some(vec![it]),
        (None, Some(Value::Array(all))) => Some(all.iter().collect()),
        (None, _) => None,
    };
    let null_listed = |all: &Vec<&Value>| all.iter().any(|it| it.is_null());
    let (mut names, mut nullable): (Vec<&str>, bool) = match (keywords.get("type"), &literals) {
        (Some(Value::String(name)), _) => (vec![name], false),
        (Some(Value::Array(names)), _) => (names.iter().filter_map(Value::as_str).collect(), false),
        (Some(_), _) => return Err("its type is malformed".into()),
        (None, Some(all)) => (all.iter().map(|it| name_of(it)).collect(), false),
        (None, None) => return Err("it has no type".into()),
    };
    names.sort_unstable();
    names.dedup();
    if names.len() > 1 && names.contains(&"null") {
        // an enum without null narrows a type that allows it
        nullable = literals.as_ref().is_none_or(null_listed);
        names.retain(|it| *it != "null");
    }
    match names[..] {
        [name] => Ok((name.to_owned(), nullable)),
        ["integer", "number"] => Ok(("number".into(), nullable)),
        _ => Err("it is a union".into()),
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(it) if it.is_i64() || it.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn string(keywords: &Map<String, Value>) -> Type {
    match keywords.get("format").and_then(Value::as_str) {
        Some("date-time") => Type::DateTime,
        Some("ipv4" | "ipv6") => Type::Ip,
        _ => Type::String,
    }
}

/// Up to here an `f64` still tells numbers apart that differ in the fourth digit.
const MAX_DECIMAL: f64 = 900_719_925_474.0;

fn number(keywords: &Map<String, Value>) -> Result<Type, String> {
    let of = |name: &str| keywords.get(name).and_then(Value::as_f64);
    let steps = of("multipleOf").unwrap_or_default() * 1e4;
    if steps.round() < 1.0 || (steps - steps.round()).abs() > 1e-9 * steps.max(1.0) {
        return Err("it is a number without `multipleOf` a multiple of 0.0001".into());
    }
    let low = of("minimum").or_else(|| of("exclusiveMinimum"));
    let high = of("maximum").or_else(|| of("exclusiveMaximum"));
    match (low, high) {
        (Some(low), Some(high)) if low >= -MAX_DECIMAL && high <= MAX_DECIMAL => Ok(Type::Decimal),
        _ => Err("it is a number without `minimum` and `maximum` within 900719925474".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::{optional, show_type as show};

    /// One line: the type of member `v`, `?` if it is optional, or why it was left out.
    fn mapped(schema: &Value) -> String {
        let document = json!({"type": "object", "properties": {"v": schema}, "required": ["v"], "$defs": {
            "S": {"type": "object", "properties": {"x": {"type": "integer", "default": 1}}},
            "N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}},
        }});
        let mut left_out = Vec::new();
        let Type::Record(members) = of_input(&document, &mut left_out) else { return "no record".into() };
        let mut out = members.get("v").map_or_else(String::new, |it| show(&it.kind) + optional(it));
        let left_out: Vec<String> = left_out.iter().map(|it| format!(" -{}: {}", it.path, it.why)).collect();
        out += &left_out.concat();
        out.trim().to_owned()
    }

    fn every_kind() -> Vec<Value> {
        vec![
            json!({"type": "boolean"}),
            json!({"type": "integer"}),
            json!({"type": "string", "enum": ["a"]}),
            json!({"const": "a"}),
            json!({"enum": [1, 2]}),
            json!({"enum": ["a", null]}),
            json!({"type": ["string", "null"], "enum": ["a"]}),
            json!({"enum": [1, "a"]}),
            json!({"type": "string", "format": "date-time"}),
            json!({"type": "string", "format": "ipv6"}),
            json!({"type": "string", "format": "email"}),
            json!({"type": "number"}),
            json!({"type": "number", "multipleOf": 0.01}),
            json!({"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 1000}),
            json!({"type": "number", "multipleOf": 0.00001, "minimum": 0, "maximum": 1000}),
            json!({"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 1e12}),
            json!({"type": ["string", "null"]}),
            json!({"type": ["string", "integer"]}),
            json!({"anyOf": [{"$ref": "#/$defs/S"}, {"type": "null"}]}),
            json!({"oneOf": [{"const": "A"}, {"const": "B"}]}),
            json!({"oneOf": [{"type": "object", "properties": {}}, {"type": "object", "properties": {}}]}),
            json!({"type": "object", "properties": {"a": {"type": "integer"}}, "anyOf": [{"required": ["a"]}]}),
            json!({"$ref": "#/$defs/S"}),
            json!({"$ref": "#/$defs/N"}),
            json!({"$ref": "https://other.example/x"}),
            json!({"type": "array", "items": {"$ref": "#/$defs/S"}}),
            json!({"type": "array", "items": {"type": ["string", "null"]}}),
            json!({"type": "array", "prefixItems": [{"type": "string"}]}),
            json!({"type": "array"}),
            json!({"type": "object"}),
            json!({"type": "object", "additionalProperties": false}),
            json!({"type": "object", "additionalProperties": true, "properties": {"a/b": {"type": "null"}}}),
            json!(true),
        ]
    }

    #[test]
    fn every_kind_of_schema_has_a_type_or_a_reason() {
        let table = every_kind();
        let lines: Vec<String> = table.iter().map(|it| format!("{it} => {}", mapped(it))).collect();
        insta::assert_snapshot!(lines.join("\n"), @r##"
        {"type":"boolean"} => Bool
        {"type":"integer"} => Long
        {"type":"string","enum":["a"]} => String
        {"const":"a"} => String
        {"enum":[1,2]} => Long
        {"enum":["a",null]} => String?
        {"type":["string","null"],"enum":["a"]} => String
        {"enum":[1,"a"]} => -/v: it is a union
        {"type":"string","format":"date-time"} => DateTime
        {"type":"string","format":"ipv6"} => Ip
        {"type":"string","format":"email"} => String
        {"type":"number"} => -/v: it is a number without `multipleOf` a multiple of 0.0001
        {"type":"number","multipleOf":0.01} => -/v: it is a number without `minimum` and `maximum` within 900719925474
        {"type":"number","multipleOf":0.01,"minimum":0,"maximum":1000} => Decimal
        {"type":"number","multipleOf":0.00001,"minimum":0,"maximum":1000} => -/v: it is a number without `multipleOf` a multiple of 0.0001
        {"type":"number","multipleOf":0.01,"minimum":0,"maximum":1000000000000.0} => -/v: it is a number without `minimum` and `maximum` within 900719925474
        {"type":["string","null"]} => String?
        {"type":["string","integer"]} => -/v: it is a union
        {"anyOf":[{"$ref":"#/$defs/S"},{"type":"null"}]} => {x?: Long}?
        {"oneOf":[{"const":"A"},{"const":"B"}]} => String
        {"oneOf":[{"type":"object","properties":{}},{"type":"object","properties":{}}]} => -/v: it is a union
        {"type":"object","properties":{"a":{"type":"integer"}},"anyOf":[{"required":["a"]}]} => {a?: Long}
        {"$ref":"#/$defs/S"} => {x: Long}
        {"$ref":"#/$defs/N"} => {} -/v/next: it is recursive
        {"$ref":"https://other.example/x"} => -/v: its reference is not local
        {"type":"array","items":{"$ref":"#/$defs/S"}} => Set<{x?: Long}>
        {"type":"array","items":{"type":["string","null"]}} => -/v: its elements may be null
        {"type":"array","prefixItems":[{"type":"string"}]} => -/v: it is a tuple
        {"type":"array"} => -/v: it is an array of anything
        {"type":"object"} => -/v: it is a map
        {"type":"object","additionalProperties":false} => {}
        {"type":"object","additionalProperties":true,"properties":{"a/b":{"type":"null"}}} => {} -/v/a~1b: it is always null
        true => -/v: it has no type
        "##);
    }

    #[test]
    fn a_default_makes_a_member_certain_only_where_stage_6_fills_it_in() {
        assert_eq!(mapped(&json!({"$ref": "#/$defs/S"})), "{x: Long}");
        assert_eq!(mapped(&json!({"type": "array", "items": {"$ref": "#/$defs/S"}})), "Set<{x?: Long}>");
        let schema = json!({"type": "object", "properties": {"v": {"type": "string", "default": null}}});
        let mut left_out = Vec::new();
        let Type::Record(members) = of_input(&schema, &mut left_out) else { unreachable!() };
        assert!(!members["v"].required);
    }

    #[test]
    fn an_input_that_is_no_object_is_left_out_whole() {
        let mut left_out = Vec::new();
        assert_eq!(of_input(&json!({"type": "string"}), &mut left_out), Type::Record(BTreeMap::new()));
        assert_eq!(left_out, [LeftOut { path: "/".into(), why: "it is not an object".into() }]);
    }
}
