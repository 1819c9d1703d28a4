//! Leases, sweeps, takeovers, one end: EXE-1 to EXE-3, EXE-5.
//!
//! A process that died is one whose store is broken: it renews no more, and its handlers hang.

use std::time::Duration;

use countersign::testing::Place;
use countersign::{EngineBuilder, Execution, ExecutionStatus};

use crate::shop::{App, Shop, act, cast, code, json_of, shop, signal};
use crate::tamper::alter;

const LEASE: Duration = Duration::from_secs(6);

/// A shop whose lease and sweep come due.
fn hasty() -> EngineBuilder<Shop> {
    shop().lease(LEASE).sweep(Duration::from_secs(2))
}

/// Lets time pass in steps that everything which waits can follow.
async fn pass(place: &Place, time: Duration) {
    let step = Duration::from_millis(250);
    for _ in 0..time.as_millis() / step.as_millis() {
        place.clock().advance(step);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Lets time pass until something holds.
async fn until(place: &Place, holds: impl AsyncFn() -> bool) {
    for _ in 0..400 {
        if holds().await {
            return;
        }
        pass(place, Duration::from_millis(500)).await;
    }
    panic!("it never came to hold");
}

/// Begins an execution that hangs in a process that then loses the database.
async fn dies(app: &App, capability: &str) -> Execution {
    let call = app.dana().invoke(capability, act("hang")).idempotency_key("k").start();
    signal(&app.state.entered).await;
    app.break_store(true);
    call
}

/// Waits until the process has its own lease: on a busy machine it may have come late.
async fn alive(place: &Place, app: &App) {
    until(place, async || code(&app.dana().invoke("act.none", act("ok")).await) == "-").await;
}

async fn status(app: &App, id: &str) -> ExecutionStatus {
    app.executions(cast("dana")).show(id).await.unwrap().status
}

#[tokio::test]
async fn exe_1_a_process_that_was_declared_dead_cancels_its_handlers_and_starts_nothing_more() {
    let place = Place::new().unwrap();
    let (lost, other) = (App::open(hasty().lease(LEASE), &place).await, App::open(hasty(), &place).await);
    let call = lost.dana().invoke("act.write", act("hang")).idempotency_key("k").start();
    signal(&lost.state.entered).await;
    lost.break_store(true);
    let id = call.id().clone();
    until(&place, async || status(&other, &id).await == ExecutionStatus::Unknown).await;
    // While it is cut off it starts nothing: it cannot know whether its lease still holds.
    lost.break_store(false);
    until(&place, async || lost.state.asked.available_permits() > 0).await; // its handler was asked to stop
    until(&place, async || code(&lost.dana().invoke("act.write", act("ok")).await) == "-").await; // under a new id
    lost.state.go_on.add_permits(1);
    let _ = call.await;
    let trail = place_trail(&other, &id).await;
    assert_eq!(trail.iter().filter(|it| it.starts_with("capability.interrupted")).count(), 1, "{trail:?}");
}

async fn place_trail(app: &App, id: &str) -> Vec<String> {
    let trail = app.trail_of(id).await;
    trail.entries().iter().map(|it| it.to_string().replacen(&format!("{id} "), "", 1)).collect()
}

#[tokio::test]
async fn exe_1_without_a_lease_nothing_begins() {
    let place = Place::new().unwrap();
    let app = App::open(hasty(), &place).await;
    assert_eq!(code(&app.dana().invoke("act.write", act("ok")).await), "-");
    app.break_store(true);
    pass(&place, LEASE).await;
    // A read needs no store to begin, but a lease.
    let outcome = app.dana().invoke("act.read", act("ok")).await;
    assert_ne!(code(&outcome), "-");
    assert_eq!(app.runs(), 1);
    app.break_store(false);
    until(&place, async || code(&app.dana().invoke("act.read", act("ok")).await) == "-").await;
}

#[tokio::test]
async fn exe_2_the_sweep_ends_the_executions_of_the_dead() {
    let place = Place::new().unwrap();
    let (dead, other) = (App::open(hasty(), &place).await, App::open(hasty(), &place).await);
    let call = dies(&dead, "act.write").await;
    let id = call.id().clone();
    assert_eq!(status(&other, &id).await, ExecutionStatus::Running);
    until(&place, async || place_trail(&other, &id).await.len() == 3).await;
    assert_eq!(place_trail(&other, &id).await[2..], ["capability.interrupted by=sweep executed=unknown"]);
    assert_eq!(status(&other, &id).await, ExecutionStatus::Unknown);
    // Nobody runs it again, and nobody may: it may have happened (INV-11).
    let again = other.dana().invoke("act.write", act("hang")).idempotency_key("k").await;
    assert_eq!(code(&again), "OUTCOME_UNKNOWN");
    assert_eq!(json_of(&again)["error"]["details"], serde_json::json!([{"executionId": id}]));
    assert_eq!(other.runs(), 0);
}

#[tokio::test]
async fn exe_2_a_store_outage_kills_nobody() {
    let place = Place::new().unwrap();
    let (one, two) = (App::open(hasty(), &place).await, App::open(hasty(), &place).await);
    let call = one.dana().invoke("act.external", act("hang")).idempotency_key("k").start();
    signal(&one.state.entered).await;
    for app in [&one, &two] {
        app.break_store(true);
    }
    pass(&place, LEASE * 2).await;
    for app in [&one, &two] {
        app.break_store(false);
    }
    pass(&place, LEASE / 2).await; // less than a full lease after it came back
    let trail = place_trail(&two, call.id()).await;
    assert!(!trail.iter().any(|it| it.starts_with("capability.interrupted")), "{trail:?}");
}

#[tokio::test]
async fn exe_3_a_late_finish_is_reconciled_and_never_a_second_end() {
    let place = Place::new().unwrap();
    let (slow, other) = (App::open(hasty(), &place).await, App::open(hasty(), &place).await);
    let call = dies(&slow, "act.write").await;
    let id = call.id().clone();
    until(&place, async || place_trail(&other, &id).await.len() == 3).await;
    slow.state.go_on.add_permits(2); // it did happen, after all
    slow.break_store(false);
    let outcome = call.await;
    until(&place, async || place_trail(&other, &id).await.len() == 4).await;
    assert_eq!(
        place_trail(&other, &id).await,
        [
            "capability.requested risk=low sideEffect=write",
            "capability.started keyed=true",
            "capability.interrupted by=sweep executed=unknown",
            "capability.reconciled applied=true by=late_finish to=completed",
        ]
    );
    let ends = other.trail_of(&id).await.entries().iter().filter(|it| it.is_terminal()).count();
    assert_eq!(ends, 1);
    assert!(matches!(code(&outcome), "-" | "CANCELLED"), "{outcome:?}");
    let again = other.dana().invoke("act.write", act("hang")).idempotency_key("k").await;
    assert_eq!(json_of(&again)["replayed"], true);
}

#[tokio::test]
async fn exe_3_a_takeover_ends_its_predecessor_first() {
    let place = Place::new().unwrap();
    // Nobody sweeps: the second process comes upon the lapsed one through its own call.
    let rare = || shop().lease(LEASE).sweep(Duration::from_hours(900));
    let (dead, other) = (App::open(rare(), &place).await, App::open(rare(), &place).await);
    let call = dies(&dead, "act.again").await;
    let id = call.id().clone();
    let early = other.dana().invoke("act.again", act("hang")).idempotency_key("k").await;
    assert_eq!(code(&early), "IDEMPOTENCY_IN_PROGRESS");
    pass(&place, LEASE + LEASE).await;
    alive(&place, &other).await;
    let reused = other.dana().invoke("act.again", act("ok")).idempotency_key("k").await;
    assert_eq!(code(&reused), "IDEMPOTENCY_KEY_REUSED"); // another call's key, though its owner is gone
    other.state.go_on.add_permits(1);
    let taken = other.dana().invoke("act.again", act("hang")).idempotency_key("k").await;
    assert_eq!(code(&taken), "-", "{taken:?}");
    assert_eq!(place_trail(&other, &id).await.last().unwrap(), "capability.interrupted by=takeover executed=unknown");
    let (before, after) = (dead.agents()[0].clone(), other.agents().last().unwrap().clone());
    assert_eq!((before.fence, after.fence), (1, 2));
    assert_eq!(before.idempotency_key, after.idempotency_key); // IDM-5: for systems downstream it is one call
    // The first one comes back: its end is on record, and changes nothing.
    dead.break_store(false);
    dead.state.go_on.add_permits(2);
    let _ = call.await;
    until(&place, async || place_trail(&other, &id).await.len() == 4).await;
    assert_eq!(
        place_trail(&other, &id).await.last().unwrap(),
        "capability.reconciled applied=false by=late_finish to=completed"
    );
}

#[tokio::test]
async fn exe_5_a_lease_further_ahead_than_its_length_has_lapsed() {
    let place = Place::new().unwrap();
    let rare = || shop().lease(LEASE).sweep(Duration::from_hours(900));
    let (dead, other) = (App::open(rare(), &place).await, App::open(rare(), &place).await);
    let call = dies(&dead, "act.again").await;
    let ahead = "UPDATE instance SET lease_until = lease_until + 3600000000 \
                 WHERE id = (SELECT instance FROM execution WHERE state = 'running')";
    pass(&place, LEASE).await; // whoever has just come waits as long before it declares others dead
    assert_eq!(alter(&place.database(), ahead).await, 1);
    alive(&place, &other).await;
    other.state.go_on.add_permits(1);
    assert_eq!(code(&other.dana().invoke("act.again", act("hang")).idempotency_key("k").await), "-");
    drop(call);
}

#[tokio::test]
async fn exe_5_the_injected_clock_decides_expiry_and_leases() {
    let place = Place::new().unwrap();
    let app = App::open(hasty(), &place).await;
    tokio::time::sleep(Duration::from_millis(50)).await; // real time is of no account
    assert_eq!(code(&app.dana().invoke("act.write", act("ok")).await), "-");
    assert_eq!(app.trail().await.entries().iter().filter(|it| it.at != "+0s").count(), 0);
}
