//! An application that decides while the call waits: APR-4.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use countersign::{ApprovalHandler, ApprovalState, ApprovalView, ErrorCode, InlineDecision, Surface, Verdict};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::shop::{App, asked, cast, code, json_of, refund, refused, shop, signal};

/// Answers as it is told to, and keeps what it was asked.
#[derive(Clone, Default)]
struct Desk {
    answers: Arc<Mutex<Vec<Answer>>>,
    asked: Arc<Mutex<Vec<ApprovalView>>>,
    waiting: Arc<Semaphore2>,
}

#[derive(Clone, Copy)]
enum Answer {
    Says(&'static str, &'static str, Verdict),
    Nothing,
    Never,
}

/// A semaphore without permits, that has a default.
struct Semaphore2(Semaphore);

impl Default for Semaphore2 {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

impl Desk {
    fn answering(answers: impl IntoIterator<Item = Answer>) -> Self {
        let it = Self::default();
        it.answers.lock().unwrap().extend(answers);
        it
    }

    fn asked(&self) -> Vec<ApprovalView> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl ApprovalHandler for Desk {
    async fn ask(&self, request: &ApprovalView) -> Option<InlineDecision> {
        self.asked.lock().unwrap().push(request.clone());
        self.waiting.0.add_permits(1);
        let answer = {
            let mut answers = self.answers.lock().unwrap();
            if answers.is_empty() { Answer::Nothing } else { answers.remove(0) }
        };
        match answer {
            Answer::Says(name, kind, verdict) => {
                Some(InlineDecision { actor: cast(name), kind: kind.into(), verdict, comment: None })
            }
            Answer::Nothing => None,
            Answer::Never => std::future::pending().await,
        }
    }
}

async fn desk(answers: impl IntoIterator<Item = Answer>) -> (App, Desk) {
    let desk = Desk::answering(answers);
    (App::with(shop().approver(desk.clone())).await, desk)
}

#[tokio::test]
async fn apr_4_approved_inline_the_same_execution_goes_on() {
    let (app, desk) = desk([Answer::Says("priya", "manager", Verdict::Approve)]).await;
    let outcome = app.dana().invoke("orders.refund", refund("ord_1", 60_000)).await;
    assert_eq!(json_of(&outcome)["output"], json!({"approvers": ["priya"], "refundId": "ord_1-60000"}));
    insta::assert_snapshot!(app.lines().await, @r#"
    exe-1 capability.requested risk=high sideEffect=write
    exe-1 capability.approval_requested approvalId=apr-1 existing=false expiresAt=+3600s suspended=false
    exe-1 capability.approved approvalId=apr-1 by=user priya have=1 need=1 type=manager via=inline
    exe-1 capability.started approvalId=apr-1 keyed=false
    exe-1 capability.completed attempts=1
    "#);
    assert_eq!(desk.asked().len(), 1);
    assert_eq!(desk.asked()[0].status, ApprovalState::Pending);
    assert_eq!(desk.asked()[0].input, Some(refund("ord_1", 60_000)));
}

#[tokio::test]
async fn apr_4_every_outstanding_type_is_asked_for() {
    let answers = [("fay", "finance"), ("priya", "manager"), ("fred", "finance")];
    let (app, desk) = desk(answers.map(|(name, kind)| Answer::Says(name, kind, Verdict::Approve))).await;
    let outcome = app.dana().invoke("payouts.send", json!({"to": "x", "amountCents": 200_000})).await;
    assert_eq!(code(&outcome), "-");
    assert_eq!(desk.asked().iter().map(|it| it.decisions.len()).collect::<Vec<_>>(), [0, 1, 2]);
}

#[tokio::test]
async fn apr_4_rejected_inline_ends_the_call() {
    let (app, _) = desk([Answer::Says("priya", "manager", Verdict::Reject)]).await;
    let outcome = app.dana().invoke("orders.refund", refund("ord_1", 60_000)).await;
    assert_eq!(code(&outcome), "APPROVAL_REJECTED");
    insta::assert_snapshot!(app.lines().await, @r#"
    exe-1 capability.requested risk=high sideEffect=write
    exe-1 capability.approval_requested approvalId=apr-1 existing=false expiresAt=+3600s suspended=false
    exe-1 capability.rejected approvalId=apr-1 by=user priya have=0 need=1 type=manager via=inline
    exe-1 capability.failed attempts=0 code=APPROVAL_REJECTED executed=no retryable=false stage=approval
    "#);
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn apr_4_an_inline_answer_goes_through_the_same_checks() {
    for (name, kind) in [("dana", "manager"), ("crm", "manager"), ("fay", "manager"), ("stranger", "manager")] {
        let (app, _) = desk([Answer::Says(name, kind, Verdict::Approve)]).await;
        let outcome = app.dana().invoke("orders.refund", refund("ord_1", 60_000)).await;
        assert_eq!(code(&outcome), "?", "{name}"); // it suspends, and waits for somebody who may
        assert_eq!(app.runs(), 0);
        let trail = app.trail().await;
        assert!(trail.entries().iter().any(|it| it.kind == "management.denied"), "{name}: {trail}");
        app.approvals(cast("priya")).approve(&asked(&outcome), "manager").await.unwrap();
        assert_eq!(code(&app.dana().resume(asked(&outcome)).await), "-");
    }
}

#[tokio::test]
async fn apr_4_no_answer_within_fifty_seconds_suspends() {
    let (app, desk) = desk([Answer::Never]).await;
    let call = app.dana().invoke("orders.refund", refund("ord_1", 60_000)).start();
    signal(&desk.waiting.0).await;
    app.clock().advance(Duration::from_secs(50));
    let outcome = call.await;
    assert_eq!(code(&outcome), "?");
    insta::assert_snapshot!(app.lines().await, @r#"
    exe-1 capability.requested risk=high sideEffect=write
    exe-1 capability.approval_requested approvalId=apr-1 existing=false expiresAt=+3600s suspended=false
    exe-1 capability.approval_requested approvalId=apr-1 existing=true expiresAt=+3600s suspended=true
    "#);
    // A lapsed wait decided nothing (APR-11).
    let view = app.approvals(cast("priya")).show(&asked(&outcome)).await.unwrap();
    assert_eq!((view.status, view.decisions.len()), (ApprovalState::Pending, 0));
}

#[tokio::test]
async fn apr_4_a_decision_from_elsewhere_lets_the_waiting_call_go_on() {
    let (app, desk) = desk([Answer::Never]).await;
    let call = app.dana().invoke("orders.refund", refund("ord_1", 60_000)).start();
    signal(&desk.waiting.0).await;
    let id = desk.asked()[0].id.clone();
    app.approvals(cast("priya")).approve(&id, "manager").await.unwrap();
    app.clock().advance(Duration::from_secs(50));
    let outcome = call.await;
    assert_eq!(json_of(&outcome)["output"]["approvers"], json!(["priya"]));
    assert_eq!(code(&app.dana().resume(&id).await), "APPROVAL_CONSUMED");
}

#[tokio::test]
async fn apr_8_an_inline_approver_frees_only_the_call_that_asked() {
    let (app, desk) = desk([Answer::Nothing, Answer::Says("priya", "manager", Verdict::Approve)]).await;
    let http = app.over(Surface::Http, cast("dana"));
    let first = http.invoke("orders.refund", refund("ord_1", 60_000)).idempotency_key("k").await;
    let second = app.dana().invoke("orders.refund", refund("ord_1", 60_000)).idempotency_key("k").await;
    assert_eq!((code(&first), code(&second)), ("?", "?"));
    assert_eq!(asked(&second), asked(&first));
    assert_eq!((desk.asked().len(), app.runs()), (2, 0));
    assert_eq!(code(&app.dana().resume(asked(&first)).await), "APPROVAL_NOT_FOUND");
    assert_eq!(code(&http.resume(asked(&first)).await), "-");
}

#[tokio::test]
async fn cancelling_a_call_that_waits_for_its_approver_ends_it_and_spends_nothing() {
    let (app, desk) = desk([Answer::Never]).await;
    let call = app.dana().invoke("orders.refund", refund("ord_1", 60_000)).start();
    signal(&desk.waiting.0).await;
    call.cancel();
    assert_eq!(code(&call.await), "CANCELLED");
    insta::assert_snapshot!(app.lines().await, @r#"
    exe-1 capability.requested risk=high sideEffect=write
    exe-1 capability.approval_requested approvalId=apr-1 existing=false expiresAt=+3600s suspended=false
    exe-1 capability.cancelled code=CANCELLED executed=no
    "#);
    let id = desk.asked()[0].id.clone();
    assert_eq!(app.approvals(cast("priya")).approve(&id, "manager").await.unwrap().status, ApprovalState::Approved);
    assert_eq!(refused(app.approvals(cast("paul")).approve(&id, "manager").await), ErrorCode::ApprovalAlreadyDecided);
}
