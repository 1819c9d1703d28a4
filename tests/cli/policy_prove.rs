//! `policy prove`: statements that are proved, that are refuted, and that cannot be read. What needs the solver is skipped,
//! loudly, where there is none.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Ran, Shell};

/// Whether there is a solver.
fn solver() -> bool {
    let named = std::env::var("CVC5").unwrap_or_else(|_| "cvc5".into());
    let found = Command::new(named).arg("--version").output().is_ok_and(|it| it.status.success());
    if !found {
        // Past the capture of what passing tests print.
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: there is no solver; install cvc5, or name it in CVC5");
    }
    found
}

const POLICIES: &str = r#"
@id("support") permit (principal in Role::"support", action == Action::"orders.refund", resource);
@id("agents-search") permit (principal is Service, action == Action::"orders.search", resource);
@id("managers-export") permit (principal in Role::"manager", action == Action::"reports.export", resource);
@id("managers-agree") permit (principal in Role::"manager", action == Countersign::Action::"approve", resource);
@id("large") @approval("manager") forbid (principal, action == Action::"orders.refund", resource)
when { context.input.amountCents > 50000 };
@id("not-over-mcp") @hide forbid (principal, action in Action::"orders.*", resource) when { context.surface == "mcp" };
@id("overflows") forbid (principal in Role::"support", action == Action::"orders.refund", resource)
when { context.input.amountCents * 4294967295 < 0 };
"#;

/// The policies in `p`, with these statements.
fn shell(statements: &str) -> Shell {
    let shell = Shell::new();
    shell.write("p/a.cedar", POLICIES);
    shell.write("p/invariants/a.yaml", statements);
    shell
}

/// A line a statement, and the statements.
fn outcomes(ran: &Ran) -> (String, Vec<Value>) {
    let statements = ran.json()["statements"].as_array().unwrap().clone();
    let line = |it: &Value| {
        let note = it["note"].as_str().map(|it| format!(" ({it})")).unwrap_or_default();
        format!("{}: {}, {}{note}", it["name"].as_str().unwrap(), it["outcome"].as_str().unwrap(), it["environments"])
    };
    (statements.iter().map(line).collect::<Vec<_>>().join("\n"), statements)
}

