//! The kit with which an application tests its governance: its own builder, a clock that stands still, counted ids,
//! a trail that is the same from run to run.
//!
//! ```
//! # async fn doc() -> Result<(), countersign::BuildError> {
//! use countersign::testing::TestApp;
//! use countersign::{Actor, Capability, Engine, HandlerError, Invocation, PolicySource, Risk, Surface};
//!
//! async fn ping(_: Invocation, (): ()) -> Result<String, HandlerError> {
//!     Ok("pong".into())
//! }
//!
//! let everybody = "@id(\"everybody\") permit (principal, action in Action::\"invoke\", resource);";
//! let builder = Engine::builder()
//!     .capability(Capability::none("ping").risk(Risk::Low).description("Answers.").expose([Surface::Direct]).handler(ping))
//!     .policies(PolicySource::Files(vec![("all.cedar".into(), everybody.into())]));
//! let app = TestApp::new(builder, |_| ()).await?;
//! let outcome = app.on_behalf_of(Actor::user("dana")).invoke("ping", serde_json::json!({})).await;
//! assert_eq!(outcome.output().and_then(|it| it.as_str()), Some("pong"));
//! println!("{}", app.trail().await);
//! # Ok(())
//! # }
//! ```

mod approver;
mod assert;
pub mod drift;
mod entities;
mod filters;
mod handlers;
mod trail;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

pub use approver::{Answer, TestApprover};
pub use entities::TestEntities;
pub use filters::filters;
pub use handlers::Run;
pub use trail::{Entry, Trail};

use handlers::Handlers;

use crate::actor::{Identity, Surface};
use crate::builder::{BuildError, EngineBuilder, Problem};
use crate::caller::Caller;
use crate::clock::{Clock, Timestamp};
use crate::deciding::Approvals;
use crate::engine::{Engine, Gateway};
use crate::executions::Executions;
use crate::id::Ids;
use crate::store::{EventFilter, Probe};

/// When every test begins: 2026-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp(1_767_225_600_000_000);

/// Seals stored inputs and keys evidence, so that hashes in trails are stable. [`TestApp`] uses it unless the builder
/// brought one.
pub const KEY: [u8; 32] = [7; 32];

/// How many events one page of a trail has.
const PAGE: usize = 500;

/// A directory with a database, and the clock and ids of everything that opens it. Gone with its last clone.
///
/// Two [`TestApp`]s at one place are two processes on one database, or one process before and after a deploy.
#[derive(Clone)]
pub struct Place {
    directory: Arc<TempDir>,
    clock: TestClock,
    ids: Ids,
}

impl Place {
    /// A new, empty one.
    ///
    /// # Errors
    /// If no temporary directory can be made.
    pub fn new() -> std::io::Result<Self> {
        let directory = Arc::new(tempfile::tempdir()?);
        Ok(Self { directory, clock: TestClock(Clock::manual(START)), ids: Ids::Counted(Arc::default()) })
    }

    /// The database file.
    pub fn database(&self) -> PathBuf {
        self.directory.path().join("test.db")
    }

    /// The clock of everything at this place.
    pub fn clock(&self) -> &TestClock {
        &self.clock
    }
}

/// An application under test. Its surface is whatever the test claims; everything else is the real engine.
pub struct TestApp<C> {
    engine: Engine<C>,
    gateway: Gateway,
    place: Place,
    probe: Probe,
    handlers: Handlers<C>,
    no_context: Arc<AtomicBool>,
}

