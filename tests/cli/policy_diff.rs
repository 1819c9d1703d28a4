//! `policy diff`: two sets over their cases, the matrix, and the calls on record.

use serde_json::{Value, json};

use super::Shell;

/// What every set of these tests has.
const PEOPLE: &str = r#"
@id("people") permit (principal, action == Countersign::Action::"approve", resource);
@id("support") permit (principal in Role::"support", action in [Action::"orders.search", Action::"orders.refund"], resource);
"#;

const CASES: &str = "
defaults: {actor: dana, capability: orders.refund, input: {orderId: o, amountCents: 1, reason: x}}
cases:
  - {name: small, expect: EXPECTED}
";

/// The matrix and one case, from one set of policies to another one: what changes of which.
fn change(before: &str, after: &str) -> Vec<(String, String)> {
    let shell = Shell::new();
    shell.write("old/a.cedar", &format!("{PEOPLE}{before}"));
    shell.write("new/a.cedar", &format!("{PEOPLE}{after}"));
    shell.write("new/tests/a.yaml", &CASES.replace("EXPECTED", "allow"));
    let ran = shell.run(&["policy", "diff", "old", "new", "--actors", "dana", "--json"]);
    let json = ran.json();
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    let changes = json["changes"].as_array().unwrap().iter();
    let shown = changes.filter(|it| it["surface"] == "direct" || it["source"] == "case");
    let shown: Vec<_> = shown
        .map(|it| {
            let answers = format!("{} -> {}", text(&it["before"]["outcome"]), text(&it["after"]["outcome"]));
            (format!("{} {}", text(&it["source"]), text(&it["class"])), answers)
        })
        .collect();
    assert_eq!(ran.code, i32::from(!json["changes"].as_array().unwrap().is_empty()), "{json}");
    shown
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(one, two)| ((*one).to_owned(), (*two).to_owned())).collect()
}

const REFUNDS: &str = r#"(principal, action == Action::"orders.refund", resource)"#;

#[test]
fn a_gate_that_goes_widens_and_one_that_comes_narrows() {
    let gate = format!("@id(\"g\") @approval(\"manager\") forbid {REFUNDS};");
    assert_eq!(
        change(&gate, ""),
        pairs(&[
            ("case widening", "approval (manager, within 1d) -> allow"),
            ("matrix widening", "approval (manager, within 1d) -> allow"),
        ])
    );
    assert_eq!(
        change("", &gate),
        pairs(&[
            ("case narrowing", "allow -> approval (manager, within 1d)"),
            ("matrix narrowing", "allow -> approval (manager, within 1d)"),
        ])
    );
}

#[test]
fn a_quorum_a_type_and_a_life_are_told_apart() {
    let gate = |more: &str| format!("@id(\"g\") {more} forbid {REFUNDS};");
    let one = gate("@approval(\"manager\") @expires_in(\"1h\")");
    let two = gate("@approval(\"manager\") @expires_in(\"1h\") @quorum(\"2\")");
    let other = gate("@approval(\"finance\") @expires_in(\"1h\")");
    let longer = gate("@approval(\"manager\") @expires_in(\"7d\")");
    assert_eq!(
        change(&two, &one),
        pairs(&[
            ("case widening", "approval (manager by 2, within 1h) -> approval (manager, within 1h)"),
            ("matrix widening", "approval (manager by 2, within 1h) -> approval (manager, within 1h)"),
        ])
    );
    assert_eq!(change(&one, &two)[0].0, "case narrowing");
    assert_eq!(
        change(&one, &other),
        pairs(&[
            ("case gate", "approval (manager, within 1h) -> approval (finance, within 1h)"),
            ("matrix gate", "approval (manager, within 1h) -> approval (finance, within 1h)"),
        ])
    );
    for (before, after) in [(&one, &longer), (&longer, &one)] {
        assert_eq!(change(before, after)[0].0, "case gate");
    }
}

