use proptest::prelude::*;
use serde_json::json;

use super::*;

fn kinds(text: &str) -> String {
    match parse(text) {
        Ok(value) => format!("ok {value}"),
        Err(faults) => {
            let all: Vec<_> =
                faults.all.iter().map(|it| format!("{} at {}", it.kind.keyword(), path(&it.path))).collect();
            format!("{}{}", all.join(", "), if faults.well_formed { "" } else { " (malformed)" })
        }
    }
}

fn path(segments: &[Segment]) -> String {
    let mut out = String::from("`");
    for segment in segments {
        push(&mut out, segment);
    }
    out.push('`');
    out
}

fn nested(depth: usize, innermost: &str) -> String {
    format!("{}{innermost}{}", r#"{"a":["#.repeat(depth / 2), "]}".repeat(depth / 2))
}

const LOOSE: [&str; 30] = [
    r#"{"a":1,"a":2}"#,
    r#"{"x":{"a":1,"b":2,"a":3}}"#,
    r#"{"amountCents":1,"amount\u0043ents":2}"#,
    r#"{"x":[{"a":1},{"a":1,"a":1}]}"#,
    r#"{"a":"x\u0000y"}"#,
    r#"{"a\u0000":1}"#,
    r#"{"a":"\ud800"}"#,
    r#"{"\udc00":1}"#,
    r#"{"a":"\ud83d\ude00"}"#,
    r#"{"a":[0,1e999]}"#,
    r#"{"a":-1e999}"#,
    r#"{"a":9007199254740992}"#,
    r#"{"a":-9007199254740992}"#,
    r#"{"a":18446744073709551615}"#,
    r#"{"a":1e300}"#,
    r#"{"a":9007199254740993.0}"#,
    r#"{"a":9007199254740991,"b":-9007199254740991}"#,
    r#"{"$serde_json::private::RawValue":"{}"}"#,
    r#"{"a":1} x"#,
    r#"{"a":1}{}"#,
    r#"{"a":1,}"#,
    "{'a':1}",
    "{\"a\":\"\u{1}\"}",
    "",
    "nul",
    "NaN",
    "01",
    "\u{feff}{}",
    r#"{"a":1,"a":2"#,
    r#"{"a~b/c":{"a":1,"a":1}, "n":1e20, "s":"\u0000"}"#,
];

#[test]
fn what_json_leaves_open_is_refused_with_its_place() {
    let table: Vec<_> = LOOSE.iter().map(|it| format!("{} -> {}", it.escape_debug(), kinds(it))).collect();
    insta::assert_snapshot!(table.join("\n"), @r#"
    {\"a\":1,\"a\":2} -> duplicate member at `/a`
    {\"x\":{\"a\":1,\"b\":2,\"a\":3}} -> duplicate member at `/x/a`
    {\"amountCents\":1,\"amount\\u0043ents\":2} -> duplicate member at `/amountCents`
    {\"x\":[{\"a\":1},{\"a\":1,\"a\":1}]} -> duplicate member at `/x/1/a`
    {\"a\":\"x\\u0000y\"} -> NUL at `/a`
    {\"a\\u0000\":1} -> NUL at ``
    {\"a\":\"\\ud800\"} -> lone surrogate at `/a`
    {\"\\udc00\":1} -> lone surrogate at ``
    {\"a\":\"\\ud83d\\ude00\"} -> ok {"a":"😀"}
    {\"a\":[0,1e999]} -> number range at `/a/1`
    {\"a\":-1e999} -> number range at `/a`
    {\"a\":9007199254740992} -> safe integer at `/a`
    {\"a\":-9007199254740992} -> safe integer at `/a`
    {\"a\":18446744073709551615} -> safe integer at `/a`
    {\"a\":1e300} -> safe integer at `/a`
    {\"a\":9007199254740993.0} -> safe integer at `/a`
    {\"a\":9007199254740991,\"b\":-9007199254740991} -> ok {"a":9007199254740991,"b":-9007199254740991}
    {\"$serde_json::private::RawValue\":\"{}\"} -> reserved member at ``
    {\"a\":1} x -> not JSON at `` (malformed)
    {\"a\":1}{} -> not JSON at `` (malformed)
    {\"a\":1,} -> not JSON at `` (malformed)
    {\'a\':1} -> not JSON at `` (malformed)
    {\"a\":\"\u{1}\"} -> not JSON at `` (malformed)
     -> not JSON at `` (malformed)
    nul -> not JSON at `` (malformed)
    NaN -> not JSON at `` (malformed)
    01 -> not JSON at `` (malformed)
    \u{feff}{} -> not JSON at `` (malformed)
    {\"a\":1,\"a\":2 -> not JSON at `` (malformed)
    {\"a~b/c\":{\"a\":1,\"a\":1}, \"n\":1e20, \"s\":\"\\u0000\"} -> duplicate member at `/a~0b~1c/a`, safe integer at `/n`, NUL at `/s`
    "#);
}

#[test]
fn integral_numbers_become_integers_and_others_stay() {
    let cases = ["1.0", "1e0", "-0", "-0.0", "0e5", "1.5", "1e-7", "-2.50", "100e-2", "1e-999", "4.35", "0.1"];
    let table: Vec<_> = cases.iter().map(|it| format!("{it} -> {}", text(&parse(it).unwrap()).unwrap())).collect();
    insta::assert_snapshot!(table.join("\n"), @r#"
    1.0 -> 1
    1e0 -> 1
    -0 -> 0
    -0.0 -> 0
    0e5 -> 0
    1.5 -> 1.5
    1e-7 -> 1e-7
    -2.50 -> -2.5
    100e-2 -> 1
    1e-999 -> 0
    4.35 -> 4.35
    0.1 -> 0.1
    "#);
}

#[test]
fn what_is_deep_but_accepted_survives_the_parser_of_storage() {
    let deepest = nested(MAX_DEPTH, "1");
    let value = parse(&deepest).unwrap();
    assert!(is_shallow(&value));
    assert_eq!(serde_json::from_str::<Value>(&text(&value).unwrap()).unwrap(), value);
    assert_eq!(adopt(&value).unwrap(), value);

    let deeper = nested(MAX_DEPTH, "[]");
    let fault = parse(&deeper).unwrap_err();
    assert_eq!((fault.all[0].kind, fault.all[0].path.len(), fault.well_formed), (FaultKind::Depth, MAX_DEPTH, true));
    let value: Value = serde_json::from_str(&deeper).unwrap();
    assert!(!is_shallow(&value));
    assert_eq!(adopt(&value).unwrap_err().all[0].kind, FaultKind::Depth);
    // Far beyond any stack: refused, not overflowed.
    assert_eq!(parse(&"[".repeat(500_000)).unwrap_err(), Faults::one(FaultKind::NotJson, false));
    assert_eq!(parse(&nested(500_000, "1")).unwrap_err().all[0].kind, FaultKind::Size);
    assert_eq!(parse(&nested(200_000, "1")).unwrap_err().all[0].kind, FaultKind::Depth);
}

#[test]
fn a_text_has_at_most_one_mebibyte() {
    let fits = format!("\"{}\"", "x".repeat(MAX_BYTES - 2));
    assert_eq!(fits.len(), MAX_BYTES);
    assert!(parse(&fits).is_ok());
    assert_eq!(parse(&format!("{fits} ")).unwrap_err(), Faults::one(FaultKind::Size, false));
    assert!(adopt(&json!("x".repeat(MAX_BYTES - 2))).is_ok());
    assert_eq!(adopt(&json!("x".repeat(MAX_BYTES - 1))).unwrap_err(), Faults::one(FaultKind::Size, true));
    assert_eq!(adopt(&json!(vec![0; MAX_BYTES])).unwrap_err().all[0].kind, FaultKind::Size);
}

#[test]
fn a_parsed_value_is_checked_and_normalised_alike() {
    assert_eq!(adopt(&json!({"n": 1.0, "m": -0.0, "f": 1.5})).unwrap(), json!({"n": 1, "m": 0, "f": 1.5}));
    let refused = json!({"n": 9_007_199_254_740_992_u64, "s": "a\0", "l": [{"b\0": 1}]});
    let faults = adopt(&refused).unwrap_err();
    let all: Vec<_> = faults.all.iter().map(|it| format!("{} at {}", it.kind.keyword(), path(&it.path))).collect();
    assert_eq!(all, ["safe integer at `/n`", "NUL at `/s`", "NUL at `/l/0`"]);
}

#[test]
fn faults_are_bounded_in_number_and_size() {
    let many = format!("[{}0]", "1e20,".repeat(1000));
    assert_eq!(parse(&many).unwrap_err().all.len(), MAX_PROBLEMS);
    let long = format!(r#"{{"a":{{"{}":{{"b":1e20}}}}}}"#, "k".repeat(10_000));
    assert_eq!(parse(&long).unwrap_err().all[0].path, [Segment::Member("a".into())]);
}

#[test]
fn the_hash_is_the_documented_one() {
    // printf 'countersign/input/v1\norders.refund\n{"amountCents":100,"orderId":"ord_1"}' | sha256sum
    let value = parse(r#"{ "orderId": "ord_1", "amountCents": 1e2 }"#).unwrap();
    let canonical = text(&value).unwrap();
    assert_eq!(canonical, r#"{"amountCents":100,"orderId":"ord_1"}"#);
    insta::assert_snapshot!(input_hash("orders.refund", &canonical), @"sha256:eb06ced8e2dd58bbe4c633f47b50d1d27c66d855cdb8cafe7f534bb2009b96b7");
    assert_ne!(input_hash("orders.refund", &canonical), input_hash("orders.get", &canonical));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1_i64 << 53) + 1..(1_i64 << 53)).prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        any::<f64>().prop_filter("beyond the safe integers", |it| it.abs() < 9e15).prop_map(Value::from),
        "[^\0]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[^\0]{0,6}", inner, 0..6).prop_map(|it| it.into_iter().collect()),
        ]
    })
}

/// The same value with its members in reverse order.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Object(it) => it.iter().rev().map(|(name, it)| (name.clone(), reversed(it))).collect(),
        Value::Array(it) => it.iter().map(reversed).collect(),
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn normalising_is_idempotent_and_blind_to_order_and_white_space(value in any_json()) {
        let once = adopt(&value).unwrap();
        let canonical = text(&once).unwrap();
        let again = parse(&canonical).unwrap();
        prop_assert_eq!(&again, &once);
        prop_assert_eq!(text(&again).unwrap(), canonical.clone());
        let pretty = serde_json::to_string_pretty(&reversed(&value)).unwrap();
        prop_assert_eq!(text(&parse(&pretty).unwrap()).unwrap(), canonical);
    }

    #[test]
    fn any_text_is_parsed_or_refused_and_nothing_is_accepted_that_serde_reads_otherwise(
        text in r#"([\[\]{},:"\\0-9eE.+\-tfn ]|null|true|"a"|\\u[0-9a-d]{4}){0,24}"#,
    ) {
        if let Ok(value) = parse(&text) {
            let read: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(adopt(&read).unwrap(), value);
        }
    }
}
