//! The API's description: what it says, that it names every route, and that what it says is so.

use std::collections::BTreeMap;

use countersign::http::described;
use serde_json::{Value, json};

use super::harness::{Request, TestServer};

#[tokio::test]
async fn the_document_is_this_one_for_everybody() {
    let server = TestServer::new().await;
    let answer = server.get("", "/openapi.json").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let document = answer.json();
    assert_eq!(document["openapi"], "3.1.0");
    // Neither capabilities nor anything else of one server.
    for word in ["orders", "dana", "refund", "acme"] {
        let found = answer.text();
        let found = found.find(word).map(|at| found[at.saturating_sub(60)..at + 60].to_owned());
        assert_eq!(found, None);
    }
    insta::assert_yaml_snapshot!(document);
}

/// The lines of the router: path and methods.
fn routed() -> Vec<(String, String)> {
    let source = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/http.rs")).unwrap();
    let health = [("health::LIVE", "\"/healthz\""), ("health::READY", "\"/readyz\"")];
    let source = health.iter().fold(source, |source, (name, path)| source.replace(name, path));
    let mut all = Vec::new();
    for route in source.split(".route(\"").skip(1) {
        let (path, rest) = route.split_once('"').unwrap();
        let handlers = rest.split(".route(").next().unwrap().lines().next().unwrap();
        for (word, method) in [("get(", "GET"), ("post(", "POST"), ("put(", "PUT"), ("delete(", "DELETE")] {
            if handlers.contains(word) {
                all.push((path.to_owned(), method.to_owned()));
            }
        }
    }
    all.sort();
    all
}

#[test]
fn every_route_is_described_and_nothing_else() {
    let mut described: Vec<_> =
        described().into_iter().map(|(path, method)| (path.to_owned(), method.to_owned())).collect();
    described.sort();
    assert_eq!(described, routed());
    assert!(described.len() >= 19);
}

#[tokio::test]
async fn what_is_described_is_routed_and_other_methods_are_not() {
    let server = TestServer::new().await;
    let mut methods = BTreeMap::<_, Vec<_>>::new();
    for (path, method) in described() {
        methods.entry(path).or_default().push(method);
    }
    for (path, known) in methods {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            if known.contains(&method) && path.ends_with("stream") {
                continue; // it would not end
            }
            let answer = server.send(&Request::new(method, &path.replace("{id}", "no.such")).as_who("demo-dana")).await;
            assert_eq!(answer.status != 405, known.contains(&method), "{method} {path} {answer:?}");
            if answer.status == 405 {
                let allowed = answer.header("allow").unwrap();
                assert!(known.iter().all(|it| allowed.contains(it)), "{path} {allowed}");
            }
        }
    }
}

#[test]
fn every_answer_of_every_operation_has_a_schema_that_is_there() {
    let document: Value = serde_json::from_str(countersign::http::description()).unwrap();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            assert!(operation["responses"].as_object().unwrap().len() > 1, "{method} {path}");
            for (status, response) in operation["responses"].as_object().unwrap() {
                let response = match response["$ref"].as_str() {
                    Some(shared) => &document["components"]["responses"][shared.rsplit('/').next().unwrap()],
                    None => response,
                };
                let (media, content) = response["content"].as_object().unwrap().iter().next().unwrap();
                let name = content["schema"]["$ref"].as_str().unwrap().trim_start_matches("#/components/schemas/");
                assert!(!document["components"]["schemas"][name].is_null(), "{method} {path} {status} {name}");
                let is_problem = status.parse::<u16>().unwrap() >= 400;
                assert_eq!(media == "application/problem+json", is_problem, "{method} {path} {status}");
            }
        }
    }
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], json!("bearer"));
}
