//! OpenTelemetry logs in the JSON encoding of OTLP: one `LogsData` a line, as files of it have them, and as one message to
//! the `/v1/logs` of a collector. Ids are hexadecimal there, and numbers of 64 bits are texts.

use serde_json::{Value, json};

use super::form::Said;
use super::ocsf::{self, Severity};
use crate::clock::Timestamp;

/// Before the type of an event, as the name of what happened.
pub(super) const PREFIX: &str = "countersign.";

/// Where the place of an event is.
const SEQ: &str = "countersign.seq";

/// Where its id is.
const ID: &str = "log.record.uid";

/// What a line has before and behind its records, which one message has once.
const AROUND: [&str; 2] = [r#"{"resourceLogs":["#, "]}"];

impl Severity {
    /// As OpenTelemetry counts.
    pub(super) fn number(self) -> (u8, &'static str) {
        match self {
            Self::Informational => (9, "INFO"),
            Self::Low => (13, "WARN"),
            Self::Medium => (17, "ERROR"),
            Self::High => (18, "ERROR2"),
        }
    }
}

pub(super) fn line(said: &Said, body: &str, seq: i64, leaf: &str) -> Option<String> {
    let time = Timestamp::parse(&said.at)?.0.checked_mul(1_000)?.to_string();
    let (number, text) = ocsf::severity(said).number();
    let mut record = json!({
        "timeUnixNano": time,
        "observedTimeUnixNano": time,
        "severityNumber": number,
        "severityText": text,
        "eventName": format!("{PREFIX}{}", said.kind),
        // The event, byte for byte: its leaf hash can be worked out from it.
        "body": {"stringValue": body},
        "attributes": attributes(said, seq, leaf),
    });
    if let Some((trace, span)) = said.correlation_id.as_deref().and_then(trace) {
        record["traceId"] = json!(trace);
        if let Some(span) = span {
            record["spanId"] = json!(span);
        }
    }
    let resource = json!({"attributes": [text_of("service.name", "countersign")]});
    let scope = json!({"name": "countersign.audit", "version": env!("CARGO_PKG_VERSION")});
    let logs = json!({"resource": resource, "scopeLogs": [{"scope": scope, "logRecords": [record]}]});
    let [before, behind] = AROUND;
    Some(format!("{before}{}{behind}", serde_json::to_string(&logs).ok()?))
}

fn attributes(said: &Said, seq: i64, leaf: &str) -> Vec<Value> {
    let code = said.data["code"].as_str().or(said.data["publicCode"].as_str());
    let actor = said.actor.as_ref();
    let texts = [
        (ID, Some(&*said.id)),
        ("countersign.leaf", Some(leaf)),
        ("countersign.tenant", Some(&*said.tenant)),
        ("countersign.surface", Some(&*said.surface)),
        ("countersign.client", said.client.as_deref()),
        ("countersign.correlation", said.correlation_id.as_deref()),
        ("user.id", actor.map(|it| &*it.id)),
        ("countersign.actor.kind", actor.map(|it| &*it.kind)),
        ("countersign.actor.issuer", actor.and_then(|it| it.issuer.as_deref())),
        ("gen_ai.tool.name", said.capability_id.as_deref()),
        ("gen_ai.tool.call.id", said.execution_id.as_deref()),
        ("error.type", code),
    ];
    let seq = json!({"key": SEQ, "value": {"intValue": seq.to_string()}});
    let texts = texts.into_iter().filter_map(|(key, value)| Some(text_of(key, value?)));
    std::iter::once(seq).chain(texts).collect()
}

fn text_of(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// The trace that a correlation id names, if it is one: 32 hexadecimal digits, or a whole `traceparent`, which names a span
/// in it, too.
fn trace(id: &str) -> Option<(&str, Option<&str>)> {
    let is_id = |it: &str, length: usize| {
        let is_hex = it.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
        it.len() == length && is_hex && it.bytes().any(|it| it != b'0')
    };
    let parts: Vec<&str> = id.split('-').collect();
    match parts[..] {
        [trace] if is_id(trace, 32) => Some((trace, None)),
        ["00", trace, span, flags] if is_id(trace, 32) && is_id(span, 16) && flags.len() == 2 => {
            Some((trace, Some(span)))
        }
        _ => None,
    }
}

/// Lines as one message.
pub(super) fn message(lines: &[String]) -> String {
    let [before, behind] = AROUND;
    let inner = lines.iter().filter_map(|it| it.strip_prefix(before)?.strip_suffix(behind));
    format!("{before}{}{behind}", inner.collect::<Vec<_>>().join(","))
}

/// The place of the event on a line.
pub(super) fn seq(line: &Value) -> Option<i64> {
    attribute(line, SEQ)?["intValue"].as_str()?.parse().ok()
}

/// Its id.
pub(super) fn id(line: &Value) -> Option<&str> {
    attribute(line, ID)?["stringValue"].as_str()
}

fn attribute<'a>(line: &'a Value, key: &str) -> Option<&'a Value> {
    let attributes = line.pointer("/resourceLogs/0/scopeLogs/0/logRecords/0/attributes")?.as_array()?;
    attributes.iter().find(|it| it["key"] == key).map(|it| &it["value"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correlation_id_is_a_trace_only_if_it_is_spelled_like_one() {
        let (id, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        assert_eq!(trace(id), Some((id, None)));
        assert_eq!(trace(&format!("00-{id}-{span}-01")), Some((id, Some(span))));
        let zeros = "0".repeat(32);
        for other in ["", "c-7", &id[1..], &id.to_uppercase(), &zeros, &format!("00-{zeros}-{span}-01"), "00-a-b-c"] {
            assert_eq!(trace(other), None, "{other}");
        }
    }
}
