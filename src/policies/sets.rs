//! Policy sets as one party sees them: looking, publishing, going back. The active policies themselves say who may.

use std::sync::Arc;

use serde::Serialize;

use super::changing::{By, Unchanged, load};
use super::history::policy_history;
use super::{PolicyActivation, PolicyReload};
use crate::BoxFuture;
use crate::actor::Identity;
use crate::audit::{Envelope, EventKind, PolicyOrigin};
use crate::deciding::actor_of;
use crate::outcome::{Detail, Error};
use crate::pipeline::{Core, POLICY_TRIES};
use crate::policies::{Around, Loaded};
use crate::policy::{ManageAction, Managed, PolicyProblem, PolicySource};
use crate::rejection::Rejection;
use crate::schema::Refused;
use crate::store::StoreError;

/// How many digits of a hash name a set at least.
const SHORTEST: usize = 6;

/// A change on its way.
type Changing<T> = BoxFuture<Result<T, Unchanged>>;

/// Policy sets as one party sees them.
#[derive(Clone)]
pub struct PolicySets {
    pub(crate) core: Arc<Core>,
    pub(crate) identity: Identity,
    /// How changes come in, and who vouches for whoever makes them, for the record.
    pub(crate) via: String,
    pub(crate) issuer: Option<String>,
}

/// What loading a set would find.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyCheck {
    /// The set's hash, if it would load.
    pub hash: Option<String>,
    /// Everything that is wrong with it, and notes.
    pub problems: Vec<PolicyProblem>,
}

/// Why the active policy set was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyRefusal {
    /// This party may not, or it could not be recorded.
    #[error("{0}")]
    Refused(#[from] Error),
    /// The set does not load here. At least one problem is fatal.
    #[error("the policies do not load")]
    Problems(Vec<PolicyProblem>),
}

impl PolicySets {
    /// Which sets were active, the latest first, at most 1,000. Needs a permit for the Cedar action `read_policies`.
    ///
    /// # Errors
    /// `POLICY_DENIED` without that permit; `AUDIT_UNAVAILABLE` if the store is down.
    pub async fn history(&self, limit: usize) -> Result<Vec<PolicyActivation>, Error> {
        self.allowed(ManageAction::ReadPolicies.as_str(), ManageAction::ReadPolicies).await?;
        policy_history(self.core.store.readers(), limit).await.map_err(|it| Rejection::from(it).face())
    }

    /// What publishing these would find, all problems at once. Needs a permit for `read_policies`. Changes nothing.
    ///
    /// # Errors
    /// As for [`Self::history`].
    pub async fn check(&self, source: impl Into<PolicySource>) -> Result<PolicyCheck, Error> {
        let source = source.into();
        self.allowed(ManageAction::ReadPolicies.as_str(), ManageAction::ReadPolicies).await?;
        Ok(match load(&source, &self.core.registry).await.1 {
            Ok((set, problems)) => PolicyCheck { hash: Some(set.hash().to_string()), problems },
            Err(problems) => PolicyCheck { hash: None, problems },
        })
    }

    /// Makes these the active set, for every process. Needs a permit for `publish_policies` of the set that is active.
    ///
    /// It stays until somebody publishes another one, or a process loads files that say something else than they did
    /// when they were last loaded.
    ///
    /// # Errors
    /// [`PolicyRefusal::Problems`] if it does not load, with `policy.refused` on record; `POLICY_DENIED` without a permit;
    /// `POLICY_FAILED` if the active set changed again and again meanwhile; `AUDIT_UNAVAILABLE` if the store is down.
    pub async fn publish(&self, source: impl Into<PolicySource>) -> Result<PolicyReload, PolicyRefusal> {
        self.choose("publish_policies", PolicyOrigin::Published, source.into()).await
    }

    /// Makes a set active again that was active before, named by its hash or by how that begins (6 digits at least).
    /// There are copies of the last hundred sets. It is checked for the capabilities of today.
    ///
    /// # Errors
    /// As for [`Self::publish`]; `INPUT_INVALID` if no copy or several are called so; `POLICY_FAILED` if the copy is not
    /// the one that was written.
    pub async fn rollback(&self, hash: &str) -> Result<PolicyReload, PolicyRefusal> {
        const ACTION: &str = "rollback_policies";
        let allowed = self.allowed(ACTION, ManageAction::PublishPolicies).await?;
        let source = match self.copy(hash).await {
            Ok(source) => source,
            Err(rejection) => return Err(self.denied(&allowed, ACTION, rejection).await.into()),
        };
        self.choose(ACTION, PolicyOrigin::RolledBack, source).await
    }

    /// Loads this process's own files again, as [`crate::Engine::reload_policies`] does. Needs a permit for
    /// `publish_policies`.
    ///
    /// # Errors
    /// As for [`Self::publish`].
    pub async fn reload(&self) -> Result<PolicyReload, PolicyRefusal> {
        let core = Arc::clone(&self.core);
        let reload = move |by: By| -> Changing<PolicyReload> {
            let core = Arc::clone(&core);
            Box::pin(async move { core.policies.reload(core.around(), &by).await })
        };
        self.changed("reload_policies", reload).await
    }

