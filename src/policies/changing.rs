//! One change of the active set: from files to the row that decides.

use std::sync::Arc;

use super::Loaded;
use crate::audit::{AuditEvent, Envelope, EventKind, PolicyChanges, PolicyOrigin};
use crate::builder::Problem;
use crate::clock::Clock;
use crate::id::Ids;
use crate::policy::{self, PolicyProblem, PolicySet, PolicySource};
use crate::registry::Registry;
use crate::store::op::{Activate, Activated};
use crate::store::{Store, StoreError};
use crate::{BoxError, Identity};

/// What a change needs of the engine.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) registry: &'a Arc<Registry>,
    pub(crate) store: &'a Store,
    pub(crate) clock: &'a Clock,
    pub(crate) ids: &'a Ids,
}

impl Around<'_> {
    fn event(self, kind: EventKind, by: &By) -> AuditEvent {
        AuditEvent { id: self.ids.event(), at: self.clock.now(), kind, envelope: by.envelope.clone() }
    }
}

/// Who changes the active set, for the record.
pub(crate) struct By {
    pub(super) envelope: Envelope,
    /// How it came in.
    pub(super) via: Option<String>,
    /// The generation under which it was allowed.
    pub(super) under: Option<i64>,
    /// What is recorded as done.
    pub(super) action: Option<&'static str>,
}

impl By {
    /// The application itself: nobody asks it.
    pub(crate) fn process() -> Self {
        Self { envelope: Envelope::of(&Identity::none()), via: None, under: None, action: None }
    }

    pub(super) fn done(&self, around: Around<'_>) -> Vec<AuditEvent> {
        let kind = |it: &'static str| EventKind::ManagementDone {
            action: it.into(),
            count: None,
            approval_id: None,
            execution_id: None,
        };
        self.action.map(|it| around.event(kind(it), self)).into_iter().collect()
    }
}

/// Why the active set is what it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unchanged {
    /// At least one is fatal.
    #[error("it does not load: {}", first_of(.0))]
    Problems(Vec<PolicyProblem>),
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("another set became active at the same time")]
    Overtaken,
}

fn first_of(problems: &[PolicyProblem]) -> String {
    let first = problems.iter().find(|it| it.is_fatal());
    first.map(|it| format!("{}:{}: {}", it.file, it.line, it.what)).unwrap_or_default()
}

impl Unchanged {
    pub(super) fn into_problems(self) -> Vec<Problem> {
        match self {
            Self::Problems(problems) => problems.iter().filter(|it| it.is_fatal()).map(Problem::from).collect(),
            Self::Store(_) => vec![Problem::new("the database", self.to_string(), "see to it, then try again")],
            Self::Overtaken => vec![Problem::new("the active policy set", self.to_string(), "try again")],
        }
    }
}

/// A set with its notes, or everything that is wrong with it.
pub(super) type Checked = Result<(PolicySet, Vec<PolicyProblem>), Vec<PolicyProblem>>;

/// With a digest of what was read. Parsing and validating take tens of milliseconds: not on a worker thread of the runtime.
pub(super) async fn load(source: &PolicySource, registry: &Arc<Registry>) -> (String, Checked) {
    let (source, registry) = (source.clone(), Arc::clone(registry));
    let loaded = tokio::task::spawn_blocking(move || {
        let read = policy::read(&source);
        (read.content(), read.load(&registry))
    });
    let failed = |error| (String::new(), Err(vec![PolicyProblem::internal(&BoxError::from(error))]));
    loaded.await.unwrap_or_else(failed)
}

/// The digest that [`load`] would come with, if it can be read.
pub(super) async fn content(source: &PolicySource) -> Option<String> {
    let source = source.clone();
    tokio::task::spawn_blocking(move || policy::read(&source).content()).await.ok()
}

/// The set that a copy in the store is, under these capabilities: its hash may be another one.
pub(super) async fn copied(hash: &str, registry: &Arc<Registry>, store: &Store) -> Result<PolicySet, Unchanged> {
    let texts = match store.copy(hash).await? {
        Some(Ok(texts)) => texts,
        Some(Err(_)) => {
            let what = format!("the copy of `{hash}` in the database is not the one that was written");
            let next =
                "find out who changed the database; then publish a set, or start with files that say something new";
            return Err(Unchanged::Problems(vec![PolicyProblem::of_file("the active policy set", what).help(next)]));
        }
        None => {
            let missing = BoxError::from(format!("there is no copy of `{hash}`"));
            return Err(Unchanged::Problems(vec![PolicyProblem::internal(&missing)]));
        }
    };
    load(&PolicySource::Files(texts), registry).await.1.map(|it| it.0).map_err(Unchanged::Problems)
}

