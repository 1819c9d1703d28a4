//! `comments erase`: the text is gone for good, that it is gone is on record, and every proof stays valid.

use serde_json::{Value, json};

use super::Shell;
use super::export::shell;

const TEXT: &str = "because-canary-91c";

/// Asks for a refund and has it approved, with a comment.
fn decided(shell: &Shell, order: &str) -> String {
    let input = json!({"orderId": order, "amountCents": 64_900, "reason": "x"}).to_string();
    let asked = shell.run(&["invoke", "orders.refund", "--actor", "dana", "--input", &input, "--json"]);
    let id = asked.json()["approval"]["id"].as_str().unwrap().to_owned();
    let ran = shell.run(&["approvals", "approve", &id, "--actor", "priya", "--comment", TEXT]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    id
}

/// Whether any file of the database has the text.
fn is_there(shell: &Shell) -> bool {
    let files = std::fs::read_dir(shell.path()).unwrap().map(|it| it.unwrap().path()).filter(|it| it.is_file());
    files.map(|it| std::fs::read(it).unwrap()).any(|it| it.windows(TEXT.len()).any(|it| it == TEXT.as_bytes()))
}

fn erase(shell: &Shell, more: &[&str]) -> (i32, Value) {
    let ran = shell.run(&[&["comments", "erase", "--json"], more].concat());
    (ran.code, if ran.out.is_empty() { json!(ran.err) } else { ran.json() })
}

fn verified(shell: &Shell) -> (i32, Value) {
    let ran = shell.run(&["audit", "verify", "--key", "log.key.pub", "--json"]);
    (ran.code, ran.json()["findings"].clone())
}

#[test]
fn erasing_keeps_every_proof_valid_and_the_text_nowhere() {
    let shell = shell();
    let id = decided(&shell, "ord_43");
    assert_eq!(shell.run(&["audit", "checkpoint"]).code, 0);
    assert!(is_there(&shell));
    assert_eq!(shell.run(&["audit", "export", "--out", "before"]).code, 0);
    let events = shell.run(&["audit", "list", "--type", "capability.approved", "--json"]).json();
    let seq = events[0]["seq"].to_string();
    assert!(events[0]["data"]["comment"].as_str().unwrap().starts_with("sha256:"), "{events}");
    assert_eq!(shell.run(&["audit", "prove", &seq, "--out", "proof"]).code, 0);

    assert_eq!(erase(&shell, &["--approval", &id]), (0, json!({"erased": 1})));
    assert!(!is_there(&shell), "not in the database, nor beside it");
    assert_eq!(erase(&shell, &["--approval", &id]), (0, json!({"erased": 0})));

    let told = shell.run(&["audit", "list", "--type", "capability.comments_erased", "--json"]).json();
    let told: Vec<_> =
        told.as_array().unwrap().iter().map(|it| (&it["data"]["approvalId"], &it["data"]["count"])).collect();
    assert_eq!(told, [(&json!(id), &json!(1))]);
    assert_eq!(shell.run(&["audit", "checkpoint"]).code, 0);
    assert_eq!(verified(&shell), (0, json!([])));
    let checks: [&[&str]; 2] = [&["--export", "before", "--checkpoints", "before.checkpoints"], &["--proof", "proof"]];
    for more in checks {
        let ran = shell.run(&[&["audit", "verify", "--key", "log.key.pub"], more].concat());
        assert_eq!(ran.code, 0, "{more:?}: {}{}", ran.out, ran.err);
    }
    assert_eq!(shell.run(&["audit", "export", "--out", "before"]).code, 0, "what was exported is as it was");
}

#[test]
fn a_person_is_one_however_the_id_is_spelt_and_nobody_elses_comments_go() {
    let shell = shell();
    let [one, two] = ["ord_43", "ord_42"].map(|it| decided(&shell, it));
    assert_eq!(erase(&shell, &["--person", "dana"]), (0, json!({"erased": 0})));
    assert_eq!(erase(&shell, &["--person", "priya", "--approval", &one]), (0, json!({"erased": 1})));
    assert!(is_there(&shell));
    assert_eq!(erase(&shell, &["--person", " PRIYA "]), (0, json!({"erased": 1})));
    assert!(!is_there(&shell));
    let told = shell.run(&["audit", "list", "--type", "capability.comments_erased", "--json"]).json();
    let told: Vec<_> = told.as_array().unwrap().iter().map(|it| it["data"]["approvalId"].clone()).collect();
    assert_eq!(told, [one, two]);
    assert_eq!(erase(&shell, &[]).0, 5, "whose must be said");
    assert_eq!(erase(&shell, &["--person", "priya", "--db", "sqlite:none.db"]).0, 5);
}
