//! What an engine needs, and everything that can be wrong with it.

mod background;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::background::Background;
use crate::BoxError;
use crate::abandoned::Abandoned;
use crate::actor::SharedIdentity;
use crate::approver::{ApprovalHandler, InlineApprover};
use crate::capability::Capability;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::id::Ids;
use crate::invocation::{Layer, Middleware, Procedures, layer};
use crate::ledger::LogTree;
use crate::meters::Meters;
#[cfg(feature = "http")]
use crate::notifications::Notifications;
use crate::pipeline::{Core, Tallies};
use crate::policies::{self, Around, Policies};
use crate::policy::{PolicySet, PolicySource};
use crate::registry::{self, Registry};
use crate::resource::{EntityProvider, Resources};
use crate::store::{Config, KeySource, OpenError, Store};
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
/// Longer than anybody keeps a policy.
const MAX_KEEP_DECISIONS: Duration = Duration::from_hours(24 * 3_660);

/// Collects what an engine needs. An application exports this, not an [`Engine`], so that its tests can build theirs.
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

    /// Makes the contexts of what is run on approval, as a [gateway](Engine::gateway) makes those of calls from outside:
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

    /// Checks everything, opens the store, loads the policies and makes them active. Needs a tokio runtime.
    ///
    /// # Errors
    /// Every problem at once, each with what to do.
    pub async fn build(self) -> Result<Engine<C>, BuildError> {
        self.build_with_notes().await.map(|(engine, _)| engine)
    }

    /// As [`Self::build`], and what loading the policies had to remark.
    ///
    /// # Errors
    /// Every problem at once, each with what to do.
    pub async fn build_with_notes(self) -> Result<(Engine<C>, Vec<crate::PolicyProblem>), BuildError> {
        let mut problems = self.out_of_bounds();
        let (drafts, handlers): (Vec<_>, Vec<_>) =
            self.capabilities.into_iter().map(|it| (it.draft, it.procedure)).unzip();
        problems.extend(registry::unmet(&drafts, self.entities.is_some(), self.background.can_work()));
        let registry = Registry::new(drafts).map_err(|found| problems.extend(found));
        let path = path(self.database.as_deref()).map_err(|found| problems.push(found));
        let is_watching = self.watches && self.role == Role::Serves;
        let watched = watched(&self.policies, is_watching).map_err(|found| problems.push(found));
        // A set that is bad for what registered well is reported in the same breath; without a registry nobody can tell.
        let (Ok(registry), Ok(path), Ok(watched)) = (registry, path, watched) else {
            return Err(BuildError { problems });
        };
        let registry = Arc::new(registry);
        let candidate = candidate(self.shadow.as_ref(), &self.policies, &registry).await;
        let candidate = candidate.map_err(|found| problems.extend(found));
        // Whoever is not built changes nothing: the policies are made active after everything that can be wrong.
        let (Ok(candidate), true) = (candidate, problems.is_empty()) else { return Err(BuildError { problems }) };
        let (clock, ids) = (self.clock, self.ids);
        let config = Config {
            path,
            clock: clock.clone(),
            ids: ids.clone(),
            lease: self.lease,
            renew: self.lease / 6,
            keep_decisions: self.keep_decisions,
            sweep: (self.role == Role::Serves).then_some(self.sweep),
            key: self.key,
            probe: self.store_probe,
        };
        let store = Store::open(config).await.map_err(|error| BuildError { problems: vec![Problem::from(error)] })?;
        let around = Around { registry: &registry, store: &store, clock: &clock, ids: &ids };
        let opened = Policies::open(self.policies, self.role, around).await;
        let (policies, notes) = opened.map_err(|problems| BuildError { problems })?;
        policies.shadow(candidate);
        let ledger = self.log.unwrap_or_default().ready(&store, self.role == Role::Serves);
        let core = Arc::new(Core {
            #[cfg(feature = "http")]
            tail: crate::tail::Tail::new(store.clone(), clock.clone()),
            abandoned: Abandoned::new(handlers.len()),
            meters: Meters::new(&registry),
            registry,
            policies,
            store,
            ledger,
            resources: Resources { provider: self.entities, clock: clock.clone() },
            clock,
            ids,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            approver: self.approver,
            probe: self.probe,
            #[cfg(feature = "http")]
            auth_failures: crate::auth::Failures::default(),
            tallies: Tallies::default(),
        });
        let engine = Engine { core, procedures: Arc::new(Procedures { handlers, layers: self.layers }) };
        if self.role == Role::Serves {
            self.background.start(&engine, self.lease, self.sweep, watched).await?;
        }
        Ok((engine, notes))
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

    /// What this engine would govern, without a database. Waits for the disk.
    #[cfg(any(feature = "cli", feature = "testing"))]
    pub(crate) fn governed(&self) -> Result<(Registry, PolicySet), BuildError> {
        let registry = Registry::new(self.capabilities.iter().map(|it| it.draft.clone()).collect());
        let registry = registry.map_err(|problems| BuildError { problems })?;
        let loaded = crate::policy::load(&self.policies, &registry);
        let (set, _) = loaded.map_err(|all| {
            let fatal = all.iter().filter(|it| it.is_fatal());
            BuildError { problems: fatal.map(Problem::from).collect() }
        })?;
        Ok((registry, set))
    }

    /// Settings that no engine can keep to.
    fn out_of_bounds(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.lease < Duration::from_millis(300) {
            problems.push(Problem::new("the lease", "shorter than 300 ms", "make it 30 s"));
        }
        if !(Duration::from_hours(1)..=MAX_KEEP_DECISIONS).contains(&self.keep_decisions) {
            let what = "the time for which they are kept is out of bounds";
            problems.push(Problem::new("decision records", what, "choose 1 h to 3,660 d"));
        }
        problems
    }
}

