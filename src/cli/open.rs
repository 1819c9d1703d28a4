//! Opening the engine that a command works with, and reading what a flag points to.

use std::convert::Infallible;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::actors::identity;
use super::args::{As, Place};
use super::failure::Failure;
use super::policy::render;
use super::screen::print_error;
use super::user::issuer;
use crate::builder::{self, Role};
use crate::clock::Clock;
use crate::demo::{self, Desk};
use crate::id::Ids;
use crate::pipeline::Core;
use crate::registry::Registry;
use crate::store::{self, Config, KeySource, Probe, Readers, Store};
use crate::{BuildError, Caller, Engine, Identity, PolicySets, PolicySource, Surface, policy};

/// The most bytes that are read of an input: one more than the pipeline takes, so that it is the one to refuse.
const MAX_INPUT: u64 = 1024 * 1024 + 1;

/// Whether a command makes the database that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Database {
    /// A first call may.
    Created,
    /// What is not there cannot be read or decided.
    Existing,
}

/// The demo application on a database, for one command.
pub(super) struct Session {
    pub(super) engine: Engine<Desk>,
}

impl Session {
    pub(super) async fn open(db: &str, place: &Place, role: Role, database: Database) -> Result<Self, Failure> {
        // Who names no policies goes by those that are active.
        let role = match role {
            Role::Looks if place.policies.is_none() => Role::Follows,
            Role::Visits if place.policies.is_none() => Role::Joins,
            Role::Serves | Role::Visits | Role::Looks | Role::Follows | Role::Joins => role,
        };
        let source = source(place.policies.as_deref())?;
        check_database(db, database)?;
        Self::build(source, db, role, !place.format.json).await
    }

    /// For work on the active policies themselves: they are taken as they are, and none are proposed.
    pub(super) async fn follow(db: &str) -> Result<Self, Failure> {
        check_database(db, Database::Existing)?;
        Self::build(demo::policies(), db, Role::Follows, false).await
    }

    async fn build(source: PolicySource, db: &str, role: Role, shows_notes: bool) -> Result<Self, Failure> {
        let built = demo::builder().policies(source.clone()).database(db).role(role).build_with_notes().await;
        match built {
            Ok((engine, notes)) => {
                for note in notes.iter().filter(|_| shows_notes) {
                    print_error(&render(note));
                }
                Ok(Self { engine })
            }
            // Policies are wrong in themselves, whatever the database: their own report says more.
            Err(error) => match policy::load(&source, &registry()?) {
                Err(problems) => Err(Failure::of_policies(problems)),
                Ok(_) => Err(Failure::of_engine(&error)),
            },
        }
    }

    /// A caller with a desk of its own tenant. The surface is the operator's word.
    pub(super) fn caller(&self, identity: Identity, surface: Surface) -> Caller {
        let desk = Desk::default();
        let make = move |identity: Arc<Identity>| {
            let desk = desk.of_tenant(identity.tenant_name());
            async move { Ok::<_, Infallible>(desk) }
        };
        self.engine.gateway(make).caller(identity, surface)
    }

    /// Policy sets in an actor's name: changes come in through the command line, and the record says who sat there.
    pub(super) fn policies(&self, who: &As) -> Result<PolicySets, Failure> {
        let identity = identity(who.actor.as_deref())?;
        Ok(PolicySets { core: Arc::clone(self.core()), identity, via: "cli".into(), issuer: Some(issuer()) })
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.engine.core
    }

    /// Waits for what still runs, and for the records.
    pub(super) async fn close(self) {
        self.engine.shutdown(Duration::from_secs(10)).await;
    }
}

/// What an operator reads, of a database that is not written for it.
pub(super) enum Records {
    /// By readers alone.
    Readers(Readers),
    /// It had to be upgraded first.
    Session(Session),
}

