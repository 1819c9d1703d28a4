//! Keys and approvals at the beginning of an execution.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::super::op::{Activated, Began, Begin, End, HolderState, Settled};
use super::{APPLIED, BEGUN, Bench, at_once, bench, call, count, filed};
use crate::approval::ApprovalState;
use crate::audit::EventKind;

fn refused_as(state: ApprovalState, by: Option<&str>) -> Began {
    Began::ApprovalRefused { state: Some(state), consumed_by: by.map(Into::into) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apr_10_of_twenty_concurrent_begins_exactly_one_consumes() {
    let one = bench().await;
    let other = one.another().await;
    for _ in 0..10 {
        let approval = one.approved(None).await;
        let calls = (0..20).map(|n| {
            let bench = if n % 2 == 0 { &one } else { &other };
            call!(bench, begin, bench.with(&approval, None))
        });
        let answers = at_once(calls).await;
        assert_eq!(count(&answers, &BEGUN), 1, "{answers:?}");
        let owner = one.store.approval(&approval).await.unwrap().unwrap().consumed_by.unwrap();
        let rest = Ok(refused_as(ApprovalState::Consumed, Some(&owner)));
        assert_eq!(count(&answers, &rest), 19, "{answers:?}");
    }
    assert_eq!(one.number("SELECT COUNT(*) FROM execution").await, 10, "nothing is left of the refused");
    one.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idm_4_of_thirty_first_calls_with_one_key_one_runs() {
    let one = bench().await;
    let other = one.another().await;
    for n in 0..10 {
        let key = format!("k{n}");
        let calls = (0..30).map(|n| {
            let bench = if n % 2 == 0 { &one } else { &other };
            call!(bench, begin, bench.begin(Some(&key)))
        });
        let answers = at_once(calls).await;
        assert_eq!((count(&answers, &BEGUN), count(&answers, &Ok(Began::KeyTaken))), (1, 29), "{answers:?}");
    }
    one.check().await;
}

// On one thread, so that the order of asking is the order of queueing.
#[tokio::test]
async fn duplicates_queued_at_once_never_share_a_batch() {
    let bench = bench().await;
    let answers = at_once((0..12).map(|_| call!(bench, begin, bench.begin(Some("k"))))).await;
    assert_eq!(answers[0], BEGUN, "they keep their order");
    assert_eq!(count(&answers, &Ok(Began::KeyTaken)), 11);
    let begin = bench.begin(Some("f"));
    assert_eq!(bench.store.begin(begin.clone()).await, BEGUN);
    let answers = at_once((0..12).map(|_| call!(bench, finish, bench.finish(&begin, End::Completed, "1")))).await;
    assert_eq!(count(&answers, &APPLIED), 1);
    assert_eq!(count(&answers, &Ok(Settled { applied: false, late: true })), 11);
    let answers = at_once((0..12).map(|_| call!(bench, file, bench.filing(Some("s"), &[("manager", 1)])))).await;
    let mut approvals: Vec<_> = answers.into_iter().map(filed).collect();
    approvals.dedup();
    assert_eq!(approvals.len(), 1);
    assert_eq!(bench.probe.alone(), 0, "no batch had to be taken apart");
    bench.check().await;
}

#[tokio::test]
async fn idm_4_a_refused_approval_gives_the_key_back() {
    let bench = bench().await;
    let approval = bench.file(None, &[("manager", 1)]).await;
    let answer = bench.store.begin(bench.with(&approval, Some("k"))).await;
    assert_eq!(answer, Ok(refused_as(ApprovalState::Pending, None)));
    let answer = bench.store.begin(bench.with(&"apr_none".into(), Some("k"))).await;
    assert_eq!(answer, Ok(Began::ApprovalRefused { state: None, consumed_by: None }));
    assert_eq!(bench.store.begin(bench.begin(Some("k"))).await, BEGUN);
    bench.check().await;
}

#[tokio::test]
async fn apr_10_a_taken_key_spends_no_approval() {
    let bench = bench().await;
    bench.store.begin(bench.begin(Some("k"))).await.unwrap();
    let approval = bench.approved(None).await;
    assert_eq!(bench.store.begin(bench.with(&approval, Some("k"))).await, Ok(Began::KeyTaken));
    assert_eq!(bench.store.begin(bench.with(&approval, Some("other"))).await, BEGUN);
}

#[tokio::test]
async fn apr_10_an_approval_that_was_set_back_in_the_file_still_runs_once() {
    let bench = bench().await;
    let approval = bench.approved(None).await;
    let first = bench.with(&approval, Some("k"));
    assert_eq!(bench.store.begin(first.clone()).await, BEGUN);
    assert_eq!(bench.store.finish(bench.finish(&first, End::Completed, "1")).await, APPLIED);
    bench.tampers("UPDATE approval SET state = 'approved', consumed_by = NULL, ended_at = NULL").await;
    let spent = Ok(refused_as(ApprovalState::Consumed, Some(&first.execution)));
    assert_eq!(bench.store.begin(bench.with(&approval, None)).await, spent);
    assert_eq!(bench.store.begin(bench.with(&approval, Some("other"))).await, spent);
    assert_eq!(bench.store.begin(bench.with(&approval, Some("k"))).await, Ok(Began::KeyTaken), "the key comes first");
    assert_eq!(bench.store.begin(bench.begin(Some("other"))).await, BEGUN, "a refused call keeps no key");
    assert_eq!(bench.number("SELECT COUNT(*) FROM execution").await, 2);
    bench.check().await;
}

#[tokio::test]
async fn apr_11_at_the_instant_of_its_expiry_an_approval_is_expired() {
    let bench = bench().await;
    let approval = bench.approved(None).await;
    let early = bench.approved(None).await;
    bench.pass(Duration::from_micros(60_000_000 - 1)).await;
    assert_eq!(bench.store.begin(bench.with(&early, None)).await, BEGUN);
    bench.clock.send_modify(|it| *it = it.plus(Duration::from_micros(1)));
    let answer = bench.store.begin(bench.with(&approval, None)).await;
    assert_eq!(answer, Ok(refused_as(ApprovalState::Expired, None)));
}

#[tokio::test]
async fn apr_6_beginning_withdraws_every_other_open_request_for_the_call() {
    let bench = bench().await;
    let pending = bench.file(Some("k"), &[("manager", 1)]).await;
    let mut renamed = bench.filing(Some("k"), &[("manager", 1)]);
    renamed.input_hash = "before a default was added".into();
    let renamed = filed(bench.store.file(renamed).await);
    let mut other = bench.filing(Some("k"), &[("manager", 1)]);
    (other.input_hash, other.given_hash) = ("x".into(), "x".into());
    let other = filed(bench.store.file(other).await);
    let presented = bench.approved(None).await;
    assert_eq!(bench.store.begin(bench.with(&presented, Some("k"))).await, BEGUN);
    for (approval, state, by) in [
        (&pending, ApprovalState::Withdrawn, Some("superseded")),
        (&renamed, ApprovalState::Withdrawn, Some("superseded")),
        (&other, ApprovalState::Pending, None),
        (&presented, ApprovalState::Consumed, None),
    ] {
        let record = bench.store.approval(approval).await.unwrap().unwrap();
        assert_eq!((record.state, record.withdrawn_by.as_deref()), (state, by), "{approval}");
    }
    assert_eq!(count(&bench.trail().await, &"capability.approval_withdrawn".to_owned()), 2);
    bench.check().await;
}

#[tokio::test]
async fn apr_6_a_begin_that_presents_none_withdraws_too() {
    let bench = bench().await;
    let approved = bench.approved(Some("k")).await;
    assert_eq!(bench.store.begin(bench.begin(Some("k"))).await, BEGUN);
    assert_eq!(bench.store.approval(&approved).await.unwrap().unwrap().state, ApprovalState::Withdrawn);
}

#[tokio::test]
async fn idm_4_a_freed_key_runs_again_with_the_next_fence() {
    let bench = bench().await;
    for fence in 1..=3 {
        let begin = bench.begin(Some("k"));
        assert_eq!(bench.store.begin(begin.clone()).await, Ok(Began::Begun { fence }));
        assert_eq!(bench.store.finish(bench.finish(&begin, End::Free, "1")).await, APPLIED);
        assert_eq!(bench.store.holder("k").await, Ok(None));
        let refused = bench.store.begin(bench.with(&"apr_none".into(), Some("k"))).await;
        assert!(matches!(refused, Ok(Began::ApprovalRefused { .. })), "an unclaimed attempt does not reset the fence");
    }
    bench.check().await;
}

#[tokio::test]
async fn idm_4_a_holder_is_described_to_whoever_lost() {
    let bench = bench().await;
    let begin = bench.begin(Some("k"));
    bench.store.begin(begin.clone()).await.unwrap();
    let state = async || bench.store.holder("k").await.unwrap().map(|it| (it.execution, it.state, it.outcome));
    assert_eq!(state().await, Some((begin.execution.clone(), HolderState::Running, None)));
    bench.store.finish(bench.finish(&begin, End::Failed, "null")).await.unwrap();
    assert_eq!(state().await, Some((begin.execution.clone(), HolderState::Failed, Some("null".into()))));
    let holder = bench.store.holder("k").await.unwrap().unwrap();
    assert_eq!((holder.input_hash.as_str(), holder.given_hash.as_str()), ("h", "g"));
    let unknown = bench.begin(Some("u"));
    bench.store.begin(unknown.clone()).await.unwrap();
    bench.store.finish(bench.finish(&unknown, End::Unknown, "1")).await.unwrap();
    assert_eq!(bench.store.holder("u").await.unwrap().unwrap().state, HolderState::Unknown);
}

#[tokio::test]
async fn idm_6_a_settled_outcome_gives_way_after_its_time_and_an_unknown_one_never() {
    let bench = bench().await;
    for (key, end) in [("done", End::Completed), ("failed", End::Failed), ("unknown", End::Unknown)] {
        let begin = Begin { ttl_us: 10_000_000, ..bench.begin(Some(key)) };
        bench.store.begin(begin.clone()).await.unwrap();
        bench.store.finish(bench.finish(&begin, end, "1")).await.unwrap();
    }
    bench.pass(Duration::from_micros(10_000_000 - 1)).await;
    for key in ["done", "failed", "unknown"] {
        assert_eq!(bench.store.begin(bench.begin(Some(key))).await, Ok(Began::KeyTaken), "{key}");
    }
    bench.pass(Duration::from_micros(1)).await;
    assert_eq!(bench.store.holder("done").await, Ok(None));
    for (key, answer) in
        [("done", Began::Begun { fence: 2 }), ("failed", Began::Begun { fence: 2 }), ("unknown", Began::KeyTaken)]
    {
        assert_eq!(bench.store.begin(bench.begin(Some(key))).await, Ok(answer), "{key}");
    }
    assert_eq!(bench.number("SELECT COUNT(*) FROM execution WHERE outcome IS NOT NULL").await, 1, "old outcomes go");
    bench.check().await;
}

#[tokio::test]
async fn a_call_decided_under_another_policy_set_does_not_begin() {
    let one = bench().await;
    let other = one.another().await;
    let activate = |hash: &str, bench: &Bench| bench.activate(hash);
    let done = |generation, changed| Ok(Activated::Done { generation, changed });
    assert_eq!(one.store.activate(activate("p1", &one)).await, done(1, true));
    assert_eq!(other.store.activate(activate("p1", &other)).await, done(1, false));
    assert_eq!(other.store.activate(activate("p2", &other)).await, done(2, true));
    assert_eq!(one.store.generation(), 1, "it has not looked since");
    let begin = |generation, key: &str| Begin { generation, ..one.begin(Some(key)) };
    let mixed = at_once([
        call!(one, begin, begin(1, "a")),
        call!(one, begin, begin(2, "b")),
        call!(one, begin, begin(3, "c")),
        call!(one, begin, begin(2, "d")),
    ]);
    let changed = Ok(Began::PolicyChanged);
    assert_eq!(mixed.await, [changed.clone(), BEGUN, changed, BEGUN]);
    assert_eq!(one.store.generation(), 2);
    assert_eq!(one.store.holder("a").await, Ok(None));
    let seen = one.event(&one.ids.execution(), EventKind::Completed { duration_us: 1, attempts: 1 });
    assert_eq!(one.store.read_once(1, vec![seen.clone()], None).await, Ok(false));
    assert_eq!(one.store.read_once(2, vec![seen], None).await, Ok(true));
    let loaded: Vec<(String,)> =
        one.rows("SELECT body FROM audit_event WHERE type = 'policy.loaded' ORDER BY seq").await;
    assert!(!loaded[0].0.contains("previousHash") && loaded[1].0.contains(r#""previousHash":"p1""#), "{loaded:?}");
    assert_eq!(one.store.active().await.unwrap().unwrap().hash, "p2");
    one.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idm_4_contended_keys_are_held_by_one_and_fences_grow() {
    let one = bench().await;
    let other = one.another().await;
    let running: Arc<Vec<AtomicI64>> = Arc::new((0..6).map(|_| AtomicI64::new(0)).collect());
    let calls = (0..32_usize).map(|n| {
        let bench = if n % 2 == 0 { &one } else { &other };
        let begins: Vec<_> =
            (0..10).map(|i| ((n * 7 + i * 5) % 6, bench.begin(Some(&format!("k{}", (n * 7 + i * 5) % 6))))).collect();
        let begins: Vec<_> = begins.into_iter().map(|(k, it)| (k, bench.finish(&it, End::Free, "1"), it)).collect();
        let (store, running) = (bench.store.clone(), running.clone());
        async move {
            for (key, finish, begin) in begins {
                if store.begin(begin).await == Ok(Began::KeyTaken) {
                    continue;
                }
                assert_eq!(running[key].fetch_add(1, Ordering::SeqCst), 0, "two hold one key");
                tokio::task::yield_now().await;
                running[key].fetch_sub(1, Ordering::SeqCst);
                assert_eq!(store.finish(finish).await, APPLIED);
            }
        }
    });
    at_once(calls).await;
    let gaps = "SELECT COUNT(*) FROM (SELECT slot FROM execution GROUP BY slot HAVING MAX(fence) <> COUNT(*))";
    assert_eq!(one.number(gaps).await, 0);
    one.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r39_two_processes_write_one_gap_free_log() {
    let one = bench().await;
    let other = one.another().await;
    let calls = (0..32_usize).map(|n| {
        let bench = if n % 2 == 0 { &one } else { &other };
        let begins: Vec<_> = (0..50).map(|i| bench.begin(Some(&format!("{n}-{i}")))).collect();
        let calls: Vec<_> = begins.into_iter().map(|it| (bench.finish(&it, End::Completed, "1"), it)).collect();
        let store = bench.store.clone();
        async move {
            for (finish, begin) in calls {
                assert_eq!(store.begin(begin).await, BEGUN);
                assert_eq!(store.finish(finish).await, APPLIED);
            }
        }
    });
    at_once(calls).await;
    assert_eq!(one.number("SELECT COUNT(*) FROM audit_event").await, 32 * 50 * 3);
    one.check().await;
}
