//! `notifications list|retry|drop`, on what an engine left behind.

use std::path::Path;
use std::time::Duration;

use countersign::notifications::Notifications;
use countersign::{Actor, Engine};
use serde_json::{Value, json};

use super::Shell;

/// An engine whose webhook nobody listens to, and which gives up at once.
async fn engine(shell: &Shell) -> Engine<countersign::demo::Desk> {
    // Nobody listens on a port that was just given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = json!({"webhooks": [{"name": "desk", "url": format!("http://127.0.0.1:{port}/"), "attempts": 1,
        "secrets": [{"env": "SECRET"}]}]});
    let secret = |_: &str| Some("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD".to_owned());
    let settings = serde_json::from_value(settings).unwrap();
    countersign::demo::builder()
        .database(format!("sqlite:{}", shell.path().join("told.db").display()))
        .notifications(Notifications::open(&settings, Path::new("."), &secret).unwrap())
        .build()
        .await
        .unwrap()
}

fn dead(shell: &Shell) -> Vec<Value> {
    let listed = shell.run(&["notifications", "list", "--dead", "--json", "--db", "sqlite:told.db"]);
    assert_eq!(listed.code, 0, "{}", listed.err);
    listed.json().as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_up_is_listed_retried_and_dropped() {
    let shell = Shell::new();
    let engine = engine(&shell).await;
    let dana = engine.on_behalf_of(Actor::user("dana").role("support"), countersign::demo::Desk::default());
    for order in ["ord_42", "ord_43"] {
        let input = json!({"orderId": order, "amountCents": 64_900, "reason": "canary"});
        assert!(dana.invoke("orders.refund", input).await.approval().is_some());
    }
    for _ in 0..200 {
        if dead(&shell).len() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    engine.shutdown(Duration::from_secs(10)).await;
    let letters = dead(&shell);
    let told: Vec<_> = letters.iter().map(|it| (&it["type"], &it["state"], &it["attempts"], &it["failure"])).collect();
    let one = (&json!("approval.requested"), &json!("dead"), &json!(1), &json!("no connection"));
    assert_eq!(told, [one, one]);
    let table = shell.run(&["notifications", "list", "--db", "sqlite:told.db"]).out;
    assert!(table.contains("given up") && table.contains("retry --all") && !table.contains("canary"), "{table}");
    let id = letters[0]["id"].as_str().unwrap();
    let dropped = shell.run(&["notifications", "drop", id, "--db", "sqlite:told.db"]);
    assert_eq!((dropped.code, &*dropped.out), (0, "1 notification dropped.\n"));
    let retried = shell.run(&["notifications", "retry", "--webhook", "desk", "--json", "--db", "sqlite:told.db"]);
    assert_eq!((retried.code, retried.json()), (0, json!({"retried": 1})));
    let due = shell.run(&["notifications", "list", "--json", "--db", "sqlite:told.db"]).json();
    assert_eq!((&due[0]["state"], &due[0]["attempts"], due[1].is_null()), (&json!("due"), &json!(0), true));
    assert_eq!(dead(&shell), [Value::Null; 0]);
    assert_eq!(shell.run(&["notifications", "drop", "--all", "--db", "sqlite:told.db"]).code, 0, "there is nothing");
    let listed = shell.run(&["audit", "list", "--type", "management.done", "--json", "--db", "sqlite:told.db"]).json();
    let done: Vec<_> =
        listed.as_array().unwrap().iter().map(|it| (&it["data"]["action"], &it["data"]["count"])).collect();
    let mut expected = [("drop_notifications", 1), ("retry_notifications", 1)].map(|it| (json!(it.0), json!(it.1)));
    if done[0].0 == "retry_notifications" {
        expected.reverse(); // the latest first
    }
    assert_eq!(done, expected.iter().map(|it| (&it.0, &it.1)).collect::<Vec<_>>());
    let issuer = listed[0]["actor"]["issuer"].as_str().unwrap();
    assert_eq!(issuer, format!("cli:{}", listed[0]["actor"]["id"].as_str().unwrap()), "who sat there");
}

#[test]
fn which_ones_must_be_said_and_a_database_must_be_there() {
    let shell = Shell::new();
    let vague = shell.run(&["notifications", "drop"]);
    assert_eq!(vague.code, 5, "{}", vague.err);
    let missing = shell.run(&["notifications", "list", "--db", "sqlite:none.db"]);
    assert_eq!(missing.code, 5, "{}", missing.err);
    assert!(missing.err.contains("there is no database"), "{}", missing.err);
}
