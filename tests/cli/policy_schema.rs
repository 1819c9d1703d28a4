//! `policy schema`, and the file that the repository keeps.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::Shell;

fn repository() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("policies").to_str().unwrap().to_owned()
}

#[test]
fn the_file_in_the_repository_is_current() {
    let (shell, policies) = (Shell::new(), repository());
    let ran = shell.run(&["policy", "schema", "--policies", &policies, "--json"]).json();
    assert_eq!(ran["file"], "current", "run `countersign policy schema --policies policies --write`");
    let kept = fs::read_to_string(Path::new(&policies).join("countersign.cedarschema")).unwrap();
    let printed = shell.run(&["policy", "schema"]);
    assert_eq!((printed.code, printed.out, printed.err), (0, kept, String::new()));
}

#[test]
fn the_schema_is_printed_compared_and_written() {
    let shell = Shell::new();
    shell.write("policies/schema.cedarschema", "entity User = { department?: String };");
    shell.write("policies/a.cedar", "this is no policy, and the schema helps to write one");
    let schema = |flags: &[&str]| shell.run(&[&["policy", "schema", "--policies", "policies"], flags].concat());
    let absent = schema(&[]);
    assert_eq!((absent.code, &*absent.err), (0, ""));
    assert!(absent.out.contains("department?: String"), "{}", absent.out);
    let written = schema(&["--write"]);
    assert_eq!(written.out, "ok: `policies/countersign.cedarschema` written\n");
    assert_eq!(schema(&["--write"]).out, "ok: `policies/countersign.cedarschema` was up to date\n");
    let kept = fs::read_to_string(shell.path().join("policies/countersign.cedarschema")).unwrap();
    assert_eq!(kept, absent.out);
    assert_eq!(schema(&["--json"]).json(), json!({"file": "current", "unseen": [], "schema": kept}));

    shell.write("policies/schema.cedarschema", "entity User = { team?: String };");
    let stale = schema(&[]);
    assert!(stale.out.contains("team?: String"));
    let said = "warning: `countersign.cedarschema` says something else\n  next: the same command with `--write`\n";
    assert_eq!(stale.err, said);
    assert_eq!(schema(&["--json"]).json()["file"], "stale");
    assert_eq!(schema(&["--write", "--json"]).json()["file"], "written");
}

#[test]
fn a_schema_that_cannot_be_made_or_written_says_why() {
    let shell = Shell::new();
    shell.write("policies/schema.cedarschema", "entity Order in [");
    insta::assert_snapshot!(shell.run(&["policy", "schema", "--policies", "policies"]).err, @r"
    error: the policies do not load: 1 problem
    schema.cedarschema:1:18: error: error parsing schema: unexpected end of input
      1 | entity Order in [
      next: correct them, and look again: `countersign policy check DIR`
    ");
    shell.write("open/schema.cedarschema", "entity Order;");
    fs::create_dir(shell.path().join("open/countersign.cedarschema")).unwrap();
    let ran = shell.run(&["policy", "schema", "--policies", "open", "--write"]);
    assert_eq!((ran.code, ran.out.as_str()), (5, ""));
    assert!(ran.err.starts_with("error: `open/countersign.cedarschema` cannot be written: "), "{}", ran.err);
    assert_eq!(shell.run(&["policy", "schema", "--write"]).code, 5, "it needs a directory");
}

/// The executable that `CEDAR` names, or the one on the path.
fn cedar() -> Option<String> {
    let name = std::env::var("CEDAR").unwrap_or_else(|_| "cedar".into());
    Command::new(&name).arg("--version").output().ok().filter(|it| it.status.success()).map(|_| name)
}

/// `docs/policies/schema.md` shows these commands.
#[test]
fn cedars_own_validator_accepts_the_demos_policies_under_the_file() {
    let Some(cedar) = cedar() else {
        eprintln!("SKIPPED: no `cedar` on the path, and `CEDAR` names none: `cargo install cedar-policy-cli`");
        return;
    };
    let policies = repository();
    let validate = |file: &Path| {
        let schema = Path::new(&policies).join("countersign.cedarschema");
        let mut command = Command::new(&cedar);
        command.args(["validate", "--deny-warnings", "--schema"]).arg(schema).arg("--policies").arg(file);
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let files = fs::read_dir(&policies).unwrap().map(|it| it.unwrap().path());
    let files: Vec<_> = files.filter(|it| it.extension().is_some_and(|it| it == "cedar")).collect();
    assert!(files.len() >= 4);
    for file in files {
        let (accepted, said) = validate(&file);
        assert!(accepted, "{}: {said}", file.display());
    }
    let shell = Shell::new();
    let wrong =
        r#"forbid (principal, action == Action::"orders.refund", resource) when { context.input.amountCent > 1 };"#;
    shell.write("wrong.cedar", wrong);
    let (accepted, said) = validate(&shell.path().join("wrong.cedar"));
    assert!(!accepted && said.contains("amountCents"), "{said}");
}
