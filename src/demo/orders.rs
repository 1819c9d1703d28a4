//! Orders: finding them, giving money back, and purging, which nobody is shown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::desk::{Order, Status};
use super::{AGENTS, Desk};
use crate::{Capability, DeclaredError, HandlerError, Invocation, Risk, Surface};

const NO_ORDER: DeclaredError = DeclaredError::new("NOT_FOUND", "There is no such order.");
const NOT_ELIGIBLE: DeclaredError = DeclaredError::new("NOT_ELIGIBLE", "The order cannot be refunded.");
const TOO_MUCH: DeclaredError = DeclaredError::new("TOO_MUCH", "That is more than is left of what was paid.");

pub(super) fn capabilities() -> [Capability<Desk>; 4] {
    [
        Capability::read("orders.search")
            .risk(Risk::Low)
            .description("Find orders by a part of the item's name, the order's id or the customer's id.")
            .expose(AGENTS)
            .expose([Surface::Workflow])
            .tags(["orders"])
            .handler(search),
        Capability::read("orders.get")
            .risk(Risk::Low)
            .description("Show one order, with what was refunded of it. Check it before refunding.")
            .expose(AGENTS)
            .tags(["orders"])
            .error(NO_ORDER)
            .handler(get),
        Capability::write("orders.refund")
            .risk(Risk::High)
            .description("Refund an order, fully or in part. Check with orders.get that so much is left of it.")
            .expose(AGENTS)
            .tags(["orders", "money"])
            .error(NO_ORDER)
            .error(NOT_ELIGIBLE)
            .error(TOO_MUCH)
            .redact_output(["/gatewayRef"])
            .handler(refund),
        // Staged: registered and governed, and exposed nowhere until somebody decides where.
        Capability::destructive("orders.purge")
            .risk(Risk::Critical)
            .description("Delete old orders for good. For the retention period's end only.")
            .tags(["orders"])
            .handler(purge),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct Search {
    /// A part of an item's name, an order's id or a customer's id, in any case.
    #[schemars(length(min = 1, max = 100))]
    query: String,
}

#[derive(Serialize, JsonSchema)]
struct Found {
    orders: Vec<Order>,
}

async fn search(cx: Invocation<Desk>, input: Search) -> Result<Found, HandlerError> {
    Ok(Found { orders: cx.app().orders(&input.query).await })
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Get {
    /// `ord_` and a number.
    #[schemars(length(min = 1, max = 64))]
    order_id: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Shown {
    order: Order,
    refunded_cents: u32,
}

async fn get(cx: Invocation<Desk>, input: Get) -> Result<Shown, HandlerError> {
    let order = cx.app().order(&input.order_id).await?.ok_or(NO_ORDER)?;
    let refunded_cents = cx.app().refunded(&order.id);
    Ok(Shown { order, refunded_cents })
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Refund {
    /// `ord_` and a number.
    #[schemars(length(min = 1, max = 64))]
    order_id: String,
    /// In cents.
    #[schemars(range(min = 1))]
    amount_cents: u32,
    /// Why, for the customer's file.
    #[schemars(length(min = 1, max = 500))]
    reason: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Refunded {
    refund_id: String,
    order_id: String,
    amount_cents: u32,
    /// All that went back of this order.
    refunded_cents: u32,
    /// Who had to agree, and did.
    approved_by: Vec<String>,
    reason: String,
    /// For the desk's own books: never leaves.
    gateway_ref: String,
}

async fn refund(cx: Invocation<Desk>, input: Refund) -> Result<Refunded, HandlerError> {
    let desk = cx.app();
    let order = desk.order(&input.order_id).await?.ok_or(NO_ORDER)?;
    if order.status == Status::Cancelled {
        return Err(NOT_ELIGIBLE.with_message("A cancelled order was never paid.").into());
    }
    let (number, refunded_cents) = desk.refund(&order, input.amount_cents).ok_or(TOO_MUCH)?;
    // What a real payment service would be given, so that the same refund never pays twice.
    let gateway_ref = cx.agent().map_or_else(|| "desk".to_owned(), |it| it.idempotency_key.clone());
    Ok(Refunded {
        refund_id: format!("ref_{number}"),
        order_id: order.id,
        amount_cents: input.amount_cents,
        refunded_cents,
        approved_by: approvers(&cx),
        reason: input.reason,
        gateway_ref,
    })
}

/// Who agreed to this run.
pub(super) fn approvers(cx: &Invocation<Desk>) -> Vec<String> {
    let approval = cx.agent().and_then(|it| it.approval.as_ref());
    approval.map(|it| it.approvers.iter().map(|who| who.id.clone()).collect()).unwrap_or_default()
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Purge {
    /// In days.
    #[schemars(range(min = 3650))]
    older_than_days: u32,
}

#[derive(Serialize, JsonSchema)]
struct Purged {
    count: u32,
}

async fn purge(cx: Invocation<Desk>, input: Purge) -> Result<Purged, HandlerError> {
    let _ = (cx.app().orders("").await, input.older_than_days); // the demo's orders are all young
    Ok(Purged { count: 0 })
}
