//! An actor is present and well formed.

use std::sync::Arc;

use crate::actor::Actor;
use crate::caller::{Call, Presented};
use crate::rejection::Rejection;
use crate::trail::Trail;

/// A call with an actor. Cloned only to go through the later stages again.
#[derive(Clone)]
pub(crate) struct Identified {
    call: Call,
    actor: Arc<Actor>,
}

impl Identified {
    pub(super) fn call(&self) -> &Call {
        &self.call
    }

    /// The same call, presenting this approval.
    pub(super) fn presenting(mut self, approval: Option<Arc<Presented>>) -> Self {
        self.call.presented = approval;
        self
    }

    pub(super) fn actor(&self) -> &Arc<Actor> {
        &self.actor
    }
}

/// Whatever was asked for: no actor, no answer (INV-1).
pub(crate) fn require(_: &mut Trail, call: Call) -> Result<Identified, Rejection> {
    let identity = &call.identity;
    match identity.actor.clone() {
        Some(actor) if identity.is_sound() && actor.is_well_formed() => Ok(Identified { call, actor }),
        Some(_) | None => Err(Rejection::Unauthenticated),
    }
}
