//! Durations, as configuration, manifests and policies write them: `500ms`, `30s`, `5m`, `24h`, `7d`.

use std::time::Duration;

#[cfg(feature = "http")]
pub(crate) use self::configured::text;

/// What one must be, for people.
#[cfg(feature = "http")]
pub(crate) const SORT: &str = "a time with its unit: `500ms`, `30s`, `5m`, `24h` or `7d`";

/// Reads one: a whole number and one unit, nothing between them.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|it: char| !it.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    let seconds = |factor: u64| number.checked_mul(factor).map(Duration::from_secs);
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => seconds(1),
        "m" => seconds(60),
        "h" => seconds(3_600),
        "d" => seconds(86_400),
        _ => None,
    }
}

#[cfg(feature = "http")]
mod configured {
    use std::fmt;
    use std::time::Duration;

    use serde::Deserializer;
    use serde::de::{Error, Unexpected, Visitor};

    use super::{SORT, parse};

    /// For `#[serde(deserialize_with = "duration::text")]`.
    pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Duration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(SORT)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
                parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_one_whole_number_and_one_unit() {
        let table =
            [("500ms", 500), ("0s", 0), ("30s", 30_000), ("5m", 300_000), ("24h", 86_400_000), ("7d", 604_800_000)];
        for (text, millis) in table {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        let others =
            ["", "s", "ms", "30", "30 s", " 30s", "+1s", "-1s", "1.5h", "1m30s", "1H", "1w", "1\u{e9}", "\u{661}s"];
        for text in others.into_iter().chain(["99999999999999999999s", "18446744073709551615d"]) {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[cfg(feature = "http")]
    #[test]
    fn what_is_no_duration_is_told_what_one_is() {
        let said = |value: serde_json::Value| text(value).unwrap_err().to_string();
        insta::assert_snapshot!(said("1m30s".into()), @r#"invalid value: string "1m30s", expected a time with its unit: `500ms`, `30s`, `5m`, `24h` or `7d`"#);
        insta::assert_snapshot!(said(30.into()), @"invalid type: integer `30`, expected a time with its unit: `500ms`, `30s`, `5m`, `24h` or `7d`");
    }
}
