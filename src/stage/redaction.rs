//! The outward form of an output.

use std::ops::Deref;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// An output as callers may see it: checked and redacted, whether it is fresh or a replay.
///
/// [`crate::Outcome::Completed`] takes nothing else, and nothing outside this file makes one but the empty one. Reads
/// as JSON: `output["refundId"]`. Serialises as the very bytes that are stored, so the first reply and every replay
/// are equal byte for byte (IDM-2).
#[derive(Clone, Debug)]
pub struct Output {
    text: Arc<RawValue>,
    value: Value,
}

impl Output {
    /// The JSON.
    pub fn into_json(self) -> Value {
        self.value
    }

    /// The JSON text, as stored.
    pub fn as_text(&self) -> &str {
        self.text.get()
    }

    /// Decodes it. A member that redaction removed is missing here too.
    ///
    /// # Errors
    /// If `T` does not fit.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.value)
    }
}

impl Default for Output {
    fn default() -> Self {
        Self { text: RawValue::NULL.to_owned().into(), value: Value::Null }
    }
}

impl PartialEq for Output {
    fn eq(&self, other: &Self) -> bool {
        self.text.get() == other.text.get()
    }
}

impl Deref for Output {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl Serialize for Output {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}
