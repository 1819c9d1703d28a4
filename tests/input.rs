//! Stage 6 through whole calls: parsing, normalising, validating, hashing.

use std::net::TcpListener;
use std::time::Duration;

use countersign::{Engine, EngineBuilder, HandlerError, Invocation, JsonInput, SideEffect};
use serde_json::{Value, json};

use crate::shop::{ALLOW_ALL, App, Shop, asked, cast, code, draft, json_of, refund, texts};

async fn echo(_: Invocation<Shop>, input: Value) -> Result<Value, HandlerError> {
    Ok(input)
}

/// A shop with one read of this input schema, that answers with its input.
pub(crate) fn taking(schema: Value) -> EngineBuilder<Shop> {
    Engine::builder()
        .capability(draft("input.echo", SideEffect::Read).json_handler(schema, json!({}), echo))
        .policies(texts(ALLOW_ALL))
}

async fn problems(app: &App, input: impl Into<JsonInput>) -> Value {
    let outcome = app.dana().invoke("input.echo", input).await;
    assert_eq!(code(&outcome), "INPUT_INVALID", "{outcome:?}");
    json_of(&outcome)["error"]["details"].clone()
}

#[tokio::test]
async fn r9_a_misspelled_member_is_no_silent_default() {
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["orderId"], "properties": {
        "orderId": {"type": "string"}, "dry_run": {"type": "boolean", "default": true}}});
    let app = App::with(taking(schema)).await;
    let details = problems(&app, json!({"orderId": "ord_1", "dryrun": false})).await;
    insta::assert_json_snapshot!(details, @r#"
    [
      {
        "path": "/dryrun",
        "keyword": "additionalProperties",
        "nearest": "dry_run"
      }
    ]
    "#);
    assert_eq!(app.runs(), 0);
    assert_eq!(app.approvals(cast("priya")).list(None).await.unwrap(), []);
    assert_eq!(json_of(&app.dana().invoke("input.echo", json!({"orderId": "o"})).await)["output"]["dry_run"], true);
}

