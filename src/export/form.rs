//! What an event looks like elsewhere. None of the forms says more than the event does, so that none has a payload in it
//! (INV-9).

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Entry, cloudevents, ocsf, otel};

/// One of the forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One line an event, as `audit verify --export` takes it.
    Ndjson,
    /// CloudEvents 1.0, structured JSON.
    CloudEvents,
    /// OCSF 1.8.0, API Activity (6003).
    Ocsf,
    /// OpenTelemetry logs, JSON encoding of OTLP.
    Otel,
}

/// What forms need of an event; what no form needs by name is in `data`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Said {
    pub(super) id: String,
    pub(super) at: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) tenant: String,
    pub(super) surface: String,
    pub(super) actor: Option<SaidActor>,
    pub(super) client: Option<String>,
    pub(super) execution_id: Option<String>,
    pub(super) capability_id: Option<String>,
    pub(super) correlation_id: Option<String>,
    pub(super) input_hash: Option<String>,
    pub(super) policy_hash: Option<String>,
    #[serde(default)]
    pub(super) data: Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct SaidActor {
    pub(super) id: String,
    pub(super) issuer: Option<String>,
    pub(super) kind: String,
}

impl Form {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Ndjson, Self::CloudEvents, Self::Ocsf, Self::Otel];

    /// Its name on the command line.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ndjson => "ndjson",
            Self::CloudEvents => "cloudevents",
            Self::Ocsf => "ocsf",
            Self::Otel => "otel",
        }
    }

    /// An event on one line, without its end; `None` if it is none.
    pub(crate) fn line(self, entry: &Entry, source: &str) -> Option<String> {
        let Entry { seq, body, leaf } = entry;
        let raw: &RawValue = serde_json::from_str(body).ok()?;
        let said: Said = serde_json::from_str(body).ok()?;
        let is_hash = leaf.len() == 64 && leaf.bytes().all(|it| it.is_ascii_hexdigit());
        if !is_hash || body.contains(['\n', '\r']) {
            return None; // canonical JSON has no line ends
        }
        match self {
            // What verification takes, in its one spelling.
            Self::Ndjson => Some(format!(r#"{{"event":{body},"leaf":"{leaf}","seq":{seq}}}"#)),
            Self::CloudEvents => cloudevents::line(&said, raw, *seq, source),
            Self::Ocsf => ocsf::line(&said, *seq, leaf),
            Self::Otel => otel::line(&said, body, *seq, leaf),
        }
    }

    /// The place of the event on a line.
    pub(crate) fn seq(self, line: &str) -> Option<i64> {
        let value: Value = serde_json::from_str(line).ok()?;
        match self {
            Self::Ndjson => value["seq"].as_i64(),
            Self::CloudEvents => value["sequence"].as_str()?.parse().ok(),
            Self::Ocsf => value["metadata"]["sequence"].as_i64(),
            Self::Otel => otel::seq(&value),
        }
    }

    /// Whether a first line that a crash tore may be one of this form.
    pub(super) fn may_begin(self, torn: &[u8]) -> bool {
        let beginning: &[u8] = match self {
            Self::Ndjson => br#"{"event":{"#,
            Self::CloudEvents => br#"{"specversion":"#,
            Self::Ocsf => br#"{"activity_id":"#,
            Self::Otel => br#"{"resourceLogs":[{"#,
        };
        torn.starts_with(beginning) || beginning.starts_with(torn)
    }

    /// Whether two lines are of one event. Only what is verified must be it byte for byte: the others name the version
    /// that wrote them.
    pub(super) fn is_same(self, one: &str, other: &str) -> bool {
        let id = |line: &str| {
            let value: Value = serde_json::from_str(line).ok()?;
            let id = match self {
                Self::Ndjson => return None,
                Self::CloudEvents => value["id"].as_str(),
                Self::Ocsf => value["metadata"]["uid"].as_str(),
                Self::Otel => otel::id(&value),
            };
            Some((self.seq(line)?, id?.to_owned()))
        };
        one == other || id(one).is_some_and(|it| Some(it) == id(other))
    }

    /// Lines as a file has them.
    pub(super) fn text(lines: &[String]) -> String {
        lines.iter().flat_map(|it| [it.as_str(), "\n"]).collect()
    }

    /// Lines as one message, with its media type.
    pub(super) fn message(self, lines: &[String]) -> (&'static str, String) {
        let array = || format!("[{}]", lines.join(","));
        match self {
            Self::Ndjson => ("application/x-ndjson", Self::text(lines)),
            Self::CloudEvents => ("application/cloudevents-batch+json; charset=utf-8", array()),
            Self::Ocsf => ("application/json", array()),
            Self::Otel => ("application/json", otel::message(lines)),
        }
    }
}
