//! Audit events in a form that is the same from run to run.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use super::START;
use crate::clock::Timestamp;

/// Members whose values are digests.
const HASHES: [&str; 8] =
    ["inputHash", "policyHash", "previousHash", "candidateHash", "bindingHash", "governance", "digest", "root"];

/// The events of a test, in the order of the log.
///
/// Ids are counted and times are offsets from the start of the test. Hashes stay, since the kit's keys are fixed;
/// [`Self::without_hashes`] masks them. Salted digests of comments are always masked, and events' own ids left out.
///
/// Serialises for `insta::assert_yaml_snapshot!`; displays one line an event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Trail {
    entries: Vec<Entry>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
#[expect(missing_docs, reason = "the members of an audit event")]
pub struct Entry {
    /// `+1.5s`: since the start of the test.
    pub at: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub tenant: String,
    pub surface: String,
    /// `user dana`, with the issuer behind it if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_hash: Option<String>,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

impl Trail {
    /// From what is stored: the place in the log, and the event's text.
    pub(super) fn new(bodies: &[(i64, String)]) -> Self {
        let entries = bodies.iter().map(|(_, body)| Entry::new(serde_json::from_str(body).unwrap_or_default()));
        Self { entries: entries.collect() }
    }

    /// The events.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The events of one execution.
    #[must_use]
    pub fn of(&self, execution: &str) -> Self {
        self.only(|it| it.execution_id.as_deref() == Some(execution))
    }

    /// The events about calls and decisions: without the ones of loading policies.
    #[must_use]
    pub fn without_policies(&self) -> Self {
        self.only(|it| !matches!(&*it.kind, "policy.loaded" | "policy.refused"))
    }

    /// With every hash masked, for trails that are about something else.
    #[must_use]
    pub fn without_hashes(&self) -> Self {
        let mut entries = self.entries.clone();
        for entry in &mut entries {
            for hash in [&mut entry.input_hash, &mut entry.policy_hash].into_iter().flatten() {
                "[hash]".clone_into(hash);
            }
            mask(&mut entry.data, &HASHES, "[hash]");
        }
        Self { entries }
    }

    /// With every time and duration masked, for trails of what the test's clock cannot pace.
    #[must_use]
    pub fn without_times(&self) -> Self {
        let mut entries = self.entries.clone();
        for entry in &mut entries {
            "[time]".clone_into(&mut entry.at);
            mask(&mut entry.data, &["durationUs"], "[time]");
        }
        Self { entries }
    }

    fn only(&self, keep: impl Fn(&Entry) -> bool) -> Self {
        Self { entries: self.entries.iter().filter(|it| keep(it)).cloned().collect() }
    }
}

impl Entry {
    fn new(mut event: Map<String, Value>) -> Self {
        let mut text = |member: &str| match event.remove(member) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let at = text("at").map(|it| offset_text(&it)).unwrap_or_default();
        let (kind, tenant, surface) = (text("type"), text("tenant"), text("surface"));
        let (client, execution_id, capability_id) = (text("client"), text("executionId"), text("capabilityId"));
        let (correlation_id, input_hash, policy_hash) = (text("correlationId"), text("inputHash"), text("policyHash"));
        let mut data = event.remove("data").unwrap_or_default();
        offsets(&mut data);
        mask(&mut data, &["comment"], "[salted]");
        Self {
            at,
            kind: kind.unwrap_or_default(),
            tenant: tenant.unwrap_or_default(),
            surface: surface.unwrap_or_default(),
            actor: event.get("actor").map(actor),
            client,
            execution_id,
            capability_id,
            correlation_id,
            input_hash,
            policy_hash,
            data,
        }
    }

