//! CloudEvents 1.0, structured mode, JSON format. `source` and `id` together are unique, as the standard wants it:
//! events' ids are.

use serde::Serialize;
use serde_json::value::RawValue;

use super::form::Said;

/// Before the type of an event.
pub(super) const PREFIX: &str = "dev.countersign.";

#[derive(Serialize)]
struct CloudEvent<'a> {
    specversion: &'static str,
    id: &'a str,
    source: &'a str,
    #[serde(rename = "type")]
    kind: String,
    /// The execution that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    time: &'a str,
    datacontenttype: &'static str,
    /// The extension of that name: texts that sort as the events do.
    sequence: String,
    /// The event, byte for byte: its leaf hash can be worked out from it.
    data: &'a RawValue,
}

pub(super) fn line(said: &Said, event: &RawValue, seq: i64, source: &str) -> Option<String> {
    let event = CloudEvent {
        specversion: "1.0",
        id: &said.id,
        source,
        kind: format!("{PREFIX}{}", said.kind),
        subject: said.execution_id.as_deref().filter(|it| !it.is_empty()),
        time: &said.at,
        datacontenttype: "application/json",
        sequence: format!("{seq:020}"),
        data: event,
    };
    serde_json::to_string(&event).ok()
}
