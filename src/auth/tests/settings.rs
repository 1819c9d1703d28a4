//! A server does not start half-configured.

use super::{EVERYTHING, KeyFile, Signer, block, open, told};

/// What is wrong with an issuer whose keys are fine otherwise.
async fn problems(more: &str) -> String {
    let keys = KeyFile::new(&[Signer::ed("k", 1).jwk()]);
    let opened = open(&block(&keys.place(), more)).await;
    told(&opened.map(drop).unwrap_err())
}

#[tokio::test]
async fn an_issuer_that_says_nothing_is_told_everything_that_is_missing() {
    let opened = open("[[auth.issuers]]\nissuer = \"https://i.example\"").await;
    insta::assert_snapshot!(told(&opened.unwrap_err()), @r#"
    auth.issuers `https://i.example`: nothing says which `audience` its tokens must have; write what the issuer calls this server, say `audience = "countersign"`
    auth.issuers `https://i.example`: no `algorithms` are allowed; write those that the issuer signs with, say `algorithms = ["RS256"]`
    auth.issuers `https://i.example`: nothing says where its keys are; write `jwks_url = "https://.."`, or `jwks_file = ".."`
    auth.issuers `https://i.example`: nothing says which tenant its actors have; write `tenant = ".."` for all its actors, or `claims.tenant` for the claim that tells
    auth.issuers `https://i.example`: nothing says which kind its actors have; write `kind = "user"` (or another kind) for all its actors, or `claims.kind` for the claim that tells
    "#);
}

#[tokio::test]
async fn an_issuer_that_says_too_much_is_told_what_to_drop() {
    let text = r#"
        audience = ["us", ""]
        jwks_url = "https://i.example/keys"
        jwks_file = "keys.json"
        algorithms = ["HS256", "none", "RS256", "rs256"]
        tenant = "a"
        kind = "service"
        approver_clients = ["ui"]
        leeway = "1h"
        cooldown = "0s"
        keep_keys = "30s"
        claims = { tenant = "t", kind = "k", roles = "/a~2", scopes = "", name = "/~", attributes = { x = "" } }
    "#;
    let block = format!("[[auth.issuers]]\nissuer = \"\"\n{text}");
    insta::assert_snapshot!(told(&open(&block).await.unwrap_err()), @r#"
    auth.issuers[0]: `issuer` is blank, too long, or has control characters; write what its tokens have in `iss`
    auth.issuers[0]: nothing says which `audience` its tokens must have; write what the issuer calls this server, say `audience = "countersign"`
    auth.issuers[0]: `leeway` is out of bounds; choose 0s to 5m
    auth.issuers[0]: `cooldown` is out of bounds; choose 1s to 1h
    auth.issuers[0]: `keep_keys` is out of bounds; choose 1m to 24h
    auth.issuers[0]: `HS256` signs with a secret that whoever verifies could sign with too; let the issuer sign with a key pair: RS256, ES256, EdDSA
    auth.issuers[0]: `none` is no signature algorithm that is taken; write those that the issuer signs with, say `algorithms = ["RS256"]`
    auth.issuers[0]: `rs256` is no signature algorithm that is taken; write those that the issuer signs with, say `algorithms = ["RS256"]`
    auth.issuers[0]: both `jwks_url` and `jwks_file` say where its keys are; keep one
    auth.issuers[0]: both `tenant` and `claims.tenant` say which tenant its actors have; keep one
    auth.issuers[0]: both `kind` and `claims.kind` say which kind its actors have; keep one
    auth.issuers[0]: `approver_clients` are named, and none of its actors is a `user`; only people decide: drop `approver_clients`, or the fixed `kind`
    auth.issuers[0]: `claims.roles` is empty, or no JSON Pointer; write a claim's name, or a JSON Pointer such as `/realm_access/roles`
    auth.issuers[0]: `claims.scopes` is empty, or no JSON Pointer; write a claim's name, or a JSON Pointer such as `/realm_access/roles`
    auth.issuers[0]: `claims.name` is empty, or no JSON Pointer; write a claim's name, or a JSON Pointer such as `/realm_access/roles`
    auth.issuers[0]: `claims.attributes.x` is empty, or no JSON Pointer; write a claim's name, or a JSON Pointer such as `/realm_access/roles`
    "#);
}

#[tokio::test]
async fn keys_come_over_connections_that_nobody_else_reads() {
    for url in [
        "http://i.example/keys",
        "http://127.0.0.1.i.example/keys",
        "http://10.0.0.1/keys",
        "ftp://i.example/keys",
        "file:///etc/keys.json",
        "https://user@i.example/keys",
        "https://user:secret@i.example/keys",
        "i.example/keys",
        "",
    ] {
        let opened = open(&block(&format!("jwks_url = \"{url}\""), EVERYTHING)).await;
        assert_eq!(
            told(&opened.unwrap_err()),
            "auth.issuers `https://i.example`: `jwks_url` is no https URL without a user and a password; \
             write an https URL (http only to this machine itself)",
            "{url}"
        );
    }
}

#[tokio::test]
async fn a_file_of_keys_must_be_there_and_have_one_that_can_be_used() {
    let keys = KeyFile::new(&[Signer::ed("k", 1).jwk()]);
    let mut said = Vec::new();
    for text in ["{\"keys\": []}", "{\"keys\": {}}", "[]", "{", "{\"keys\":[],\"keys\":[]}", ""] {
        keys.write(text);
        said.push(told(&open(&block(&keys.place(), EVERYTHING)).await.unwrap_err()));
    }
    keys.publish(&vec![Signer::ed("k", 1).jwk(); 101]);
    said.push(told(&open(&block(&keys.place(), EVERYTHING)).await.unwrap_err()));
    keys.write(&format!("{{\"keys\": []}}{}", " ".repeat(1 << 20)));
    said.push(told(&open(&block(&keys.place(), EVERYTHING)).await.unwrap_err()));
    let said = said.join("\n").replace(&keys.0.path().display().to_string(), "KEYS");
    let directory = told(&open(&block("jwks_file = \"/\"", EVERYTHING)).await.unwrap_err());
    let missing = told(&open(&block("jwks_file = \"missing\"", EVERYTHING)).await.unwrap_err());
    insta::assert_snapshot!([said, directory, missing].join("\n"), @"
    auth.issuers `https://i.example`: `KEYS` has no key that could verify an allowed algorithm; save the issuer's JWK Set there, with its public keys for signatures
    auth.issuers `https://i.example`: `KEYS`: the key set cannot be read: it is no JSON text of an object with a list `keys`, without repeated members, of at most 1 MiB; save the issuer's JWK Set there, with its public keys for signatures
    auth.issuers `https://i.example`: `KEYS`: the key set cannot be read: it is no JSON text of an object with a list `keys`, without repeated members, of at most 1 MiB; save the issuer's JWK Set there, with its public keys for signatures
    auth.issuers `https://i.example`: `KEYS`: the key set cannot be read: it is no JSON text of an object with a list `keys`, without repeated members, of at most 1 MiB; save the issuer's JWK Set there, with its public keys for signatures
    auth.issuers `https://i.example`: `KEYS`: the key set cannot be read: it is no JSON text of an object with a list `keys`, without repeated members, of at most 1 MiB; save the issuer's JWK Set there, with its public keys for signatures
    auth.issuers `https://i.example`: `KEYS`: the key set cannot be read: it is no JSON text of an object with a list `keys`, without repeated members, of at most 1 MiB; save the issuer's JWK Set there, with its public keys for signatures
    auth.issuers `https://i.example`: `KEYS`: the key set cannot be read: it has 101 keys, and at most 100 are taken; save the issuer's JWK Set there, with its public keys for signatures
    auth.issuers `https://i.example`: `KEYS`: the key set is longer than 1 MiB; save the issuer's JWK Set there, with its public keys for signatures
    auth.issuers `https://i.example`: `/`: it is not a regular file; save the issuer's JWK Set there, with its public keys for signatures
    auth.issuers `https://i.example`: `/nonexistent/missing`: the file cannot be read: No such file or directory (os error 2); save the issuer's JWK Set there, with its public keys for signatures
    ");
}

#[tokio::test]
async fn everything_that_is_wrong_is_told_at_once_with_the_tokens() {
    let both = format!(
        "[[auth.tokens]]\nname = \"a\"\nsha256 = \"\"\nid = \"a\"\nkind = \"user\"\n{}{}",
        block("jwks_file = \"missing\"", EVERYTHING),
        block("jwks_file = \"missing\"", ""),
    );
    let problems = open(&both).await.unwrap_err();
    assert_eq!(problems.len(), 6, "{}", told(&problems));
    let more = problems_of_tenant().await;
    assert_eq!(
        more,
        "auth.issuers `https://i.example`: `tenant` is empty, too long, or has control characters; write `tenant = \"..\"` for all its actors, or `claims.tenant` for the claim that tells"
    );
}

async fn problems_of_tenant() -> String {
    problems(&EVERYTHING.replace("acme", "")).await
}

#[test]
fn unknown_keys_and_values_of_another_sort_are_errors() {
    let read = |more: &str| {
        let text = block("jwks_file = \"keys.json\"", more);
        toml::from_str::<crate::config::Config>(&text).is_ok()
    };
    assert!(read(""));
    for more in [
        "audiences = []",
        "leeway = 60",
        "leeway = \"60\"",
        "leeway = \"-1s\"",
        "kind = \"person\"",
        "algorithms = \"RS256\"",
        "claims = { role = \"roles\" }",
        "claims = { attributes = \"x\" }",
        "secret = \"x\"",
    ] {
        assert!(!read(more), "{more}");
    }
}
