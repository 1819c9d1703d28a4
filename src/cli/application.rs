//! What this binary serves: the seam between the configuration and the capabilities.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use super::settings;
use crate::auth::{Auth, Credential};
use crate::builder::Role;
use crate::clock::Clock;
use crate::config::Config;
use crate::demo::{self, Desk};
use crate::manifest;
use crate::notifications::Notifications;
use crate::registry::Registry;
use crate::{Capability, Engine, EngineBuilder, Gateway, Identity, PolicySource, Problem, Requesters};

/// Capabilities and policies, and who is told: everything but a database.
pub(super) struct Application {
    capabilities: Vec<Capability<Desk>>,
    notifications: Notifications,
    pub(super) policies: PolicySource,
    /// What people call it.
    pub(super) name: String,
}

/// The application of a configuration: what the manifests in `[capabilities] directory` declare, by the policies that are
/// configured; without that key the demo's support desk, by its own policies if none are configured.
pub(super) fn application(config: &Config) -> Result<Application, Vec<Problem>> {
    let mut problems = Vec::new();
    let told = Notifications::open(&config.notifications, config.base(), &settings::variable);
    let told = told.map_err(|it| problems.extend(it)).ok();
    let capabilities = match &config.capabilities.directory {
        Some(directory) => manifests(config, directory, &settings::variable).map_err(|it| problems.extend(it)).ok(),
        None => Some(demo::capabilities()),
    };
    let policies = match (config.policy_directory(), &config.capabilities.directory) {
        (Some(directory), _) => PolicySource::Directory(directory),
        (None, None) => demo::policies(),
        (None, Some(_)) => {
            problems.push(no_policies());
            return Err(problems);
        }
    };
    let name = config.capabilities.directory.as_ref().map_or_else(
        || "the demo application, a support desk".to_owned(),
        |it| format!("the manifests in {}", config.base().join(it).display()),
    );
    match (capabilities, told) {
        (Some(capabilities), Some(notifications)) if problems.is_empty() => {
            Ok(Application { capabilities, notifications, policies, name })
        }
        _ => Err(problems),
    }
}

/// Stands for secrets that nobody reads: a good one in every form, 30 bytes in Base64.
const UNREAD: &str = "dW5yZWFkdW5yZWFkdW5yZWFkdW5yZWFkdW5yZWFk";

/// What the application of a configuration governs, without what it needs to run: secrets in the environment need not
/// be there. `policies`: a directory instead of the configured one.
pub(super) fn governed(config: &Config, policies: Option<PathBuf>) -> Result<EngineBuilder<Desk>, Vec<Problem>> {
    let unread = |name: &str| settings::variable(name).or_else(|| Some(UNREAD.into()));
    let capabilities = match &config.capabilities.directory {
        Some(directory) => manifests(config, directory, &unread)?,
        None => demo::capabilities(),
    };
    let policies = match (policies.or_else(|| config.policy_directory()), &config.capabilities.directory) {
        (Some(directory), _) => PolicySource::Directory(directory),
        (None, None) => demo::policies(),
        (None, Some(_)) => return Err(vec![no_policies()]),
    };
    Ok(Engine::builder().capabilities(capabilities).policies(policies))
}

fn no_policies() -> Problem {
    let fix = "name their directory, `policies = \"policies\"`";
    Problem::new("policies", "capabilities have no policies, so nobody could call them", fix)
}

