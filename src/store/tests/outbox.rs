//! What others are told of is written with what it tells of, for whoever wants it, and goes when it was taken.

use std::time::Duration;

use super::super::job::Op;
use super::super::op::{Decided, End, Withdraw};
use super::super::outbox::{Backlog, Due, Fate, Laid, Letters, Outbox, Pick, Settlement, Subscriber};
use super::{APPLIED, BEGUN, Bench, LEASE, bench, decide, done};
use crate::approval::Verdict;
use crate::topic::Topic;

const MINUTE: Duration = Duration::from_mins(1);

fn webhook(name: &str, topics: &[Topic], tenants: &[&str]) -> Subscriber {
    let tenants = tenants.iter().map(|it| (*it).to_owned()).collect();
    Subscriber { name: name.into(), address: format!("{name} 1"), topics: topics.to_vec(), tenants }
}

fn everything(name: &str) -> Subscriber {
    webhook(name, &Topic::ALL, &[])
}

impl Bench {
    /// What waits, as `webhook topic attempts`, with `dead` and why for what does.
    async fn outbox(&self) -> Vec<String> {
        let text =
            "SELECT webhook || ' ' || topic || ' ' || attempts || CASE WHEN state = 'dead' THEN ' dead ' || failure
                    ELSE '' END FROM outbox o ORDER BY created_at, event, webhook";
        self.rows::<(String,)>(text).await.into_iter().map(|it| it.0).collect()
    }

    async fn due(&self, webhook: &str) -> Vec<Due> {
        self.store.due(webhook, 10, MINUTE).await.unwrap()
    }

    async fn settle(&self, due: &Due, webhook: &str, fate: Fate) {
        let settled = Settlement { id: due.id.clone(), webhook: webhook.into(), attempt: due.attempt, fate };
        self.store.settle(vec![settled]).await.unwrap();
    }

    async fn finished(&self, end: End) {
        let begin = self.begin(None);
        assert_eq!(self.store.begin(begin.clone()).await, BEGUN);
        assert_eq!(self.store.finish(self.finish(&begin, end, "1")).await, APPLIED);
    }
}

#[tokio::test]
async fn each_topic_is_told_to_who_wants_it_and_by_whatever_process() {
    let bench = bench().await;
    let quiet = bench.another().await;
    quiet.finished(End::Completed).await; // nobody wants to know
    let only = webhook("only", &[Topic::ExecutionUnknown], &[]);
    let foreign = webhook("foreign", &Topic::ALL, &["t2"]);
    bench.store.subscribe(vec![everything("all"), foreign, only]).await.unwrap();
    quiet.finished(End::Completed).await; // of a process that was not told of the subscription
    bench.finished(End::Unknown).await;
    let approval = bench.approved(None).await;
    let withdraw = Withdraw { approval, by: "requester", generation: None, events: vec![] };
    assert_eq!(bench.store.withdraw(withdraw).await, Ok(done("withdrawn")));
    let approval = bench.file(None, &[("manager", 2)]).await;
    let one = decide(&approval, "priya", "manager", Verdict::Approve);
    assert_eq!(bench.store.decide(one).await, Ok(done("pending"))); // one of two: nothing is decided
    let two = decide(&approval, "paul", "manager", Verdict::Reject);
    assert_eq!(bench.store.decide(two).await, Ok(done("rejected")));
    let mut told = bench.outbox().await;
    told.sort();
    assert_eq!(
        told,
        [
            "all approval.approved 0",
            "all approval.rejected 0",
            "all approval.requested 0",
            "all approval.requested 0",
            "all approval.withdrawn 0",
            "all execution.finished 0",
            "all execution.unknown 0",
            "only execution.unknown 0",
        ]
    );
    bench.check().await;
}

