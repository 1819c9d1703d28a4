//! The trace that a caller names reaches the procedure: as it is, or as the span of the attempt where spans are exported.

use countersign::Surface;
use countersign::manifest::ManifestSettings;
use serde_json::json;

use super::peer::{Peer, Reply};
use super::{Files, dana, guarded, manifest};
use crate::http::harness::{Request, TestServer, auth, token};
#[cfg(feature = "otel")]
use crate::telemetry::Spans;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// What a procedure is told when a caller sends this.
async fn told(handler: &str, settings: &ManifestSettings, parent: Option<&str>) -> serde_json::Value {
    let text = manifest("things.change", "write", handler).replace("\"direct\"", "\"http\"");
    let files = Files::of(&[("a.toml", text)]); // where commands run
    let app = files.app(settings).await;
    let gateway = app.gateway();
    let tokens = vec![token("dana-token", &dana(), "default", None, true)];
    let server = TestServer::over(app, gateway, auth(tokens).await, Surface::Http, |_| {}).await;
    let mut request = Request::new("POST", "/v1/capabilities/things.change/invoke").as_who("dana-token");
    if let Some(parent) = parent {
        request = request.header("traceparent", parent);
    }
    server.send(&request.json(&json!({"input": {}}))).await.json()["output"].clone()
}

/// A command that says which trace it was told of.
const COMMAND: &str = r#"kind = "command"
program = "/bin/bash"
args = ['-c', '''printf '{"status":"completed","output":"%s"}' "${TRACEPARENT-none}"''']"#;

/// The header that an endpoint gets.
async fn header(parent: Option<&str>) -> Option<String> {
    let mut peer =
        Peer::new(&[Reply::Answer("200 OK", "application/json", r#"{"status":"completed","output":1}"#)]).await;
    let handler = format!("kind = \"http\"\nurl = \"{}/run\"\nsign = {{ env = \"SIGNING_KEY\" }}", peer.origin);
    assert_eq!(told(&handler, &ManifestSettings::default().endpoints([&peer.origin]), parent).await, 1);
    peer.call().await.header("traceparent").map(Into::into)
}

#[tokio::test]
async fn without_spans_a_trace_is_passed_on_as_it_came() {
    let parent = format!("00-{TRACE}-{PARENT}-01");
    assert_eq!(told(COMMAND, &guarded(), Some(&parent)).await, json!(parent));
    assert_eq!(header(Some(&parent)).await.as_ref(), Some(&parent));
    let endless = format!("{parent}{}", "-x".repeat(5_000));
    let later = endless.replacen("00", "cc", 1);
    assert_eq!(header(Some(&later)).await, Some(parent), "what is known of a later version");
    for none in [None, Some("00-what-is-this-01"), Some(&*endless)] {
        assert_eq!(told(COMMAND, &guarded(), none).await, "none");
        assert_eq!(header(none).await, None);
    }
}

#[cfg(feature = "otel")]
#[tokio::test]
async fn where_spans_are_exported_the_attempt_is_the_parent() {
    let (spans, guard) = Spans::collect();
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let command = told(COMMAND, &guarded(), Some(&parent)).await.as_str().map(String::from);
    let endpoint = header(Some(&parent)).await;
    drop(guard);
    let all = spans.all();
    for told in [command.unwrap(), endpoint.unwrap()] {
        let attempt = all.iter().find(|it| told == format!("00-{TRACE}-{}-01", it.span_context.span_id()));
        let attempt = attempt.unwrap_or_else(|| panic!("{told} is no span of {all:#?}"));
        assert!(attempt.attributes.iter().any(|it| it.key.as_str() == "countersign.attempt"), "{attempt:#?}");
    }
}
