//! The lease of this process (EXE-1): one row in the store, renewed by the writer; judged here by monotonic time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Monotonic};

/// What the process is called while it holds a lease. Once lost, an owner is lost for good.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) instance: String,
    /// Fires when the store has declared the instance dead.
    pub(crate) lost: CancellationToken,
}

#[derive(Debug)]
pub(super) struct Lease {
    clock: Clock,
    length: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    owner: Owner,
    /// When the last renewal that was granted had been asked for.
    renewed: Option<Monotonic>,
}

impl Lease {
    pub(super) fn new(clock: Clock, length: Duration, instance: String) -> Self {
        Self { clock, length, state: Mutex::new(State::new(instance)) }
    }

    pub(super) fn owner(&self) -> Owner {
        self.state().owner.clone()
    }

    /// Whether the lease holds for so much longer. Counted from *before* its last renewal was asked for, so that this
    /// process stops trusting it before anybody else does.
    pub(super) fn holds(&self, margin: Duration) -> bool {
        let state = self.state();
        let age = |it: Monotonic| self.clock.monotonic().since(it).saturating_add(margin);
        !state.owner.lost.is_cancelled() && state.renewed.is_some_and(|it| age(it) < self.length)
    }

    /// Whether the current instance has a row.
    pub(super) fn is_enrolled(&self) -> bool {
        self.state().renewed.is_some()
    }

    pub(super) fn renewed(&self, instance: &str, asked: Monotonic) {
        let mut state = self.state();
        if state.owner.instance == instance {
            state.renewed = Some(asked);
        }
    }

    /// Somebody declared this instance dead: whatever it runs must stop, and the process goes on under a new id.
    pub(super) fn buried(&self, instance: &str, successor: String) {
        let mut state = self.state();
        if state.owner.instance == instance {
            state.owner.lost.cancel();
            *state = State::new(successor);
        }
    }

    /// The writer has ended: nobody renews any more.
    pub(super) fn end(&self) {
        self.state().owner.lost.cancel();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner) // no step above can be left half done
    }
}

impl State {
    fn new(instance: String) -> Self {
        Self { owner: Owner { instance, lost: CancellationToken::new() }, renewed: None }
    }
}
