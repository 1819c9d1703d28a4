//! The active policy set of an engine: proposed, followed, swapped.
//!
//! Files are proposals. The row in the store decides, and beside it are copies of what it names, so that every process
//! can have the active set, whatever its own files say.

mod changing;
mod history;
mod sets;
mod shadow;
mod watch;

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Mutex;

pub(crate) use self::changing::{Around, By, Unchanged};
pub use self::history::PolicyActivation;
#[cfg(feature = "cli")]
pub(crate) use self::history::policy_history;
#[cfg(feature = "cli")]
pub(crate) use self::sets::Called;
pub use self::sets::{PolicyCheck, PolicyRefusal, PolicySets};
pub(crate) use self::shadow::Asked;
pub(crate) use self::watch::watch;

use self::changing::{content, copied, load, make_active, propose, refuse};
use self::shadow::Shadow;
use crate::audit::PolicyOrigin;
use crate::builder::{BuildError, Problem, Role};
use crate::policy::{PolicyProblem, PolicySet, PolicySource};
use crate::registry::Registry;
use crate::store::Store;
use crate::store::op::{Activated, Active};

/// The generation of a set that only looks.
const NEVER_ACTIVE: i64 = -1;

/// A policy set with the generation of the active-set row under which it decides.
pub(crate) struct Loaded {
    pub(crate) set: Arc<PolicySet>,
    pub(crate) generation: i64,
    /// A candidate that is asked beside it.
    shadow: Option<Shadow>,
}

impl Loaded {
    fn new(set: Arc<PolicySet>, generation: i64) -> Self {
        Self { set, generation, shadow: None }
    }

    /// The generation that what it allows must still find. `None`: of a process that only looks.
    pub(crate) fn deciding(&self) -> Option<i64> {
        self.is_ruling().then_some(self.generation)
    }

    /// Whether it is, or was, the active set; not that of a process that only looks.
    pub(crate) fn is_ruling(&self) -> bool {
        self.generation != NEVER_ACTIVE
    }
}

/// The active set, and where this process's proposals come from.
pub(crate) struct Policies {
    source: PolicySource,
    current: RwLock<Arc<Loaded>>,
    /// One change at a time.
    changing: Mutex<Tried>,
}

/// What need not be tried again.
#[derive(Default)]
struct Tried {
    /// The content of this process's files when they were last loaded, whatever came of it.
    content: Option<String>,
    /// The generation of an active set that cannot be had here, however often it is tried.
    unfit: Option<i64>,
    /// Whether the last content could not be tried to its end, which was told.
    is_put_off: bool,
}

impl Tried {
    /// Whether there is an answer to this content. Without one, of a store that failed say, it is still to be tried.
    fn settles(&mut self, content: String, done: &Result<PolicyReload, Unchanged>) -> bool {
        let is_settled = matches!(done, Ok(_) | Err(Unchanged::Problems(_)));
        if is_settled {
            self.content = Some(content);
        }
        is_settled
    }
}

/// What a change of the policies did.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyReload {
    /// The active set's hash.
    pub hash: String,
    /// Whether it is another one than before.
    pub changed: bool,
    /// Notes and warnings.
    pub notes: Vec<PolicyProblem>,
}

impl Policies {
    /// Loads what is proposed and makes it the active set, unless something else was published since it was proposed.
    pub(crate) async fn open(
        source: PolicySource,
        role: Role,
        around: Around<'_>,
    ) -> Result<(Self, Vec<PolicyProblem>), Vec<Problem>> {
        let followed = match role {
            Role::Follows => active(around).await?,
            // One that cannot be had here is carried over by proposing.
            Role::Joins => active(around).await.unwrap_or_default().filter(Loaded::is_ruling),
            Role::Serves | Role::Visits | Role::Looks => None,
        };
        let (loaded, content, notes) = match followed {
            Some(loaded) => (loaded, None, Vec::new()),
            None => first(&source, role, around).await?,
        };
        let (current, tried) = (RwLock::new(Arc::new(loaded)), Tried { content, ..Tried::default() });
        Ok((Self { source, current, changing: Mutex::new(tried) }, notes))
    }

