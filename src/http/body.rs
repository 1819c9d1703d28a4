//! Bodies: read within their limits, and handed on as text. Whatever the pipeline takes stays text; the little that
//! this adapter takes apart itself is parsed as strictly.

use std::sync::Arc;

use axum::body::HttpBody as _;
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::App;
use super::link::Pulse;
use super::problem::{Problem, Transport};
use crate::canonical::{self, Segment};
use crate::outcome::Detail;
use crate::schema::Refused;

/// The largest body: an input of the largest size does not fit together with its envelope, and nobody has one.
pub(super) const MAX_BODY: usize = 1 << 20;

/// The whole body as text; `None` if it is not UTF-8. Empty if there is none.
pub(crate) struct Text(Option<String>);

impl FromRequest<Arc<App>> for Text {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        if body.is_end_stream() {
            return Ok(Self(Some(String::new())));
        }
        if !is_json(&parts.headers) {
            return Err(Transport::MediaTypeNotSupported.into());
        }
        let whole = Limited::new(body, MAX_BODY).collect();
        let bytes = match tokio::time::timeout(app.settings.body_timeout, whole).await {
            Ok(Ok(whole)) => whole.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(Transport::BodyTooLarge.into()),
            // Broken off, or no chunks: it ends before its end.
            Ok(Err(_)) => return Err(Problem::one("", "not JSON", None)),
            Err(_) => return Err(Transport::RequestTimeout.into()),
        };
        if let Some(pulse) = parts.extensions.get::<Arc<Pulse>>() {
            pulse.was_read();
        }
        Ok(Self(String::from_utf8(bytes.into()).ok()))
    }
}

/// Forms and plain text are what a page may send anywhere without asking: never taken.
fn is_json(headers: &HeaderMap) -> bool {
    let essence = |it: &str| it.split(';').next().is_some_and(|it| it.trim().eq_ignore_ascii_case("application/json"));
    let plain = headers.get(CONTENT_ENCODING).is_none_or(|it| it.as_bytes().eq_ignore_ascii_case(b"identity"));
    plain && headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).is_some_and(essence)
}

impl Text {
    /// What is in `{"input": ..}`, as it is written. What is wrong with the envelope is the pipeline's to refuse, so that it
    /// is on record like any other call.
    pub(super) fn input(&self) -> Result<&str, Refused> {
        let Some(text) = &self.0 else { return Err(refused("", "not JSON", false)) };
        if text.is_empty() {
            return Err(refused("", "required", true));
        }
        let members = members(text).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => refused("", "type", true),
            _ => refused("", "not JSON", false),
        })?;
        let mut input = None;
        for (name, value) in members {
            if name != "input" {
                return Err(refused("", "envelope", true));
            }
            if input.replace(value.get()).is_some() {
                return Err(refused("/input", "duplicate member", true));
            }
        }
        input.ok_or_else(|| refused("", "required", true))
    }

    /// An object with these members and no others, parsed strictly.
    pub(crate) fn object(&self, known: &[&str]) -> Result<Map<String, Value>, Problem> {
        let Some(text) = &self.0 else { return Err(Problem::one("", "not JSON", None)) };
        let parsed = canonical::parse(text).map_err(|faults| {
            let detail = |it: &canonical::Fault| Detail::Input {
                path: declared(&it.path, known),
                keyword: it.kind.keyword().into(),
                nearest: None,
            };
            Problem::invalid(faults.all.iter().map(detail).collect())
        })?;
        let Value::Object(members) = parsed else { return Err(Problem::one("", "type", None)) };
        // An undeclared name can be payload: it is not repeated.
        if members.keys().any(|it| !known.contains(&it.as_str())) {
            return Err(Problem::one("", "additionalProperties", None));
        }
        Ok(members)
    }

    /// No body, or an empty object: for what is said by its path alone.
    pub(super) fn nothing(&self) -> Result<(), Problem> {
        if self.0.as_deref() == Some("") { Ok(()) } else { self.object(&[]).map(drop) }
    }
}

/// Only names that the API itself declares are repeated.
fn declared(path: &[Segment], known: &[&str]) -> String {
    match path.first() {
        Some(Segment::Member(name)) if known.contains(&name.as_str()) => format!("/{name}"),
        _ => String::new(),
    }
}

fn refused(path: &str, keyword: &str, well_formed: bool) -> Refused {
    let nearest = matches!(keyword, "required" | "envelope").then(|| "input".to_owned());
    let detail = Detail::Input { path: path.into(), keyword: keyword.into(), nearest };
    Refused { outward: vec![detail], paths: vec![path.into()], well_formed }
}

/// The members of an object as they are written, their names decoded.
fn members(text: &str) -> Result<Vec<(String, &RawValue)>, serde_json::Error> {
    struct Members;

    impl<'de> Visitor<'de> for Members {
        type Value = Vec<(String, &'de RawValue)>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some(member) = map.next_entry()? {
                members.push(member);
            }
            Ok(members)
        }
    }

    let mut parser = serde_json::Deserializer::from_str(text);
    let members = parser.deserialize_map(Members)?;
    parser.end()?;
    Ok(members)
}

/// A member that is a text.
pub(super) fn text_of<'a>(members: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Problem> {
    match members.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Problem::one(&format!("/{name}"), "type", None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(text: &str) -> Result<String, String> {
        let text = Text(Some(text.into()));
        text.input().map(Into::into).map_err(|it| match &it.outward[..] {
            [Detail::Input { path, keyword, .. }] => format!("{path} {keyword} {}", it.well_formed),
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn the_input_is_handed_on_as_it_is_written() {
        assert_eq!(input(r#" {"input" : {"a": 1.0e0, "a": 2} } "#).unwrap(), r#"{"a": 1.0e0, "a": 2}"#);
        assert_eq!(input(r#"{"\u0069nput": null}"#).unwrap(), "null");
    }

    #[test]
    fn r10_an_envelope_holds_one_input_and_nothing_else() {
        for (text, why) in [
            ("", " required true"),
            ("{}", " required true"),
            ("[]", " type true"),
            ("7", " type true"),
            ("{", " not JSON false"),
            ("\u{feff}{}", " not JSON false"),
            (r#"{"input": {}} x"#, " not JSON false"),
            (r#"{"input": {}, "input": {}}"#, "/input duplicate member true"),
            (r#"{"input": {}, "\u0069nput": {}}"#, "/input duplicate member true"),
            (r#"{"input": {}, "approved": true}"#, " envelope true"),
            (r#"{"approved": true}"#, " envelope true"),
            (r#"{"Input": {}}"#, " envelope true"),
            (r#"{"$serde_json::private::RawValue": "1"}"#, " envelope true"),
        ] {
            assert_eq!(input(text).unwrap_err(), why, "{text}");
        }
    }

    #[test]
    fn what_is_not_utf_8_is_no_json() {
        assert!(Text(None).input().is_err_and(|it| !it.well_formed));
        assert!(Text(None).object(&[]).is_err() && Text(None).nothing().is_err());
    }
}