impl Records {
    pub(super) async fn open(db: &str) -> Result<Self, Failure> {
        let path = check_database(db, Database::Existing)?;
        let found = store::look(&path, Clock::System).await;
        match found.map_err(|it| Failure::of_engine(&BuildError { problems: vec![it.into()] }))? {
            Some(readers) => Ok(Self::Readers(readers)),
            None => Ok(Self::Session(Session::follow(db).await?)),
        }
    }

    pub(super) fn readers(&self) -> &Readers {
        match self {
            Self::Readers(readers) => readers,
            Self::Session(session) => session.core().store.readers(),
        }
    }

    pub(super) async fn close(self) {
        match self {
            Self::Readers(readers) => readers.close().await,
            Self::Session(session) => session.close().await,
        }
    }
}

/// How long a command holds its lease: as any other process. It comes and goes, so that it never sweeps.
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// The records alone: whatever application they are of, and whatever its policies.
pub(super) async fn store(path: PathBuf) -> Result<Store, Failure> {
    let config = Config {
        path,
        clock: Clock::System,
        ids: Ids::Random,
        lease: LEASE,
        renew: LEASE / 6,
        sweep: None,
        keep_decisions: LEASE, // nothing is swept
        key: KeySource::File,
        probe: Probe::default(),
    };
    Store::open(config).await.map_err(|it| {
        let problem = builder::Problem::from(it);
        Failure::could_not_run(format!("{}: {}", problem.at, problem.what), problem.fix)
    })
}

/// The demo's capabilities, without an engine.
pub(super) fn registry() -> Result<Registry, Failure> {
    let drafts = demo::capabilities().into_iter().map(|it| it.draft).collect();
    Registry::new(drafts).map_err(|problems| {
        let causes: Vec<_> = problems.iter().map(|it| format!("{}: {}", it.at, it.what)).collect();
        Failure::could_not_run(causes.join("; "), "report it: the demo's own capabilities are at fault")
    })
}

/// Where policies are.
pub(super) fn source(directory: Option<&Path>) -> Result<PolicySource, Failure> {
    let Some(directory) = directory else { return Ok(demo::policies()) };
    if directory.is_dir() {
        return Ok(directory.to_path_buf().into());
    }
    let next = "name a directory of `*.cedar` files, or leave it out for the demo's own policies";
    Err(Failure::could_not_run(format!("there is no directory `{}`", directory.display()), next))
}

pub(super) fn check_database(url: &str, wanted: Database) -> Result<PathBuf, Failure> {
    let path = builder::path(Some(url)).map_err(|it| {
        Failure::could_not_run(format!("{}: {}", it.at, it.what), "name it like `--db sqlite:countersign.db`")
    })?;
    if wanted == Database::Existing && !path.exists() {
        let next = "name the right one with `--db`; a first call makes one: \
            `countersign invoke orders.search --input '{\"query\":\"lamp\"}' --actor dana`";
        return Err(Failure::could_not_run(format!("there is no database `{}`", path.display()), next));
    }
    Ok(path)
}

/// JSON text from a flag: itself, `@FILE`, or `-`.
pub(super) fn text(flag: &str, given: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = match given.strip_prefix('@') {
        Some(file) => std::fs::File::open(file).and_then(|it| it.take(MAX_INPUT).read_to_end(&mut bytes)),
        None if given == "-" => std::io::stdin().lock().take(MAX_INPUT).read_to_end(&mut bytes),
        None => return Ok(given.to_owned()),
    };
    let from = given.strip_prefix('@').map_or_else(|| "standard input".to_owned(), |it| format!("`{it}`"));
    read.map_err(|error| {
        let next = format!("give the JSON itself, or `{flag} @FILE` with a file that can be read");
        Failure::could_not_run(format!("{from} cannot be read: {error}"), next)
    })?;
    String::from_utf8(bytes)
        .map_err(|_| Failure::invalid(format!("{from} is not UTF-8 text"), format!("give `{flag}` JSON in UTF-8")))
}
