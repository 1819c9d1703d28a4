use std::net::TcpListener;
use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::builder::Problem;

fn compile(schema: Value) -> Result<InputSchema, Vec<Problem>> {
    let mut problems = Vec::new();
    let compiled = Compiler::new().input("demo", &Arc::new(schema), |_| true, &mut problems);
    if problems.is_empty() { Ok(compiled.unwrap()) } else { Err(problems) }
}

fn problems(schema: Value) -> String {
    let found = compile(schema).err().unwrap_or_default();
    found.iter().map(|it| format!("{}; {}", it.what, it.fix)).collect::<Vec<_>>().join("\n")
}

/// A closed object with these members.
#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn closed(properties: Value) -> Value {
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

fn accept(schema: &Value, text: &str) -> Result<Accepted, Refused> {
    compile(schema.clone()).unwrap_or_else(|it| panic!("{it:?}")).accept(&"demo".into(), &Given::Text(text))
}

fn refusal(schema: &Value, text: &str) -> String {
    let Err(refused) = accept(schema, text) else { return "accepted".into() };
    let shown: Vec<_> = refused.outward.iter().map(shown).collect();
    format!("{} | {} {:?}", shown.join(", "), if refused.well_formed { 422 } else { 400 }, refused.paths)
}

fn shown(detail: &Detail) -> String {
    let Detail::Input { path, keyword, nearest } = detail else { panic!("{detail:?}") };
    let near = nearest.as_ref().map(|it| format!(" (`{it}`?)")).unwrap_or_default();
    format!("`{path}` {keyword}{near}")
}

fn table<'a>(schema: &Value, texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().map(|it| format!("{it} -> {}", refusal(schema, it))).collect::<Vec<_>>().join("\n")
}

fn refund() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["orderId"],
        "properties": {
            "orderId": {"type": "string"},
            "amountCents": {"type": "integer", "minimum": 1},
            "dry_run": {"type": "boolean", "default": true},
            "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "address": {"$ref": "#/$defs/address"},
        },
        "$defs": {
            "item": {"type": "object", "required": ["sku"], "properties": {"sku": {"type": "string"}}, "additionalProperties": false},
            "address": {"type": "object", "properties": {"country": {"type": "string", "default": "CH"}, "zip": {"type": "string", "pattern": "^[0-9]{4}$"}}},
        }
    })
}

