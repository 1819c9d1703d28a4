//! Leases, sweeps, takeovers (EXE-1, EXE-2, EXE-5).

use std::sync::Arc;
use std::time::Duration;

use super::super::op::{Began, Begin, End, HolderState, Settled};
use super::{APPLIED, BEGUN, Bench, LEASE, STEP, Store, bench, count};
use crate::audit::EventKind;
use crate::clock::Clock;

const TINY: Duration = Duration::from_micros(1);

/// The instant before a lease ends, and one step before.
const LESS: Duration = Duration::from_micros(29_999_999);
const NEARLY: Duration = Duration::from_secs(25);

async fn begun(bench: &Bench, slot: &str, retake: bool) -> Begin {
    let begin = Begin { retake, ..bench.begin(Some(slot)) };
    assert_eq!(bench.store.begin(begin.clone()).await, BEGUN);
    begin
}

#[tokio::test]
async fn exe_1_a_lease_holds_by_monotonic_time_for_its_length_less_the_margin() {
    let bench = bench().await;
    assert!(bench.store.lease_holds(LESS) && !bench.store.lease_holds(LEASE));
    bench.pass(STEP).await;
    assert!(bench.store.lease_holds(LESS), "renewed");
    bench.probe.set_broken(true);
    bench.clock.send_modify(|it| *it = it.plus(LESS));
    assert!(bench.store.lease_holds(Duration::ZERO) && !bench.store.lease_holds(TINY));
    bench.clock.send_modify(|it| *it = it.plus(TINY));
    assert!(!bench.store.lease_holds(Duration::ZERO));
}

#[tokio::test]
async fn exe_1_the_writer_renews_by_itself() {
    let bench = bench().await;
    let until = bench.number("SELECT lease_until FROM instance").await;
    bench.clock.send_modify(|it| *it = it.plus(STEP));
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if bench.number("SELECT lease_until FROM instance").await > until {
            return;
        }
    }
    panic!("no renewal");
}