/// Commands are guarded by this binary itself, unless another one is named.
fn manifests(
    config: &Config,
    directory: &Path,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Capability<Desk>>, Vec<Problem>> {
    let mut wanted = config.capabilities.clone();
    if wanted.guard.is_none() {
        wanted.guard = std::env::current_exe().ok();
    }
    manifest::load(&config.base().join(directory), &wanted, env)
}

impl Application {
    /// The engine to be, for a process that stays.
    pub(super) fn builder(self, config: &Config, auth: &Auth) -> EngineBuilder<Desk> {
        let watches = matches!(self.policies, PolicySource::Directory(_));
        let builder = Engine::builder().capabilities(self.capabilities).policies(self.policies);
        let builder = builder.requesters(Known(auth.of_tokens())).worker_context(contexts());
        let builder = builder.notifications(self.notifications);
        let builder = builder.lease(config.process.lease).sweep(config.process.sweep);
        builder.watch_policies(watches).database(config.database_url()).role(Role::Serves)
    }

    /// Its capabilities, without an engine.
    pub(super) fn registry(self) -> Result<Registry, Vec<Problem>> {
        Registry::new(self.capabilities.into_iter().map(|it| it.draft).collect())
    }
}

/// Each call gets a desk of its own tenant. Manifests' procedures do not look at it.
fn contexts() -> impl Fn(Arc<Identity>) -> std::future::Ready<Result<Desk, Infallible>> + Send + Sync + 'static {
    let desk = Desk::default();
    move |identity| std::future::ready(Ok(desk.of_tenant(identity.tenant_name())))
}

/// What servers take.
pub(super) fn gateway(engine: &Engine<Desk>) -> Gateway {
    engine.gateway(contexts())
}

/// Who requesters are today, for what runs on approval: those of the static tokens, as they are configured now. Of others
/// only their issuer knows, so what they asked for waits until they resume it themselves.
struct Known(Vec<Credential>);

#[async_trait]
impl Requesters for Known {
    /// Nobody, if the tokens of this party and its client are of different minds: nobody gets more than they asked with.
    async fn current(&self, stored: &Identity) -> Result<Option<Identity>, Box<dyn std::error::Error + Send + Sync>> {
        let now = Clock::System.now();
        let valid = self.0.iter().filter(|it| !it.is_expired(now)).map(|it| &it.identity);
        let mut theirs = valid.filter(|it| is_same(it, stored));
        let Some(first) = theirs.next() else { return Ok(None) };
        Ok(theirs.all(|it| it.actor() == first.actor()).then(|| first.clone()))
    }
}

fn is_same(known: &Identity, stored: &Identity) -> bool {
    let kind = |it: &Identity| it.actor().map(|it| it.kind);
    known.clone().on(stored.surface()).is_same_caller(stored) && kind(known) == kind(stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Actor, Surface};

    const TOKENS: &str = r#"
        [[auth.tokens]]
        name = "dana"
        sha256 = "0000000000000000000000000000000000000000000000000000000000000001"
        id = "dana"
        kind = "user"
        roles = ["support"]

        [[auth.tokens]]
        name = "eve, who left"
        sha256 = "0000000000000000000000000000000000000000000000000000000000000002"
        id = "eve"
        kind = "user"
        expires = "2020-01-01T00:00:00Z"

        [[auth.tokens]]
        name = "kim's agent"
        sha256 = "0000000000000000000000000000000000000000000000000000000000000003"
        id = "kim"
        kind = "user"
        roles = ["support"]

        [[auth.tokens]]
        name = "kim"
        sha256 = "0000000000000000000000000000000000000000000000000000000000000004"
        id = "kim"
        kind = "user"
        roles = ["manager"]
    "#;

    #[tokio::test]
    async fn a_requester_of_today_is_whoever_its_valid_tokens_agree_on() {
        let config = Config::parse(None, TOKENS, []).unwrap();
        let auth = Auth::open(&config.auth, Path::new(""), Clock::System).await.unwrap();
        let known = Known(auth.of_tokens());
        let today = async |it: Identity| known.current(&it).await.unwrap();
        // As of the filing she was a manager.
        let dana = Actor::user("dana").role("manager");
        let default = |actor: Actor| Identity::new(actor).tenant("default").on(Surface::Http);
        let now = today(default(dana.clone())).await.unwrap();
        assert_eq!(now.actor().unwrap().roles, ["support"]);
        for other in [
            default(Actor::user("eve")),
            default(Actor::user("kim")),
            default(Actor::user("nobody")),
            default(Actor::service("dana")),
            default(dana.clone().issuer("https://login.example")),
            default(dana.clone()).client("another-agent"),
            Identity::new(dana).tenant("other"),
            Identity::none(),
        ] {
            assert!(today(other.clone()).await.is_none(), "{other:?}");
        }
    }
}
