//! Filing, deciding, withdrawing, expiring.

use std::time::Duration;

use super::super::op::{Comment, Decided, Filed, Withdraw};
use super::{BEGUN, Bench, at_once, bench, call, count, decide, done, filed, refused};
use crate::ApprovalId;
use crate::approval::ApprovalState;
use crate::approval::Verdict::{Approve, Reject};

async fn state(bench: &Bench, approval: &ApprovalId) -> ApprovalState {
    bench.store.approval(approval).await.unwrap().unwrap().state
}

async fn decided(bench: &Bench, approval: &ApprovalId, person: &str, kind: &str, approve: bool) -> Decided {
    let verdict = if approve { Approve } else { Reject };
    bench.store.decide(decide(approval, person, kind, verdict)).await.unwrap()
}

#[tokio::test]
async fn apr_2_every_types_quorum_counts_distinct_people() {
    let bench = bench().await;
    let approval = bench.file(None, &[("manager", 2), ("legal", 1)]).await;
    assert_eq!(decided(&bench, &approval, "priya", "manager", true).await, done("pending"));
    assert_eq!(decided(&bench, &approval, "priya", "manager", true).await, done("pending"), "the stored result");
    assert_eq!(decided(&bench, &approval, "priya", "legal", true).await, refused("pending"), "one type a person");
    assert_eq!(decided(&bench, &approval, "priya", "manager", false).await, refused("pending"), "no second thoughts");
    assert_eq!(decided(&bench, &approval, "lee", "security", true).await, refused("pending"), "not asked for");
    assert_eq!(decided(&bench, &approval, "lee", "legal", true).await, done("pending"));
    assert_eq!(decided(&bench, &approval, "omar", "manager", true).await, done("approved"));
    assert_eq!(decided(&bench, &approval, "late", "manager", true).await, refused("approved"));
    assert_eq!(decided(&bench, &approval, "priya", "manager", true).await, done("approved"));
    let record = bench.store.approval(&approval).await.unwrap().unwrap();
    let people: Vec<_> = record.decisions.iter().map(|it| (it.approver.id.as_str(), it.kind.as_str())).collect();
    assert_eq!(people, [("priya", "manager"), ("lee", "legal"), ("omar", "manager")]);
    assert_eq!((record.approved_at, record.ended_at), (Some(bench.now()), None));
    let bodies: Vec<(String,)> =
        bench.rows("SELECT body FROM audit_event WHERE type = 'capability.approved' ORDER BY seq").await;
    let progress: Vec<_> = bodies
        .iter()
        .map(|it| {
            let event: serde_json::Value = serde_json::from_str(&it.0).unwrap();
            (
                event["data"]["type"].as_str().unwrap().to_owned(),
                event["data"]["have"].clone(),
                event["data"]["need"].clone(),
                event["actor"]["id"].clone(),
            )
        })
        .collect();
    insta::assert_snapshot!(serde_json::to_string(&progress).unwrap(), @r#"[["manager",1,2,"dana"],["legal",1,1,"dana"],["manager",2,2,"dana"]]"#);
    bench.check().await;
}

#[tokio::test]
async fn apr_3_one_person_under_a_verified_and_an_unverified_issuer_counts_once() {
    let bench = bench().await;
    let approval = bench.file(None, &[("manager", 2)]).await;
    assert_eq!(decided(&bench, &approval, "priya", "manager", true).await, done("pending"));
    let mut again = decide(&approval, "priya", "manager", Approve);
    again.person = r#"["https://i.example","priya"]"#.into();
    assert_eq!(bench.store.decide(again).await, Ok(done("pending")));
    assert_eq!(bench.store.approval(&approval).await.unwrap().unwrap().decisions.len(), 1);
}

#[tokio::test]
async fn apr_2_one_rejection_is_final() {
    let bench = bench().await;
    let approval = bench.file(None, &[("manager", 2)]).await;
    assert_eq!(decided(&bench, &approval, "priya", "manager", true).await, done("pending"));
    assert_eq!(decided(&bench, &approval, "omar", "manager", false).await, done("rejected"));
    assert_eq!(decided(&bench, &approval, "lee", "manager", true).await, refused("rejected"));
    assert_eq!(decided(&bench, &"apr_none".into(), "lee", "manager", true).await, Decided::Missing);
    let body: Vec<(String,)> = bench.rows("SELECT body FROM audit_event WHERE type = 'capability.rejected'").await;
    assert!(body[0].0.contains(r#""have":1,"need":2"#), "{body:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apr_5_approve_racing_reject_ends_one_way() {
    let one = bench().await;
    let other = one.another().await;
    for _ in 0..10 {
        let approval = one.file(None, &[("manager", 1)]).await;
        let calls = (0..12).map(|n| {
            let (bench, verdict) = if n % 2 == 0 { (&one, Approve) } else { (&other, Reject) };
            call!(bench, decide, decide(&approval, &format!("p{n}"), "manager", verdict))
        });
        let answers = at_once(calls).await;
        let winners = count(&answers, &Ok(done("approved"))) + count(&answers, &Ok(done("rejected")));
        assert_eq!(winners, 1, "{answers:?}");
        let end = state(&one, &approval).await;
        assert_eq!(count(&answers, &Ok(Decided::Refused { state: end })), 11, "{answers:?}");
    }
    one.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apr_5_votes_at_once_are_all_counted() {
    let one = bench().await;
    let other = one.another().await;
    let approval = one.file(None, &[("manager", 12)]).await;
    let calls = (0..12).map(|n| {
        let bench = if n % 2 == 0 { &one } else { &other };
        call!(bench, decide, decide(&approval, &format!("p{n}"), "manager", Approve))
    });
    let answers = at_once(calls).await;
    assert_eq!((count(&answers, &Ok(done("pending"))), count(&answers, &Ok(done("approved")))), (11, 1));
    assert_eq!(one.store.approval(&approval).await.unwrap().unwrap().decisions.len(), 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apr_9_one_open_request_for_a_key_and_hash_over_two_processes() {
    let one = bench().await;
    let other = one.another().await;
    let calls = (0..20).map(|n| {
        let bench = if n % 2 == 0 { &one } else { &other };
        call!(bench, file, bench.filing(Some("k"), &[("manager", 1)]))
    });
    let answers = at_once(calls).await;
    let fresh = answers.iter().filter(|it| matches!(it, Ok(Filed::Filed { existing: false, .. }))).count();
    assert_eq!(fresh, 1);
    let mut approvals: Vec<_> = answers.into_iter().map(filed).collect();
    approvals.dedup();
    assert_eq!(approvals.len(), 1);
    let keyless = at_once((0..3).map(|_| call!(one, file, one.filing(None, &[("manager", 1)])))).await;
    let mut keyless: Vec<_> = keyless.into_iter().map(filed).collect();
    keyless.sort();
    keyless.dedup();
    assert_eq!(keyless.len(), 3, "without a key every call is its own");
    assert_eq!(one.trail().await.len(), 23, "each filing is on record");
    one.check().await;
}

#[tokio::test]
async fn apr_9_the_event_of_a_repeated_filing_names_the_request_that_is_open() {
    let bench = bench().await;
    let first = bench.file(Some("k"), &[("manager", 1)]).await;
    bench.pass(Duration::from_secs(1)).await;
    let mut again = bench.filing(Some("k"), &[("manager", 1)]);
    again.binding_hash = "another".into();
    let Ok(Filed::Filed { approval, existing: true, expires_at }) = bench.store.file(again).await else { panic!() };
    assert_eq!(approval, first);
    let bodies: Vec<(String,)> = bench.rows("SELECT body FROM audit_event ORDER BY seq DESC LIMIT 1").await;
    let event: serde_json::Value = serde_json::from_str(&bodies[0].0).unwrap();
    assert_eq!(event["data"]["approvalId"], first.as_str());
    assert_eq!((&event["data"]["existing"], &event["data"]["bindingHash"]), (&true.into(), &"b".into()));
    assert_eq!(event["data"]["expiresAt"], expires_at.to_string());
}

#[tokio::test]
async fn apr_9_a_lapsed_request_makes_room_and_its_end_is_on_record() {
    let bench = bench().await;
    let old = bench.file(Some("k"), &[("manager", 1)]).await;
    bench.clock.send_modify(|it| *it = it.plus(Duration::from_mins(1)));
    assert_eq!(state(&bench, &old).await, ApprovalState::Expired, "whether or not a sweep came by");
    assert_eq!(decided(&bench, &old, "priya", "manager", true).await, refused("expired"));
    let new = bench.file(Some("k"), &[("manager", 1)]).await;
    assert_ne!(old, new);
    let expired = "SELECT COUNT(*) FROM audit_event WHERE type = 'capability.approval_expired'";
    assert_eq!(bench.number(expired).await, 1);
    bench.store.tick().await.unwrap();
    assert_eq!(bench.number(expired).await, 1, "once");
    let latest = bench.store.approval_of_call("k", "other", "g").await.unwrap().unwrap();
    assert_eq!(latest.id, new, "the latest, by either hash");
    assert!(bench.store.approval_of_call("k", "x", "x").await.unwrap().is_none());
    bench.check().await;
}

#[tokio::test]
async fn apr_11_the_sweep_ends_what_lapsed_approved_or_not() {
    let bench = bench().await;
    let approvals = [bench.file(None, &[("manager", 1)]).await, bench.approved(None).await];
    bench.pass(Duration::from_mins(1)).await;
    let stored: Vec<(String,)> = bench.rows("SELECT state FROM approval").await;
    assert_eq!(stored, [("expired".to_owned(),), ("expired".to_owned(),)]);
    assert_eq!(count(&bench.trail().await, &"capability.approval_expired".to_owned()), approvals.len());
    bench.check().await;
}

#[tokio::test]
async fn apr_7_a_new_request_withdraws_the_one_it_replaces() {
    let bench = bench().await;
    let old = bench.approved(Some("k")).await;
    let mut new = bench.filing(Some("k"), &[("manager", 1), ("legal", 1)]);
    new.supersedes = Some(old.clone());
    let again = new.clone();
    let new = filed(bench.store.file(new).await);
    let record = bench.store.approval(&old).await.unwrap().unwrap();
    assert_eq!((record.state, record.withdrawn_by.as_deref()), (ApprovalState::Withdrawn, Some("superseded")));
    assert_eq!(state(&bench, &new).await, ApprovalState::Pending);
    let before = bench.trail().await.len();
    let ended = Filed::SupersededEnded { state: ApprovalState::Withdrawn, consumed_by: None };
    assert_eq!(bench.store.file(again).await, Ok(ended));
    let spent = bench.approved(None).await;
    let begin = bench.with(&spent, None);
    assert_eq!(bench.store.begin(begin.clone()).await, BEGUN);
    let mut late = bench.filing(None, &[("manager", 1)]);
    late.supersedes = Some(spent);
    let ended = Filed::SupersededEnded { state: ApprovalState::Consumed, consumed_by: Some(begin.execution) };
    assert_eq!(bench.store.file(late).await, Ok(ended));
    assert_eq!(bench.trail().await.len(), before + 4, "nothing was filed");
    bench.check().await;
}

#[tokio::test]
async fn apr_11_a_hundred_may_wait_of_one_requester() {
    let bench = bench().await;
    let answers = at_once((0..130).map(|_| call!(bench, file, bench.filing(None, &[("manager", 1)])))).await;
    assert_eq!(count(&answers, &Ok(Filed::RateLimited)), 30);
    let first = answers.into_iter().map(filed_or_not).next().flatten().unwrap();
    assert_eq!(bench.store.file(bench.filing(None, &[("manager", 1)])).await, Ok(Filed::RateLimited));
    let mut other = bench.filing(None, &[("manager", 1)]);
    other.requester = "[null,\"eve\"]".into();
    filed(bench.store.file(other).await);
    let mut elsewhere = bench.filing(None, &[("manager", 1)]);
    elsewhere.tenant = "t2".into();
    filed(bench.store.file(elsewhere).await);
    let mut replacing = bench.filing(None, &[("manager", 1)]);
    replacing.supersedes = Some(first);
    let replacing = filed(bench.store.file(replacing).await);
    assert_eq!(decided(&bench, &replacing, "priya", "manager", true).await, done("approved"));
    filed(bench.store.file(bench.filing(None, &[("manager", 1)])).await);
    bench.clock.send_modify(|it| *it = it.plus(Duration::from_mins(1)));
    filed(bench.store.file(bench.filing(None, &[("manager", 1)])).await);
    bench.check().await;
}

fn filed_or_not(answer: Result<Filed, super::StoreError>) -> Option<ApprovalId> {
    if let Ok(Filed::Filed { approval, .. }) = answer { Some(approval) } else { None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apr_11_ten_thousand_may_wait_of_one_tenant() {
    let bench = bench().await;
    let calls = (0..10_003).map(|n| {
        let mut filing = bench.filing(None, &[("manager", 1)]);
        filing.requester = format!("r{}", n % 200);
        filing
    });
    let calls: Vec<_> = calls.collect();
    let mut refused = 0;
    for some in calls.chunks(4_000) {
        let answers = at_once(some.iter().cloned().map(|it| call!(bench, file, it))).await;
        refused += count(&answers, &Ok(Filed::RateLimited));
    }
    assert_eq!(refused, 3);
}

#[tokio::test]
async fn a_request_can_be_taken_back_while_it_is_open() {
    let bench = bench().await;
    let withdraw = |approval: &ApprovalId| Withdraw {
        approval: approval.clone(),
        by: "requester",
        generation: None,
        events: vec![],
    };
    let pending = bench.file(None, &[("manager", 1)]).await;
    let approved = bench.approved(None).await;
    assert_eq!(bench.store.withdraw(withdraw(&pending)).await, Ok(done("withdrawn")));
    assert_eq!(bench.store.withdraw(withdraw(&approved)).await, Ok(done("withdrawn")));
    assert_eq!(bench.store.withdraw(withdraw(&approved)).await, Ok(refused("withdrawn")));
    assert_eq!(bench.store.withdraw(withdraw(&"apr_none".into())).await, Ok(Decided::Missing));
    assert_eq!(decided(&bench, &pending, "priya", "manager", true).await, refused("withdrawn"));
    let record = bench.store.approval(&pending).await.unwrap().unwrap();
    assert_eq!((record.withdrawn_by.as_deref(), record.ended_at), (Some("requester"), Some(bench.now())));
    bench.check().await;
}

#[tokio::test]
async fn a_comments_text_is_beside_the_log_and_its_digest_in_it() {
    let bench = bench().await;
    let approval = bench.file(None, &[("manager", 1)]).await;
    let comment = Comment { text: "because".into(), salt: "salt".into(), digest: "sha256:d".into() };
    let decision = super::Decide { comment: Some(comment), ..decide(&approval, "priya", "manager", Approve) };
    assert_eq!(bench.store.decide(decision).await, Ok(done("approved")));
    let stored: Vec<(String, String)> = bench.rows("SELECT text, salt FROM comment").await;
    assert_eq!(stored, [("because".to_owned(), "salt".to_owned())]);
    let bodies: Vec<(String,)> = bench.rows("SELECT body FROM audit_event").await;
    assert!(bodies.iter().all(|it| !it.0.contains("because")) && bodies[1].0.contains("sha256:d"));
}

#[tokio::test]
async fn requests_are_listed_in_the_order_of_filing_page_by_page() {
    let bench = bench().await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(bench.file(None, &[("manager", 1)]).await);
    }
    decided(&bench, &all[1], "priya", "manager", true).await;
    let page = async |status, requester, after, limit| {
        let list = bench.store.approvals("t1", status, requester, after, limit).await.unwrap();
        assert!(list.iter().all(|it| it.input.is_none()), "inputs are large");
        list.into_iter().map(|it| it.id).collect::<Vec<_>>()
    };
    assert_eq!(page(None, None, None, 2).await, all[..2]);
    assert_eq!(page(None, None, Some(&all[1]), 10).await, all[2..]);
    assert_eq!(page(Some(ApprovalState::Approved), None, None, 10).await, all[1..2]);
    assert_eq!(page(None, Some("[null,\"eve\"]"), None, 10).await, []);
    bench.clock.send_modify(|it| *it = it.plus(Duration::from_mins(1)));
    assert_eq!(page(Some(ApprovalState::Expired), None, None, 10).await, all);
    assert_eq!(page(Some(ApprovalState::Pending), None, None, 10).await, []);
}
