//! `policy backtest`: another set against the decisions on record.

use serde_json::{Value, json};

use super::Shell;
use super::policy_diff::{calls, desk, without_ids};

fn backtest(shell: &Shell, more: &[&str]) -> super::Ran {
    let since = ["policy", "backtest", "new", "--since", "2026-01-01", "--actors", "dana,priya"];
    shell.run(&[&since[..], more].concat())
}

#[test]
fn a_candidate_is_asked_what_was_asked_for_real() {
    let shell = desk();
    calls(&shell);
    let ran = backtest(&shell, &[]);
    assert_eq!((ran.code, &*ran.err), (1, ""));
    insta::assert_snapshot!(without_ids(&ran.out));
    let json = backtest(&shell, &["--json"]);
    assert!(!ran.out.contains("canary") && !json.out.contains("canary"));
    let replay = json!({
        "decisions": 8, "exact": 3, "withoutInput": 2,
        "notReplayed": {"inputNotKept": 2, "actorUnknown": 1}, "inputsNotKept": ["orders.refund"],
    });
    assert_eq!(json.json()["replay"], replay);
}

#[test]
fn an_input_shows_only_if_somebody_asks_for_it() {
    let shell = desk();
    calls(&shell);
    let json = backtest(&shell, &["--json", "--show-inputs"]).json();
    let changes = json["changes"].as_array().unwrap();
    let inputs: Vec<&Value> = changes.iter().filter(|it| it["exact"] == true).map(|it| &it["input"]).collect();
    let input = |amount: u32| json!({"orderId": "ord_42", "amountCents": amount, "reason": "canary-1"});
    assert_eq!(inputs, [&input(64_900), &input(70_000)]);
    assert!(backtest(&shell, &["--show-inputs"]).out.contains("canary-1"));
}

#[test]
fn the_set_that_decided_decides_the_same() {
    let shell = desk();
    calls(&shell);
    let ran = shell.run(&["policy", "backtest", "current", "--since", "2026-01-01", "--format", "md"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    insta::assert_snapshot!(ran.out, @r"
    8 decisions on record: 3 asked again exactly, 2 without the input, 3 not at all

    **Note:** 2 could not be asked again: it depends on the input, and events hold hashes only; set `decision_record` on these capabilities: orders.refund

    **Note:** 1 could not be asked again: the record has the actor's name only, and nobody is known by it; name them: `--actors`

    **No decision changes** of 5 asked again.
    ");
}

#[test]
fn a_gate_on_everything_narrows_whatever_ran_without_an_approval() {
    let shell = desk();
    calls(&shell);
    let gate = "@id(\"all\") @approval(\"manager\") forbid (principal, action in Action::\"invoke\", resource);";
    shell.write(
        "gated/a.cedar",
        &format!("{gate}{}", std::fs::read_to_string(shell.path().join("old/support.cedar")).unwrap()),
    );
    shell.write("gated/b.cedar", countersign::demo::POLICIES[0].1);
    let json = shell.run(&["policy", "backtest", "gated", "--since", "2026-01-01", "--json"]).json();
    let of_search: Vec<_> =
        json["changes"].as_array().unwrap().iter().filter(|it| it["capability"] == "orders.search").collect();
    assert_eq!(
        (of_search.len(), &of_search[0]["class"], &of_search[0]["exact"]),
        (1, &json!("narrowing"), &json!(false))
    );
    assert_eq!(of_search[0]["after"]["outcome"], "approval (manager, within 1d)");
}

#[test]
fn only_what_was_decided_meanwhile_is_asked() {
    let shell = desk();
    calls(&shell);
    for more in [["--until", "2026-01-02"], ["--since", "2126-01-01"]] {
        let arguments = ["policy", "backtest", "new", "--json", "--since", "2026-01-01"];
        let arguments = if more[0] == "--since" { &arguments[..4] } else { &arguments[..] };
        let ran = shell.run(&[arguments, &more].concat());
        assert_eq!((ran.code, &ran.json()["replay"]["decisions"]), (0, &json!(0)));
    }
    let missing = Shell::new().run(&["policy", "backtest", "current", "--since", "2026-01-01"]);
    assert!(missing.code == 5 && missing.err.contains("there is no database"), "{}", missing.err);
}
