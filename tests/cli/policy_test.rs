//! `policy test`: suites that pass, that fail, and that cannot be run.

use super::Shell;

const POLICIES: &str = r#"
@id("support-refunds") permit (principal in Role::"support", action == Action::"orders.refund", resource);
@id("large") @approval("manager") @reason("Large.") forbid (principal, action == Action::"orders.refund", resource)
when { context.input.amountCents > 50000 };
@id("office-hours") forbid (principal, action == Action::"orders.refund", resource)
when { context.now >= datetime("2026-02-01") };
@id("managers") permit (principal in Role::"manager", action == Countersign::Action::"approve", resource);
"#;

fn shell(tests: &[(&str, &str)]) -> Shell {
    let shell = Shell::new();
    shell.write("p/a.cedar", POLICIES);
    for (name, text) in tests {
        shell.write(&format!("p/tests/{name}"), text);
    }
    shell
}

#[test]
fn the_demo_policies_have_a_complete_suite() {
    let shell = Shell::new();
    let ran = shell.run(&["policy", "test"]);
    assert_eq!((ran.code, &*ran.err), (0, ""), "{}", ran.out);
    insta::assert_snapshot!(ran.out);
    let report = shell.run(&["policy", "test", "--json"]).json();
    assert_eq!(report["coverage"]["unexercised"], serde_json::json!([]));
    assert_eq!(report["coverage"]["policies"], 11);
    assert!(report["cases"].as_array().unwrap().iter().all(|it| it["passed"] == true), "{report}");
}

#[test]
fn what_the_directory_holds_is_what_is_compiled_in() {
    let shell = Shell::new();
    let directory = format!("{}/policies", env!("CARGO_MANIFEST_DIR"));
    let (compiled, read) =
        (shell.run(&["policy", "test", "--json"]), shell.run(&["policy", "test", &directory, "--json"]));
    assert_eq!(compiled.json(), read.json());
}

const MANAGING: &str = r"
defaults: {capability: orders.refund, requester: bo}
actors:
  ann: {id: ann, kind: user, roles: [manager]}
  bo: {id: bo, kind: user}
