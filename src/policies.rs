//! The active policy set of an engine: loaded, followed, swapped.

use std::sync::{Arc, PoisonError, RwLock};

use crate::audit::{AuditEvent, Envelope, EventKind};
use crate::builder::{BuildError, Problem, Role};
use crate::clock::Clock;
use crate::id::Ids;
use crate::policy::{self, PolicyProblem, PolicySet, PolicySource};
use crate::registry::Registry;
use crate::store::op::{Activate, Active};
use crate::store::{Store, StoreError};
use crate::{BoxError, Identity};

/// The generation of a set that only looks.
const NEVER_ACTIVE: i64 = -1;

/// A policy set with the generation of the active-set row under which it decides.
pub(crate) struct Loaded {
    pub(crate) set: Arc<PolicySet>,
    pub(crate) generation: i64,
}

/// The active set, and where its proposals come from.
pub(crate) struct Policies {
    source: PolicySource,
    current: RwLock<Arc<Loaded>>,
    /// One change at a time.
    changing: tokio::sync::Mutex<()>,
}

/// What a reload did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyReload {
    /// The active set's hash.
    pub hash: String,
    /// Whether it is another one than before.
    pub changed: bool,
    /// Notes and warnings.
    pub notes: Vec<PolicyProblem>,
}

impl Policies {
    /// Loads what is proposed and makes it the active set.
    pub(crate) async fn open(
        source: PolicySource,
        role: Role,
        registry: &Arc<Registry>,
        store: &Store,
        clock: &Clock,
        ids: &Ids,
    ) -> Result<(Self, Vec<PolicyProblem>), Vec<Problem>> {
        let (set, notes) = match load(&source, registry).await {
            Ok(loaded) => loaded,
            Err(problems) if role == Role::Looks => {
                return Err(problems.iter().filter(|it| it.fatal).map(Problem::from).collect());
            }
            Err(problems) => {
                let refused = refused(None, &problems);
                if let Err(error) = store.append(vec![event(clock, ids, refused)]).await {
                    tracing::error!(error = &error as &dyn std::error::Error, "a refused policy set is not on record");
                }
                return Err(problems.iter().filter(|it| it.fatal).map(Problem::from).collect());
            }
        };
        let generation = match role {
            Role::Looks => NEVER_ACTIVE,
            Role::Serves | Role::Visits => {
                let active = activate(&set, store, clock, ids).await;
                active.map(|it| it.generation).map_err(|error| {
                    let what = format!("the policy set cannot be activated: {error}");
                    vec![Problem::new("the database", what, "see to it, then start again")]
                })?
            }
        };
        let current = Loaded { set: Arc::new(set), generation };
        let current = RwLock::new(Arc::new(current));
        Ok((Self { source, current, changing: tokio::sync::Mutex::new(()) }, notes))
    }

    /// The set that this process decides by.
    pub(crate) fn current(&self) -> Arc<Loaded> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn swap(&self, set: Arc<PolicySet>, generation: i64) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Loaded { set, generation });
    }

    /// The active set, which another process may have changed: files are proposals, the row decides.
    ///
    /// If this process cannot have the active set, it stays with its own, whose begins the store then refuses.
    pub(crate) async fn follow(&self, registry: &Arc<Registry>, store: &Store) -> Arc<Loaded> {
        let current = self.current();
        if current.generation == store.generation() {
            return current;
        }
        let _one = self.changing.lock().await;
        match store.active().await {
            Ok(Some(active)) if active.generation != self.current().generation => {
                self.adopt(&active, registry).await;
            }
            Ok(_) => {}
            Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "the active policy set is unknown"),
        }
        self.current()
    }

    async fn adopt(&self, active: &Active, registry: &Arc<Registry>) {
        let current = self.current();
        if **current.set.hash() == *active.hash {
            return self.swap(Arc::clone(&current.set), active.generation);
        }
        match load(&self.source, registry).await {
            Ok((set, _)) if **set.hash() == *active.hash => self.swap(Arc::new(set), active.generation),
            Ok(_) | Err(_) => tracing::error!(
                active = active.hash,
                mine = &**current.set.hash(),
                "another process made another policy set active; until this one has it, it denies"
            ),
        }
    }

    /// Loads what is proposed now; a bad set leaves the old one active, on record.
    pub(crate) async fn reload(
        &self,
        registry: &Arc<Registry>,
        store: &Store,
        clock: &Clock,
        ids: &Ids,
    ) -> Result<PolicyReload, BuildError> {
        let _one = self.changing.lock().await;
        let audit = |error: StoreError| BuildError {
            problems: vec![Problem::new("the database", error.to_string(), "see to it, then reload again")],
        };
        match load(&self.source, registry).await {
            Ok((set, notes)) => {
                let before = self.current();
                let active = activate(&set, store, clock, ids).await.map_err(audit)?;
                let changed = before.set.hash() != set.hash();
                self.swap(Arc::new(set), active.generation);
                Ok(PolicyReload { hash: active.hash, changed, notes })
            }
            Err(problems) => {
                let refused = refused(Some(self.current().set.hash().to_string()), &problems);
                store.append(vec![event(clock, ids, refused)]).await.map_err(audit)?;
                Err(BuildError { problems: problems.iter().filter(|it| it.fatal).map(Problem::from).collect() })
            }
        }
    }
}

/// Parsing and validating take tens of milliseconds: not on a worker thread of the runtime.
async fn load(
    source: &PolicySource,
    registry: &Arc<Registry>,
) -> Result<(PolicySet, Vec<PolicyProblem>), Vec<PolicyProblem>> {
    let (source, registry) = (source.clone(), Arc::clone(registry));
    let loaded = tokio::task::spawn_blocking(move || policy::load(&source, &registry)).await;
    loaded.unwrap_or_else(|error| Err(vec![PolicyProblem::internal(&BoxError::from(error))]))
}

async fn activate(set: &PolicySet, store: &Store, clock: &Clock, ids: &Ids) -> Result<Active, StoreError> {
    let kind = EventKind::PolicyLoaded { policy_hash: set.hash().to_string(), previous_hash: None, files: set.files() };
    let loaded = event(clock, ids, kind);
    store.activate(Activate { hash: set.hash().to_string(), loaded }).await
}

fn refused(previous_hash: Option<String>, problems: &[PolicyProblem]) -> EventKind {
    let mut files: Vec<&str> = problems.iter().map(|it| &*it.file).collect();
    files.dedup();
    let fatal = problems.iter().filter(|it| it.fatal).count();
    EventKind::PolicyRefused { previous_hash, files: files.len(), problems: fatal }
}

fn event(clock: &Clock, ids: &Ids, kind: EventKind) -> AuditEvent {
    AuditEvent { id: ids.event(), at: clock.now(), kind, envelope: Envelope::of(&Identity::none()) }
}

impl From<&PolicyProblem> for Problem {
    fn from(it: &PolicyProblem) -> Self {
        let policy = it.policy.as_deref().map(|id| format!(" (policy `{id}`)")).unwrap_or_default();
        let fix = it.help.clone().unwrap_or_else(|| "correct the file".into());
        Self::new(format!("{}:{}:{}", it.file, it.line, it.column), format!("{}{policy}", it.what), fix)
    }
}
