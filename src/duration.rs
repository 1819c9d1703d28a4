//! Durations as configuration writes them: `500ms`, `30s`, `5m`, `2h`, `7d`.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// Reads one: a whole number and one unit, nothing between them.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let digits = text.len() - text.trim_start_matches(|it: char| it.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
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

/// For `#[serde(deserialize_with = "duration::text")]`.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).ok_or_else(|| {
        serde::de::Error::custom(format!("`{text}` is no duration: write a number and a unit, like `30s` or `500ms`"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_one_number_and_one_unit() {
        let read = ["500ms", "30s", "5m", "2h", "7d", "0s"].map(|it| parse(it).map(|it| it.as_millis()));
        assert_eq!(read, [Some(500), Some(30_000), Some(300_000), Some(7_200_000), Some(604_800_000), Some(0)]);
        for text in
            ["", "s", "30", "30 s", "-1s", "1.5s", "1m30s", "30S", "99999999999999999999s", "18446744073709551615d"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
