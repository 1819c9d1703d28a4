//! JSON values to Cedar expressions, guided by the type: never through Cedar's JSON form, so that `{"__entity": ..}` in
//! data stays data.

use std::net::IpAddr;

use cedar_policy::{EntityId, EntityTypeName, EntityUid, RestrictedExpression};
use serde_json::{Number, Value};

use super::types::Type;

/// Why a value has no form in Cedar. Names the rule, never the value (INV-9).
pub(super) type Unfit = &'static str;

/// Copies only what the type declares: undeclared members of an open object never reach Cedar, and null is absent.
pub(super) fn expression(kind: &Type, value: &Value) -> Result<RestrictedExpression, Unfit> {
    Ok(match (kind, value) {
        (Type::Bool, Value::Bool(it)) => RestrictedExpression::new_bool(*it),
        (Type::Long, Value::Number(it)) => RestrictedExpression::new_long(it.as_i64().ok_or("out_of_range")?),
        (Type::String, Value::String(it)) => RestrictedExpression::new_string(it.clone()),
        (Type::DateTime, Value::String(it)) => RestrictedExpression::new_datetime(datetime(it).ok_or("not_a_time")?),
        (Type::Ip, Value::String(it)) => RestrictedExpression::new_ip(ip(it).ok_or("not_an_address")?),
        (Type::Decimal, Value::Number(it)) => RestrictedExpression::new_decimal(decimal(it).ok_or("out_of_range")?),
        (Type::Entity(name), Value::String(id)) => RestrictedExpression::new_entity_uid(uid(name, id)),
        (Type::Set(element), Value::Array(all)) => {
            let all: Result<Vec<_>, _> = all.iter().map(|it| expression(element, it)).collect();
            RestrictedExpression::new_set(all?)
        }
        (Type::Record(members), Value::Object(object)) => {
            let mut pairs = Vec::with_capacity(members.len());
            for (name, member) in members {
                if let Some(value) = object.get(name).filter(|it| !it.is_null()) {
                    pairs.push((name.clone(), expression(&member.kind, value)?));
                }
            }
            RestrictedExpression::new_record(pairs).map_err(|_| "repeated_member")?
        }
        _ => return Err("wrong_type"),
    })
}

/// An entity's name, made through the API: an id is never spliced into text.
pub(super) fn uid(kind: &EntityTypeName, id: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
}

/// A set of strings.
pub(super) fn strings<T: AsRef<str>>(all: impl IntoIterator<Item = T>) -> RestrictedExpression {
    RestrictedExpression::new_set(all.into_iter().map(|it| string(it.as_ref())))
}

pub(super) fn string(text: &str) -> RestrictedExpression {
    RestrictedExpression::new_string(text.to_owned())
}

/// Cedar wants a point, one to four digits behind it, and an integer of 64 bits without the point.
fn decimal(number: &Number) -> Option<String> {
    const MAX_WHOLE: u64 = 922_337_203_685_476;
    if let Some(whole) = number.as_i64() {
        return (whole.unsigned_abs() <= MAX_WHOLE).then(|| format!("{whole}.0"));
    }
    let given = number.as_f64()?;
    let scaled = (given * 1e4).round();
    let exact = (scaled / 1e4 - given).abs() <= f64::EPSILON * given.abs().max(1.0);
    if !exact || scaled.abs() > 9_007_199_254_740_992.0 {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "an integral number within 2^53")]
    let units = scaled as i64;
    let sign = if units < 0 { "-" } else { "" };
    let units = units.unsigned_abs();
    Some(format!("{sign}{}.{:04}", units / 10_000, units % 10_000))
}

/// Cedar refuses `::ffff:1.2.3.4`, which is how the standard library prints it: so always eight groups.
fn ip(text: &str) -> Option<String> {
    match text.parse::<IpAddr>().ok()? {
        IpAddr::V4(it) => Some(it.to_string()),
        IpAddr::V6(it) => Some(it.segments().map(|group| format!("{group:x}")).join(":")),
    }
}

/// RFC 3339 in the one form that Cedar reads: `YYYY-MM-DDThh:mm:ss.SSS` and `Z` or `+hhmm`. Fractions are cut to
/// milliseconds; a leap second is the last millisecond before it.
fn datetime(text: &str) -> Option<String> {
    if !text.is_ascii() || text.len() < 20 || !matches!(text.as_bytes()[10], b'T' | b't' | b' ') {
        return None;
    }
    let (date, clock, rest) = (&text[..10], &text[11..19], &text[19..]);
    let digits = rest.strip_prefix('.').map_or(0, |it| it.bytes().take_while(u8::is_ascii_digit).count());
    let (fraction, offset) = rest.split_at(if digits > 0 { digits + 1 } else { 0 });
    let zone = match offset.as_bytes() {
        b"Z" | b"z" => "Z".to_owned(),
        [b'+' | b'-', _, _, b':', _, _] => format!("{}{}", &offset[..3], &offset[4..]),
        _ => return None,
    };
    let millis: String = fraction.trim_start_matches('.').chars().chain("000".chars()).take(3).collect();
    Some(match clock.strip_suffix(":60") {
        Some(minute) => format!("{date}T{minute}:59.999{zone}"),
        None => format!("{date}T{clock}.{millis}{zone}"),
    })
}