#[tokio::test]
async fn a_request_that_ends_soon_is_told_once_and_so_is_its_end() {
    let bench = bench().await;
    bench.store.subscribe(vec![webhook("w", &[Topic::ApprovalExpiring, Topic::ApprovalExpired], &[])]).await.unwrap();
    let approval = bench.file(None, &[("manager", 1)]).await; // lives a minute
    bench.pass(Duration::from_secs(40)).await;
    assert_eq!(bench.outbox().await, [""; 0], "more than a quarter of its life is left");
    bench.pass(Duration::from_secs(10)).await;
    assert_eq!(bench.outbox().await, ["w approval.expiring 0"]);
    let due = bench.due("w").await;
    assert_eq!((&*due[0].id, due[0].event.as_deref()), (&*format!("expiring_{approval}"), None));
    bench.settle(&due[0], "w", Fate::Gone).await;
    bench.pass(Duration::from_secs(5)).await;
    assert_eq!(bench.outbox().await, [""; 0], "once");
    bench.pass(Duration::from_secs(10)).await;
    assert_eq!(bench.outbox().await, ["w approval.expired 0"]);
}

#[tokio::test]
async fn what_is_due_is_for_one_process_until_it_is_settled_or_the_claim_lapses() {
    let bench = bench().await;
    let other = bench.another().await;
    bench.store.subscribe(vec![everything("w")]).await.unwrap();
    bench.finished(End::Completed).await;
    let first = bench.due("w").await;
    assert_eq!((first.len(), first[0].attempt), (1, 1));
    assert!(first[0].event.as_deref().unwrap().contains("capability.completed"));
    assert!(other.due("w").await.is_empty());
    // The process with the claim dies: another one takes it up.
    bench.clock.send_modify(|it| *it = it.plus(MINUTE));
    other.clock.send_modify(|it| *it = it.plus(MINUTE));
    let second = other.due("w").await;
    assert_eq!((&second[0].id, second[0].attempt), (&first[0].id, 2));
    // It was only slow: what it says of its attempt is of no account any more.
    bench.settle(&first[0], "w", Fate::Dead { why: "late".into() }).await;
    other.settle(&second[0], "w", Fate::Later { wait_us: 5_000_000, why: "status 500".into() }).await;
    assert_eq!(bench.outbox().await, ["w execution.finished 2"]);
    assert!(other.due("w").await.is_empty());
    other.clock.send_modify(|it| *it = it.plus(Duration::from_secs(5)));
    let third = other.due("w").await;
    other.settle(&third[0], "w", Fate::Gone).await;
    assert_eq!(bench.store.backlog().await.unwrap(), Backlog::default());
}