    /// Asks a candidate beside the active set on every call of this process from now on, or no candidate any more. What it
    /// says otherwise is on the call's record as `policy.shadow_difference`; it never affects a call. Needs a permit for
    /// `publish_policies`. The candidate's hash.
    ///
    /// # Errors
    /// As for [`Self::publish`].
    pub async fn shadow(&self, candidate: Option<PolicySource>) -> Result<Option<String>, PolicyRefusal> {
        let (core, candidate) = (Arc::clone(&self.core), Arc::new(candidate));
        let choose = move |by: By| -> Changing<Option<String>> {
            let (core, candidate) = (Arc::clone(&core), Arc::clone(&candidate));
            Box::pin(async move { core.policies.choose_shadow(candidate.as_ref().as_ref(), core.around(), &by).await })
        };
        self.changed("shadow_policies", choose).await
    }

    async fn choose(
        &self,
        action: &'static str,
        origin: PolicyOrigin,
        source: PolicySource,
    ) -> Result<PolicyReload, PolicyRefusal> {
        let (core, source) = (Arc::clone(&self.core), Arc::new(source));
        let choose = move |by: By| -> Changing<PolicyReload> {
            let (core, source) = (Arc::clone(&core), Arc::clone(&source));
            Box::pin(async move { core.policies.choose(&source, origin, core.around(), &by).await })
        };
        self.changed(action, choose).await
    }

    /// Allowed and done under one and the same set, or not at all.
    async fn changed<T>(&self, action: &'static str, change: impl Fn(By) -> Changing<T>) -> Result<T, PolicyRefusal> {
        for _ in 0..POLICY_TRIES {
            let allowed = self.allowed(action, ManageAction::PublishPolicies).await?;
            match change(self.by(&allowed, action)).await {
                Ok(done) => return Ok(done),
                Err(Unchanged::Problems(problems)) => return Err(PolicyRefusal::Problems(problems)),
                Err(Unchanged::Store(error)) => return Err(Rejection::from(error).face().into()),
                Err(Unchanged::Overtaken) => {}
            }
        }
        Err(self.denied(&self.core.policies.current(), action, Rejection::PolicyUnstable).await.into())
    }

    /// The set that allows it. A refusal is on record.
    pub(crate) async fn allowed(&self, action: &'static str, needs: ManageAction) -> Result<Arc<Loaded>, Error> {
        let core = &self.core;
        let loaded = core.policies.follow(&core.registry, &core.store).await;
        let allowed = actor_of(&self.identity).map(drop).and_then(|()| {
            core.may(&loaded.set, needs, &Managed::Engine, &self.identity).map_err(Rejection::management)
        });
        match allowed {
            Ok(()) => Ok(loaded),
            Err(rejection) => Err(self.denied(&loaded, action, rejection).await),
        }
    }

    async fn copy(&self, hash: &str) -> Result<PolicySource, Rejection> {
        let unknown = |keyword: &str| {
            let detail = Detail::Input { path: "/hash".into(), keyword: keyword.into(), nearest: None };
            Rejection::InputInvalid(Refused { outward: vec![detail], paths: vec!["/hash".into()], well_formed: true })
        };
        match self.core.copy_called(hash).await? {
            Called::One(source) => Ok(source),
            Called::None => Err(unknown("enum")),
            Called::Several => Err(unknown("unique")),
            Called::Altered => Err(Rejection::PolicyFailed(Vec::new())),
        }
    }

    fn by(&self, allowed: &Loaded, action: &'static str) -> By {
        let policy_hash = Some(allowed.set.hash().to_string());
        By {
            envelope: Envelope { policy_hash, ..self.envelope() },
            via: Some(self.via.clone()),
            under: Some(allowed.generation),
            action: Some(action),
        }
    }

    async fn denied(&self, loaded: &Loaded, action: &'static str, rejection: Rejection) -> Error {
        tracing::info!(action, code = %rejection.code(), cause = &rejection as &dyn std::error::Error, "refused");
        let code = rejection.code();
        let denied = EventKind::ManagementDenied { action: action.into(), approval_id: None, execution_id: None, code };
        let mut event = self.core.management_event(&loaded.set, &self.identity, denied);
        event.envelope.actor = self.envelope().actor;
        match self.core.store.append(vec![event]).await {
            Ok(()) => rejection.face(),
            Err(error) => Rejection::from(error).face(),
        }
    }

    /// Whoever vouched for the actor, else who sits there.
    fn envelope(&self) -> Envelope {
        let mut envelope = Envelope::of(&self.identity);
        if let Some(actor) = &mut envelope.actor {
            actor.issuer = actor.issuer.take().or_else(|| self.issuer.clone());
        }
        envelope
    }
}

/// The copies of policy sets that are called so.
pub(crate) enum Called {
    None,
    One(PolicySource),
    Several,
    /// There is one, but not as it was written.
    Altered,
}

impl Core {
    /// The copy of a set that was active before, named by its hash or by how that begins (6 digits at least).
    pub(crate) async fn copy_called(&self, hash: &str) -> Result<Called, StoreError> {
        let digits = hash.strip_prefix("sha256:").unwrap_or(hash);
        let is_name = digits.len() >= SHORTEST && digits.bytes().all(|it| it.is_ascii_hexdigit());
        let prefix = format!("sha256:{}", digits.to_ascii_lowercase());
        let found = if is_name { self.store.copies(&prefix, 2).await? } else { Vec::new() };
        let [one] = &*found else { return Ok(if found.is_empty() { Called::None } else { Called::Several }) };
        Ok(match self.store.copy(one).await? {
            Some(Ok(files)) => Called::One(PolicySource::Files(files)),
            Some(Err(_)) => Called::Altered,
            None => Called::None,
        })
    }

    /// What changing the active set needs.
    pub(crate) fn around(&self) -> Around<'_> {
        Around { registry: &self.registry, store: &self.store, clock: &self.clock, ids: &self.ids }
    }
}
