//! The engine: built once, shared by everything.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::actor::{Identity, SharedIdentity, Surface};
use crate::builder::EngineBuilder;
use crate::caller::Caller;
use crate::deciding::Approvals;
use crate::executions::Executions;
use crate::handler::HandlerError;
use crate::invocation::{Body, Bound, Context, Invocation, Next, Procedures};
use crate::ledger::{Checkpoint, LedgerError, LogHealth};
use crate::pipeline::Core;
use crate::policies::{By, PolicyReload, PolicySets};
use crate::reading::AuditLog;
use crate::{BoxError, BoxFuture, BuildError};

/// Lets agents request an application's capabilities, and signs off every call. Cheap to clone.
///
/// `C` is the application's own context, which the engine never looks into. It ends here: a [`Caller`] is not generic.
pub struct Engine<C = ()> {
    pub(crate) core: Arc<Core>,
    pub(crate) procedures: Arc<Procedures<C>>,
}

impl<C> Clone for Engine<C> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), procedures: Arc::clone(&self.procedures) }
    }
}

impl<C: Send + Sync + 'static> Engine<C> {
    /// An engine to be.
    pub fn builder() -> EngineBuilder<C> {
        EngineBuilder::new()
    }

    /// A caller with its own application context: a `C`, or an `Arc<C>` that you keep. Its surface is `direct`.
    pub fn on_behalf_of(&self, identity: impl Into<Identity>, app: impl Into<Arc<C>>) -> Caller {
        let body = Arc::new(Bound { app: app.into(), procedures: Arc::clone(&self.procedures) });
        let identity = Arc::new(identity.into().on(Surface::Direct));
        Caller { core: Arc::clone(&self.core), identity, context: Context::Ready(body), trace: None }
    }

    /// Binds a way to make contexts, for servers and workers, which get their calls from elsewhere. `C` ends here.
    ///
    /// `make` runs once an execution, after approval and just before it begins: nothing that was refused ever reaches
    /// it. It has 5 s; a failure is `EXECUTION_FAILED`, retryable, and nothing is spent.
    pub fn gateway<F, Fut, E>(&self, make: F) -> Gateway
    where
        F: Fn(SharedIdentity) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<C, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let procedures = Arc::clone(&self.procedures);
        let make = move |identity| -> BoxFuture<Result<Arc<dyn Body>, BoxError>> {
            let (app, procedures) = (make(identity), Arc::clone(&procedures));
            Box::pin(async move {
                let app = Arc::new(app.await.map_err(Into::into)?);
                Ok(Arc::new(Bound { app, procedures }) as Arc<dyn Body>)
            })
        };
        Gateway { core: Arc::clone(&self.core), context: Context::Made(Arc::new(make)) }
    }

    /// The approvals that this party requested or may decide.
    pub fn approvals(&self, identity: impl Into<Identity>) -> Approvals {
        let identity = identity.into().on(Surface::Direct);
        let via = identity.surface.as_str().to_owned();
        Approvals { core: Arc::clone(&self.core), identity, via, issuer: None, person: true }
    }

    /// The audit log, as far as policy lets this party read it.
    pub fn audit(&self, identity: impl Into<Identity>) -> AuditLog {
        AuditLog { core: Arc::clone(&self.core), identity: identity.into().on(Surface::Direct) }
    }

    /// Executions after the fact: their state, and settling unknown ones.
    pub fn executions(&self, identity: impl Into<Identity>) -> Executions {
        Executions { core: Arc::clone(&self.core), identity: identity.into().on(Surface::Direct), issuer: None }
    }

    /// The application's own call: middleware and handler, **no policy, no agent info and no trail**.
    ///
    /// # Errors
    /// Whatever middleware or handler return; an unknown capability or an input that does not decode.
    pub async fn run_ungoverned(
        &self,
        capability: &str,
        app: impl Into<Arc<C>>,
        input: Value,
    ) -> Result<Value, HandlerError> {
        let Some(governed) = self.core.registry.get(capability) else {
            return Err(HandlerError::other(format!("no capability `{capability}`")));
        };
        let cx = Invocation::ungoverned(app);
        Next::start(cx, Arc::new(input), Arc::clone(&self.procedures), governed.handler).run().await
    }

    /// Loads the policies again from where they came from. A good set becomes active for every process that shares
    /// the database; a bad one leaves the old set active, and `policy.refused` on record. A set that was published
    /// stays until the files say something else than when they were last loaded.
    ///
    /// # Errors
    /// Every problem of every file.
    pub async fn reload_policies(&self) -> Result<PolicyReload, BuildError> {
        Ok(self.core.policies.reload(self.core.around(), &By::process()).await?)
    }

    /// Policy sets: their history, publishing them, going back. Policies themselves say who may.
    pub fn policies(&self, identity: impl Into<Identity>) -> PolicySets {
        let identity = identity.into().on(Surface::Direct);
        let via = identity.surface.as_str().to_owned();
        PolicySets { core: Arc::clone(&self.core), identity, via, issuer: None }
    }

    /// What operators count, in the Prometheus text format (version 0.0.4): for an application that serves no HTTP API of
    /// ours. Names of capabilities are in it, and it reads the store: for scrapes, not for every call.
    pub async fn metrics(&self) -> String {
        self.core.metrics().await
    }

    /// The hash of the policy set that this process decides by.
    pub fn policy_hash(&self) -> String {
        self.core.policies.current().set.hash().to_string()
    }

    /// Takes everything that is on record into the tree over the log, signs it and hands it to the anchors, now rather than
    /// when that is due. `None` if nothing is on record. An anchor that fails shows in [`Self::log_health`].
    ///
    /// # Errors
    /// Without a key ([`EngineBuilder::log_tree`]); if the log is not what was signed before, which nothing overrides; if
    /// the database is not available.
    pub async fn checkpoint(&self) -> Result<Option<Checkpoint>, LedgerError> {
        let Core { ledger, store, .. } = &*self.core;
        let signed = ledger.checkpoint(store).await?;
        for number in 0..ledger.anchors() {
            ledger.anchor(number, store).await;
        }
        Ok(signed)
    }

    /// How the tree over the log and its anchors are doing.
    pub fn log_health(&self) -> LogHealth {
        self.core.ledger.health()
    }

    /// Refuses new calls, waits for running ones, then cancels what is left and waits for its grace; at last closes
    /// the store, after what is queued.
    pub async fn shutdown(&self, patience: Duration) {
        let core = &self.core;
        core.tasks.close();
        tokio::select! {
            () = core.tasks.wait() => {}
            () = core.clock.sleep(patience) => {
                core.stop.cancel();
                tokio::select! {
                    () = core.tasks.wait() => {}
                    () = core.clock.sleep(Duration::from_secs(1)) => {}
                }
            }
        }
        core.stop.cancel();
        #[cfg(feature = "http")]
        core.record_auth_failures().await;
        core.ledger.finish(&core.store).await;
        core.store.close(Duration::from_secs(5)).await;
    }
}

