//! What every request meets before anybody looks at what it asks for.

use serde_json::json;

use super::harness::{Request, TestServer, refund};
use crate::logs::{logged, watch_logs};

/// A route that acts, and one that decides.
fn acting() -> [Request; 2] {
    [
        Request::new("POST", "/v1/capabilities/orders.refund/invoke")
            .as_who("demo-dana")
            .json(&json!({"input": refund(100)})),
        Request::new("POST", "/v1/approvals/apr-1/decision").as_who("demo-priya").json(&json!({"decision": "approve"})),
    ]
}

#[tokio::test]
async fn r5_foreign_hosts_and_pages_are_refused_before_the_body() {
    let server = TestServer::new().await;
    server.ask().await;
    for request in acting() {
        for (name, value, code) in [
            ("Host", "evil.example", "HOST_REFUSED"),
            ("Host", "localhost.evil.example", "HOST_REFUSED"),
            ("Origin", "http://evil.example", "ORIGIN_REFUSED"),
            ("Origin", "http://localhost.evil.example", "ORIGIN_REFUSED"),
            ("Origin", "null", "ORIGIN_REFUSED"),
        ] {
            // Of the body only its length arrives: whoever is answered was not waited for.
            let request = request.clone().header(name, value).header("Content-Length", "1000").body(b"");
            let answer = server.send(&request).await;
            assert_eq!((answer.status, answer.code()), (403, code.into()), "{name}: {value}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
    assert_eq!(server.app.trail_of("exe-2").await.entries().len(), 0);
    for request in acting() {
        assert_eq!(server.send(&request.clone().header("Host", "localhost")).await.status, 200);
    }
}

#[tokio::test]
async fn every_route_is_guarded_and_probes_are_addressed_to_any_address() {
    let server = TestServer::new().await;
    for path in ["/v1/capabilities", "/v1/approvals", "/v1/executions/exe-1", "/healthz", "/readyz", "/nowhere"] {
        let refused = server.send(&Request::new("GET", path).header("Host", "evil.example")).await;
        assert_eq!((refused.status, refused.code()), (403, "HOST_REFUSED".into()), "{path}");
        let refused = server.send(&Request::new("GET", path).header("Origin", "https://evil.example")).await;
        assert_eq!((refused.status, refused.code()), (403, "ORIGIN_REFUSED".into()), "{path}");
    }
    assert_eq!(server.send(&Request::new("GET", "/healthz").header("Host", "10.9.8.7:80")).await.status, 200);
    assert_eq!(server.send(&Request::new("GET", "/v1/approvals").header("Host", "10.9.8.7:80")).await.status, 403);
}

#[tokio::test]
async fn a_page_that_is_allowed_may_ask_and_read() {
    let tune = |it: &mut countersign::http::HttpSettings| it.origins = vec!["https://desk.example".into()];
    let server = TestServer::tuned(tune).await;
    let preflight =
        Request::new("OPTIONS", "/v1/capabilities/orders.refund/invoke").header("Origin", "https://desk.example");
    let answer = server.send(&preflight.header("Access-Control-Request-Method", "POST")).await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://desk.example"));
    assert!(answer.header("access-control-allow-headers").unwrap().contains("idempotency-key"));
    let [call, _] = acting();
    let answer = server.send(&call.clone().header("Origin", "https://desk.example")).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some("https://desk.example")));
    assert_eq!(answer.header("vary"), Some("origin"));
    for origin in ["https://desk.example:8443", "http://desk.example", "https://desk.example.evil.example", "null"] {
        assert_eq!(server.send(&call.clone().header("Origin", origin)).await.status, 403, "{origin}");
    }
}

#[tokio::test]
async fn every_answer_names_its_request_and_is_nobody_elses_to_keep() {
    let server = TestServer::new().await;
    for (request, status) in [
        (Request::new("GET", "/v1/approvals").as_who("demo-dana"), 200),
        (Request::new("GET", "/v1/approvals"), 401),
        (Request::new("GET", "/nowhere"), 404),
        (Request::new("GET", "/v1/approvals").header("Host", "evil.example"), 403),
    ] {
        let answer = server.send(&request.clone().header("X-Request-Id", "req-7")).await;
        assert_eq!((answer.status, answer.header("x-request-id")), (status, Some("req-7")));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let (one, two) = (server.send(&request).await, server.send(&request).await);
        assert_ne!(one.header("x-request-id").unwrap(), two.header("x-request-id").unwrap());
        let odd = server.send(&request.header("X-Request-Id", &"x".repeat(129))).await;
        assert_eq!(odd.header("x-request-id").unwrap().len(), 22);
    }
}

#[tokio::test]
async fn what_no_route_takes_is_a_problem_too() {
    let server = TestServer::new().await;
    let long = format!("/v1/approvals?status={}", "x".repeat(9_000));
    let mut many = Request::new("GET", "/healthz");
    let mut large = Request::new("GET", "/healthz");
    for n in 0..110 {
        many = many.header(&format!("X-{n}"), "1");
    }
    for n in 0..10 {
        large = large.header(&format!("X-{n}"), &"x".repeat(7_000));
    }
    let form = Request::new("POST", "/v1/approvals/apr-1/decision").as_who("demo-priya").body(b"decision=approve");
    let packed = Request::new("POST", "/v1/approvals/apr-1/decision").as_who("demo-priya");
    let packed = packed.header("Content-Encoding", "gzip").text("{}");
    let mut lines = Vec::new();
    for request in [
        Request::new("GET", "/nowhere"),
        Request::new("GET", "/v1/approvals/"),
        Request::new("GET", "/v1/approvals/%ff"),
        Request::new("POST", "/v1/approvals"),
        Request::new("DELETE", "/v1/approvals/apr-1"),
        Request::new("GET", "/v1/approvals/apr-1/decision"),
        Request::new("GET", &long),
        many,
        large,
        form.clone(),
        form.header("Content-Type", "text/plain"),
        packed,
        Request::new("POST", "/v1/approvals/apr-1/decision")
            .as_who("demo-priya")
            .header("Content-Length", "10000000000"),
        Request::new("BREW", "/v1/approvals"),
        Request::new("GET", "/v1/approvals").header("Authorization", "Basic ZGFuYTpkYW5h"),
        Request::new("GET", "/v1/approvals").as_who("demo-dana").as_who("demo-dana"),
    ] {
        let answer = server.send(&request).await;
        lines.push(format!("{} {} {}", answer.status, answer.code(), answer.header("allow").unwrap_or("-")));
    }
    insta::assert_snapshot!(lines.join("\n"), @r"
    404 ROUTE_NOT_FOUND -
    404 ROUTE_NOT_FOUND -
    404 ROUTE_NOT_FOUND -
    405 METHOD_NOT_ALLOWED GET,HEAD
    405 METHOD_NOT_ALLOWED GET,HEAD
    405 METHOD_NOT_ALLOWED POST
    414 TARGET_TOO_LONG -
    431 HEADERS_TOO_LARGE -
    431 HEADERS_TOO_LARGE -
    415 MEDIA_TYPE_NOT_SUPPORTED -
    415 MEDIA_TYPE_NOT_SUPPORTED -
    415 MEDIA_TYPE_NOT_SUPPORTED -
    413 BODY_TOO_LARGE -
    405 METHOD_NOT_ALLOWED GET,HEAD
    401 UNAUTHENTICATED -
    401 UNAUTHENTICATED -
    ");
}

#[tokio::test]
async fn the_log_knows_a_request_by_its_id_and_route_and_not_by_what_it_says() {
    watch_logs();
    let server = TestServer::new().await;
    let request = Request::new("GET", "/v1/approvals/canary-in-a-path?canary-in-a-query=1").as_who("canary-in-a-token");
    let request = request.header("X-Request-Id", "countersign-watch-of-http").header("X-Other", "canary-in-a-header");
    assert_eq!(server.send(&request).await.status, 401);
    let asked = Request::new("GET", "/v1/approvals/canary-in-a-path").as_who("demo-dana");
    assert_eq!(server.send(&asked).await.status, 404);
    let lines = logged("countersign-watch-of-http");
    assert!(lines.iter().any(|it| it.contains("GET") && it.contains("/v1/approvals/{id}")), "{lines:?}");
    assert_eq!(logged("canary-in-a-"), Vec::<String>::new());
}
