//! Strict JSON, normalisation, RFC 8785 bytes, SHA-256.
//!
//! Two parties that read one text must see one value: whatever JSON leaves open (repeated members, lone surrogates,
//! numbers beyond what RFC 8785 can tell apart) is refused here, before anything looks at the input.

mod strict;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub(crate) use strict::{Fault, FaultKind, Faults, Segment, push, push_name};

use crate::audit::hex;

/// The longest input, as text and in canonical form.
pub(crate) const MAX_BYTES: usize = 1 << 20;

/// How many objects and arrays may enclose one another. Lower than the parser's own limit of 128, so what is accepted
/// survives storage and reload.
pub(crate) const MAX_DEPTH: usize = 64;

/// How many faults and problems an answer names.
pub(crate) const MAX_PROBLEMS: usize = 64;

const MAX_SAFE: i64 = (1 << 53) - 1;

/// Parses `text` strictly, with numbers normalised: an integral value is an integer.
pub(crate) fn parse(text: &str) -> Result<Value, Faults> {
    if text.len() > MAX_BYTES {
        return Err(Faults::one(FaultKind::Size, false));
    }
    strict::from_text(text)
}

/// The same checks and normalisation for JSON that is parsed already; what a parser lost (repeated members) is lost.
pub(crate) fn adopt(value: &Value) -> Result<Value, Faults> {
    strict::from_value(value)
}

/// Whether `value` is within the depth that [`parse`] accepts.
pub(crate) fn is_shallow(value: &Value) -> bool {
    fn fits(value: &Value, left: usize) -> bool {
        match value {
            Value::Array(items) => left > 0 && items.iter().all(|it| fits(it, left - 1)),
            Value::Object(members) => left > 0 && members.values().all(|it| fits(it, left - 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
    }
    fits(value, MAX_DEPTH)
}

/// RFC 8785 text.
pub(crate) fn text(value: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json_canonicalizer::to_string(value)
}

/// The hash that binds an input to a capability: `sha256:` and hexadecimal.
pub(crate) fn input_hash(capability: &str, canonical: &str) -> String {
    sha256(&["countersign/input/v1\n", capability, "\n", canonical])
}

/// `sha256:` and hexadecimal, of the concatenation.
pub(crate) fn sha256(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part);
    }
    format!("sha256:{}", hex(&digest.finalize()))
}

#[cfg(test)]
mod tests;
