//! What policies saw: stored with what came of it, sealed for its row, erased in time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::{BEGUN, Bench, at_once, bench, call, filed};
use crate::actor::{Actor, Identity};
use crate::audit::EventKind;
use crate::clock::Timestamp;
use crate::seen::{Facts, Said};
use crate::store::op::{Began, Begin, File, Filed, Seen, SeenRecord};
use crate::{ExecutionId, id::Ids};

fn facts(marker: &str) -> Facts {
    Facts {
        identity: Identity::new(Actor::user("dana")),
        now: Timestamp(0),
        input: Arc::new(json!({"marker": marker, "exact": 9_007_199_254_740_993_i64})),
        covers: None,
        entities: Vec::new(),
        outcome: Said::Allow,
        policies: Vec::new(),
        errors: Vec::new(),
    }
}

impl Bench {
    fn seen(&self, execution: &ExecutionId, marker: &str) -> Seen {
        Seen {
            execution: execution.clone(),
            place: 0,
            tenant: "t1".into(),
            capability: "orders.refund".into(),
            policy_hash: "p1".into(),
            decided_at: self.now(),
            facts: facts(marker).text().unwrap(),
        }
    }

    fn seeing(&self, slot: Option<&str>, marker: &str) -> Begin {
        let begin = self.begin(slot);
        Begin { seen: Some(self.seen(&begin.execution, marker)), ..begin }
    }

    async fn all(&self) -> Vec<SeenRecord> {
        self.store.decision_records(Timestamp(0), None, 100).await.unwrap()
    }

