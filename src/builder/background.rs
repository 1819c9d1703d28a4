//! What a serving process does besides calls: each ends by the engine's stop token, or when the engine is gone.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::BuildError;
#[cfg(feature = "http")]
use super::Problem;
use crate::actor::SharedIdentity;
use crate::engine::Engine;
#[cfg(feature = "http")]
use crate::notifications::Notifications;
#[cfg(feature = "http")]
use crate::pipeline::Core;
use crate::worker::{Requesters, Worker};
use crate::{BoxError, BoxFuture, ledger, policies, reconciling};

/// Makes the contexts of what a worker runs.
type Make<C> = Box<dyn Fn(SharedIdentity) -> BoxFuture<Result<C, BoxError>> + Send + Sync>;

/// What there is to do, besides what capabilities and policies ask for.
pub(super) struct Background<C> {
    pub(super) requesters: Option<Arc<dyn Requesters>>,
    pub(super) worker_context: Option<Make<C>>,
    #[cfg(feature = "http")]
    pub(super) notifications: Option<Notifications>,
}

impl<C: Send + Sync + 'static> Background<C> {
    pub(super) fn none() -> Self {
        Self {
            requesters: None,
            worker_context: None,
            #[cfg(feature = "http")]
            notifications: None,
        }
    }

    /// Whether a worker could run anything.
    pub(super) fn can_work(&self) -> bool {
        self.requesters.is_some() && self.worker_context.is_some()
    }

    /// Begins all of it. `watched`: the directory of policies, if it is. An error: the store does not take who is to be
    /// told.
    #[cfg_attr(not(feature = "http"), expect(clippy::unused_async, reason = "who is told of what is stored"))]
    pub(super) async fn start(
        self,
        engine: &Engine<C>,
        lease: Duration,
        sweep: Duration,
        watched: Option<PathBuf>,
    ) -> Result<(), BuildError> {
        let core = &engine.core;
        #[cfg(feature = "http")]
        deliver(core, self.notifications, lease).await?;
        let has = |what: fn(&crate::capability::Meta) -> bool| core.registry.all().iter().any(|it| what(&it.meta));
        if core.ledger.is_on() {
            spawn(ledger::follow(Arc::downgrade(core), core.clock.clone(), core.stop.clone()));
            for number in 0..core.ledger.anchors() {
                spawn(ledger::deliver(Arc::downgrade(core), number, core.clock.clone(), core.stop.clone()));
            }
        }
        if has(|it| it.reconcile.is_some()) {
            spawn(reconciling::reconcile(Arc::downgrade(core), sweep, core.clock.clone(), core.stop.clone()));
        }
        if let Some(directory) = watched {
            spawn(policies::watch(Arc::downgrade(core), directory, core.clock.clone(), core.stop.clone()));
        }
        if let (Some(requesters), Some(make), true) =
            (self.requesters, self.worker_context, has(|it| it.run_on_approval))
        {
            let context = engine.gateway(make).context;
            let worker = Worker { core: Arc::downgrade(core), requesters, context, claim: lease };
            spawn(worker.work(core.clock.clone(), core.stop.clone(), core.store.approved()));
        }
        Ok(())
    }
}

/// Says who is told of what, and tells them.
#[cfg(feature = "http")]
async fn deliver(core: &Arc<Core>, notifications: Option<Notifications>, lease: Duration) -> Result<(), BuildError> {
    let Some(notifications) = notifications else { return Ok(()) };
    if let Err(error) = core.store.subscribe(notifications.subscribers()).await {
        let what = format!("who is told of what cannot be stored: {error}");
        return Err(BuildError { problems: vec![Problem::new("the database", what, "see to it, then start again")] });
    }
    notifications.deliverers(core, lease.saturating_mul(2)).for_each(spawn);
    Ok(())
}

/// Is not one of the tasks that a shutdown waits for.
#[expect(
    clippy::disallowed_methods,
    reason = "documented: reconcile hooks, the watcher of policies, the worker, deliverers, the tree over the log"
)]
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}
