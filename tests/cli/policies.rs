//! Publishing, history and going back, over several processes on one database.

use serde_json::json;

use super::Shell;

const SEARCH: &[&str] = &["invoke", "orders.search", "--actor", "dana", "--input", r#"{"query":"lamp"}"#];

/// A database with the demo's policies, and a directory in which nobody may search.
fn desk() -> Shell {
    let shell = Shell::new();
    assert_eq!(shell.run(SEARCH).code, 0);
    for (name, text) in countersign::demo::POLICIES {
        shell.write(&format!("strict/{name}"), text);
    }
    let forbid = "@id(\"no-searches-today\") forbid (principal, action == Action::\"orders.search\", resource);";
    shell.write("strict/today.cedar", forbid);
    shell
}

#[test]
fn a_directory_is_published_for_every_process_and_an_earlier_set_comes_back() {
    let shell = desk();
    let published = shell.run(&["policy", "publish", "strict", "--actor", "priya", "--json"]);
    assert_eq!((published.code, &published.json()["changed"]), (0, &json!(true)), "{}", published.err);
    assert_eq!(shell.run(SEARCH).code, 2, "the demo's own policies are the same proposal as before");
    let listed = shell.run(&["capabilities", "list", "--actor", "dana"]).out;
    assert!(listed.contains("orders.get") && !listed.contains("orders.search"), "{listed}");

    let history = shell.run(&["policy", "history", "--json"]).json();
    let (now, before) = (&history[0], &history[1]);
    assert_eq!(now["policyHash"], published.json()["hash"]);
    assert_eq!(now["changes"], json!({"added": ["no-searches-today"]}));
    assert_eq!(
        (&now["via"], &now["actor"]["id"], &now["origin"]),
        (&json!("cli"), &json!("priya"), &json!("published"))
    );
    assert!(now["actor"]["issuer"].as_str().unwrap().starts_with("cli:"), "who sat there");
    assert_eq!((&before["kept"], &before["active"], &before["actor"]), (&json!(true), &json!(false), &json!(null)));

    let prefix = &before["policyHash"].as_str().unwrap()[..19];
    let text = shell.run(&["policy", "history"]).out;
    assert!(text.contains("published by priya via cli  +no-searches-today"), "{text}");
    assert!(text.contains("from files") && text.contains(" and 8 more"), "{text}");
    assert!(text.ends_with(&format!("next: countersign policy rollback {prefix} --actor NAME\n")), "{text}");
    let back = shell.run(&["policy", "rollback", prefix, "--actor", "priya"]);
    assert_eq!((back.code, back.out.starts_with("active sha256:")), (0, true), "{}{}", back.out, back.err);
    assert_eq!(shell.run(SEARCH).code, 0);
    let latest = shell.run(&["policy", "history", "--limit", "1", "--actor", "priya", "--json"]).json();
    assert_eq!((latest.as_array().unwrap().len(), &latest[0]["origin"]), (1, &json!("rolled_back")));
}

#[test]
fn refusals_name_their_cause_and_the_next_step() {
    let shell = desk();
    let denied = shell.run(&["policy", "publish", "strict", "--actor", "dana"]);
    insta::assert_snapshot!(denied.err, @r#"
    error: No policy permits this call. (POLICY_DENIED)
      next: let somebody do it whom the active policies permit `publish_policies`
    "#);
    assert_eq!(denied.code, 2);
    assert_eq!(shell.run(&["policy", "publish", "strict"]).code, 2, "nobody");
    assert_eq!(shell.run(&["policy", "history", "--actor", "dana"]).code, 2);

    let unknown = shell.run(&["policy", "rollback", "sha256:0000000", "--actor", "priya"]);
    insta::assert_snapshot!(unknown.err, @r#"
    error: The input is not valid. (INPUT_INVALID)
      path /hash, keyword enum
      next: see what is kept: `countersign policy history`
    "#);
    assert_eq!(unknown.code, 3);

    shell.write("strict/today.cedar", "@id(\"x\") forbid (principal, action == Action::\"orders.serch\", resource);");
    let bad = shell.run(&["policy", "publish", "strict", "--actor", "priya"]);
    insta::assert_snapshot!(bad.err, @r#"
    error: the policies do not load: 1 problem
    today.cedar:1:39: error: unrecognized action `Action::"orders.serch"` (policy `x`)
      1 | @id("x") forbid (principal, action == Action::"orders.serch", resource);
        |                                       ^
      next: did you mean `Action::"orders.search"`?
      next: correct them, and look again: `countersign policy check DIR`
    "#);
    assert_eq!(bad.code, 3);
    let bad = shell.run(&["policy", "publish", "strict", "--actor", "priya", "--json"]);
    assert_eq!((bad.code, &*bad.out, bad.err.contains(r#""problems":[{"#)), (3, "", true), "{}", bad.err);
    assert_eq!(shell.run(&["policy", "publish", "nowhere", "--actor", "priya"]).code, 5);
    assert_eq!(shell.run(&["policy", "history", "--db", "sqlite:none.db"]).code, 5);
    assert_eq!(shell.run(SEARCH).code, 0, "nothing changed");
}
