//! A shop lets its support agent refund orders: an application that embeds the engine, with procedures, policies and
//! middleware of its own. `cargo run --example embed`

use countersign::{
    Actor, Capability, DeclaredError, Engine, HandlerError, Invocation, Next, Outcome, PolicySource, Risk, Surface,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What the shop's own code works with: made for each request, never looked into by the engine.
struct Shop {
    till: &'static str,
}

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
    approved_by: Vec<String>,
    gateway_ref: String,
}

const NOT_ELIGIBLE: DeclaredError = DeclaredError::new("NOT_ELIGIBLE", "The order cannot be refunded.");

/// An ordinary function. It never sees a call that was not permitted.
async fn refund(cx: Invocation<Shop>, input: Refund) -> Result<Refunded, HandlerError> {
    let number: u32 = input.order_id.strip_prefix("ord_").ok_or(NOT_ELIGIBLE)?.parse()?; // this error stays inside
    let approval = cx.agent().and_then(|it| it.approval.as_ref());
    Ok(Refunded {
        refund_id: format!("ref_{number}_{}", input.amount_cents),
        approved_by: approval.map(|it| it.approvers.iter().map(|who| who.id.clone()).collect()).unwrap_or_default(),
        gateway_ref: format!("{}/{number}", cx.app().till),
    })
}

/// The shop's own rules hold for agents and for its own code alike.
async fn open_tills_only(cx: Invocation<Shop>, next: Next<Shop>) -> Result<Value, HandlerError> {
    if cx.app().till == "closed" {
        return Err(HandlerError::forbidden());
    }
    next.run().await
}

const POLICIES: &str = r#"
    @id("support-may-refund")
    permit (principal in Role::"support", action == Action::"orders.refund", resource);

    @id("refunds-over-500-need-a-manager")
    @approval("manager")
    @reason("Refunds above $500 need a manager's approval.")
    forbid (principal, action == Action::"orders.refund", resource)
    when { context.input.amountCents > 50000 };

    @id("managers-approve")
    permit (principal in Role::"manager", action == Countersign::Action::"approve", resource)
    when { context.requirement == "manager" };
"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?; // an application names a file that stays
    let engine = Engine::builder()
        .capability(
            Capability::write("orders.refund")
                .risk(Risk::High)
                .description("Refund an order, fully or in part. Check eligibility first.")
                .expose([Surface::Direct, Surface::Http, Surface::Mcp])
                .tags(["orders", "money"])
                .error(NOT_ELIGIBLE)
                .redact_output(["/gatewayRef"])
                .handler(refund),
        )
        .middleware(open_tills_only)
        .policies(PolicySource::Files(vec![("refunds.cedar".into(), POLICIES.into())])) // or a directory: "policies"
        .database(format!("sqlite:{}", directory.path().join("shop.db").display()))
        .build()
        .await?;

    let dana = engine.on_behalf_of(Actor::user("dana").role("support"), Shop { till: "front" });

    // The model asks for a small refund.
    let small = json!({"orderId": "ord_42", "amountCents": 4900});
    println!("small: {}", json!(dana.invoke("orders.refund", small).idempotency_key("k1").await));

    // A large one waits for a person, and then runs exactly as approved.
    let large = json!({"orderId": "ord_42", "amountCents": 60_000});
    match dana.invoke("orders.refund", large).await {
        Outcome::ApprovalRequired { approval, .. } => {
            println!("large: {}", approval.reasons.join(" "));
            engine.approvals(Actor::user("priya").role("manager")).approve(&approval.id, "manager").await?;
            println!("large, approved: {}", json!(dana.resume(&approval.id).await));
        }
        other => return Err(format!("not asked for approval: {}", json!(other)).into()),
    }

    // Those who prefer `?` get a safe sentence.
    let odd = json!({"orderId": "cart_7", "amountCents": 1});
    if let Err(error) = dana.invoke("orders.refund", odd).await.into_result() {
        println!("odd: {error}");
    }
    engine.shutdown(std::time::Duration::from_secs(10)).await;
    Ok(())
}
