//! `token new`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Shell;

#[test]
fn a_token_is_shown_once_and_kept_as_its_hash() {
    let shell = Shell::new();
    let made = shell.run(&["token", "new", "--id", "dana", "--role", "support", "--role", "night", "--tenant", "acme"]);
    let token = made.out.lines().next().unwrap();
    assert!(token.starts_with("csgn_") && token.len() == 48, "{token}");
    let sha256 = made.out.lines().find_map(|it| it.strip_prefix("sha256 = \"")?.strip_suffix('"')).unwrap();
    insta::assert_snapshot!(made.out.replace(token, "TOKEN").replace(sha256, "SHA256"), @r#"
    TOKEN
    It is shown this once, and kept nowhere: the block below has its SHA-256.

    [[auth.tokens]]
    name = "dana"
    sha256 = "SHA256"
    id = "dana"
    kind = "user"
    tenant = "acme"
    roles = ["support", "night"]

    next: put the block into `countersign.toml`; what is served knows it after a restart
    "#);
    let mut digest = std::process::Command::new("sha256sum");
    let mut child = digest.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), token.as_bytes()).unwrap();
    let digest = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    assert!(digest.starts_with(sha256), "{digest}");
    assert_eq!(std::fs::read_dir(shell.path()).unwrap().count(), 0, "nothing was kept");
}

#[test]
fn no_two_tokens_are_the_same() {
    let shell = Shell::new();
    let tokens: BTreeSet<String> =
        (0..8).map(|_| shell.run(&["token", "new", "--json"]).json()["token"].as_str().unwrap().to_owned()).collect();
    assert_eq!(tokens.len(), 8);
}

#[test]
fn a_block_is_appended_to_a_configuration_that_stays_one() {
    let shell = Shell::new();
    shell.write("c.toml", "[log]\nformat = \"json\""); // no line's end
    let append = |id: &str| shell.run(&["token", "new", "--id", id, "--append", "c.toml", "--json"]);
    assert_eq!((append("a \"quoted\"\u{7f}").code, append("b").code), (0, 0));
    let config = countersign::config::Config::read(Some(&shell.path().join("c.toml")), []).unwrap();
    let ids: Vec<&str> = config.auth.tokens.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(ids, ["a \"quoted\"\u{7f}", "b"]);
    let text = std::fs::read_to_string(shell.path().join("c.toml")).unwrap();
    let token = append("c").json()["token"].as_str().unwrap().to_owned();
    assert!(!text.contains("csgn_") && !std::fs::read_to_string(shell.path().join("c.toml")).unwrap().contains(&token));
}

#[test]
fn what_does_not_fit_is_left_as_it_is() {
    let shell = Shell::new();
    for text in ["auth = { tokens = [] }\n", "databse = 1\n"] {
        shell.write("c.toml", text);
        let ran = shell.run(&["token", "new", "--append", "c.toml", "--json"]);
        let error: Value = serde_json::from_str(&ran.err).unwrap();
        assert_eq!((ran.code, error["error"]["problems"].as_array().unwrap().len()), (5, 1), "{error:#}");
        assert_eq!(std::fs::read_to_string(shell.path().join("c.toml")).unwrap(), text);
        assert_eq!(ran.out, "", "no token is shown that nobody knows");
    }
    let ran = shell.run(&["token", "new", "--kind", "service", "--human"]);
    assert_eq!((ran.code, ran.out.as_str()), (5, ""));
}
