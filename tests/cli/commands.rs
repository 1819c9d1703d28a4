//! Whole calls over several processes on one database, and the exit code of every sort of answer.

use serde_json::{Value, json};

use super::Shell;

const SEARCH: &str = r#"{"query":"lamp"}"#;
const LARGE: &str = r#"{"orderId":"ord_42","amountCents":64900,"reason":"Cracked."}"#;
const SMALL: &str = r#"{"orderId":"ord_42","amountCents":4900,"reason":"Scratched."}"#;

fn waiting(shell: &Shell) -> String {
    let asked = shell.run(&["invoke", "orders.refund", "--actor", "dana", "--input", LARGE, "--json"]);
    assert_eq!(asked.code, 4, "{}", asked.err);
    asked.json()["approval"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn exit_codes_tell_how_a_call_ended() {
    let shell = Shell::new();
    for (code, capability, actor, input) in [
        (0, "orders.search", "dana", SEARCH),
        (1, "orders.get", "dana", r#"{"orderId":"ord_13"}"#),
        (1, "orders.get", "dana", r#"{"orderId":"ord_404"}"#),
        (2, "orders.search", "anonymous", SEARCH),
        (2, "orders.teleport", "dana", "{}"),
        (2, "orders.refund", "dana", r#"{"orderId":"ord_7","amountCents":500000,"reason":"x"}"#),
        (3, "orders.search", "dana", r#"{"query":7}"#),
        (3, "orders.search", "dana", r#"{"query":"a","query":"b"}"#),
        (4, "orders.refund", "dana", LARGE),
    ] {
        let ran = shell.run(&["invoke", capability, "--actor", actor, "--input", input]);
        assert_eq!((ran.code, &*ran.err), (code, ""), "{capability} {input}: {}", ran.out);
    }
    assert_eq!(shell.run(&["invoke", "orders.search", "--input", SEARCH]).code, 2, "nobody asked");
    assert_eq!(shell.run(&["--help"]).code, 0);
    assert_eq!(shell.run(&["--version"]).code, 0);
}

#[test]
fn an_approval_is_asked_for_decided_and_used_by_different_processes() {
    let shell = Shell::new();
    let id = waiting(&shell);

    let listed = shell.run(&["approvals", "list", "--status", "pending", "--json"]).json();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["id"]), (1, &json!(id)));
    let shown = shell.run(&["approvals", "show", &id, "--actor", "priya", "--json"]).json();
    assert_eq!(shown["input"], serde_json::from_str::<Value>(LARGE).unwrap());

    let own = shell.run(&["approvals", "approve", &id, "--actor", "dana", "--json"]);
    assert_eq!((own.code, own.json()["error"]["code"].as_str()), (2, Some("APPROVAL_SELF_APPROVAL")));
    let foreign = shell.run(&["approvals", "approve", &id, "--actor", "omar", "--json"]);
    assert_eq!((foreign.code, foreign.json()["error"]["code"].as_str()), (2, Some("APPROVAL_NOT_FOUND")));
    let early = shell.run(&["approvals", "resume", &id, "--actor", "dana", "--json"]);
    assert_eq!((early.code, early.json()["error"]["code"].as_str()), (4, Some("APPROVAL_PENDING")));

    let approved = shell.run(&["approvals", "approve", &id, "--actor", "priya", "--comment", "Fine.", "--json"]);
    assert_eq!((approved.code, approved.json()["status"].as_str()), (0, Some("approved")), "{}", approved.err);

    let other = shell.run(&["approvals", "resume", &id, "--actor", "priya", "--json"]);
    assert_eq!((other.code, other.json()["error"]["code"].as_str()), (2, Some("APPROVAL_NOT_FOUND")));
    let ran = shell.run(&["approvals", "resume", &id, "--actor", "dana", "--json"]);
    assert_eq!((ran.code, &ran.json()["output"]["approvedBy"]), (0, &json!(["priya"])), "{}", ran.err);
    let again = shell.run(&["approvals", "resume", &id, "--actor", "dana", "--json"]);
    assert_eq!((again.code, again.json()["error"]["code"].as_str()), (2, Some("APPROVAL_CONSUMED")));

    let decided = shell.run(&["audit", "list", "--type", "capability.approved", "--json"]).json();
    let data = &decided[0]["data"];
    assert_eq!((&data["via"], &data["approver"]["id"]), (&json!("cli"), &json!("priya")));
    assert!(data["approver"]["issuer"].as_str().unwrap().starts_with("cli:"), "{data}");
}

#[test]
fn a_rejection_and_a_withdrawal_end_a_request() {
    let shell = Shell::new();
    let id = waiting(&shell);
    let rejected = shell.run(&["approvals", "reject", &id, "--actor", "priya", "--type", "manager", "--json"]);
    assert_eq!((rejected.code, rejected.json()["status"].as_str()), (0, Some("rejected")));
    assert_eq!(shell.run(&["approvals", "resume", &id, "--actor", "dana"]).code, 2);

    let id = waiting(&shell);
    let taken = shell.run(&["approvals", "withdraw", &id, "--actor", "dana", "--json"]);
    assert_eq!((taken.code, taken.json()["status"].as_str()), (0, Some("withdrawn")));
    assert_eq!(shell.run(&["approvals", "approve", &id, "--actor", "priya"]).code, 2);
}

#[test]
fn a_message_is_confirmed_by_a_colleague() {
    let shell = Shell::new();
    let kim = r#"{"id": "kim", "kind": "user", "tenant": "acme", "roles": ["support"]}"#;
    shell.write("kim.json", kim);
    let input = r#"{"customerId":"cus_7","subject":"Hello","body":"Your refund is on its way."}"#;
    let asked = shell.run(&["invoke", "messages.send", "--actor", "kim.json", "--input", input, "--json"]);
    assert_eq!((asked.code, &asked.json()["approval"]["types"]), (4, &json!(["human"])), "{}", asked.err);
    let id = asked.json()["approval"]["id"].as_str().unwrap().to_owned();
    assert_eq!(shell.run(&["approvals", "approve", &id, "--actor", "kim.json"]).code, 2);
    assert_eq!(shell.run(&["approvals", "approve", &id, "--actor", "dana"]).code, 0);
    let sent = shell.run(&["approvals", "resume", &id, "--actor", "kim.json", "--json"]);
    assert_eq!((sent.code, &sent.json()["output"]["approvedBy"]), (0, &json!(["dana"])));
}

#[test]
fn a_key_replays_across_processes() {
    let shell = Shell::new();
    let call = ["invoke", "orders.refund", "--actor", "dana", "--idempotency-key", "k1", "--json", "--input"];
    let once = |input| shell.run(&[&call[..], &[input]].concat());
    let (first, second) = (once(SMALL).json(), once(SMALL).json());
    assert_eq!((&first["replayed"], &second["replayed"]), (&json!(false), &json!(true)));
    assert_eq!(first["output"], second["output"]);
    assert_eq!(once(LARGE).code, 3, "another input");
}

#[test]
fn input_comes_from_a_file_or_from_standard_input() {
    let shell = Shell::new();
    shell.write("input.json", SEARCH);
    let call = ["invoke", "orders.search", "--actor", "omar", "--json", "--input"];
    let from_file = shell.run(&[&call[..], &["@input.json"]].concat()).json();
    let from_stdin = shell.fed(&[&call[..], &["-"]].concat(), SEARCH).json();
    assert_eq!(from_file["output"]["orders"][0]["id"], "ord_90", "his own tenant's");
    assert_eq!(from_file["output"], from_stdin["output"]);
}

#[test]
fn the_surface_decides_what_is_shown() {
    let shell = Shell::new();
    let call = ["invoke", "orders.refund", "--actor", "dana", "--input", SMALL, "--json", "--surface"];
    let over = |surface| shell.run(&[&call[..], &[surface]].concat()).json();
    assert_eq!(over("mcp")["error"]["code"], "CAPABILITY_NOT_FOUND");
    assert_eq!(over("http")["status"], "completed");

    let listed = |actor, surface| {
        let ran = shell.run(&["capabilities", "list", "--actor", actor, "--surface", surface, "--json"]);
        let all = ran.json();
        all.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(listed("dana", "direct").contains(&"orders.refund".into()));
    assert!(!listed("dana", "mcp").contains(&"orders.refund".into()));
    assert_eq!(listed("nightly", "workflow"), ["orders.search", "reports.export"]);
    assert_eq!(listed("anonymous", "direct"), Vec::<String>::new());
}

#[test]
fn the_operator_sees_every_capability_without_a_database() {
    let shell = Shell::new();
    let all = shell.run(&["capabilities", "list", "--json"]).json();
    let ids: Vec<_> = all.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    insta::assert_json_snapshot!(ids, @r#"
    [
      "customers.search",
      "customers.get",
      "orders.search",
      "orders.get",
      "orders.refund",
      "orders.purge",
      "messages.draft",
      "messages.send",
      "reports.export"
    ]
    "#);
    assert_eq!(shell.run(&["capabilities", "show", "orders.purge"]).code, 0);
    assert_eq!(shell.run(&["capabilities", "show", "orders.teleport"]).code, 2);
    assert_eq!(std::fs::read_dir(shell.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn an_actor_is_shown_one_capability_or_told_that_there_is_none() {
    let shell = Shell::new();
    shell.run(&["invoke", "orders.search", "--actor", "dana", "--input", SEARCH]);
    let show = |id| shell.run(&["capabilities", "show", id, "--actor", "dana", "--json"]);
    assert_eq!(show("messages.send").json()["requiresApproval"], "always");
    assert_eq!(show("orders.refund").json()["requiresApproval"], "sometimes");
    let (hidden, unknown) = (show("reports.export"), show("reports.exporr"));
    assert_eq!((hidden.code, unknown.code), (2, 2));
    assert_eq!(hidden.out.replace("export", ""), unknown.out.replace("exporr", ""));
}

#[test]
fn executions_are_shown_to_their_requester_and_settled_by_others() {
    let shell = Shell::new();
    let done = shell.run(&["invoke", "orders.refund", "--actor", "dana", "--input", SMALL, "--json"]).json();
    let id = done["executionId"].as_str().unwrap();
    let show = |actor| shell.run(&["executions", "show", id, "--actor", actor, "--json"]);
    assert_eq!(show("dana").json()["status"], "completed");
    assert_eq!(show("priya").json()["status"], "completed", "managers read the trail");
    assert_eq!(show("omar").code, 2);
    assert_eq!(shell.run(&["executions", "show", id, "--json"]).json()["capabilityId"], "orders.refund");

    let resolve =
        |actor| shell.run(&["executions", "resolve", id, "--actor", actor, "--as", "failed", "--json"]).json();
    assert_eq!(resolve("dana")["error"]["code"], "POLICY_DENIED");
    assert_eq!(resolve("priya")["error"]["code"], "APPROVAL_ALREADY_DECIDED");
}

#[test]
fn the_trail_is_listed_with_filters_and_pages() {
    let shell = Shell::new();
    let call = ["invoke", "orders.search", "--input", SEARCH, "--correlation-id", "talk-1", "--actor"];
    let ids = ["dana", "omar", "anonymous"].map(|actor| {
        shell.run(&[&call[..], &[actor, "--json"]].concat()).json()["executionId"].as_str().unwrap().to_owned()
    });
    let list = |filters: &[&str]| {
        let ran = shell.run(&[&["audit", "list", "--json"], filters].concat());
        assert_eq!((ran.code, &*ran.err), (0, ""));
        ran.json().as_array().unwrap().clone()
    };
    let types = |events: &[Value]| events.iter().map(|it| it["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let first = list(&["--execution", &ids[0]]);
    assert_eq!(types(&first), ["capability.requested", "capability.started", "capability.completed"]);
    assert_eq!(first[0]["correlationId"], "talk-1");
    assert_eq!(types(&list(&["--type", "capability.denied"])), ["capability.denied"]);
    assert_eq!(list(&["--actor-id", "omar"]).len(), 3);
    assert_eq!(list(&["--capability", "orders.search"]).len(), 8);
    assert_eq!(list(&["--since", "2999-01-01"]).len(), 0);
    assert_eq!(list(&["--until", "2000-01-01T00:00:00Z"]).len(), 0);

    let all = list(&[]);
    let seqs: Vec<_> = all.iter().map(|it| it["seq"].as_i64().unwrap()).collect();
    assert_eq!(seqs, (1..=i64::try_from(all.len()).unwrap()).collect::<Vec<_>>());
    let page = list(&["--after", "2", "--limit", "2"]);
    assert_eq!(page.iter().map(|it| it["seq"].as_i64().unwrap()).collect::<Vec<_>>(), [3, 4]);
    let text = shell.run(&["audit", "list", "--limit", "2"]).out;
    assert!(text.starts_with("seq  at") && text.contains("there may be more: `--after 2`"), "{text}");

    let seen = shell.run(&["audit", "list", "--actor", "priya", "--json"]).json();
    assert!(seen.as_array().unwrap().iter().all(|it| it["tenant"] == "acme"), "her own tenant's");
    assert_eq!(shell.run(&["audit", "list", "--actor", "dana"]).code, 2);
}

#[test]
fn an_approver_sees_what_no_terminal_would_show() {
    let shell = Shell::new();
    let input = "{\"customerId\":\"cus_7\",\"subject\":\"a\u{202e}b\",\"body\":\"c\u{200b}d\"}";
    let asked = shell.run(&["invoke", "messages.send", "--actor", "dana", "--input", input, "--json"]).json();
    let shown = shell.run(&["approvals", "show", asked["approval"]["id"].as_str().unwrap()]).out;
    assert!(shown.contains("a\\u{202e}b") && shown.contains("c\\u{200b}d"), "{shown}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    use std::process::Stdio;

    let shell = Shell::new();
    let mut child = shell.command(&["capabilities", "list", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_a_failure_with_a_next_step() {
    let shell = Shell::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = shell.command(&["capabilities", "list"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("error: the output cannot be written"));
}

#[test]
fn the_demos_own_policies_pass_the_check() {
    let shell = Shell::new();
    let checked = shell.run(&["policy", "check", "--json"]);
    assert_eq!((checked.code, &checked.json()["ok"], &checked.json()["problems"]), (0, &json!(true), &json!([])));
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/policies");
    let same = shell.run(&["policy", "check", directory, "--json"]).json();
    assert_eq!(same["hash"], checked.json()["hash"], "what is compiled in is what is there");
}