#[tokio::test]
async fn r10_a_repeated_member_is_an_error_with_its_path() {
    let app = App::new().await;
    for (text, path) in [
        (r#"{"amountCents":100,"amountCents":999999,"orderId":"o"}"#, ""),
        (r#"{"amountCents":100,"amount\u0043ents":999999,"orderId":"o"}"#, ""),
        (r#"{"amountCents":1,"orderId":"o","orderId":"o"}"#, ""),
    ] {
        let outcome = app.dana().invoke("orders.refund", JsonInput::text(text)).await;
        let details = json_of(&outcome)["error"]["details"].clone();
        assert_eq!(code(&outcome), "INPUT_INVALID");
        assert_eq!(details[0]["keyword"], "duplicate member", "{text}: {details}");
        assert!(details[0]["path"].as_str().unwrap().starts_with(path), "{text}: {details}");
    }
    let nested = json!({"type": "object", "additionalProperties": false, "properties": {"list": {"type": "array", "items":
        {"type": "object", "properties": {"a": {"type": "integer"}}}}}});
    let app = App::with(taking(nested)).await;
    insta::assert_json_snapshot!(problems(&app, JsonInput::text(r#"{"list":[{"a":1},{"a":1,"a":2}]}"#)).await, @r#"
    [
      {
        "path": "/list/1/a",
        "keyword": "duplicate member"
      }
    ]
    "#);
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn r12_formats_are_asserted() {
    for (format, bad, good) in [
        ("date-time", "not a date", "2026-01-01T00:00:00Z"),
        ("email", "nope", "lee@example.test"),
        ("uuid", "x", "01234567-89ab-7def-8123-456789abcdef"),
        ("uri", "javascript alert(1)", "https://example.test/a"),
        ("ipv4", "999.1.1.1", "192.0.2.1"),
    ] {
        let schema = json!({"type": "object", "additionalProperties": false,
            "properties": {"it": {"type": "string", "format": format}}});
        let app = App::with(taking(schema)).await;
        let details = problems(&app, json!({"it": bad})).await;
        assert_eq!(details, json!([{"path": "/it", "keyword": "format"}]), "{format}");
        assert_eq!(code(&app.dana().invoke("input.echo", json!({"it": good})).await), "-", "{format}");
    }
}

#[tokio::test]
async fn r13_a_remote_reference_is_a_registration_error_and_nothing_is_fetched() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/schema.json", listener.local_addr().unwrap());
    let file = std::env::current_dir().unwrap().join("Cargo.toml");
    let with = |member: &str, value: String| json!({"type": "object", "additionalProperties": false, member: value, "properties": {"a": {"type": "string"}}});
    let bad = [
        ("a.remote", with("$ref", url.clone())),
        ("b.file", with("$ref", format!("file://{}", file.display()))),
        ("c.dialect", with("$schema", url.clone())),
        (
            "d.nested",
            json!({"type": "object", "additionalProperties": false, "properties": {"a": {"$dynamicRef": url}}}),
        ),
    ];
    let mut builder = taking(json!({"type": "object", "additionalProperties": false}));
    for (id, schema) in bad {
        builder = builder.capability(draft(id, SideEffect::Read).json_handler(schema, json!({}), echo));
    }
    let place = countersign::testing::Place::new().unwrap();
    let error = builder.database(format!("sqlite:{}", place.database().display())).build().await.err().unwrap();
    let at: Vec<_> = error.problems.iter().map(|it| &*it.at).collect();
    assert_eq!(at, ["a.remote", "b.file", "c.dialect", "d.nested"], "{error}");
    std::thread::sleep(Duration::from_millis(50));
    assert!(listener.accept().is_err(), "somebody asked for the schema");
}

#[tokio::test]
async fn r21_invalid_and_gated_is_invalid_and_nothing_is_filed() {
    let app = App::new().await;
    let outcome = app.dana().invoke("orders.refund", json!({"orderId": "o", "amountCents": "120000"})).await;
    insta::assert_json_snapshot!(outcome, @r#"
    {
      "status": "failed",
      "executionId": "exe-1",
      "error": {
        "code": "INPUT_INVALID",
        "message": "The input is not valid.",
        "retryable": false,
        "details": [
          {
            "path": "/amountCents",
            "keyword": "type"
          }
        ]
      }
    }
    "#);
    assert_eq!(app.approvals(cast("priya")).list(None).await.unwrap(), []);
}

#[tokio::test]
async fn r21_a_default_is_stored_once_and_runs_once() {
    let gated = format!(
        "{ALLOW_ALL}\n{}",
        r#"
        @id("people") permit (principal in Role::"manager", action == Countersign::Action::"approve", resource);
        @id("gate") @approval("manager") forbid (principal, action == Action::"input.echo", resource);"#
    );
    let schema = json!({"type": "object", "additionalProperties": false, "properties": {
        "note": {"type": "string", "default": "none"}, "n": {"type": "integer"}}});
    let app = App::with(taking(schema).policies(texts(&gated))).await;
    let outcome = app.dana().invoke("input.echo", JsonInput::text(r#"{"n": 1e0}"#)).await;
    let id = asked(&outcome);
    let view = app.approvals(cast("priya")).show(&id).await.unwrap();
    assert_eq!(view.input, Some(json!({"n": 1, "note": "none"})));
    app.approvals(cast("priya")).approve(&id, "manager").await.unwrap();
    assert_eq!(json_of(&app.dana().resume(&id).await)["output"], json!({"n": 1, "note": "none"}));
    assert_eq!(code(&app.dana().resume(&id).await), "APPROVAL_CONSUMED");
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn r37_no_answer_log_or_event_repeats_a_value() {
    crate::logs::watch_logs();
    let canary = "canary-77";
    for rule in [
        json!({"type": "string", "pattern": "^[0-9]+$"}),
        json!({"type": "string", "maxLength": 3}),
        json!({"enum": ["a", "b"]}),
        json!({"const": "a"}),
        json!({"type": "integer"}),
    ] {
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {"apiKey": rule}});
        let app = App::with(taking(schema)).await;
        for input in [json!({"apiKey": canary}), json!({"apiKey": {"x": canary}}), json!({canary: canary})] {
            let outcome = app.dana().invoke("input.echo", input).await;
            assert_eq!(code(&outcome), "INPUT_INVALID");
            assert!(!json_of(&outcome).to_string().contains(canary), "{outcome:?}");
        }
        assert!(!serde_json::to_string(&app.trail().await).unwrap().contains(canary));
    }
    assert_eq!(crate::logs::logged(canary), Vec::<String>::new());
}

#[tokio::test]
async fn what_no_parser_should_let_through_is_invalid() {
    let app = App::new().await;
    let list = r#"{"query":[1]}"#;
    let nested = format!("{}{}", "[".repeat(65), "]".repeat(65));
    for (text, what) in [
        ("", "nothing"),
        ("{", "cut off"),
        ("{} {}", "two values"),
        ("{\"query\": 'x'}", "other quotes"),
        (r#"{"query": "\ud800"}"#, "a lone surrogate"),
        ("{\"query\": \"a\\u0000b\"}", "NUL"),
        (r#"{"query": "x", "limit": 1e999}"#, "beyond f64"),
        (r#"{"query": "x", "limit": 9007199254740993}"#, "beyond safe integers"),
        (r#"{"query": "x", "limit": 1.5}"#, "a fraction"),
        (r#"{"query": "x", "limit": "1"}"#, "text for a number"),
        (r#"{"query": null}"#, "null for text"),
        ("null", "no object"),
        (list, "another type"),
        (&nested, "too deep"),
    ] {
        let outcome = app.dana().invoke("orders.search", JsonInput::text(text)).await;
        assert_eq!(code(&outcome), "INPUT_INVALID", "{what}");
    }
    let large = format!(r#"{{"query": "{}"}}"#, "x".repeat(1 << 20));
    assert_eq!(code(&app.dana().invoke("orders.search", JsonInput::text(large)).await), "INPUT_INVALID");
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn an_invalid_call_from_whom_policy_refuses_anyway_is_told_that() {
    let app = App::new().await;
    let stranger = app.caller("stranger").invoke("orders.refund", json!({"nonsense": true})).await;
    insta::assert_json_snapshot!(stranger, @r#"
    {
      "status": "failed",
      "executionId": "exe-1",
      "error": {
        "code": "POLICY_DENIED",
        "message": "No policy permits this call.",
        "retryable": false,
        "details": []
      }
    }
    "#);
    let bad_key = app.caller("stranger").invoke("orders.refund", refund("o", 1)).idempotency_key("").await;
    assert_eq!(code(&bad_key), "POLICY_DENIED");
}
