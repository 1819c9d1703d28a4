//! Procedures behind HTTP: what is sent, and what every kind of answer, and of none, comes to.

use std::fmt::Write as _;
use std::time::Duration;

use countersign::manifest::ManifestSettings;
use countersign::{Actor, Identity};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpSocket};

use super::peer::{Peer, Reply, Seen};
use super::{Files, NEXT_SECRET, SECRET, dana, fate, invoke, manifest};

const JSON: &str = "application/json";

fn handler(url: &str) -> String {
    format!("kind = \"http\"\nurl = \"{url}\"\nsign = {{ env = \"SIGNING_KEY\" }}")
}

/// A write and a read behind one origin.
fn both(origin: &str) -> Files {
    let handler = handler(&format!("{origin}/run"));
    Files::of(&[
        ("change.toml", manifest("things.change", "write", &handler)),
        ("look.toml", manifest("things.look", "read", &handler)),
    ])
}

fn at(origin: &str) -> ManifestSettings {
    ManifestSettings::default().endpoints([origin])
}

#[tokio::test]
async fn a_call_is_one_signed_post_with_the_input_and_who_asked() {
    let mut peer =
        Peer::new(&[Reply::Answer("200 OK", JSON, r#"{"status":"completed","output":{"done":true}}"#)]).await;
    let text = handler(&format!("{}/run?v=2", peer.origin));
    let extra =
        "bearer = { env = \"API_TOKEN\" }\nheaders = { X-Region = \"eu\", X-Api-Key = { env = \"API_TOKEN\" } }";
    let files = Files::of(&[("a.toml", manifest("things.change", "write", &format!("{text}\n{extra}")))]);
    let app = files.app(&at(&peer.origin)).await;
    let who = Identity::new(Actor::user("dana").role("support")).client("desk-bot");
    let call = app.on_behalf_of(who).invoke("things.change", json!({"n": 1.0, "\u{e4}": "x"}));
    let outcome = call.idempotency_key("k1").correlation_id("c-7").await;
    assert_eq!(fate(&app, &outcome).await, r#"completed {"done":true}"#);

    let call = peer.call().await;
    assert_eq!(call.head.lines().next(), Some("POST /run?v=2 HTTP/1.1"));
    let signed = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(|it| call.header(it).unwrap());
    let id = format!("{}-1", outcome.execution_id());
    let theirs = standardwebhooks::Webhook::new(SECRET).unwrap();
    let expected = theirs.sign(&id, signed[1].parse().unwrap(), &call.body).unwrap();
    assert_eq!([signed[0], signed[2]], [&*id, &*expected]);

    let mut body = call.json();
    let told = body["invocation"].as_object_mut().unwrap();
    let deadline = std::mem::replace(&mut told["deadline"], "[time]".into());
    assert!(serde_json::from_value::<countersign::Timestamp>(deadline.clone()).is_ok(), "{deadline}");
    let key = std::mem::replace(&mut told["idempotencyKey"], "[key]".into());
    assert_eq!(key.as_str(), call.header("idempotency-key"));
    assert_ne!(key, "k1", "the caller's own key may be another's too");
    insta::assert_json_snapshot!(body, @r#"
    {
      "input": {
        "n": 1,
        "ä": "x"
      },
      "invocation": {
        "executionId": "exe-1",
        "capabilityId": "things.change",
        "surface": "direct",
        "tenant": "default",
        "actor": {
          "id": "dana",
          "kind": "user",
          "roles": [
            "support"
          ],
          "scopes": [],
          "attributes": {}
        },
        "client": "desk-bot",
        "correlationId": "c-7",
        "idempotencyKey": "[key]",
        "attempt": 1,
        "fence": 1,
        "deadline": "[time]"
      }
    }
    "#);
    let rest = ["content-type", "authorization", "x-region", "x-api-key"].map(|it| call.header(it).unwrap());
    assert_eq!(rest, [JSON, "Bearer canary-mf-token", "eu", "canary-mf-token"]);
    assert_eq!(call.header("transfer-encoding"), None);
}

#[tokio::test]
async fn while_a_secret_takes_the_place_of_another_calls_are_signed_with_both() {
    let mut peer = Peer::new(&[Reply::Answer("200 OK", JSON, r#"{"status":"completed","output":1}"#)]).await;
    let one = handler(&format!("{}/run", peer.origin));
    let two =
        one.replace("sign = { env = \"SIGNING_KEY\" }", "sign = [{ env = \"NEXT_KEY\" }, { env = \"SIGNING_KEY\" }]");
    let app = Files::of(&[("a.toml", manifest("things.change", "write", &two))]).app(&at(&peer.origin)).await;
    assert_eq!(fate(&app, &invoke(&app, "things.change", json!({})).await).await, "completed 1");
    let call = peer.call().await;
    let [id, seconds, signatures] =
        ["webhook-id", "webhook-timestamp", "webhook-signature"].map(|it| call.header(it).unwrap());
    let by = [NEXT_SECRET, SECRET]
        .map(|it| standardwebhooks::Webhook::new(it).unwrap().sign(id, seconds.parse().unwrap(), &call.body).unwrap());
    assert_eq!(signatures, by.join(" "));
}

#[test]
fn each_secret_of_a_list_is_checked_where_it_stands() {
    let mut told = String::new();
    for list in [
        "[]",
        "[{ env = \"SIGNING_KEY\" }, \"whsec_canary\", { env = \"SHORT_KEY\" }, { env = \"NOT_SET\" }]",
        "[{ env = \"A\" }, { env = \"B\" }, { env = \"C\" }, { env = \"D\" }, { env = \"E\" }]",
    ] {
        let text = handler("https://app.example/run").replace("{ env = \"SIGNING_KEY\" }", list);
        let files = Files::of(&[("a.toml", manifest("things.change", "write", &text))]);
        told = told + &files.problems(&at("https://app.example")) + "\n";
    }
    assert!(!told.contains("canary"), "{told}");
    insta::assert_snapshot!(told, @r#"
    a.toml:15: `handler.sign`: it does not list 1 to 4 secrets; name one, and another while one takes the place of the other
    a.toml:15: `handler.sign`: a secret is never written into a manifest; say where the secret is: `{ env = "NAME" }` or `{ file = "PATH" }`
    a.toml:15: `handler.sign`: the secret is not 24 to 64 bytes in Base64; make one with `echo whsec_$(openssl rand -base64 32)`
    a.toml:15: `handler.sign`: the environment variable `NOT_SET` is not set, or empty; put the secret there
    a.toml:15: `handler.sign`: it does not list 1 to 4 secrets; name one, and another while one takes the place of the other
    "#);
}

/// Every answer and every end without one, of a write and of a read.
const ENDS: [(&str, Reply); 30] = [
    ("completed", Reply::Answer("200 OK", JSON, r#"{"status":"completed","output":[1]}"#)),
    (
        "completed, with a charset",
        Reply::Answer("201 Created", "Application/JSON; charset=utf-8", r#"{"status":"completed","output":1}"#),
    ),
    ("declared", Reply::Answer("200 OK", JSON, r#"{"status":"failed","code":"TOO_LATE"}"#)),
    ("declared, by status too", Reply::Answer("422 No", JSON, r#"{"status":"failed","code":"TOO_LATE"}"#)),
    ("undeclared", Reply::Answer("422 No", JSON, r#"{"status":"failed","code":"OTHER"}"#)),
    ("forbidden", Reply::Answer("403 No", JSON, r#"{"status":"forbidden"}"#)),
    ("unauthenticated", Reply::Answer("401 No", JSON, r#"{"status":"unauthenticated"}"#)),
    ("nothing happened", Reply::Answer("200 OK", JSON, r#"{"status":"not_executed"}"#)),
    ("nothing happened, 409", Reply::Answer("409 No", JSON, r#"{"status":"not_executed"}"#)),
    ("nothing happened, 503", Reply::Answer("503 No", JSON, r#"{"status":"not_executed"}"#)),
    ("nothing happened, as text", Reply::Answer("503 No", "text/plain", r#"{"status":"not_executed"}"#)),
    ("nothing happened, redirecting", Reply::Answer("307 Go", JSON, r#"{"status":"not_executed"}"#)),
    ("nothing happened, and more", Reply::Answer("503 No", JSON, r#"{"status":"not_executed","because":"x"}"#)),
    ("completed, by error status", Reply::Answer("500 No", JSON, r#"{"status":"completed","output":1}"#)),
    ("400", Reply::Answer("400 No", "text/html", "<h1>no</h1>")),
    ("404", Reply::Answer("404 No", JSON, r#"{"error":"no such route"}"#)),
    ("429", Reply::Answer("429 No", JSON, "{}")),
    ("503", Reply::Answer("503 No", "text/plain", "upstream connect error")),
    ("204", Reply::Bytes("HTTP/1.1 204 No Content\r\n\r\n")),
    (
        "a redirect to another place",
        Reply::Bytes("HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"),
    ),
    ("an empty answer", Reply::Answer("200 OK", JSON, "")),
    ("garbage", Reply::Answer("200 OK", JSON, "done!")),
    ("a repeated member", Reply::Answer("200 OK", JSON, r#"{"status":"completed","output":1,"output":2}"#)),
    (
        "an answer cut short",
        Reply::Bytes(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{\"status\":\"not_executed\"}",
        ),
    ),
    ("no HTTP", Reply::Bytes("SSH-2.0-x\r\n")),
    ("the end at once", Reply::Bytes("")),
    ("a reset after reading", Reply::Reset),
    ("a reset while reading", Reply::ResetEarly),
    ("an answer without an end", Reply::Flood),
    ("a second call", Reply::Answer("200 OK", JSON, r#"{"status":"completed","output":"ok"}"#)),
];

#[tokio::test]
async fn only_an_explicit_statement_says_that_nothing_happened() {
    let mut rows = String::new();
    for (name, reply) in &ENDS {
        let peer = Peer::new(std::slice::from_ref(reply)).await;
        let app = both(&peer.origin).app(&at(&peer.origin)).await;
        let [change, look] = ["things.change", "things.look"].map(|it| invoke(&app, it, json!({})));
        let (change, look) = (change.await, look.await);
        let _ = writeln!(rows, "{name:29} {:60} {}", fate(&app, &change).await, fate(&app, &look).await);
    }
    insta::assert_snapshot!(rows, @r#"
    completed                     completed [1]                                                completed [1]
    completed, with a charset     completed 1                                                  completed 1
    declared                      EXECUTION_FAILED (It is too late.), executed unknown: failed EXECUTION_FAILED (It is too late.), executed no: failed
    declared, by status too       EXECUTION_FAILED (It is too late.), executed unknown: failed EXECUTION_FAILED (It is too late.), executed no: failed
    undeclared                    EXECUTION_FAILED, executed unknown: failed                   EXECUTION_FAILED, executed no: failed
    forbidden                     FORBIDDEN, executed unknown: failed                          FORBIDDEN, executed no: failed
    unauthenticated               UNAUTHENTICATED, executed unknown: failed                    UNAUTHENTICATED, executed no: failed
    nothing happened              EXECUTION_FAILED, retryable, executed no: not_executed       EXECUTION_FAILED, retryable, executed no: failed
    nothing happened, 409         EXECUTION_FAILED, retryable, executed no: not_executed       EXECUTION_FAILED, retryable, executed no: failed
    nothing happened, 503         EXECUTION_FAILED, retryable, executed no: not_executed       EXECUTION_FAILED, retryable, executed no: failed
    nothing happened, as text     EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    nothing happened, redirecting EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    nothing happened, and more    EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    completed, by error status    EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    400                           EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    404                           EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    429                           EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    503                           EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    204                           EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    a redirect to another place   EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    an empty answer               EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    garbage                       EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    a repeated member             EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    an answer cut short           EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    no HTTP                       EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    the end at once               EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    a reset after reading         EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    a reset while reading         EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    an answer without an end      EXECUTION_FAILED, executed unknown: unknown                  EXECUTION_FAILED, executed no: failed
    a second call                 completed "ok"                                               completed "ok"
    "#);
}

#[tokio::test]
async fn a_connection_never_made_is_a_write_that_did_not_happen() {
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap(); // so that nobody else listens there meanwhile
    let gone = format!("http://{}", closed.local_addr().unwrap());
    let no_tls = Peer::new(&[Reply::ResetEarly]).await.origin.replace("http:", "https:");
    for origin in [gone, no_tls] {
        let app = both(&origin).app(&at(&origin)).await;
        let outcome = invoke(&app, "things.change", json!({})).await;
        assert_eq!(fate(&app, &outcome).await, "EXECUTION_FAILED, retryable, executed no: not_executed", "{origin}");
    }
}

#[tokio::test]
async fn at_the_deadline_the_connection_is_closed_and_a_write_is_unknown() {
    for reply in [&[Reply::Nothing], &[Reply::Trickle]] {
        for (capability, expected) in [
            ("things.change", "TIMEOUT, executed unknown: unknown"),
            ("things.look", "TIMEOUT, retryable, executed no: cancelled"),
        ] {
            let mut peer = Peer::new(reply).await;
            let app = both(&peer.origin).app(&at(&peer.origin)).await;
            let running = app.on_behalf_of(dana()).invoke(capability, json!({})).start();
            peer.call().await;
            app.clock().advance(Duration::from_secs(20));
            assert_eq!(fate(&app, &running.await).await, expected);
            assert!(matches!(peer.next().await, Seen::Closed), "{reply:?}");
        }
    }
}

#[tokio::test]
async fn cancelled_before_anything_was_sent_a_write_did_not_happen() {
    // It takes the connection, and never speaks TLS: the call is not sent before the two have agreed.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("https://{}", listener.local_addr().unwrap());
    let app = both(&origin).app(&at(&origin)).await;
    let running = app.on_behalf_of(dana()).invoke("things.change", json!({})).start();
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.read_exact(&mut [0; 5]).await.unwrap();
    running.cancel();
    assert_eq!(fate(&app, &running.await).await, "CANCELLED, executed no: not_executed");
}

#[tokio::test]
async fn an_attempt_more_has_the_same_key_and_another_signature() {
    let mut peer = Peer::new(&[
        Reply::Answer("503 No", JSON, r#"{"status":"not_executed"}"#),
        Reply::Answer("200 OK", JSON, r#"{"status":"completed","output":{}}"#),
    ])
    .await;
    let text = manifest("things.change", "write", &handler(&peer.origin));
    let text = text.replace("risk =", "idempotent = true\nretry = { max_attempts = 1 }\nrisk =");
    let app = Files::of(&[("a.toml", text)]).app(&at(&peer.origin)).await;
    let running = app.on_behalf_of(dana()).invoke("things.change", json!({})).start();
    let first = peer.call().await;
    let second = tokio::select! {
        second = peer.call() => second,
        () = async { loop {
            app.clock().advance(Duration::from_millis(50));
            tokio::time::sleep(Duration::from_millis(5)).await;
        } } => unreachable!(),
    };
    let outcome = running.await;
    assert_eq!(fate(&app, &outcome).await, "completed {}");
    let ids = [&first, &second].map(|it| it.header("webhook-id").unwrap().to_owned());
    assert_eq!(ids, [1, 2].map(|attempt| format!("{}-{attempt}", outcome.execution_id())));
    let attempts = [&first, &second].map(|it| it.json()["invocation"]["attempt"].clone());
    assert_eq!(attempts, [json!(1), json!(2)]);
    assert_eq!(first.header("idempotency-key"), second.header("idempotency-key"));
    assert_ne!(first.header("webhook-signature"), second.header("webhook-signature"));
}

#[tokio::test]
async fn the_applications_own_call_has_no_invocation() {
    let mut peer = Peer::new(&[Reply::Answer("200 OK", JSON, r#"{"status":"completed","output":7}"#)]).await;
    let app = both(&peer.origin).app(&at(&peer.origin)).await;
    let output = app.engine().run_ungoverned("things.look", (), json!({"a": 1})).await.unwrap();
    let call = peer.call().await;
    assert_eq!((output, call.json()), (json!(7), json!({"input": {"a": 1}})));
    assert!(call.header("webhook-id").unwrap().starts_with("ungoverned-"));
    assert_eq!(call.header("idempotency-key"), None);
}

#[tokio::test]
async fn an_output_is_checked_and_redacted_like_any_other() {
    let peer =
        Peer::new(&[Reply::Answer("200 OK", JSON, r#"{"status":"completed","output":{"id":"a","pin":"1234"}}"#)]).await;
    let schema = r#"output_schema = { type = "object", required = ["id"], properties = { id = { type = "string" }, pin = { type = "string" } } }"#;
    let text = manifest("things.look", "read", &handler(&peer.origin));
    let right = text.replace("output_schema = {}", &format!("{schema}\nredact = {{ output = [\"/pin\"] }}"));
    let wrong = text.replace("output_schema = {}", r#"output_schema = { type = "string" }"#);
    let app = Files::of(&[("a.toml", right), ("b.toml", wrong.replace("things.look", "things.list"))]);
    let app = app.app(&at(&peer.origin)).await;
    let seen = fate(&app, &invoke(&app, "things.look", json!({})).await).await;
    assert!(seen.contains(r#""id":"a""#) && !seen.contains("1234"), "{seen}");
    let seen = fate(&app, &invoke(&app, "things.list", json!({})).await).await;
    assert_eq!(seen, "OUTPUT_INVALID, executed yes: failed");
}