#[test]
fn the_demo_policies_keep_what_they_state() {
    if !solver() {
        return;
    }
    let shell = Shell::new();
    let ran = shell.run(&["policy", "prove"]);
    assert_eq!((ran.code, &*ran.err), (0, ""), "{}", ran.out);
    insta::assert_snapshot!(ran.out, @r#"
    statement                                                                  outcome  environments
    invariants/demo.yaml:4 refunds above $500 need a manager                   proved   4
    invariants/demo.yaml:7 no message is sent without a person's confirmation  proved   4
    invariants/demo.yaml:10 only people of the desk move money                 proved   4
    invariants/demo.yaml:13 exports are for managers and the nightly job       proved   4
    invariants/demo.yaml:16 nobody but the desk sees customers                 proved   8
    invariants/demo.yaml:19 no refunds over MCP                                proved   4
    invariants/demo.yaml:22 no policy can fail to be evaluated                 proved   88
    ok: 7 statements proved
    "#);
    let directory = format!("{}/policies", env!("CARGO_MANIFEST_DIR"));
    let json = |arguments: &[&str]| shell.run(&[&["policy", "prove", "--json"], arguments].concat()).json();
    assert_eq!(json(&[]), json(&[&directory]));
}

const HOLDS: &str = r#"
statements:
  - {name: approval, never_without_approval: {capability: orders.refund, type: manager, when: "context.input.amountCents >= 50001"}}
  - {name: roles, only_role: {role: [support], capability: orders.refund}}
  - {name: nobody, only_role: {role: manager, capability: customers.get}}
  - {name: surface, never_over: {surface: mcp, capability: "orders.*"}}
  - {name: schema, never_over: {surface: http, capability: orders.refund, when: context.input.amountCents == 0}}
  - {name: unlisted, never_over: {surface: mcp, capability: reports.export}}
  - {name: errors, no_errors: [large, support]}
  - {name: same, implies: {set: ., by: .}}
"#;

#[test]
fn each_kind_of_statement_is_proved() {
    if !solver() {
        return;
    }
    let shell = shell(HOLDS);
    // Policies that can err settle no implication.
    shell.write("p/a.cedar", &POLICIES.replace("* 4294967295", "- 1"));
    let ran = shell.run(&["policy", "prove", "p", "--json"]);
    insta::assert_snapshot!(outcomes(&ran).0, @r#"
    approval: proved, 4
    roles: proved, 4
    nobody: proved, 4
    surface: proved, 16
    schema: proved, 4
    unlisted: proved, 4
    errors: proved, 4
    same: proved, 108
    "#);
    assert_eq!(ran.code, 0);
}

const FAILS: &str = r#"
statements:
  - {name: approval, never_without_approval: {capability: orders.refund, type: manager}}
  - {name: another approval, never_without_approval: {capability: orders.refund, type: finance}}
  - {name: roles, only_role: {role: manager, capability: "orders.*"}}
  - {name: surface, never_over: {surface: http, capability: effect/read}}
  - {name: errors, no_errors: true}
  - {name: wider, implies: {set: ., by: ../q}}
  - {name: lifted, implies: {set: ../r, by: ../q}}
"#;

#[test]
fn each_kind_of_statement_is_refuted_by_a_call_that_explain_replays() {
    if !solver() {
        return;
    }
    let shell = shell(FAILS);
    let narrow = POLICIES.replace("principal is Service", "principal == Service::\"one\"");
    shell.write("q/a.cedar", &narrow.replace("* 4294967295", "- 1"));
    // What is refused outright in one needs only an approval in the other.
    let gated = narrow.replace("@id(\"not-over-mcp\") @hide", "@id(\"not-over-mcp\") @approval(\"manager\")");
    shell.write("r/a.cedar", &gated.replace("* 4294967295", "- 1"));
    let ran = shell.run(&["policy", "prove", "p", "--json"]);
    let (lines, statements) = outcomes(&ran);
    insta::assert_snapshot!(lines, @r#"
    approval: refuted, 1
    another approval: refuted, 4
    roles: refuted, 12
    surface: refuted, 18
    errors: refuted, 13
    wider: refuted, 30
    lifted: refuted, 25
    "#);
    assert_eq!(ran.code, 1);
    for it in statements {
        shell.write("call.yaml", &it["call"].to_string());
        let set = if it["name"] == "lifted" { "r" } else { "p" };
        let replayed = shell.run(&["policy", "explain", "--file", "call.yaml", "--policies", set, "--json"]);
        let expected: &[&str] = if it["name"] == "errors" { &["failed"] } else { &["allow", "approval"] };
        let outcome = replayed.json()["outcome"].clone();
        assert!(expected.contains(&outcome.as_str().unwrap()), "{it} comes to {}{}", replayed.out, replayed.err);
    }
}

#[test]
fn what_the_schema_refuses_and_what_errs_is_labelled() {
    if !solver() {
        return;
    }
    let shell = shell(
        r#"
statements:
  - {name: pattern, never_over: {surface: http, capability: reports.export, when: 'context.input.month == "never"'}}
  - {name: errors, implies: {set: ., by: .}}
"#,
    );
    let ran = shell.run(&["policy", "prove", "p", "--json"]);
    insta::assert_snapshot!(outcomes(&ran).0, @r#"
    pattern: refuted, 1 (it needs an input that the schema refuses: invalid (/month pattern))
    errors: unknown, 108 (`overflows` of `by` can err, which refuses calls: see to `no_errors` first)
    "#);
    let shown = shell.run(&["policy", "prove", "p"]);
    assert_eq!((ran.code, shown.code), (1, 1));
    assert!(shown.out.contains("countersign policy explain --file FILE --policies p"), "{}", shown.out);
}

/// A solver that knows nothing.
#[cfg(unix)]
fn ignorant(shell: &Shell) -> String {
    use std::os::unix::fs::PermissionsExt as _;

    shell.write("ignorant", "#!/bin/sh\nwhile read -r line; do [ \"$line\" = '(check-sat)' ] && echo unknown; done\n");
    let path = shell.path().join("ignorant");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[cfg(unix)]
#[test]
fn what_the_solver_does_not_know_is_not_proved() {
    let shell = shell("statements: [{name: one, only_role: {role: support, capability: orders.refund}}]");
    let ran = shell.run(&["policy", "prove", "p", "--solver", &ignorant(&shell), "--limit", "7"]);
    assert_eq!((ran.code, &*ran.err), (1, ""));
    insta::assert_snapshot!(ran.out, @r#"
    statement                outcome  environments
    invariants/a.yaml:1 one  unknown  4

    one is unknown
      note: the solver found no answer within 7 s a question

    failed: 1 of 1 statement not proved
    "#);
}

#[test]
fn without_a_solver_nothing_is_proved() {
    let shell = shell("statements: [{name: one, only_role: {role: support, capability: orders.refund}}]");
    let ran = shell.run(&["policy", "prove", "p", "--solver", "no-such-solver"]);
    assert_eq!((ran.code, &*ran.out), (5, ""));
    insta::assert_snapshot!(ran.err, @r#"
    error: nothing can be proved: `no-such-solver` does not start: No such file or directory (os error 2)
      next: install the solver cvc5 (`apt-get install cvc5`), or say where it is: `--solver PATH`, or `CVC5=PATH`
    "#);
}

#[test]
fn statements_that_cannot_be_read_say_where_and_what_to_do() {
    let shell = shell(
        r#"
statements:
  - {name: one, only_role: {role: suport, capability: orders.refund}}
  - {name: two, only_role: {role: support, capability: orders.refnd}}
  - {name: three, only_role: {role: true, capability: order.*}}
  - {name: four, never_without_approval: {capability: orders.refund, type: manger}}
  - {name: five, never_over: {surface: http, capability: orders.refund, when: "context.input.amount > 5"}}
  - {name: six, never_over: {surface: http, capability: orders.refund, when: "true } unless { false"}}
  - {name: seven, no_errors: [larg]}
  - {name: eight, implies: {set: ., by: ../nowhere}}
  - {name: nine}
  - {no_errors: true}
  - {name: eleven, no_errors: true, implies: {set: ., by: .}}
  - {name: twelve, no_errors: true}
  - {name: twelve, no_errors: true}
"#,
    );
    shell.write("p/invariants/member.yaml", "statements:\n  - name: one\n    only_rol: {role: support}\n");
    shell.write("p/invariants/surface.yaml", "statements: [{name: a, never_over: {surface: mpc, capability: x}}]");
    shell.write("p/invariants/false.yaml", "statements: [{name: a, no_errors: false}]");
    shell.write("p/invariants/empty.yaml", "statements: []");
    let ran = shell.run(&["policy", "prove", "p"]);
    assert_eq!((ran.code, &*ran.out), (3, ""));
    insta::assert_snapshot!(ran.err);
    std::fs::remove_dir_all(shell.path().join("p/invariants")).unwrap();
    assert_eq!(shell.run(&["policy", "prove", "p"]).code, 3);
}

#[test]
fn what_the_page_about_proofs_shows_works() {
    let page = include_str!("../../docs/policies/proving.md");
    let shell = Shell::new();
    for (name, text) in countersign::demo::POLICIES.iter().chain(&countersign::demo::POLICY_INVARIANTS) {
        shell.write(&format!("policies/{name}"), text);
    }
    let example = page.split("```yaml\n").nth(1).and_then(|it| it.split("```").next()).unwrap();
    shell.write("policies/invariants/page.yaml", example);
    let commands: Vec<&str> = page.lines().filter_map(|it| it.strip_prefix("$ countersign ")).collect();
    assert!(commands.len() > 1 && Path::new(env!("CARGO_MANIFEST_DIR")).exists());
    if !solver() {
        return;
    }
    for command in commands {
        let ran = shell.run(&command.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, 0, "countersign {command}\n{}{}", ran.out, ran.err);
    }
}
