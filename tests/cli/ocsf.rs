//! Exported events against what OCSF publishes of the class: every attribute that there is, and every one that must be.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::export::shell;
use crate::ledger::{Forger, leaf};

/// Facts of the published schema, see `fixtures/ocsf/README.md`.
static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../fixtures/ocsf/api_activity.json")).unwrap());

#[derive(Deserialize)]
struct Schema {
    version: String,
    class: Shape,
    objects: BTreeMap<String, Shape>,
}

#[derive(Deserialize)]
struct Shape {
    at_least_one: Vec<String>,
    attributes: BTreeMap<String, Attribute>,
}

#[derive(Deserialize)]
struct Attribute {
    #[serde(rename = "type")]
    kind: String,
    requirement: String,
    /// What an object is.
    object: Option<String>,
    #[serde(default)]
    array: bool,
    #[serde(default)]
    profiles: Vec<String>,
    #[serde(default)]
    deprecated: bool,
    #[serde(rename = "enum")]
    values: Option<BTreeMap<String, String>>,
    /// Which attribute has the caption of the value.
    sibling: Option<String>,
}

/// What the class does not want of an event.
pub(super) fn problems(event: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let whole = event.as_object().unwrap();
    shape(&SCHEMA.class, whole, "", &mut problems);
    if event.pointer("/metadata/version") != Some(&json!(SCHEMA.version)) {
        problems.push("/metadata/version is another".into());
    }
    let number = |name: &str| event[name].as_i64().unwrap_or(-1);
    if number("type_uid") != number("class_uid") * 100 + number("activity_id") {
        problems.push("/type_uid is not that of class and activity".into());
    }
    problems
}

fn shape(shape: &Shape, object: &Map<String, Value>, path: &str, problems: &mut Vec<String>) {
    for (name, attribute) in &shape.attributes {
        // The event names no profile, so that nothing of one may be there, and nothing need be.
        let is_wanted = attribute.requirement == "required" && attribute.profiles.is_empty();
        if is_wanted && !object.contains_key(name) {
            problems.push(format!("{path}/{name} is missing"));
        }
    }
    if !shape.at_least_one.is_empty() && !shape.at_least_one.iter().any(|it| object.contains_key(it)) {
        problems.push(format!("{path} has none of {:?}", shape.at_least_one));
    }
    for (name, value) in object {
        let path = format!("{path}/{name}");
        match shape.attributes.get(name) {
            None => problems.push(format!("{path} is no attribute")),
            Some(it) if it.deprecated => problems.push(format!("{path} is deprecated")),
            Some(it) if !it.profiles.is_empty() => {
                problems.push(format!("{path} is of the profiles {:?}", it.profiles));
            }
            Some(it) if it.array => problems.push(format!("{path} is a list, and none is exported")),
            Some(it) => attribute(it, value, object, &path, problems),
        }
    }
}

fn attribute(it: &Attribute, value: &Value, beside: &Map<String, Value>, path: &str, problems: &mut Vec<String>) {
    let fits = match it.kind.as_str() {
        "integer_t" => value.as_i64().is_some_and(|it| i32::try_from(it).is_ok()),
        "long_t" | "timestamp_t" => value.is_i64(),
        "object_t" | "json_t" => value.is_object(),
        "boolean_t" => value.is_boolean(),
        "string_t" | "username_t" | "hostname_t" | "url_t" => value.as_str().is_some_and(|it| !it.is_empty()),
        _ => false,
    };
    if !fits {
        problems.push(format!("{path} is no {}: {value}", it.kind));
    }
    if let (Some(name), Value::Object(members)) = (&it.object, value) {
        match SCHEMA.objects.get(name) {
            Some(known) => shape(known, members, path, problems),
            None => problems.push(format!("{path}: what a `{name}` is, is not in the fixture")),
        }
    }
    let Some(values) = &it.values else { return };
    match values.get(&value.to_string()) {
        None => problems.push(format!("{path} is none of the values: {value}")),
        // The caption of what is not on the list is the source's own word.
        Some(_) if value == 99 && it.kind == "integer_t" => {}
        Some(caption) => {
            let shown = it.sibling.as_ref().and_then(|it| beside.get(it)?.as_str());
            if let Some(shown) = shown.filter(|it| it != caption) {
                problems.push(format!("{path} is {value}, and called {shown}"));
            }
        }
    }
}