#[test]
fn what_is_denied_or_hidden_is_visibility_and_what_fails_is_another_refusal() {
    let deny = format!("@id(\"d\") forbid {REFUNDS};");
    let hide = format!("@id(\"d\") @hide forbid {REFUNDS};");
    let fail =
        format!("@id(\"d\") forbid {REFUNDS} when {{ context.input.amountCents * 9223372036854775807 + 1 > 1 }};");
    assert_eq!(
        change(&deny, &hide),
        pairs(&[("case visibility", "deny -> hidden"), ("matrix visibility", "deny -> hidden")])
    );
    assert_eq!(change(&hide, &deny)[0], pairs(&[("case visibility", "hidden -> deny")])[0]);
    assert_eq!(
        change(&hide, ""),
        pairs(&[("case widening", "hidden -> allow"), ("matrix widening", "hidden -> allow")])
    );
    assert_eq!(change(&deny, &fail)[0], pairs(&[("case refusal", "deny -> failed")])[0]);
}

#[test]
fn what_depends_on_the_input_is_unclear_without_it() {
    let limit = |amount: u32| format!("@id(\"l\") forbid {REFUNDS} when {{ context.input.amountCents > {amount} }};");
    assert_eq!(change(&limit(10), &limit(20)), pairs(&[("matrix unclear", "sometimes -> sometimes")]));
    assert_eq!(change(&limit(0), &limit(20))[0], pairs(&[("case widening", "deny -> allow")])[0]);
}

#[test]
fn a_policy_that_only_reads_otherwise_is_neutral() {
    let limit =
        |reason: &str| format!("@id(\"l\") @reason(\"{reason}\") forbid {REFUNDS} when {{ context.tenant == \"x\" }};");
    let shell = Shell::new();
    shell.write("old/a.cedar", &format!("{PEOPLE}{}", limit("No.")));
    shell.write("new/a.cedar", &format!("{}{PEOPLE}// moved\n", limit("Not here.")));
    let ran = shell.run(&["policy", "diff", "old", "new", "--json"]);
    let json = ran.json();
    assert_eq!((ran.code, &json["changes"]), (0, &json!([])));
    let policies = json!({"added": [], "removed": [], "changed": ["l"], "neutral": ["l"]});
    assert_eq!(json["policies"], policies);
}

/// The demo's own set against one that a pull request makes of it.
fn demo() -> Shell {
    let shell = Shell::new();
    for (name, text) in countersign::demo::POLICIES.iter().chain(&countersign::demo::POLICY_TESTS) {
        shell.write(&format!("old/{name}"), text);
        let text =
            text.replace("> 50000", "> 100000").replace("context.surface == \"mcp\"", "context.surface == \"http\"");
        let text = text
            .replace(", Action::\"reports.export\"", "")
            .replace("5000\")", "5000\")\n@quorum(\"2\") @approval(\"finance\")");
        shell.write(
            &format!("new/{name}"),
            &text.replace("action in Action::\"customers.*\"", "action in Action::\"customers.*\"\n"),
        );
    }
    shell.write(
        "new/finance.cedar",
        "@id(\"finance\") permit (principal in Role::\"manager\", \
        action == Countersign::Action::\"approve\", resource) when { context.requirement == \"finance\" };",
    );
    std::fs::remove_file(shell.path().join("new/tests/approvals.yaml")).unwrap();
    shell
}

#[test]
fn a_pull_request_shows_what_it_does() {
    let shell = demo();
    let diff = ["policy", "diff", "old", "new", "--now", "2026-06-01"];
    let table = shell.run(&diff);
    assert_eq!((table.code, &*table.err), (1, ""));
    insta::assert_snapshot!(table.out);
    insta::assert_snapshot!(shell.run(&[&diff[..], &["--format", "md"]].concat()).out);
    let same = shell.run(&["policy", "diff", "old", "old"]);
    insta::assert_snapshot!(same.out, @"no decision changes: 45 cases and 180 cells of the matrix");
    assert_eq!(same.code, 0);
}

const LARGE: &str = r#"{"orderId":"ord_42","amountCents":64900,"reason":"canary-1"}"#;

