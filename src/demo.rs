//! The demo application: the support desk of a small shop, whose agents look things up, refund orders and write to
//! customers.
//!
//! The command line runs it, tests and benchmarks build on it, and it shows how an application is put together: plain
//! data ([`Desk`]), plain async functions, [`capabilities`] that govern them, and policies as texts ([`POLICIES`]).
//!
//! ```
//! # async fn shown() -> Result<(), Box<dyn std::error::Error>> {
//! use countersign::demo::{self, Desk};
//!
//! let engine = demo::builder().database("sqlite:countersign.db").build().await?;
//! let dana = engine.on_behalf_of(demo::actor("dana").ok_or("no such actor")?, Desk::default());
//! let outcome = dana.invoke("orders.search", serde_json::json!({"query": "lamp"})).await;
//! # Ok(())
//! # }
//! ```

mod customers;
mod desk;
mod messages;
mod orders;
mod reports;

pub use desk::Desk;

use crate::{Actor, Capability, Engine, EngineBuilder, Identity, PolicySource, Surface};

/// The policies, as file name and text.
pub const POLICIES: [(&str, &str); 4] = [
    ("approvals.cedar", include_str!("../policies/approvals.cedar")),
    ("limits.cedar", include_str!("../policies/limits.cedar")),
    ("mcp.cedar", include_str!("../policies/mcp.cedar")),
    ("support.cedar", include_str!("../policies/support.cedar")),
];

/// The cases that prove the policies, as file name and text.
pub const POLICY_TESTS: [(&str, &str); 4] = [
    ("tests/approvals.yaml", include_str!("../policies/tests/approvals.yaml")),
    ("tests/desk.yaml", include_str!("../policies/tests/desk.yaml")),
    ("tests/hidden.yaml", include_str!("../policies/tests/hidden.yaml")),
    ("tests/refunds.yaml", include_str!("../policies/tests/refunds.yaml")),
];

/// The statements that hold of the policies, as file name and text.
#[cfg(feature = "prove")]
pub const POLICY_INVARIANTS: [(&str, &str); 1] =
    [("invariants/demo.yaml", include_str!("../policies/invariants/demo.yaml"))];

/// The names that [`actor`] knows.
pub const ACTORS: [&str; 5] = ["dana", "priya", "omar", "nightly", "anonymous"];

/// The tenant of everybody but Omar.
pub const ACME: &str = "acme";

/// Omar's tenant.
pub const GLOBEX: &str = "globex";

/// Where most capabilities are shown: everywhere an agent may come from.
const AGENTS: [Surface; 4] = [Surface::Direct, Surface::Http, Surface::Mcp, Surface::Test];

/// One of the demo's actors: Dana (support), Priya (manager), Omar (support of another tenant), a nightly job, and
/// nobody in particular.
pub fn actor(name: &str) -> Option<Identity> {
    let (actor, tenant) = match name {
        "dana" => (Actor::user("dana").name("Dana").role("support"), ACME),
        "priya" => (Actor::user("priya").name("Priya").role("manager"), ACME),
        "omar" => (Actor::user("omar").name("Omar").role("support"), GLOBEX),
        "nightly" => (Actor::automation("nightly").name("Nightly job").role("nightly"), ACME),
        "anonymous" => (Actor::anonymous(), ACME),
        _ => return None,
    };
    Some(Identity::new(actor).tenant(tenant))
}

/// The capabilities, in the order of their listing.
pub fn capabilities() -> Vec<Capability<Desk>> {
    let mut all = Vec::new();
    all.extend(customers::capabilities());
    all.extend(orders::capabilities());
    all.extend(messages::capabilities());
    all.extend(reports::capabilities());
    all
}

/// [`POLICIES`], ready for a builder.
pub fn policies() -> PolicySource {
    PolicySource::Files(POLICIES.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec())
}

/// The engine to be: everything but a database.
pub fn builder() -> EngineBuilder<Desk> {
    Engine::builder().capabilities(capabilities()).policies(policies())
}
