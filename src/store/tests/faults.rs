//! Lost commits, lost callers, a store that is away (EXE-8, EXE-9).

use std::task::Poll;
use std::time::Duration;

use super::super::db::Conn;
use super::super::lock::Turn;
use super::super::op::{Began, Begin, End, Settled};
use super::super::sql;
use super::{APPLIED, BEGUN, Bench, StoreError, at_once, bench, call, count, decide, done, polled};
use crate::actor::Identity;
use crate::approval::{ApprovalState, Verdict};
use crate::audit::EventKind;
use crate::clock::Clock;
use crate::rejection::Rejection;
use crate::stage::record;
use crate::trail::Trail;

fn discovered(bench: &Bench) -> EventKind {
    EventKind::Discovered { count: 0, digest: bench.ids.event() }
}

#[tokio::test]
async fn exe_8_an_uncertain_commit_is_read_again() {
    let bench = bench().await;
    for n in 0..6 {
        let lose = || if n % 2 == 0 { bench.probe.lose_replies(1) } else { bench.probe.lose_commits(1) };
        lose();
        let approval = bench.file(None, &[("manager", 1)]).await;
        lose();
        let decided = bench.store.decide(decide(&approval, "priya", "manager", Verdict::Approve)).await;
        assert_eq!(decided, Ok(done("approved")));
        let begin = bench.with(&approval, Some(&format!("k{n}")));
        lose();
        assert_eq!(bench.store.begin(begin.clone()).await, BEGUN);
        lose();
        assert_eq!(bench.store.finish(bench.finish(&begin, End::Completed, "1")).await, APPLIED);
        assert_eq!(bench.probe.pending(), 0);
    }
    assert_eq!(bench.number("SELECT COUNT(*) FROM audit_event").await, 6 * 5);
    bench.check().await;
}

#[tokio::test]
async fn exe_8_a_begin_that_nobody_can_be_sure_of_is_owed_an_end() {
    for committed in [true, false] {
        let bench = bench().await;
        let approval = bench.approved(None).await;
        let begin = bench.with(&approval, Some("k"));
        let (replies, commits) = if committed { (1, 0) } else { (0, 1) };
        bench.probe.lose_replies(replies);
        bench.probe.lose_commits(commits);
        bench.probe.set_broken(true);
        let answer = bench.store.begin(begin.clone()).await;
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
        bench.probe.set_broken(false);
        bench.store.append(vec![bench.event(&bench.ids.execution(), discovered(&bench))]).await.unwrap();
        assert_eq!(bench.store.holder("k").await, Ok(None), "the key is free");
        assert_eq!(
            bench.store.approval(&approval).await.unwrap().unwrap().state,
            ApprovalState::Approved,
            "given back"
        );
        let ended = "SELECT COUNT(*) FROM audit_event WHERE terminal AND type = 'capability.failed'";
        assert_eq!(bench.number(ended).await, i64::from(committed));
        let again = bench.with(&approval, Some("k"));
        let fence = if committed { 2 } else { 1 };
        assert_eq!(bench.store.begin(again).await, Ok(Began::Begun { fence }));
        bench.check().await;
    }
}

#[tokio::test]
async fn exe_8_a_refusal_repeats_nothing_of_a_step_that_was_stored_without_an_answer() {
    let bench = bench().await;
    let (clock, execution) = (Clock::Manual(bench.clock.clone()), bench.ids.execution());
    let mut trail = Trail::open(&clock, &bench.ids, None, &execution, &Identity::none());
    trail.requested(None);
    bench.store.append(trail.unwritten().to_vec()).await.unwrap();
    let unanswered = Rejection::Audit(StoreError::Unavailable("the database went away amid a commit".into()));
    record::refusal(&mut trail, unanswered, &bench.store, &clock).await;
    assert_eq!(bench.number("SELECT COUNT(*) FROM audit_event").await, 2);
    assert_eq!(bench.number("SELECT COUNT(*) FROM audit_event WHERE terminal").await, 1);
    bench.check().await;
}

