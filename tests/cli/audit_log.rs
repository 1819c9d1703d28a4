//! `audit key|checkpoint|verify|prove`: what they print, and how they end.

use serde_json::json;

use super::Shell;

/// A database with a few events, and a key.
fn shell() -> Shell {
    let shell = Shell::new();
    assert_eq!(shell.run(&["audit", "key", "new", "--origin", "example.com/log"]).code, 0);
    for _ in 0..2 {
        shell.run(&["invoke", "orders.search", "--actor", "dana", "--input", "{\"query\":\"lamp\"}"]);
    }
    shell
}

#[test]
fn a_key_is_for_its_owner_only_and_never_overwritten() {
    let shell = shell();
    let key = std::fs::read_to_string(shell.path().join("log.key")).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(shell.path().join("log.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::set_permissions(shell.path().join("log.key"), std::fs::Permissions::from_mode(0o640)).unwrap();
        let ran = shell.run(&["audit", "key", "show"]);
        assert_eq!(ran.code, 5);
        assert!(ran.err.contains("others can read the private key `log.key`"), "{}", ran.err);
        std::fs::set_permissions(shell.path().join("log.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let again = shell.run(&["audit", "key", "new", "--origin", "example.com/log"]);
    assert_eq!((again.code, std::fs::read_to_string(shell.path().join("log.key")).unwrap()), (5, key.clone()));
    let secret = key.trim().rsplit('+').next().unwrap();
    for command in [&["audit", "key", "show", "--json"][..], &["audit", "key", "show"], &["audit", "key", "rotate"]] {
        let ran = shell.run(command);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(!ran.out.contains(secret) && !ran.err.contains(secret));
    }
    assert_eq!(shell.run(&["audit", "key", "new", "--origin", "a b", "--out", "other"]).code, 5);
}

#[test]
fn a_key_from_the_environment_signs_and_cannot_be_rotated() {
    let shell = shell();
    let key = std::fs::read_to_string(shell.path().join("log.key")).unwrap();
    std::fs::remove_file(shell.path().join("log.key")).unwrap();
    let run = |arguments: &[&str]| shell.command(arguments).env("CSGN_AUDIT_KEY", &key).output().unwrap();
    let signed = run(&["audit", "checkpoint"]);
    assert!(signed.status.success() && String::from_utf8(signed.stdout).unwrap().starts_with("example.com/log\n"));
    assert_eq!(run(&["audit", "key", "rotate"]).status.code(), Some(5));
    assert_eq!(shell.run(&["audit", "checkpoint"]).code, 5);
}

#[test]
fn an_anchor_that_ends_within_a_character_is_read_all_the_same() {
    let shell = shell();
    let note = shell.run(&["audit", "checkpoint"]).out;
    let within = note.find('\u{2014}').unwrap() + 1;
    let torn = note.as_bytes()[..within].to_vec();
    let verify = |text: &[u8]| {
        std::fs::write(shell.path().join("anchor"), text).unwrap();
        let ran = shell.run(&["audit", "verify", "--key", "log.key.pub", "--anchor", "anchor", "--json"]);
        (ran.code, ran.json()["findings"].as_array().unwrap().len())
    };
    assert_eq!(verify(note.as_bytes()), (0, 0));
    assert_eq!(verify(&torn), (1, 1));
    assert_eq!(verify(&[&torn, &b"\n\n"[..], note.as_bytes()].concat()), (0, 0));
}

#[test]
fn a_log_in_order_is_0_a_forged_one_1_and_no_log_5() {
    let shell = shell();
    assert_eq!(
        shell.run(&["audit", "verify", "--key", "log.key.pub", "--json"]).json()["findings"][0]["kind"],
        "checkpoint"
    );
    assert_eq!(shell.run(&["audit", "checkpoint"]).code, 0);
    let whole = shell.run(&["audit", "verify", "--key", "log.key.pub", "--json"]);
    let count = whole.json()["events"].clone();
    let expected = json!({
        "ok": true, "events": count, "covered": count, "uncovered": null, "signatures": true, "findings": [], "more": 0,
    });
    assert_eq!((whole.code, whole.json()), (0, expected));
    let unsigned = shell.run(&["audit", "verify"]);
    assert_eq!(unsigned.code, 0);
    assert!(
        unsigned.out.contains("signatures were not checked: name the log's public key with `--key`"),
        "{}",
        unsigned.out
    );
    let forge =
        "DROP TRIGGER audit_event_no_update; UPDATE audit_event SET body = REPLACE(body, 'dana', 'nina') WHERE seq = 2";
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for statement in forge.split("; ") {
        runtime.block_on(crate::tamper::alter(&shell.path().join("countersign.db"), statement));
    }
    let forged = shell.run(&["audit", "verify", "--key", "log.key.pub", "--json"]);
    assert_eq!((forged.code, &forged.json()["findings"]), (1, &json!([{"seq": 2, "kind": "edited"}])));
    insta::assert_snapshot!(shell.run(&["audit", "verify", "--key", "log.key.pub"]).out.lines().skip(1).collect::<Vec<_>>().join("\n"), @r"
    seq  kind    about
    2    edited
    ");
    let refused = shell.run(&["audit", "prove", "2", "--out", "p"]);
    assert!(refused.code == 5 && refused.err.contains("is another one than its tree has"), "{}", refused.err);
    assert_eq!(shell.run(&["audit", "verify", "--db", "sqlite:none.db"]).code, 5);
    shell.write("text", "nothing of the sort");
    for arguments in [["--key", "text"], ["--from", "text"], ["--proof", "text"], ["--checkpoints", "none"]] {
        assert_eq!(shell.run(&[&["audit", "verify"][..], &arguments].concat()).code, 5, "{arguments:?}");
    }
}

#[test]
fn a_proof_proves_its_event_and_no_other() {
    let shell = shell();
    assert_eq!(shell.run(&["audit", "prove", "1"]).code, 5, "no checkpoint covers it yet");
    assert_eq!(shell.run(&["audit", "checkpoint"]).code, 0);
    let proved = shell.run(&["audit", "prove", "1", "--json"]).json();
    shell.write("proof", proved["proof"].as_str().unwrap());
    shell.write("entry", proved["entry"].as_str().unwrap());
    shell.write("other", &proved["entry"].as_str().unwrap().replace('2', "3"));
    let verify = |more: &[&str]| shell.run(&[&["audit", "verify", "--proof", "proof", "--json"], more].concat());
    let ran = verify(&["--key", "log.key.pub", "--entry", "entry"]);
    assert_eq!((ran.code, &ran.json()["ok"], &ran.json()["signatures"]), (0, &json!(true), &json!(true)));
    assert_eq!(
        ran.json()["event"],
        serde_json::from_str::<serde_json::Value>(proved["entry"].as_str().unwrap()).unwrap()
    );
    assert_eq!(verify(&["--key", "log.key.pub", "--entry", "other"]).code, 1);
    assert_eq!((verify(&[]).code, &verify(&[]).json()["signatures"]), (0, &json!(false)));
    assert_eq!(shell.run(&["audit", "key", "new", "--origin", "example.com/log", "--out", "stranger"]).code, 0);
    assert_eq!(verify(&["--key", "stranger.pub"]).code, 1);
    assert_eq!(shell.run(&["audit", "prove", "9999"]).code, 5);
}