    /// The set that this process decides by.
    pub(crate) fn current(&self) -> Arc<Loaded> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The candidate stays.
    fn swap(&self, set: Arc<PolicySet>, generation: i64) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let shadow = current.shadow.as_ref().map(|it| Shadow::new(Arc::clone(&it.set), &set));
        *current = Arc::new(Loaded { set, generation, shadow });
    }

    /// Another candidate, or none, from the next call on.
    pub(crate) fn shadow(&self, candidate: Option<Arc<PolicySet>>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let (set, generation) = (Arc::clone(&current.set), current.generation);
        let shadow = candidate.map(|it| Shadow::new(it, &set));
        *current = Arc::new(Loaded { set, generation, shadow });
    }

    /// Another candidate, or none, that somebody chose. Its hash.
    pub(crate) async fn choose_shadow(
        &self,
        candidate: Option<&PolicySource>,
        around: Around<'_>,
        by: &By,
    ) -> Result<Option<String>, Unchanged> {
        let set = match candidate {
            Some(source) => match load(source, around.registry).await.1 {
                Ok((set, _)) => Some(Arc::new(set)),
                Err(problems) => return Err(refuse(problems, Some(&self.current().set), around, by).await),
            },
            None => None,
        };
        let _one = self.changing.lock().await;
        if by.under.is_some_and(|it| it < around.store.generation()) {
            return Err(Unchanged::Overtaken);
        }
        around.store.append(by.done(around)).await?;
        let hash = set.as_ref().map(|it| it.hash().to_string());
        self.shadow(set);
        Ok(hash)
    }

    /// The active set, which another process may have changed.
    ///
    /// If this process cannot have the active set, it stays with its own, under which nothing runs. Giving up the wait
    /// changes nothing: whoever comes next tries.
    pub(crate) async fn follow(&self, registry: &Arc<Registry>, store: &Store) -> Arc<Loaded> {
        let current = self.current();
        if current.generation == store.generation() || !current.is_ruling() {
            return current;
        }
        let mut tried = self.changing.lock().await;
        let (current, latest) = (self.current(), store.generation());
        if current.generation == latest || tried.unfit == Some(latest) {
            return current; // somebody else followed while this waited
        }
        match store.active().await {
            Ok(Some(active)) => {
                let is_new = active.generation != current.generation && tried.unfit != Some(active.generation);
                if is_new {
                    self.adopt(&active, registry, store, &mut tried).await;
                }
            }
            Ok(None) => {}
            Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "the active policy set is unknown"),
        }
        self.current()
    }

    async fn adopt(&self, active: &Active, registry: &Arc<Registry>, store: &Store, tried: &mut Tried) {
        let (current, generation) = (self.current(), active.generation);
        if **current.set.hash() == *active.hash {
            return self.swap(Arc::clone(&current.set), generation);
        }
        let why = match copied(&active.hash, registry, store).await {
            Ok(set) if **set.hash() == *active.hash => return self.swap(Arc::new(set), generation),
            Ok(_) => "its policies are about other capabilities than this process has".to_owned(),
            Err(Unchanged::Store(error)) => {
                return tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the active policy set cannot be read"
                );
            }
            Err(unchanged) => unchanged.to_string(),
        };
        tried.unfit = Some(generation);
        let (mine, active) = (&**current.set.hash(), &*active.hash);
        tracing::error!(active, mine, why, "another policy set is active and cannot be had here: this process denies");
    }

    /// Loads what is proposed now; a bad set leaves the old one active, on record.
    pub(crate) async fn reload(&self, around: Around<'_>, by: &By) -> Result<PolicyReload, Unchanged> {
        let mut tried = self.changing.lock().await;
        let (content, loaded) = load(&self.source, around.registry).await;
        let done = self.proposed(loaded, around, by).await;
        tried.settles(content, &done);
        done
    }

    /// As [`Self::reload`], if the files' content is another one than when they were last loaded. A bad set is on record
    /// once. False if it is to be tried again, though nothing changes any more.
    pub(crate) async fn reload_changed(&self, around: Around<'_>) -> bool {
        let mut tried = self.changing.lock().await;
        if tried.content.is_some() && tried.content == content(&self.source).await {
            return true;
        }
        let (content, loaded) = load(&self.source, around.registry).await;
        let done = self.proposed(loaded, around, &By::process()).await;
        let is_settled = tried.settles(content, &done);
        let is_told = std::mem::replace(&mut tried.is_put_off, !is_settled);
        match done {
            Err(_) if is_told && !is_settled => {}
            Ok(PolicyReload { hash, changed, .. }) => tracing::info!(hash, changed, "policies were loaded anew"),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "the policies on disk are not the active ones");
            }
        }
        is_settled
    }

    async fn proposed(
        &self,
        loaded: changing::Checked,
        around: Around<'_>,
        by: &By,
    ) -> Result<PolicyReload, Unchanged> {
        let before = self.current();
        let (set, notes) = match loaded {
            Ok(loaded) => loaded,
            Err(problems) => return Err(refuse(problems, Some(&before.set), around, by).await),
        };
        let now = propose(set, Some(&before.set), around, by).await?;
        let hash = now.set.hash().to_string();
        let changed = *hash != **before.set.hash();
        self.swap(now.set, now.generation);
        Ok(PolicyReload { hash, changed, notes })
    }

    /// Makes a set active that somebody chose.
    pub(crate) async fn choose(
        &self,
        source: &PolicySource,
        origin: PolicyOrigin,
        around: Around<'_>,
        by: &By,
    ) -> Result<PolicyReload, Unchanged> {
        let (set, notes) = match load(source, around.registry).await.1 {
            Ok(loaded) => loaded,
            Err(problems) => return Err(refuse(problems, Some(&self.current().set), around, by).await),
        };
        let _one = self.changing.lock().await;
        match make_active(&set, origin, Some(&self.current().set), around, by).await? {
            Activated::Done { generation, changed } => {
                let hash = set.hash().to_string();
                self.swap(Arc::new(set), generation);
                Ok(PolicyReload { hash, changed, notes })
            }
            Activated::Kept(_) => Err(Unchanged::Overtaken),
        }
    }
}

