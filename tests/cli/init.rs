//! `init`: what it writes loads, and its printed steps lead to a server.

use serde_json::json;

use super::Shell;
use super::serve::Served;

/// What follows `next:`, a command a line.
fn steps(printed: &str) -> Vec<Vec<String>> {
    let (_, steps) = printed.split_once("next:\n").unwrap();
    steps.lines().map(|it| it.split_whitespace().map(str::to_owned).collect()).collect()
}

#[test]
fn its_next_steps_lead_to_a_server() {
    let shell = Shell::new();
    let made = shell.run(&["init"]);
    assert_eq!(made.code, 0, "{}", made.err);
    assert_eq!(shell.run(&["doctor"]).code, 1, "nobody could call yet");
    let steps = steps(&made.out);
    let (last, before) = steps.split_last().unwrap();
    assert_eq!((before.len(), &last[..]), (3, &["countersign".to_owned(), "serve".to_owned()][..]));
    let mut token = String::new();
    for step in before {
        let words: Vec<&str> = step[1..].iter().map(String::as_str).collect();
        let ran = shell.run(&words);
        assert_eq!(ran.code, 0, "{words:?}: {}{}", ran.out, ran.err);
        if words.contains(&"dana") {
            ran.out.lines().next().unwrap().clone_into(&mut token);
        }
    }
    let served = Served::start(&shell, &["--listen", "127.0.0.1:0"]);
    let search = r#"{"input":{"query":"lamp"}}"#;
    assert_eq!(served.ask("POST /v1/capabilities/orders.search/invoke", &token, search).0, 200);
    let refund = r#"{"input":{"orderId":"ord_42","amountCents":64900,"reason":"Cracked."}}"#;
    assert_eq!(served.ask("POST /v1/capabilities/orders.refund/invoke", &token, refund).0, 202);
}

#[test]
fn what_it_writes_loads_without_a_remark() {
    let shell = Shell::new();
    assert_eq!(shell.run(&["init", "new/desk"]).code, 0);
    let checked = shell.run(&["policy", "check", "new/desk/policies", "--json"]);
    assert_eq!((checked.code, &checked.json()["problems"]), (0, &json!([])), "{}", checked.out);
    assert_eq!(shell.run(&["policy", "test", "new/desk/policies"]).code, 0);
    let schema = shell.run(&["policy", "schema", "--policies", "new/desk/policies", "--json"]).json();
    assert_eq!(schema["file"], "current");
}

#[test]
fn it_overwrites_nothing() {
    let shell = Shell::new();
    shell.write("policies/starter.cedar", "// mine\n");
    let ran = shell.run(&["init"]);
    assert_eq!(ran.code, 5);
    insta::assert_snapshot!(ran.err, @r#"
    error: `policies/starter.cedar` would be overwritten
      next: name another directory, or move it away: `countersign init DIR`
    "#);
    assert_eq!(std::fs::read_to_string(shell.path().join("policies/starter.cedar")).unwrap(), "// mine\n");
    assert!(!shell.path().join("countersign.toml").exists(), "all or nothing");
}

#[test]
fn a_directory_with_a_space_is_one_word_of_its_steps() {
    let shell = Shell::new();
    let ran = shell.run(&["init", "my desk", "--json"]).json();
    assert_eq!(ran["next"][0], "cd 'my desk'");
    assert_eq!(ran["written"].as_array().unwrap().len(), 4);
}

/// What is commented out in the configuration can be used.
#[test]
fn its_comments_are_keys_that_there_are() {
    let text = include_str!("../../src/cli/init/countersign.toml");
    let is_toml = |it: &str| it.starts_with('[') || it.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
    let commented = text.lines().filter_map(|it| it.strip_prefix("# ")).filter(|it| is_toml(it));
    let (own, rest): (Vec<&str>, Vec<&str>) = commented.partition(|it| it.starts_with("hosts"));
    assert!((own.len(), rest.len()) == (1, 16), "{own:?} {rest:?}");
    let shell = Shell::new();
    shell.write("c.toml", &format!("[http]\n{}\n{}\n", own.join("\n"), rest.join("\n")));
    let read = countersign::config::Config::read(Some(&shell.path().join("c.toml")), []);
    assert!(read.is_ok(), "{:?}", read.unwrap_err());
}
