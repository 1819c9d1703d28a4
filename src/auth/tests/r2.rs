//! R2: the algorithm is the key's, and keys are the issuer's.

use std::net::TcpListener;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};

use super::{EVERYTHING, KeyFile, Signer, block, claims, open};

/// Our issuer has this one key.
async fn with_one_key() -> (super::Auth, Signer, KeyFile) {
    let signer = Signer::rsa(Algorithm::RS256);
    let keys = KeyFile::new(&[signer.jwk()]);
    (open(&block(&keys.place(), EVERYTHING)).await.unwrap(), signer, keys)
}

fn good() -> Value {
    claims(&json!({}))
}

#[tokio::test]
async fn r2_a_public_key_is_no_shared_secret() {
    let (auth, signer, _keys) = with_one_key().await;
    let pem = include_str!("../../../fixtures/auth/rsa.pub.pem");
    let jwk = signer.jwk();
    let modulus = BASE64_URL_SAFE_NO_PAD.decode(jwk["n"].as_str().unwrap()).unwrap();
    for secret in [pem.as_bytes(), pem.trim_end().as_bytes(), &super::der(pem), &modulus, jwk.to_string().as_bytes()] {
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            let forger = Signer { key: EncodingKey::from_secret(secret).unwrap(), algorithm, name: "rsa" };
            assert_eq!(auth.class(&forger.sign(&good())).await, "bad_algorithm");
        }
    }
}

#[tokio::test]
async fn r2_a_token_without_a_signature_is_refused_in_any_case() {
    let (auth, signer, _keys) = with_one_key().await;
    let good = signer.sign(&good());
    let (_, claims, signature) = parts(&good);
    for name in ["none", "None", "NONE", "nOnE", "", "RS256 ", "rs256", "HS256", "RS1", "dir"] {
        let header = BASE64_URL_SAFE_NO_PAD.encode(json!({"alg": name, "kid": "rsa"}).to_string());
        for signature in ["", signature] {
            assert_eq!(auth.class(&format!("{header}.{claims}.{signature}")).await, "bad_algorithm", "{name}");
        }
    }
    for header in [json!({"kid": "rsa"}), json!({"alg": null}), json!({"alg": ["RS256"]}), json!({"alg": 5}), json!([])]
    {
        let header = BASE64_URL_SAFE_NO_PAD.encode(header.to_string());
        assert_eq!(auth.class(&format!("{header}.{claims}.{signature}")).await, "malformed");
    }
}

#[tokio::test]
async fn r2_a_key_that_a_token_brings_or_points_to_is_not_used() {
    let (auth, signer, _keys) = with_one_key().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let there = format!("http://{}/keys", listener.local_addr().unwrap());
    let certificate = "MIIB";
    for (name, value) in [
        ("jwk", json!(Signer::ed("rsa", 6).jwk())),
        ("jku", json!(there)),
        ("x5u", json!(there)),
        ("x5c", json!([certificate])),
        ("x5t", json!(certificate)),
    ] {
        // A forger's own keys, of another sort and of the same.
        let forger = Signer::ed("rsa", 6);
        let mut header = forger.header();
        header[name] = value.clone();
        assert_eq!(auth.class(&forger.sign_texts(&header.to_string(), &good().to_string())).await, "bad_algorithm");
        let forger = Signer::weak();
        let mut header = forger.header();
        header[name] = if name == "jwk" { forger.jwk() } else { value.clone() };
        assert_eq!(auth.class(&forger.sign_texts(&header.to_string(), &good().to_string())).await, "bad_signature");
        header["kid"] = there.as_str().into();
        assert_eq!(auth.class(&forger.sign_texts(&header.to_string(), &good().to_string())).await, "unknown_key");
        // And the issuer's own token with it is as good as without.
        let mut header = signer.header();
        header[name] = value;
        assert_eq!(auth.class(&signer.sign_texts(&header.to_string(), &good().to_string())).await, "taken");
    }
    let seen = listener.accept().map(drop).map_err(|it| it.kind());
    assert_eq!(seen, Err(std::io::ErrorKind::WouldBlock));
}

#[tokio::test]
async fn r2_without_a_name_the_key_must_be_the_only_one() {
    let (one, two) = (Signer::ed("one", 1), Signer::p256());
    let keys = KeyFile::new(&[one.jwk()]);
    let unnamed = |it: &Signer| it.sign_texts(&json!({"alg": it.algorithm}).to_string(), &good().to_string());
    let auth = open(&block(&keys.place(), EVERYTHING)).await.unwrap();
    assert_eq!(auth.class(&unnamed(&one)).await, "taken");
    keys.publish(&[one.jwk(), two.jwk()]);
    let auth = open(&block(&keys.place(), EVERYTHING)).await.unwrap();
    assert_eq!(auth.class(&unnamed(&one)).await, "unknown_key");
    assert_eq!(auth.class(&unnamed(&two)).await, "unknown_key");
    assert_eq!(
        (auth.class(&one.sign(&good())).await, auth.class(&two.sign(&good())).await),
        ("taken".into(), "taken".into())
    );
    // One that may not be used is none to choose from.
    let only_es256 = EVERYTHING.replace(", \"EdDSA\"", "");
    let auth = open(&block(&keys.place(), &only_es256)).await.unwrap();
    assert_eq!(auth.class(&unnamed(&two)).await, "taken");
}