/// Makes the set of a process's files active. If something was published since they were proposed, that stays, under the
/// capabilities of this process.
pub(super) async fn propose(
    set: PolicySet,
    current: Option<&PolicySet>,
    around: Around<'_>,
    by: &By,
) -> Result<Loaded, Unchanged> {
    let active = match make_active(&set, PolicyOrigin::Files, current, around, by).await? {
        Activated::Done { generation, .. } => return Ok(Loaded::new(Arc::new(set), generation)),
        Activated::Kept(_) if by.under.is_some_and(|it| it != around.store.generation()) => {
            return Err(Unchanged::Overtaken);
        }
        Activated::Kept(active) => active,
    };
    let kept = match copied(&active.hash, around.registry, around.store).await {
        Err(Unchanged::Problems(problems)) => return Err(refuse(problems, current, around, by).await),
        copied => copied?,
    };
    if **kept.hash() == *active.hash {
        around.store.append(by.done(around)).await?;
        return Ok(Loaded::new(Arc::new(kept), active.generation));
    }
    let by = By { envelope: by.envelope.clone(), via: by.via.clone(), under: Some(active.generation), ..*by };
    match make_active(&kept, PolicyOrigin::CarriedOver, current, around, &by).await? {
        Activated::Done { generation, .. } => Ok(Loaded::new(Arc::new(kept), generation)),
        Activated::Kept(_) => Err(Unchanged::Overtaken),
    }
}

/// Asks the store, with a copy of the files and the events.
pub(super) async fn make_active(
    set: &PolicySet,
    origin: PolicyOrigin,
    current: Option<&PolicySet>,
    around: Around<'_>,
    by: &By,
) -> Result<Activated, StoreError> {
    let (compared, changes) = changes(set, current, around.store).await?;
    let loaded = EventKind::PolicyLoaded {
        policy_hash: set.hash().to_string(),
        previous_hash: None,
        files: set.files(),
        generation: None,
        origin,
        via: by.via.clone(),
        changes,
    };
    let activate = Activate {
        hash: set.hash().to_string(),
        files: Arc::clone(set.texts()),
        said: set.said().digest().to_owned(),
        proposed: origin == PolicyOrigin::Files,
        under: by.under,
        compared,
        loaded: around.event(loaded, by),
        events: by.done(around),
    };
    around.store.activate(activate).await
}

/// What is other than in the active set, and which one that is.
async fn changes(
    set: &PolicySet,
    current: Option<&PolicySet>,
    store: &Store,
) -> Result<(Option<String>, Option<PolicyChanges>), StoreError> {
    let Some(active) = store.active().await? else { return Ok((None, Some(set.said().since(None)))) };
    if *active.hash == **set.hash() {
        return Ok((Some(active.hash), None));
    }
    let before = match current {
        Some(current) if **current.hash() == *active.hash => Some(current.said().clone()),
        _ => match store.copy(&active.hash).await? {
            Some(Ok(texts)) => tokio::task::spawn_blocking(move || policy::said(&texts)).await.unwrap_or_default(),
            Some(Err(_)) | None => None,
        },
    };
    Ok((Some(active.hash), before.map(|it| set.said().since(Some(&it)))))
}

/// Puts a refused set on record: how many files have how many problems.
pub(super) async fn refuse(
    problems: Vec<PolicyProblem>,
    current: Option<&PolicySet>,
    around: Around<'_>,
    by: &By,
) -> Unchanged {
    let mut files: Vec<&str> = problems.iter().map(|it| &*it.file).collect();
    files.dedup();
    let fatal = problems.iter().filter(|it| it.is_fatal()).count();
    let previous_hash = current.map(|it| it.hash().to_string());
    let refused = EventKind::PolicyRefused { previous_hash, files: files.len(), problems: fatal };
    if let Err(error) = around.store.append(vec![around.event(refused, by)]).await {
        tracing::error!(error = &error as &dyn std::error::Error, "a refused policy set is not on record");
    }
    Unchanged::Problems(problems)
}