/// Real calls: one that ran, one that was approved and ran, one that waits, one that is hidden, one that is denied.
pub(super) fn calls(shell: &Shell) {
    let call = |capability: &str, input: &str, actor: &str| {
        shell.run(&["invoke", capability, "--actor", actor, "--input", input, "--json"]).json()
    };
    call("orders.search", r#"{"query":"lamp"}"#, "dana");
    let asked = call("orders.refund", LARGE, "dana");
    let id = asked["approval"]["id"].as_str().unwrap();
    assert_eq!(shell.run(&["approvals", "approve", id, "--actor", "priya"]).code, 0);
    assert_eq!(shell.run(&["approvals", "resume", id, "--actor", "dana"]).code, 0);
    call("orders.refund", &LARGE.replace("64900", "70000"), "dana");
    call("orders.refund", &LARGE.replace("64900", "2"), "dana");
    call("reports.export", r#"{"month":"2026-01"}"#, "dana");
    call("orders.refund", r#"{"orderId":"o","amountCents":500000,"reason":"canary-2"}"#, "dana");
    call("orders.refund", &LARGE.replace("64900", "3"), "kim.json");
    call("orders.teleport", "{}", "dana");
    call("orders.search", r#"{"query":7}"#, "dana");
}

const KIM: &str = r#"{"id": "kim", "kind": "user", "tenant": "acme", "roles": ["visitor"]}"#;

/// Ids of this run are none of a snapshot's business.
pub(super) fn without_ids(text: &str) -> String {
    let is_id = |it: &str| it.len() == 36 && it.matches('-').count() == 4;
    let words: Vec<_> = text.split(' ').map(|it| if is_id(it) { "ID" } else { it }).collect();
    words.join(" ")
}

pub(super) fn desk() -> Shell {
    let shell = demo();
    shell.write("kim.json", KIM);
    shell
}

#[test]
fn the_calls_on_record_are_asked_of_both() {
    let shell = desk();
    calls(&shell);
    let diff = ["policy", "diff", "current", "new", "--db", "sqlite:countersign.db", "--actors", "dana,priya"];
    let ran = shell.run(&diff);
    assert_eq!((ran.code, &*ran.err), (1, ""), "{}", ran.out);
    let json = shell.run(&[&diff[..], &["--json"]].concat());
    assert!(!ran.out.contains("canary") && !json.out.contains("canary"));
    let json = json.json();
    let of_trail: Vec<_> = json["changes"].as_array().unwrap().iter().filter(|it| it["source"] == "trail").collect();
    let replay = json!({
        "decisions": 8, "exact": 3, "withoutInput": 2,
        "notReplayed": {"inputNotKept": 2, "actorUnknown": 1}, "inputsNotKept": ["orders.refund"],
    });
    assert_eq!(json["replay"], replay);
    let words: Vec<_> = of_trail
        .iter()
        .map(|it| format!("{} {} -> {}", it["class"], it["before"]["outcome"], it["after"]["outcome"]).replace('"', ""))
        .collect();
    assert_eq!(words, ["widening approval (manager, within 1h) -> allow"; 2]);
    let shown = shell.run(&[&diff[..], &["--json", "--show-inputs"]].concat()).json();
    let inputs = shown["changes"].as_array().unwrap().iter().filter(|it| it["input"]["reason"] == "canary-1").count();
    assert_eq!(inputs, 2);
    let later = shell.run(&[&diff[..], &["--json", "--since", "2126-01-01"]].concat()).json();
    assert_eq!(later["replay"]["decisions"], 0);
}

#[test]
fn sets_are_named_by_directory_and_by_what_is_kept_of_them() {
    let shell = desk();
    calls(&shell);
    let db = ["--db", "sqlite:countersign.db", "--since", "2126-01-01"];
    let diff = |one: &str, two: &str| shell.run(&[&["policy", "diff", one, two][..], &db].concat());
    let active = shell.run(&["policy", "history", "--json"]).json();
    let hash = active[0]["policyHash"].as_str().unwrap();
    for name in ["current", hash, &hash["sha256:".len()..][..8]] {
        assert_eq!(diff(name, "old").code, 0, "{name}");
    }
    let missing = diff("old", "00000000");
    assert!(missing.code == 5 && missing.err.contains("no kept policy set is called `00000000`"), "{}", missing.err);
    let no_database = shell.run(&["policy", "diff", "current", "new"]);
    assert!(no_database.code == 5 && no_database.err.contains("--db"), "{}", no_database.err);
    let no_directory = shell.run(&["policy", "diff", "missing", "new"]);
    assert!(no_directory.code == 5 && no_directory.err.contains("there is no directory"), "{}", no_directory.err);
    shell.write("new/a.cedar", "permit (principal, action, resource)");
    assert_eq!(diff("old", "new").code, 3);
}
