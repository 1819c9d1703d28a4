//! Credentials over HTTP: who gets in, what is on record of those who do not, and who may decide.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use countersign::demo::{self, Desk};
use countersign::testing::{Place, START, TestApp, stored_events};
use countersign::{EventKind, Identity, Surface};
use jsonwebtoken::{Algorithm, EncodingKey, crypto, jwk::Jwk};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::http::harness::{Answer, Request, TestServer, demo_tokens, refund};

/// The server of the demo application, and an issuer of signed tokens beside its static ones.
struct World {
    server: TestServer,
    key: EncodingKey,
    keys: TempDir,
}

impl World {
    async fn new() -> Self {
        // PKCS #8 (RFC 8410, section 7) around a seed.
        let head = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
        let key = EncodingKey::from_ed_der(&[&head[..], &[7; 32]].concat());
        let mut jwk = serde_json::to_value(Jwk::from_encoding_key(&key, Algorithm::EdDSA).unwrap()).unwrap();
        jwk["kid"] = "k".into();
        let keys = tempfile::tempdir().unwrap();
        std::fs::write(keys.path().join("keys.json"), json!({"keys": [jwk]}).to_string()).unwrap();
        let dana = demo::actor("dana").unwrap();
        let issuer = json!({
            "issuer": "https://i.example", "audience": "us", "jwks_file": "keys.json", "algorithms": ["EdDSA"],
            "tenant": dana.tenant_name(), "claims": {"kind": "kind", "roles": "roles"}, "approver_clients": ["desk-ui"],
        });
        let server = serve(&json!({"tokens": demo_tokens(), "issuers": [issuer]}), keys.path()).await;
        Self { server, key, keys }
    }

    /// A token of Dana's, of the demo's support, with changes: null takes a claim away.
    fn token(&self, changes: &Value) -> String {
        let mut claims = json!({
            "iss": "https://i.example", "aud": "us", "sub": "dana", "exp": seconds(600), "kind": "user", "roles": ["support"],
        });
        for (name, value) in changes.as_object().unwrap() {
            match value {
                Value::Null => claims.as_object_mut().unwrap().remove(name),
                value => claims.as_object_mut().unwrap().insert(name.clone(), value.clone()),
            };
        }
        self.sign(&claims)
    }

    fn sign(&self, claims: &Value) -> String {
        let encoded = |it: &Value| BASE64_URL_SAFE_NO_PAD.encode(it.to_string());
        let signed = format!("{}.{}", encoded(&json!({"alg": "EdDSA", "kid": "k"})), encoded(claims));
        format!("{signed}.{}", crypto::sign(signed.as_bytes(), &self.key, Algorithm::EdDSA).unwrap())
    }

    /// Priya's, a manager, through this client.
    fn manager(&self, changes: &Value) -> String {
        let mut all = json!({"sub": "priya", "roles": ["manager"], "azp": "desk-ui"});
        all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        self.token(&all)
    }

    async fn approve(&self, id: &str, token: &str) -> Answer {
        let decision = json!({"decision": "approve", "type": "manager"});
        self.server.post(token, &format!("/v1/approvals/{id}/decision"), &decision).await
    }
}

async fn serve(settings: &Value, base: &Path) -> TestServer {
    let desk = Desk::default();
    let context = move |identity: &Identity| desk.of_tenant(identity.tenant_name());
    let app = TestApp::open(demo::builder(), context, &Place::new().unwrap()).await.unwrap();
    let auth = app.auth(&serde_json::from_value(settings.clone()).unwrap(), base).await.unwrap();
    let gateway = app.gateway();
    TestServer::over(app, gateway, auth, Surface::Http, |_| {}).await
}

/// Seconds since the epoch, so long after the clock of the kit.
fn seconds(after: i64) -> i64 {
    START.0 / 1_000_000 + after
}

/// What is on record of refused credentials.
async fn failures(server: &TestServer) -> Vec<String> {
    let trail = server.app.trail().await.to_string();
    trail.lines().filter(|it| it.contains("auth.failed")).map(Into::into).collect()
}

