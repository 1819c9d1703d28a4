//! One story, told twice: each command comes out the same, whether a database or a server is asked.

use serde_json::Value;

use super::{LARGE, Ran, SEARCH, Served, Shell, ask};

/// Of another order: how much of one was refunded is known only as long as its desk is there.
const SMALL: &str = r#"{"orderId":"ord_7","amountCents":4900,"reason":"Scratched."}"#;

/// A command, and in whose name.
type Step = (&'static str, &'static [&'static str]);

/// `APR` is the approval that was filed last, `EXE` the execution that ran last.
const STORY: &[Step] = &[
    ("dana", &["invoke", "orders.search", "--input", SEARCH]),
    ("dana", &["invoke", "orders.search", "--input", r#"{"query":7}"#]),
    ("dana", &["invoke", "orders.search", "--input", r#"{"query":"a","query":"b"}"#]),
    ("dana", &["invoke", "orders.search", "--input", r#"{"query":"#]),
    ("dana", &["invoke", "orders.get", "--input", r#"{"orderId":"ord_404"}"#]),
    ("dana", &["invoke", "orders.teleport"]),
    ("dana", &["invoke", "orders.refund", "--input", r#"{"orderId":"ord_7","amountCents":500000,"reason":"x"}"#]),
    ("dana", &["invoke", "orders.refund", "--input", SMALL, "--idempotency-key", "k1", "--correlation-id", "talk-1"]),
    ("dana", &["invoke", "orders.refund", "--input", SMALL, "--idempotency-key", "k1"]),
    ("dana", &["invoke", "orders.refund", "--input", LARGE, "--idempotency-key", "k1"]),
    ("dana", &["invoke", "orders.refund", "--input", SMALL, "--idempotency-key", "no key"]),
    ("dana", &["capabilities", "list"]),
    ("nightly", &["capabilities", "list", "--tag", "orders"]),
    ("dana", &["capabilities", "show", "orders.refund"]),
    ("dana", &["capabilities", "show", "orders.purge"]),
    ("dana", &["invoke", "orders.refund", "--input", LARGE]),
    ("dana", &["approvals", "resume", "APR"]),
    ("dana", &["approvals", "approve", "APR"]),
    ("omar", &["approvals", "approve", "APR"]),
    ("priya", &["approvals", "list", "--status", "pending"]),
    ("omar", &["approvals", "list"]),
    ("priya", &["approvals", "show", "APR"]),
    ("omar", &["approvals", "show", "APR"]),
    ("priya", &["approvals", "approve", "APR", "--type", "finance"]),
    ("priya", &["approvals", "approve", "APR", "--comment", "Fine."]),
    ("priya", &["approvals", "show", "APR"]),
    ("priya", &["approvals", "resume", "APR"]),
    ("dana", &["approvals", "resume", "APR"]),
    ("dana", &["approvals", "resume", "APR"]),
    ("priya", &["approvals", "approve", "APR"]),
    ("dana", &["executions", "show", "EXE"]),
    ("priya", &["executions", "show", "EXE"]),
    ("omar", &["executions", "show", "EXE"]),
    ("priya", &["executions", "resolve", "EXE", "--as", "failed"]),
    ("dana", &["executions", "resolve", "EXE", "--as", "completed", "--output", "{}"]),
    ("dana", &["invoke", "orders.refund", "--input", LARGE]),
    ("priya", &["approvals", "reject", "APR"]),
    ("dana", &["invoke", "orders.refund", "--input", LARGE]),
    ("dana", &["approvals", "withdraw", "APR"]),
    ("dana", &["approvals", "list"]),
    ("dana", &["approvals", "list", "--limit", "1"]),
    ("dana", &["approvals", "list", "--before", "APR"]),
    ("priya", &["audit", "list"]),
    ("priya", &["audit", "list", "--after", "3", "--limit", "4"]),
    ("priya", &["audit", "list", "--execution", "EXE"]),
    ("priya", &["audit", "list", "--type", "capability.denied", "--capability", "orders.refund", "--actor-id", "dana"]),
    ("priya", &["audit", "list", "--since", "2000-01-01", "--until", "2000-01-02"]),
    ("dana", &["audit", "list"]),
    ("priya", &["audit", "tail"]),
    ("priya", &["audit", "tail", "-n", "3", "--type", "capability.completed"]),
    ("dana", &["audit", "tail"]),
    ("priya", &["policy", "history"]),
    ("dana", &["policy", "history"]),
];

/// Whoever tells the story.
trait Teller {
    fn run(&self, name: &str, arguments: &[&str]) -> Ran;
}

struct ByDatabase(Shell);
struct ByServer(Shell, Served);

impl Teller for ByDatabase {
    fn run(&self, name: &str, arguments: &[&str]) -> Ran {
        let has_surface = matches!(arguments, ["invoke" | "capabilities", ..] | ["approvals", "resume", ..]);
        let surface: &[&str] = if has_surface { &["--surface", "http"] } else { &[] };
        self.0.run(&[arguments, &["--actor", name], surface].concat())
    }
}

impl Teller for ByServer {
    fn run(&self, name: &str, arguments: &[&str]) -> Ran {
        ask(&self.0, self.1.url(), name, arguments)
    }
}

/// What came of each step, without what is another each time and what only the way in makes another.
fn told(teller: &impl Teller, json: bool) -> Vec<String> {
    let (mut approval, mut execution) = (String::new(), String::new());
    let step = |(name, arguments): &Step| {
        let named: Vec<&str> = arguments
            .iter()
            .map(|it| match *it {
                "APR" => &*approval,
                "EXE" => &*execution,
                other => other,
            })
            .collect();
        let format: &[&str] = if json { &["--json"] } else { &[] };
        let ran = teller.run(name, &[&named, format].concat());
        if let ["invoke" | "approvals", ..] = arguments {
            let said = format!("{}{}", ran.out, ran.err);
            let word = |from: &str| said.split(from).nth(1).map(|it| it.split(['"', '\n']).next().unwrap().to_owned());
            if arguments[0] == "invoke" && ran.code == 4 {
                said[said.find("apr_").unwrap()..][..31].clone_into(&mut approval);
            }
            if arguments[0] == "approvals" && ran.code == 0 && said.contains("completed") {
                execution = word(if json { "\"executionId\":\"" } else { "execution " }).unwrap();
            }
        }
        let shown = if json { of_machines(arguments, &ran) } else { of_people(&ran) };
        format!("$ {name}: {}\nexit {}\n{shown}", arguments.join(" "), ran.code)
    };
    STORY.iter().map(step).collect()
}

fn of_people(ran: &Ran) -> String {
    let text = steady(&format!("{}{}", ran.out, ran.err)).replace(" via http", " via cli");
    let lines = text.lines().map(|it| it.split(", vouched for by").next().unwrap_or_default());
    // The next step is another where nobody is named.
    let is_step = |it: &&str| !["next", "then"].iter().any(|word| it.trim_start().starts_with(word));
    lines.filter(is_step).flat_map(|it| [it.trim_end(), "\n"]).collect()
}

fn of_machines(arguments: &[&str], ran: &Ran) -> String {
    let lines: Vec<&str> =
        if arguments[..2] == ["audit", "tail"] && ran.code == 0 { ran.out.lines().collect() } else { vec![&ran.out] };
    let document = |text: &&str| {
        let mut value: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{arguments:?}: {ran:?}"));
        neutral(&mut value);
        format!("{}\n", steady(&serde_json::to_string_pretty(&value).unwrap()))
    };
    lines.iter().map(document).collect::<String>() + &ran.err
}

/// Who vouched, and by which way it came in.
fn neutral(value: &mut Value) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(neutral),
        Value::Object(members) => {
            for name in ["via", "issuer", "surface", "durationUs", "bindingHash", "comment"] {
                members.remove(name);
            }
            members.values_mut().for_each(neutral);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Ids, times and keyed hashes become the words for them.
fn steady(text: &str) -> String {
    let (mut steady, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let shapes = [
            ("ref_d", "REFUND"),
            ("dddd-dd-ddTdd:dd:dd.ddddddZ", "TIME"),
            ("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "UUID"),
            ("apr_wwwwwwwwwwwwwwwwwwwwwwwwwww", "APPROVAL"),
            ("evt_wwwwwwwwwwwwwwwwwwwwwwwwwww", "EVENT"),
            ("hmac-sha256:wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww", "HMAC"),
        ];
        if let Some((shape, word)) = shapes.into_iter().find(|it| fits(rest, it.0)) {
            steady += word;
            rest = &rest[shape.len()..];
        } else if let Some(after) = rest.strip_prefix("in ").filter(|it| it.starts_with(|it: char| it.is_ascii_digit()))
        {
            steady += "in N";
            rest = after.trim_start_matches(|it: char| it.is_ascii_digit());
        } else {
            steady.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    steady
}

fn fits(text: &str, shape: &str) -> bool {
    let is = |(byte, shape): (&u8, u8)| match shape {
        b'd' => byte.is_ascii_digit(),
        b'x' => byte.is_ascii_hexdigit(),
        b'w' => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'),
        other => *byte == other,
    };
    text.len() >= shape.len() && text.as_bytes().iter().zip(shape.bytes()).all(is)
}

fn compare(json: bool) {
    let shell = Shell::new();
    let served = Served::demo(&shell);
    let (here, there) = (told(&ByDatabase(Shell::new()), json), told(&ByServer(shell, served), json));
    let differences: Vec<_> = here.iter().zip(&there).filter(|(here, there)| here != there).collect();
    let shown = differences.iter().map(|(here, there)| format!("--db\n{here}--server\n{there}\n"));
    assert!(differences.is_empty(), "\n{}", shown.collect::<String>());
    let codes: std::collections::BTreeSet<_> =
        here.iter().filter_map(|it| it.split("exit ").nth(1)?.chars().next()).collect();
    assert_eq!(codes.into_iter().collect::<String>(), "01234", "the story has every sort of answer");
}

#[test]
fn machines_get_the_same_documents_from_a_database_and_through_a_server() {
    compare(true);
}

#[test]
fn people_read_the_same_from_a_database_and_through_a_server() {
    compare(false);
}

#[test]
fn a_call_that_waits_is_answered_once_somebody_has_agreed() {
    let shell = Shell::new();
    let served = Served::demo(&shell);
    let url = served.url();
    let late = ask(&shell, url, "dana", &["invoke", "orders.refund", "--input", LARGE, "--wait", "1", "--json"]);
    assert_eq!((late.code, late.json()["status"].as_str()), (4, Some("approval_required")), "{}", late.err);

    let token = ["--server", url, "--token", "demo-dana"];
    let waits = ["invoke", "orders.refund", "--input", LARGE, "--wait", "50", "--json"];
    let mut command = shell.command(&[&waits[..], &token].concat());
    let waiting = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut pending = Value::Null;
    while pending.get(1).is_none() {
        pending = ask(&shell, url, "priya", &["approvals", "list", "--status", "pending", "--json"]).json();
    }
    for id in [&pending[0]["id"], &pending[1]["id"]] {
        assert_eq!(ask(&shell, url, "priya", &["approvals", "approve", id.as_str().unwrap()]).code, 0);
    }
    let output = waiting.wait_with_output().unwrap();
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &outcome["output"]["approvedBy"]), (Some(0), &serde_json::json!(["priya"])));
}

#[test]
fn policies_are_explained_and_loaded_again_by_the_server() {
    let shell = Shell::new();
    let served = Served::demo(&shell);
    let url = served.url();
    let explain = ["policy", "explain", "orders.refund", "--input", LARGE];
    let other = ask(&shell, url, "priya", &[&explain[..], &["--actor", "dana", "--surface", "direct"]].concat());
    let shown: Vec<&str> = other.out.lines().filter(|it| it.contains("priya") || it.starts_with("approval")).collect();
    assert_eq!(
        (other.code, other.out.contains("refunds-over-500-need-a-manager")),
        (4, true),
        "{}{}",
        other.out,
        other.err
    );
    assert_eq!(shown[0], "approval (manager): orders.refund for dana (user) of acme over direct");
    let own = ask(&shell, url, "priya", &[&explain[..], &["--json"]].concat());
    assert_eq!(
        (own.code, &own.json()["actor"]["id"], &own.json()["surface"]),
        (own.code, &"priya".into(), &"http".into())
    );
    assert_eq!(ask(&shell, url, "dana", &explain).code, 2);

    let again = ask(&shell, url, "priya", &["policy", "reload", "--json"]);
    let expected =
        serde_json::json!({"status": "active", "hash": again.json()["hash"], "changed": false, "problems": []});
    assert_eq!((again.code, again.json()), (0, expected), "{}", again.err);
    assert_eq!(ask(&shell, url, "dana", &["policy", "reload"]).code, 2);
}
