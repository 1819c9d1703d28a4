//! The form in which an event is stored and hashed: its canonical bytes (RFC 8785), their leaf hash (RFC 6962), and the
//! columns that are searched by.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::{ActorRef, AuditEvent, Envelope, MAX_EVENT_BYTES};
use crate::actor::{Client, Surface};
use crate::clock::Timestamp;
use crate::{CapabilityId, ExecutionId};

/// Lists in events are cut to this many entries, with a count of all.
const MAX_LIST: usize = 32;

/// An event ready to be stored: its canonical bytes, their leaf hash, and the columns that are searched by.
#[derive(Clone, Debug)]
pub(crate) struct EventRow {
    pub(crate) id: String,
    pub(crate) at: Timestamp,
    pub(crate) kind: &'static str,
    pub(crate) terminal: bool,
    pub(crate) tenant: String,
    pub(crate) execution: Option<String>,
    pub(crate) capability: Option<String>,
    pub(crate) actor: Option<String>,
    /// RFC 8785 text: the bytes that are hashed are the bytes that are stored.
    pub(crate) body: String,
    /// Lower-case hexadecimal of the RFC 6962 leaf hash.
    pub(crate) leaf: String,
}

impl AuditEvent {
    /// The stored form. In too long an event the lists of `data` are cut, each with a count of all; if that does not
    /// help, `data` is left out. It never loses its place.
    pub(crate) fn into_row(self) -> EventRow {
        let mut body = self.text();
        if body.len() > MAX_EVENT_BYTES {
            body = canonical(&self.cut(body.len()));
        }
        let leaf = leaf_hash(body.as_bytes());
        EventRow {
            at: self.at,
            kind: self.kind.name(),
            terminal: self.kind.is_terminal(),
            execution: self.envelope.execution_id.map(|it| it.to_string()),
            capability: self.envelope.capability_id.map(|it| it.to_string()),
            actor: self.envelope.actor.map(|it| it.id),
            tenant: self.envelope.tenant,
            id: self.id,
            body,
            leaf,
        }
    }
}

/// An event with its members in the order of RFC 8785.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InOrder<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<&'a ActorRef>,
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    capability_id: Option<&'a CapabilityId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a Client>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    data: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_id: Option<&'a ExecutionId>,
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_hash: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy_hash: Option<&'a str>,
    surface: Surface,
    tenant: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
}

/// The two members of an [`EventKind`].
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(borrow, rename = "type")]
    name: &'a str,
}

impl AuditEvent {
    /// RFC 8785 text. Every call has three of them, so they are not sorted but written in order.
    fn text(&self) -> String {
        let kind = serde_json::to_string(&self.kind).unwrap_or_default();
        let Ok(Kind { data, name }) = serde_json::from_str(&kind) else { return canonical(self) };
        let Envelope { actor, capability_id, client, correlation_id, execution_id, .. } = &self.envelope;
        let Envelope { input_hash, policy_hash, surface, tenant, .. } = &self.envelope;
        let text = serde_json::to_string(&InOrder {
            actor: actor.as_ref(),
            at: self.at,
            capability_id: capability_id.as_ref(),
            client: client.as_ref(),
            correlation_id: correlation_id.as_deref(),
            data,
            execution_id: execution_id.as_ref(),
            id: &self.id,
            input_hash: input_hash.as_deref(),
            policy_hash: policy_hash.as_deref(),
            surface: *surface,
            tenant,
            kind: name,
        });
        let text = text.unwrap_or_else(|_| canonical(self));
        debug_assert_eq!(text, canonical(self), "the members of events are declared in the order of their names");
        text
    }

    fn cut(&self, bytes: usize) -> Value {
        let mut event = serde_json::to_value(self).unwrap_or_default();
        if let Some(Value::Object(data)) = event.get_mut("data") {
            let long = data.iter_mut().filter_map(|(name, it)| {
                let list = it.as_array_mut().filter(|it| it.len() > MAX_LIST)?;
                let count = list.len();
                list.truncate(MAX_LIST);
                Some((format!("{name}Count"), Value::from(count)))
            });
            let counts: Vec<_> = long.collect();
            data.extend(counts);
        }
        if canonical(&event).len() > MAX_EVENT_BYTES {
            event["data"] = serde_json::json!({"omittedBytes": bytes});
        }
        event
    }
}

/// RFC 8785 text of something that is made of plain data.
pub(crate) fn canonical(value: &impl Serialize) -> String {
    // Only a map with other keys than strings, or a number that JSON has no form for, could fail.
    serde_json_canonicalizer::to_string(value).unwrap_or_else(|_| Value::Null.to_string())
}

/// RFC 8785 text of something that has no fractions and whose members are declared in the order of their names: a debug
/// build checks that. Sorting them takes four times as long.
pub(crate) fn in_order(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_else(|_| Value::Null.to_string());
    debug_assert_eq!(text, canonical(value), "members are declared in the order of their names");
    text
}