    /// Whether it ends its execution.
    pub fn is_terminal(&self) -> bool {
        match &*self.kind {
            "capability.denied"
            | "capability.completed"
            | "capability.failed"
            | "capability.cancelled"
            | "capability.replayed"
            | "capability.interrupted" => true,
            "capability.approval_requested" => self.data["suspended"] == true,
            _ => false,
        }
    }
}

impl fmt::Display for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, entry) in self.entries.iter().enumerate() {
            if place > 0 {
                f.write_str("\n")?;
            }
            fmt::Display::fmt(entry, f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Entry {
    /// Who, what, and the plain members of the data; without hashes and times.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.execution_id.as_deref().unwrap_or("-"), self.kind)?;
        let Value::Object(data) = &self.data else { return Ok(()) };
        for (member, value) in data {
            match value {
                Value::String(_) if HASHES.contains(&&**member) => {}
                Value::Number(_) if member == "durationUs" => {}
                Value::String(text) => write!(f, " {member}={text}")?,
                Value::Bool(_) | Value::Number(_) => write!(f, " {member}={value}")?,
                Value::Array(_) | Value::Object(_) if member == "approver" => write!(f, " by={}", actor(value))?,
                Value::Null | Value::Array(_) | Value::Object(_) => {}
            }
        }
        Ok(())
    }
}

fn actor(actor: &Value) -> String {
    let text = |member: &str| actor[member].as_str();
    let issuer = text("issuer").map(|it| format!(" ({it})")).unwrap_or_default();
    format!("{} {}{issuer}", text("kind").unwrap_or_default(), text("id").unwrap_or_default())
}

fn offset_text(time: &str) -> String {
    Timestamp::parse(time).map_or_else(|| time.to_owned(), offset)
}

/// `+1.5s`.
fn offset(at: Timestamp) -> String {
    let micros = i128::from(at.0) - i128::from(START.0);
    let (sign, micros) = if micros < 0 { ('-', -micros) } else { ('+', micros) };
    let fraction = format!("{:06}", micros % 1_000_000);
    let fraction = fraction.trim_end_matches('0');
    let dot = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{dot}{fraction}s", micros / 1_000_000)
}

/// Every time in the data becomes an offset. Only the engine's own form counts as one.
fn offsets(value: &mut Value) {
    match value {
        Value::String(text) if text.len() == "2026-01-01T00:00:00.000000Z".len() && text.ends_with('Z') => {
            *text = offset_text(text);
        }
        Value::Array(items) => items.iter_mut().for_each(offsets),
        Value::Object(members) => members.values_mut().for_each(offsets),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn mask(value: &mut Value, members: &[&str], with: &str) {
    let Value::Object(data) = value else { return };
    for (member, value) in data {
        if members.contains(&&**member) {
            *value = with.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> (i64, String) {
        let text = r#"{"actor":{"id":"dana","kind":"user"},"at":"2026-01-01T00:01:30.250000Z","capabilityId":"orders.refund",
            "data":{"approvalId":"apr-1","bindingHash":"hmac:1","expiresAt":"2026-01-02T00:00:00.000000Z","suspended":true},
            "executionId":"exe-1","id":"evt-2","inputHash":"hmac:2","surface":"direct","tenant":"default",
            "type":"capability.approval_requested"}"#;
        (2, text.to_owned())
    }

    #[test]
    fn an_event_has_offsets_for_times_and_a_fixed_order() {
        insta::assert_snapshot!(serde_json::to_string(&Trail::new(&[event()]).without_hashes()).unwrap(), @r#"[{"at":"+90.25s","type":"capability.approval_requested","tenant":"default","surface":"direct","actor":"user dana","executionId":"exe-1","capabilityId":"orders.refund","inputHash":"[hash]","data":{"approvalId":"apr-1","bindingHash":"[hash]","expiresAt":"+86400s","suspended":true}}]"#);
    }

    #[test]
    fn a_line_names_who_what_and_the_plain_members() {
        let trail = Trail::new(&[event(), event()]);
        insta::assert_snapshot!(trail, @"
        exe-1 capability.approval_requested approvalId=apr-1 expiresAt=+86400s suspended=true
        exe-1 capability.approval_requested approvalId=apr-1 expiresAt=+86400s suspended=true
        ");
        assert!(trail.entries().iter().all(Entry::is_terminal));
    }

    #[test]
    fn what_left_the_database_is_told_without_its_hashes() {
        let text = r#"{"at":"2026-01-01T00:00:00.000000Z","data":{"digest":"sha256:1","from":1,"root":"2f","through":700},
            "id":"evt-1","surface":"direct","tenant":"default","type":"audit.detached"}"#;
        let trail = Trail::new(&[(1, text.to_owned())]);
        insta::assert_snapshot!(trail, @"- audit.detached from=1 through=700");
        insta::assert_snapshot!(trail.without_hashes().entries()[0].data, @r#"{"digest":"[hash]","from":1,"root":"[hash]","through":700}"#);
    }

    #[test]
    fn offsets_have_no_idle_digits() {
        let at = |us| offset(Timestamp(START.0 + us));
        assert_eq!([at(0), at(1_500_000), at(-1), at(60_000_000)], ["+0s", "+1.5s", "-0.000001s", "+60s"]);
    }
}