#[tokio::test]
async fn exe_2_the_sweep_ends_what_a_lapsed_process_left() {
    let bench = bench().await;
    bench.pass(LEASE).await;
    let dying = bench.another().await;
    let (write, read) = (begun(&dying, "w", false).await, begun(&dying, "r", true).await);
    bench.pass(LESS).await;
    assert_eq!(bench.store.holder("w").await.unwrap().unwrap().state, HolderState::Running);
    bench.pass(TINY).await;
    assert_eq!(bench.store.holder("w").await.unwrap().unwrap().state, HolderState::Unknown);
    assert_eq!(bench.store.holder("r").await, Ok(None), "what may be run again frees its key");
    let events: Vec<(String, String)> =
        bench.rows("SELECT execution_id, body FROM audit_event WHERE terminal ORDER BY execution_id").await;
    let ended: Vec<_> = events.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(ended, [&*write.execution, &*read.execution]);
    assert!(events[0].1.contains(r#"{"by":"sweep","executed":"unknown"}"#), "{events:?}");
    assert!(bench.store.execution(&write.execution).await.unwrap().unwrap().input.is_some());
    bench.check().await;
}

#[tokio::test]
async fn exe_2_death_is_for_ever_and_the_process_goes_on_under_a_new_id() {
    let bench = bench().await;
    bench.pass(LEASE).await;
    let stopped = bench.another().await;
    let owner = stopped.store.owner();
    let begin = begun(&stopped, "k", false).await;
    bench.pass(LEASE).await;
    assert!(!owner.lost.is_cancelled(), "nobody told it yet");
    stopped.clock.send_replace(bench.now());
    stopped.store.tick().await.unwrap();
    assert!(owner.lost.is_cancelled());
    stopped.store.tick().await.unwrap();
    assert_ne!(stopped.store.instance(), owner.instance);
    assert!(!stopped.store.owner().lost.is_cancelled() && stopped.store.lease_holds(Duration::ZERO));
    let finish = stopped.finish(&begin, End::Completed, "1");
    assert_eq!(stopped.store.finish(finish).await, Ok(Settled { applied: true, late: true }));
    let late = Begin { instance: owner.instance, ..stopped.begin(Some("other")) };
    assert_eq!(stopped.store.begin(late).await, Err(super::StoreError::Busy), "the dead begin nothing");
    assert_eq!(stopped.store.begin(stopped.begin(Some("other"))).await, BEGUN);
    bench.check().await;
}

#[tokio::test]
async fn exe_2_lapsed_is_not_dead_a_renewal_before_the_burial_wins() {
    let bench = bench().await;
    let begin = begun(&bench, "k", false).await;
    let owner = bench.store.owner();
    bench.clock.send_modify(|it| *it = it.plus(LEASE * 10));
    bench.store.tick().await.unwrap();
    assert!(!owner.lost.is_cancelled() && bench.store.lease_holds(Duration::ZERO));
    assert_eq!(bench.store.instance(), owner.instance);
    assert_eq!(bench.store.finish(bench.finish(&begin, End::Completed, "1")).await, APPLIED);
}

#[tokio::test]
async fn exe_2_after_an_outage_nobody_is_declared_dead_for_one_full_lease() {
    let bench = bench().await;
    let slower = bench.another().await;
    begun(&slower, "k", false).await;
    bench.pass(NEARLY).await;
    bench.clock.send_modify(|it| *it = it.plus(LEASE * 3)); // nobody could renew
    bench.store.tick().await.unwrap();
    bench.pass(NEARLY).await;
    assert_eq!(bench.store.holder("k").await.unwrap().unwrap().state, HolderState::Unknown, "lapsed, not ended");
    assert_eq!(count(&bench.trail().await, &"capability.interrupted".to_owned()), 0);
    bench.pass(STEP).await;
    assert_eq!(count(&bench.trail().await, &"capability.interrupted".to_owned()), 1);
}

#[tokio::test]
async fn exe_2_a_process_whose_own_lease_lapsed_buries_nobody() {
    let dying = bench().await;
    begun(&dying, "k", true).await;
    let late = dying.command(dying.now().plus(LESS)).await;
    late.clock.send_modify(|it| *it = it.plus(LEASE));
    let again = || Begin { retake: true, ..late.begin(Some("k")) };
    assert_eq!(late.store.begin(again()).await, Ok(Began::KeyTaken), "its own has lapsed, too");
    late.store.renew().await.unwrap();
    late.clock.send_modify(|it| *it = it.plus(LESS));
    late.store.renew().await.unwrap();
    assert_eq!(late.store.begin(again()).await, Ok(Began::KeyTaken), "one full lease");
    late.clock.send_modify(|it| *it = it.plus(TINY));
    assert_eq!(late.store.begin(again()).await, Ok(Began::Begun { fence: 2 }));
}

#[tokio::test]
async fn exe_5_a_lease_further_ahead_than_its_length_has_lapsed() {
    let ahead = bench().await;
    ahead.clock.send_modify(|it| *it = it.plus(LEASE * 100));
    ahead.store.tick().await.unwrap();
    begun(&ahead, "k", false).await;
    let bench = Bench::on(ahead.dir.clone(), super::START).await;
    assert_eq!(bench.store.holder("k").await.unwrap().unwrap().state, HolderState::Unknown);
    bench.pass(LEASE).await;
    assert_eq!(count(&bench.trail().await, &"capability.interrupted".to_owned()), 1);
    bench.check().await;
}

#[tokio::test]
async fn exe_3_a_takeover_ends_its_predecessor_in_the_same_transaction() {
    let dying = bench().await;
    let first = begun(&dying, "k", true).await;
    let write = begun(&dying, "w", false).await;
    let early = dying.command(dying.now().plus(LESS)).await;
    let second = |bench: &Bench, slot: &str, retake| Begin { retake, ..bench.begin(Some(slot)) };
    assert_eq!(early.store.begin(second(&early, "k", true)).await, Ok(Began::KeyTaken), "its lease is valid");
    let other = dying.command(dying.now().plus(LEASE)).await;
    assert_eq!(other.store.holder("k").await.unwrap().unwrap().state, HolderState::Retakable);
    assert_eq!(other.store.begin(second(&other, "k", false)).await, Ok(Began::KeyTaken), "not if it may not today");
    assert_eq!(other.store.begin(second(&other, "w", true)).await, Ok(Began::KeyTaken), "nor if it might not then");
    let commits = other.probe.commits();
    assert_eq!(other.store.begin(second(&other, "k", true)).await, Ok(Began::Begun { fence: 2 }));
    assert_eq!(other.probe.commits(), commits + 1);
    let ended: Vec<(String, String)> = other.rows("SELECT execution_id, body FROM audit_event WHERE terminal").await;
    assert_eq!((ended.len(), ended[0].0.as_str()), (1, &*first.execution));
    assert!(ended[0].1.contains(r#"{"by":"takeover","executed":"unknown"}"#), "{ended:?}");
    let late = dying.finish(&first, End::Completed, "late");
    assert_eq!(dying.store.finish(late).await, Ok(Settled { applied: false, late: true }));
    assert_eq!(dying.store.finish(dying.finish(&write, End::Completed, "1")).await, APPLIED, "not swept yet");
    dying.check().await;
}

#[tokio::test]
async fn idm_4_the_fence_tells_a_revived_owner_from_its_successor() {
    let bench = bench().await;
    bench.pass(LEASE).await;
    let stopped = bench.another().await;
    let first = begun(&stopped, "k", false).await;
    bench.pass(LEASE).await;
    let free = super::super::op::Reconcile {
        execution: first.execution.clone(),
        slot: Some("k".into()),
        end: End::Free,
        outcome: None,
        by: crate::audit::ReconciledBy::Operator,
        generation: None,
        events: vec![],
    };
    assert_eq!(bench.store.reconcile(free).await, Ok(Some(Settled { applied: true, late: true })));
    let second = bench.begin(Some("k"));
    assert_eq!(bench.store.begin(second.clone()).await, Ok(Began::Begun { fence: 2 }));
    let late = stopped.finish(&first, End::Completed, "first");
    assert_eq!(stopped.store.finish(late).await, Ok(Settled { applied: false, late: true }));
    assert_eq!(bench.store.finish(bench.finish(&second, End::Completed, "second")).await, APPLIED);
    assert_eq!(bench.store.holder("k").await.unwrap().unwrap().outcome.as_deref(), Some("second"));
    bench.check().await;
}

#[tokio::test]
async fn exe_1_who_leaves_in_good_order_leaves_no_lease_and_unfinished_work_keeps_it() {
    let bench = bench().await;
    let (idle, busy) = (bench.another().await, bench.another().await);
    begun(&busy, "k", false).await;
    idle.store.close(Duration::ZERO).await;
    busy.store.close(Duration::ZERO).await;
    assert!(busy.store.owner().lost.is_cancelled(), "nobody renews any more");
    let left: Vec<(String,)> = bench.rows("SELECT id FROM instance ORDER BY id").await;
    let mut expected = [(bench.store.instance(),), (busy.store.instance(),)];
    expected.sort();
    assert_eq!(left, expected);
    let seen = bench.event(&bench.ids.execution(), EventKind::Discovered { count: 0, digest: String::new() });
    assert_eq!(idle.store.append(vec![seen]).await, Err(super::StoreError::Closed));
    bench.pass(LEASE * 3).await;
    assert_eq!(
        bench.number("SELECT COUNT(*) FROM instance").await,
        1,
        "the dead are forgotten once their work has ended"
    );
}

#[tokio::test]
async fn exe_2_a_command_holds_a_lease_and_never_sweeps() {
    let bench = bench().await;
    let clock = Arc::new(tokio::sync::watch::Sender::new(bench.now().plus(LEASE * 2)));
    begun(&bench, "k", false).await;
    let mut config =
        super::config(bench.dir.path().join("store.db"), Clock::Manual(clock.clone()), bench.probe.clone());
    config.sweep = None;
    let command = Store::open(config).await.unwrap();
    for _ in 0..8 {
        clock.send_modify(|it| *it = it.plus(STEP));
        command.renew().await.unwrap();
    }
    assert!(command.lease_holds(Duration::ZERO));
    assert_eq!(count(&bench.trail().await, &"capability.interrupted".to_owned()), 0);
}
