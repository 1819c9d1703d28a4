//! `/v1/policies`: the active set and its past, loading the files again, and explaining calls that nobody makes.

use std::path::Path;

use countersign::PolicySource;
use countersign::demo::{self, POLICIES};
use serde_json::{Value, json};

use super::harness::{Answer, TestServer, refund};

const EXPLAIN: &str = "/v1/policies/explain";

async fn ask(server: &TestServer, question: Value) -> Answer {
    server.post("demo-priya", EXPLAIN, &question).await
}

#[tokio::test]
async fn the_active_set_and_its_past_are_told_to_whoever_may_read_policies() {
    let server = TestServer::new().await;
    let answer = server.get("demo-priya", "/v1/policies").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let listed = answer.json();
    let hash = server.app.engine().policy_hash();
    let latest = &listed["history"][0];
    assert_eq!(
        (&listed["policyHash"], &latest["policyHash"], &latest["active"], &latest["generation"]),
        (&json!(hash), &json!(hash), &json!(true), &json!(1))
    );
    assert_eq!(listed["history"].as_array().unwrap().len(), 1);
    for (who, status, code) in [("demo-dana", 403, "POLICY_DENIED"), ("", 401, "UNAUTHENTICATED")] {
        for answer in [
            server.get(who, "/v1/policies").await,
            server.post(who, "/v1/policies/reload", &json!({})).await,
            server.post(who, EXPLAIN, &json!({"capability": "orders.get"})).await,
        ] {
            assert_eq!((answer.status, answer.code().as_str()), (status, code), "{who}");
        }
    }
    for query in ["limit=0", "limit=1001", "limits=1"] {
        let answer = server.get("demo-priya", &format!("/v1/policies?{query}")).await;
        assert_eq!((answer.status, answer.code().as_str()), (422, "INPUT_INVALID"), "{query}");
    }
}

fn write(directory: &Path, change: impl Fn(&str) -> String) {
    for (name, text) in POLICIES {
        std::fs::write(directory.join(name), change(text)).unwrap();
    }
}

#[tokio::test]
async fn the_files_are_loaded_again_and_bad_ones_are_told_with_their_places() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), str::to_owned);
    let builder = demo::builder().policies(PolicySource::Directory(directory.path().into()));
    let server = TestServer::built(builder, |_| {}).await;
    let reload = async || server.post("demo-priya", "/v1/policies/reload", &json!({})).await;
    let before = server.app.engine().policy_hash();
    let same = reload().await;
    assert_eq!((same.status, same.json()), (200, json!({"hash": before, "changed": false, "notes": []})));

    write(directory.path(), |it| it.replace("> 50000", "> 40000"));
    let changed = reload().await;
    let after = server.app.engine().policy_hash();
    assert_ne!(before, after);
    assert_eq!((changed.status, changed.json()), (200, json!({"hash": after, "changed": true, "notes": []})));

    write(directory.path(), |it| it.replace("> 50000", "> fifty"));
    let bad = reload().await;
    assert_eq!((bad.status, bad.code().as_str()), (422, "INPUT_INVALID"));
    let problems = bad.json()["problems"].clone();
    assert_eq!((&problems[0]["file"], &problems[0]["severity"]), (&json!("approvals.cedar"), &json!("error")));
    assert_eq!(server.app.engine().policy_hash(), after);
    let history = server.get("demo-priya", "/v1/policies?limit=1").await.json()["history"].clone();
    assert_eq!(
        (&history[0]["policyHash"], &history[0]["actor"]["id"], &history[0]["via"]),
        (&json!(after), &json!("priya"), &json!("http"))
    );
}

#[tokio::test]
async fn a_call_is_explained_as_it_would_come_out() {
    let server = TestServer::new().await;
    let dana = json!({"id": "dana", "kind": "user", "tenant": "acme", "roles": ["support"]});
    let question = |cents| json!({"actor": dana, "capability": "orders.refund", "input": refund(cents)});
    for cents in [1_900, 64_900, 600_000] {
        let explained = ask(&server, question(cents)).await;
        assert_eq!(explained.status, 200, "{explained:?}");
        let real = server.invoke("demo-dana", "orders.refund", &refund(cents)).await;
        let outcome = explained.json()["outcome"].as_str().unwrap().to_owned();
        assert_eq!(
            (outcome.as_str(), real.status),
            match cents {
                1_900 => ("allow", 200),
                64_900 => ("approval", 202),
                _ => ("deny", 403),
            }
        );
    }
    let waits = ask(&server, question(64_900)).await.json();
    let policies = json!([
        {"effect": "gate", "id": "refunds-over-500-need-a-manager"},
        {"effect": "permit", "id": "support-works-at-the-desk"}
    ]);
    assert_eq!(waits["policies"], policies);
    assert_eq!((&waits["surface"], &waits["at"]), (&json!("http"), &json!("2026-01-01T00:00:00.000000Z")));
    assert_eq!(
        (&waits["approvals"][0]["type"], &waits["approvals"][0]["people"]),
        (
            &json!("manager"),
            &json!([
                {"name": "me", "may": true, "why": "permitted by managers-decide-what-needs-a-manager"}
            ])
        )
    );
    // Explaining runs nothing, and files nothing.
    assert_eq!(server.app.effects(), ["orders.refund #1"]);
}

#[tokio::test]
async fn a_question_without_an_actor_is_about_whoever_asks() {
    let server = TestServer::new().await;
    let mine = ask(&server, json!({"capability": "customers.search", "input": {"query": "a"}})).await.json();
    assert_eq!((&mine["actor"]["id"], &mine["tenant"]), (&json!("priya"), &json!("acme")));
    let may = ask(&server, json!({"manage": "read_audit"})).await;
    assert_eq!((may.status, &may.json()["outcome"]), (200, &json!("allow")));
}

#[tokio::test]
async fn what_asks_nothing_is_refused_and_never_repeated() {
    let server = TestServer::new().await;
    for (question, path) in [
        (json!({"capability": "canary.7"}), ""),
        (json!({"input": {"canary-7": 1}}), ""),
        (json!({"capability": 7}), "/capability"),
        (json!({"capability": "orders.get", "surface": "canary-7"}), "/surface"),
        (json!({"capability": "orders.get", "actor": {"id": "canary-7"}}), "/actor"),
        (json!({"capability": "orders.get", "actor": "canary-7"}), ""),
        (json!({"capability": "orders.get", "at": "canary-7"}), "/at"),
        (json!({"capability": "orders.get", "canary-7": 1}), ""),
        (json!({"capability": "orders.get", "expect": "allow"}), ""),
        (json!({"manage": "canary-7"}), ""),
        (json!(["canary-7"]), ""),
    ] {
        let answer = ask(&server, question.clone()).await;
        assert_eq!((answer.status, answer.code().as_str()), (422, "INPUT_INVALID"), "{question} {answer:?}");
        assert_eq!(answer.json()["details"][0]["path"], path, "{question}");
        assert!(!answer.text().contains("canary"), "{answer:?}");
    }
    let twice = super::harness::Request::new("POST", EXPLAIN).as_who("demo-priya");
    let twice = server.send(&twice.text(r#"{"capability": "orders.get", "capability": "orders.refund"}"#)).await;
    assert_eq!((twice.status, twice.code().as_str()), (422, "INPUT_INVALID"));
}