cases:
  - {name: their own is withdrawn, actor: bo, manage: withdraw, expect: allow, policies: []}
  - {name: somebody else's is not, actor: ann, manage: withdraw, expect: deny}
  - {name: their own is resumed, actor: bo, manage: resume, expect: allow, policies: []}
  - {name: nobody else resumes, actor: ann, manage: resume, expect: deny}
  - {name: their own is seen, actor: bo, manage: read_approvals, expect: allow, policies: []}
  - {name: approvers see it, actor: ann, manage: read_approvals, requirement: manager, expect: allow, policies: [managers]}
  - {name: others do not, actor: bo, requester: ann, manage: read_approvals, requirement: manager, expect: deny}
  - {name: operators settle, actor: ann, manage: reconcile, expect: allow, policies: [operators]}
  - {name: nobody settles their own, actor: ann, requester: ann, manage: reconcile, expect: deny, policies: []}
";

#[test]
fn management_comes_out_as_it_does_for_real() {
    let shell = shell(&[("a.yaml", MANAGING)]);
    let operators = r#"@id("operators") permit (principal in Role::"manager",
        action == Countersign::Action::"reconcile", resource is Countersign::Engine);"#;
    shell.write("p/b.cedar", operators);
    let ran = shell.run(&["policy", "test", "p"]);
    assert_eq!((ran.code, &*ran.err), (0, ""), "{}", ran.out);
    shell.write("p/tests/b.yaml", "cases: [{name: one, actor: dana, manage: resume, expect: allow}]");
    let ran = shell.run(&["policy", "test", "p"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("the request that `resume` is about is missing"), "{}", ran.err);
}

const MIXED: &str = r"
defaults: {actor: dana, capability: orders.refund, input: {orderId: o, amountCents: 1, reason: x}}
cases:
  - {name: small, expect: allow, policies: [support-refunds]}
  - name: large
    input: {orderId: o, amountCents: 60000, reason: x}
    expect: allow
  - {name: by the gate, expect: allow, policies: [large]}
  - {name: later, at: 2026-02-01T00:00:00Z, expect: {approval: [manager]}}
  - {name: no input, input: {}, expect: deny}
  - {name: the <nightly> job, actor: nightly, expect: hidden}
";

#[test]
fn every_failure_is_shown_at_once() {
    let shell = shell(&[
        ("b.yaml", MIXED),
        (
            "a.yaml",
            "cases: [{name: one, actor: omar, capability: orders.refund, input: {orderId: o, amountCents: 1, reason: x}, expect: allow}]",
        ),
    ]);
    let ran = shell.run(&["policy", "test", "p", "--junit", "report.xml"]);
    assert_eq!((ran.code, &*ran.err), (1, ""));
    insta::assert_snapshot!(ran.out);
    let xml = std::fs::read_to_string(shell.path().join("report.xml")).unwrap();
    insta::assert_snapshot!(xml);
    let json = shell.run(&["policy", "test", "p", "--json"]).json();
    assert_eq!((&json["ok"], &json["passed"], &json["failed"]), (&false.into(), &2.into(), &5.into()));
    insta::assert_json_snapshot!(json["cases"][2]);
}

#[test]
fn cases_that_cannot_be_run_say_where_and_what_to_do() {
    let tests = [
        ("member.yaml", "cases:\n  - name: one\n    acter: dana\n    expect: allow\n"),
        ("word.yaml", "cases:\n  - name: one\n    actor: dana\n    expect: alow\n"),
        ("actor.yaml", "actors:\n  kim: {id: kim, kind: user, role: [x]}\ncases: []\n"),
        ("empty.yaml", "cases: []\n"),
        ("broken.yaml", "cases: [\n"),
        ("twice.yaml", "cases: []\ncases: []\n"),
        (
            "names.yaml",
            r#"actors: {blank: {id: " ", kind: user}}
cases:
  - {name: one, actor: dan, capability: orders.refund, expect: allow}
  - {name: two, actor: dana, capability: orders.refnd, expect: allow}
  - {name: three, actor: dana, capability: orders.refund}
  - {actor: dana, capability: orders.refund, expect: allow}
  - {name: four, capability: orders.refund, expect: allow}
  - {name: five, actor: dana, expect: allow}
  - {name: six, actor: dana, capability: orders.refund, expect: allow, policies: [lorge]}
  - {name: seven, actor: dana, manage: aprove, expect: allow}
  - {name: eight, actor: dana, manage: approve, expect: allow}
  - {name: nine, actor: dana, capability: orders.refund, requirement: manager, expect: allow}
  - {name: ten, actor: dana, capability: orders.refund, expect: allow, entities: [{type: Order, id: o}]}
  - {name: ten, actor: dana, tenant: "", capability: orders.refund, expect: allow}
  - {name: twelve, actor: dana, capability: orders.refund, expect: allow}
  - {name: twelve, actor: dana, capability: orders.refund, expect: allow}
  - {name: thirteen, actor: dana, capability: orders.refund, approved_at: 2026-01-01T00:00:00Z, expect: allow}
"#,
        ),
        ("kind.yaml", "cases: [{name: one, actor: {id: kim, kind: robot}, capability: orders.refund, expect: allow}]"),
    ];
    let shell = shell(&tests);
    let ran = shell.run(&["policy", "test", "p"]);
    assert_eq!((ran.code, &*ran.out), (3, ""));
    insta::assert_snapshot!(ran.err);
    let machine = shell.run(&["policy", "test", "p", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&machine.err).unwrap();
    assert!(error["error"]["problems"].as_array().unwrap().iter().all(|it| it["help"].is_string()), "{error}");
}

#[test]
fn a_suite_that_would_pass_over_something_does_not_pass() {
    for (tests, message) in [
        (&[][..], "it cannot be read"),
        (&[("a.yaml.txt", "cases: []")], "it is no `.yaml` file"),
        (&[(".hidden", "")], "there are no cases"),
    ] {
        let ran = shell(tests).run(&["policy", "test", "p"]);
        assert_eq!(ran.code, 3, "{message}");
        assert!(ran.err.contains(message) && ran.err.contains("next:"), "{}", ran.err);
    }
    let shell = shell(&[("a.yaml", MIXED)]);
    assert_eq!(shell.run(&["policy", "test", "p", "--junit", "missing/report.xml"]).code, 5);
    shell.write("p/a.cedar", "permit (principal, action, resource)");
    assert_eq!(shell.run(&["policy", "test", "p"]).code, 3);
}

#[test]
fn a_report_replaces_a_report_and_nothing_else() {
    let shell = shell(&[("a.yaml", MIXED)]);
    let policies = std::fs::read_to_string(shell.path().join("p/tests/a.yaml")).unwrap();
    let refused = shell.run(&["policy", "test", "p", "--junit", "p/tests/a.yaml"]);
    assert_eq!(refused.code, 5);
    insta::assert_snapshot!(refused.err, @r"
    error: `p/tests/a.yaml` is there, and no report that this command could replace
      next: name another file, or remove that one: `--junit report.xml`
    ");
    assert_eq!(std::fs::read_to_string(shell.path().join("p/tests/a.yaml")).unwrap(), policies);
    shell.write("empty.xml", "");
    for file in ["new.xml", "new.xml", "empty.xml"] {
        assert_eq!(shell.run(&["policy", "test", "p", "--junit", file]).code, 1, "{file}");
        assert!(std::fs::read_to_string(shell.path().join(file)).unwrap().contains("<testsuites"), "{file}");
    }
}
