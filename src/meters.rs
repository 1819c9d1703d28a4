//! What operators count: metrics of this process, and a few of what is on record, in the Prometheus text format.
//!
//! Counting is relaxed atomics in places that are there before the first call: a capability has its own, found by its
//! place in the registry, so that nothing is looked up by labels and no caller can make a new series.

mod family;
mod histogram;
mod text;

use std::collections::BTreeMap;
#[cfg(feature = "http")]
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::family::Scrape;
pub(crate) use self::family::{Beside, Family};
#[cfg(feature = "otel")]
pub(crate) use self::family::{Labels, Points, UNKNOWN, Value};
pub(crate) use self::histogram::Histogram;
#[cfg(feature = "otel")]
pub(crate) use self::histogram::Seen;
use crate::LogHealth;
#[cfg(feature = "http")]
use crate::auth::{AuthFailure, Keyring};
use crate::clock::{Clock, Monotonic};
use crate::outcome::{ErrorCode, Outcome};
use crate::registry::Registry;
use crate::stage::Stage;
use crate::store::Figures;

/// How many methods, routes and statuses are told apart: of further ones the route is not.
#[cfg(feature = "http")]
const MAX_SERIES: usize = 256;

/// How many stages there are.
const STAGES: usize = Stage::Reply as usize + 1;

/// The metrics of one engine. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Meters(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    /// By place in the registry; behind them, one for every name that nothing is registered under.
    capabilities: Box<[Executions]>,
    stages: Arc<Stages>,
    /// Whole HTTP requests by route; streams count when they begin.
    requests: Mutex<BTreeMap<Request, u64>>,
    /// By class.
    #[cfg(feature = "http")]
    authentication: [AtomicU64; AuthFailure::ALL.len()],
    /// Of the issuers whose tokens are taken.
    #[cfg(feature = "http")]
    keys: Mutex<Vec<Arc<Keyring>>>,
    streams: AtomicU64,
}

/// A finished request: method, route (never a path) and status.
pub(crate) type Request = (&'static str, &'static str, u16);

/// Metrics as text (version 0.0.4).
pub(crate) fn text(told: Vec<Family>) -> String {
    text::of(told)
}

/// How executions of one capability ended, and how long they took.
#[derive(Debug)]
struct Executions {
    name: String,
    completed: AtomicU64,
    replayed: AtomicU64,
    waiting: AtomicU64,
    failed: [AtomicU64; ErrorCode::ALL.len()],
    cancelled: [AtomicU64; ErrorCode::ALL.len()],
    durations: Histogram,
}

/// How long executions were in each stage.
#[derive(Debug)]
pub(crate) struct Stages([Histogram; STAGES]);

/// How long one execution was in the stage that it is in.
pub(crate) struct Watch {
    stages: Arc<Stages>,
    since: Monotonic,
}

impl Watch {
    /// The execution leaves a stage.
    pub(crate) fn leaves(&mut self, stage: Stage, clock: &Clock) {
        let now = clock.monotonic();
        if let Some(histogram) = self.stages.0.get(stage as usize) {
            histogram.observe(now.since(self.since));
        }
        self.since = now;
    }
}

impl Meters {
    pub(crate) fn new(registry: &Registry) -> Self {
        let names = registry.all().iter().map(|it| it.id.to_string());
        let capabilities = names.chain([String::new()]).map(Executions::new).collect();
        Self(Arc::new(Counted {
            capabilities,
            stages: Arc::new(Stages(std::array::from_fn(|_| Histogram::default()))),
            requests: Mutex::default(),
            #[cfg(feature = "http")]
            authentication: std::array::from_fn(|_| AtomicU64::default()),
            #[cfg(feature = "http")]
            keys: Mutex::default(),
            streams: AtomicU64::new(0),
        }))
    }

    /// For an execution that begins.
    pub(crate) fn watch(&self, clock: &Clock) -> Watch {
        Watch { stages: Arc::clone(&self.0.stages), since: clock.monotonic() }
    }

    /// An execution ended. `place`: that of its capability in the registry, if it has one.
    pub(crate) fn ended(&self, place: Option<usize>, outcome: &Outcome, took: Duration) {
        let all = &self.0.capabilities;
        let Some(executions) = place.and_then(|it| all.get(it)).or_else(|| all.last()) else { return };
        let counter = match outcome {
            Outcome::Completed { replayed: true, .. } => &executions.replayed,
            Outcome::Completed { .. } => &executions.completed,
            Outcome::ApprovalRequired { .. } => &executions.waiting,
            Outcome::Failed { error, .. } => &executions.failed[error.code as usize],
            Outcome::Cancelled { error, .. } => &executions.cancelled[error.code as usize],
        };
        counter.fetch_add(1, Ordering::Relaxed);
        executions.durations.observe(took);
    }

    /// A request was answered.
    #[cfg(feature = "http")]
    pub(crate) fn answered(&self, request: Request) {
        let mut counted = self.0.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let more = (request.0, "more", request.2);
        let key = if counted.len() < MAX_SERIES || counted.contains_key(&request) { request } else { more };
        *counted.entry(key).or_default() += 1;
    }

    /// A credential was refused.
    #[cfg(feature = "http")]
    pub(crate) fn refused(&self, failure: AuthFailure) {
        self.0.authentication[failure as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Whose keys are told of: those of the server that was made last.
    #[cfg(feature = "http")]
    pub(crate) fn tells_of(&self, keys: Vec<Arc<Keyring>>) {
        *self.0.keys.lock().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Counts a stream until it is dropped.
    #[cfg(feature = "http")]
    pub(crate) fn stream(&self) -> Streaming {
        self.0.streams.fetch_add(1, Ordering::Relaxed);
        Streaming(Arc::clone(&self.0))
    }

    /// All of them. `figures` is what the store says.
    pub(crate) fn told(&self, figures: Figures, running: usize, log: LogHealth, beside: Beside) -> Vec<Family> {
        Scrape { counted: Arc::clone(&self.0), figures, running, log, beside }.families()
    }
}

/// An open stream.
#[cfg(feature = "http")]
pub(crate) struct Streaming(Arc<Counted>);

#[cfg(feature = "http")]
impl Drop for Streaming {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Executions {
    fn new(name: String) -> Self {
        Self {
            name,
            completed: AtomicU64::default(),
            replayed: AtomicU64::default(),
            waiting: AtomicU64::default(),
            failed: std::array::from_fn(|_| AtomicU64::default()),
            cancelled: std::array::from_fn(|_| AtomicU64::default()),
            durations: Histogram::default(),
        }
    }
}
