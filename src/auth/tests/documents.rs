//! docs/auth.md: what it shows works, and what there is it names.

use std::process::Command;

use serde_json::Value;

use super::{Auth, AuthFailure, AuthSettings, Clock, Signer, told};
use crate::testing::START;

const PAGE: &str = include_str!("../../../docs/auth.md");

/// The blocks of code in this language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    PAGE.split(&fence).skip(1).map(|it| it.split("```").next().unwrap()).collect()
}

/// Opens a configuration of the page in a directory with the issuer's keys. Nobody is asked for keys over the network.
async fn opened(text: &str, signer: &Signer) -> Auth {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("keys")).unwrap();
    let keys = serde_json::json!({"keys": [signer.jwk()]}).to_string();
    std::fs::write(directory.path().join("keys/id.example.com.json"), keys).unwrap();
    let nobody = "jwks_url = \"http://127.0.0.1:9/";
    let settings = super::read(&text.replace("jwks_url = \"https://id.example.com/", nobody));
    let opened = Auth::open(&settings, directory.path(), Clock::manual(START)).await;
    opened.unwrap_or_else(|problems| panic!("{text}\n{}", told(&problems)))
}

#[tokio::test]
async fn the_configurations_of_the_page_open() {
    let blocks = blocks("toml");
    assert_eq!(blocks.len(), 3);
    for block in blocks {
        assert!(!opened(block, &Signer::ed("k", 1)).await.is_empty());
    }
}

#[tokio::test]
async fn the_command_of_the_page_makes_the_hash_that_the_page_shows() {
    let [command] = blocks("sh")[..] else { panic!("one command") };
    let ran = Command::new("sh").args(["-c", command]).output().unwrap();
    let hash = String::from_utf8(ran.stdout).unwrap();
    let token = command.split(' ').nth(2).unwrap();
    let auth = opened(blocks("toml")[0], &Signer::ed("k", 1)).await;
    let dana = auth.take(token).await.unwrap();
    assert_eq!((dana.identity.actor().unwrap().id.as_str(), dana.person), ("dana", true));
    assert!(blocks("toml")[0].contains(hash.split(' ').next().unwrap()), "{hash}");
}

#[tokio::test]
async fn the_token_of_the_page_stands_for_the_actor_of_the_page() {
    let signer = Signer::ed("k", 1);
    let auth = opened(blocks("toml")[2], &signer).await;
    let [says, stands_for] = blocks("json")[..] else { panic!("claims, and an actor") };
    let taken = auth.take(&signer.sign_texts(&signer.header().to_string(), says)).await.unwrap();
    let stands_for: Value = serde_json::from_str(stands_for).unwrap();
    assert_eq!(serde_json::to_value(&taken.identity).unwrap(), stands_for);
    assert!(!taken.person);
}

#[test]
fn the_page_names_every_reason_and_every_key() {
    for it in AuthFailure::ALL {
        assert!(PAGE.contains(&format!("\n| `{it}` |")), "{it}");
    }
    // What there is, as a reader of an unknown key is told.
    let keys = |text: &str| {
        let told = toml::from_str::<AuthSettings>(text).unwrap_err().to_string();
        let (_, keys) = told.split_once("expected one of ").unwrap();
        keys.split('`').skip(1).step_by(2).map(Into::into).collect::<Vec<String>>()
    };
    let token = keys("[[tokens]]\nnothing = 1");
    let issuer = keys("[[issuers]]\nnothing = 1");
    let claims = keys("[[issuers]]\n[issuers.claims]\nnothing = 1");
    assert_eq!((token.len(), issuer.len(), claims.len()), (12, 13, 7));
    for key in token.iter().chain(&claims) {
        assert!(PAGE.lines().any(|it| it.starts_with(&format!("{key} = "))), "{key}");
    }
    for key in &issuer {
        assert!(PAGE.lines().any(|it| it.starts_with("| `") && it.contains(&format!("`{key}`"))), "{key}");
    }
}
