//! Running what was approved: APR-6 to APR-8, APR-10.

use std::time::Duration;

use countersign::testing::Place;
use countersign::{
    Actor, ApprovalState, Capability, EngineBuilder, Filter, Identity, Invocation, Outcome, PolicySource, Risk,
    SideEffect, Surface,
};
use serde_json::{Value, json};

use crate::shop::{
    App, POLICIES, Shop, asked, cast, code, everything_but, json_of, omar, policies_with, refund, shop,
    shop_without_policies, texts,
};

/// The shop, with policies in a directory that a test rewrites.
struct Rewritable {
    app: App,
    directory: tempfile::TempDir,
}

impl Rewritable {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("shop.cedar"), POLICIES).unwrap();
        let source = PolicySource::Directory(directory.path().into());
        Self { app: App::with(shop_without_policies().policies(source)).await, directory }
    }

    async fn rewrite(&self, from: &str, to: &str) {
        assert!(POLICIES.contains(from));
        std::fs::write(self.directory.path().join("shop.cedar"), POLICIES.replace(from, to)).unwrap();
        assert!(self.app.engine().reload_policies().await.unwrap().changed);
    }
}

const GATE_OFF: (&str, &str) = ("context.input.amountCents > 50000", "context.input.amountCents > 400000");

async fn state(app: &App, id: &str) -> ApprovalState {
    app.approvals(cast("priya")).show(id).await.unwrap().status
}

#[tokio::test]
async fn apr_6_a_resumed_execution_spends_its_approval_though_nothing_requires_one_today() {
    let it = Rewritable::new().await;
    let id = it.app.approved("ord_1").await;
    it.rewrite(GATE_OFF.0, GATE_OFF.1).await;
    let outcome = it.app.dana().resume(&id).await;
    assert_eq!(json_of(&outcome)["output"]["approvers"], json!(["priya"]));
    assert_eq!(state(&it.app, &id).await, ApprovalState::Consumed);
    assert_eq!(code(&it.app.dana().resume(&id).await), "APPROVAL_CONSUMED");
    assert_eq!(it.app.runs(), 1);
}

#[tokio::test]
async fn apr_6_a_resume_never_runs_without_its_approval() {
    let it = Rewritable::new().await;
    let pending = it.app.ask("ord_1").await;
    it.rewrite(GATE_OFF.0, GATE_OFF.1).await;
    // Today the call would run at once; the resume of a pending approval does not.
    assert_eq!(code(&it.app.dana().resume(&pending).await), "APPROVAL_PENDING");
    assert_eq!(it.app.runs(), 0);
}

#[tokio::test]
async fn apr_6_beginning_a_call_withdraws_its_other_open_requests() {
    let it = Rewritable::new().await;
    let call = || it.app.dana().invoke("orders.refund", refund("ord_1", 60_000)).idempotency_key("k1");
    let open = asked(&call().await);
    it.rewrite(GATE_OFF.0, GATE_OFF.1).await;
    assert_eq!(code(&call().await), "-");
    assert_eq!(state(&it.app, &open).await, ApprovalState::Withdrawn);
    assert_eq!(code(&it.app.dana().resume(&open).await), "APPROVAL_WITHDRAWN");
    let trail = it.app.trail().await;
    let withdrawn = trail.entries().iter().find(|it| it.kind == "capability.approval_withdrawn").unwrap();
    assert_eq!(withdrawn.data, json!({"approvalId": open, "by": "superseded"}));
}

#[tokio::test]
async fn apr_7_today_s_policy_decides() {
    let it = Rewritable::new().await;
    let id = it.app.approved("ord_1").await;
    it.rewrite("context.input.amountCents >= 500000", "context.input.amountCents >= 60000").await;
    assert_eq!(code(&it.app.dana().resume(&id).await), "POLICY_DENIED");
    assert_eq!(state(&it.app, &id).await, ApprovalState::Approved); // unspent
    it.rewrite(GATE_OFF.0, GATE_OFF.0).await;
    assert_eq!(code(&it.app.dana().resume(&id).await), "-");
}

