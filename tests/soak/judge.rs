//! The facts: what clients were told against what is on record.

use std::collections::HashSet;

use serde_json::json;

use super::client::{Book, Said};
use super::record::Record;

/// Every promise that was broken. Empty too if nothing was promised: then that is the fault.
pub(super) fn faults(book: &Book, record: &Record) -> Vec<String> {
    let mut faults = record.faults.clone();
    faults.extend(book.others.iter().map(|it| format!("an answer that nobody should get: {it}")));
    faults.extend(record.open.iter().map(|it| format!("execution {it} has no end")));
    for (key, executions) in record.completed.iter().filter(|it| it.1.len() > 1) {
        faults.push(format!("{key} completed {} times", executions.len()));
    }
    faults.extend(book.keys.iter().filter_map(|(key, said)| Some(format!("{key} {}", broken(key, said, record)?))));
    let mut lost = |what: &str, told: &[String], on_record: &HashSet<String>| {
        let missing = told.iter().filter(|it| !on_record.contains(*it));
        faults.extend(missing.map(|it| format!("{what} {it} is not on record")));
        if told.is_empty() {
            faults.push(format!("no {what} was answered"));
        }
    };
    lost("read", &book.reads, &record.reads);
    lost("refusal", &book.refused, &record.denied);
    for what in ["refund", "message"] {
        let of_it = |key: &String, said: &Vec<Said>| key.starts_with(what) && said.iter().any(|it| it.ran().is_some());
        if !book.keys.iter().any(|(key, said)| of_it(key, said)) {
            faults.push(format!("no {what} was acknowledged"));
        }
    }
    faults
}

/// What was said of one key, and is not so.
fn broken(key: &str, said: &[Said], record: &Record) -> Option<&'static str> {
    let completed = record.completed.get(key).and_then(|it| it.first());
    let output = said.first().and_then(Said::output);
    if said.iter().any(|it| it.output() != output) {
        return Some("was told different things");
    }
    if output.is_none() {
        return completed.is_some().then_some("is of unknown outcome to its caller, and completed on record");
    }
    let Some(completed) = completed else { return Some("was acknowledged, and is not on record") };
    let ran: Vec<&str> = said.iter().filter_map(Said::ran).collect();
    if ran.len() > 1 {
        return Some("ran twice");
    }
    if ran.iter().any(|it| it != completed) {
        return Some("was acknowledged as another execution than the one on record");
    }
    let mut replays = said.iter().filter_map(Said::replayed);
    let is_strange = |it: &str| record.replays.get(it) != Some(completed);
    replays.any(is_strange).then_some("was repeated, and the record of that says otherwise")
}

fn ran(execution: &str, output: u32) -> Said {
    Said::Completed { execution: execution.into(), replayed: false, output: json!(output) }
}

fn replayed(execution: &str, output: u32) -> Said {
    Said::Completed { execution: execution.into(), replayed: true, output: json!(output) }
}

fn says(book: &mut Book, said: Vec<Said>) {
    book.keys.insert("refund-1".into(), said);
}

/// A refund that was repeated, a message, another of unknown outcome, a read, a refusal: all as it should be.
fn good() -> (Book, Record) {
    let (mut book, mut record) = (Book::default(), Record::default());
    book.keys.insert("refund-1".into(), vec![ran("a", 1), replayed("b", 1)]);
    book.keys.insert("message-1".into(), vec![ran("c", 2)]);
    book.keys.insert("message-2".into(), vec![Said::Unknown]);
    book.reads.push("d".into());
    book.refused.push("e".into());
    record.completed.insert("refund-1".into(), vec!["a".into()]);
    record.completed.insert("message-1".into(), vec!["c".into()]);
    record.replays.insert("b".into(), "a".into());
    record.reads.insert("d".into());
    record.denied.insert("e".into());
    (book, record)
}

type Breaks = fn(&mut Book, &mut Record);

#[test]
fn each_promise_that_is_broken_is_found() {
    let found = |breaks: Breaks| {
        let (mut book, mut record) = good();
        breaks(&mut book, &mut record);
        faults(&book, &record)
    };
    assert_eq!(found(|_, _| ()), [""; 0]);
    let cases: [(Breaks, &str); 13] = [
        (|_, it| it.completed.retain(|it, _| it != "message-1"), "message-1 was acknowledged, and is not on record"),
        (|_, it| it.completed.get_mut("refund-1").unwrap().push("x".into()), "refund-1 completed 2 times"),
        (
            |_, it| it.completed.extend([("message-2".into(), vec!["x".into()])]),
            "message-2 is of unknown outcome to its caller, and completed on record",
        ),
        (|it, _| says(it, vec![ran("a", 1), replayed("b", 2)]), "refund-1 was told different things"),
        (|it, _| says(it, vec![ran("a", 1), Said::Unknown]), "refund-1 was told different things"),
        (|it, _| says(it, vec![ran("a", 1), ran("a", 1)]), "refund-1 ran twice"),
        (|it, _| says(it, vec![ran("x", 1)]), "refund-1 was acknowledged as another execution than the one on record"),
        (|_, it| it.replays.clear(), "refund-1 was repeated, and the record of that says otherwise"),
        (|_, it| it.reads.clear(), "read d is not on record"),
        (|_, it| it.denied.clear(), "refusal e is not on record"),
        (|_, it| it.open.extend(["x".into()]), "execution x has no end"),
        (|it, _| it.others.push("a fault".into()), "an answer that nobody should get: a fault"),
        (|it, _| it.keys.retain(|it, _| it != "message-1"), "no message was acknowledged"),
    ];
    for (breaks, fault) in cases {
        assert_eq!(found(breaks), [fault]);
    }
}
