//! The demo's story.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Shell;

/// Every step, in order, with what it must come to.
const STEPS: [(&str, &str); 19] = [
    ("search", "completed"),
    ("small-refund", "completed"),
    ("small-refund-again", "completed"),
    ("key-reused", "IDEMPOTENCY_KEY_REUSED"),
    ("large-refund", "approval_required"),
    ("self-approval", "APPROVAL_SELF_APPROVAL"),
    ("approve", "approved"),
    ("resume", "completed"),
    ("resume-again", "APPROVAL_CONSUMED"),
    ("too-large", "POLICY_DENIED"),
    ("bad-input", "INPUT_INVALID"),
    ("unknown", "CAPABILITY_NOT_FOUND"),
    ("staged", "CAPABILITY_NOT_FOUND"),
    ("hidden", "CAPABILITY_NOT_FOUND"),
    ("anonymous", "POLICY_DENIED"),
    ("no-actor", "UNAUTHENTICATED"),
    ("redacted", "completed"),
    ("handler-fails", "EXECUTION_FAILED"),
    ("timeout", "TIMEOUT"),
];

#[test]
fn every_step_of_the_demo_comes_out_as_told() {
    let ran = Shell::new().run(&["demo", "--json"]);
    assert_eq!((ran.code, &*ran.err), (0, ""));
    let told = ran.json();
    let steps: Vec<(String, String)> = told["steps"].as_array().unwrap().iter().map(come_to).collect();
    assert_eq!(steps, STEPS.map(|(name, end)| (name.to_owned(), end.to_owned())));
    insta::assert_json_snapshot!(Stable::default().of(told));
}

fn come_to(step: &Value) -> (String, String) {
    let outcome = &step["outcome"];
    let end = outcome["error"]["code"].as_str().or_else(|| outcome["status"].as_str());
    (step["name"].as_str().unwrap().to_owned(), end.unwrap().to_owned())
}

#[test]
fn nothing_that_was_in_a_call_is_on_the_demos_trail() {
    let ran = Shell::new().run(&["demo", "--json"]);
    let trail = ran.json()["trail"].to_string();
    for word in ["scratched", "cracked", "64900", "ord_42", "lamp", "mina@", "reasn", "hunter2", "49 dollars"] {
        assert!(!trail.contains(word), "`{word}` is on the trail");
    }
    assert!(!ran.out.contains("hunter2") && !ran.out.contains("mina@") && !ran.out.contains("49 dollars"));
}

#[test]
fn three_refusals_look_the_same_and_the_trail_tells_them_apart() {
    let told = Shell::new().run(&["demo", "--json"]).json();
    let outcome = |name: &str| {
        let steps = told["steps"].as_array().unwrap();
        steps.iter().find(|it| it["name"] == name).unwrap()["outcome"].clone()
    };
    let asked = [("unknown", "orders.teleport"), ("staged", "orders.purge"), ("hidden", "reports.export")];
    let shown = asked.map(|(name, capability)| {
        let outcome = outcome(name);
        let text = outcome.to_string().replace(outcome["executionId"].as_str().unwrap(), "");
        text.replace(capability, "")
    });
    assert!(shown[0] == shown[1] && shown[1] == shown[2], "{shown:#?}");
    let reasons = asked.map(|(name, _)| {
        let id = outcome(name)["executionId"].clone();
        let trail = told["trail"].as_array().unwrap();
        let denied = trail.iter().find(|it| it["executionId"] == id && it["type"] == "capability.denied");
        denied.unwrap()["data"]["reason"].as_str().unwrap().to_owned()
    });
    assert_eq!(reasons, ["unknown", "not_exposed", "hidden"]);
}

#[test]
fn the_demo_tells_people_a_story() {
    let ran = Shell::new().run(&["demo"]);
    assert_eq!((ran.code, &*ran.err), (0, ""));
    for (number, (name, _)) in (1..).zip(STEPS) {
        assert!(ran.out.contains(&format!("{number:>2}. {name}\n")), "{name} is missing");
    }
    assert!(ran.out.contains("Every step came out as told."));
    assert!(!ran.out.contains('\u{1b}'), "colours are for terminals");
}

/// Makes ids, times and hashes of a run the same as another's.
#[derive(Default)]
struct Stable {
    seen: BTreeMap<String, String>,
}

impl Stable {
    fn of(&mut self, mut value: Value) -> Value {
        self.walk("", &mut value);
        value
    }

    fn walk(&mut self, name: &str, value: &mut Value) {
        match value {
            // A trail's events are taken in order, so that ids are numbered as they appear.
            Value::Array(items) => items.iter_mut().for_each(|it| self.walk(name, it)),
            Value::Object(members) => members.iter_mut().for_each(|(name, it)| self.walk(name, it)),
            Value::String(text) => {
                let kind = match name {
                    "executionId" | "originalExecutionId" => "exe",
                    "approvalId" => "apr",
                    "id" if text.starts_with("apr_") => "apr",
                    "id" if text.len() == 36 => return "(id)".clone_into(text),
                    "at" | "expiresAt" => return "(time)".clone_into(text),
                    "inputHash" | "policyHash" | "bindingHash" | "governance" => return "(hash)".clone_into(text),
                    _ => return,
                };
                let next = self.seen.values().filter(|it| it.starts_with(kind)).count() + 1;
                *text = self.seen.entry(text.clone()).or_insert_with(|| format!("{kind}-{next}")).clone();
            }
            Value::Number(number) if name == "durationUs" => *number = 0.into(),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}