#[tokio::test]
async fn r1_a_token_that_does_not_say_everything_gets_nothing() {
    let world = World::new().await;
    let (before, mut refused) = (world.server.app.trail().await.entries().len(), 0);
    let mut null = json!({"iss": "https://i.example", "sub": "dana", "exp": seconds(600), "kind": "user"});
    null["aud"] = Value::Null;
    let mut tokens = vec![world.sign(&null)];
    for changes in [
        json!({"aud": null}),
        json!({"aud": 5}),
        json!({"aud": []}),
        json!({"aud": ["x"]}),
        json!({"iss": null}),
        json!({"iss": ["https://i.example"]}),
        json!({"exp": "never"}),
        json!({"exp": 1e30}),
        json!({"nbf": seconds(500)}),
        json!({"nbf": "2999"}),
        json!({"exp": seconds(-61)}),
        json!({"sub": null}),
        json!({"sub": ""}),
        json!({"sub": 7}),
    ] {
        tokens.push(world.token(&changes));
    }
    for token in &tokens {
        let answer = world.server.invoke(token, "orders.refund", &refund(1_900)).await;
        assert_eq!((answer.status, answer.code()), (401, "UNAUTHENTICATED".into()));
        assert_eq!(answer.header("www-authenticate"), Some("Bearer error=\"invalid_token\""));
        refused += 1;
    }
    let trail = world.server.app.trail().await;
    let told: Vec<_> = trail.entries()[before..].iter().map(ToString::to_string).collect();
    assert_eq!(told.iter().filter(|it| it.contains("auth.failed count=1")).count(), refused);
    assert_eq!((told.len(), world.server.app.effects()), (refused, Vec::<String>::new()));
    let parts = |it: &String| it.split('.').map(Into::into).collect::<Vec<String>>();
    for part in tokens.iter().flat_map(parts) {
        assert!(told.iter().all(|it| !it.contains(&part)));
    }
    for changes in [json!({"aud": ["x", "us"]}), json!({"exp": seconds(-59)})] {
        let answer = world.server.invoke(&world.token(&changes), "orders.refund", &refund(1_900)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

#[tokio::test]
async fn one_header_says_who_it_is() {
    let world = World::new().await;
    let dana = "Bearer demo-dana";
    let get = || Request::new("GET", "/v1/capabilities");
    for (request, status) in [
        (get().header("Authorization", dana), 200),
        (get().header("authorization", "bearer demo-dana"), 200),
        (get(), 401),
        (get().header("Authorization", dana).header("Authorization", dana), 401),
        (get().header("Authorization", dana).header("Authorization", ""), 401),
        (get().header("Authorization", ""), 401),
        (get().header("Authorization", "demo-dana"), 401),
        (get().header("Authorization", "Basic ZGVtbzpkYW5h"), 401),
        (get().header("Authorization", &format!("{dana}, {dana}")), 401),
        (get().header("Authorization", "Bearer demo-d\u{e4}na"), 401),
        (get().header("X-Authorization", dana), 401),
        (get().header("Cookie", "Authorization=Bearer demo-dana"), 401),
    ] {
        let answer = world.server.send(&request).await;
        assert_eq!(answer.status, status, "{request:?}");
    }
    // Nor does the address: that parameter is none.
    let answer = world.server.send(&Request::new("GET", "/v1/capabilities?access_token=demo-dana")).await;
    assert_eq!(answer.code(), "UNAUTHENTICATED");
    // Of those without the header, the engine's own refusal is on record.
    assert_eq!(failures(&world.server).await, vec!["- auth.failed count=1 reason=malformed"; 7]);
}

#[tokio::test]
async fn apr_4_an_agent_with_a_managers_token_decides_nothing() {
    let world = World::new().await;
    let answer = world.server.invoke(&world.token(&json!({})), "orders.refund", &refund(64_900)).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let id = answer.json()["approval"]["id"].as_str().unwrap().to_owned();
    for changes in
        [json!({"azp": "agent"}), json!({"azp": null}), json!({"act": {"sub": "agent"}}), json!({"kind": "service"})]
    {
        let answer = world.approve(&id, &world.manager(&changes)).await;
        assert_eq!((answer.status, answer.code()), (403, "APPROVER_NOT_ELIGIBLE".into()), "{changes}");
    }
    let answer = world.approve(&id, &world.manager(&json!({}))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn apr_3_whoever_acts_for_the_requester_does_not_approve() {
    let world = World::new().await;
    let token = world.token(&json!({"act": {"sub": "agent", "act": {"sub": "Priya"}}}));
    let answer = world.server.invoke(&token, "orders.refund", &refund(64_900)).await;
    let id = answer.json()["approval"]["id"].as_str().unwrap().to_owned();
    let answer = world.approve(&id, &world.manager(&json!({}))).await;
    assert_eq!((answer.status, answer.code()), (403, "APPROVAL_SELF_APPROVAL".into()));
}

#[tokio::test]
async fn two_issuers_danas_are_two_parties() {
    let world = World::new().await;
    let id = world.server.ask().await; // as the Dana of the static token
    let hers = world.server.get("demo-dana", &format!("/v1/approvals/{id}")).await;
    let others = world.server.get(&world.token(&json!({})), &format!("/v1/approvals/{id}")).await;
    assert_eq!((hers.status, others.status, others.code()), (200, 404, "APPROVAL_NOT_FOUND".into()));
}

#[tokio::test]
async fn a_flood_of_bad_tokens_is_on_record_by_its_count() {
    let mut world = World::new().await;
    for _ in 0..103 {
        assert_eq!(world.server.get("csgn_guessed", "/v1/capabilities").await.status, 401);
    }
    assert_eq!(failures(&world.server).await, vec!["- auth.failed count=1 reason=unknown_token"; 100]);
    assert_eq!(world.server.get("..", "/v1/capabilities").await.status, 401);
    world.server.stop();
    let app = world.server.stopped().await;
    let database = app.place().database();
    app.engine().shutdown(Duration::from_secs(1)).await;
    let stored = stored_events(database).await.into_iter();
    let counts = stored.filter_map(|(_, event)| match event.kind {
        EventKind::AuthFailed { count, reason } => Some((count, reason, event.envelope.surface)),
        _ => None,
    });
    let counts: Vec<_> = counts.collect();
    let of = |count, reason: &str| (count, reason.to_owned(), Surface::Http);
    let mut expected = vec![of(1, "unknown_token"); 100];
    expected.extend([of(1, "malformed"), of(3, "unknown_token")]);
    assert_eq!(counts, expected);
}

#[tokio::test]
async fn the_rest_of_a_flood_is_on_record_after_a_second() {
    let world = World::new().await;
    for _ in 0..105 {
        world.server.get("csgn_guessed", "/v1/capabilities").await;
    }
    world.server.app.clock().advance(Duration::from_secs(1));
    // It is written by a task of its own.
    let written = async {
        while failures(&world.server).await.len() < 101 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::http::harness::PATIENCE, written).await.unwrap();
    assert_eq!(failures(&world.server).await[100], "- auth.failed count=5 reason=unknown_token");
}

#[tokio::test]
async fn a_bad_token_stays_one_while_nothing_can_be_recorded() {
    let world = World::new().await;
    world.server.app.break_store(true);
    let answer = world.server.get("csgn_guessed", "/v1/capabilities").await;
    assert_eq!((answer.status, answer.code()), (401, "UNAUTHENTICATED".into()));
    world.server.app.break_store(false);
    assert_eq!(world.server.get("demo-dana", "/v1/capabilities").await.status, 200);
    assert_eq!(failures(&world.server).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_token_whose_issuers_keys_are_not_there_yet_may_be_tried_again() {
    let world = World::new().await;
    // Nobody listens there.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys", closed.local_addr().unwrap());
    drop(closed);
    let issuer = json!({
        "issuer": "https://i.example", "audience": "us", "jwks_url": url, "algorithms": ["EdDSA"], "tenant": "default",
        "kind": "user",
    });
    let server = serve(&json!({"issuers": [issuer]}), Path::new(".")).await;
    let answer = server.get(&world.token(&json!({})), "/v1/capabilities").await;
    assert_eq!((answer.status, answer.code()), (503, "UNAVAILABLE".into()));
    assert!(answer.header("retry-after").is_some());
    assert_eq!(failures(&server).await, ["- auth.failed count=1 reason=keys_unavailable"]);
}

#[tokio::test]
async fn metrics_tell_of_issuers_whose_keys_cannot_be_had() {
    let mut world = World::new().await;
    world.server.get(&world.token(&json!({"aud": "x"})), "/v1/capabilities").await;
    world.server.get("csgn_guessed", "/v1/capabilities").await;
    let metrics = async |server: &TestServer| {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let gateway = server.app.gateway();
        let serving = tokio::spawn(async move {
            let settings = countersign::http::HttpSettings::default();
            countersign::http::serve_metrics(gateway, &settings, listener, std::future::pending()).await;
        });
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        serving.abort();
        let told = |it: &&str| it.starts_with("countersign_auth") || it.starts_with("countersign_issuer");
        text.lines().filter(told).map(Into::into).collect::<Vec<String>>()
    };
    assert_eq!(
        metrics(&world.server).await,
        [
            "countersign_auth_failures_total{reason=\"unknown_token\"} 1",
            "countersign_auth_failures_total{reason=\"wrong_audience\"} 1",
            "countersign_issuer_keys{issuer=\"https://i.example\"} 1.0",
            "countersign_issuer_keys_in_trouble{issuer=\"https://i.example\"} 0.0",
        ]
    );
    std::fs::write(world.keys.path().join("keys.json"), "gone").unwrap();
    world.server.app.clock().advance(Duration::from_mins(10));
    world.server.get(&world.token(&json!({"exp": seconds(3_600)})), "/v1/capabilities").await;
    let told = metrics(&world.server).await;
    assert_eq!(told[3], "countersign_issuer_keys_in_trouble{issuer=\"https://i.example\"} 1.0");
    world.server.stop();
}
