//! How some values of the configuration are read: times, durations, a text where a list may be.

use std::fmt;
use std::time::Duration;

use serde::Deserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};

use crate::clock::Timestamp;

/// RFC 3339, as a text or as TOML's own date with time and offset.
pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    struct Time;

    impl<'de> Visitor<'de> for Time {
        type Value = Option<Timestamp>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a time with its offset, such as 2027-01-31T00:00:00Z")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            Timestamp::parse(text).map(Some).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
        }

        // TOML hands its dates over as a map of one member.
        fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
            match members.next_entry::<String, String>()? {
                Some((_, text)) => self.visit_str(&text),
                None => Err(A::Error::invalid_type(serde::de::Unexpected::Map, &self)),
            }
        }
    }

    deserializer.deserialize_any(Time)
}

/// `30s`, `10m`, `1h`, `1d`: one whole number, one unit.
pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    struct Text;

    impl Visitor<'_> for Text {
        type Value = Duration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a duration, such as \"30s\", \"10m\" or \"1h\"")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
            parse(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
        }
    }

    deserializer.deserialize_str(Text)
}

fn parse(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    let digits = number.bytes().all(|it| it.is_ascii_digit());
    digits.then(|| number.parse::<u64>().ok()?.checked_mul(seconds)).flatten().map(Duration::from_secs)
}

/// A text, or a list of texts.
pub(super) fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct OneOrMore;

    impl<'de> Visitor<'de> for OneOrMore {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text or a list of texts")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(vec![text.to_owned()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(item) = items.next_element()? {
                all.push(item);
            }
            Ok(all)
        }
    }

    deserializer.deserialize_any(OneOrMore)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_one_whole_number_and_one_unit() {
        for (text, seconds) in [("0s", 0), ("30s", 30), ("10m", 600), ("1h", 3_600), ("2d", 172_800)] {
            assert_eq!(parse(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "s", "30", "30 s", "+1s", "-1s", "1.5h", "1H", "1\u{e9}", "99999999999999999999s"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
