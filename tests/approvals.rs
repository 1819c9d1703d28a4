//! Requests and decisions: APR-1 to APR-5.

use countersign::testing::Place;
use countersign::{Actor, ApprovalState, ApprovalView, Decided, ErrorCode, Identity, Party, Surface, Verdict};
use serde_json::json;

use crate::shop::{App, asked, cast, code, json_of, omar, refund, refused, shop};

fn payout(cents: u64) -> serde_json::Value {
    json!({"to": "acme", "amountCents": cents})
}

#[tokio::test]
async fn apr_1_a_request_and_its_event_are_one_commit() {
    let app = App::new().await;
    let before = app.commits();
    let outcome = app.dana().invoke("orders.refund", refund("ord_1", 60_000)).await;
    assert_eq!(app.commits() - before, 1);
    insta::assert_json_snapshot!(outcome, @r#"
    {
      "status": "approval_required",
      "executionId": "exe-1",
      "approval": {
        "id": "apr-1",
        "reasons": [
          "Refunds above $500 need a manager's approval."
        ],
        "types": [
          "manager"
        ],
        "expiresAt": "2026-01-01T01:00:00.000000Z",
        "inputHash": "sha256:eb054ce8a120d107abd6023a5cd66b801a3767dbc9acc7829058ab0684038b52"
      }
    }
    "#);
    insta::assert_snapshot!(app.lines().await, @r#"
    exe-1 capability.requested risk=high sideEffect=write
    exe-1 capability.approval_requested approvalId=apr-1 existing=false expiresAt=+3600s suspended=true
    "#);
    assert_eq!(app.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn apr_1_a_request_stores_all_that_a_decision_binds() {
    let app = App::new().await;
    let caller = app.over(Surface::Http, Identity::new(cast("dana").issuer("https://i.example")).client("bot"));
    let call = caller.invoke("orders.refund", refund("ord_1", 60_000)).idempotency_key("k1").correlation_id("talk-1");
    let id = asked(&call.await);
    let view = app.approvals(cast("priya")).show(&id).await.unwrap();
    insta::assert_json_snapshot!(view, @r#"
    {
      "id": "apr-1",
      "status": "pending",
      "capabilityId": "orders.refund",
      "sideEffect": "write",
      "risk": "high",
      "tenant": "default",
      "surface": "http",
      "requester": {
        "id": "dana",
        "issuer": "https://i.example",
        "kind": "user"
      },
      "client": "bot",
      "input": {
        "amountCents": 60000,
        "orderId": "ord_1"
      },
      "inputHash": "sha256:eb054ce8a120d107abd6023a5cd66b801a3767dbc9acc7829058ab0684038b52",
      "reasons": [
        "Refunds above $500 need a manager's approval."
      ],
      "requirements": [
        {
          "quorum": 1,
          "type": "manager"
        }
      ],
      "decisions": [],
      "requestedAt": "2026-01-01T00:00:00.000000Z",
      "expiresAt": "2026-01-01T01:00:00.000000Z"
    }
    "#);
    let trail = app.trail_of("exe-1").await;
    let binding = trail.entries().last().unwrap().data["bindingHash"].clone();
    assert!(binding.as_str().is_some_and(|it| it.len() > 40), "{binding}");
    // The hash binds: another input, another hash.
    let other = app.dana().invoke("orders.refund", refund("ord_2", 60_000)).await;
    let trail = app.trail_of(other.execution_id()).await;
    assert_ne!(trail.entries().last().unwrap().data["bindingHash"], binding);
}

#[tokio::test]
async fn apr_1_without_a_record_nobody_is_asked() {
    let app = App::new().await;
    app.break_store(true);
    let outcome = app.dana().invoke("orders.refund", refund("ord_1", 60_000)).await;
    assert_eq!(code(&outcome), "AUDIT_UNAVAILABLE");
    app.break_store(false);
    assert_eq!(app.approvals(cast("priya")).list(None).await.unwrap(), Vec::<ApprovalView>::new());
}

#[tokio::test]
async fn apr_2_a_decision_names_one_type_and_each_person_counts_for_one() {
    let app = App::new().await;
    let id = asked(&app.dana().invoke("payouts.send", payout(200_000)).await);
    let decide = async |name: &str, kind: &str| app.approvals(cast(name)).approve(&id, kind).await;
    let pending = || Decided { id: id.clone(), status: ApprovalState::Pending };
    assert_eq!(decide("fay", "finance").await.unwrap(), pending());
    // The same person, the same decision: the stored result, and it does not count twice.
    assert_eq!(decide("fay", "finance").await.unwrap(), pending());
    // Cedar is asked for the one type that is named.
    assert_eq!(refused(decide("fay", "manager").await), ErrorCode::ApproverNotEligible);
    assert_eq!(refused(decide("priya", "finance").await), ErrorCode::ApproverNotEligible);
    assert_eq!(decide("priya", "manager").await.unwrap(), pending());
    assert_eq!(code(&app.dana().resume(&id).await), "APPROVAL_PENDING");
    let done = Decided { id: id.clone(), status: ApprovalState::Approved };
    assert_eq!(decide("fred", "finance").await.unwrap(), done);
    assert_eq!(json_of(&app.dana().resume(&id).await)["output"], json!({"to": "acme: 200000"}));
    insta::assert_snapshot!(app.lines().await, @r#"
    exe-1 capability.requested risk=critical sideEffect=external
    exe-1 capability.approval_requested approvalId=apr-1 existing=false expiresAt=+7200s suspended=true
    exe-1 capability.approved approvalId=apr-1 by=user fay have=1 need=2 type=finance via=direct
    - management.denied action=approve approvalId=apr-1 code=APPROVER_NOT_ELIGIBLE
    - management.denied action=approve approvalId=apr-1 code=APPROVER_NOT_ELIGIBLE
    exe-1 capability.approved approvalId=apr-1 by=user priya have=1 need=1 type=manager via=direct
    exe-2 capability.requested approvalId=apr-1
    exe-2 capability.failed attempts=0 code=APPROVAL_PENDING executed=no retryable=true stage=approval
    exe-1 capability.approved approvalId=apr-1 by=user fred have=2 need=2 type=finance via=direct
    exe-3 capability.requested approvalId=apr-1 risk=critical sideEffect=external
    exe-3 capability.started approvalId=apr-1 keyed=false
    exe-3 capability.completed attempts=1
    "#);
}

#[tokio::test]
async fn apr_2_who_may_decide_two_types_counts_for_one_of_them() {
    let app = App::new().await;
    let id = asked(&app.dana().invoke("payouts.send", payout(200_000)).await);
    let both = || Actor::user("flo").role("finance").role("manager");
    assert_eq!(app.approvals(both()).approve(&id, "finance").await.unwrap().status, ApprovalState::Pending);
    assert_eq!(refused(app.approvals(both()).approve(&id, "manager").await), ErrorCode::ApprovalAlreadyDecided);
    // Nor under another spelling.
    let spelled = Actor::user(" FLO ").role("finance").role("manager");
    assert_eq!(refused(app.approvals(spelled).approve(&id, "manager").await), ErrorCode::ApprovalAlreadyDecided);
    let view = app.approvals(cast("fay")).show(&id).await.unwrap();
    assert_eq!(view.decisions.iter().map(|it| (&*it.approver.id, &*it.kind)).collect::<Vec<_>>(), [("flo", "finance")]);
}

#[tokio::test]
async fn apr_2_a_type_that_is_not_asked_for_is_invalid_input() {
    let app = App::new().await;
    let id = app.ask("ord_1").await;
    let error = app.approvals(cast("ada")).approve(&id, "finance").await.unwrap_err();
    insta::assert_json_snapshot!(error, @r#"
    {
      "code": "INPUT_INVALID",
      "message": "The input is not valid.",
      "retryable": false,
      "details": [
        {
          "path": "/type",
          "keyword": "enum",
          "nearest": "manager"
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn apr_2_one_rejection_is_final() {
    let app = App::new().await;
    let id = asked(&app.dana().invoke("payouts.send", payout(200_000)).await);
    app.approvals(cast("fay")).approve(&id, "finance").await.unwrap();
    let rejected = app.approvals(cast("priya")).reject(&id, "manager").await.unwrap();
    assert_eq!(rejected, Decided { id: id.clone(), status: ApprovalState::Rejected });
    assert_eq!(app.approvals(cast("priya")).reject(&id, "manager").await.unwrap(), rejected);
    assert_eq!(refused(app.approvals(cast("fred")).approve(&id, "finance").await), ErrorCode::ApprovalRejected);
    assert_eq!(refused(app.approvals(cast("priya")).approve(&id, "manager").await), ErrorCode::ApprovalRejected);
    assert_eq!(code(&app.dana().resume(&id).await), "APPROVAL_REJECTED");
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn apr_2_a_comment_is_salted_in_the_trail() {
    let app = App::new().await;
    let id = app.ask("ord_1").await;
    let decided = app.approvals(cast("priya")).decide(&id, "manager", Verdict::Approve, Some("canary-comment")).await;
    assert_eq!(decided.unwrap().status, ApprovalState::Approved);
    let trail = app.trail().await;
    assert_eq!(trail.entries().last().unwrap().data["comment"], "[salted]");
    assert!(!serde_json::to_string(&trail).unwrap().contains("canary-comment"));
    let long = "x".repeat(5_000);
    let other = app.ask("ord_2").await;
    let decided = app.approvals(cast("priya")).decide(&other, "manager", Verdict::Approve, Some(&long)).await;
    assert_eq!(refused(decided), ErrorCode::InputInvalid);
}

/// Spellings and relations of the requester `Owner@example.test`, who may approve by every policy.
fn the_same_person() -> Vec<Actor> {
    let user = |id: &str| Actor::user(id).role("manager").role("admin");
    let requester = Party { issuer: None, id: "Owner@example.test".into() };
    let mut on_behalf = user("assistant");
    on_behalf.chain = vec![requester];
    vec![
        user("Owner@example.test"),
        user("owner@example.test"),
        user("owner@example.test "),
        user("OWNER@EXAMPLE.TEST"),
        user("Owner@example.test").issuer("https://i.example"),
        on_behalf,
    ]
}

#[tokio::test]
async fn apr_3_never_the_requester_in_any_spelling_or_role() {
    let app = App::new().await;
    let owner = Actor::user("Owner@example.test").role("support").role("manager");
    let id = asked(&app.on_behalf_of(owner).invoke("orders.refund", refund("ord_1", 60_000)).await);
    for actor in the_same_person() {
        let name = format!("{actor:?}");
        let decision = app.approvals(actor.clone()).approve(&id, "manager").await;
        assert_eq!(refused(decision), ErrorCode::ApprovalSelfApproval, "{name}");
        let decision = app.approvals(actor).reject(&id, "manager").await;
        assert_eq!(refused(decision), ErrorCode::ApprovalSelfApproval, "{name}");
    }
    assert_eq!(app.approvals(cast("priya")).approve(&id, "manager").await.unwrap().status, ApprovalState::Approved);
    let trail = app.trail().await;
    let refusals = trail.entries().iter().filter(|it| it.kind == "management.denied").count();
    assert_eq!(refusals, 12); // each of them on record
}

#[tokio::test]
async fn apr_3_every_actor_of_the_requesters_chain_counts() {
    let app = App::new().await;
    let mut agent = Actor::service("crm").role("support");
    agent.chain = vec![Party { issuer: None, id: "priya".into() }];
    let id = asked(&app.on_behalf_of(agent).invoke("orders.refund", refund("ord_1", 60_000)).await);
    assert_eq!(refused(app.approvals(cast("priya")).approve(&id, "manager").await), ErrorCode::ApprovalSelfApproval);
    assert_eq!(app.approvals(cast("paul")).approve(&id, "manager").await.unwrap().status, ApprovalState::Approved);
}

#[tokio::test]
async fn apr_3_one_subject_of_two_issuers_is_two_people() {
    let app = App::new().await;
    let of = |issuer: &str| Actor::user("alice").issuer(issuer).role("support").role("manager");
    let id = asked(&app.on_behalf_of(of("https://a.example")).invoke("orders.refund", refund("o", 60_000)).await);
    let own = app.approvals(of("https://a.example")).approve(&id, "manager").await;
    assert_eq!(refused(own), ErrorCode::ApprovalSelfApproval);
    let other = app.approvals(of("https://b.example")).approve(&id, "manager").await;
    assert_eq!(other.unwrap().status, ApprovalState::Approved);
}

#[tokio::test]
async fn apr_4_people_decide_not_programs_and_not_on_anybodys_behalf() {
    let app = App::new().await;
    let id = app.ask("ord_1").await;
    let mut assisted = cast("priya");
    assisted.chain = vec![Party { issuer: None, id: "assistant".into() }];
    for actor in [Actor::service("robot").role("manager"), Actor::automation("job").role("manager"), assisted] {
        let name = actor.id.clone();
        let decision = app.approvals(actor).approve(&id, "manager").await;
        assert_eq!(refused(decision), ErrorCode::ApproverNotEligible, "{name}");
    }
    assert_eq!(refused(app.approvals(Identity::none()).approve(&id, "manager").await), ErrorCode::Unauthenticated);
    assert_eq!(app.approvals(cast("priya")).show(&id).await.unwrap().decisions, []);
}

#[tokio::test]
async fn deciding_conceals_from_those_who_may_neither_read_nor_decide() {
    let app = App::new().await;
    let id = app.ask("ord_1").await;
    let error = async |identity: Identity, id: &str| app.approvals(identity).approve(id, "manager").await.unwrap_err();
    let unknown = error(cast("priya").into(), "apr-99").await;
    assert_eq!(unknown.code, ErrorCode::ApprovalNotFound);
    assert_eq!(error(cast("stranger").into(), &id).await, unknown);
    assert_eq!(error(omar(), &id).await, unknown);
    assert_eq!(error(cast("priya").into(), "no/locator at all").await, unknown);
    // Whoever may read it is told that they may not decide it.
    assert_eq!(error(cast("aldo").into(), &id).await.code, ErrorCode::ApproverNotEligible);
    let seen = async |identity: Identity| app.approvals(identity).list(None).await.unwrap().len();
    assert_eq!(seen(cast("stranger").into()).await, 0);
    assert_eq!(seen(omar()).await, 0);
    assert_eq!(seen(cast("dana").into()).await, 1);
    assert_eq!(seen(cast("aldo").into()).await, 1);
    assert_eq!(app.approvals(Identity::none()).list(None).await.unwrap_err().code, ErrorCode::Unauthenticated);
    assert_eq!(app.approvals(cast("stranger")).show(&id).await.unwrap_err(), unknown);
}

#[tokio::test]
async fn apr_5_of_an_approval_and_a_rejection_at_once_the_first_wins() {
    let place = Place::new().unwrap();
    let (one, two) = (App::open(shop(), &place).await, App::open(shop(), &place).await);
    for round in 0..8 {
        let id = one.ask(&format!("ord_{round}")).await;
        let (priya, paul) = (one.approvals(cast("priya")), two.approvals(cast("paul")));
        let (approved, rejected) = tokio::join!(priya.approve(&id, "manager"), paul.reject(&id, "manager"));
        let state = one.approvals(cast("priya")).show(&id).await.unwrap().status;
        match (approved, rejected) {
            (Ok(_), Err(error)) => {
                assert_eq!((state, error.code), (ApprovalState::Approved, ErrorCode::ApprovalAlreadyDecided));
            }
            (Err(error), Ok(_)) => {
                assert_eq!((state, error.code), (ApprovalState::Rejected, ErrorCode::ApprovalRejected));
            }
            other => panic!("not exactly one decision: {other:?}"),
        }
        let view = one.approvals(cast("priya")).show(&id).await.unwrap();
        assert_eq!(view.decisions.len(), 1);
    }
}

#[tokio::test]
async fn withdrawing_is_for_the_requester_and_for_operators() {
    let app = App::new().await;
    let (mine, theirs) = (app.ask("ord_1").await, app.approved("ord_2").await);
    assert_eq!(refused(app.approvals(cast("stranger")).withdraw(&mine).await), ErrorCode::ApprovalNotFound);
    assert_eq!(refused(app.approvals(cast("priya")).withdraw(&mine).await), ErrorCode::ApproverNotEligible);
    assert_eq!(app.approvals(cast("dana")).withdraw(&mine).await.unwrap().status, ApprovalState::Withdrawn);
    assert_eq!(app.approvals(cast("olga")).withdraw(&theirs).await.unwrap().status, ApprovalState::Withdrawn);
    assert_eq!(code(&app.dana().resume(&theirs).await), "APPROVAL_WITHDRAWN");
    assert_eq!(refused(app.approvals(cast("priya")).approve(&mine, "manager").await), ErrorCode::ApprovalWithdrawn);
    insta::assert_snapshot!(app.lines().await, @r#"
    exe-1 capability.requested risk=high sideEffect=write
    exe-1 capability.approval_requested approvalId=apr-1 existing=false expiresAt=+3600s suspended=true
    exe-2 capability.requested risk=high sideEffect=write
    exe-2 capability.approval_requested approvalId=apr-2 existing=false expiresAt=+3600s suspended=true
    exe-2 capability.approved approvalId=apr-2 by=user priya have=1 need=1 type=manager via=direct
    - management.denied action=withdraw approvalId=apr-1 code=APPROVAL_NOT_FOUND
    - management.denied action=withdraw approvalId=apr-1 code=APPROVER_NOT_ELIGIBLE
    exe-1 capability.approval_withdrawn approvalId=apr-1 by=requester
    exe-2 capability.approval_withdrawn approvalId=apr-2 by=operator
    - management.done action=withdraw approvalId=apr-2
    exe-3 capability.requested approvalId=apr-2
    exe-3 capability.failed attempts=0 code=APPROVAL_WITHDRAWN executed=no retryable=false stage=approval
    - management.denied action=approve approvalId=apr-1 code=APPROVAL_WITHDRAWN
    "#);
}