#[tokio::test]
async fn exe_9_an_end_is_tried_until_it_is_stored_and_once_only() {
    for committed in [true, false] {
        let bench = bench().await;
        let begin = bench.begin(Some("k"));
        bench.store.begin(begin.clone()).await.unwrap();
        if committed {
            bench.probe.lose_replies(1);
        }
        bench.probe.set_broken(true);
        let finish =
            tokio::runtime::Handle::current().spawn(call!(bench, finish, bench.finish(&begin, End::Completed, "1")));
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!finish.is_finished());
        let answer = bench.store.begin(bench.begin(None)).await;
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
        bench.probe.set_broken(false);
        assert_eq!(finish.await.unwrap(), APPLIED);
        let trail = ["capability.requested", "capability.started", "capability.completed"];
        assert_eq!(bench.trail().await, trail);
        bench.check().await;
    }
}

#[tokio::test]
async fn exe_9_an_end_is_stored_although_nobody_waits_for_it_any_more() {
    let bench = bench().await;
    let begin = bench.begin(Some("k"));
    bench.store.begin(begin.clone()).await.unwrap();
    bench.probe.set_broken(true);
    let finish = bench.store.finish(bench.finish(&begin, End::Completed, "1"));
    assert!(tokio::time::timeout(Duration::from_millis(50), finish).await.is_err());
    bench.probe.set_broken(false);
    bench.store.append(vec![bench.event(&bench.ids.execution(), discovered(&bench))]).await.unwrap();
    assert_eq!(bench.store.holder("k").await.unwrap().unwrap().outcome.as_deref(), Some("1"), "before anything else");
}

