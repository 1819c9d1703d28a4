//! What an engine needs, and everything that can be wrong with it.

mod background;
mod build;
mod problem;

use std::sync::Arc;
use std::time::Duration;

use self::background::Background;
#[cfg(feature = "http")]
pub(crate) use self::build::path;
pub use self::problem::{BuildError, Problem};
use crate::BoxError;
use crate::actor::SharedIdentity;
use crate::approver::{ApprovalHandler, InlineApprover};
use crate::capability::Capability;
use crate::clock::Clock;
use crate::id::Ids;
use crate::invocation::{Layer, Middleware, layer};
use crate::ledger::LogTree;
#[cfg(feature = "http")]
use crate::notifications::Notifications;
use crate::policy::PolicySource;
use crate::resource::EntityProvider;
use crate::store::KeySource;
use crate::trail::StageProbe;
use crate::worker::Requesters;

/// What a process is for (EXE-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "only the command line comes and goes"))]
pub(crate) enum Role {
    /// Stays: it also looks after the executions of dead processes.
    Serves,
    /// Comes and goes: it holds a lease, but never declares others dead.
    Visits,
    /// Only reads: its policy set never becomes the active one, so nothing could begin.
    Looks,
    /// Proposes no policies: it takes what is active as it is. As [`Self::Looks`] where nothing is.
    Follows,
    /// Comes and goes, and nobody named policies to it: as [`Self::Follows`] where a set is active that can be had here,
    /// else as [`Self::Visits`].
    Joins,
}

/// See [`EngineBuilder::lease`].
const LEASE: Duration = Duration::from_secs(30);
/// See [`EngineBuilder::sweep`].
const SWEEP: Duration = Duration::from_secs(5);
/// See [`EngineBuilder::keep_decisions`].
const KEEP_DECISIONS: Duration = Duration::from_hours(24 * 90);
/// Collects what an engine needs. An application exports this, not an [`Engine`](crate::Engine), so that its tests can build theirs.
#[must_use = "an engine is made by `build`"]
pub struct EngineBuilder<C = ()> {
    capabilities: Vec<Capability<C>>,
    layers: Vec<Layer<C>>,
    policies: PolicySource,
    watches: bool,
    shadow: Option<PolicySource>,
    database: Option<String>,
    key: KeySource,
    lease: Duration,
    sweep: Duration,
    keep_decisions: Duration,
    role: Role,
    approver: Option<InlineApprover>,
    entities: Option<Arc<dyn EntityProvider>>,
    background: Background<C>,
    log: Option<LogTree>,
    pub(crate) clock: Clock,
    pub(crate) ids: Ids,
    pub(crate) probe: Option<StageProbe>,
    pub(crate) store_probe: crate::store::Probe,
}

