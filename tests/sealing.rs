//! Stored inputs: EXE-6.

use std::time::Duration;

use countersign::testing::Place;
use serde_json::json;

use crate::shop::{App, asked, cast, code, signal};

/// Whether any file at the place holds the text.
pub(crate) fn files_hold(place: &Place, text: &str) -> bool {
    let directory = place.database().parent().unwrap().to_owned();
    let holds = |it: std::io::Result<std::fs::DirEntry>| {
        let bytes = std::fs::read(it.unwrap().path()).unwrap();
        bytes.windows(text.len()).any(|it| it == text.as_bytes())
    };
    std::fs::read_dir(directory).unwrap().any(holds)
}

#[tokio::test]
async fn exe_6_no_search_of_the_files_finds_an_input() {
    let app = App::new().await;
    let text = "canary-sealed-31";
    let message = || json!({"to": text, "text": text});
    let id = asked(&app.dana().invoke("messages.send", message()).idempotency_key("k").await);
    assert!(!files_hold(app.place(), text), "while it waits");
    app.approvals(cast("priya")).approve(&id, "confirmation").await.unwrap();
    let hangs = app.dana().invoke("act.write", json!({"do": "hang"})).start();
    signal(&app.state.entered).await;
    assert!(!files_hold(app.place(), "\"hang\""), "while it runs");
    app.state.go_on.add_permits(1);
    assert_eq!(code(&hangs.await), "-");
    // The output is kept for replays, and says whom it was sent to.
    assert_eq!(code(&app.dana().resume(&id).await), "-");
    assert!(files_hold(app.place(), text));
    // The search works: the trail is in the files.
    assert!(files_hold(app.place(), "capability.completed"));
}

#[tokio::test]
async fn exe_6_a_request_s_input_serves_the_approver_and_goes_a_day_after_its_end() {
    let app = App::new().await;
    let id = app.ask("ord_1").await;
    let input = async || app.approvals(cast("priya")).show(&id).await.unwrap().input;
    let exact = Some(json!({"orderId": "ord_1", "amountCents": 60_000}));
    assert_eq!(input().await, exact);
    app.approvals(cast("priya")).reject(&id, "manager").await.unwrap();
    assert_eq!(input().await, exact);
    let place = app.place().clone();
    let sweeps =
        App::open(crate::shop::shop().sweep(Duration::from_secs(6)).lease(Duration::from_hours(100)), &place).await;
    place.clock().advance(Duration::from_hours(25));
    for _ in 0..200 {
        if input().await.is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        place.clock().advance(Duration::from_secs(6));
    }
    assert_eq!(input().await, None);
    drop(sweeps);
}
