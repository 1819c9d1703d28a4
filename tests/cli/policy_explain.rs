//! `policy explain`: of calls that nobody makes, and of calls on record.

use serde_json::{Value, json};

use super::Shell;

const LARGE: &str = r#"{"orderId":"ord_42","amountCents":64900,"reason":"Cracked."}"#;
const HUGE: &str = r#"{"orderId":"ord_42","amountCents":500000,"reason":"Lost."}"#;

fn explained(arguments: &[&str]) -> String {
    let ran = Shell::new().run(&[&["policy", "explain"], arguments].concat());
    assert_eq!(ran.err, "");
    format!("exit {}\n{}", ran.code, ran.out)
}

#[test]
fn a_gate_says_what_lifts_it_and_who_could() {
    insta::assert_snapshot!(explained(&["orders.refund", "--actor", "dana", "--input", LARGE]));
}

#[test]
fn a_deny_says_which_permits_came_nearest() {
    insta::assert_snapshot!(explained(&["orders.refund", "--actor", "nightly", "--input", LARGE]));
}

#[test]
fn every_other_outcome_says_why() {
    let calls = [
        &["orders.refund", "--actor", "dana", "--input", HUGE][..],
        &["orders.refund", "--actor", "dana", "--input", LARGE, "--surface", "mcp"],
        &["orders.refund", "--actor", "dana", "--surface", "workflow"],
        &["orders.refund", "--actor", "dana", "--input", r#"{"orderId":7}"#],
        &["orders.refund", "--actor", "priya", "--input", LARGE, "--approved", "manager"],
        &["orders.search", "--actor", "anonymous"],
    ];
    let told = calls.iter().map(|it| format!("$ countersign policy explain {}\n{}\n", it.join(" "), explained(it)));
    insta::assert_snapshot!(told.collect::<Vec<_>>().concat());
}

#[test]
fn an_input_never_shows() {
    let secret = r#"{"orderId":"canary-1","amountCents":64900,"reason":"canary-2"}"#;
    for more in [&[][..], &["--json"], &["--approved", "manager=2"]] {
        let told = explained(&[&["orders.refund", "--actor", "dana", "--input", secret], more].concat());
        assert!(!told.contains("canary"), "{told}");
    }
}

#[test]
fn a_policy_that_errs_is_told_by_the_kind_of_its_error() {
    let shell = Shell::new();
    shell.write(
        "p/a.cedar",
        r#"@id("all") permit (principal, action == Action::"orders.refund", resource);
@id("people") permit (principal, action == Countersign::Action::"approve", resource);
@id("errs") forbid (principal, action == Action::"orders.refund", resource)
when { context.surface == "direct" && context.input.amountCents * 9223372036854775807 > 1 };"#,
    );
    let ran =
        shell.run(&["policy", "explain", "orders.refund", "--actor", "dana", "--input", LARGE, "--policies", "p"]);
    assert_eq!(ran.code, 2);
    insta::assert_snapshot!(ran.out);
}

#[test]
fn apr_11_a_gate_denies_nobody_in_particular() {
    let shell = Shell::new();
    shell.write(
        "p/a.cedar",
        r#"@id("all") permit (principal, action == Action::"messages.send", resource);
@id("people") permit (principal, action == Countersign::Action::"approve", resource);"#,
    );
    let input = r#"{"customerId":"c","subject":"s","body":"b"}"#;
    let call = ["policy", "explain", "messages.send", "--policies", "p", "--input", input, "--actor"];
    let anonymous = shell.run(&[&call[..], &["anonymous"]].concat());
    assert!(anonymous.code == 2 && anonymous.out.contains("so a gate denies"), "{}", anonymous.out);
    assert_eq!(shell.run(&[&call[..], &["dana"]].concat()).code, 4);
}

#[test]
fn a_call_comes_from_a_file_too() {
    let shell = Shell::new();
    let call = "actor: {id: kim, kind: user, tenant: acme, roles: [support]}\ncapability: orders.refund\n\
        input: {orderId: o, amountCents: 60000, reason: x}\nclient: agent\nat: 2026-03-01T00:00:00Z\n";
    shell.write("call.yaml", call);
    let mut json = shell.run(&["policy", "explain", "--file", "call.yaml", "--actors", "dana,priya", "--json"]).json();
    assert!(json["policyHash"].take().as_str().unwrap().starts_with("sha256:"));
    insta::assert_json_snapshot!(json);
    shell.write("call.yaml", &call.replace("actor:", "acter:"));
    let ran = shell.run(&["policy", "explain", "--file", "call.yaml"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("did you mean `actor`?"), "{}", ran.err);
    shell.write("call.yaml", "actor: dana\nmanage: read_audit\n");
    assert_eq!(shell.run(&["policy", "explain", "--file", "call.yaml"]).code, 3);
    assert_eq!(shell.run(&["policy", "explain", "--file", "missing.yaml"]).code, 5);
}

#[test]
fn what_cannot_be_explained_says_what_to_do() {
    let shell = Shell::new();
    for (arguments, message) in [
        (&["orders.refnd", "--actor", "dana"][..], "did you mean `orders.refund`?"),
        (&["orders.refund"], "there is no actor"),
        (&["--execution", "exe"], "there is no database"),
        (&["orders.refund", "--actor", "dana", "--approved", "manager=0"], "--approved"),
        (&["orders.refund", "--execution", "exe"], "cannot be used with"),
        (&[], "were not provided"),
    ] {
        let ran = shell.run(&[&["policy", "explain"], arguments].concat());
        assert_eq!(ran.code, 5, "{arguments:?}");
        assert!(ran.err.contains(message) && ran.err.contains("next:"), "{}", ran.err);
    }
}

/// The execution of a call, as it was answered.
fn made(shell: &Shell, actor: &str, capability: &str, input: &str) -> Value {
    shell.run(&["invoke", capability, "--actor", actor, "--input", input, "--json"]).json()
}

fn of_record(shell: &Shell, execution: &Value, more: &[&str]) -> (i32, Value) {
    let id = execution.as_str().unwrap();
    let ran = shell.run(&[&["policy", "explain", "--execution", id, "--json"], more].concat());
    assert_eq!(ran.err, "");
    (ran.code, ran.json())
}

#[test]
fn a_call_that_waits_is_replayed_with_its_stored_input() {
    let shell = Shell::new();
    let asked = made(&shell, "dana", "orders.refund", LARGE);
    let (code, told) = of_record(&shell, &asked["executionId"], &[]);
    assert_eq!((code, &told["record"]["outcome"], &told["sameSet"]), (4, &json!("approval"), &json!(true)));
    assert_eq!((&told["replay"]["outcome"], &told["replay"]["whenApproved"]), (&json!("approval"), &json!("allow")));

    let approval = asked["approval"]["id"].as_str().unwrap();
    assert_eq!(shell.run(&["approvals", "approve", approval, "--actor", "priya"]).code, 0);
    let ran = shell.run(&["approvals", "resume", approval, "--actor", "dana", "--json"]).json();
    let (code, told) = of_record(&shell, &ran["executionId"], &[]);
    assert_eq!((code, &told["record"]["outcome"], &told["replay"]["outcome"]), (0, &json!("allow"), &json!("allow")));

    // Another set today.
    shell.write(
        "p/a.cedar",
        "@id(\"people\") permit (principal, action == Countersign::Action::\"approve\", resource);",
    );
    let (code, told) = of_record(&shell, &asked["executionId"], &["--policies", "p"]);
    assert_eq!((code, &told["sameSet"], &told["replay"]["outcome"]), (4, &json!(false), &json!("deny")));
    assert_eq!(told["gone"], json!(["refunds-over-500-need-a-manager", "support-works-at-the-desk"]));
}

#[test]
fn of_what_is_settled_only_the_record_is_told() {
    let shell = Shell::new();
    for (actor, capability, input, code, outcome) in [
        ("dana", "orders.search", r#"{"query":"lamp"}"#, 0, "allow"),
        ("dana", "orders.refund", HUGE, 2, "deny"),
        ("dana", "reports.export", r#"{"month":"2026-01"}"#, 2, "hidden"),
        ("dana", "orders.teleport", "{}", 2, "unexposed"),
        ("dana", "orders.search", r#"{"query":7}"#, 3, "invalid"),
    ] {
        let execution = &made(&shell, actor, capability, input)["executionId"];
        let (exit, told) = of_record(&shell, execution, &[]);
        let found = (exit, &told["record"]["outcome"], &told["replay"]);
        assert_eq!(found, (code, &json!(outcome), &Value::Null), "{capability}: {told}");
        let text = shell.run(&["policy", "explain", "--execution", execution.as_str().unwrap()]).out;
        assert!(text.contains("events hold hashes only"), "{text}");
    }
    let (_, told) = of_record(&shell, &made(&shell, "dana", "orders.refund", HUGE)["executionId"], &[]);
    assert_eq!(told["policies"][0]["id"], "refunds-stay-below-5000");
    assert_eq!(shell.run(&["policy", "explain", "--execution", "nonesuch"]).code, 5);
}