/// RFC 6962, section 2.1: `SHA-256(0x00 || leaf)`.
pub(crate) fn leaf_hash(bytes: &[u8]) -> String {
    let mut digest = Sha256::new();
    digest.update([0]);
    digest.update(bytes);
    hex(&digest.finalize())
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    // By hand: the formatter takes longer than the hash itself, and every call has half a dozen of them.
    let digit = |it: u8| char::from(if it < 10 { b'0' + it } else { b'a' + it - 10 });
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::Identity;
    use crate::audit::{DenialReason, EventKind, PolicyRef};
    use crate::outcome::ErrorCode;

    fn denied(policies: usize, id: &str) -> AuditEvent {
        let policies = (0..policies).map(|n| PolicyRef { id: format!("{id}{n}"), effect: "forbid".into() }).collect();
        let kind = EventKind::Denied {
            reason: DenialReason::PolicyDenied,
            public_code: ErrorCode::PolicyDenied,
            policies,
            errors: Vec::new(),
        };
        let envelope = Envelope::of(&Identity::none());
        AuditEvent { id: "evt-1".into(), at: Timestamp(0), kind, envelope }
    }

    #[test]
    fn a_long_list_is_cut_with_a_count_and_the_event_still_parses() {
        let row = denied(2_000, "a-policy-with-quite-a-long-name-").into_row();
        assert!(row.body.len() <= MAX_EVENT_BYTES);
        let body: Value = serde_json::from_str(&row.body).unwrap();
        assert_eq!(body["data"]["policies"].as_array().unwrap().len(), MAX_LIST);
        assert_eq!(body["data"]["policiesCount"], 2_000);
        let event: AuditEvent = serde_json::from_str(&row.body).unwrap();
        assert_eq!(event.kind.name(), "capability.denied");
    }

    #[test]
    fn an_event_that_cutting_does_not_shorten_keeps_its_place_without_data() {
        let row = denied(10, &"x".repeat(4_000)).into_row();
        assert!(row.body.len() <= MAX_EVENT_BYTES);
        assert!(row.body.contains("omittedBytes") && row.terminal);
    }

    #[test]
    fn names_and_ends_agree_with_what_is_written() {
        let event = denied(1, "p");
        let body = serde_json::to_value(&event).unwrap();
        assert_eq!(body["type"], event.kind.name());
        assert!(event.kind.is_terminal());
    }

    #[test]
    fn an_event_is_written_in_the_order_that_sorting_gives() {
        // Of the kinds that no call leaves behind yet; the others are compared wherever a test stores one.
        let kind = EventKind::AuthFailed { count: 2, reason: "unknown_key".into() };
        let event = AuditEvent { kind, ..denied(0, "p") };
        assert_eq!(event.text(), canonical(&event));
    }

    #[test]
    fn leaves_are_hashed_as_rfc_6962_says() {
        // The empty leaf: SHA-256 of one zero byte.
        assert_eq!(leaf_hash(b""), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
    }

    /// Whatever moves from one field to the one beside it makes another leaf: fields are never just joined.
    #[test]
    fn fields_that_share_a_text_never_collide() {
        let members = 6;
        let event = |texts: &[&str]| {
            let [id, tenant, correlation, execution, capability, reason] = texts else { panic!("six fields") };
            let kind = EventKind::AuthFailed { count: 1, reason: (*reason).into() };
            let mut event = AuditEvent { kind, ..denied(0, "p") };
            event.id = (*id).into();
            event.envelope.tenant = (*tenant).into();
            event.envelope.correlation_id = Some((*correlation).into());
            event.envelope.execution_id = Some((*execution).into());
            event.envelope.capability_id = Some((*capability).into());
            event.into_row().leaf
        };
        for text in ["aaaaaa", "\",\"\":", "{}[],:", "\\\\\\\"\"\"", "\u{0}\n\u{1f}\u{7f}", "\u{e9}e\u{301}\u{e9}"] {
            let cuts: Vec<usize> = (0..=text.len()).filter(|it| text.is_char_boundary(*it)).collect();
            let (mut seen, mut leaves) = (HashSet::new(), HashSet::new());
            for (one, other) in (0..members).flat_map(|it| (it + 1..members).map(move |other| (it, other))) {
                for cut in &cuts {
                    let (left, right) = text.split_at(*cut);
                    let mut texts = [""; 6];
                    (texts[one], texts[other]) = (left, right);
                    // All of it in one field is the same event for every pair that has that field.
                    if seen.insert(texts) {
                        assert!(leaves.insert(event(&texts)), "{texts:?}");
                    }
                }
            }
            assert!(leaves.len() > members);
        }
    }
}
