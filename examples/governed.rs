//! How an application tests its governance: who may do what, what waits for whom, what is on record, and that none of it
//! changes by accident. `cargo test --example governed`
//!
//! The application exports its builder ([`shop`]); the kit builds the real engine over it, on a database of its own.

use countersign::testing::drift;
use countersign::{Capability, Engine, EngineBuilder, HandlerError, Invocation, PolicySource, Risk, Surface};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Refund {
    /// The order, as the customer sees it.
    order_id: String,
    /// In cents; at most what was paid.
    amount_cents: u32,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Refunded {
    refund_id: String,
    gateway_ref: String,
}

async fn refund(_: Invocation, input: Refund) -> Result<Refunded, HandlerError> {
    let refund_id = format!("ref_{}_{}", input.order_id, input.amount_cents);
    Ok(Refunded { refund_id, gateway_ref: "gateway-4711-8842".into() })
}

const POLICIES: &str = r#"
    @id("support-may-refund")
    permit (principal in Role::"support", action == Action::"orders.refund", resource);

    @id("refunds-over-500-need-a-manager")
    @approval("manager")
    forbid (principal, action == Action::"orders.refund", resource)
    when { context.input.amountCents > 50000 };

    @id("managers-approve")
    permit (principal in Role::"manager", action == Countersign::Action::"approve", resource)
    when { context.requirement == "manager" };
"#;

/// The application: everything but a database.
fn shop() -> EngineBuilder {
    let refund = Capability::write("orders.refund")
        .risk(Risk::High)
        .description("Refund an order, fully or in part.")
        .expose([Surface::Direct, Surface::Http])
        .redact_output(["/gatewayRef"])
        .handler(refund);
    Engine::builder().capability(refund).policies(PolicySource::Files(vec![("shop.cedar".into(), POLICIES.into())]))
}

/// What was agreed to. `cargo run --example governed write` writes it anew, when a change is meant.
const SNAPSHOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/governed.json");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let written = std::env::args().any(|it| it == "write");
    if written {
        drift::write(&shop(), SNAPSHOT)?;
    } else {
        drift::check(&shop(), SNAPSHOT)?;
    }
    println!("{SNAPSHOT} {}", if written { "is written" } else { "is what was agreed to" });
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use countersign::testing::{TestApp, TestApprover};
    use countersign::{Actor, ErrorCode};
    use serde_json::json;

    use super::*;

    async fn app() -> TestApp<()> {
        TestApp::new(shop(), |_| ()).await.unwrap()
    }

    fn dana() -> Actor {
        Actor::user("dana").role("support")
    }

    fn priya() -> Actor {
        Actor::user("priya").role("manager")
    }

    /// Exposure: who sees what, from where.
    #[tokio::test]
    async fn only_support_sees_refunds_and_nobody_over_mcp() {
        let app = app().await;
        app.assert_exposed(Surface::Http, dana(), &["orders.refund"]).await;
        app.assert_exposed(Surface::Mcp, dana(), &[]).await;
        app.assert_exposed(Surface::Http, Actor::user("eve"), &[]).await;
    }

    /// Gates and effects: what waits for whom, and that nothing happens before.
    #[tokio::test]
    async fn a_large_refund_waits_for_a_manager_and_then_runs_once() {
        let app = app().await;
        let large = json!({"orderId": "ord_42", "amountCents": 64_900});
        let waits = app.on_behalf_of(dana()).invoke("orders.refund", large).await;
        app.assert_needs(&waits, &["manager"]).await;
        app.assert_effects(&[]).await;

        let approval = waits.approval().unwrap().id.clone();
        app.clock().advance(Duration::from_mins(5));
        app.approvals(priya()).approve(&approval, "manager").await.unwrap();
        let ran = app.on_behalf_of(dana()).resume(&approval).await;
        app.assert_output(&ran, &json!({"refundId": "ref_ord_42_64900"})).await;
        app.assert_effects(&["orders.refund #1"]).await;

        // The whole trail: ids are counted, times count from the test's start. Nothing is redacted by hand.
        insta::assert_snapshot!(app.trail().await.without_policies(), @r#"
        exe-1 capability.requested risk=high sideEffect=write
        exe-1 capability.approval_requested approvalId=apr-1 existing=false expiresAt=+86400s suspended=true
        exe-1 capability.approved approvalId=apr-1 by=user priya have=1 need=1 type=manager via=direct
        exe-2 capability.requested approvalId=apr-1 risk=high sideEffect=write
        exe-2 capability.started approvalId=apr-1 keyed=false
        exe-2 capability.completed attempts=1
        "#);
    }

    /// Outcomes: what a failing procedure looks like from outside, with another handler in its place.
    #[tokio::test]
    async fn a_gateway_that_is_down_is_a_plain_failure() {
        let app = app().await;
        app.override_handler("orders.refund", |_, _: Refund| async {
            Err::<Refunded, _>(HandlerError::other("the gateway of Musterbank is down"))
        });
        let failed =
            app.on_behalf_of(dana()).invoke("orders.refund", json!({"orderId": "ord_1", "amountCents": 1})).await;
        app.assert_refused(&failed, ErrorCode::ExecutionFailed).await;
        app.assert_nowhere("Musterbank", &[&failed]).await;
    }

    /// Redaction: what never leaves is nowhere.
    #[tokio::test]
    async fn the_gateways_reference_leaves_nowhere() {
        let app = app().await;
        let ran = app.on_behalf_of(dana()).invoke("orders.refund", json!({"orderId": "ord_1", "amountCents": 1})).await;
        app.assert_completed(&ran).await;
        app.assert_nowhere("gateway-4711-8842", &[&ran]).await;
    }

    /// Approvals inline: an approver who says what the test wants.
    #[tokio::test]
    async fn a_manager_who_answers_at_once_lets_it_run() {
        let approver = TestApprover::approves([priya()]);
        let app = TestApp::new(shop().approver(approver.clone()), |_| ()).await.unwrap();
        let large = json!({"orderId": "ord_42", "amountCents": 64_900});
        let ran = app.on_behalf_of(dana()).invoke("orders.refund", large).await;
        app.assert_completed(&ran).await;
        assert_eq!(approver.asked().len(), 1);
    }

    /// The drift gate: a change of governance changes a file that somebody reviews.
    #[test]
    fn governance_is_what_was_agreed_to() {
        drift::check(&shop(), SNAPSHOT).unwrap();
    }
}