#[tokio::test]
async fn closing_waits_for_what_is_owed_no_longer_than_told() {
    let bench = bench().await;
    let begin = bench.begin(Some("k"));
    bench.store.begin(begin.clone()).await.unwrap();
    bench.probe.set_broken(true);
    let finish =
        tokio::runtime::Handle::current().spawn(call!(bench, finish, bench.finish(&begin, End::Completed, "1")));
    tokio::time::sleep(Duration::from_millis(50)).await;
    bench.store.close(Duration::from_millis(100)).await;
    assert_eq!(finish.await.unwrap(), Err(StoreError::Closed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exe_8_what_was_begun_for_a_caller_who_is_gone_is_ended() {
    let bench = bench().await;
    let mut tasks = Vec::new();
    for n in 0..300_u64 {
        let approval = if n % 10 == 0 { Some(bench.approved(None).await) } else { None };
        let begin = Begin { approval, ..bench.begin(Some(&format!("k{n}"))) };
        let (store, finish) = (bench.store.clone(), bench.finish(&begin, End::Completed, "1"));
        tasks.push(tokio::runtime::Handle::current().spawn(async move {
            if tokio::time::timeout(Duration::from_micros(n * 17), store.begin(begin)).await.is_ok() {
                assert_eq!(store.finish(finish).await, APPLIED);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for _ in 0..3 {
        bench.store.append(vec![bench.event(&bench.ids.execution(), discovered(&bench))]).await.unwrap();
    }
    assert_eq!(bench.number("SELECT COUNT(*) FROM execution WHERE ended_at IS NULL").await, 0);
    let spent = "SELECT COUNT(*) FROM approval a JOIN execution e ON e.id = a.consumed_by WHERE e.state = 'free'";
    assert_eq!(bench.number(spent).await, 0, "approvals are given back");
    bench.check().await;
}

#[tokio::test]
async fn exe_8_an_answer_that_arrives_but_is_never_taken_counts_as_not_heard() {
    let bench = bench().await;
    let approval = bench.approved(None).await;
    let lock = std::fs::File::open(bench.dir.path().join("store.db.writer")).unwrap();
    lock.lock().unwrap();
    let mut call = Box::pin(bench.store.begin(bench.with(&approval, Some("k"))));
    assert_eq!(polled(&mut call).await, Poll::Pending, "queued, not answered");
    tokio::time::sleep(Duration::from_millis(50)).await;
    lock.unlock().unwrap();
    while bench.store.holder("k").await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await; // the answer is there
    drop(call);
    bench.store.append(vec![bench.event(&bench.ids.execution(), discovered(&bench))]).await.unwrap();
    assert_eq!(bench.store.holder("k").await, Ok(None));
    assert_eq!(bench.store.approval(&approval).await.unwrap().unwrap().state, ApprovalState::Approved);
    insta::assert_snapshot!(bench.rows::<(String,)>("SELECT body FROM audit_event WHERE type = 'capability.cancelled'").await.len(), @"1");
    bench.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bad_value_fails_one_caller() {
    let bench = bench().await;
    let nul = Begin { input: "a\0b".into(), ..bench.begin(Some("nul")) };
    assert!(matches!(bench.store.begin(nul).await, Err(StoreError::Invalid(_))));
    let long = Begin { input: "x".repeat(2 * 1024 * 1024 + 1), ..bench.begin(Some("long")) };
    assert!(matches!(bench.store.begin(long).await, Err(StoreError::Invalid(_))));
    let fits = Begin { input: "x".repeat(2 * 1024 * 1024), ..bench.begin(Some("fits")) };
    assert_eq!(bench.store.begin(fits).await, BEGUN);
    // A second terminal event of one execution: refused by the database itself.
    let ended = bench.ids.execution();
    let end = |bench: &Bench| bench.event(&ended, EventKind::Completed { duration_us: 1, attempts: 1 });
    bench.store.append(vec![end(&bench)]).await.unwrap();
    let mut begins: Vec<_> = (0..40).map(|n| bench.begin(Some(&format!("k{n}")))).collect();
    begins[20].events.push(end(&bench));
    let answers: Vec<Result<Began, StoreError>> = at_once(begins.into_iter().map(|it| call!(bench, begin, it))).await;
    let failed: Vec<_> = answers.iter().enumerate().filter(|it| it.1.is_err()).map(|it| it.0).collect();
    assert_eq!(failed, [20]);
    assert!(matches!(answers[20], Err(StoreError::Refused(_))));
    assert_eq!(count(&answers, &BEGUN), 39);
    bench.check().await;
}

#[tokio::test]
async fn another_process_that_keeps_the_file_lock_stops_nobody_for_ever() {
    let bench = bench().await;
    let lock = std::fs::File::open(bench.dir.path().join("store.db.writer")).unwrap();
    lock.lock().unwrap();
    let answer = bench.store.begin(bench.begin(None)).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    lock.unlock().unwrap();
    assert_eq!(bench.store.begin(bench.begin(None)).await, BEGUN);
}

#[tokio::test]
async fn a_panic_of_the_writer_is_an_error_for_who_waits_and_what_has_begun_gets_its_end() {
    let bench = bench().await;
    let owner = bench.store.owner();
    bench.probe.panic_next();
    let answers = at_once((0..20).map(|_| call!(bench, begin, bench.begin(None)))).await;
    let failed = StoreError::Unavailable("the writer panicked".into());
    let lost = count(&answers, &Err(failed));
    assert!(lost > 0 && lost + count(&answers, &BEGUN) == 20, "{answers:?}");
    assert_eq!(bench.store.begin(bench.begin(None)).await, BEGUN);
    assert!(!owner.lost.is_cancelled() && bench.store.lease_holds(Duration::ZERO));
    bench.check().await;
}

#[tokio::test]
async fn exe_9_ends_that_wait_when_the_writer_panics_are_stored_before_the_next_renewal() {
    let bench = bench().await;
    let mut running = Vec::new();
    for n in 0..5 {
        let begin = bench.begin(Some(&format!("k{n}")));
        assert_eq!(bench.store.begin(begin.clone()).await, BEGUN);
        running.push(begin);
    }
    bench.probe.panic_next();
    let ends = running.iter().map(|it| call!(bench, finish, bench.finish(it, End::Completed, "1")));
    let answers: Vec<Result<Settled, StoreError>> = at_once(ends).await;
    assert_eq!(answers, vec![APPLIED; 5]);
    bench.store.tick().await.unwrap();
    assert_eq!(bench.number("SELECT COUNT(*) FROM execution WHERE ended_at IS NULL").await, 0);
    bench.check().await;
}

#[tokio::test]
async fn exe_5_a_transaction_that_waited_for_another_program_takes_the_time_anew() {
    let bench = bench().await;
    let path = bench.dir.path().join("store.db");
    let mut conn = Conn::open(&path, Clock::Manual(bench.clock.clone()), Turn::default()).await.unwrap();
    conn.begin().await.unwrap();
    let began = conn.now;
    bench.clock.send_modify(|it| *it = it.plus(Duration::from_secs(2))); // as long as BEGIN took
    let late = conn.all::<(i64,)>(sql::GENERATION, &[]).await.unwrap_err();
    assert_eq!(late.to_string(), "error communicating with database: another program kept the database locked");
    conn.rollback().await.unwrap();
    conn.begin().await.unwrap();
    assert_eq!(conn.all::<(i64,)>(sql::GENERATION, &[]).await.unwrap().len(), 1);
    assert_eq!(conn.now, began + 2_000_000);
    conn.rollback().await.unwrap();
}
