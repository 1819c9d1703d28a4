//! The application that is measured: many small capabilities, none of which does anything.

use std::path::Path;

use countersign::{
    Actor, Capability, CapabilityBuilder, Engine, EngineBuilder, HandlerError, Identity, Invocation, PolicySource,
    Risk, Surface,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// An input of three members.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "read by the schema, not by the handler")]
pub(crate) struct Refund {
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

/// What comes back.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Refunded {
    refund_id: String,
}

/// Does nothing.
pub(crate) async fn refund(_: Invocation, input: Refund) -> Result<Refunded, HandlerError> {
    Ok(Refunded::of(input))
}

impl Refunded {
    pub(crate) fn of(Refund { order_id, amount_cents: _, reason: _ }: Refund) -> Self {
        Self { refund_id: order_id }
    }
}

/// What everybody sends.
pub(crate) fn input() -> Value {
    json!({"orderId": "ord_42", "amountCents": 4900, "reason": "Arrived scratched."})
}

/// The name of one of many capabilities.
pub(crate) fn name(number: usize) -> String {
    format!("orders.refund_{number}")
}

/// One of them, without its handler.
pub(crate) fn unhandled(number: usize) -> CapabilityBuilder {
    Capability::write(name(number))
        .risk(Risk::High)
        .description("Refund an order, fully or in part.")
        .expose([Surface::Direct])
        .tags(["orders", "money"])
}

/// So many writes.
pub(crate) fn capabilities(count: usize) -> Vec<Capability> {
    (0..count).map(|number| unhandled(number).handler(refund)).collect()
}

/// Somebody from support.
pub(crate) fn dana() -> Identity {
    Identity::new(Actor::user("dana").name("Dana").role("support")).tenant("acme")
}

/// Where there are gates, somebody must be able to lift them. It reaches no call.
const APPROVERS: &str = r#"
@id("approvers") permit (principal in Role::"manager", action == Countersign::Action::"approve", resource);
"#;

/// Two files.
pub(crate) fn source(text: &str) -> PolicySource {
    let files = [("shop.cedar", text), ("approvers.cedar", APPROVERS)];
    PolicySource::Files(files.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec())
}

/// An engine to be, with so many capabilities on a new database in `directory`.
pub(crate) fn builder(count: usize, policies: &str, directory: &Path, database: &str) -> EngineBuilder {
    let url = format!("sqlite:{}", directory.join(database).display());
    Engine::builder().capabilities(capabilities(count)).policies(source(policies)).database(url)
}

/// As [`builder`], built.
pub(crate) async fn engine(
    count: usize,
    policies: &str,
    directory: &Path,
    database: &str,
) -> Result<Engine, countersign::BuildError> {
    builder(count, policies, directory, database).build().await
}

/// A directory on the disk that holds the build, since a temporary one may be in memory.
pub(crate) fn directory() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))
}