#[test]
fn r9_r10_problems_name_declared_places_and_near_names_only() {
    let texts = [
        r#"{"orderId":"ord_1","dryrun":false}"#,
        r#"{"orderId":"ord_1","secret-canary":1,"other-canary":2}"#,
        r#"{"orderld":"ord_1"}"#,
        r#"{"orderId":7,"amountCents":"12"}"#,
        r#"{"orderId":"o","amountCents":0}"#,
        r#"{"orderId":"o","items":[{"sku":"a"},{"sku":1},{"skv":"x"}]}"#,
        r#"{"orderId":"o","labels":{"canary":7}}"#,
        r#"{"orderId":"o","address":{"zip":"canary","canary":{"deep":1}}}"#,
        r#"{"orderId":"o","orderId":"p"}"#,
        r#"{"orderId":"o","address":{"zip":"1000","z\u0069p":"2000"}}"#,
        r#"{"orderId":"o","labels":{"canary":"1","canary":"2"}}"#,
        r#"{"orderId":"o","labels":{"canary":{"a":1,"a":2}}}"#,
        r#"{"orderId":"o","amountCents":1e300}"#,
        r#"{"orderId":"o\u0000"}"#,
        r#"{"orderId":"\ud800"}"#,
        r#"{"orderId":"o","amountCents":1e999}"#,
        r#"{"orderId":"o""#,
        "[]",
        "null",
        r#"{"orderId":"o","amountCents":1.0}"#,
    ];
    insta::assert_snapshot!(table(&refund(), texts), @r#"
    {"orderId":"ord_1","dryrun":false} -> `/dryrun` additionalProperties (`dry_run`?) | 422 [""]
    {"orderId":"ord_1","secret-canary":1,"other-canary":2} -> `` additionalProperties | 422 [""]
    {"orderld":"ord_1"} -> `/orderId` required, `/orderld` additionalProperties (`orderId`?) | 422 ["", "/orderId"]
    {"orderId":7,"amountCents":"12"} -> `/amountCents` type, `/orderId` type | 422 ["/amountCents", "/orderId"]
    {"orderId":"o","amountCents":0} -> `/amountCents` minimum | 422 ["/amountCents"]
    {"orderId":"o","items":[{"sku":"a"},{"sku":1},{"skv":"x"}]} -> `/items/1/sku` type, `/items/2/sku` required, `/items/2/skv` additionalProperties (`sku`?) | 422 ["/items/1/sku", "/items/2", "/items/2/sku"]
    {"orderId":"o","labels":{"canary":7}} -> `/labels` type | 422 ["/labels"]
    {"orderId":"o","address":{"zip":"canary","canary":{"deep":1}}} -> `/address/zip` pattern | 422 ["/address/zip"]
    {"orderId":"o","orderId":"p"} -> `/orderId` duplicate member | 422 ["/orderId"]
    {"orderId":"o","address":{"zip":"1000","z\u0069p":"2000"}} -> `/address/zip` duplicate member | 422 ["/address/zip"]
    {"orderId":"o","labels":{"canary":"1","canary":"2"}} -> `/labels` duplicate member | 422 ["/labels"]
    {"orderId":"o","labels":{"canary":{"a":1,"a":2}}} -> `/labels` duplicate member | 422 ["/labels"]
    {"orderId":"o","amountCents":1e300} -> `/amountCents` safe integer | 422 ["/amountCents"]
    {"orderId":"o\u0000"} -> `/orderId` NUL | 422 ["/orderId"]
    {"orderId":"\ud800"} -> `/orderId` lone surrogate | 422 ["/orderId"]
    {"orderId":"o","amountCents":1e999} -> `/amountCents` number range | 422 ["/amountCents"]
    {"orderId":"o" -> `` not JSON | 400 [""]
    [] -> `` type | 422 [""]
    null -> `` type | 422 [""]
    {"orderId":"o","amountCents":1.0} -> accepted
    "#);
}

#[test]
fn a_tagged_choice_is_explained_by_the_branch_that_was_meant() {
    let schema = json!({
        "type": "object",
        "unevaluatedProperties": false,
        "oneOf": [
            {"type": "object", "properties": {"kind": {"const": "card"}, "number": {"type": "string"}}, "required": ["kind", "number"]},
            {"type": "object", "properties": {"kind": {"const": "cash"}, "amount": {"type": "integer"}}, "required": ["kind", "amount"]},
        ]
    });
    let texts = [
        r#"{"kind":"card","number":"1"}"#,
        r#"{"kind":"card","number":7}"#,
        r#"{"kind":"cash"}"#,
        r#"{"kind":"canary"}"#,
        r#"{"kind":"cash","amount":1,"amuont":2}"#,
    ];
    insta::assert_snapshot!(table(&schema, texts), @r#"
    {"kind":"card","number":"1"} -> accepted
    {"kind":"card","number":7} -> `` oneOf, `/number` type | 422 ["", "/number"]
    {"kind":"cash"} -> `` oneOf, `/amount` required | 422 ["", "/amount"]
    {"kind":"canary"} -> `` oneOf | 422 [""]
    {"kind":"cash","amount":1,"amuont":2} -> `/amuont` unevaluatedProperties (`amount`?) | 422 [""]
    "#);
}

#[test]
fn r12_formats_are_asserted() {
    let cases = [
        ("date-time", "not a date", "2026-01-02T03:04:05Z"),
        ("email", "nope", "a@example.test"),
        ("uuid", "x", "0198c0de-0000-7000-8000-000000000000"),
        ("uri", "javascript:alert(1)", "https://example.test/x"),
        ("uri", "JavaScript:alert(1)", "urn:example:x"),
        ("uri-reference", "data:text/html,x", "/x?y#z"),
        ("ipv4", "999.1.1.1", "127.0.0.1"),
    ];
    for (format, wrong, right) in cases {
        let schema = closed(json!({"a": {"type": "string", "format": format}}));
        assert_eq!(refusal(&schema, &json!({"a": wrong}).to_string()), "`/a` format | 422 [\"/a\"]", "{format}");
        assert_eq!(refusal(&schema, &json!({"a": right}).to_string()), "accepted", "{format}");
    }
}

/// Schemas that must not be registered, each for a reason of its own.
fn refused_schemas() -> Vec<Value> {
    vec![
        closed(json!({"a": {"type": "string", "format": "luhn"}})),
        closed(json!({"a": {"type": "string", "nullable": true, "example": "x"}})),
        closed(json!({"a": {"type": "string", "maxLenght": 3, "x-note": "fine", "wholly": 1}})),
        closed(json!({"a": {"type": "strin"}})),
        closed(json!({"a": {"type": "string", "pattern": "("}})),
        closed(json!({"a": {"type": "string", "pattern": "^(?!x).*$"}})),
        closed(json!({"a": {"$dynamicRef": "#x"}})),
        closed(json!({"a": {"$id": "https://example.test/a"}})),
        closed(json!({"a": {"$ref": "#/$defs/none"}})),
        closed(json!({"a": {"$ref": "#/properties/b/const"}, "b": {"const": {}}})),
        closed(json!({"a": {"type": "integer", "default": "x"}})),
        closed(json!({"a": {"type": "array", "items": {"type": "string", "default": 1e300}}})),
        closed(json!({"a": {"allOf": [{"$ref": "#/properties/a"}]}})),
        closed(json!({"a": {"$ref": "#/$defs/x"}}))
            .as_object()
            .cloned()
            .map(|mut it| {
                it.insert(
                    "$defs".into(),
                    json!({"x": {"type": "object", "default": {}, "properties": {"x": {"$ref": "#/$defs/x"}}}}),
                );
                Value::Object(it)
            })
            .unwrap(),
        json!({"type": "object", "properties": {}}),
        json!({"type": "string"}),
        json!(true),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": true}),
    ]
}

#[test]
fn r12_what_would_be_ignored_or_is_wrong_is_a_registration_problem() {
    let table: Vec<_> = refused_schemas().into_iter().map(problems).collect();
    insta::assert_snapshot!(table.join("\n--\n"), @r#"
    input schema: `/properties/a`: unknown format `luhn`, which would check nothing; use a format of JSON Schema 2020-12, or `pattern`
    --
    input schema: `/properties/a`: keyword `nullable` would be ignored; write `"type": ["string", "null"]`
    input schema: `/properties/a`: keyword `example` would be ignored; write `examples`, an array
    --
    input schema: `/properties/a`: keyword `maxLenght` would be ignored; did you mean `maxLength`?
    input schema: `/properties/a`: keyword `wholly` would be ignored; use the keywords of JSON Schema 2020-12, or a name that starts with `x-`
    --
    input schema: `/properties/a/type`: "strin" is not valid under any of the schemas listed in the 'anyOf' keyword; correct it; JSON Schema 2020-12 says what is allowed there
    --
    input schema: `/properties/a/pattern`: it is not a regular expression that is matched in linear time; correct it; look-around and back-references are not supported
    --
    input schema: `/properties/a/pattern`: it is not a regular expression that is matched in linear time; correct it; look-around and back-references are not supported
    --
    input schema: `/properties/a`: keyword `$dynamicRef` is not supported; refer to `#/$defs/..` with `$ref`
    --
    input schema: `/properties/a`: `$id` inside a schema; remove `$id`
    --
    input schema: `/properties/a`: `$ref` to `#/$defs/none`, where this schema has no schema; add it under `$defs`, or correct the reference
    --
    input schema: `/properties/a`: `$ref` to `#/properties/b/const`, where this schema has no schema; add it under `$defs`, or correct the reference
    --
    input schema: `/properties/a`: its own schema refuses the `default`; correct the `default`, or remove it
    --
    input schema: `/properties/a/items`: its own schema refuses the `default`; correct the `default`, or remove it
    --
    input schema: `/properties/a`: the schema applies itself to the same value, without end; remove the reference
    --
    input schema: its defaults add members without end, or more than 4,096; remove the `default` of the member that contains itself
    --
    input schema: the root does not say whether undeclared members are allowed; close it with `"additionalProperties": false`, or open it with `true`
    --
    input schema: the root is not an object; say `"type": "object"` at the root; a handler takes a struct or `()`
    input schema: the root does not say whether undeclared members are allowed; close it with `"additionalProperties": false`, or open it with `true`
    --
    input schema: the root is not an object; say `"type": "object"` at the root; a handler takes a struct or `()`
    input schema: the root does not say whether undeclared members are allowed; close it with `"additionalProperties": false`, or open it with `true`
    --
    input schema: dialect `http://json-schema.org/draft-07/schema#`; leave `$schema` out, or say `https://json-schema.org/draft/2020-12/schema`
    "#);
}

#[test]
fn r13_nothing_is_ever_fetched() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/schema.json", listener.local_addr().unwrap());
    let schemas = [
        closed(json!({"a": {"$ref": url}})),
        closed(json!({"a": {"$ref": "file:///etc/hostname"}})),
        closed(json!({"a": {"$ref": "other.json#/x"}})),
        json!({"$schema": url, "type": "object", "additionalProperties": false}),
        json!({"$id": url, "type": "object", "additionalProperties": false, "properties": {"a": {"$ref": "other.json"}}}),
        closed(json!({"a": {"$schema": url, "type": "string"}})),
        closed(json!({"a": {"$dynamicRef": url}})),
    ];
    for schema in schemas {
        let found = compile(schema.clone()).err().unwrap_or_default();
        assert_eq!(found.len(), 1, "{schema}: {found:?}");
        // Even what gets past the lint has nobody to ask.
        let _ = Compiler::new().options().build(&schema);
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn r37_no_problem_repeats_a_value() {
    let rules = [
        json!({"pattern": "^[0-9]+$"}),
        json!({"maxLength": 3}),
        json!({"minLength": 30}),
        json!({"enum": ["a", "b"]}),
        json!({"const": "x"}),
        json!({"type": "integer"}),
        json!({"type": ["integer", "null"]}),
        json!({"format": "uuid"}),
        json!({"not": {"type": "string"}}),
        json!({"oneOf": [{"type": "integer"}, {"const": 1}]}),
        json!({"anyOf": [{"maxLength": 2}, {"minLength": 90}]}),
        json!({"allOf": [{"maxLength": 2}, {"pattern": "^z"}]}),
        json!({"if": {"type": "string"}, "then": {"const": 1}}),
        json!(false),
    ];
    let apart = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 1, "contains": {"const": 9}, "uniqueItems": true},
            "tuple": {"type": "array", "prefixItems": [{"type": "integer"}], "items": false},
            "map": {"type": "object", "propertyNames": {"maxLength": 2}, "maxProperties": 0},
            "dependent": {"type": "object", "dependentRequired": {"canary-77": ["b"]}, "minProperties": 4, "patternProperties": {"^canary": {"type": "null"}}},
        }
    });
    let mut said = Vec::new();
    for rule in &rules {
        let schema = closed(json!({"apiKey": rule}));
        said.push(accept(&schema, r#"{"apiKey":"canary-77"}"#).unwrap_err());
    }
    let text = r#"{"list":["canary-77","canary-77"],"tuple":[1,"canary-77"],"map":{"canary-77":1},"dependent":{"canary-77":"canary-77"},"canary-77":1}"#;
    said.push(accept(&apart, text).unwrap_err());
    said.push(accept(&apart, r#"{"list":{"canary-77":1,"canary-77":2}}"#).unwrap_err());
    said.push(accept(&apart, r#"{"canary-77":"#).unwrap_err());
    let all = format!("{said:?}");
    assert!(!all.contains("canary"), "{all}");
    let shown: Vec<_> = said.iter().map(|it| it.outward.iter().map(shown).collect::<Vec<_>>().join(", ")).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    `/apiKey` pattern
    `/apiKey` maxLength
    `/apiKey` minLength
    `/apiKey` enum
    `/apiKey` const
    `/apiKey` type
    `/apiKey` type
    `/apiKey` format
    `/apiKey` not
    `/apiKey` oneOf
    `/apiKey` anyOf
    `/apiKey` maxLength, `/apiKey` pattern
    `/apiKey` const
    `/apiKey` false
    `` additionalProperties, `/dependent` minProperties, `/dependent` type, `/dependent/b` required, `/list` contains, `/list` maxItems, `/list` uniqueItems, `/list/0` type, `/list/1` type, `/map` maxProperties, `/map` propertyNames, `/tuple/1` false
    `/list` duplicate member
    `` not JSON
    "#);
}

#[test]
fn equal_inputs_have_one_hash_and_different_ones_do_not() {
    let schema = json!({"type": "object", "additionalProperties": true, "properties": {"d": {"default": 5}}});
    let compiled = compile(schema).unwrap();
    let hash = |text: &str| compiled.accept(&"demo".into(), &Given::Text(text)).unwrap().hash;
    let equal = [
        (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#),
        (r#"{"a":1}"#, " { \"a\" :\n\t1 } "),
        (r#"{"n":1}"#, r#"{"n":1e0}"#),
        (r#"{"n":1}"#, r#"{"n":1.0}"#),
        (r#"{"n":0}"#, r#"{"n":-0}"#),
        (r#"{"n":0.1}"#, r#"{"n":1e-1}"#),
        ("{}", r#"{"d":5}"#),
        ("{}", r#"{"d":5.0}"#),
        (r#"{"s":"é"}"#, r#"{"s":"\u00e9"}"#),
    ];
    let different = [
        ("{\"s\":\"\u{e9}\"}", "{\"s\":\"e\u{301}\"}"),
        (r#"{"n":1}"#, r#"{"n":"1"}"#),
        (r#"{"n":null}"#, "{}"),
        (r#"{"n":[]}"#, r#"{"n":{}}"#),
        (r#"{"n":[1,2]}"#, r#"{"n":[2,1]}"#),
        (r#"{"d":null}"#, "{}"),
    ];
    for (left, right) in equal {
        assert_eq!(hash(left), hash(right), "{left} and {right}");
    }
    for (left, right) in different {
        assert_ne!(hash(left), hash(right), "{left} and {right}");
    }
    let one = compiled.accept(&"one".into(), &Given::Text("{}")).unwrap().hash;
    assert_ne!(one, hash("{}"), "another capability");
}

fn with_defaults() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "limit": {"type": "integer", "default": 10.0},
            "page": {"$ref": "#/$defs/page", "default": {}},
            "other": {"$ref": "#/$defs/page"},
            "node": {"$ref": "#/$defs/node"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"default": 1}}}},
            "choice": {"anyOf": [{"type": "object", "properties": {"y": {"default": 1}}}]},
        },
        "$defs": {
            "page": {"type": "object", "required": ["size"], "properties": {"size": {"default": 20}, "sort": {"$ref": "#/$defs/sort"}}, "default": {"size": 1}},
            "sort": {"type": "object", "default": {"by": "id"}, "properties": {"by": {}, "desc": {"default": false}}},
            "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "weight": {"default": 1}}},
        }
    })
}

#[test]
fn r21_defaults_are_applied_once_and_accepted_again() {
    let schema = compile(with_defaults()).unwrap();
    let accepted = |text: &str| schema.accept(&"demo".into(), &Given::Text(text)).unwrap();
    let cases = [
        "{}",
        r#"{"limit":3,"page":{"size":2,"sort":{"by":"name","desc":true}}}"#,
        r#"{"other":{},"page":{"sort":{}}}"#,
        r#"{"node":{"next":{"next":{"weight":2}}}}"#,
        r#"{"list":[{}],"choice":{}}"#,
    ];
    let table: Vec<_> = cases.iter().map(|it| format!("{it} -> {}", accepted(it).canonical)).collect();
    insta::assert_snapshot!(table.join("\n"), @r#"
    {} -> {"limit":10,"other":{"size":1,"sort":{"by":"id","desc":false}},"page":{"size":20,"sort":{"by":"id","desc":false}}}
    {"limit":3,"page":{"size":2,"sort":{"by":"name","desc":true}}} -> {"limit":3,"other":{"size":1,"sort":{"by":"id","desc":false}},"page":{"size":2,"sort":{"by":"name","desc":true}}}
    {"other":{},"page":{"sort":{}}} -> {"limit":10,"other":{"size":20,"sort":{"by":"id","desc":false}},"page":{"size":20,"sort":{"desc":false}}}
    {"node":{"next":{"next":{"weight":2}}}} -> {"limit":10,"node":{"next":{"next":{"weight":2},"weight":1},"weight":1},"other":{"size":1,"sort":{"by":"id","desc":false}},"page":{"size":20,"sort":{"by":"id","desc":false}}}
    {"list":[{}],"choice":{}} -> {"choice":{},"limit":10,"list":[{}],"other":{"size":1,"sort":{"by":"id","desc":false}},"page":{"size":20,"sort":{"by":"id","desc":false}}}
    "#);
    for case in cases {
        let first = accepted(case);
        let again = accepted(&first.canonical);
        assert_eq!((&again.value, &again.canonical, &again.hash), (&first.value, &first.canonical, &first.hash));
        // IDM-3: whoever gives the defaults too is the same caller; the hash before them tells a retry of the old form.
        assert_eq!(again.given_hash, first.hash);
    }
    let given = accepted("{}");
    assert_ne!(given.given_hash, given.hash);
    assert_eq!(given.given_hash.as_ref(), canonical::input_hash("demo", "{}"));
}

#[test]
fn defaults_cannot_push_an_input_beyond_the_caps() {
    let schema = compile(with_defaults()).unwrap();
    let deep = |levels: usize| format!("{{\"node\":{}{{}}{}}}", "{\"next\":".repeat(levels), "}".repeat(levels));
    let canonical = schema.accept(&"demo".into(), &Given::Text(&deep(60))).unwrap().canonical;
    assert!(schema.accept(&"demo".into(), &Given::Text(&canonical)).is_ok());
    let long = closed(json!({"a": {"type": "string"}, "b": {"type": "string", "default": "x".repeat(1000)}}));
    let text = json!({"a": "x".repeat(canonical::MAX_BYTES - 500)}).to_string();
    assert_eq!(refusal(&long, &text), "`` size | 422 [\"\"]");
    let wide = closed(json!({"a": {"$ref": "#/$defs/d"}})).as_object().cloned().map(|mut it| {
        it.insert("$defs".into(), json!({"d": {"type": "object", "properties": {"a": {"$ref": "#/$defs/d"}, "z": {"default": {"q": {"r": {}}}}}}}));
        Value::Object(it)
    });
    let text = format!("{}{{}}{}", "{\"a\":".repeat(62), "}".repeat(62));
    assert_eq!(refusal(&wide.unwrap(), &text), "`` depth | 422 [\"\"]");
}

#[test]
fn a_type_that_demands_more_than_its_schema_refuses_the_whole() {
    let mut problems = Vec::new();
    let schema = Arc::new(closed(json!({"a": {"type": "string"}})));
    let schema = Compiler::new().input("demo", &schema, |it| it["a"] != "canary", &mut problems).unwrap();
    let refused = schema.accept(&"demo".into(), &Given::Text(r#"{"a":"canary"}"#)).unwrap_err();
    assert_eq!(refused.outward.iter().map(shown).collect::<Vec<_>>(), ["`` type"]);
    assert!(schema.accept(&"demo".into(), &Given::Text(r#"{"a":"x"}"#)).is_ok());
}

#[test]
fn at_most_64_problems_are_named_and_one_of_a_long_input() {
    let schema = closed(json!({"a": {"type": "array", "items": {"type": "string"}}}));
    let named = |count: usize| {
        let text = json!({"a": vec![1; count]}).to_string();
        accept(&schema, &text).unwrap_err().outward.len()
    };
    assert_eq!([named(3), named(1000), named(50_000)], [3, 64, 1]);
}

#[test]
fn a_recursive_schema_validates_the_deepest_input_on_a_small_stack() {
    let schema = json!({
        "type": "object", "additionalProperties": false,
        "properties": {"n": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "l": {"type": "array", "items": {"$ref": "#"}}}
    });
    let text = format!("{}1{}", r#"{"n":{"l":["#.repeat(21), "]}}".repeat(21));
    let run = move || refusal(&schema, &text).len();
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap();
    assert!(thread.join().unwrap() > 8);
}

#[test]
fn an_output_is_checked_without_saying_what_it_holds() {
    let mut problems = Vec::new();
    let schema = Arc::new(json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}));
    let schema = Compiler::new().output("demo", &schema, &mut problems).unwrap();
    assert_eq!(schema.check(&json!({"id": "x"})), Ok(()));
    assert_eq!(schema.check(&json!({"id": 77})), Err(vec!["`/id`: type".to_owned()]));
    assert_eq!(schema.check(&json!({"canary": 77})), Err(vec!["`/id`: required".to_owned()]));
}

#[test]
fn numbers_in_a_schema_are_compared_by_value() {
    let schema = closed(json!({"a": {"const": 1.0}, "b": {"enum": [2.0]}, "c": {"type": "integer"}}));
    assert_eq!(refusal(&schema, r#"{"a":1,"b":2,"c":3.0}"#), "accepted");
}

static DEFAULTED: LazyLock<InputSchema> = LazyLock::new(|| compile(with_defaults()).unwrap());
static REFUND: LazyLock<InputSchema> = LazyLock::new(|| compile(refund()).unwrap());

proptest! {
    #[test]
    fn what_is_accepted_is_accepted_again_in_canonical_form(
        limit in prop::option::of(-5..5_i64),
        size in prop::option::of("[a-z]{0,3}"),
        depth in 0..5_usize,
        page in any::<bool>(),
    ) {
        let mut input = serde_json::Map::new();
        if let Some(limit) = limit { input.insert("limit".into(), limit.into()); }
        if page { input.insert("page".into(), size.map_or(json!({}), |it| json!({"size": it}))); }
        let node = (0..depth).fold(json!({}), |it, _| json!({"next": it}));
        input.insert("node".into(), node);
        let first = DEFAULTED.accept(&"demo".into(), &Given::Value(&Value::Object(input))).unwrap();
        let again = DEFAULTED.accept(&"demo".into(), &Given::Text(&first.canonical)).unwrap();
        prop_assert_eq!((again.value, again.hash, again.given_hash), (first.value, first.hash.clone(), first.hash));
    }

    #[test]
    fn any_text_is_accepted_or_refused(text in r#"([\[\]{},:"\\0-9e.\-]|null|"orderId"|"items"|"sku"|"address"|\{"orderId":){0,16}"#) {
        if let Err(refused) = REFUND.accept(&"demo".into(), &Given::Text(&text)) {
            prop_assert!(!refused.outward.is_empty());
        }
    }
}

#[test]
#[ignore = "a measurement: run with --release --nocapture"]
#[expect(clippy::disallowed_methods, reason = "measures")]
fn accepting_a_small_input_costs_little_more_than_validating_and_hashing() {
    const ROUNDS: u32 = 100_000;
    let id = CapabilityId::from("orders.refund");
    let text = r#"{"orderId":"ord_42","amountCents":64900,"dry_run":false}"#;
    let value: Value = serde_json::from_str(text).unwrap();
    let measured = |name: &str, run: &dyn Fn()| {
        let start = std::time::Instant::now();
        (0..ROUNDS).for_each(|_| run());
        println!("{name}: {:?}", start.elapsed() / ROUNDS);
    };
    measured("parse", &|| drop(std::hint::black_box(canonical::parse(text))));
    measured("parse, not strictly", &|| drop(std::hint::black_box(serde_json::from_str::<Value>(text))));
    measured("validate", &|| assert!(REFUND.validator.is_valid(&value)));
    measured("canonical text and hash", &|| drop(canonical::input_hash(&id, &canonical::text(&value).unwrap())));
    measured("accept", &|| drop(std::hint::black_box(REFUND.accept(&id, &Given::Text(text)))));
    measured("accept with a default", &|| drop(REFUND.accept(&id, &Given::Text(r#"{"orderId":"ord_42"}"#))));
}
