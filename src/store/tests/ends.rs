//! One end (EXE-3), late ends, reconciling (EXE-7), erasing (EXE-6).

use std::task::Poll;
use std::time::Duration;

use super::super::op::{End, Reconcile, Settled};
use super::{APPLIED, BEGUN, Begin, Bench, LEASE, STEP, StoreError, at_once, bench, call, count, polled};
use crate::audit::{EventKind, ReconciledBy};
use crate::clock::Timestamp;

const LATE: Result<Settled, StoreError> = Ok(Settled { applied: true, late: true });
const TOO_LATE: Result<Settled, StoreError> = Ok(Settled { applied: false, late: true });
const NOT_NOW: Result<Settled, StoreError> = Ok(Settled { applied: false, late: false });

fn reconcile(begin: &Begin, end: End, by: ReconciledBy) -> Reconcile {
    let (execution, slot) = (begin.execution.clone(), begin.slot.clone());
    Reconcile { execution, slot, end, outcome: Some("settled".into()), by, generation: None, events: vec![] }
}

/// One step before a lease ends.
const NEARLY: Duration = Duration::from_secs(25);

async fn begun(bench: &Bench, slot: &str) -> Begin {
    let begin = bench.begin(Some(slot));
    assert_eq!(bench.store.begin(begin.clone()).await, BEGUN);
    begin
}

