//! Writing to customers. Drafting is harmless; nothing goes out before a person has read it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::customers::NO_CUSTOMER;
use super::orders::approvers;
use super::{AGENTS, Desk};
use crate::{ApprovalRule, Capability, HandlerError, Invocation, Risk};

pub(super) fn capabilities() -> [Capability<Desk>; 2] {
    [
        Capability::read("messages.draft")
            .risk(Risk::Low)
            .description("Draft a message to a customer. Sends nothing: hand the result to messages.send.")
            .expose(AGENTS)
            .tags(["messages"])
            .error(NO_CUSTOMER)
            .handler(draft),
        // The gate is part of the capability itself: no policy file can forget it.
        Capability::external("messages.send")
            .risk(Risk::Medium)
            .description("Send a message to a customer, once a colleague has confirmed it.")
            .expose(AGENTS)
            .tags(["messages"])
            .error(NO_CUSTOMER)
            .approval(ApprovalRule::of("human"))
            .handler(send),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Topic {
    Refund,
    Delay,
    Thanks,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Draft {
    /// `cus_` and a number.
    #[schemars(length(min = 1, max = 64))]
    customer_id: String,
    /// What it is about.
    topic: Topic,
}

#[derive(Serialize, JsonSchema)]
struct Drafted {
    subject: String,
    body: String,
}

async fn draft(cx: Invocation<Desk>, input: Draft) -> Result<Drafted, HandlerError> {
    let customer = cx.app().customer(&input.customer_id).await.ok_or(NO_CUSTOMER)?;
    let (subject, text) = match input.topic {
        Topic::Refund => ("Your refund", "your refund is on its way"),
        Topic::Delay => ("Your order is late", "your order needs a few more days, and we are sorry"),
        Topic::Thanks => ("Thank you", "thank you for your order"),
    };
    Ok(Drafted { subject: subject.into(), body: format!("Dear {}, {text}.", customer.name) })
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Send {
    /// `cus_` and a number.
    #[schemars(length(min = 1, max = 64))]
    customer_id: String,
    #[schemars(length(min = 1, max = 200))]
    subject: String,
    #[schemars(length(min = 1, max = 10000))]
    body: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Receipt {
    message_id: String,
    bytes: usize,
    /// Who confirmed it.
    approved_by: Vec<String>,
}

async fn send(cx: Invocation<Desk>, input: Send) -> Result<Receipt, HandlerError> {
    cx.app().customer(&input.customer_id).await.ok_or(NO_CUSTOMER)?;
    let (message_id, bytes) = (format!("msg_{}", cx.app().send().await), input.subject.len() + input.body.len());
    Ok(Receipt { message_id, bytes, approved_by: approvers(&cx) })
}
