//! Handlers that run on after their execution was answered: counted, and capped per capability (EXE-10).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::rejection::Rejection;

/// How many handlers of one capability may run on before it takes no new calls.
const CAP: usize = 32;

/// One counter a procedure.
#[derive(Clone)]
pub(crate) struct Abandoned(Arc<[AtomicUsize]>);

impl Abandoned {
    pub(crate) fn new(procedures: usize) -> Self {
        Self((0..procedures).map(|_| AtomicUsize::new(0)).collect())
    }

    /// Whether another run may begin.
    pub(crate) fn admit(&self, procedure: usize) -> Result<(), Rejection> {
        if self.0[procedure].load(Ordering::Relaxed) < CAP {
            Ok(())
        } else {
            Err(Rejection::Unavailable("too many runs of this capability ignored their deadline and still go on"))
        }
    }

    /// Counts one until the place is dropped.
    pub(crate) fn enter(&self, procedure: usize) -> Place {
        self.0[procedure].fetch_add(1, Ordering::Relaxed);
        Place { all: self.clone(), procedure }
    }
}

/// An abandoned handler's place in the count.
pub(crate) struct Place {
    all: Abandoned,
    procedure: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.0[self.procedure].fetch_sub(1, Ordering::Relaxed);
    }
}
