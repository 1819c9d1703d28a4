//! What the configuration takes, and how it says what it does not.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use countersign::Problem;
use countersign::config::{Config, LogFormat};

use super::Shell;

fn read(file: Option<&Path>, variables: &[(&str, &str)]) -> Result<Config, Vec<Problem>> {
    Config::read(file, variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

/// What is wrong with a file and variables over it.
fn told(text: &str, variables: &[(&str, &str)]) -> String {
    let shell = Shell::new();
    shell.write("c.toml", text);
    let mut told = String::new();
    for Problem { at, what, fix } in read(Some(&shell.path().join("c.toml")), variables).unwrap_err() {
        let at = at.replace(shell.path().to_str().unwrap(), "DIR");
        writeln!(told, "{at}: {what}; {fix}").unwrap();
    }
    told
}

#[test]
fn every_problem_is_told_at_once_with_its_line_and_what_was_meant() {
    let file = r#"databse = "sqlite:x.db"
policies = 7

[http]
listn = "127.0.0.1:1"
max_calls = "many"
listen = "localhost"

[log]
format = "yaml"
verbosity = 3

[[auth.tokens]]
name = "a"
sha = "00"

[[auth.tokens]]
name = "b"
sha256 = 7
id = "b"
kind = "robot"

[nonsense.of.all]
sorts = true
"#;
    insta::assert_snapshot!(told(file, &[]), @r#"
    DIR/c.toml:1: unknown key `databse`; did you mean `database`?
    DIR/c.toml:2: `policies`: invalid type: integer `7`, expected a text in quotes; correct the value
    DIR/c.toml:5: unknown key `http.listn`; did you mean `listen`?
    DIR/c.toml:6: `http.max_calls`: invalid type: string, expected a whole number, not below 0; correct the value
    DIR/c.toml:7: `http.listen`: invalid socket address syntax; correct the value
    DIR/c.toml:10: `log.format`: unknown word; there are `text`, `json`
    DIR/c.toml:11: unknown key `log.verbosity`; there are `format`, `level`
    DIR/c.toml:13: `sha256` is missing in `auth.tokens`; write `sha256 = ..`
    DIR/c.toml:15: unknown key `auth.tokens.sha`; did you mean `sha256`?
    DIR/c.toml:19: `auth.tokens.sha256`: invalid type: integer `7`, expected a text in quotes; correct the value
    DIR/c.toml:21: `auth.tokens.kind`: unknown word; there are `user`, `service`, `automation`, `anonymous`
    DIR/c.toml:23: unknown key `nonsense`; there are `database`, `policies`, `http`, `auth`, `audit`, `capabilities`, `notifications`, `log`, `metrics`, `telemetry`, `process`
    "#);
}

#[test]
fn what_is_no_toml_is_told_with_its_lines() {
    insta::assert_snapshot!(told("a = \n[http\nb = 1\nb = 2\n", &[]), @r#"
    DIR/c.toml:1: no TOML: string values must be quoted, expected literal string; correct the line
    DIR/c.toml:2: no TOML: unclosed table, expected `]`; correct the line
    "#);
}

#[test]
fn variables_are_told_by_their_names() {
    let variables = [
        ("COUNTERSIGN_DATABSE", "sqlite:x.db"),
        ("COUNTERSIGN_HTTP_LISTEN", "127.0.0.1:1"),
        ("COUNTERSIGN_HTTP__LISTN", "127.0.0.1:1"),
        ("COUNTERSIGN_HTTP__MAX_CALLS", "many"),
        ("COUNTERSIGN_HTTP__", "x"),
        ("COUNTERSIGN_POLICIES__DEEP", "x"),
        ("COUNTERSIGN_HTTP__HOSTS", "[one, two]"),
        ("COUNTERSIGN_LOG__FORMAT", "yaml"),
        ("COUNTERSIGN_WHATEVER", "1"),
    ];
    insta::assert_snapshot!(told("policies = \"p\"\n", &variables), @r#"
    COUNTERSIGN_HTTP__: names no key; write `COUNTERSIGN_KEY` or `COUNTERSIGN_SECTION__KEY`
    COUNTERSIGN_POLICIES__DEEP: `policies` is no section in the file; set it as a whole
    COUNTERSIGN_HTTP__HOSTS: is no TOML value: string values must be quoted, expected literal string; quote strings in it: `["one", "two"]`
    COUNTERSIGN_DATABSE: unknown key `databse`; did you mean `COUNTERSIGN_DATABASE`?
    COUNTERSIGN_HTTP_LISTEN: unknown key `http_listen`; did you mean `COUNTERSIGN_HTTP__LISTEN`? Sections end with two underscores
    COUNTERSIGN_HTTP__LISTN: unknown key `http.listn`; did you mean `COUNTERSIGN_HTTP__LISTEN`?
    COUNTERSIGN_HTTP__MAX_CALLS: `http.max_calls`: invalid type: string, expected a whole number, not below 0; correct the value
    COUNTERSIGN_LOG__FORMAT: `log.format`: unknown word; there are `text`, `json`
    COUNTERSIGN_WHATEVER: unknown key `whatever`; there are `database`, `policies`, `http`, `auth`, `audit`, `capabilities`, `notifications`, `log`, `metrics`, `telemetry`, `process`
    "#);
}

#[test]
fn a_variable_counts_before_the_file_and_as_if_it_stood_there() {
    let shell = Shell::new();
    shell.write("c.toml", "policies = \"p\"\n[http]\nlisten = \"127.0.0.1:1\"\nhosts = [\"one.example\"]\n");
    let variables = [
        ("COUNTERSIGN_HTTP__LISTEN", "127.0.0.1:2"),
        ("COUNTERSIGN_HTTP__HOSTS", "[\"two.example\"]"),
        ("COUNTERSIGN_HTTP__MAX_CALLS", "9"),
        ("COUNTERSIGN_LOG__LEVEL", "5"), // a text that looks like a number
        ("COUNTERSIGN_LOG__FORMAT", "json"),
        ("COUNTERSIGN_POLICIES", ""), // sets nothing
    ];
    let config = read(Some(&shell.path().join("c.toml")), &variables).unwrap();
    assert_eq!(config.http.listen, "127.0.0.1:2".parse().unwrap());
    assert_eq!((&*config.http.hosts, config.http.max_calls), (&["two.example".to_owned()][..], 9));
    assert_eq!((config.log.level.as_deref(), config.log.format), (Some("5"), LogFormat::Json));
    assert_eq!(config.policies.as_deref(), Some(Path::new("p")));
}

#[test]
fn variables_of_others_are_let_alone() {
    let config = read(
        None,
        &[
            ("COUNTERSIGN_LOG", "info"),
            ("COUNTERSIGN_TOKEN", "csgn_x"),
            ("COUNTERSIGN_SERVER", "http://127.0.0.1:1"),
            // What Kubernetes sets for a service that is called countersign.
            ("COUNTERSIGN_SERVICE_HOST", "10.0.0.1"),
            ("COUNTERSIGN_SERVICE_PORT", "8080"),
            ("COUNTERSIGN_SERVICE_PORT_HTTP", "8080"),
            ("COUNTERSIGN_PORT", "tcp://10.0.0.1:8080"),
            ("COUNTERSIGN_PORT_8080_TCP_ADDR", "10.0.0.1"),
            ("COUNTERSIGNED", "x"),
            ("PATH", "/bin"),
        ],
    );
    assert_eq!(config.unwrap().database, None);
}

#[test]
fn variables_that_the_file_or_a_manifest_names_are_no_keys() {
    let shell = Shell::new();
    shell.write(
        "manifests/a.toml",
        "[handler]\nsign = { env = \"COUNTERSIGN_SIGNING_KEY\" }\nenv = [\"COUNTERSIGN_PASSED\"]\n",
    );
    shell.write("c.toml", "[notifications]\n[[notifications.webhooks]]\nname = \"a\"\nurl = \"https://a.example\"\nsecrets = [{ env = \"COUNTERSIGN_HOOK\" }]\n");
    let variables = [
        ("COUNTERSIGN_SIGNING_KEY", "x"),
        ("COUNTERSIGN_PASSED", "x"),
        ("COUNTERSIGN_HOOK", "x"),
        ("COUNTERSIGN_CAPABILITIES__DIRECTORY", "manifests"),
    ];
    let file = shell.path().join("c.toml");
    assert!(read(Some(&file), &variables).is_ok());
    assert_eq!(read(Some(&file), &variables[..3]).unwrap_err().len(), 2, "nobody names them");
}

#[test]
fn nothing_of_a_value_is_repeated() {
    let canary = "csgn_canary-77";
    for file in [
        format!("database = [\"{canary}\"]"),
        format!("[http]\nmax_calls = \"{canary}\""),
        format!("[http]\nmax_calls = \"\"\"\n{canary}\", expected nothing\n\"\"\""),
        format!("[http]\nlisten = \"{canary}\""),
        format!("[log]\nformat = \"{canary}\""),
        format!("[[auth.tokens]]\nname = \"{canary}\"\nsha256 = \"{canary}\"\nid = 7\nkind = \"{canary}\""),
        format!("[[auth.tokens]]\nexpires = \"{canary}\""),
        format!("auth = \"{canary}\""),
        format!("database = \"{canary}\" x"),
    ] {
        let shell = Shell::new();
        shell.write("c.toml", &file);
        for arguments in [&["serve", "--config", "c.toml"][..], &["doctor", "--config", "c.toml", "--json"]] {
            let ran = shell.run(arguments);
            assert_ne!(ran.code, 0, "{file}");
            assert!(!ran.out.contains("canary") && !ran.err.contains("canary"), "{file}: {}{}", ran.out, ran.err);
        }
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_refused_and_not_waited_for() {
    let shell = Shell::new();
    assert!(Command::new("mkfifo").arg(shell.path().join("fifo")).status().unwrap().success());
    shell.write("long.toml", &"#".repeat(1024 * 1024 + 1));
    std::fs::write(shell.path().join("binary.toml"), [0xff, 0xfe]).unwrap();
    let mut told = String::new();
    for file in ["fifo", "/dev/zero", ".", "missing.toml", "long.toml", "binary.toml"] {
        let ran = shell.run(&["serve", "--config", file]);
        write!(told, "{} {}", ran.code, ran.err).unwrap();
    }
    insta::assert_snapshot!(told, @r#"
    5 error: the configuration cannot be used: 1 problem
    fifo: is no regular file
      next: name another with `--config`, or make one: `countersign init` writes a `countersign.toml`
      next: correct it, and look again: `countersign doctor`
    5 error: the configuration cannot be used: 1 problem
    /dev/zero: is no regular file
      next: name another with `--config`, or make one: `countersign init` writes a `countersign.toml`
      next: correct it, and look again: `countersign doctor`
    5 error: the configuration cannot be used: 1 problem
    .: is no regular file
      next: name another with `--config`, or make one: `countersign init` writes a `countersign.toml`
      next: correct it, and look again: `countersign doctor`
    5 error: the configuration cannot be used: 1 problem
    missing.toml: cannot be read: No such file or directory (os error 2)
      next: name another with `--config`, or make one: `countersign init` writes a `countersign.toml`
      next: correct it, and look again: `countersign doctor`
    5 error: the configuration cannot be used: 1 problem
    long.toml: is longer than 1 MiB
      next: name another with `--config`, or make one: `countersign init` writes a `countersign.toml`
      next: correct it, and look again: `countersign doctor`
    5 error: the configuration cannot be used: 1 problem
    binary.toml: is not UTF-8 text
      next: name another with `--config`, or make one: `countersign init` writes a `countersign.toml`
      next: correct it, and look again: `countersign doctor`
    "#);
}

#[test]
fn whatever_is_in_the_file_has_an_answer() {
    use proptest::prelude::{Strategy as _, any, prop};
    use proptest::test_runner::{Config as Rounds, TestRunner};

    let word = prop::sample::select(vec![
        "http",
        "listen",
        "auth",
        "tokens",
        "name",
        "sha256",
        "log",
        "format",
        "x",
        "env",
        "file",
        "[",
        "]",
        "[[",
        "]]",
        "=",
        "\"",
        "'",
        ".",
        ",",
        "{",
        "}",
        "\n",
        " ",
        "#",
        "1",
        "true",
        "\"json\"",
        "\"127.0.0.1:1\"",
        "\u{0}",
        "é",
    ]);
    let text = prop::collection::vec(word, 0..40).prop_map(|it| it.concat());
    let variables = prop::collection::vec((any::<u8>(), "[a-z\\[{\"=,0-9]{0,8}"), 0..4);
    let mut runner = TestRunner::new(Rounds { failure_persistence: None, ..Rounds::with_cases(2_000) });
    let checked = runner.run(&(text, variables), |(text, variables)| {
        let names = ["HTTP__LISTEN", "HTTP", "AUTH__TOKENS", "LOG__FORMAT__X", "X", "__", "DATABASE"];
        let all = variables
            .into_iter()
            .map(|(at, value)| (format!("COUNTERSIGN_{}", names[usize::from(at) % names.len()]), value));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("c.toml");
        std::fs::write(&file, text).unwrap();
        if let Err(problems) = Config::read(Some(&file), all) {
            proptest::prop_assert!(!problems.is_empty() && problems.iter().all(|it| !it.fix.is_empty()));
        }
        Ok(())
    });
    checked.unwrap();
}

#[test]
fn a_lease_and_a_sweep_have_their_bounds_and_their_defaults() {
    let config = read(None, &[]).unwrap();
    assert_eq!((config.process.lease.as_secs(), config.process.sweep.as_secs()), (30, 5));
    let config = read(None, &[("COUNTERSIGN_PROCESS__LEASE", "3s"), ("COUNTERSIGN_PROCESS__SWEEP", "500ms")]).unwrap();
    assert_eq!((config.process.lease.as_secs(), config.process.sweep.as_millis()), (3, 500));
    insta::assert_snapshot!(told("[process]\nlease = \"1s\"\nsweep = \"1h\"\n", &[]), @r"
    process.lease: it is out of bounds; choose 3s to 10m
    process.sweep: it is out of bounds; choose 500ms to 10m
    ");
}
