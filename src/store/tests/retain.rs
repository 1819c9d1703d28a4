//! Retention: only what an archive has, a checkpoint covers and nobody needs leaves, from the beginning on.

use sqlx::{ConnectOptions as _, Executor as _};

use super::super::StoreError;
use super::super::op::{Detach, Detached, End, Export, Ledger, Need, Settled};
use super::super::outbox::Subscriber;
use super::{APPLIED, BEGUN, Bench, LEASE, bench, options};
use crate::audit::EventKind;
use crate::topic::Topic;

impl Bench {
    /// So many more events of nobody.
    async fn records(&self, count: usize) {
        let kind = || EventKind::AuthFailed { count: 1, reason: "unknown_key".into() };
        let event = || {
            let mut event = self.event(&self.ids.execution(), kind());
            event.envelope.execution_id = None;
            event
        };
        self.store.append((0..count).map(|_| event()).collect()).await.unwrap();
    }

    async fn signed(&self, size: i64) {
        self.store.ledger(Ledger::Checkpoint { size, note: format!("note of {size}") }).await.unwrap();
    }

    fn detaching(&self, after: i64, through: i64) -> Detach {
        let kind = EventKind::AuditDetached {
            after,
            archive: "a".into(),
            by: "cli:ada".into(),
            bytes: 1,
            digest: "sha256:d".into(),
            root: "r".into(),
            through,
        };
        let mut event = self.event(&self.ids.execution(), kind);
        event.envelope.execution_id = None;
        Detach { after, through, archive: "/a".into(), digest: "d".into(), event }
    }

    async fn first(&self) -> Option<i64> {
        self.store.log().first().await.unwrap()
    }

    /// Deletes all that may go, in portions of this size.
    async fn purged(&self, portion: i64) -> usize {
        let mut count = 0;
        loop {
            match self.store.purge(portion).await.unwrap() {
                0 => return count,
                gone => count += gone,
            }
        }
    }
}

fn needs(answer: Detached) -> Vec<(String, i64)> {
    let Detached::Needed(all) = answer else { panic!("{answer:?}") };
    all.into_iter().map(|Need { kind, seq, .. }| (kind, seq)).collect()
}

const LATE: Result<Option<Settled>, StoreError> = Ok(Some(Settled { applied: true, late: true }));

#[tokio::test]
async fn events_leave_from_the_beginning_and_tiles_of_them_as_a_whole() {
    let bench = bench().await;
    bench.records(600).await;
    bench.signed(300).await;
    bench.signed(550).await;
    assert_eq!(bench.purged(100).await, 0, "nothing was detached");
    assert_eq!(bench.store.detach(bench.detaching(0, 300)).await, Ok(Detached::Done));
    assert_eq!(bench.trail().await.last().unwrap(), "audit.detached");
    assert_eq!((bench.purged(100).await, bench.first().await), (256, Some(257)));
    for (after, through) in [(0, 550), (0, 300), (299, 550)] {
        assert_eq!(bench.store.detach(bench.detaching(after, through)).await, Ok(Detached::Overtaken));
    }
    assert_eq!(bench.store.detach(bench.detaching(300, 550)).await, Ok(Detached::Done));
    assert_eq!((bench.purged(1_000).await, bench.first().await), (256, Some(513)));
    let parts = bench.store.log().detachments().await.unwrap();
    let parts: Vec<_> = parts.iter().map(|it| (it.from, it.through, &*it.archive)).collect();
    assert_eq!(parts, [(1, 300, "/a"), (301, 550, "/a")]);
    let number = "SELECT COUNT(*) FROM audit_event WHERE seq > 512";
    assert_eq!(bench.number(number).await, 602 - 512, "no number is given twice, and none is left out");
}

#[tokio::test]
async fn without_a_checkpoint_of_just_that_size_nothing_leaves() {
    let bench = bench().await;
    bench.records(600).await;
    bench.signed(300).await;
    for (after, through) in [(0, 299), (0, 301), (0, 0), (0, -1)] {
        assert!(bench.store.detach(bench.detaching(after, through)).await.is_err(), "{through}");
    }
    assert_eq!((bench.purged(100).await, bench.store.log().detached().await), (0, Ok(0)));
    assert!(!bench.trail().await.contains(&"audit.detached".to_owned()), "no event without its being so");
}