impl<C: Send + Sync + 'static> TestApp<C> {
    /// Builds the application's engine over a database of its own; `context` makes the context of each call.
    ///
    /// Database, sealing key, clock and ids are the kit's. Leases and sweeps never come due, unless the builder says
    /// how long they are: a test that moves the clock by a day does not mean that its process is dead.
    ///
    /// # Errors
    /// Whatever [`EngineBuilder::build`] reports.
    pub async fn new(
        builder: EngineBuilder<C>,
        context: impl Fn(&Identity) -> C + Send + Sync + 'static,
    ) -> Result<Self, BuildError> {
        let place = Place::new().map_err(|error| BuildError {
            problems: vec![Problem::new("the temporary directory", error.to_string(), "see to it, then test again")],
        })?;
        Self::open(builder, context, &place).await
    }

    /// As [`Self::new`], at a place that others use too.
    ///
    /// # Errors
    /// Whatever [`EngineBuilder::build`] reports.
    pub async fn open(
        builder: EngineBuilder<C>,
        context: impl Fn(&Identity) -> C + Send + Sync + 'static,
        place: &Place,
    ) -> Result<Self, BuildError> {
        let (handlers, no_context) = (Handlers::default(), Arc::new(AtomicBool::new(false)));
        let fails = Arc::clone(&no_context);
        let mut builder =
            handlers.around(builder).database(format!("sqlite:{}", place.database().display())).unhurried();
        if !builder.has_key() {
            builder = builder.sealing_key(KEY);
        }
        builder.clock = place.clock.0.clone();
        builder.ids = place.ids.clone();
        let probe = builder.store_probe.clone();
        let engine = builder.build().await?;
        let gateway = engine.gateway(move |identity| {
            let fails = fails.load(Ordering::Relaxed);
            std::future::ready(if fails { Err("the test wants no context") } else { Ok(context(&identity)) })
        });
        Ok(Self { engine, gateway, place: place.clone(), probe, handlers, no_context })
    }

    /// A caller over the library surface.
    pub fn on_behalf_of(&self, identity: impl Into<Identity>) -> Caller {
        self.over(Surface::Direct, identity)
    }

    /// A caller over any surface: a test may claim one, an application may not.
    pub fn over(&self, surface: Surface, identity: impl Into<Identity>) -> Caller {
        self.gateway.caller(identity.into(), surface)
    }

    /// Approvals as this party sees them.
    pub fn approvals(&self, identity: impl Into<Identity>) -> Approvals {
        self.engine.approvals(identity)
    }

    /// Executions after the fact, as this party sees them.
    pub fn executions(&self, identity: impl Into<Identity>) -> Executions {
        self.engine.executions(identity)
    }

    /// Its gateway: for servers, which know no context type.
    pub fn gateway(&self) -> Gateway {
        self.gateway.clone()
    }

    /// Whose credentials a server over this application takes, by the clock of the kit. `base` is the directory that
    /// relative paths count from.
    ///
    /// # Errors
    /// Every problem at once, each with what to do.
    #[cfg(feature = "http")]
    pub async fn auth(
        &self,
        settings: &crate::auth::AuthSettings,
        base: &std::path::Path,
    ) -> Result<crate::auth::Auth, BuildError> {
        let opened = crate::auth::Auth::open(settings, base, self.place.clock.0.clone()).await;
        opened.map_err(|problems| BuildError { problems })
    }

    /// The engine itself.
    pub fn engine(&self) -> &Engine<C> {
        &self.engine
    }

    /// Where the records are.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The clock that the engine reads and that its deadlines wait on.
    pub fn clock(&self) -> &TestClock {
        self.place.clock()
    }

    /// Every governed attempt that reached its handler, `orders.refund #1`: what "denied" must leave empty.
    pub fn effects(&self) -> Vec<String> {
        self.runs().iter().map(ToString::to_string).collect()
    }

    /// Everything on record, in the order of the log, in a form that is the same from run to run.
    ///
    /// # Panics
    /// If the database cannot be read.
    #[expect(clippy::expect_used, reason = "a test that cannot read its trail has failed")]
    pub async fn trail(&self) -> Trail {
        let (mut bodies, mut filter) = (Vec::new(), EventFilter::default());
        loop {
            let page = self.engine.core.store.events(&filter, PAGE).await.expect("the trail is readable");
            let Some((last, _)) = page.last() else { return Trail::new(&bodies) };
            filter.after_seq = *last;
            bodies.extend(page);
        }
    }

    /// The part of the trail that is about one execution.
    ///
    /// # Panics
    /// If the database cannot be read.
    pub async fn trail_of(&self, execution: &str) -> Trail {
        self.trail().await.of(execution)
    }

    /// What policies saw of calls of capabilities that keep it, in the order of time: what the engine recorded of each
    /// decision beside its events. The first 1,000.
    ///
    /// # Panics
    /// If the database cannot be read, or a copy does not open.
    #[expect(clippy::expect_used, reason = "a test that cannot read its decisions has failed")]
    pub async fn decisions(&self) -> Vec<Value> {
        let all = self.engine.core.store.decision_records(Timestamp(0), None, usize::MAX).await;
        let shown = |it: crate::store::op::SeenRecord| {
            json!({
                "executionId": it.execution, "place": it.place, "tenant": it.tenant, "capability": it.capability,
                "policyHash": it.policy_hash, "decidedAt": it.decided_at, "facts": it.facts.expect("it opens"),
            })
        };
        all.expect("the decisions are readable").into_iter().map(shown).collect()
    }

    /// How many transactions this process has committed.
    pub fn commits(&self) -> u64 {
        self.probe.commits()
    }

    /// Makes every transaction of this process fail, or work again.
    pub fn break_store(&self, broken: bool) {
        self.probe.set_broken(broken);
    }

    /// The next commits happen, and their replies are lost.
    pub fn lose_replies(&self, count: u32) {
        self.probe.lose_replies(count);
    }

    /// The next commits do not happen, and nobody is told.
    pub fn lose_commits(&self, count: u32) {
        self.probe.lose_commits(count);
    }

    /// Makes every application context fail, or work again.
    pub fn fail_contexts(&self, fail: bool) {
        self.no_context.store(fail, Ordering::Relaxed);
    }
}

/// Every event of a database file, with its place in the log, whoever wrote it.
///
/// # Panics
/// If the file cannot be read, or holds what is no event.
#[expect(clippy::expect_used, reason = "a test that cannot read its events has failed")]
pub async fn stored_events(database: impl AsRef<std::path::Path>) -> Vec<(i64, crate::AuditEvent)> {
    let stored = crate::store::stored(database.as_ref()).await.expect("the database is readable");
    let event = |body: &str| serde_json::from_str(body).expect("an event");
    stored.iter().map(|(seq, body)| (*seq, event(body))).collect()
}

/// Stands still until it is moved.
#[derive(Clone, Debug)]
pub struct TestClock(Clock);

impl TestClock {
    /// The time.
    pub fn now(&self) -> Timestamp {
        self.0.now()
    }

    /// Moves on, and wakes whatever waited for less: deadlines, graces, back-offs, leases, sweeps.
    pub fn advance(&self, by: Duration) {
        if let Clock::Manual(now) = &self.0 {
            now.send_modify(|it| *it = it.plus(by));
        }
    }
}
