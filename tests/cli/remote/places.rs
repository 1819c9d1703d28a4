//! Which place a command works on, and which it refuses.

use super::{Ran, SEARCH, Served, Shell, ask};

fn told(shell: &Shell, arguments: &[&str]) -> String {
    let Ran { code, out, err } = shell.run(arguments);
    format!("$ countersign {}\nexit {code}\n{out}{err}\n", arguments.join(" "))
}

#[test]
fn what_does_not_go_together_is_told_with_the_next_step() {
    let shell = Shell::new();
    let local = "http://127.0.0.1:9";
    let list = ["approvals", "list"];
    let with = |more: &[&'static str]| [&list[..], more].concat();
    shell.write("two.txt", "one two\n");
    std::fs::create_dir(shell.path().join("directory")).unwrap();
    let commands = [
        with(&["--server", local, "--db", "sqlite:x.db"]),
        with(&["--server", local, "--actor", "dana"]),
        with(&["--server", local, "--policies", "policies"]),
        with(&["--token", "t"]),
        with(&["--token-file", "two.txt"]),
        with(&["--insecure-http"]),
        with(&["--server", local, "--token", "t", "--token-file", "two.txt"]),
        with(&["--server", local, "--token-file", "two.txt"]),
        with(&["--server", local, "--token-file", "none.txt"]),
        with(&["--server", local, "--token-file", "directory"]),
        with(&["--server", "http://countersign.example"]),
        with(&["--server", "ftp://countersign.example"]),
        with(&["--server", "https://dana:secret@countersign.example"]),
        with(&["--server", "https://countersign.example/?x=1"]),
        vec!["invoke", "orders.search", "--surface", "mcp", "--server", local],
        vec!["invoke", "orders.search", "--actor", "dana", "--wait", "5"],
        vec!["executions", "list", "--server", local],
        vec!["policy", "publish", "directory", "--server", local],
        vec!["policy", "rollback", "123456", "--server", local],
        vec!["policy", "backtest", "current", "--since", "2026-01-01", "--server", local],
        vec!["policy", "reload"],
        vec!["policy", "explain", "--execution", "e1", "--server", local],
    ];
    insta::assert_snapshot!(commands.iter().map(|it| told(&shell, it)).collect::<String>());
}

#[test]
fn flags_go_before_the_environment_and_a_database_that_is_named_before_a_server_that_is_not() {
    let shell = Shell::new();
    let served = Served::demo(&shell);
    shell.write("token.txt", "demo-priya\n");
    let run = |arguments: &[&str]| {
        let mut command = shell.command(&[arguments, &["--json"]].concat());
        command.env("COUNTERSIGN_SERVER", served.url()).env("COUNTERSIGN_TOKEN", "demo-dana");
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), text)
    };
    let call = ["invoke", "orders.search", "--input", SEARCH];
    assert_eq!(run(&call).0, 0, "as dana");
    assert_eq!(run(&["audit", "list"]).0, 2, "as dana");
    assert_eq!(run(&["audit", "list", "--token", "demo-priya"]).0, 0);
    assert_eq!(run(&["audit", "list", "--token-file", "token.txt"]).0, 0);
    assert_eq!(run(&["audit", "list", "--server", "http://127.0.0.1:9"]).0, 5);
    let here = run(&[&call[..], &["--actor", "dana", "--db", "sqlite:other.db"]].concat());
    assert!(here.0 == 0 && shell.path().join("other.db").exists(), "{}", here.1);
    let there = run(&[&call[..], &["--actor", "dana"]].concat());
    assert!(there.0 == 5 && there.1.contains("a server knows who asks by the token"), "{}", there.1);
    assert_eq!(run(&["policy", "publish", "policies"]).0, 5, "it is not the database that lies about");
}

#[test]
fn who_has_no_token_or_a_bad_one_is_told_what_to_give() {
    let shell = Shell::new();
    let served = Served::demo(&shell);
    let call = ["invoke", "orders.search", "--input", SEARCH, "--server", served.url()];
    let nobody = shell.run(&call);
    let stranger = ask(&shell, served.url(), "stranger", &call[..4]);
    for ran in [nobody, stranger] {
        assert_eq!(ran.code, 2);
        assert!(ran.err.starts_with("error: The caller is not authenticated. (UNAUTHENTICATED)\n"), "{}", ran.err);
        let next = "  next: give a token that the server takes: `--token-file FILE`, or COUNTERSIGN_TOKEN\n";
        assert!(ran.err.contains(next), "{}", ran.err);
    }
}

#[test]
fn a_token_is_in_no_message_no_help_and_no_log() {
    let shell = Shell::new();
    let served = Served::demo(&shell);
    let (token, url) = ("Zebra-7f3k-canary", served.url());
    for arguments in [
        &["invoke", "orders.search", "--input", SEARCH, "--server", url][..],
        &["audit", "tail", "--server", url],
        &["audit", "list", "--server", "http://127.0.0.1:9"],
        &["audit", "list", "--server", "http://countersign.example"],
        &["audit", "list", "--db", "sqlite:x.db"],
        &["audit", "list", "--server", url, "--frob"],
        &["audit", "list", "--help"],
    ] {
        for given in [&["--token", token][..], &[]] {
            let mut command = shell.command(&[arguments, given, &["-vvv"]].concat());
            let output = command.env("COUNTERSIGN_TOKEN", token).env_remove("COUNTERSIGN_LOG").output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            assert!(!text.contains("canary"), "{arguments:?}: {text}");
        }
    }
    let blank = shell.run(&["audit", "list", "--server", url, "--token", "Zebra canary"]);
    assert_eq!((blank.code, blank.err.contains("canary")), (5, false), "{}", blank.err);
}
