//! `/metrics`: who may see them, and that they count what happened.

use std::time::Duration;

use countersign::PolicySource;
use countersign::demo::{self, POLICIES};
use countersign::http::{HttpSettings, serve_metrics};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::harness::{TestServer, refund};

/// The demo, with managers who may read metrics.
async fn server() -> TestServer {
    let policies = POLICIES.map(|(name, text)| {
        (
            name.to_owned(),
            text.replace(
                "Countersign::Action::\"read_audit\",",
                "Countersign::Action::\"read_audit\", Countersign::Action::\"read_metrics\",",
            ),
        )
    });
    TestServer::built(demo::builder().policies(PolicySource::Files(policies.to_vec())), |_| {}).await
}

/// The samples whose line begins so, without what depends on the machine's speed.
fn samples(text: &str, beginning: &str) -> Vec<String> {
    text.lines().filter(|it| it.starts_with(beginning)).map(Into::into).collect()
}

#[tokio::test]
async fn executions_are_counted_by_capability_and_outcome_and_unknown_names_are_one() {
    let server = server().await;
    for cents in [1_900, 64_900, 600_000] {
        server.invoke("demo-dana", "orders.refund", &refund(cents)).await;
    }
    for name in ["no.such", "nor.this", "canary.7", "%00"] {
        assert_eq!(server.invoke("demo-dana", name, &json!({})).await.status, 404);
    }
    assert_eq!(server.invoke("", "orders.get", &json!({"orderId": "ord_42"})).await.status, 401);
    let answer = server.get("demo-priya", "/metrics").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/plain; version=0.0.4; charset=utf-8")));
    let text = answer.text();
    insta::assert_snapshot!(samples(&text, "countersign_executions_total").join("\n"), @r#"
    countersign_executions_total{capability="orders.get",code="UNAUTHENTICATED",outcome="failed"} 1
    countersign_executions_total{capability="orders.refund",code="",outcome="completed"} 1
    countersign_executions_total{capability="orders.refund",code="",outcome="approval_required"} 1
    countersign_executions_total{capability="orders.refund",code="POLICY_DENIED",outcome="failed"} 1
    countersign_executions_total{capability="unknown",code="CAPABILITY_NOT_FOUND",outcome="failed"} 4
    "#);
    assert_eq!(
        samples(&text, "countersign_approvals_pending{"),
        ["countersign_approvals_pending{capability=\"orders.refund\"} 1"]
    );
    assert!(!text.contains("canary"), "names of capabilities come from the registry");
    let again = server.get("demo-priya", "/metrics").await.text();
    assert_eq!(samples(&again, "countersign_executions_total"), samples(&text, "countersign_executions_total"));
}

#[tokio::test]
async fn the_rest_is_there_too() {
    let server = server().await;
    server.ask().await;
    server.app.clock().advance(Duration::from_secs(90));
    assert_eq!(server.get("demo-nobody", "/v1/approvals").await.status, 401);
    assert_eq!(server.get("demo-dana", "/v1/none/of/these").await.status, 404);
    let text = server.get("demo-priya", "/metrics").await.text();
    let described: Vec<_> = text.lines().filter(|it| it.starts_with("# TYPE")).collect();
    insta::assert_snapshot!(described.join("\n"), @r"
    # TYPE countersign_executions_total counter
    # TYPE countersign_execution_duration_seconds histogram
    # TYPE countersign_executions_running gauge
    # TYPE countersign_stage_duration_seconds histogram
    # TYPE countersign_approvals_pending gauge
    # TYPE countersign_approvals_oldest_pending_seconds gauge
    # TYPE countersign_executions_unknown gauge
    # TYPE countersign_store_readable gauge
    # TYPE countersign_store_queue_depth gauge
    # TYPE countersign_audit_lag_seconds gauge
    # TYPE countersign_log_events gauge
    # TYPE countersign_log_tree_events gauge
    # TYPE countersign_log_signed_events gauge
    # TYPE countersign_log_refused gauge
    # TYPE countersign_log_anchors_failing gauge
    # TYPE countersign_worker_requests_total counter
    # TYPE countersign_notifications_total counter
    # TYPE countersign_notifications_outbox gauge
    # TYPE countersign_auth_failures_total counter
    # TYPE countersign_issuer_keys gauge
    # TYPE countersign_issuer_keys_in_trouble gauge
    # TYPE countersign_http_requests_total counter
    # TYPE countersign_http_streams gauge
    ");
    // docs/metrics.md has them all, in this order, with what kind they are.
    let page = include_str!("../../docs/metrics.md");
    let rows = page.lines().filter_map(|it| it.strip_prefix("| `countersign_")).map(|it| it.split(" | "));
    let rows: Vec<_> = rows
        .map(|mut it| format!("# TYPE countersign_{} {}", it.next().unwrap().trim_end_matches('`'), it.next().unwrap()))
        .collect();
    assert_eq!(described, rows);
    for sample in [
        "countersign_approvals_oldest_pending_seconds 90.0",
        "countersign_store_readable 1.0",
        "countersign_audit_lag_seconds 0.0",
        "countersign_http_streams 0.0",
        "countersign_auth_failures_total{reason=\"unknown_token\"} 1",
        "countersign_http_requests_total{method=\"GET\",route=\"/v1/approvals\",status=\"401\"} 1",
        "countersign_http_requests_total{method=\"GET\",route=\"none\",status=\"404\"} 1",
        "countersign_http_requests_total{method=\"POST\",route=\"/v1/capabilities/{id}/invoke\",status=\"202\"} 1",
        "countersign_execution_duration_seconds_count{capability=\"orders.refund\"} 1",
        "countersign_stage_duration_seconds_count{stage=\"policy\"} 1",
    ] {
        assert!(text.lines().any(|it| it == sample), "{sample} in\n{text}");
    }
}

#[tokio::test]
async fn metrics_are_for_whom_policy_lets_and_need_no_store_to_be_told() {
    let server = server().await;
    for (who, status, code) in [("demo-dana", 403, "POLICY_DENIED"), ("", 401, "UNAUTHENTICATED")] {
        let answer = server.get(who, "/metrics").await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code));
    }
    // On a listener of its own it is for whoever reaches it.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let gateway = server.app.gateway();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let alone = tokio::spawn(async move {
        let stop = async { drop(stopped.await) };
        serve_metrics(gateway, &HttpSettings::default(), listener, stop).await;
    });
    let ask = async |path: &str, host: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    };
    let text = ask("/metrics", &address.to_string()).await;
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("countersign_store_readable 1.0"), "{text}");
    assert!(ask("/metrics", "evil.example").await.starts_with("HTTP/1.1 403"), "no page reads them");
    assert!(ask("/v1/capabilities", &address.to_string()).await.starts_with("HTTP/1.1 404"), "metrics alone");
    drop(stop);
    alone.await.unwrap();
}