/// The candidate set, if there is one. If it is bad, what is wrong with the process's own files is told with it.
async fn candidate(
    source: Option<&PolicySource>,
    own: &PolicySource,
    registry: &Arc<Registry>,
) -> Result<Option<Arc<PolicySet>>, Vec<Problem>> {
    let Some(source) = source else { return Ok(None) };
    match policies::candidate(source, registry).await {
        Ok(set) => Ok(Some(set)),
        Err(mut problems) => {
            problems.extend(policies::candidate(own, registry).await.err().into_iter().flatten());
            Err(problems)
        }
    }
}

/// The directory that is to be watched.
fn watched(policies: &PolicySource, is_watching: bool) -> Result<Option<PathBuf>, Problem> {
    match (policies, is_watching) {
        (_, false) => Ok(None),
        (PolicySource::Directory(it), true) => Ok(Some(it.clone())),
        (PolicySource::Files(_), true) => {
            Err(Problem::new("the policies", "they are watched, and in no directory", "name a directory"))
        }
    }
}

/// Where the database named by a URL is.
pub(crate) fn path(url: Option<&str>) -> Result<PathBuf, Problem> {
    let next = "write `sqlite:PATH`, say `.database(\"sqlite:countersign.db\")`";
    let Some(url) = url else { return Err(Problem::new("the database", "none was named", next)) };
    match url.strip_prefix("sqlite:").map(|it| it.strip_prefix("//").unwrap_or(it)) {
        Some(path) if !path.is_empty() && !path.starts_with(':') => Ok(PathBuf::from(path)),
        Some(_) | None => Err(Problem::new("the database", format!("`{url}` is no database of a known sort"), next)),
    }
}

/// One thing that is wrong with an engine to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: a capability's id, a file and line, the database.
    pub at: String,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub fix: String,
}

impl Problem {
    pub(crate) fn new(at: impl Into<String>, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { at: at.into(), what: what.into(), fix: fix.into() }
    }
}

/// Everything that is wrong with an engine to be.
#[derive(Clone, PartialEq, Eq)]
pub struct BuildError {
    /// At least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.problems.len();
        write!(f, "the engine cannot be built, {count} problem{}", if count == 1 { "" } else { "s" })?;
        self.problems.iter().try_for_each(|it| write!(f, "\n  `{}`: {}; {}", it.at, it.what, it.fix))
    }
}

// What `fn main() -> Result<(), BuildError>` prints.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BuildError {}

impl From<OpenError> for Problem {
    /// Its text is the cause, a semicolon and the next step; what lies below it belongs to the cause.
    fn from(error: OpenError) -> Self {
        let text = error.to_string();
        let (what, fix) = text.split_once("; ").unwrap_or((&text, "see the cause"));
        let below = std::error::Error::source(&error).map(|it| format!(": {it}")).unwrap_or_default();
        Self::new("the database", format!("{what}{below}"), fix)
    }
}