#[tokio::test]
async fn what_was_given_up_is_seen_and_tried_again_or_forgotten() {
    let bench = bench().await;
    bench.store.subscribe(vec![everything("a"), everything("b")]).await.unwrap();
    bench.finished(End::Completed).await;
    let dead = || Fate::Dead { why: "status 500".into() };
    for name in ["a", "b"] {
        let due = bench.due(name).await;
        bench.settle(&due[0], name, dead()).await;
    }
    assert_eq!(
        bench.outbox().await,
        ["a execution.finished 1 dead status 500", "b execution.finished 1 dead status 500"]
    );
    let backlog = bench.store.backlog().await.unwrap();
    assert_eq!((backlog.due, backlog.dead, backlog.oldest), (0, 2, None));
    let of = |webhook: &str| Letters { id: None, webhook: Some(webhook.into()) };
    assert_eq!(bench.store.revive(of("a"), "cli:ada").await, Ok(1));
    assert_eq!(bench.store.drop_letters(of("a"), "cli:ada").await, Ok(0), "it is due, not dead");
    assert_eq!(bench.store.drop_letters(Letters::default(), "cli:ada").await, Ok(1));
    assert_eq!(bench.outbox().await, ["a execution.finished 0"]);
    let due = bench.due("a").await;
    bench.settle(&due[0], "a", dead()).await;
    bench.pass(Duration::from_hours(1)).await;
    bench.clock.send_modify(|it| *it = it.plus(Duration::from_hours(30 * 24)));
    bench.store.tick().await.unwrap();
    assert_eq!(bench.outbox().await, [""; 0], "nobody asked for it in 30 days");
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_told_nothing_until_somebody_says_otherwise() {
    let bench = bench().await;
    bench.store.subscribe(vec![everything("w")]).await.unwrap();
    bench.finished(End::Completed).await;
    bench.finished(End::Completed).await;
    bench.store.disable_webhook("w").await.unwrap();
    bench.finished(End::Completed).await;
    let dead = "w execution.finished 0 dead gone";
    assert_eq!(bench.outbox().await, [dead, dead]);
    bench.store.subscribe(vec![everything("w")]).await.unwrap(); // a restart is no reason
    bench.finished(End::Completed).await;
    assert_eq!(bench.outbox().await, [dead, dead]);
    assert_eq!(bench.store.revive(Letters::default(), "cli:ada").await, Ok(2));
    bench.finished(End::Completed).await;
    assert_eq!(bench.outbox().await, ["w execution.finished 0"; 3]);
    bench.store.disable_webhook("w").await.unwrap();
    let moved = Subscriber { address: "w 2".into(), ..everything("w") };
    bench.store.subscribe(vec![moved]).await.unwrap();
    bench.finished(End::Completed).await;
    assert_eq!(
        bench.outbox().await.iter().filter(|it| !it.contains("dead")).count(),
        1,
        "another address is another receiver"
    );
    bench.store.subscribe(vec![]).await.unwrap();
    bench.finished(End::Completed).await;
    let outbox = bench.outbox().await;
    assert_eq!((outbox.len(), outbox.iter().filter(|it| it.ends_with("dead removed")).count()), (4, 1));
}

#[tokio::test]
async fn a_lost_commit_tells_nothing_twice_and_a_lost_reply_neither() {
    let bench = bench().await;
    bench.store.subscribe(vec![everything("w")]).await.unwrap();
    for lose in [crate::store::Probe::lose_commits, crate::store::Probe::lose_replies] {
        let begin = bench.begin(None);
        assert_eq!(bench.store.begin(begin.clone()).await, BEGUN);
        lose(&bench.probe, 1);
        assert_eq!(bench.store.finish(bench.finish(&begin, End::Completed, "1")).await, APPLIED);
    }
    assert_eq!(bench.outbox().await, ["w execution.finished 0"; 2]);
    bench.check().await;
}

#[tokio::test]
async fn nobody_who_listens_costs_a_commit_and_a_listener_no_more_than_a_statement() {
    let bench = bench().await;
    bench.finished(End::Completed).await;
    let before = bench.probe.commits();
    bench.finished(End::Completed).await;
    let quiet = bench.probe.commits() - before;
    bench.store.subscribe(vec![everything("w")]).await.unwrap();
    bench.finished(End::Completed).await; // learns of it
    let before = bench.probe.commits();
    bench.finished(End::Completed).await;
    assert_eq!((quiet, bench.probe.commits() - before), (2, 2));
}

#[tokio::test]
async fn apr_8_an_approved_request_is_taken_up_by_one_process_and_again_when_that_dies() {
    let bench = bench().await;
    let other = bench.another().await;
    let life = super::super::op::File { life_us: super::DAY_US, ..bench.filing(None, &[("manager", 1)]) };
    let approval = super::filed(bench.store.file(life).await);
    let of = |mark: &str| vec![Pick { capability: "orders.refund".into(), mark: mark.into() }];
    assert!(bench.store.pick(of("1"), 8, LEASE).await.unwrap().is_empty(), "it is pending");
    let decided = bench.store.decide(decide(&approval, "priya", "manager", Verdict::Approve)).await;
    assert_eq!(decided, Ok(Decided::Done { state: crate::ApprovalState::Approved }));
    let picked = bench.store.pick(of("1"), 8, LEASE).await.unwrap();
    assert_eq!((picked.len(), &picked[0].approval, picked[0].pick), (1, &approval, 1));
    assert!(other.store.pick(of("1"), 8, LEASE).await.unwrap().is_empty());
    other.clock.send_modify(|it| *it = it.plus(LEASE));
    let again = other.store.pick(of("1"), 8, LEASE).await.unwrap();
    assert_eq!((again.len(), again[0].pick), (1, 2));
    let laid = |pick, refused: Option<&str>| Laid {
        approval: approval.clone(),
        pick,
        wait_us: 1,
        refused_under: refused.map(Into::into),
    };
    other.store.lay_down(laid(1, None)).await.unwrap(); // of the first time, which is no more
    other.clock.send_modify(|it| *it = it.plus(Duration::from_secs(1)));
    assert!(other.store.pick(of("1"), 8, LEASE).await.unwrap().is_empty());
    other.store.lay_down(laid(2, Some("1"))).await.unwrap();
    other.clock.send_modify(|it| *it = it.plus(LEASE));
    assert!(other.store.pick(of("1"), 8, LEASE).await.unwrap().is_empty(), "refused for good");
    assert_eq!(other.store.pick(of("2"), 8, LEASE).await.unwrap().len(), 1, "under other policies");
}

#[tokio::test]
async fn a_request_that_a_call_waits_for_is_left_to_it_for_a_while() {
    let bench = bench().await;
    let approval = bench.file(None, &[("manager", 1)]).await;
    let laid = Laid { approval: approval.clone(), pick: 0, wait_us: 20_000_000, refused_under: None };
    bench.store.lay_down(laid).await.unwrap(); // before anybody decided
    let decided = bench.store.decide(decide(&approval, "priya", "manager", Verdict::Approve)).await;
    assert_eq!(decided, Ok(done("approved")));
    let of = vec![Pick { capability: "orders.refund".into(), mark: "1".into() }];
    assert!(bench.store.pick(of.clone(), 8, LEASE).await.unwrap().is_empty());
    bench.pass(Duration::from_secs(20)).await;
    assert_eq!(bench.store.pick(of, 8, LEASE).await.unwrap().len(), 1);
}

#[test]
fn what_no_database_may_be_given_is_refused_of_the_outbox_too() {
    let op = Op::Outbox(Outbox::Disable { webhook: "a\0b".into() });
    assert!(op.check().is_err());
}

#[tokio::test]
async fn a_receiver_with_a_hundred_thousand_due_gets_dead_letters_and_of_those_the_latest_are_kept() {
    let bench = bench().await;
    bench.store.subscribe(vec![everything("full"), everything("w")]).await.unwrap();
    bench
        .tampers(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 99999)
             INSERT INTO outbox (event, webhook, topic, tenant, created_at, state, attempts, next_at)
             SELECT 'due-' || i, 'full', 'execution.finished', 't1', i, 'due', 3, 0 FROM n",
        )
        .await;
    bench.finished(End::Completed).await;
    bench.finished(End::Completed).await;
    let new =
        "SELECT webhook || ' ' || state || ' ' || COALESCE(failure, '-') FROM outbox WHERE attempts = 0 ORDER BY 1";
    let new: Vec<String> = bench.rows::<(String,)>(new).await.into_iter().map(|it| it.0).collect();
    assert_eq!(new, ["full dead full", "full due -", "w due -", "w due -"], "the others' are none of its business");
    let backlog = bench.store.backlog().await.unwrap();
    assert_eq!((backlog.due, backlog.dead), (100_002, 1), "it is counted");
    bench
        .tampers("UPDATE outbox SET state = 'dead', created_at = 1800000000000000 + created_at WHERE attempts = 3")
        .await;
    bench
        .tampers(
            "UPDATE outbox SET created_at = 1800000000000000, state = 'dead' WHERE state = 'due' AND webhook = 'full'",
        )
        .await;
    bench.pass(Duration::from_secs(5)).await;
    let kept =
        bench.rows::<(i64, String)>("SELECT COUNT(*), MIN(COALESCE(failure, '-')) FROM outbox WHERE state = 'dead'");
    assert_eq!(kept.await, [(100_000, "-".to_owned())], "the oldest went, which was the one that found no room");
}
