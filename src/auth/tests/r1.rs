//! R1: audience and the other registered claims.

use serde_json::{Value, json};

use super::{EVERYTHING, KeyFile, Signer, block, claims, open, seconds};
use crate::Engine;
use crate::actor::Surface;
use crate::store::EventFilter;
use crate::testing::TestApp;

/// A token's claims, and what becomes of it.
fn cases() -> Vec<(Value, &'static str)> {
    let with = |changes: Value| claims(&changes);
    let mut null = with(json!({}));
    null["aud"] = Value::Null;
    vec![
        (with(json!({"aud": null})), "wrong_audience"),
        (null, "wrong_audience"),
        (with(json!({"aud": 5})), "wrong_audience"),
        (with(json!({"aud": []})), "wrong_audience"),
        (with(json!({"aud": ["x"]})), "wrong_audience"),
        (with(json!({"aud": ["x", "us"]})), "taken"),
        (with(json!({"iss": null})), "wrong_issuer"),
        (with(json!({"iss": ["https://i.example"]})), "wrong_issuer"),
        (with(json!({"exp": "never"})), "bad_claims"),
        (with(json!({"exp": 1e30})), "bad_claims"),
        (with(json!({"nbf": seconds(500)})), "not_yet_valid"),
        (with(json!({"nbf": "2999"})), "bad_claims"),
        (with(json!({"exp": seconds(-59)})), "taken"),
        (with(json!({"exp": seconds(-61)})), "expired"),
        (with(json!({"sub": null})), "bad_claims"),
        (with(json!({"sub": ""})), "bad_claims"),
        (with(json!({"sub": 7})), "bad_claims"),
        // The same kind.
        (with(json!({})), "taken"),
        (with(json!({"aud": ""})), "wrong_audience"),
        (with(json!({"aud": "US"})), "wrong_audience"),
        (with(json!({"aud": "us "})), "wrong_audience"),
        (with(json!({"aud": ["us", 5]})), "wrong_audience"),
        (with(json!({"aud": [["us"]]})), "wrong_audience"),
        (with(json!({"aud": {"us": "us"}})), "wrong_audience"),
        (with(json!({"aud": true})), "wrong_audience"),
        (with(json!({"iss": ""})), "wrong_issuer"),
        (with(json!({"iss": "https://i.example/"})), "wrong_issuer"),
        (with(json!({"iss": "HTTPS://I.EXAMPLE"})), "wrong_issuer"),
        (with(json!({"iss": {"https://i.example": 1}})), "wrong_issuer"),
        (with(json!({"exp": null})), "bad_claims"),
        (with(json!({"exp": []})), "bad_claims"),
        (with(json!({"exp": true})), "bad_claims"),
        (with(json!({"exp": "1999999999"})), "bad_claims"),
        (with(json!({"exp": 1e15})), "bad_claims"),
        (with(json!({"exp": -1})), "bad_claims"),
        (with(json!({"exp": 0})), "expired"),
        (with(json!({"exp": seconds(-60)})), "expired"),
        (with(json!({"exp": 1_767_225_540.5})), "taken"),
        (with(json!({"exp": 1_767_225_539.5})), "expired"),
        (with(json!({"nbf": seconds(60)})), "taken"),
        (with(json!({"nbf": seconds(61)})), "not_yet_valid"),
        (with(json!({"nbf": 1e30})), "bad_claims"),
        (with(json!({"nbf": []})), "bad_claims"),
        (with(json!({"iat": seconds(0)})), "taken"),
        (with(json!({"iat": "now"})), "bad_claims"),
        (with(json!({"sub": " "})), "bad_claims"),
        (with(json!({"sub": ["dana"]})), "bad_claims"),
        (with(json!({"sub": "da\u{7}na"})), "bad_claims"),
        (with(json!({"sub": "d".repeat(513)})), "bad_claims"),
    ]
}

#[tokio::test]
async fn r1_only_what_the_claims_say_in_full_is_taken() {
    let signer = Signer::rsa(jsonwebtoken::Algorithm::RS256);
    let keys = KeyFile::new(&[signer.jwk()]);
    let auth = open(&block(&keys.place(), EVERYTHING)).await.unwrap();
    for (claims, expected) in cases() {
        assert_eq!(auth.class(&signer.sign(&claims)).await, expected, "{claims}");
    }
}

#[tokio::test]
async fn r1_each_refusal_is_one_event_of_its_class_without_token_text() {
    let signer = Signer::ed("one", 1);
    let keys = KeyFile::new(&[signer.jwk()]);
    let auth = open(&block(&keys.place(), EVERYTHING)).await.unwrap();
    let app = TestApp::new(Engine::builder(), |_| ()).await.unwrap();
    let began = app.trail().await.to_string();
    let (mut tokens, mut expected) = (Vec::new(), Vec::new());
    for (claims, class) in cases().into_iter().filter(|(_, it)| *it != "taken") {
        let token = signer.sign(&claims);
        let failure = auth.take(&token).await.unwrap_err();
        expected.push(format!("- auth.failed count=1 reason={class}"));
        app.engine().core.auth_failed(failure, Surface::Http).await;
        tokens.push(token);
    }
    let trail = app.trail().await.to_string();
    let told: Vec<_> = trail.strip_prefix(&began).unwrap().lines().filter(|it| !it.is_empty()).collect();
    assert_eq!(told, expected);
    let stored = app.engine().core.store.events(&EventFilter::default(), 500).await.unwrap();
    let (_, last) = stored.last().unwrap();
    insta::assert_snapshot!(last, @r#"{"at":"2026-01-01T00:00:00.000000Z","data":{"count":1,"reason":"bad_claims"},"id":"evt-44","surface":"http","tenant":"default","type":"auth.failed"}"#);
    for part in tokens.iter().flat_map(|it| it.split('.')) {
        assert!(stored.iter().all(|(_, body)| !body.contains(part)), "{part}");
    }
}
