//! `capabilities snapshot|check`: the gate as a pipeline of changes meets it.

use super::Shell;

const CHECK: [&str; 6] = ["capabilities", "check", "--snapshot", "governance.snap", "--policies", "policies"];

/// The demo's policies, agreed to.
fn agreed() -> Shell {
    let shell = Shell::new();
    for (name, text) in countersign::demo::POLICIES {
        shell.write(&format!("policies/{name}"), text);
    }
    let wrote = shell.run(&["capabilities", "snapshot", "--policies", "policies", "--out", "governance.snap"]);
    assert_eq!((wrote.code, &*wrote.out), (0, "written governance.snap\n"), "{}", wrote.err);
    shell
}

/// Without the gate for large refunds, and with more people who approve messages.
fn changed(shell: &Shell) {
    let approvals = countersign::demo::POLICIES[0].1;
    let (_, rest) = approvals.split_once("@id(\"managers-decide").unwrap();
    let rest = rest.replace("principal in Role::\"support\" || ", "");
    shell.write("policies/approvals.cedar", &format!("@id(\"managers-decide{rest}"));
}

fn check(shell: &Shell, format: &str) -> super::Ran {
    shell.run(&[&CHECK[..], &["--format", format]].concat())
}

#[test]
fn the_same_is_0_and_drift_is_1_in_every_format() {
    let shell = agreed();
    let same = shell.run(&CHECK);
    assert_eq!((same.code, same.out.starts_with("no drift: "), same.out.lines().count()), (0, true, 1), "{}", same.out);
    changed(&shell);
    let text = shell.run(&CHECK);
    assert_eq!(text.code, 1);
    insta::assert_snapshot!(text.out, @r#"
    widening: policy `refunds-over-500-need-a-manager`: the gate for approvals of type `manager` is gone, over `orders.refund`
    review: policy `colleagues-confirm-messages`: it holds of other calls: -`when (principal in Role::"support") || (principal in Role::"manager")`; +`when principal in Role::"manager"`
    2 differences: 1 widening, 1 review
      next: look at each; if all are meant: `countersign capabilities snapshot --out governance.snap`
    "#);
    let github = check(&shell, "github");
    assert_eq!(github.code, 1);
    insta::assert_snapshot!(github.out, @r#"
    ::error file=governance.snap,title=Governance%3A widening::widening: policy `refunds-over-500-need-a-manager`: the gate for approvals of type `manager` is gone, over `orders.refund`
    ::warning file=governance.snap,title=Governance%3A review::review: policy `colleagues-confirm-messages`: it holds of other calls: -`when (principal in Role::"support") || (principal in Role::"manager")`; +`when principal in Role::"manager"`
    2 differences: 1 widening, 1 review
    "#);
    let page = check(&shell, "md");
    assert_eq!(page.code, 1);
    insta::assert_snapshot!(page.out, @r#"
    ## Governance

    | change | of | what |
    |---|---|---|
    | widening | policy <code>refunds-over-500-need-a-manager</code> | the gate for approvals of type <code>manager</code> is gone, over <code>orders&#46;refund</code> |
    | review | policy <code>colleagues-confirm-messages</code> | it holds of other calls&#58; -<code>when (principal in Role&#58;&#58;"support") &#124;&#124; (principal in Role&#58;&#58;"manager")</code>; +<code>when principal in Role&#58;&#58;"manager"</code> |

    2 differences: 1 widening, 1 review
    "#);
    let json = check(&shell, "json");
    assert_eq!(json.code, 1);
    insta::assert_json_snapshot!(json.json(), @r#"
    {
      "same": false,
      "counts": {
        "widening": 1,
        "review": 1
      },
      "differences": [
        {
          "class": "widening",
          "subject": {
            "policy": "refunds-over-500-need-a-manager"
          },
          "what": "removed",
          "says": "the gate for approvals of type `manager` is gone, over `orders.refund`"
        },
        {
          "class": "review",
          "subject": {
            "policy": "colleagues-confirm-messages"
          },
          "what": "conditions",
          "says": "it holds of other calls: -`when (principal in Role::\"support\") || (principal in Role::\"manager\")`; +`when principal in Role::\"manager\"`"
        }
      ]
    }
    "#);
}

#[test]
fn what_cannot_be_looked_at_is_2() {
    let shell = agreed();
    let ends = |shell: &Shell| {
        let ran = check(shell, "json");
        assert_eq!((ran.code, &*ran.out), (2, ""), "{}", ran.err);
        let error: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
        error["error"]["message"].as_str().unwrap().to_owned()
    };
    shell.write("policies/bad.cedar", "permit (");
    assert!(ends(&shell).starts_with("what is governed cannot be read: "));
    std::fs::remove_file(shell.path().join("policies/bad.cedar")).unwrap();
    shell.write("governance.snap", "{}");
    assert!(ends(&shell).starts_with("`governance.snap`: the snapshot cannot be read"));
    std::fs::remove_file(shell.path().join("governance.snap")).unwrap();
    assert!(ends(&shell).starts_with("`governance.snap` cannot be read"));
    shell.write("governance.snap", "");
    shell.write("countersign.toml", "nonsense = 1\n");
    assert!(ends(&shell).contains("governance.snap"), "the snapshot is read first");
    assert_eq!(shell.run(&CHECK).code, 2);
}

#[test]
fn manifests_are_governed_without_the_secrets_that_they_run_with() {
    let shell = Shell::new();
    shell.write("countersign.toml", "policies = \"policies\"\n[capabilities]\ndirectory = \"capabilities\"\nendpoints = [\"https://app.example\"]\n");
    shell.write("policies/a.cedar", "@id(\"a\") permit (principal, action in Action::\"orders.*\", resource);");
    shell.write("capabilities/search.toml", SEARCH);
    let snapshot = shell.run(&["capabilities", "snapshot"]);
    assert_eq!(snapshot.code, 0, "{}", snapshot.err);
    assert!(snapshot.out.contains("\"id\": \"orders.search\""), "{}", snapshot.out);
    shell.write("governance.snap", &snapshot.out);
    assert_eq!(shell.run(&["capabilities", "check", "--snapshot", "governance.snap"]).code, 0);
    shell.write("capabilities/search.toml", &SEARCH.replace("risk = \"medium\"", "risk = \"low\""));
    let drifted = shell.run(&["capabilities", "check", "--snapshot", "governance.snap"]);
    assert_eq!(drifted.code, 1);
    assert!(drifted.out.starts_with("widening: capability `orders.search`: its risk was medium and is low\n"));
}

const SEARCH: &str = r#"id = "orders.search"
description = "Finds orders."
expose = ["http"]
side_effect = "read"
risk = "medium"

[input_schema]
type = "object"
additionalProperties = false

[output_schema]
type = "object"

[handler]
kind = "http"
url = "https://app.example/search"
sign = { env = "SHOP_SIGNING_KEY" }
"#;
