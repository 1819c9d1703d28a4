//! One row of the log: what its columns should say, worked out from the event's own bytes.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::hash::{Hash, from_hex, leaf};
use crate::store::{Raw, RawRow};

/// Types of events that end an execution. One more does so if it says that the execution is suspended.
const ENDS: [&str; 6] = [
    "capability.cancelled",
    "capability.completed",
    "capability.denied",
    "capability.failed",
    "capability.interrupted",
    "capability.replayed",
];
const SUSPENDS: &str = "capability.approval_requested";

/// What a row comes to.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) seq: i64,
    /// Of the event's bytes.
    pub(super) hash: Hash,
    /// What the row says that the hash is.
    pub(super) leaf: Option<Hash>,
    /// Columns that say something else than the event.
    pub(super) wrong: Vec<&'static str>,
}

impl Checked {
    pub(super) fn of(row: &RawRow) -> Self {
        let body = row.body.as_deref().unwrap_or_default();
        let leaf_column = row.leaf.as_deref().and_then(from_hex);
        Self { seq: row.seq, hash: leaf(body), leaf: leaf_column, wrong: wrong(row, body) }
    }
}

/// The members of an event that columns repeat.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Said<'a> {
    #[serde(borrow)]
    at: Cow<'a, str>,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    tenant: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) execution_id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    capability_id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    actor: Option<Named<'a>>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Suspends {
    suspended: Option<bool>,
}

impl Said<'_> {
    /// Whether it ends its execution; `None` if it was cut down to where it does not say so.
    pub(super) fn is_end(&self) -> Option<bool> {
        if self.kind == SUSPENDS {
            let data: Option<Suspends> = self.data.and_then(|it| serde_json::from_str(it.get()).ok());
            return data.and_then(|it| it.suspended);
        }
        Some(ENDS.contains(&&*self.kind))
    }
}

/// What an event says, if it is one.
pub(super) fn said(body: &[u8]) -> Option<Said<'_>> {
    serde_json::from_slice(body).ok()
}

fn wrong(row: &RawRow, body: &[u8]) -> Vec<&'static str> {
    let Some(said) = said(body) else { return vec!["body"] };
    let is = |column: &Raw, value: &str| column.as_deref() == Some(value.as_bytes());
    let is_perhaps = |column: &Raw, value: Option<&str>| column.as_deref() == value.map(str::as_bytes);
    let ends = row.terminal.as_deref() == Some(b"1");
    let at = row.at.as_deref().and_then(|it| std::str::from_utf8(it).ok()).and_then(|it| it.parse().ok());
    let columns = [
        ("id", is(&row.id, &said.id)),
        ("tenant", is(&row.tenant, &said.tenant)),
        ("execution_id", is_perhaps(&row.execution, said.execution_id.as_deref())),
        ("capability_id", is_perhaps(&row.capability, said.capability_id.as_deref())),
        ("actor_id", is_perhaps(&row.actor, said.actor.as_ref().map(|it| &*it.id))),
        ("type", is(&row.kind, &said.kind)),
        ("terminal", said.is_end().is_none_or(|it| it == ends)),
        ("at", at.is_some() && at == micros(&said.at)),
        ("the type of a column", row.sound.as_deref() == Some(b"1")),
    ];
    columns.into_iter().filter_map(|(name, fits)| (!fits).then_some(name)).collect()
}

/// Microseconds since 1970 of `2026-01-01T00:00:00.000000Z`, in that form and no other.
fn micros(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (26, b'Z')];
    if bytes.len() != 27 || marks.iter().any(|(at, mark)| bytes[*at] != *mark) {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to).filter(|it| it.bytes().all(|it| it.is_ascii_digit()))?;
        digits.parse().ok()
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second, fraction) = (number(11, 13)?, number(14, 16)?, number(17, 19)?, number(20, 26)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // Days of a calendar whose year begins in March, so that the leap day is its last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000 + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;

    #[test]
    fn times_are_read_as_the_engine_writes_them() {
        for at in [0, 1, 951_782_400_000_000, 951_868_799_999_999, 1_767_225_600_000_000, 4_107_542_399_123_456] {
            assert_eq!(micros(&Timestamp(at).to_string()), Some(at));
        }
        for wrong in ["", "2026-01-01T00:00:00Z", "2026-13-01T00:00:00.000000Z", "2026-01-01T00:00:00.00000+Z"] {
            assert_eq!(micros(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn which_events_end_an_execution_is_known_here_too() {
        // The engine's own word, as it stands in its source: a new type cannot be forgotten here.
        let source = include_str!("../audit.rs");
        let part = |from: &str, to: &str| source.split_once(from).unwrap().1.split_once(to).unwrap().0;
        let ending = part("pub fn is_terminal", "=> true");
        let mut types = 0;
        for line in part("pub fn name", "\n    }\n").lines().filter(|it| it.contains("=> \"")) {
            let (variant, name) = line.split_once("=> ").unwrap();
            let variant = variant.trim().trim_start_matches("Self::").split([' ', '(']).next().unwrap();
            let name = name.trim_matches(['"', ',', ' ']);
            let body = |data: &str| format!(r#"{{"at":"","id":"","tenant":"","type":"{name}","data":{data}}}"#);
            let ends = |data: &str| said(body(data).as_bytes()).unwrap().is_end();
            if name == SUSPENDS {
                let found = [ends("{\"suspended\":true}"), ends("{\"suspended\":false}"), ends("{\"omittedBytes\":1}")];
                assert_eq!(found, [Some(true), Some(false), None]);
            } else {
                assert_eq!(ends("{}"), Some(ending.contains(&format!("Self::{variant} "))), "{name}");
            }
            types += 1;
        }
        assert!(types >= 22, "{types}");
    }
}
