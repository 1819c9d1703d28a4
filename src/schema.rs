//! Compiled JSON Schemas: strict parsing, normalising, validating, decoding, hashing. The only user of `jsonschema`.

use std::sync::Arc;

use serde_json::Value;

use crate::CapabilityId;
use crate::outcome::Detail;

/// Input as it arrived.
pub(crate) enum Given<'a> {
    Text(&'a str),
    Value(&'a Value),
}

/// Input that is valid, normalised, and hashed once (INV-6).
#[derive(Clone, Debug)]
pub(crate) struct Accepted {
    pub(crate) value: Arc<Value>,
    /// RFC 8785 text of `value`.
    pub(crate) canonical: Arc<str>,
    /// `sha256:` and hexadecimal.
    pub(crate) hash: Arc<str>,
    /// The same before defaults were applied (IDM-3).
    pub(crate) given_hash: Arc<str>,
}

/// Why input was refused: up to 64 problems, never a value. `outward` may name an undeclared member that is nearly a
/// declared one; `paths` holds declared paths only, for events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) outward: Vec<Detail>,
    pub(crate) paths: Vec<String>,
    /// Whether it was well-formed JSON all the same (HTTP 422 rather than 400).
    pub(crate) well_formed: bool,
}

/// A compiled input schema.
pub(crate) struct InputSchema {}

/// A compiled output schema.
pub(crate) struct OutputSchema {}

impl InputSchema {
    pub(crate) fn accept(&self, _capability: &CapabilityId, _given: &Given<'_>) -> Result<Accepted, Refused> {
        Err(Refused::default())
    }
}

impl OutputSchema {
    /// Where the output breaks its schema, for the log: keywords and paths, never values.
    pub(crate) fn check(&self, _output: &Value) -> Result<(), Vec<String>> {
        Ok(())
    }
}
