//! Static tokens.

use sha2::{Digest as _, Sha256};

use super::{AuthFailure, bearer, open, told};
use crate::Identity;
use crate::actor::Actor;
use crate::audit::hex;
use crate::testing::START;

fn hash(token: &str) -> String {
    hex(&Sha256::digest(token.as_bytes()))
}

fn block(name: &str, token: &str, more: &str) -> String {
    let sha256 = hash(token);
    format!("[[auth.tokens]]\nname = \"{name}\"\nsha256 = \"{sha256}\"\nid = \"{name}\"\nkind = \"user\"\n{more}\n")
}

#[tokio::test]
async fn a_token_stands_for_the_actor_that_is_configured() {
    let more = r#"
        tenant = "acme"
        display_name = "Priya"
        roles = ["manager"]
        scopes = ["read"]
        attributes = { level = 3 }
        client = "desk"
        human = true
        expires = 2026-01-01T01:00:00Z"#;
    let auth = open(&format!("{}{}", block("priya", "csgn_p", more), block("dana", "csgn_d", ""))).await.unwrap();
    let priya = auth.identify(Some("Bearer csgn_p")).await.unwrap();
    let mut actor = Actor::user("priya").name("Priya").role("manager").attribute("level", 3);
    actor.scopes.push("read".into());
    assert_eq!(priya.identity, Identity::new(actor).tenant("acme").client("desk"));
    assert_eq!((priya.person, priya.expires), (true, Some(START.plus(std::time::Duration::from_hours(1)))));
    let dana = auth.identify(Some("bEARER   csgn_d ")).await.unwrap();
    assert_eq!((dana.identity, dana.person, dana.expires), (Identity::new(Actor::user("dana")), false, None));
}

#[tokio::test]
async fn no_credential_is_nobody_and_a_bad_one_is_refused() {
    let auth = open(&block("dana", "csgn_d", "")).await.unwrap();
    let nobody = auth.identify(None).await.unwrap();
    assert_eq!((nobody.identity, nobody.person), (Identity::none(), false));
    for (text, class) in [
        ("Bearer csgn_e", AuthFailure::UnknownToken),
        ("Bearer csgn_D", AuthFailure::UnknownToken),
        ("Bearer csgn_d=", AuthFailure::UnknownToken),
        ("Bearer a.b.c", AuthFailure::UnknownToken),
        ("", AuthFailure::Malformed),
        ("Bearer", AuthFailure::Malformed),
        ("Bearer ", AuthFailure::Malformed),
        ("Bearer ==", AuthFailure::Malformed),
        ("Bearer csgn_d csgn_d", AuthFailure::Malformed),
        ("Bearer csgn_d, Bearer csgn_d", AuthFailure::Malformed),
        ("Bearer\tcsgn_d", AuthFailure::Malformed),
        ("Bearer csgn\u{e9}", AuthFailure::Malformed),
        ("csgn_d", AuthFailure::Malformed),
        ("Basic csgn_d", AuthFailure::Malformed),
    ] {
        assert_eq!(auth.identify(Some(text)).await.unwrap_err(), class, "{text}");
    }
}

#[test]
fn a_credential_beyond_the_cap_is_not_looked_at() {
    let fits = format!("Bearer {}", "a".repeat(16 * 1024));
    assert!(bearer(&fits).is_some());
    assert_eq!(bearer(&format!("{fits}a")), None);
}

#[tokio::test]
async fn a_token_is_refused_from_its_expiry_on() {
    let text = block("dana", "t", "expires = \"2026-01-01T00:00:00Z\"")
        + &block("omar", "u", "expires = \"2026-01-01T00:00:01Z\"");
    let auth = open(&text).await.unwrap();
    assert_eq!(auth.identify(Some("Bearer t")).await.unwrap_err(), AuthFailure::Expired);
    assert!(auth.identify(Some("Bearer u")).await.is_ok());
}

#[tokio::test]
async fn everything_that_is_wrong_with_tokens_is_told_at_once() {
    let nothing = hash("");
    let text = [
        block("dana", "t", ""),
        block("dana", "t", ""),
        block("", "u", "tenant = \"\""),
        block("nightly", "v", "human = true").replace("\"user\"", "\"automation\""),
        block("omar", "w", "attributes = { since = 2026-01-01T00:00:00Z }"),
        "[[auth.tokens]]\nname = \"short\"\nsha256 = \"abc\"\nid = \"a\\u0007\"\nkind = \"user\"\n".into(),
        format!("[[auth.tokens]]\nname = \"empty\"\nsha256 = \"{nothing}\"\nid = \"a\"\nkind = \"user\"\n"),
    ];
    insta::assert_snapshot!(told(&open(&text.concat()).await.unwrap_err()), @"
    auth.tokens `dana`: its name is empty, or another token's; give each token a name of its own
    auth.tokens `dana`: another token has the same `sha256`; make a token for each with `countersign token new`
    auth.tokens[2]: its name is empty, or another token's; give each token a name of its own
    auth.tokens[2]: `id`, `tenant` or `client` is blank, longer than 512 bytes, or has control characters; write 1 to 512 bytes, without control characters
    auth.tokens `nightly`: `human` is true, and its kind is not `user`; only people decide: drop `human`, or make it a user
    auth.tokens `omar`: the attribute `since` holds a date of TOML; write it as a text, in quotes
    auth.tokens `short`: `sha256` is not a SHA-256: 64 hexadecimal digits; run `countersign token new`, which prints the whole block
    auth.tokens `short`: `id`, `tenant` or `client` is blank, longer than 512 bytes, or has control characters; write 1 to 512 bytes, without control characters
    auth.tokens `empty`: `sha256` is the hash of nothing; hash the token itself, without a line end
    ");
}

#[test]
fn unknown_keys_and_values_of_another_sort_are_errors() {
    let read = |text: &str| toml::from_str::<crate::config::Config>(text).is_ok();
    assert!(read(&block("dana", "t", "")));
    for more in ["role = [\"x\"]", "expires = 5", "expires = 2026-01-01", "expires = \"soon\"", "human = \"yes\""] {
        assert!(!read(&block("dana", "t", more)), "{more}");
    }
    assert!(!read("[auth]\ntoken = []"));
    assert!(!read(&block("dana", "t", "").replace("\"user\"", "\"person\"")));
}
