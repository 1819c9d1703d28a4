//! What this binary serves: the seam between the configuration and the capabilities.

use std::convert::Infallible;
use std::sync::Arc;

use crate::builder::Role;
use crate::config::Config;
use crate::demo::{self, Desk};
use crate::registry::Registry;
use crate::{Capability, Engine, EngineBuilder, Gateway, Identity, PolicySource, Problem};

/// Capabilities and policies: everything but a database.
pub(super) struct Application {
    capabilities: Vec<Capability<Desk>>,
    pub(super) policies: PolicySource,
    pub(super) name: &'static str,
}

/// The application of a configuration: the demo's support desk.
///
/// SEAM: with `[capabilities] directory` set it is what the manifests there declare, and then `policies` must be set.
#[expect(clippy::unnecessary_wraps, reason = "manifests can be wrong")]
pub(super) fn application(config: &Config) -> Result<Application, Vec<Problem>> {
    let policies = config.policy_directory().map_or_else(demo::policies, PolicySource::Directory);
    Ok(Application { capabilities: demo::capabilities(), policies, name: "the demo application, a support desk" })
}

impl Application {
    /// The engine to be, for a process that stays.
    pub(super) fn builder(self, config: &Config) -> EngineBuilder<Desk> {
        let watches = matches!(self.policies, PolicySource::Directory(_));
        let builder = Engine::builder().capabilities(self.capabilities).policies(self.policies);
        builder.watch_policies(watches).database(config.database_url()).role(Role::Serves)
    }

    /// Its capabilities, without an engine.
    pub(super) fn registry(self) -> Result<Registry, Vec<Problem>> {
        Registry::new(self.capabilities.into_iter().map(|it| it.draft).collect())
    }
}

/// What servers take: each call gets a desk of its own tenant.
pub(super) fn gateway(engine: &Engine<Desk>) -> Gateway {
    let desk = Desk::default();
    engine.gateway(move |identity: Arc<Identity>| {
        let desk = desk.of_tenant(identity.tenant_name());
        async move { Ok::<_, Infallible>(desk) }
    })
}
