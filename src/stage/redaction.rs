//! The outward form of an output.

use std::ops::Deref;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::BoxError;
use crate::capability::Governed;
use crate::caught::caught;
use crate::outcome::{Error, Outcome};
use crate::rejection::{Failed, Rejection};
use crate::stage::idempotency::Begun;
use crate::stage::output::{Checked, fits};
use crate::stage::policy::Permit;
use crate::store::op::End;
use crate::trail::Trail;

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

/// An output in its outward form, from the very bytes that will be stored.
pub(crate) fn apply(_: &mut Trail, begun: &Begun, output: Checked) -> Result<Output, Failed> {
    storable(begun.capability(), output.into_json()).map_err(|error| Failed::Output(vec![error.to_string()]))
}

/// What an earlier execution with the same key left. Anybody may seal one; only [`replay`] opens it.
pub(crate) struct Stored(String);

enum StoredOutcome {
    Completed { output: Option<Box<RawValue>> },
    Failed { error: Error },
}

impl Stored {
    /// As the store keeps it. Without an output if the capability does not keep them.
    pub(crate) fn seal(capability: &Governed, output: &Output) -> String {
        let keeps = capability.meta.idempotency.store_output;
        // By hand: an internally tagged enum would parse the text again.
        let output = if keeps { format!(r#","output":{}"#, output.as_text()) } else { String::new() };
        format!(r#"{{"status":"completed"{output}}}"#)
    }

    /// A failure that repetitions get too.
    pub(crate) fn seal_failure(error: &Error) -> String {
        serde_json::json!({"status": "failed", "error": error}).to_string()
    }

    /// An output that an operator or a hook found out.
    pub(crate) fn seal_settled(capability: &Governed, output: Value) -> Result<String, BoxError> {
        capability.output.check(&output).map_err(|problems| problems.join(", "))?;
        Ok(Self::seal(capability, &storable(capability, output)?))
    }

    /// What repetitions get if the store takes no more of an outcome.
    pub(super) fn seal_less(end: End) -> String {
        if end == End::Completed { Self::seal_nothing() } else { Self::seal_failure(&Error::unexplained()) }
    }

    /// A completion of which nobody knows the output.
    pub(crate) fn seal_nothing() -> String {
        r#"{"status":"completed"}"#.to_owned()
    }

    pub(super) fn from_store(text: String) -> Self {
        Self(text)
    }
}

/// A stored outcome in today's outward form.
pub(crate) struct Replay(Outcome);

impl Replay {
    pub(super) fn into_outcome(self) -> Outcome {
        self.0
    }
}

/// Redacts again: rules that were added since the output was stored hold for it too (IDM-2).
pub(crate) fn replay(trail: &mut Trail, capability: &Governed, stored: &Stored) -> Result<Replay, Rejection> {
    let execution_id = trail.execution().clone();
    let broken = |_| Rejection::Internal("a stored outcome that does not parse");
    Ok(Replay(match serde_json::from_str::<StoredText<'_>>(&stored.0).map_err(broken)?.open().map_err(broken)? {
        StoredOutcome::Completed { output: None } => {
            Outcome::Completed { execution_id, output: None, replayed: true, recorded: true }
        }
        StoredOutcome::Completed { output: Some(text) } => {
            let value = serde_json::from_str(text.get()).map_err(broken)?;
            let output = Some(again(capability, text, value).map_err(broken)?);
            Outcome::Completed { execution_id, output, replayed: true, recorded: true }
        }
        StoredOutcome::Failed { error } => Outcome::Failed { execution_id, error, replayed: true },
    }))
}

/// A stored output as its requester may see it today: stages 3 to 7 have passed (EXE-11).
pub(crate) fn shown(permit: &Permit, stored: &str) -> Option<Output> {
    let opened = serde_json::from_str::<StoredText<'_>>(stored).ok()?.open().ok()?;
    let StoredOutcome::Completed { output: Some(text) } = opened else { return None };
    let value = serde_json::from_str(text.get()).ok()?;
    again(&permit.valid.exposed.capability, text, value).ok()
}

/// A stored outcome, of which the output stays text.
#[derive(Deserialize)]
struct StoredText<'a> {
    status: &'a str,
    #[serde(borrow, default, deserialize_with = "present")]
    output: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Error>,
}

/// Presence decides: `null` is an output too (IDM-2).
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl StoredText<'_> {
    fn open(self) -> Result<StoredOutcome, serde_json::Error> {
        match (self.status, self.error) {
            ("completed", None) => Ok(StoredOutcome::Completed { output: self.output.map(ToOwned::to_owned) }),
            ("failed", Some(error)) => Ok(StoredOutcome::Failed { error }),
            _ => Err(serde::de::Error::custom("neither completed nor failed")),
        }
    }
}

/// As [`outward`], of an output that is to be stored: redaction may have made it longer.
fn storable(capability: &Governed, value: Value) -> Result<Output, BoxError> {
    let output = outward(capability, value)?;
    fits(output.as_text().len())?;
    Ok(output)
}

fn outward(capability: &Governed, value: Value) -> Result<Output, serde_json::Error> {
    let value = redacted(capability, value)?;
    let text = RawValue::from_string(serde_json::to_string(&value)?)?;
    Ok(Output { text: text.into(), value })
}

/// Redaction may be the application's own function: one that panics lets nothing out.
fn redacted(capability: &Governed, value: Value) -> Result<Value, serde_json::Error> {
    caught(|| capability.redact(value)).map_err(serde::de::Error::custom)
}

/// Keeps the stored bytes if today's redaction has nothing to take out.
fn again(capability: &Governed, text: Box<RawValue>, value: Value) -> Result<Output, serde_json::Error> {
    let redacted = redacted(capability, value.clone())?;
    if redacted == value { Ok(Output { text: text.into(), value }) } else { outward(capability, redacted) }
}
