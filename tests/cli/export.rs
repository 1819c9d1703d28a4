//! `audit export`: in order, at least once, going on where it was; and what verification and others make of it.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Ran, Shell};
use crate::notifications::SECRETS;
use crate::notifications::receiver::{Answer, Receiver};

/// What no export may have in it.
const CANARY: &str = "canary-7f3a";

/// A database with a few events of several types, and a key.
pub(super) fn shell() -> Shell {
    let shell = Shell::new();
    assert_eq!(shell.run(&["audit", "key", "new", "--origin", "example.com/log"]).code, 0);
    search(&shell);
    let refund = |cents: u32, order: &str| {
        json!({"orderId": order, "amountCents": cents, "reason": format!("{CANARY} reason")}).to_string()
    };
    for (capability, actor, input) in [
        ("orders.refund", "dana", refund(4_900, "ord_42")),
        ("orders.refund", "dana", refund(64_900, "ord_42")),
        ("orders.refund", "dana", refund(500_000, "ord_7")),
        ("orders.get", "dana", r#"{"orderId":"ord_13"}"#.to_owned()),
        ("orders.search", "anonymous", format!(r#"{{"query":"{CANARY}"}}"#)),
    ] {
        shell.run(&["invoke", capability, "--actor", actor, "--input", &input]);
    }
    shell
}

fn search(shell: &Shell) {
    shell.run(&["invoke", "orders.search", "--actor", "dana", "--input", "{\"query\":\"lamp\"}"]);
}

pub(super) fn export(shell: &Shell, more: &[&str]) -> Ran {
    shell.run(&[&["audit", "export"], more].concat())
}

fn lines(shell: &Shell, file: &str) -> Vec<String> {
    std::fs::read_to_string(shell.path().join(file)).unwrap().lines().map(str::to_owned).collect()
}

pub(super) fn documents(text: &str) -> Vec<Value> {
    text.lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

fn verify(shell: &Shell, file: &str) -> (i32, Value) {
    let (key, checkpoints) = (format!("{file}.pub"), format!("{file}.checkpoints"));
    let ran = shell.run(&["audit", "verify", "--export", file, "--key", &key, "--checkpoints", &checkpoints, "--json"]);
    (ran.code, ran.json())
}

/// What the log has, byte for byte, by the way that everybody reads it.
pub(super) fn stored(shell: &Shell) -> Vec<Value> {
    shell.run(&["audit", "list", "--limit", "10000", "--json"]).json().as_array().unwrap().clone()
}

#[test]
fn an_export_is_what_verification_takes_offline_and_goes_on_where_it_ends() {
    let shell = shell();
    for round in 0..3 {
        assert_eq!(shell.run(&["audit", "checkpoint"]).code, 0);
        let ran = export(&shell, &["--out", "log.ndjson", "--json"]);
        let count = stored(&shell).len();
        assert_eq!((ran.code, &ran.json()["through"]), (0, &json!(count)), "{}", ran.err);
        let expected = json!({
            "ok": true, "events": count, "covered": count, "uncovered": null, "signatures": true, "findings": [], "more": 0,
        });
        assert_eq!(verify(&shell, "log.ndjson"), (0, expected), "round {round}");
        search(&shell);
    }
    let before = lines(&shell, "log.ndjson");
    assert_eq!(export(&shell, &["--out", "log.ndjson", "--until", "3", "--json"]).json()["events"], 0);
    assert_eq!(lines(&shell, "log.ndjson"), before, "nothing is written twice");
    // Events that no checkpoint covers yet go out all the same, and verification says that none does.
    export(&shell, &["--out", "log.ndjson"]);
    let (code, report) = verify(&shell, "log.ndjson");
    assert_eq!((code, &report["uncovered"]["seq"]), (0, &json!(before.len() + 1)), "{report}");
    shell.write("log.ndjson", &(lines(&shell, "log.ndjson").join("\n").replacen("dana", "nina", 1) + "\n"));
    assert_eq!(verify(&shell, "log.ndjson").0, 1);
}

#[test]
fn what_a_crash_left_of_a_line_is_cut_off_and_a_foreign_file_is_left_alone() {
    let shell = shell();
    export(&shell, &["--out", "whole"]);
    let whole = lines(&shell, "whole");
    for form in ["ndjson", "cloudevents", "ocsf", "otel"] {
        export(&shell, &["--out", form, "--format", form, "--until", "4"]);
        let part = std::fs::read_to_string(shell.path().join(form)).unwrap();
        shell.write(form, &(part + "{\"torn\":"));
        assert_eq!(export(&shell, &["--out", form, "--format", form]).code, 0);
        assert_eq!(lines(&shell, form).len(), whole.len(), "{form}");
    }
    assert_eq!(lines(&shell, "ndjson"), whole);
    shell.write("first", "{\"event\":{\"actor\"");
    assert_eq!((export(&shell, &["--out", "first"]).code, lines(&shell, "first")), (0, whole.clone()));
    // Only a whole first line says whose file it is.
    for (name, text) in [
        ("notes", "These are my notes"),
        ("notes.md", "# Notes\n\nOf mine.\n"),
        ("other.json", "{}\n"),
        ("one.json", "{\"a\":1}"),
        ("torn.md", "# Notes\n\nOf mine"),
    ] {
        shell.write(name, text);
        let ran = export(&shell, &["--out", name]);
        assert_eq!(ran.code, 5, "{}", ran.err);
        assert_eq!(std::fs::read_to_string(shell.path().join(name)).unwrap(), text);
    }
    let otherwise = export(&shell, &["--out", "ndjson", "--format", "ocsf"]);
    assert_eq!(otherwise.code, 5, "{}", otherwise.err);
    let forged = whole.join("\n").replace("dana", "nina") + "\n";
    shell.write("forged", &forged.replace("anonymous", "nobody"));
    assert_eq!(export(&shell, &["--out", "forged"]).code, 5);
    assert_eq!(export(&shell, &["--out", "."]).code, 5);
}

#[test]
fn a_cursor_moves_with_what_the_other_side_has_and_leaves_no_gap() {
    let shell = shell();
    let count = i64::try_from(stored(&shell).len()).unwrap();
    let status = || shell.run(&["audit", "export", "status", "--json"]).json();
    assert_eq!(status(), json!([]));
    let first = export(&shell, &["--cursor", "siem", "--until", "5"]);
    assert_eq!((first.code, documents(&first.out).len()), (0, 5), "{}", first.err);
    let second = export(&shell, &["--cursor", "siem", "--batch", "2"]);
    let places: Vec<_> = documents(&second.out).iter().map(|it| it["seq"].as_i64().unwrap()).collect();
    assert_eq!(places, (6..=count).collect::<Vec<_>>());
    assert_eq!(export(&shell, &["--cursor", "siem"]).out, "");
    let told = &status()[0];
    assert_eq!((&told["name"], &told["format"], &told["sink"]), (&json!("siem"), &json!("ndjson"), &json!("stdout")));
    assert_eq!((&told["seq"], &told["failures"]), (&json!(count), &json!(0)));
    // A file that has everything, and a cursor that knows nothing of it: a crash came between the two.
    export(&shell, &["--out", "file"]);
    let before = lines(&shell, "file");
    assert_eq!(export(&shell, &["--out", "file", "--cursor", "late"]).code, 0);
    assert_eq!((lines(&shell, "file"), &status()[0]["seq"]), (before, &json!(count)));
    // The other way round something would be left out.
    export(&shell, &["--out", "short", "--until", "3"]);
    let gap = export(&shell, &["--out", "short", "--cursor", "siem"]);
    assert_eq!((gap.code, lines(&shell, "short").len()), (5, 3), "{}", gap.err);
    for wrong in
        [&["--cursor", "siem", "--after", "2"][..], &["--cursor", "siem", "--format", "ocsf"], &["--cursor", "S M"]]
    {
        assert_eq!(export(&shell, wrong).code, 5, "{wrong:?}");
    }
    assert_eq!(shell.run(&["audit", "export", "forget", "siem"]).code, 0);
    assert_eq!(shell.run(&["audit", "export", "forget", "siem"]).code, 5);
    let again = export(&shell, &["--cursor", "siem", "--after", &(count - 1).to_string()]);
    assert_eq!(documents(&again.out).len(), 1);
}

#[test]
fn whenever_an_export_is_killed_the_file_is_whole_after_the_next_one() {
    let shell = shell();
    for round in 0..4 {
        let mut command =
            shell.command(&["audit", "export", "--follow", "--batch", "1", "--out", "f", "--cursor", "c"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let wanted = 2 + 4 * round;
        for _ in 0..4_000 {
            let length = std::fs::read_to_string(shell.path().join("f")).map_or(0, |it| it.lines().count());
            if length >= wanted {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        search(&shell);
    }
    let ran = export(&shell, &["--out", "f", "--cursor", "c"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    export(&shell, &["--out", "fresh"]);
    assert_eq!(lines(&shell, "f"), lines(&shell, "fresh"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_receiver_does_not_take_holds_up_the_rest_and_shows() {
    let shell = shell();
    let count = stored(&shell).len();
    shell.write("secret", SECRETS[0]);
    let receiver = Receiver::new(&[Answer::Status(500), Answer::Redirect], Answer::Status(204)).await;
    let run = |more: &[&str]| {
        let url = format!("{}?token={CANARY}", receiver.url);
        let arguments = ["--out", &url, "--secret-file", "secret", "--cursor", "hook", "--batch", "4", "--json"];
        export(&shell, &[&arguments, more].concat())
    };
    let status = || shell.run(&["audit", "export", "status", "--json"]).json()[0].clone();
    for (times, failure) in [(1, "status 500"), (2, "status 307")] {
        let failed = run(&["--attempts", "1"]);
        assert_eq!((failed.code, &failed.json()["failure"]), (1, &json!(failure)), "{}", failed.err);
        let told = status();
        let expected = (&json!(0), &json!(failure), &json!(times));
        assert_eq!((&told["seq"], &told["failure"], &told["failures"]), expected);
        assert!(!told.to_string().contains(CANARY), "{told}");
    }
    let done = run(&[]);
    assert_eq!((done.code, &done.json()["events"]), (0, &json!(count)), "{}", done.err);
    assert_eq!((&status()["seq"], status().get("failure")), (&json!(count), None));
    let messages = receiver.messages();
    assert!(messages[1].path.starts_with("/hook?"), "a redirect is not followed");
    assert_eq!((messages[0].id(), &messages[0].body), (messages[2].id(), &messages[2].body), "the same is the same");
    let places: Vec<_> = messages[2..].iter().flat_map(|it| documents(&it.body)).map(|it| it["seq"].clone()).collect();
    assert_eq!(places, (1..=count).map(|it| json!(it)).collect::<Vec<_>>());
    let judge = standardwebhooks::Webhook::new(SECRETS[0]).unwrap();
    for message in &messages {
        // The library takes a map of its own crate's type: it signs anew instead.
        let header = |name: &str| message.headers[name].clone();
        let seconds = header("webhook-timestamp").parse().unwrap();
        let signature = judge.sign(message.id(), seconds, message.body.as_bytes()).unwrap();
        assert_eq!((header("webhook-signature"), &*header("content-type")), (signature, "application/x-ndjson"));
        assert!(!message.body.contains(CANARY));
    }
    for form in ["cloudevents", "ocsf"] {
        let one = Receiver::new(&[], Answer::Status(200)).await;
        let ran = export(&shell, &["--out", &one.url, "--secret-file", "secret", "--format", form]);
        assert_eq!((ran.code, one.messages()[0].json().as_array().map(Vec::len)), (0, Some(count)), "{}", ran.err);
    }
}

#[test]
fn a_receiver_without_a_secret_or_in_the_open_gets_nothing() {
    let shell = shell();
    shell.write("secret", SECRETS[0]);
    shell.write("weak", "whsec_c2hvcnQ=");
    for (url, secret) in [
        ("http://example.com/", "secret"),
        ("https://user:word@example.com/", "secret"),
        ("ftp://127.0.0.1/", "secret"),
        ("http://127.0.0.1:9/", "weak"),
        ("http://127.0.0.1:9/", "none"),
    ] {
        let ran = export(&shell, &["--out", url, "--secret-file", secret]);
        assert_eq!(ran.code, 5, "{url} {secret}: {}", ran.err);
    }
    let ran =
        shell.command(&["audit", "export", "--out", "http://127.0.0.1:9/"]).env_remove("CSGN_EXPORT_SECRET").output();
    assert_eq!(ran.unwrap().status.code(), Some(5));
}

#[test]
fn cloud_events_have_what_the_standard_wants_and_the_event_as_it_is_stored() {
    let shell = shell();
    let ran = export(&shell, &["--format", "cloudevents", "--source", "https://example.com/log"]);
    let events = documents(&ran.out);
    let plain = documents(&export(&shell, &[]).out);
    assert_eq!(events.len(), plain.len());
    let mut sequences = Vec::new();
    for (event, plain) in events.iter().zip(&plain) {
        let stored = &plain["event"];
        let mut expected = json!({
            "specversion": "1.0",
            "id": stored["id"],
            "source": "https://example.com/log",
            "type": format!("dev.countersign.{}", stored["type"].as_str().unwrap()),
            "time": stored["at"],
            "datacontenttype": "application/json",
            "sequence": format!("{:020}", plain["seq"].as_i64().unwrap()),
            "data": stored,
        });
        if let Some(execution) = stored.get("executionId") {
            expected["subject"] = execution.clone();
        }
        assert_eq!(*event, expected);
        // Names of attributes: lower-case letters and digits, as the standard has it.
        let legal = |it: &String| it.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
        assert!(event.as_object().unwrap().keys().all(legal));
        sequences.push(event["sequence"].as_str().unwrap());
    }
    assert!(sequences.is_sorted());
}

#[test]
fn ocsf_events_have_what_the_class_wants() {
    let shell = shell();
    let plain = documents(&export(&shell, &[]).out);
    let events = documents(&export(&shell, &["--format", "ocsf"]).out);
    assert_eq!(events.len(), plain.len());
    for (event, plain) in events.iter().zip(&plain) {
        assert_eq!(super::ocsf::problems(event), [""; 0], "{event}");
        let stored = &plain["event"];
        assert_eq!((&event["metadata"]["uid"], &event["metadata"]["sequence"]), (&stored["id"], &plain["seq"]));
        assert_eq!((&event["unmapped"]["data"], &event["unmapped"]["leaf"]), (&stored["data"], &plain["leaf"]));
    }
    let of = |kind: &str| events.iter().find(|it| it["metadata"]["event_code"] == kind).unwrap();
    let denied = of("capability.denied");
    let shown =
        json!([denied["status"], denied["severity"], denied["api"]["operation"], denied["actor"]["user"]["uid"]]);
    assert_eq!(shown, json!(["Failure", "Low", "orders.refund", "dana"]));
    assert_eq!(
        (&of("capability.completed")["status"], &of("policy.loaded")["activity_name"]),
        (&json!("Success"), &json!("Update"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_bounds_an_export_as_a_number_does() {
    let shell = shell();
    let all = documents(&export(&shell, &[]).out);
    let times: Vec<String> = all.iter().map(|it| it["event"]["at"].as_str().unwrap().to_owned()).collect();
    let places = |more: &[&str]| {
        let ran = export(&shell, more);
        assert_eq!(ran.code, 0, "{}", ran.err);
        documents(&ran.out).iter().map(|it| it["seq"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    let count = i64::try_from(all.len()).unwrap();
    for time in &times {
        let place = |it: usize| i64::try_from(it).unwrap() + 1;
        let first = times.iter().position(|it| it >= time).map(place).unwrap();
        let last = times.iter().rposition(|it| it < time).map_or(0, place);
        assert_eq!(places(&["--after", time]), (first..=count).collect::<Vec<_>>(), "{time}");
        assert_eq!(places(&["--until", time]), (1..=last).collect::<Vec<_>>(), "{time}");
    }
    let whole: Vec<_> = (1..=count).collect();
    assert_eq!(places(&["--after", "2020-01-01", "--until", "2999-12-31"]), whole);
    assert_eq!(places(&["--after", "2", "--until", "2999-12-31T00:00:00+02:00"]), &whole[2..]);
    assert_eq!(places(&["--until", "2020-01-01T00:00:00Z"]), [0; 0]);
    assert_eq!(places(&["--after", "2999-01-01"]), [0; 0]);
    for wrong in ["yesterday", "-1", "2026-13-01", "", "99999999999999999999"] {
        assert_eq!(export(&shell, &["--until", wrong]).code, 5, "{wrong}");
    }
    // A cursor begins there, and goes on from where it is.
    assert_eq!(places(&["--cursor", "day", "--after", "2020-01-01", "--until", "3"]), [1, 2, 3]);
    assert_eq!(places(&["--cursor", "day"]), &whole[3..]);
}

#[test]
fn no_form_has_a_payload_in_it() {
    let shell = shell();
    for form in ["ndjson", "cloudevents", "ocsf", "otel"] {
        let ran = export(&shell, &["--format", form]);
        assert!(ran.code == 0 && ran.out.lines().count() > 10 && !ran.out.contains(CANARY), "{form}");
    }
}
