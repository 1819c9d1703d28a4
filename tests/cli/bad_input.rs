//! Whatever is wrong with a command gets a one-line cause, the next step and the right exit code.

use super::{Ran, Shell};

const SEARCH: [&str; 6] = ["invoke", "orders.search", "--actor", "dana", "--input", r#"{"query":"lamp"}"#];

/// A command and everything that it says.
fn told(arguments: &[&str], ran: &Ran) -> String {
    format!("$ countersign {}\nexit {}\n{}{}\n", arguments.join(" "), ran.code, ran.out, ran.err)
}

fn tell(shell: &Shell, commands: &[&[&str]]) -> String {
    commands.iter().map(|it| told(it, &shell.run(it))).collect()
}

#[test]
fn wrong_arguments() {
    let shell = Shell::new();
    let text = tell(
        &shell,
        &[
            &[],
            &["frobnicate"],
            &["invoke"],
            &["invoke", "orders.search", "--frob"],
            &["invoke", "orders.search", "--surface", "pigeon"],
            &["approvals"],
            &["approvals", "aprove", "apr_1"],
            &["executions", "resolve", "1", "--as", "maybe"],
            &["executions", "resolve", "1", "--as", "failed", "--output", "{}"],
            &["executions", "resolve", "1", "--as", "completed", "--output", r#"{"a":1,"a":2}"#],
            &["policy", "explain", "orders.search", "--actor", "dana", "--tenant", ""],
            &["audit", "list", "--since", "yesterday"],
            &["audit", "list", "--limit", "0"],
            &["audit", "list", "--json", "--limit", "0"],
        ],
    );
    insta::assert_snapshot!(text);
    assert_eq!(std::fs::read_dir(shell.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn wrong_files() {
    let shell = Shell::new();
    shell.write("extra.json", r#"{"id": "kim", "kind": "user", "admin": true}"#);
    shell.write("kind.json", r#"{"id": "kim", "kind": "robot"}"#);
    shell.write("blank.json", r#"{"id": " ", "kind": "user"}"#);
    shell.write("broken.json", r#"{"id": "kim""#);
    let text = tell(
        &shell,
        &[
            &["invoke", "orders.search", "--actor", "dana", "--input", "@missing.json"],
            &["invoke", "orders.search", "--actor", "nobody"],
            &["invoke", "orders.search", "--actor", "extra.json"],
            &["invoke", "orders.search", "--actor", "kind.json"],
            &["invoke", "orders.search", "--actor", "blank.json"],
            &["invoke", "orders.search", "--actor", "broken.json"],
            &["invoke", "orders.search", "--policies", "missing"],
            &["policy", "check", "missing"],
        ],
    );
    insta::assert_snapshot!(text);
    assert_eq!(std::fs::read_dir(shell.path()).unwrap().count(), 4, "nothing was made");
}

#[test]
fn wrong_databases() {
    let shell = Shell::new();
    shell.write("notes.txt", "These are notes, and no database. They must stay as they are, whatever happens.\n");
    std::fs::create_dir(shell.path().join("directory")).unwrap();
    let on = |url: &'static str| [&SEARCH[..], &["--db", url]].concat();
    let commands = [
        on("sqlite:missing/countersign.db"),
        on("sqlite:notes.txt"),
        on("sqlite:directory"),
        on("postgres://localhost/x"),
        on("sqlite:"),
        vec!["approvals", "list"],
        vec!["audit", "list", "--json"],
    ];
    let text: String = commands.iter().map(|it| told(it, &shell.run(it))).collect();
    insta::assert_snapshot!(text);
    let notes = std::fs::read_to_string(shell.path().join("notes.txt")).unwrap();
    assert!(notes.starts_with("These are notes"));
    assert!(!shell.path().join("countersign.db").exists(), "looking makes no database");
}

/// Changes a database behind the engine's back.
pub(super) fn execute(shell: &Shell, statement: &'static str) {
    use sqlx::{Connection as _, SqliteConnection};

    let url = format!("sqlite:{}", shell.path().join("countersign.db").display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut link = SqliteConnection::connect(&url).await.unwrap();
        sqlx::query(statement).execute(&mut link).await.unwrap();
        link.close().await.unwrap();
    });
}

#[test]
fn a_database_of_a_newer_version() {
    let shell = Shell::new();
    assert_eq!(shell.run(&SEARCH).code, 0);
    execute(
        &shell,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'from the future', TRUE, x'00', 0)",
    );
    let ran = shell.run(&SEARCH);
    insta::assert_snapshot!(told(&["invoke", ".."], &ran));
}

#[test]
fn a_database_that_another_process_keeps_locked() {
    let shell = Shell::new();
    assert_eq!(shell.run(&SEARCH).code, 0);
    let lock = std::fs::File::open(shell.path().join("countersign.db.writer")).unwrap();
    lock.lock().unwrap();
    let ran = shell.run(&SEARCH);
    insta::assert_snapshot!(told(&["invoke", ".."], &ran));
    lock.unlock().unwrap();
    assert_eq!(shell.run(&SEARCH).code, 0, "nothing is left behind");
}

#[test]
fn a_lost_sealing_key() {
    let shell = Shell::new();
    assert_eq!(shell.run(&SEARCH).code, 0);
    std::fs::remove_file(shell.path().join("countersign.db.key")).unwrap();
    let ran = shell.run(&SEARCH);
    insta::assert_snapshot!(told(&["invoke", ".."], &ran));
}

#[cfg(unix)]
#[test]
fn a_directory_that_cannot_be_written() {
    use std::os::unix::fs::PermissionsExt as _;

    let shell = Shell::new();
    let closed = shell.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o555)).unwrap();
    if std::fs::write(closed.join("probe"), "").is_ok() {
        return; // the superuser may write anywhere
    }
    let ran = shell.run(&[&SEARCH[..], &["--db", "sqlite:closed/countersign.db"]].concat());
    assert_eq!(ran.code, 5);
    assert!(ran.err.starts_with("error: the database: ") && ran.err.contains("\n  next: "), "{}", ran.err);
}

#[test]
fn wrong_policies() {
    let shell = Shell::new();
    shell.write(
        "bad/rules.cedar",
        "@id(\"typo\")\npermit (\n  principal in Role::\"support\",\n  action == Action::\"orders.refnd\",\n  resource\n);\n\n\
         @id(\"member\")\nforbid (principal, action == Action::\"orders.refund\", resource)\n\
         when { context.input.amountCent > 1 };\n\npermit (principal, action, resource);\n",
    );
    std::fs::create_dir(shell.path().join("empty")).unwrap();
    let with = |directory: &'static str| [&SEARCH[..], &["--policies", directory]].concat();
    // Without any policy nobody could confirm messages, which one of the demo's capabilities demands (APR-12).
    let commands = [vec!["policy", "check", "bad"], with("bad"), with("empty")];
    let text: String = commands.iter().map(|it| told(it, &shell.run(it))).collect();
    insta::assert_snapshot!(text);
    let machine = shell.run(&["policy", "check", "bad", "--json"]);
    let report = machine.json();
    assert_eq!((machine.code, report["ok"].as_bool()), (3, Some(false)));
    assert!(report["problems"].as_array().unwrap().iter().all(|it| it["file"] == "rules.cedar"));
    assert!(shell.run(&["audit", "list", "--type", "policy.refused", "--json"]).json()[0]["data"]["problems"] == 3);
}

#[test]
fn a_wrong_log_filter() {
    let shell = Shell::new();
    let output = shell.command(&["capabilities", "list"]).env("COUNTERSIGN_LOG", "a=b=c").output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("error: `COUNTERSIGN_LOG` holds no log filter"));
}