#[tokio::test]
async fn the_database_itself_refuses_to_delete_anything_else() {
    let bench = bench().await;
    bench.records(600).await;
    bench.signed(300).await;
    bench.store.detach(bench.detaching(0, 300)).await.unwrap();
    let mut link = options(&bench.dir.path().join("store.db")).connect().await.unwrap();
    for text in [
        "DELETE FROM audit_event WHERE seq = 301",
        "DELETE FROM audit_event",
        "UPDATE audit_event SET body = '' WHERE seq = 1",
        "UPDATE detachment SET through = 600",
        "DELETE FROM detachment",
        "INSERT INTO detachment VALUES (600, 300, '', '', 0)",
        "INSERT INTO detachment VALUES (300, 0, '', '', 0)",
        "INSERT INTO detachment VALUES (200, 300, '', '', 0)",
    ] {
        assert!(link.execute(text).await.is_err(), "{text}");
    }
    assert_eq!(bench.number("SELECT COUNT(*) FROM audit_event").await, 601);
}

#[tokio::test]
async fn what_is_needed_stays_until_it_is_needed_no_more() {
    let bench = bench().await;
    let all = Subscriber { name: "all".into(), address: "all".into(), topics: Topic::ALL.to_vec(), tenants: vec![] };
    bench.store.subscribe(vec![all]).await.unwrap();
    bench.records(10).await;
    let begin = bench.begin(Some("k")); // 11, 12
    assert_eq!(bench.store.begin(begin.clone()).await, BEGUN);
    bench.file(None, &[("manager", 1)]).await; // 13
    let step = Export::Begin { name: "siem".into(), format: "ndjson", sink: "stdout".into(), seq: 5 };
    bench.store.export(step).await.unwrap();
    bench.records(587).await;
    bench.signed(600).await;
    let attempt = || bench.store.detach(bench.detaching(0, 600));
    let expected = [("export", 5), ("execution", 10), ("approval", 12), ("notification", 12)];
    assert_eq!(needs(attempt().await.unwrap()), expected.map(|(kind, seq)| (kind.to_owned(), seq)));
    let step = Export::Move { name: "siem".into(), from: 5, to: 600, sink: "stdout".into() };
    assert!(bench.store.export(step).await.unwrap());
    assert_eq!(bench.store.finish(bench.finish(&begin, End::Unknown, "1")).await, APPLIED);
    let held = needs(attempt().await.unwrap());
    assert_eq!(held.first(), Some(&("execution".to_owned(), 10)), "nobody knows how it ended");
    let settled = super::super::op::Reconcile {
        execution: begin.execution.clone(),
        slot: Some("k".into()),
        end: End::Completed,
        outcome: None,
        by: crate::audit::ReconciledBy::Operator,
        generation: None,
        events: vec![],
    };
    assert_eq!(bench.store.reconcile(settled).await, LATE);
    assert_eq!(needs(attempt().await.unwrap()).len(), 2);
    bench.pass(2 * LEASE + LEASE).await; // the request expires
    let held = needs(attempt().await.unwrap());
    assert_eq!(held.iter().map(|it| &*it.0).collect::<Vec<_>>(), ["notification"]);
    bench.store.subscribe(vec![]).await.unwrap();
    bench.store.drop_letters(super::super::outbox::Letters { id: None, webhook: None }, "cli:ada").await.unwrap();
    assert_eq!(attempt().await, Ok(Detached::Done));
}

#[tokio::test]
async fn a_lost_reply_or_a_lost_commit_detaches_once_and_says_so_once() {
    for lose in [false, true] {
        let bench = bench().await;
        bench.records(600).await;
        bench.signed(600).await;
        if lose {
            bench.probe.lose_commits(1);
        } else {
            bench.probe.lose_replies(1);
        }
        assert_eq!(bench.store.detach(bench.detaching(0, 600)).await, Ok(Detached::Done));
        assert_eq!(super::count(&bench.trail().await, &"audit.detached".to_owned()), 1);
        bench.probe.lose_replies(1);
        bench.purged(100).await;
        assert_eq!(bench.first().await, Some(513));
    }
}

#[tokio::test]
async fn of_two_that_detach_at_once_one_does() {
    let bench = bench().await;
    let other = bench.another().await;
    bench.records(600).await;
    bench.signed(300).await;
    bench.signed(600).await;
    let (one, two) =
        tokio::join!(bench.store.detach(bench.detaching(0, 300)), other.store.detach(other.detaching(0, 600)));
    let mut done = [one.unwrap(), two.unwrap()];
    done.sort_by_key(|it| *it == Detached::Done);
    assert_eq!(done, [Detached::Overtaken, Detached::Done]);
    assert_eq!(bench.first().await, Some(1), "nothing is deleted by detaching");
}
