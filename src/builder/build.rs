//! From what was collected to an engine: everything is checked before anything is changed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{BuildError, EngineBuilder, Problem, Role};
use crate::abandoned::Abandoned;
use crate::engine::Engine;
use crate::invocation::Procedures;
use crate::meters::Meters;
use crate::pipeline::{Core, Tallies};
use crate::policies::{self, Around, Policies};
use crate::policy::{PolicySet, PolicySource};
use crate::registry::{self, Registry};
use crate::resource::Resources;
use crate::store::{Config, Store};

/// Longer than anybody keeps a policy.
const MAX_KEEP_DECISIONS: Duration = Duration::from_hours(24 * 3_660);

impl<C: Send + Sync + 'static> EngineBuilder<C> {
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
