//! Orders belong to tenants: policies read the order that a call is about, so an agent that works for one tenant never
//! touches another's, whatever id it is talked into. `cargo run --example tenants`

use std::collections::HashMap;

use async_trait::async_trait;
use countersign::{
    Actor, Caller, Capability, Engine, EntityProvider, EntityRef, ErrorCode, HandlerError, Identity, Invocation,
    Outcome, PolicySource, ResourceEntity, Risk, Surface,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Get {
    order_id: String,
}

#[derive(Serialize, JsonSchema)]
struct Order {
    status: &'static str,
}

/// Never asks whose order it is: policies did, before it ran.
async fn get(_: Invocation, input: Get) -> Result<Order, HandlerError> {
    println!("  (reads {})", input.order_id);
    Ok(Order { status: "shipped" })
}

/// The orders as a database has them: id, and the tenant that each belongs to.
struct Orders(HashMap<&'static str, &'static str>);

#[async_trait]
impl EntityProvider for Orders {
    /// One query for all that is wanted. What does not exist is left out, and the call is denied.
    async fn entities(
        &self,
        wanted: &[EntityRef],
        _: &Identity,
    ) -> Result<Vec<ResourceEntity>, Box<dyn std::error::Error + Send + Sync>> {
        let order = |it: &EntityRef| {
            let tenant = *self.0.get(&*it.id)?;
            Some(ResourceEntity::new("Order", &it.id).attribute("tenant", tenant))
        };
        Ok(wanted.iter().filter_map(order).collect())
    }
}

const SCHEMA: &str = "entity Order = { tenant: String };";

const POLICIES: &str = r#"
    @id("support-may-read-orders")
    permit (principal in Role::"support", action == Action::"orders.get", resource);

    @id("orders-stay-with-their-tenant")
    @reason("This order belongs to somebody else.")
    forbid (principal, action in Action::"orders.*", resource)
    unless { principal has tenant && resource.tenant == principal.tenant };
"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?; // an application names a file that stays
    let files = [("schema.cedarschema", SCHEMA), ("orders.cedar", POLICIES)];
    let engine = Engine::builder()
        .capability(
            Capability::read("orders.get")
                .risk(Risk::Low)
                .description("Look an order up.")
                .expose([Surface::Direct, Surface::Mcp])
                .resource("Order", "/orderId") // the order that the input names
                .handler(get),
        )
        .entities(Orders(HashMap::from([("ord_1", "acme"), ("ord_2", "umbrella")])))
        .policies(PolicySource::Files(files.map(|(name, text)| (name.into(), text.into())).into()))
        .database(format!("sqlite:{}", directory.path().join("shop.db").display()))
        .build()
        .await?;

    let support = |name: &str, tenant: &str| Identity::new(Actor::user(name).role("support")).tenant(tenant.to_owned());
    let dana = engine.on_behalf_of(support("dana", "acme"), ());
    let omar = engine.on_behalf_of(support("omar", "umbrella"), ());

    assert_eq!(try_it("dana", &dana, "ord_1").await, None);
    assert_eq!(try_it("omar", &omar, "ord_2").await, None);
    assert_eq!(try_it("omar", &omar, "ord_1").await, Some(ErrorCode::PolicyDenied), "that is Dana's tenant's");
    assert_eq!(try_it("dana", &dana, "ord_9").await, Some(ErrorCode::PolicyFailed), "nobody can tell whose it is");

    engine.shutdown(std::time::Duration::from_secs(10)).await;
    Ok(())
}

/// How it ended: nothing, or the code.
async fn try_it(name: &str, caller: &Caller, order: &str) -> Option<ErrorCode> {
    println!("{name} asks for {order}");
    let outcome: Outcome = caller.invoke("orders.get", json!({"orderId": order})).await;
    let error = outcome.error().map(|it| it.code);
    println!("  {}", outcome.error().map_or("done", |it| &it.message));
    error
}
