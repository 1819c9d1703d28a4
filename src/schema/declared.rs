//! What a schema declares at a place: which members exist, and which schemas apply to them.
//!
//! A place is a list of *facets*: all schemas that may apply to one value, with local references and combinations
//! (`allOf`, `oneOf`, ..) flattened. This asks what is *mentioned*, not what is valid.

use serde_json::Value;

/// All schemas that may apply to one value.
pub(crate) type Facets<'a> = Vec<&'a Value>;

/// The facets of the whole document.
pub(crate) fn root(document: &Value) -> Facets<'_> {
    flatten(document, vec![document], &Combine::Any)
}

/// Which combinations a walk looks into.
pub(crate) enum Combine {
    /// Whatever could apply.
    Any,
    /// What applies in any case.
    Always,
    /// References alone.
    References,
}

/// Adds what `schemas` refer to, each once, in order.
pub(crate) fn flatten<'a>(document: &'a Value, schemas: Vec<&'a Value>, combine: &Combine) -> Facets<'a> {
    let mut out: Facets<'a> = Vec::new();
    let mut left = schemas;
    left.reverse();
    while let Some(schema) = left.pop() {
        if out.iter().any(|it| std::ptr::eq(*it, schema)) {
            continue;
        }
        out.push(schema);
        let mut next = in_place(document, schema, combine);
        next.reverse();
        left.append(&mut next);
    }
    out
}

fn in_place<'a>(document: &'a Value, schema: &'a Value, combine: &Combine) -> Vec<&'a Value> {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|it| resolve(document, it));
    let mut out: Vec<&Value> = target.into_iter().collect();
    let lists: &[&str] = match combine {
        Combine::Any => &["allOf", "anyOf", "oneOf"],
        Combine::Always => &["allOf"],
        Combine::References => &[],
    };
    out.extend(lists.iter().filter_map(|it| schema.get(it)?.as_array()).flatten());
    if matches!(combine, Combine::Any) {
        out.extend(["if", "then", "else"].iter().filter_map(|it| schema.get(it)));
        out.extend(schema.get("dependentSchemas").and_then(Value::as_object).into_iter().flat_map(|it| it.values()));
    }
    out
}

/// The schema that a local reference names: `#` or `#/$defs/x`.
pub(crate) fn resolve<'a>(document: &'a Value, reference: &str) -> Option<&'a Value> {
    document.pointer(&pointer_of(reference)?)
}

/// The JSON Pointer in a local reference, percent-decoded (RFC 6901, section 6).
pub(crate) fn pointer_of(reference: &str) -> Option<String> {
    let fragment = reference.strip_prefix('#')?;
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(rest.next()?).to_digit(16)?;
        let low = char::from(rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    let pointer = String::from_utf8(bytes).ok()?;
    (pointer.is_empty() || pointer.starts_with('/')).then_some(pointer)
}

/// What is declared for the member `name`; empty if it is not declared.
pub(crate) fn member<'a>(document: &'a Value, facets: &Facets<'a>, name: &str) -> Facets<'a> {
    let found = facets.iter().filter_map(|it| it.get("properties")?.as_object()?.get(name)).collect();
    flatten(document, found, &Combine::Any)
}

/// The names of all declared members.
pub(crate) fn names<'a>(facets: &Facets<'a>) -> impl Iterator<Item = &'a str> {
    let properties = facets.iter().filter_map(|it| it.get("properties")?.as_object()).collect::<Vec<_>>();
    properties.into_iter().flat_map(|it| it.keys().map(String::as_str))
}

/// What is declared for the element `index`.
pub(crate) fn element<'a>(document: &'a Value, facets: &Facets<'a>, index: usize) -> Facets<'a> {
    let mut found = Vec::new();
    for facet in facets {
        match facet.get("prefixItems").and_then(|it| it.get(index)) {
            Some(item) => found.push(item),
            None => found.extend(facet.get("items")),
        }
        found.extend(facet.get("contains"));
        found.extend(facet.get("unevaluatedItems"));
    }
    found.retain(|it| **it != Value::Bool(false));
    flatten(document, found, &Combine::Any)
}

/// What is declared for any member or element, named or not.
pub(crate) fn every<'a>(document: &'a Value, facets: &Facets<'a>) -> Facets<'a> {
    let mut found = Vec::new();
    for facet in facets {
        for keyword in ["additionalProperties", "unevaluatedProperties", "items", "contains", "unevaluatedItems"] {
            found.extend(facet.get(keyword));
        }
        for keyword in ["properties", "patternProperties"] {
            found.extend(facet.get(keyword).and_then(Value::as_object).into_iter().flat_map(|it| it.values()));
        }
        found.extend(facet.get("prefixItems").and_then(Value::as_array).into_iter().flatten());
    }
    found.retain(|it| **it != Value::Bool(false));
    flatten(document, found, &Combine::Any)
}