#[cfg(test)]
mod tests {
    use cedar_policy::Context;
    use serde_json::json;

    use super::*;
    use crate::policy::input::of_input;

    /// What Cedar made of member `v`.
    fn built(schema: &Value, value: &Value) -> String {
        let kind = of_input(&json!({"type": "object", "properties": {"v": schema}}), &mut Vec::new());
        let context = expression(&kind, &json!({"v": value}))
            .and_then(|it| Context::from_pairs([("i".to_owned(), it)]).map_err(|_| "refused by cedar"));
        match context {
            Ok(it) => it.get("i").map(|it| it.to_string()).unwrap_or_default(),
            Err(why) => why.into(),
        }
    }

    fn table(schema: &Value, values: &[Value]) -> String {
        let lines: Vec<String> = values.iter().map(|it| format!("{it} => {}", built(schema, it))).collect();
        lines.join("\n")
    }

    #[test]
    fn times_are_rewritten_to_the_form_of_cedar() {
        let times = [
            "2024-02-29T12:00:00Z",
            "2024-02-29t12:00:00z",
            "2024-02-29T12:00:00.123456789+02:00",
            "2024-02-29T12:00:00.1-00:00",
            "2016-12-31T23:59:60Z",
            "2016-12-31T15:59:60.5-08:00",
            "2024-02-29T12:00:00",
            "2023-02-29T00:00:00Z",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00+0200",
            "gar\u{e9}bage-and-more-garbage",
        ];
        let schema = json!({"type": "string", "format": "date-time"});
        insta::assert_snapshot!(table(&schema, &times.map(Value::from)), @r#"
        "2024-02-29T12:00:00Z" => {"v": datetime("2024-02-29T12:00:00.000Z")}
        "2024-02-29t12:00:00z" => {"v": datetime("2024-02-29T12:00:00.000Z")}
        "2024-02-29T12:00:00.123456789+02:00" => {"v": datetime("2024-02-29T12:00:00.123+0200")}
        "2024-02-29T12:00:00.1-00:00" => {"v": datetime("2024-02-29T12:00:00.100-0000")}
        "2016-12-31T23:59:60Z" => {"v": datetime("2016-12-31T23:59:59.999Z")}
        "2016-12-31T15:59:60.5-08:00" => {"v": datetime("2016-12-31T15:59:59.999-0800")}
        "2024-02-29T12:00:00" => not_a_time
        "2023-02-29T00:00:00Z" => refused by cedar
        "2024-01-01T00:00:00.Z" => not_a_time
        "2024-01-01T00:00:00+0200" => not_a_time
        "garébage-and-more-garbage" => not_a_time
        "#);
    }

    #[test]
    fn addresses_are_written_as_eight_groups() {
        let addresses = ["::1", "::ffff:1.2.3.4", "2001:DB8::1", "10.0.0.1", "10.0.0.0/8", "fe80::1%eth0"];
        let schema = json!({"type": "string", "format": "ipv6"});
        insta::assert_snapshot!(table(&schema, &addresses.map(Value::from)), @r#"
        "::1" => {"v": ip("0:0:0:0:0:0:0:1")}
        "::ffff:1.2.3.4" => {"v": ip("0:0:0:0:0:ffff:102:304")}
        "2001:DB8::1" => {"v": ip("2001:db8:0:0:0:0:0:1")}
        "10.0.0.1" => {"v": ip("10.0.0.1")}
        "10.0.0.0/8" => not_an_address
        "fe80::1%eth0" => not_an_address
        "#);
    }

    #[test]
    fn decimals_keep_four_digits() {
        let schema = json!({"type": "number", "multipleOf": 0.0001, "minimum": -1e9, "maximum": 1e9});
        let numbers = [json!(0.1), json!(19.99), json!(-0.0001), json!(5), json!(-5.5), json!(0.00001), json!(1e300)];
        insta::assert_snapshot!(table(&schema, &numbers), @r#"
        0.1 => {"v": decimal("0.1000")}
        19.99 => {"v": decimal("19.9900")}
        -0.0001 => {"v": decimal("-0.0001")}
        5 => {"v": decimal("5.0")}
        -5.5 => {"v": decimal("-5.5000")}
        0.00001 => out_of_range
        1e+300 => out_of_range
        "#);
    }

    #[test]
    fn r16_what_looks_like_an_entity_stays_data() {
        let schema = json!({"type": "object", "properties": {"__entity": {"type": "object", "properties": {
            "type": {"type": "string"}, "id": {"type": "string"}}}}});
        let value = json!({"__entity": {"type": "Role", "id": "admin"}, "extra": {"__extn": {"fn": "ip", "arg": "1"}}});
        insta::assert_snapshot!(built(&schema, &value), @r#"{"v": {"__entity": {"id": "admin", "type": "Role"}}}"#);
    }

    #[test]
    fn null_is_absent_and_a_wrong_type_is_refused_without_its_value() {
        let schema = json!({"type": ["string", "null"]});
        assert_eq!(built(&schema, &Value::Null), "{}");
        assert_eq!(built(&schema, &json!(42)), "wrong_type");
        assert_eq!(built(&json!({"type": "integer"}), &json!(u64::MAX)), "out_of_range");
    }
}