impl<C: Send + Sync + 'static> EngineBuilder<C> {
    pub(crate) fn new() -> Self {
        Self {
            capabilities: Vec::new(),
            layers: Vec::new(),
            policies: PolicySource::Files(Vec::new()),
            watches: false,
            shadow: None,
            database: None,
            key: KeySource::File,
            lease: LEASE,
            sweep: SWEEP,
            keep_decisions: KEEP_DECISIONS,
            role: Role::Serves,
            approver: None,
            entities: None,
            background: Background::none(),
            log: None,
            clock: Clock::System,
            ids: Ids::Random,
            probe: None,
            store_probe: crate::store::Probe::default(),
        }
    }

    /// Registers a capability.
    pub fn capability(mut self, capability: Capability<C>) -> Self {
        self.capabilities.push(capability);
        self
    }

    /// Registers several, say those of one module.
    pub fn capabilities(mut self, all: impl IntoIterator<Item = Capability<C>>) -> Self {
        self.capabilities.extend(all);
        self
    }

    /// Adds middleware. The first one added is the outermost.
    pub fn middleware(mut self, middleware: impl Middleware<C>) -> Self {
        self.layers.push(layer(middleware));
        self
    }

    /// Where the policies are: a directory, or texts (default: none, which denies everything).
    pub fn policies(mut self, source: impl Into<PolicySource>) -> Self {
        self.policies = source.into();
        self
    }

    /// Loads the policies again whenever their directory changes and has been quiet for 300 ms (default: no). A bad set
    /// leaves the last good one active, and `policy.refused` on record, once for each content. Until the shutdown.
    pub fn watch_policies(mut self, watch: bool) -> Self {
        self.watches = watch;
        self
    }

    /// A candidate set that is asked beside the active one on every call of this process (default: none). What it says
    /// otherwise is on the call's record as `policy.shadow_difference`; it never affects a call. A candidate that does not
    /// load is a problem like any other.
    pub fn shadow_policies(mut self, candidate: impl Into<PolicySource>) -> Self {
        self.shadow = Some(candidate.into());
        self
    }

    /// Where the records are: `sqlite:PATH`. Required; the file is created if its directory exists.
    pub fn database(mut self, url: impl Into<String>) -> Self {
        self.database = Some(url.into());
        self
    }

    /// The key that stored inputs are sealed with and evidence is keyed by (default: a file `PATH.key` beside the
    /// database, mode 0600, made at first use). Without it nothing that waits can run.
    pub fn sealing_key(mut self, key: [u8; 32]) -> Self {
        self.key = KeySource::Bytes(key);
        self
    }

    /// How long a process that does not renew counts as alive (default 30 s; it renews six times as often). At least
    /// 300 ms.
    pub fn lease(mut self, length: Duration) -> Self {
        self.lease = length;
        self
    }

    /// How often this process looks for executions of dead ones (default 5 s).
    pub fn sweep(mut self, every: Duration) -> Self {
        self.sweep = every;
        self
    }

    /// How long what policies saw is kept of capabilities with
    /// [`decision_record`](crate::CapabilityBuilder::decision_record) (default 90 days), 1 h to 3,660 days. The sweep
    /// erases it, so of processes that share a database the one with the shortest time decides.
    pub fn keep_decisions(mut self, length: Duration) -> Self {
        self.keep_decisions = length;
        self
    }

    /// Decides approvals inline, while the call waits.
    pub fn approver(mut self, handler: impl ApprovalHandler) -> Self {
        self.approver = Some(InlineApprover(Arc::new(handler)));
        self
    }

    /// Fetches the entities that policies read of the application. Required if a capability has a
    /// [`resource`](crate::CapabilityBuilder::resource).
    pub fn entities(mut self, provider: impl EntityProvider) -> Self {
        self.entities = Some(Arc::new(provider));
        self
    }

    /// Says who requesters are today, for capabilities with
    /// [`run_on_approval`](crate::CapabilityBuilder::run_on_approval).
    pub fn requesters(mut self, requesters: impl Requesters) -> Self {
        self.background.requesters = Some(Arc::new(requesters));
        self
    }

    /// Makes the contexts of what is run on approval, as a [gateway](crate::Engine::gateway) makes those of calls from outside:
    /// within 5 s, after approval and just before it begins.
    pub fn worker_context<F, Fut, E>(mut self, make: F) -> Self
    where
        F: Fn(SharedIdentity) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<C, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.background.worker_context = Some(Box::new(move |identity| {
            let context = make(identity);
            Box::pin(async move { context.await.map_err(Into::into) })
        }));
        self
    }

    /// Tells others what happens to approvals and executions (default: nobody is told). Whatever process writes on the
    /// same database notes what these webhooks want; this one delivers. So processes that are given any must be given the
    /// same, and whoever starts last says which there are.
    #[cfg(feature = "http")]
    pub fn notifications(mut self, notifications: Notifications) -> Self {
        self.background.notifications = Some(notifications);
        self
    }

    /// What becomes of the log beside being written (default: a Merkle tree that nobody signs).
    pub fn log_tree(mut self, log: LogTree) -> Self {
        self.log = Some(log);
        self
    }

    /// What this process is for (default: it serves).
    #[cfg(feature = "cli")]
    pub(crate) fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Calls this whenever an execution enters a stage: for tests that kill a process at each step.
    #[cfg(feature = "testing")]
    pub fn on_stage(mut self, probe: impl Fn(crate::Stage) + Send + Sync + 'static) -> Self {
        self.probe = Some(Arc::new(probe));
        self
    }

    /// Leases and sweeps that never come due, and no tree over the log, unless the application chose them: for tests that
    /// move the clock.
    #[cfg(feature = "testing")]
    pub(crate) fn unhurried(mut self) -> Self {
        let never = Duration::from_hours(24 * 3_650);
        self.lease = if self.lease == LEASE { never } else { self.lease };
        self.sweep = if self.sweep == SWEEP { never } else { self.sweep };
        self.log = self.log.or_else(|| Some(LogTree::off()));
        self
    }

    /// Whether the application brought a sealing key.
    #[cfg(feature = "testing")]
    pub(crate) fn has_key(&self) -> bool {
        matches!(self.key, KeySource::Bytes(_))
    }

    /// The same capabilities with other procedures behind them.
    #[cfg(feature = "testing")]
    pub(crate) fn each_procedure(
        mut self,
        change: impl Fn(&crate::CapabilityId, crate::handler::Procedure<C>) -> crate::handler::Procedure<C>,
    ) -> Self {
        for capability in &mut self.capabilities {
            capability.procedure = change(&capability.draft.id, Arc::clone(&capability.procedure));
        }
        self
    }
}