    async fn markers(&self) -> Vec<String> {
        let text = |it: &SeenRecord| match &it.facts {
            Ok(facts) => facts.input["marker"].as_str().unwrap().to_owned(),
            Err(_) => "sealed".to_owned(),
        };
        let mut all: Vec<String> = self.all().await.iter().map(text).collect();
        all.sort();
        all
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_of_one_batch_keep_what_each_decision_saw() {
    let bench = bench().await;
    let begun = at_once((0..20).map(|it| call!(bench, begin, bench.seeing(None, &format!("begin-{it:02}")))));
    assert!(begun.await.iter().all(|it| *it == BEGUN));
    let filing = bench.filing(None, &[("manager", 1)]);
    let filing = File { seen: Some(bench.seen(&filing.execution, "file")), ..filing };
    filed(bench.store.file(filing).await);
    for marker in ["refusal", "read"] {
        let execution = Ids::Random.execution();
        let event = bench.event(&execution, EventKind::Completed { duration_us: 1, attempts: 1 });
        let seen = Some(bench.seen(&execution, marker));
        match marker {
            "read" => assert_eq!(bench.store.read_once(0, vec![event], seen).await, Ok(true)),
            _ => assert_eq!(bench.store.append_decided(vec![event], seen).await, Ok(())),
        }
    }
    let mut expected: Vec<String> = (0..20).map(|it| format!("begin-{it:02}")).collect();
    expected.extend(["file", "read", "refusal"].map(str::to_owned));
    assert_eq!(bench.markers().await, expected);
    let one = bench.all().await.pop().unwrap();
    assert_eq!((&*one.tenant, &*one.capability, &*one.policy_hash), ("t1", "orders.refund", "p1"));
    assert_eq!(one.facts.unwrap().input["exact"], 9_007_199_254_740_993_i64);
    bench.check().await;
}

#[tokio::test]
async fn what_led_nowhere_leaves_nothing_and_a_lost_commit_or_reply_no_second_one() {
    let bench = bench().await;
    assert_eq!(bench.store.begin(bench.seeing(Some("k"), "first")).await, BEGUN);
    assert_eq!(bench.store.begin(bench.seeing(Some("k"), "loser")).await, Ok(Began::KeyTaken));
    let stale = Begin { generation: 7, ..bench.seeing(None, "stale") };
    assert_eq!(bench.store.begin(stale).await, Ok(Began::PolicyChanged));
    for at in 0..100 {
        filed(bench.store.file(bench.filing(Some(&format!("f{at}")), &[("manager", 1)])).await);
    }
    let filing = bench.filing(Some("one-more"), &[("manager", 1)]);
    let filing = File { seen: Some(bench.seen(&filing.execution, "limited")), ..filing };
    assert_eq!(bench.store.file(filing).await, Ok(Filed::RateLimited));
    bench.probe.lose_commits(1);
    assert_eq!(bench.store.begin(bench.seeing(None, "lost-commit")).await, BEGUN);
    bench.probe.lose_replies(1);
    assert_eq!(bench.store.begin(bench.seeing(None, "lost-reply")).await, BEGUN);
    assert_eq!(bench.markers().await, ["first", "lost-commit", "lost-reply"]);
}

#[tokio::test]
async fn they_are_read_in_the_order_of_time_page_by_page() {
    let bench = bench().await;
    let start = bench.now();
    for at in 0..5 {
        assert_eq!(bench.store.begin(bench.seeing(None, &format!("{at}"))).await, BEGUN);
        bench.pass(Duration::from_secs(u64::from(at % 2 == 1))).await; // two of them share an instant
    }
    let (mut after, mut sizes, mut found) = (None, Vec::new(), Vec::new());
    loop {
        let mut page = bench.store.decision_records(start, after.as_ref(), 2).await.unwrap();
        sizes.push(page.len());
        found.extend(page.iter().map(|it| it.facts.as_ref().unwrap().input["marker"].clone()));
        let Some(last) = page.pop() else { break };
        after = Some(last);
    }
    found.sort_by_key(ToString::to_string);
    assert_eq!((sizes, found), (vec![2, 2, 1, 0], ["0", "1", "2", "3", "4"].map(Into::into).to_vec()));
    let since = start.plus(Duration::from_secs(1));
    assert_eq!(bench.store.decision_records(since, None, 100).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_sealed_decision_opens_in_its_own_row_only() {
    let bench = bench().await;
    let (one, two) = (bench.seeing(None, "one"), bench.seeing(None, "two"));
    let input = bench.store.seal(&one.execution, facts("moved").text().unwrap().as_bytes());
    for begin in [Begin { input, ..one }, two] {
        assert_eq!(bench.store.begin(begin).await, BEGUN);
    }
    for moved in [
        "UPDATE decision_record SET sealed = (SELECT o.sealed FROM decision_record o WHERE o.rowid = 2) WHERE rowid = 1
         RETURNING place",
        "UPDATE decision_record SET sealed = (SELECT e.input FROM execution e WHERE e.id = execution_id) WHERE rowid = 1
         RETURNING place",
        "UPDATE decision_record SET place = 1 WHERE rowid = 2 RETURNING place",
    ] {
        bench.number(moved).await;
        assert!(bench.markers().await.contains(&"sealed".to_owned()), "{moved}");
    }
    assert_eq!(bench.markers().await, ["sealed", "sealed"]);
}

#[tokio::test]
async fn the_sweep_erases_them_when_their_time_is_over() {
    let bench = bench().await; // keeps them for a day
    assert_eq!(bench.store.begin(bench.seeing(None, "old")).await, BEGUN);
    bench.pass(Duration::from_mins(1)).await;
    assert_eq!(bench.store.begin(bench.seeing(None, "new")).await, BEGUN);
    let almost = bench.now().plus(Duration::from_hours(24)).plus(Duration::from_secs(1)).0 - 60_000_000;
    bench.clock.send_replace(Timestamp(almost - 2_000_000));
    bench.store.tick().await.unwrap();
    assert_eq!(bench.markers().await, ["new", "old"]);
    bench.clock.send_replace(Timestamp(almost));
    bench.store.tick().await.unwrap();
    assert_eq!(bench.markers().await, ["new"]);
}