async fn last_data(bench: &Bench) -> String {
    let bodies: Vec<(String, String)> =
        bench.rows("SELECT type, body FROM audit_event ORDER BY seq DESC LIMIT 1").await;
    let event: serde_json::Value = serde_json::from_str(&bodies[0].1).unwrap();
    format!("{} {}", bodies[0].0, event["data"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exe_3_one_end_whoever_races() {
    let one = bench().await;
    let other = one.another().await;
    one.pass(LEASE).await;
    other.clock.send_replace(one.now());
    other.pass(LEASE).await;
    for round in 0..12 {
        let dying = one.another().await;
        let begin = begun(&dying, &format!("k{round}")).await;
        for bench in [&one, &other] {
            bench.pass(NEARLY).await;
        }
        let (store, finish) = (one.store.clone(), one.finish(&begin, End::Completed, "1"));
        let late = other.finish(&begin, End::Completed, "2");
        one.clock.send_modify(|it| *it = it.plus(STEP));
        other.clock.send_replace(one.now());
        let (one_swept, other_swept, first, second) =
            tokio::join!(one.store.tick(), other.store.tick(), store.finish(finish), other.store.finish(late));
        assert_eq!((one_swept, other_swept), (Ok(()), Ok(())));
        let answers = [first, second];
        let settled = count(&answers, &APPLIED) + count(&answers, &LATE);
        assert_eq!(settled, 1, "{answers:?}");
        assert_eq!(count(&answers, &TOO_LATE), 1, "{answers:?}");
    }
    assert_eq!(one.number("SELECT COUNT(*) FROM execution WHERE state = 'completed'").await, 12);
    one.check().await;
}

#[tokio::test]
async fn exe_3_the_owner_who_comes_late_settles_what_is_unknown() {
    let bench = bench().await;
    let begin = begun(&bench, "k").await;
    assert_eq!(bench.store.finish(bench.finish(&begin, End::Unknown, "1")).await, APPLIED);
    let mut finish = bench.finish(&begin, End::Completed, "2");
    let retried = EventKind::Retried { attempt: 1, previous_code: crate::outcome::ErrorCode::ExecutionFailed };
    finish.events.insert(0, bench.event(&begin.execution, retried));
    assert_eq!(bench.store.finish(finish).await, LATE);
    insta::assert_snapshot!(last_data(&bench).await, @r#"capability.reconciled {"applied":true,"by":"late_finish","to":"completed"}"#);
    assert_eq!(bench.store.finish(bench.finish(&begin, End::Failed, "3")).await, TOO_LATE);
    insta::assert_snapshot!(last_data(&bench).await, @r#"capability.reconciled {"applied":false,"by":"late_finish","to":"failed"}"#);
    assert_eq!(bench.store.holder("k").await.unwrap().unwrap().outcome.as_deref(), Some("2"));
    insta::assert_snapshot!(bench.trail().await.join(" "), @"capability.requested capability.started capability.failed capability.retried capability.reconciled capability.reconciled");
    bench.check().await;
}

#[tokio::test]
async fn exe_3_nothing_is_written_for_an_execution_that_never_began() {
    let bench = bench().await;
    let never = bench.begin(Some("k"));
    assert_eq!(bench.store.finish(bench.finish(&never, End::Completed, "1")).await, NOT_NOW);
    assert_eq!(
        bench.store.reconcile(reconcile(&never, End::Failed, ReconciledBy::Operator)).await.map(Option::unwrap),
        NOT_NOW
    );
    assert_eq!(bench.trail().await.len(), 0);
}

#[tokio::test]
async fn exe_7_nothing_happened_is_refused_while_the_owner_could_say_so_itself() {
    let bench = bench().await;
    let begin = begun(&bench, "k").await;
    for by in [ReconciledBy::Operator, ReconciledBy::Hook] {
        assert_eq!(
            bench.store.reconcile(reconcile(&begin, End::Completed, by)).await.map(Option::unwrap),
            NOT_NOW,
            "it still runs"
        );
    }
    bench.store.finish(bench.finish(&begin, End::Unknown, "1")).await.unwrap();
    let before = bench.trail().await.len();
    for by in [ReconciledBy::Operator, ReconciledBy::Hook] {
        assert_eq!(bench.store.reconcile(reconcile(&begin, End::Free, by)).await.map(Option::unwrap), NOT_NOW);
    }
    assert_eq!(bench.trail().await.len(), before, "no word in the log");
    assert_eq!(
        bench.store.reconcile(reconcile(&begin, End::Free, ReconciledBy::LateFinish)).await.map(Option::unwrap),
        LATE
    );
    assert_eq!(bench.store.holder("k").await, Ok(None));
    bench.check().await;
}

#[tokio::test]
async fn exe_7_who_reconciles_what_is_settled_is_on_record() {
    let bench = bench().await;
    let begin = begun(&bench, "k").await;
    bench.store.finish(bench.finish(&begin, End::Unknown, "1")).await.unwrap();
    let mut first = reconcile(&begin, End::Completed, ReconciledBy::Operator);
    let managed =
        EventKind::ManagementDone { action: "reconcile".into(), count: None, approval_id: None, execution_id: None };
    first.events = vec![bench.event(&begin.execution, managed)];
    let mut second = first.clone();
    second.events[0].id = bench.ids.event();
    assert_eq!(bench.store.reconcile(first).await.map(Option::unwrap), LATE);
    assert_eq!(bench.store.holder("k").await.unwrap().unwrap().outcome.as_deref(), Some("settled"));
    second.by = ReconciledBy::Hook;
    assert_eq!(bench.store.reconcile(second).await.map(Option::unwrap), TOO_LATE);
    insta::assert_snapshot!(last_data(&bench).await, @r#"capability.reconciled {"applied":false,"by":"hook","to":"completed"}"#);
    assert_eq!(count(&bench.trail().await, &"management.done".to_owned()), 1);
    bench.check().await;
}

#[tokio::test]
async fn exe_7_an_operator_settles_what_a_dead_process_left_without_waiting_for_a_sweep() {
    let dead = bench().await;
    let begin = begun(&dead, "k").await;
    let command = dead.command(dead.now().plus(LEASE)).await;
    assert_eq!(
        command.store.reconcile(reconcile(&begin, End::Free, ReconciledBy::Operator)).await.map(Option::unwrap),
        LATE
    );
    insta::assert_snapshot!(dead.trail().await.join(" "), @"capability.requested capability.started capability.interrupted capability.reconciled");
    dead.check().await;
}

#[tokio::test]
async fn exe_7_hooks_are_asked_by_one_process_at_a_time_and_ever_less_often() {
    let one = bench().await;
    let other = one.another().await;
    let begin = begun(&one, "k").await;
    one.store.finish(one.finish(&begin, End::Unknown, "1")).await.unwrap();
    let ask = async |bench: &Bench| {
        let all = bench.store.unresolved(vec!["orders.refund".into()], 10).await.unwrap();
        all.into_iter().map(|it| (it.execution.id, it.tries, it.execution.input)).collect::<Vec<_>>()
    };
    assert_eq!(one.store.unresolved(vec!["orders.other".into()], 10).await.unwrap().len(), 0);
    let claim = |tries| vec![(begin.execution.clone(), tries, Some("sealed".to_owned()))];
    assert_eq!(ask(&one).await, claim(0), "the input of an unknown one is kept");
    assert_eq!(ask(&other).await, vec![]);
    for (tries, wait) in (1..).zip([5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]) {
        let wait = Duration::from_secs(wait);
        one.clock.send_modify(|it| *it = Timestamp(it.plus(wait).0 - 1));
        assert_eq!(ask(&one).await, vec![], "after {tries} tries");
        one.clock.send_modify(|it| *it = Timestamp(it.0 + 1));
        assert_eq!(ask(&one).await, claim(tries));
    }
    one.store.reconcile(reconcile(&begin, End::Failed, ReconciledBy::Hook)).await.unwrap();
    one.clock.send_modify(|it| *it = it.plus(Duration::from_hours(1)));
    assert_eq!(ask(&one).await, vec![]);
}

#[tokio::test]
async fn exe_6_an_input_goes_when_its_execution_is_settled() {
    let bench = bench().await;
    for (slot, end) in
        [("completed", End::Completed), ("failed", End::Failed), ("free", End::Free), ("unknown", End::Unknown)]
    {
        let begin = begun(&bench, slot).await;
        assert_eq!(bench.store.execution(&begin.execution).await.unwrap().unwrap().input.as_deref(), Some("sealed"));
        bench.store.finish(bench.finish(&begin, end, "1")).await.unwrap();
        let record = bench.store.execution(&begin.execution).await.unwrap().unwrap();
        assert_eq!(record.input.is_some(), end == End::Unknown, "{slot}");
        assert_eq!((record.state.as_str(), record.lease_valid, record.ended_at), (slot, true, Some(bench.now())));
        if end == End::Unknown {
            bench.store.reconcile(reconcile(&begin, End::Completed, ReconciledBy::Hook)).await.unwrap();
            assert_eq!(bench.store.execution(&begin.execution).await.unwrap().unwrap().input, None);
        }
    }
}

#[tokio::test]
async fn exe_6_the_input_of_a_request_goes_a_day_after_its_end() {
    let bench = bench().await;
    let (open, lapsed) = (bench.filing(None, &[("manager", 1)]), bench.file(None, &[("manager", 1)]).await);
    let open = super::filed(bench.store.file(super::File { life_us: i64::MAX / 4, ..open }).await);
    bench.pass(Duration::from_mins(1)).await;
    let has = async |id| bench.store.approval(id).await.unwrap().unwrap().input.is_some();
    bench.clock.send_modify(|it| *it = it.plus(Duration::from_micros(24 * 3_600_000_000 - 1)));
    bench.store.tick().await.unwrap();
    assert!(has(&lapsed).await);
    bench.clock.send_modify(|it| *it = it.plus(Duration::from_micros(1)));
    bench.store.tick().await.unwrap();
    assert!(!has(&lapsed).await && has(&open).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_are_never_refused_for_load() {
    let bench = bench().await;
    let begins: Vec<_> = (0..200).map(|n| bench.begin(Some(&format!("k{n}")))).collect();
    at_once(begins.iter().cloned().map(|it| call!(bench, begin, it))).await;
    // Nothing to hash, so that all are queued well before anybody's patience ends.
    let mut flood: Vec<_> = (0..5_000).map(|_| call!(bench, append, vec![])).collect();
    let lock = std::fs::File::open(bench.dir.path().join("store.db.writer")).unwrap();
    lock.lock().unwrap();
    let mut busy = 0;
    for call in &mut flood {
        busy += usize::from(polled(call).await == Poll::Ready(Err(StoreError::Busy)));
    }
    assert_eq!(busy, 5_000 - 4_096);
    let mut ends: Vec<_> =
        begins.iter().map(|it| call!(bench, finish, bench.finish(it, End::Completed, "1"))).collect();
    for end in &mut ends {
        assert_eq!(polled(end).await, Poll::Pending, "queued");
    }
    lock.unlock().unwrap();
    for end in ends {
        assert_eq!(end.await, APPLIED);
    }
    drop(flood);
    bench.check().await;
}