/// A candidate that is there from the start.
pub(crate) async fn candidate(source: &PolicySource, registry: &Arc<Registry>) -> Result<Arc<PolicySet>, Vec<Problem>> {
    let loaded = load(source, registry).await.1;
    loaded.map(|it| Arc::new(it.0)).map_err(|it| Unchanged::Problems(it).into_problems())
}

/// What is active, as far as it means anything to these capabilities.
async fn active(around: Around<'_>) -> Result<Option<Loaded>, Vec<Problem>> {
    let active = around.store.active().await.map_err(|it| Unchanged::Store(it).into_problems())?;
    let Some(Active { hash, generation }) = active else { return Ok(None) };
    let set = copied(&hash, around.registry, around.store).await.map_err(Unchanged::into_problems)?;
    let generation = if **set.hash() == *hash { generation } else { NEVER_ACTIVE };
    Ok(Some(Loaded::new(Arc::new(set), generation)))
}

type First = (Loaded, Option<String>, Vec<PolicyProblem>);

/// A process's own files, when it starts.
async fn first(source: &PolicySource, role: Role, around: Around<'_>) -> Result<First, Vec<Problem>> {
    let proposes = matches!(role, Role::Serves | Role::Visits | Role::Joins);
    let (content, loaded) = load(source, around.registry).await;
    let (set, notes) = match loaded {
        Ok(loaded) => loaded,
        Err(problems) if proposes => return Err(refuse(problems, None, around, &By::process()).await.into_problems()),
        Err(problems) => return Err(Unchanged::Problems(problems).into_problems()),
    };
    let loaded = if proposes {
        propose(set, None, around, &By::process()).await.map_err(Unchanged::into_problems)?
    } else {
        Loaded::new(Arc::new(set), NEVER_ACTIVE)
    };
    Ok((loaded, Some(content), notes))
}

impl From<Unchanged> for BuildError {
    fn from(it: Unchanged) -> Self {
        Self { problems: it.into_problems() }
    }
}

impl From<&PolicyProblem> for Problem {
    fn from(it: &PolicyProblem) -> Self {
        let policy = it.policy.as_deref().map(|id| format!(" (policy `{id}`)")).unwrap_or_default();
        let fix = it.help.clone().unwrap_or_else(|| "correct the file".into());
        Self::new(format!("{}:{}:{}", it.file, it.line, it.column), format!("{}{policy}", it.what), fix)
    }
}
