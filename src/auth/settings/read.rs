//! How some values of the configuration are read: times, a text where a list may be.

use std::fmt;

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
