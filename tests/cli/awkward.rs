//! Files that are none, outputs that cannot be written, databases that can only be read, and lists without end.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::bad_input::execute;
use super::{Ran, Shell};

const SEARCH: &[&str] = &["invoke", "orders.search", "--actor", "dana", "--input", r#"{"query":"lamp"}"#];
const SMALL: &str = r#"{"orderId":"ord_42","amountCents":4900,"reason":"Scratched."}"#;
const LARGE: &str = r#"{"orderId":"ord_42","amountCents":64900,"reason":"Cracked."}"#;

fn waiting(shell: &Shell) -> String {
    let asked = shell.run(&["invoke", "orders.refund", "--actor", "dana", "--input", LARGE, "--json"]);
    asked.json()["approval"]["id"].as_str().unwrap().to_owned()
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_no_files_and_nobody_waits_for_them() {
    let shell = Shell::new();
    assert_eq!(shell.run(SEARCH).code, 0);
    let pipe = |name: &str| {
        let made = Command::new("mkfifo").arg(shell.path().join(name)).status().unwrap();
        assert!(made.success());
    };
    pipe("actor.json");
    pipe("fifo.db");
    let actor = |file: &str| shell.run(&["invoke", "orders.search", "--actor", file]);
    for file in ["actor.json", "/dev/zero", "."] {
        let ran = actor(file);
        assert_eq!((ran.code, ran.err.contains("is no file")), (5, true), "{file}: {}", ran.err);
    }
    let token = shell.run(&["audit", "list", "--server", "http://127.0.0.1:9", "--token-file", "actor.json"]);
    assert_eq!((token.code, token.err.contains("not a regular file")), (5, true), "{}", token.err);
    for url in ["sqlite:fifo.db", "sqlite:/dev/zero"] {
        let ran = shell.run(&["audit", "list", "--db", url]);
        assert_eq!((ran.code, ran.err.contains("is not a database")), (5, true), "{}", ran.err);
    }
    std::fs::remove_file(shell.path().join("countersign.db.key")).unwrap();
    pipe("countersign.db.key");
    let ran = shell.run(SEARCH);
    assert_eq!((ran.code, ran.err.contains("is not a sealing key")), (5, true), "{}", ran.err);
}

#[cfg(target_os = "linux")]
#[test]
fn a_call_whose_answer_cannot_be_written_is_not_told_as_one_that_never_ran() {
    let shell = Shell::new();
    let into_nothing = |arguments: &[&str]| {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = shell.command(arguments).stdout(full).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let refund = ["invoke", "orders.refund", "--actor", "dana", "--input"];
    for format in [&[][..], &["--json"]] {
        let (code, said) = into_nothing(&[&refund[..], &[SMALL], format].concat());
        assert_eq!(code, 1, "{said}");
        assert!(said.starts_with("error: the output cannot be written: "), "{said}");
        assert!(said.contains("; but the command ran: completed, execution "), "{said}");
    }
    let (code, said) = into_nothing(&[&refund[..], &[LARGE]].concat());
    assert_eq!((code, said.contains("the command ran: approval required (apr_")), (4, true), "{said}");
    let id = waiting(&shell);
    let (code, said) = into_nothing(&["approvals", "approve", &id, "--actor", "priya"]);
    assert_eq!((code, said.contains(&format!("the command ran: approved {id}"))), (1, true), "{said}");
    let completed = shell.run(&["audit", "list", "--type", "capability.completed", "--json"]).json();
    assert_eq!(completed.as_array().unwrap().len(), 2);
    let (code, said) = into_nothing(&["audit", "list"]);
    assert_eq!((code, said.contains("the command ran")), (5, false), "{said}");
    let (code, said) = into_nothing(&["audit", "tail"]);
    assert_eq!((code, said.starts_with("error: the output cannot be written: ")), (5, true), "{said}");
}

/// How a list says that it has more.
fn more(ran: &Ran) -> bool {
    ran.out.lines().last().unwrap().starts_with("there are more: `--before ")
}

#[test]
fn lists_are_bounded_and_go_on_where_they_ended() {
    let shell = Shell::new();
    let mut filed: Vec<String> = (0..3).map(|_| waiting(&shell)).collect();
    filed.reverse();
    let ids = |arguments: &[&str]| {
        let all = shell.run(&[&["approvals", "list", "--json"], arguments].concat()).json();
        all.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for name in [&[][..], &["--actor", "priya"]] {
        let listed = |arguments: &[&str]| ids(&[arguments, name].concat());
        assert_eq!(listed(&[]), filed, "the latest first");
        assert_eq!(listed(&["--limit", "2"]), filed[..2]);
        assert_eq!(listed(&["--limit", "2", "--before", &filed[1]]), filed[2..]);
        assert_eq!(listed(&["--before", "apr_unknown"]), [""; 0]);
        let list = |limit| shell.run(&[&["approvals", "list", "--limit", limit], name].concat());
        assert_eq!((more(&list("2")), more(&list("3"))), (true, false));
    }
    assert_eq!(shell.run(&["approvals", "list", "--limit", "0"]).code, 5);
}

#[test]
fn executions_are_listed_and_those_that_nobody_knows_of_are_found() {
    let shell = Shell::new();
    let call = |key| {
        let call = ["invoke", "orders.refund", "--actor", "dana", "--input", SMALL, "--idempotency-key", key, "--json"];
        shell.run(&call).json()["executionId"].as_str().unwrap().to_owned()
    };
    let (first, second) = (call("k1"), call("k2"));
    execute(&shell, "UPDATE execution SET state = 'unknown' WHERE id = (SELECT MIN(id) FROM execution)");
    let listed = |arguments: &[&str]| {
        let all = shell.run(&[&["executions", "list", "--json"], arguments].concat()).json();
        let told = |it: &Value| (it["id"].as_str().unwrap().to_owned(), it["status"].as_str().unwrap().to_owned());
        all.as_array().unwrap().iter().map(told).collect::<Vec<_>>()
    };
    let (unknown, completed) = ((first.clone(), "unknown".to_owned()), (second.clone(), "completed".to_owned()));
    assert_eq!(listed(&[]), [completed.clone(), unknown.clone()]);
    assert_eq!(listed(&["--status", "unknown"]), std::slice::from_ref(&unknown));
    assert_eq!(listed(&["--status", "running"]), []);
    assert_eq!(listed(&["--limit", "1"]), [completed]);
    assert_eq!(listed(&["--before", &second]), [unknown]);
    assert!(more(&shell.run(&["executions", "list", "--limit", "1"])));
    let text = shell.run(&["executions", "list", "--status", "unknown"]).out;
    assert!(text.starts_with("execution ") && text.contains("orders.refund  dana@acme"), "{text}");

    let settled = shell.run(&["executions", "resolve", &first, "--actor", "priya", "--as", "failed", "--json"]);
    assert_eq!((settled.code, &settled.json()["status"]), (0, &json!("failed")), "{}", settled.err);
    assert_eq!(shell.run(&["executions", "resolve", &first, "--actor", "dana", "--as", "failed"]).code, 2);
    for kind in ["management.done", "management.denied"] {
        let event = shell.run(&["audit", "list", "--type", kind, "--json"]).json();
        let issuer = event[0]["actor"]["issuer"].as_str().unwrap();
        assert!(issuer.starts_with("cli:"), "who sat there: {event}");
    }
}

#[test]
fn who_decides_goes_by_the_active_policies_and_proposes_none() {
    let shell = Shell::new();
    for (name, text) in countersign::demo::POLICIES {
        shell.write(&format!("own/{name}"), text);
    }
    shell.write(
        "own/more.cedar",
        "@id(\"none-of-it\") forbid (principal, action == Action::\"orders.purge\", resource);",
    );
    let own = ["--policies", "own"];
    let asked =
        shell.run(&[&["invoke", "orders.refund", "--actor", "dana", "--input", LARGE, "--json"], &own[..]].concat());
    let id = asked.json()["approval"]["id"].as_str().unwrap().to_owned();
    let history = || shell.run(&["policy", "history", "--json"]).json();
    let before = history();
    assert_eq!((before.as_array().unwrap().len(), before[0]["files"].as_u64()), (1, Some(5)));
    for (arguments, code) in [
        (&["approvals", "approve", &id, "--actor", "priya"][..], 0),
        (&["approvals", "resume", &id, "--actor", "dana"], 0),
        (&["approvals", "withdraw", &id, "--actor", "dana"], 2),
        (&["executions", "resolve", "nothing", "--actor", "priya", "--as", "failed"], 2),
        (SEARCH, 0),
    ] {
        let ran = shell.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
    }
    assert_eq!(history(), before, "nobody proposed the demo's own");
}

#[cfg(unix)]
#[test]
fn a_database_that_can_only_be_read_is_read() {
    use std::os::unix::fs::PermissionsExt as _;

    let shell = Shell::new();
    assert_eq!(shell.run(SEARCH).code, 0);
    let set = |mode, directory| {
        let file = |ending| shell.path().join(format!("countersign.db{ending}"));
        std::fs::set_permissions(file(""), std::fs::Permissions::from_mode(mode)).unwrap();
        std::fs::set_permissions(shell.path(), std::fs::Permissions::from_mode(directory)).unwrap();
    };
    set(0o444, 0o555);
    if std::fs::OpenOptions::new().append(true).open(shell.path().join("countersign.db")).is_err() {
        for look in [&["audit", "list"][..], &["audit", "tail"], &["policy", "history"], &["executions", "list"]] {
            let ran = shell.run(look);
            assert_eq!(ran.code, 0, "{look:?}: {}", ran.err);
        }
        let ran = shell.run(SEARCH);
        assert_eq!((ran.code, ran.err.contains("cannot be written")), (5, true), "{}", ran.err);
    } // the superuser may write anywhere
    set(0o644, 0o755);
}

#[test]
fn looking_writes_nothing_and_waits_for_nobody() {
    let shell = Shell::new();
    assert_eq!(shell.run(SEARCH).code, 0);
    let lock = std::fs::File::open(shell.path().join("countersign.db.writer")).unwrap();
    lock.lock().unwrap();
    let before = std::fs::read(shell.path().join("countersign.db")).unwrap();
    for look in [&["audit", "list"][..], &["audit", "tail"], &["policy", "history"], &["executions", "list"]] {
        let ran = shell.run(look);
        assert_eq!(ran.code, 0, "{look:?}: {}", ran.err);
    }
    assert_eq!(std::fs::read(shell.path().join("countersign.db")).unwrap(), before);
}

#[test]
fn a_database_of_another_is_told_as_what_it_is_by_those_who_only_look() {
    let shell = Shell::new();
    assert_eq!(shell.run(SEARCH).code, 0);
    shell.write("notes.txt", "These are notes, and no database. They must stay as they are, whatever happens.\n");
    execute(
        &shell,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'from the future', TRUE, x'00', 0)",
    );
    let newer = shell.run(&["audit", "list"]);
    let foreign = shell.run(&["audit", "list", "--db", "sqlite:notes.txt"]);
    for (ran, what, next) in
        [(&newer, "was written by a newer version", "upgrade"), (&foreign, "is not a database", "name another path")]
    {
        assert_eq!(ran.code, 5);
        assert!(ran.err.contains(what) && ran.err.ends_with(&format!("next: {next}\n")), "{}", ran.err);
    }
}

#[test]
fn a_database_that_sqlite_itself_locks_is_told_as_locked() {
    let shell = Shell::new();
    assert_eq!(shell.run(SEARCH).code, 0);
    let mut child = shell.command(&["audit", "tail", "--follow"]).stdout(Stdio::null()).spawn().unwrap();
    execute(&shell, "PRAGMA user_version = 0"); // somebody else's tool
    assert_eq!(shell.run(SEARCH).code, 0, "whoever only looks stands in nobody's way");
    child.kill().unwrap();
    child.wait().unwrap();
}