/// An engine whose contexts are made for it: what HTTP, MCP and workers take, without knowing `C`.
#[derive(Clone)]
pub struct Gateway {
    pub(crate) core: Arc<Core>,
    pub(crate) context: Context,
}

impl Gateway {
    /// A caller that came in over a surface. Adapters hard-code theirs, which is why this is not public.
    #[cfg_attr(not(any(feature = "cli", feature = "testing")), expect(dead_code, reason = "adapters use it"))]
    pub(crate) fn caller(&self, identity: Identity, surface: Surface) -> Caller {
        let identity = Arc::new(identity.on(surface));
        Caller { core: Arc::clone(&self.core), identity, context: self.context.clone(), trace: None }
    }

    /// The approvals of a party that came in over a surface. `person`: whether its credential may decide (APR-4).
    #[cfg(feature = "http")]
    pub(crate) fn approvals(&self, identity: Identity, surface: Surface, person: bool) -> Approvals {
        let (identity, via) = (identity.on(surface), surface.as_str().to_owned());
        Approvals { core: Arc::clone(&self.core), identity, via, issuer: None, person }
    }

    /// Executions as a party sees them that came in over a surface.
    #[cfg(feature = "http")]
    pub(crate) fn executions(&self, identity: Identity, surface: Surface) -> Executions {
        Executions { core: Arc::clone(&self.core), identity: identity.on(surface), issuer: None }
    }

    /// The audit log as a party may read it that came in over a surface.
    #[cfg(feature = "http")]
    pub(crate) fn audit(&self, identity: Identity, surface: Surface) -> AuditLog {
        AuditLog { core: Arc::clone(&self.core), identity: identity.on(surface) }
    }

    /// Policy sets as a party sees them that came in over a surface.
    #[cfg(feature = "http")]
    pub(crate) fn policies(&self, identity: Identity, surface: Surface) -> PolicySets {
        let (identity, via) = (identity.on(surface), surface.as_str().to_owned());
        PolicySets { core: Arc::clone(&self.core), identity, via, issuer: None }
    }
}