#[tokio::test]
async fn r2_a_key_for_something_else_than_signatures_is_not_used() {
    let (signer, other) = (Signer::rsa(Algorithm::RS256), Signer::ed("other", 2));
    for (name, value) in [
        ("use", json!("enc")),
        ("use", json!("SIG")),
        ("use", json!(null)),
        ("key_ops", json!(["encrypt"])),
        ("key_ops", json!("verify")),
        ("alg", json!("RSA-OAEP")),
        ("alg", json!("HS256")),
        ("alg", json!("ES256")),
        ("alg", json!(null)),
        ("kty", json!("oct")),
        ("kty", json!("EC")),
        ("d", json!("AQAB")),
        ("n", json!("AQAB")),
        ("n", json!("")),
        ("n", json!("!")),
        ("e", json!("")),
        ("e", json!("Ag")),
        ("kid", json!(5)),
    ] {
        let mut jwk = signer.jwk();
        jwk[name] = value;
        let keys = KeyFile::new(&[jwk.clone(), other.jwk()]);
        let auth = open(&block(&keys.place(), EVERYTHING)).await.unwrap();
        assert_eq!(auth.class(&signer.sign(&good())).await, "unknown_key", "{jwk}");
    }
}

#[tokio::test]
async fn r2_a_key_is_good_for_its_own_algorithms() {
    let mut jwk = Signer::rsa(Algorithm::RS256).jwk();
    for algorithm in
        [Algorithm::RS256, Algorithm::RS384, Algorithm::RS512, Algorithm::PS256, Algorithm::PS384, Algorithm::PS512]
    {
        let signer = Signer::rsa(algorithm);
        // A key that does not say for which one is good for those of its sort.
        jwk.as_object_mut().unwrap().remove("alg");
        let auth = open(&block(&KeyFile::new(&[jwk.clone()]).place(), EVERYTHING)).await.unwrap();
        assert_eq!(auth.class(&signer.sign(&good())).await, "taken", "{algorithm:?}");
        jwk["alg"] = "RS256".into();
        let auth = open(&block(&KeyFile::new(&[jwk.clone()]).place(), EVERYTHING)).await.unwrap();
        let expected = if algorithm == Algorithm::RS256 { "taken" } else { "bad_algorithm" };
        assert_eq!(auth.class(&signer.sign(&good())).await, expected, "{algorithm:?}");
    }
    for signer in [Signer::p256(), Signer::p384(), Signer::ed("ed", 9)] {
        let keys = KeyFile::new(&[signer.jwk()]);
        let auth = open(&block(&keys.place(), EVERYTHING)).await.unwrap();
        assert_eq!(auth.class(&signer.sign(&good())).await, "taken", "{:?}", signer.algorithm);
        for other in
            ["RS256", "PS256", "ES256", "ES384", "EdDSA"].map(|it| (it, json!({"alg": it, "kid": signer.name})))
        {
            let is_its_own = other.0 == format!("{:?}", signer.algorithm);
            let token = signer.sign_texts(&other.1.to_string(), &good().to_string());
            assert_eq!(auth.class(&token).await, if is_its_own { "taken" } else { "bad_algorithm" }, "{}", other.0);
        }
        // What is not allowed is refused whatever the key could do.
        let others = EVERYTHING.replace(&format!("\"{:?}\"", signer.algorithm), "\"RS256\"");
        let mixed = KeyFile::new(&[signer.jwk(), Signer::rsa(Algorithm::RS256).jwk()]);
        let auth = open(&block(&mixed.place(), &others)).await.unwrap();
        assert_eq!(auth.class(&signer.sign(&good())).await, "bad_algorithm");
    }
}

#[tokio::test]
async fn r2_keys_that_no_verifier_should_see_are_left_out() {
    let good_key = Signer::ed("good", 1);
    let weak = Signer::weak().named("weak");
    let mut short = Signer::ed("short", 3).jwk();
    short["x"] = BASE64_URL_SAFE_NO_PAD.encode([3; 31]).into();
    let mut long = Signer::ed("long", 3).jwk();
    long["x"] = BASE64_URL_SAFE_NO_PAD.encode([3; 33]).into();
    let mut off_curve = Signer::p256().named("off").jwk();
    off_curve["y"] = off_curve["x"].clone();
    let mut other_curve = Signer::p256().named("crv").jwk();
    other_curve["crv"] = "P-384".into();
    let mut sloppy = Signer::ed("sloppy", 3).jwk();
    sloppy["x"] = json!(["x"]);
    let odd =
        [weak.jwk(), short, long, off_curve, other_curve, sloppy, json!(null), json!({}), json!("key"), json!([])];
    let keys = KeyFile::new(&[&odd[..], &[good_key.jwk()]].concat());
    let auth = open(&block(&keys.place(), EVERYTHING)).await.unwrap();
    assert_eq!(auth.keys()[0].usable, Some(1));
    assert_eq!(auth.class(&weak.sign(&good())).await, "unknown_key");
    assert_eq!(auth.class(&good_key.sign(&good())).await, "taken");
}