/// Every type of event, as the page about the mapping lists them; with all members that events have, and with few.
fn of_every_type() -> Vec<Value> {
    let page = include_str!("../../docs/audit/mapping.md");
    let types: Vec<&str> = page
        .lines()
        .filter(|it| it.contains("| `dev.countersign."))
        .filter_map(|it| it.strip_prefix("| `")?.split('`').next())
        .collect();
    assert!(types.len() > 20, "{types:?}");
    let mut events = Vec::new();
    for (number, kind) in types.iter().copied().chain(["of.another.version"]).enumerate() {
        let few = json!({
            "at": "2026-01-01T00:00:00.000000Z", "data": {}, "id": format!("evt-few-{number}"), "surface": "http",
            "tenant": "acme", "type": kind,
        });
        let mut many = few.clone();
        many["id"] = json!(format!("evt-many-{number}"));
        for (name, value) in [
            ("capabilityId", json!("orders.refund")),
            ("client", json!("agent/1.0")),
            ("correlationId", json!("c-7")),
            ("executionId", json!("exe-7")),
            ("inputHash", json!("sha256:00")),
            ("policyHash", json!("sha256:01")),
            ("data", json!({"applied": false, "code": "POLICY_DENIED", "executed": "unknown", "publicCode": "X"})),
        ] {
            many[name] = value;
        }
        for kind in ["user", "service", "agent"] {
            many["id"] = json!(format!("evt-{kind}-{number}"));
            many["actor"] = json!({"id": "dana", "issuer": "https://login.example", "kind": kind});
            events.push(many.clone());
        }
        events.push(few);
    }
    events
}

#[test]
fn events_of_every_type_are_what_the_published_class_wants() {
    let shell = shell();
    let events = of_every_type();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut forger = Forger::at(&shell.path().join("countersign.db")).await;
        forger.does("BEGIN").await;
        for event in &events {
            let body = event.to_string();
            let statement = "INSERT INTO audit_event (seq, id, tenant, type, terminal, at, body, leaf)
                SELECT seq + 1, ?, 'acme', 'auth.failed', FALSE, 1767225600000000, ?, ? FROM audit_head";
            let query = sqlx::query(statement).bind(event["id"].as_str()).bind(&body).bind(leaf(&body));
            query.execute(&mut forger.0).await.unwrap();
            forger.does("UPDATE audit_head SET seq = seq + 1").await;
        }
        forger.does("COMMIT").await;
        forger.leaves().await;
    });
    let ran = shell.run(&["audit", "export", "--format", "ocsf"]);
    let exported: Vec<Value> = ran.out.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert!(exported.len() > events.len(), "{}", ran.err);
    for event in &exported {
        assert_eq!(problems(event), [""; 0], "{event}");
    }
}

#[test]
fn what_the_class_does_not_want_is_noticed() {
    let shell = shell();
    let ran = shell.run(&["audit", "export", "--format", "ocsf"]);
    let event: Value =
        ran.out.lines().find(|it| it.contains("\"user\"")).map(|it| serde_json::from_str(it).unwrap()).unwrap();
    let with = |path: &str, value: Value| {
        let mut event = event.clone();
        let (parent, name) = path.rsplit_once('/').unwrap();
        let parent = event.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        if value.is_null() {
            parent.remove(name)
        } else {
            parent.insert(name.to_owned(), value)
        };
        problems(&event).join("; ")
    };
    let told = [
        with("/time", Value::Null),
        with("/time", json!("now")),
        with("/colour", json!("red")),
        with("/severity", json!("Bad")),
        with("/severity_id", json!(7)),
        with("/activity_id", json!(1)),
        with("/actor/user/uid", Value::Null),
        with("/api/operation", Value::Null),
        with("/cloud", json!({})),
        with("/metadata/version", json!("1.7.0")),
        with("/src_endpoint", json!({})),
        with("/resources", json!([])),
    ];
    insta::assert_snapshot!(told.join("\n"), @r#"
    /time is missing
    /time is no timestamp_t: "now"
    /colour is no attribute
    /severity_id is 1, and called Bad
    /severity_id is none of the values: 7
    /activity_id is 1, and called capability.requested; /type_uid is not that of class and activity
    /actor/user has none of ["account", "name", "uid"]
    /api/operation is missing
    /cloud is of the profiles ["cloud"]
    /metadata/version is another
    /src_endpoint has none of ["ip", "uid", "name", "hostname", "svc_name", "instance_uid", "interface_uid", "interface_name", "domain"]
    /resources is a list, and none is exported
    "#);
}
