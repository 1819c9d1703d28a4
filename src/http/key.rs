//! `Idempotency-Key`: a structured-field string (RFC 9651, section 3.3.3) or the bare key.

use axum::http::{HeaderMap, HeaderName};

use crate::IdempotencyKey;

const NAME: HeaderName = HeaderName::from_static("idempotency-key");

/// The key of a request. One that is malformed, or two that differ, becomes a key that stage 6 refuses, so that the refusal
/// is on record like any other.
pub(super) fn of(headers: &HeaderMap) -> Option<IdempotencyKey> {
    let mut keys = headers.get_all(NAME).iter().map(|it| it.to_str().ok().and_then(read));
    let first = keys.next()?;
    let agreed = keys.all(|it| it == first);
    Some(first.filter(|_| agreed).unwrap_or_default().into())
}

fn read(text: &str) -> Option<String> {
    let Some(quoted) = text.strip_prefix('"') else { return Some(text.to_owned()) };
    let (mut key, mut chars) = (String::new(), quoted.chars());
    loop {
        match chars.next()? {
            '"' => return chars.next().is_none().then_some(key),
            '\\' => key.push(chars.next().filter(|it| matches!(it, '"' | '\\'))?),
            other => key.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn key(lines: &[&'static str]) -> Option<String> {
        let lines = lines.iter().map(|it| (NAME, HeaderValue::from_static(it)));
        let mut headers = HeaderMap::new();
        lines.for_each(|(name, value)| {
            headers.append(name, value);
        });
        of(&headers).map(|it| it.to_string())
    }

    #[test]
    fn a_key_is_quoted_or_bare_and_one() {
        for (lines, read) in [
            (&[][..], None),
            (&["k1"], Some("k1")),
            (&[r#""k1""#], Some("k1")),
            (&[r#""a\"b\\c""#], Some(r#"a"b\c"#)),
            (&["k1", r#""k1""#], Some("k1")),
            (&["k1", "k2"], Some("")),
            (&["k1", ""], Some("")),
            (&[""], Some("")),
            (&[r#""k1"#], Some("")),
            (&[r#""k1"; a=b"#], Some("")),
            (&[r#""a\b""#], Some("")),
            (&[r#""a", "b""#], Some("")),
            (&["k 1"], Some("k 1")),
        ] {
            assert_eq!(key(lines).as_deref(), read, "{lines:?}");
        }
    }
}
