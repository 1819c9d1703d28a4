//! `policy check`: what loads, what loads with warnings, and what does not.

use super::Shell;

const PERMIT: &str = r#"@id("all") permit (principal, action, resource);"#;
const CONFIRM: &str = r#"
@id("confirm") permit (principal in Role::"support", action == Countersign::Action::"approve", resource);"#;
/// A rule for capabilities that do not exist yet.
const FUTURE: &str = r#"
@id("future") @hide forbid (principal, action in Action::"effect/destructive", resource);"#;

#[test]
fn warnings_are_no_refusal_unless_they_are_denied() {
    let shell = Shell::new();
    shell.write("p/a.cedar", &format!("{PERMIT}{CONFIRM}"));
    let ran = shell.run(&["policy", "check", "p"]);
    let hash = shell.run(&["policy", "check", "p", "--json"]).json()["hash"].as_str().unwrap().to_owned();
    assert_eq!(ran.code, 0);
    insta::assert_snapshot!(ran.out.replace(&hash, "HASH"), @r#"
    a.cedar:1:1: warning: it permits every capability, those to come too (policy `all`)
      1 | @id("all") permit (principal, action, resource);
        | ^
      next: name actions or a group, as in `action in Action::"effect/read"`, or add a condition
    ok: 1 file, HASH
    "#);
    let denied = shell.run(&["policy", "check", "p", "--deny-warnings"]);
    assert_eq!(denied.code, 3);
    assert!(denied.out.ends_with("\n1 warning: this set would load, and warnings are denied\n"), "{}", denied.out);
    let machine = shell.run(&["policy", "check", "p", "--deny-warnings", "--json"]);
    assert_eq!(machine.code, 3);
    let mut json = machine.json();
    json["hash"] = "HASH".into();
    insta::assert_json_snapshot!(json, @r#"
    {
      "ok": false,
      "hash": "HASH",
      "problems": [
        {
          "file": "a.cedar",
          "line": 1,
          "column": 1,
          "policy": "all",
          "what": "it permits every capability, those to come too",
          "help": "name actions or a group, as in `action in Action::\"effect/read\"`, or add a condition",
          "excerpt": "@id(\"all\") permit (principal, action, resource);",
          "severity": "warning"
        }
      ]
    }
    "#);
}

#[test]
fn a_set_without_warnings_passes_and_the_demos_own_is_one() {
    let shell = Shell::new();
    let demo = shell.run(&["policy", "check", "--deny-warnings", "--json"]);
    assert_eq!((demo.code, &demo.json()["problems"]), (0, &serde_json::json!([])));
    let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/policies");
    assert_eq!(shell.run(&["policy", "check", repository, "--deny-warnings"]).code, 0);
}

#[test]
fn notes_are_no_warnings() {
    let shell = Shell::new();
    let some = PERMIT.replace(", resource)", ", resource) when { context.surface == \"direct\" }");

    shell.write("p/a.cedar", &format!("{some}{CONFIRM}{FUTURE}"));
    let ran = shell.run(&["policy", "check", "p", "--deny-warnings", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    let problems = ran.json()["problems"].clone();
    assert!(problems.as_array().unwrap().iter().all(|it| it["severity"] == "note"), "{problems}");
}

#[test]
fn a_stale_schema_is_a_warning_with_the_next_step() {
    let shell = Shell::new();
    shell.write(
        "p/a.cedar",
        &format!("{PERMIT}{CONFIRM}").replace("action, resource", "action in Action::\"orders.*\", resource"),
    );
    shell.write("p/countersign.cedarschema", "entity Old;");
    let problems = shell.run(&["policy", "check", "p", "--json"]).json()["problems"].clone();
    let of_it: Vec<_> =
        problems.as_array().unwrap().iter().filter(|it| it["file"] == "countersign.cedarschema").collect();
    assert_eq!(of_it.len(), 1);
    assert_eq!(of_it[0]["severity"], "warning");
    assert!(of_it[0]["help"].as_str().unwrap().contains("policy schema --policies DIR --write"));
}