#[tokio::test]
async fn r2_two_keys_of_one_name_are_told_apart_by_their_algorithm_or_not_at_all() {
    let (ed, ec) = (Signer::ed("k", 1), Signer::p256().named("k"));
    let keys = KeyFile::new(&[ed.jwk(), ec.jwk()]);
    let auth = open(&block(&keys.place(), EVERYTHING)).await.unwrap();
    assert_eq!(
        (auth.class(&ed.sign(&good())).await, auth.class(&ec.sign(&good())).await),
        ("taken".into(), "taken".into())
    );
    keys.publish(&[ed.jwk(), Signer::ed("k", 2).jwk()]);
    let auth = open(&block(&keys.place(), EVERYTHING)).await.unwrap();
    assert_eq!(auth.class(&ed.sign(&good())).await, "unknown_key");
}

fn parts(token: &str) -> (&str, &str, &str) {
    let mut parts = token.split('.');
    (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap())
}

#[tokio::test]
async fn only_what_was_signed_is_believed() {
    let (auth, signer, _keys) = with_one_key().await;
    let (good, other) = (signer.sign(&good()), signer.sign(&claims(&json!({"sub": "priya"}))));
    let ((header, claims, signature), (_, others, _)) = (parts(&good), parts(&other));
    assert_eq!(auth.class(&format!("{header}.{others}.{signature}")).await, "bad_signature");
    assert_eq!(auth.class(&format!("{header}.{claims}.")).await, "bad_signature");
    assert_eq!(auth.class(&format!("{header}.{claims}.{}", &signature[4..])).await, "bad_signature");
    assert_eq!(auth.class(&format!("{header}.{claims}.{signature}=")).await, "bad_signature");
    for (token, class) in [
        (format!("{header}.{claims}"), "unknown_token"),
        (format!("{good}.{signature}"), "unknown_token"),
        (format!("{header}.{claims}.{signature}.a.b"), "unknown_token"),
        (format!(".{claims}.{signature}"), "malformed"),
        (format!("{header}..{signature}"), "malformed"),
        (format!("{header}.e30.{signature}"), "wrong_issuer"),
        (format!("{header}.W10.{signature}"), "malformed"),
        (format!("{header}.{claims}=.{signature}"), "malformed"),
        ("..".into(), "malformed"),
    ] {
        assert_eq!(auth.class(&token).await, class, "{token}");
    }
}

#[tokio::test]
async fn headers_that_change_the_meaning_or_are_unclear_are_refused() {
    let (auth, signer, _keys) = with_one_key().await;
    for (header, class) in [
        (r#"{"alg":"RS256","kid":"rsa"}"#, "taken"),
        (r#"{"alg":"RS256","kid":"rsa","typ":"JWT"}"#, "taken"),
        (r#"{"alg":"RS256","kid":"rsa","typ":"application/AT+jwt"}"#, "taken"),
        (r#"{"alg":"RS256","kid":"rsa","cty":"x","zip":"DEF","nonsense":{}}"#, "taken"),
        (r#"{"alg":"RS256","kid":"rsa","typ":"logout+jwt"}"#, "wrong_type"),
        (r#"{"alg":"RS256","kid":"rsa","typ":""}"#, "wrong_type"),
        (r#"{"alg":"RS256","kid":"rsa","typ":["JWT"]}"#, "malformed"),
        (r#"{"alg":"RS256","kid":"rsa","crit":[]}"#, "malformed"),
        (r#"{"alg":"RS256","kid":"rsa","crit":["exp"]}"#, "malformed"),
        (r#"{"alg":"RS256","kid":"rsa","crit":null}"#, "malformed"),
        (r#"{"alg":"RS256","kid":"rsa","b64":false}"#, "malformed"),
        (r#"{"alg":"RS256","kid":["rsa"]}"#, "malformed"),
        (r#"{"alg":"RS256","kid":null}"#, "malformed"),
        (r#"{"alg":"RS256","kid":"rsa","kid":"rsa"}"#, "malformed"),
        (r#"{"alg":"none","alg":"RS256","kid":"rsa"}"#, "malformed"),
        (r#"{"alg":"RS256","kid":"rsa"}}"#, "malformed"),
        ("alg", "malformed"),
    ] {
        assert_eq!(auth.class(&signer.sign_texts(header, &good().to_string())).await, class, "{header}");
    }
    let twice = good().to_string().replace(r#""sub":"dana""#, r#""sub":"priya","sub":"dana""#);
    let header = signer.header().to_string();
    assert_eq!(auth.class(&signer.sign_texts(&header, &twice)).await, "bad_claims");
    let nested = good().to_string().replace(r#""sub":"dana""#, r#""sub":"dana","a":{"b":1,"b":2}"#);
    assert_eq!(auth.class(&signer.sign_texts(&header, &nested)).await, "bad_claims");
    assert_eq!(auth.class(&signer.sign_texts(&header, "{")).await, "malformed");
}
