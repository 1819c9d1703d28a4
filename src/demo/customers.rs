//! Looking customers up. Their e-mail addresses and telephone numbers never leave.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::desk::Customer;
use super::{AGENTS, Desk};
use crate::{Capability, DeclaredError, HandlerError, Invocation, Risk};

pub(super) const NO_CUSTOMER: DeclaredError = DeclaredError::new("NOT_FOUND", "There is no such customer.");

pub(super) fn capabilities() -> [Capability<Desk>; 2] {
    [
        Capability::read("customers.search")
            .risk(Risk::Medium)
            .description("Find customers by a part of their name, city or id. Use it before anything about a customer.")
            .expose(AGENTS)
            .tags(["customers"])
            .redact_output(["/customers/*/email", "/customers/*/phone"])
            .handler(search),
        Capability::read("customers.get")
            .risk(Risk::Medium)
            .description("Show one customer. Contact data is withheld: write to customers with messages.send.")
            .expose(AGENTS)
            .tags(["customers"])
            .error(NO_CUSTOMER)
            .redact_output(["/email", "/phone"])
            .handler(get),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct Search {
    /// A part of a name, a city or an id, in any case.
    #[schemars(length(min = 1, max = 100))]
    query: String,
}

#[derive(Serialize, JsonSchema)]
struct Found {
    customers: Vec<Customer>,
}

async fn search(cx: Invocation<Desk>, input: Search) -> Result<Found, HandlerError> {
    Ok(Found { customers: cx.app().customers(&input.query).await })
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Get {
    /// `cus_` and a number.
    #[schemars(length(min = 1, max = 64))]
    customer_id: String,
}

async fn get(cx: Invocation<Desk>, input: Get) -> Result<Customer, HandlerError> {
    Ok(cx.app().customer(&input.customer_id).await.ok_or(NO_CUSTOMER)?)
}