#[tokio::test]
async fn apr_7_a_gate_that_appeared_is_a_new_request_with_all_gates() {
    let it = Rewritable::new().await;
    let id = it.app.approved("ord_1").await;
    let gate = "@id(\"finance-too\") @approval(\"finance\") @reason(\"Finance, too.\")\n\
                forbid (principal, action == Action::\"orders.refund\", resource);\n\n@id(\"managers-approve\")";
    it.rewrite("@id(\"managers-approve\")", gate).await;
    let outcome = it.app.dana().resume(&id).await;
    let asked = outcome.approval().unwrap();
    assert_eq!(asked.types, ["finance", "manager"]);
    assert_eq!(asked.reasons, ["Finance, too.", "Refunds above $500 need a manager's approval."]);
    assert_eq!(state(&it.app, &id).await, ApprovalState::Withdrawn);
    insta::assert_snapshot!(it.app.trail_of(outcome.execution_id()).await, @r#"
    exe-2 capability.requested approvalId=apr-1 risk=high sideEffect=write
    exe-2 capability.approval_requested approvalId=apr-2 existing=false expiresAt=+3600s suspended=true
    "#);
    it.app.approvals(cast("priya")).approve(&asked.id, "manager").await.unwrap();
    it.app.approvals(cast("fay")).approve(&asked.id, "finance").await.unwrap();
    assert_eq!(code(&it.app.dana().resume(&asked.id).await), "-");
    assert_eq!(it.app.runs(), 1);
}

async fn never(_: Invocation<Shop>, _: Value) -> Result<Value, countersign::HandlerError> {
    Ok(json!({"gatewayRef": "x"}))
}

/// The shop after a deploy that changed what a refund is.
fn redeployed(risk: Risk, effect: SideEffect, properties: &Value) -> EngineBuilder<Shop> {
    let input = json!({"type": "object", "properties": properties, "required": ["orderId", "amountCents"], "additionalProperties": false});
    let output = json!({"type": "object", "properties": {"gatewayRef": {"type": "string"}}});
    let refund = Capability::builder("orders.refund", effect)
        .risk(risk)
        .description("Refund an order.")
        .expose([Surface::Direct, Surface::Http, Surface::Mcp])
        .redact_output(["/gatewayRef"])
        .json_handler(input, output, never);
    everything_but(&["orders.refund"]).capability(refund).policies(texts(POLICIES))
}

fn same_input() -> Value {
    json!({"orderId": {"type": "string"}, "amountCents": {"type": "integer"}})
}

#[tokio::test]
async fn apr_7_more_risk_or_another_effect_since_filing_is_a_new_request() {
    for (risk, effect, expected) in [
        (Risk::Critical, SideEffect::Write, "?"),
        (Risk::High, SideEffect::Destructive, "?"),
        (Risk::High, SideEffect::External, "?"),
        (Risk::High, SideEffect::Write, "-"),
        (Risk::Low, SideEffect::Write, "-"),
    ] {
        let place = Place::new().unwrap();
        let id = App::open(shop(), &place).await.approved("ord_1").await;
        let after = App::open(redeployed(risk, effect, &same_input()), &place).await;
        let outcome = after.dana().resume(&id).await;
        assert_eq!(code(&outcome), expected, "{risk:?} {effect:?}");
        let left = if expected == "?" { ApprovalState::Withdrawn } else { ApprovalState::Consumed };
        assert_eq!(state(&after, &id).await, left, "{risk:?} {effect:?}");
    }
}

#[tokio::test]
async fn apr_7_a_schema_that_changed_says_so_and_spends_nothing() {
    let place = Place::new().unwrap();
    let before = App::open(shop(), &place).await;
    let id = before.approved("ord_1").await;
    let tightened = json!({"orderId": {"type": "string"}, "amountCents": {"type": "integer", "maximum": 59_999}});
    let defaulted = json!({"orderId": {"type": "string"}, "amountCents": {"type": "integer"}, "note": {"default": "x", "type": "string"}});
    for properties in [tightened, defaulted] {
        let after = App::open(redeployed(Risk::High, SideEffect::Write, &properties), &place).await;
        let outcome = after.dana().resume(&id).await;
        let error = outcome.error().unwrap();
        assert_eq!((error.code.as_str(), error.details.len()), ("INPUT_INVALID", 0));
        assert_eq!(error.message, "The input schema changed since this was asked for. Ask again.");
        assert_eq!(state(&after, &id).await, ApprovalState::Approved);
        assert_eq!(after.runs(), 0);
    }
    before.engine().reload_policies().await.unwrap(); // the schema text is part of the active set
    assert_eq!(code(&before.dana().resume(&id).await), "-");
}

#[tokio::test]
async fn apr_8_only_the_requester_from_where_it_asked() {
    let app = App::new().await;
    let requester = || Identity::new(cast("dana").issuer("https://i.example")).client("bot").tenant("t1");
    let http = app.over(Surface::Http, requester());
    let id = asked(&http.invoke("orders.refund", refund("ord_1", 60_000)).await);
    app.approvals(Identity::new(cast("priya")).tenant("t1")).approve(&id, "manager").await.unwrap();
    let unknown = http.resume("apr-99").await;
    assert_eq!(code(&unknown), "APPROVAL_NOT_FOUND");
    let others = [
        (Surface::Http, Identity::new(cast("sam").issuer("https://i.example")).client("bot").tenant("t1")),
        (Surface::Http, Identity::new(cast("dana").issuer("https://other.example")).client("bot").tenant("t1")),
        (Surface::Http, Identity::new(cast("dana")).client("bot").tenant("t1")),
        (Surface::Http, Identity::new(cast("dana").issuer("https://i.example")).client("other").tenant("t1")),
        (Surface::Http, Identity::new(cast("dana").issuer("https://i.example")).tenant("t1")),
        (Surface::Http, Identity::new(cast("dana").issuer("https://i.example")).client("bot")),
        (Surface::Direct, requester()),
        (Surface::Http, omar()),
    ];
    for (surface, identity) in others {
        let outcome = app.over(surface, identity.clone()).resume(&id).await;
        assert_eq!(outcome.error(), unknown.error(), "{surface:?} {identity:?}");
    }
    assert_eq!(app.runs(), 0);
    assert_eq!(code(&app.over(Surface::Http, requester()).resume(&id).await), "-");
}

#[tokio::test]
async fn apr_8_with_today_s_attributes() {
    let app = App::new().await;
    let id = app.approved("ord_1").await;
    let without_role = app.on_behalf_of(Actor::user("dana"));
    assert_eq!(code(&without_role.resume(&id).await), "POLICY_DENIED");
    assert_eq!(state(&app, &id).await, ApprovalState::Approved);
    assert_eq!(code(&app.dana().resume(&id).await), "-");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apr_10_of_twenty_resumes_over_two_processes_one_runs() {
    let place = Place::new().unwrap();
    let (one, two) = (App::open(shop(), &place).await, App::open(shop(), &place).await);
    let id = one.approved("ord_1").await;
    let running: Vec<_> = (0..20).map(|it| if it % 2 == 0 { &one } else { &two }.dana().resume(&id)).collect();
    let running: Vec<_> = running.into_iter().map(tokio::spawn).collect();
    let mut outcomes = Vec::new();
    for it in running {
        outcomes.push(it.await.unwrap());
    }
    let winner: Vec<_> = outcomes.iter().filter(|it| code(it) == "-").collect();
    assert_eq!(winner.len(), 1, "{outcomes:?}");
    let consumed = json!({"code": "APPROVAL_CONSUMED", "message": "The approval was used already.", "retryable": false,
        "details": [{"executionId": winner[0].execution_id()}]});
    for loser in outcomes.iter().filter(|it| code(it) != "-") {
        assert_eq!(json_of(loser)["error"], consumed);
    }
    assert_eq!(one.runs() + two.runs(), 1);
}

#[tokio::test]
async fn a_resume_has_an_execution_of_its_own_and_the_same_input() {
    let app = App::new().await;
    let id = asked(&app.dana().invoke("orders.refund", refund("ord_1", 60_000)).idempotency_key("k").await);
    app.approvals(cast("priya")).approve(&id, "manager").await.unwrap();
    let outcome = app.dana().resume(&id).await;
    insta::assert_json_snapshot!(json_of(&outcome), @r#"
    {
      "status": "completed",
      "executionId": "exe-2",
      "output": {
        "refundId": "ord_1-60000",
        "approvers": [
          "priya"
        ]
      },
      "replayed": false
    }
    "#);
    insta::assert_snapshot!(app.lines().await, @r#"
    exe-1 capability.requested risk=high sideEffect=write
    exe-1 capability.approval_requested approvalId=apr-1 existing=false expiresAt=+3600s suspended=true
    exe-1 capability.approved approvalId=apr-1 by=user priya have=1 need=1 type=manager via=direct
    exe-2 capability.requested approvalId=apr-1 risk=high sideEffect=write
    exe-2 capability.started approvalId=apr-1 keyed=true
    exe-2 capability.completed attempts=1
    "#);
    let trail = app.trail().await.without_policies();
    let hashes: Vec<_> = trail.entries().iter().filter_map(|it| it.input_hash.clone()).collect();
    assert!(!hashes.is_empty() && hashes.iter().all(|it| *it == hashes[0]), "{hashes:?}");
    // The stored key goes with it: the first call is answered from the resumed run.
    let again = app.dana().invoke("orders.refund", refund("ord_1", 60_000)).idempotency_key("k").await;
    assert!(matches!(again, Outcome::Completed { replayed: true, .. }));
}

#[tokio::test]
async fn an_approval_is_unspent_whatever_ends_a_resume_before_it_begins() {
    let app = App::new().await;
    let id = app.approved("ord_1").await;
    app.fail_contexts(true);
    let outcome = app.dana().resume(&id).await;
    assert_eq!((code(&outcome), outcome.error().unwrap().retryable), ("EXECUTION_FAILED", true));
    app.fail_contexts(false);
    app.break_store(true);
    assert_eq!(code(&app.dana().resume(&id).await), "AUDIT_UNAVAILABLE");
    app.break_store(false);
    assert_eq!(state(&app, &id).await, ApprovalState::Approved);
    assert_eq!(code(&app.dana().resume(&id).await), "-");
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_resume_without_an_actor_is_unauthenticated_whatever_it_names() {
    let app = App::new().await;
    let id = app.approved("ord_1").await;
    let nobody = app.on_behalf_of(Identity::none());
    for id in [&*id, "apr-99", "no locator"] {
        assert_eq!(code(&nobody.resume(id).await), "UNAUTHENTICATED");
    }
    assert_eq!(nobody.capabilities(Filter::all()).await.unwrap_err().code.as_str(), "UNAUTHENTICATED");
    app.clock().advance(Duration::from_secs(1));
}

#[tokio::test]
async fn an_idempotent_write_that_was_approved_is_not_free_after_a_timeout() {
    let gated = "@id(\"acts-need-a-manager\") @approval(\"manager\") forbid (principal, action == Action::\"act.again\", resource);\n\n@id(\"managers-approve\")";
    let builder = shop_without_policies().policies(policies_with("@id(\"managers-approve\")", gated));
    let app = App::with(builder).await;
    let id = asked(&app.dana().invoke("act.again", json!({"do": "hang"})).idempotency_key("k").await);
    app.approvals(cast("priya")).approve(&id, "manager").await.unwrap();
    let call = app.dana().resume(&id);
    let (outcome, ()) = tokio::join!(call, app.expire());
    assert_eq!((code(&outcome), outcome.error().unwrap().retryable), ("TIMEOUT", false));
    let again = app.dana().invoke("act.again", json!({"do": "hang"})).idempotency_key("k").await;
    assert_eq!(code(&again), "OUTCOME_UNKNOWN");
}
