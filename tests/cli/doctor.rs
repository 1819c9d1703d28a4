//! `doctor`: what it finds, and that it says what to do.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::Value;

use super::Shell;

/// What is not as it should be: check, state, what, next.
fn found(shell: &Shell, arguments: &[&str]) -> String {
    let ran = shell.run(&[&["doctor", "--json"], arguments].concat());
    let report = ran.json();
    let findings = report["findings"].as_array().unwrap();
    let bad = |state: &str| findings.iter().any(|it| it["state"] == state);
    assert_eq!((ran.code == 0, report["ok"] == true), (!bad("problem"), !bad("problem")), "{report:#}");
    let mut told = String::new();
    for it in findings.iter().filter(|it| it["state"] != "good" && it["check"] != "listen" && it["check"] != "space") {
        let text = |name: &str| it[name].as_str().unwrap().to_owned();
        assert!(!text("next").is_empty(), "{it}");
        let line = format!("{} {}: {}; {}", text("check"), text("state"), text("what"), text("next"));
        writeln!(told, "{}", line.replace(shell.path().to_str().unwrap(), "DIR")).unwrap();
    }
    told
}

#[cfg(unix)]
fn chmod(shell: &Shell, name: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;

    std::fs::set_permissions(shell.path().join(name), std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A configuration that is as it should be, with a database.
fn sound() -> Shell {
    let shell = Shell::new();
    assert_eq!(shell.run(&["init"]).code, 0);
    assert_eq!(
        shell.run(&["token", "new", "--id", "dana", "--role", "support", "--append", "countersign.toml"]).code,
        0
    );
    shell.run(&["invoke", "orders.search", "--actor", "dana", "--input", r#"{"query":"lamp"}"#]);
    shell
}

#[test]
fn where_all_is_well_it_says_so_and_changes_nothing() {
    let shell = sound();
    let before = std::fs::read(shell.path().join("countersign.db")).unwrap();
    assert_eq!(found(&shell, &[]), "");
    let report = shell.run(&["doctor", "--json"]).json();
    let checks: Vec<&str> =
        report["findings"].as_array().unwrap().iter().map(|it| it["check"].as_str().unwrap()).collect();
    assert_eq!(
        checks,
        [
            "configuration",
            "space",
            "database",
            "schema",
            "journal",
            "sealing key",
            "log",
            "capabilities",
            "policies",
            "credentials",
            "clock",
            "listen"
        ]
    );
    assert_eq!(std::fs::read(shell.path().join("countersign.db")).unwrap(), before);
    let table = shell.run(&["doctor"]).out;
    assert!(table.starts_with("check") && table.ends_with("nothing stands in the way\n"), "{table}");
    let fresh = Shell::new();
    assert_eq!(found(&fresh, &[]), "", "nothing stands in the way of the demo either");
    assert_eq!(std::fs::read_dir(fresh.path()).unwrap().count(), 0);
}

#[test]
fn every_problem_of_the_configuration_is_told() {
    let shell = Shell::new();
    shell.write("countersign.toml", "databse = 1\n[log]\nformat = 7\n");
    insta::assert_snapshot!(found(&shell, &[]), @r#"
    configuration problem: countersign.toml:1: unknown key `databse`; did you mean `database`?
    configuration problem: countersign.toml:3: `log.format`: no text in quotes; correct the value
    "#);
}

#[cfg(unix)]
#[test]
fn whoever_else_could_read_or_change_what_decides_is_told() {
    let shell = sound();
    chmod(&shell, "countersign.toml", 0o666);
    chmod(&shell, "policies", 0o777);
    chmod(&shell, "countersign.db.key", 0o644);
    chmod(&shell, "countersign.db", 0o640);
    insta::assert_snapshot!(found(&shell, &[]), @r#"
    configuration problem: others can change `countersign.toml`, and with it give themselves every right; chmod go-w 'countersign.toml'
    policies problem: others can change `policies`, and with it give themselves every right; chmod go-w 'policies'
    database note: others can read `countersign.db`: who asked for what, and every comment; chmod 600 'countersign.db'
    sealing key problem: others can read the sealing key `countersign.db.key`; `chmod 600` it, and think about who has
    "#);
}

#[test]
fn what_is_wrong_with_the_database_is_told() {
    let shell = sound();
    let mut told = String::new();
    std::fs::remove_file(shell.path().join("countersign.db.key")).unwrap();
    told += &found(&shell, &[]);
    shell.write(
        "notes.txt",
        "These are notes, and no database, and they go on for a while: a page is not read in part.",
    );
    for url in ["sqlite:notes.txt", "sqlite:missing/x.db", "sqlite:policies", "postgres://localhost/x"] {
        told += &found(&shell, &["--db", url]);
    }
    insta::assert_snapshot!(told, @r#"
    sealing key problem: the sealing key `countersign.db.key` is missing, and the database was sealed with it; restore it from a backup
    database problem: `DIR/notes.txt` is not a database; name another path
    database problem: there is no directory `DIR/missing`; mkdir -p 'DIR/missing'
    database problem: `DIR/policies` is a directory; name a file in it
    database problem: `postgres://localhost/x` is no database of a known sort; write `sqlite:PATH`, say `sqlite:countersign.db`
    "#);
    assert!(std::fs::read_to_string(shell.path().join("notes.txt")).unwrap().starts_with("These are notes"));
}

#[test]
fn policies_that_do_not_load_are_told() {
    let shell = sound();
    shell.write(
        "policies/extra.cedar",
        "@id(\"typo\")\npermit (principal, action == Action::\"orders.refnd\", resource);\n",
    );
    insta::assert_snapshot!(found(&shell, &[]), @r#"policies problem: extra.cedar:2:30: unrecognized action `Action::"orders.refnd"` (policy `typo`); did you mean `Action::"orders.refund"`?"#);
}

/// The key of RFC 8037, appendix A.2.
const KEY: &str =
    r#"{"kty":"OKP","crv":"Ed25519","kid":"1","use":"sig","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;

/// An issuer whose clock shows this date. It has one key, and answers as long as the process lives.
fn issuer(date: String) -> String {
    issuer_with(date, KEY)
}

fn issuer_with(date: String, keys: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let body = format!(r#"{{"keys":[{keys}]}}"#);
            let head = "Content-Type: application/json\r\nConnection: close\r\n";
            let _ =
                write!(stream, "HTTP/1.1 200 OK\r\nDate: {date}\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    url
}

fn with_issuer(shell: &Shell, url: &str) {
    shell.write(
        "countersign.toml",
        &format!(
            "[[auth.issuers]]\nissuer = \"https://login.example\"\naudience = \"us\"\njwks_url = \"{url}\"\n\
             algorithms = [\"EdDSA\"]\nkind = \"user\"\ntenant = \"acme\"\n"
        ),
    );
}

#[test]
fn an_issuer_is_asked_and_its_clock_compared() {
    let shell = Shell::new();
    let now = String::from_utf8(std::process::Command::new("date").arg("-Ru").output().unwrap().stdout).unwrap();
    with_issuer(&shell, &issuer(now.trim().to_owned()));
    assert_eq!(found(&shell, &[]), "");
    with_issuer(&shell, &issuer("Tue, 02 Jun 2099 12:00:00 GMT".to_owned()));
    let told = found(&shell, &[]);
    assert!(
        told.starts_with("clock problem: https://login.example: it is 2099-06-02T12:00:00.000000Z there, and "),
        "{told}"
    );
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    with_issuer(&shell, &format!("http://{gone}/keys"));
    let told = found(&shell, &[]);
    assert!(
        told.starts_with("issuer problem: https://login.example: no keys: the issuer cannot be reached: "),
        "{told}"
    );
}

#[test]
fn an_issuer_that_answers_without_a_usable_key_is_told() {
    let shell = Shell::new();
    let now = String::from_utf8(std::process::Command::new("date").arg("-Ru").output().unwrap().stdout).unwrap();
    // It answers, and its only key is for another algorithm than the one that is allowed.
    with_issuer(&shell, &issuer_with(now.trim().to_owned(), r#"{"kty":"oct","kid":"1","k":"AAAA"}"#));
    insta::assert_snapshot!(found(&shell, &[]), @"issuer problem: https://login.example: none of its keys is usable; have it publish a signing key of one of `algorithms`");
}

#[cfg(feature = "otel")]
#[test]
fn a_collector_is_asked_and_its_settings_are_checked() {
    let shell = Shell::new();
    let write = |endpoint: &str| shell.write("countersign.toml", &format!("[telemetry]\nendpoint = \"{endpoint}\"\n"));
    let of = || {
        let found = found(&shell, &[]);
        found.lines().filter(|it| it.starts_with("collector")).map(str::to_owned).collect::<Vec<_>>()
    };
    write(&issuer(String::new()));
    assert_eq!(of(), [""; 0]);
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    write(&format!("http://{gone}"));
    let told = of();
    assert!(
        told[0].starts_with(&format!("collector note: http://{gone} does not answer, and spans are dropped: ")),
        "{told:?}"
    );
    assert!(told[0].ends_with("; see to the network, or correct `telemetry.endpoint`"), "{told:?}");
    write("collector:4318");
    insta::assert_snapshot!(of().join("\n"), @"collector problem: telemetry.endpoint: is no address of an HTTP server; write `https://collector.example`, or `http://localhost:4318`");
}

#[cfg(unix)]
#[test]
fn a_new_database_is_nobody_elses_to_read() {
    use std::os::unix::fs::PermissionsExt as _;

    let shell = sound();
    for file in ["countersign.db", "countersign.db.key"] {
        let mode = std::fs::metadata(shell.path().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[test]
fn an_address_that_is_not_free_is_told() {
    let shell = Shell::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    shell.write("countersign.toml", &format!("[http]\nlisten = \"{address}\"\n[metrics]\nlisten = \"192.0.2.1:9\"\n"));
    let ran = shell.run(&["doctor", "--json"]);
    let all = ran.json()["findings"].as_array().unwrap().clone();
    let of = |check: &str| all.iter().find(|it| it["check"] == check).unwrap().clone();
    assert_eq!(of("listen")["state"], "note");
    assert_eq!(of("listen")["what"], format!("something listens on {address}"));
    assert_eq!(of("metrics")["state"], "problem");
}

#[cfg(unix)]
#[test]
fn secrets_are_there_and_nobody_elses_to_read() {
    let shell = sound();
    shell.write("open.secret", "canary-1");
    shell.write("own.secret", "canary-2");
    chmod(&shell, "open.secret", 0o644);
    chmod(&shell, "own.secret", 0o600);
    // Where sections refer to secrets is their own affair; each such table counts.
    let text = std::fs::read_to_string(shell.path().join("countersign.toml")).unwrap();
    let token = "name = \"x\"\nsha256 = \"0000000000000000000000000000000000000000000000000000000000000000\"\nid = \"x\"\n\
                 kind = \"user\"\n[auth.tokens.attributes]\n";
    let refer = "a = { file = \"open.secret\" }\nb = { file = \"own.secret\" }\nc = { file = \"no.secret\" }\n\
                 d = { env = \"COUNTERSIGN_NO_SUCH\" }\n";
    shell.write("countersign.toml", &format!("{text}\n[[auth.tokens]]\n{token}{refer}"));
    chmod(&shell, "countersign.toml", 0o644);
    insta::assert_snapshot!(found(&shell, &[]), @r#"
    secrets problem: `auth.tokens.attributes.a`: others can read `open.secret`; chmod 600 'open.secret', and think about who has
    secrets problem: `auth.tokens.attributes.c`: the file `no.secret` cannot be read; put the secret there
    secrets problem: `auth.tokens.attributes.d`: the environment variable `COUNTERSIGN_NO_SUCH` is not set, or empty; put the secret there
    "#);
}

/// What is told of these checks, good or not.
fn told_of(shell: &Shell, checks: &[&str]) -> String {
    let report = shell.run(&["doctor", "--json"]).json();
    let all = report["findings"].as_array().unwrap();
    let of_them = all.iter().filter(|it| checks.contains(&it["check"].as_str().unwrap()));
    let line = |it: &Value| {
        let text = |name: &str| it[name].as_str().unwrap().replace(shell.path().to_str().unwrap(), "DIR");
        let next = text("next");
        let separator = if next.is_empty() { "" } else { "; " };
        format!("{} {}: {}{separator}{next}", text("check"), text("state"), text("what"))
    };
    of_them.map(line).collect::<Vec<_>>().join("\n")
}

/// The log is signed with a key of its own, which the configuration names with these settings.
fn signing(settings: &str) -> Shell {
    let shell = sound();
    assert_eq!(shell.run(&["audit", "key", "new", "--origin", "example.com/log"]).code, 0);
    let text = std::fs::read_to_string(shell.path().join("countersign.toml")).unwrap();
    shell.write("countersign.toml", &format!("{text}\n[audit]\nkey = {{ file = \"log.key\" }}\n{settings}\n"));
    shell
}

#[test]
fn the_log_its_checkpoints_and_its_anchors_are_looked_at() {
    let log = |shell: &Shell| told_of(shell, &["log", "anchor", "anchors"]);
    let mut told = vec![log(&sound())];
    let shell = signing("checkpoint_every = \"1h\"");
    told.push(log(&shell));
    assert_eq!(shell.run(&["audit", "checkpoint"]).code, 0);
    told.push(log(&shell));
    // The file that is beside the database if nobody names another is not the one that is named here.
    let shell =
        signing("checkpoint_every = \"1ms\"\nanchors = [{ file = \"kept\" }, { url = \"https://log.example/\" }]");
    told.push(log(&shell));
    assert_eq!(shell.run(&["audit", "checkpoint", "--anchor", "kept"]).code, 0);
    told.push(log(&shell));
    let forge = "UPDATE audit_head SET seq = 1";
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = shell.path().join("countersign.db");
    for statement in ["DROP TRIGGER audit_head_forward", forge] {
        runtime.block_on(crate::tamper::alter(&database, statement));
    }
    told.push(log(&shell));
    let time = (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME");
    insta::with_settings!({filters => [time]}, {
        insta::assert_snapshot!(told.join("\n--\n"), @r"
        log good: 4 events, 0 of them in the tree, 0 signed: there is no `audit.key`
        --
        log good: 4 events, 0 of them in the tree, 0 signed
        --
        log good: 4 events, 4 of them in the tree, 4 signed, last at TIME
        anchors good: the last checkpoint is with 1 of 1
        --
        log note: 4 events, 0 of them in the tree, 0 signed: the next one has waited since TIME; if a server runs, its log says why; else sign them: `countersign audit checkpoint`
        --
        log good: 4 events, 4 of them in the tree, 4 signed, last at TIME
        anchor note: `put:log.example/` has checkpoints up to 0 events, the last one covers 4; see whether it can be reached: a server that runs hands over what it lacks
        anchors good: the last checkpoint is with 1 of 2
        --
        log problem: 1 events, 4 of them in the tree, 4 signed; this cannot be: look into it with `countersign audit verify`
        anchor note: `put:log.example/` has checkpoints up to 0 events, the last one covers 4; see whether it can be reached: a server that runs hands over what it lacks
        anchors good: the last checkpoint is with 1 of 2
        ");
    });
}

#[test]
fn an_audit_section_that_a_server_would_refuse_is_told() {
    let shell = signing("anchors = [{ url = \"http://log.example/\" }]");
    let told = told_of(&shell, &["log"]);
    assert!(
        told.starts_with("log problem: [audit]: `audit.anchors`: `http://log.example/` is neither https"),
        "{told}"
    );
}

#[test]
fn a_report_is_for_machines_too() {
    let shell = sound();
    let report: Value = shell.run(&["doctor", "--json"]).json();
    let first = &report["findings"][0];
    let members: Vec<&str> = first.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, ["check", "state", "what", "next"]);
}
