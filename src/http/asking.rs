//! Who asks: the identity of a request, from its credentials alone (INV-3).

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;

use super::App;
use super::guard;
use super::problem::Problem;
use crate::auth::{AuthFailure, Credential};
use crate::{Approvals, AuditLog, Caller, Executions, Identity, PolicySets};

/// The party behind a request. Absent credentials are a party without an actor: what it asks for ends
/// `UNAUTHENTICATED`, on record. Bad ones never get here.
pub(crate) struct Asking {
    pub(crate) app: Arc<App>,
    pub(crate) credential: Credential,
    trace: Option<Arc<str>>,
}

impl Asking {
    pub(crate) fn caller(&self) -> Caller {
        let caller = self.app.gateway.caller(self.credential.identity.clone(), self.app.surface);
        Caller { trace: self.trace.clone(), ..caller }
    }

    pub(crate) fn approvals(&self) -> Approvals {
        self.app.gateway.approvals(self.credential.identity.clone(), self.app.surface, self.credential.person)
    }

    /// Who asks, on this surface.
    pub(crate) fn identity(&self) -> Identity {
        self.credential.identity.clone().on(self.app.surface)
    }

    pub(crate) fn audit(&self) -> AuditLog {
        self.app.gateway.audit(self.credential.identity.clone(), self.app.surface)
    }

    pub(crate) fn executions(&self) -> Executions {
        self.app.gateway.executions(self.credential.identity.clone(), self.app.surface)
    }

    pub(crate) fn policies(&self) -> PolicySets {
        self.app.gateway.policies(self.credential.identity.clone(), self.app.surface)
    }
}

impl FromRequestParts<Arc<App>> for Asking {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let mut given = parts.headers.get_all(header::AUTHORIZATION).iter();
        let (first, more) = (given.next(), given.next().is_some());
        let text = first.map(|it| if more { "" } else { it.to_str().unwrap_or_default() });
        match app.auth.identify(text).await {
            Ok(credential) => Ok(Self { app: Arc::clone(app), credential, trace: guard::trace(&parts.headers) }),
            Err(failure) => {
                app.gateway.core.meters.refused(failure);
                app.gateway.core.auth_failed(failure, app.surface).await;
                // Whose keys could not be had may have a good one: it should not be thrown away.
                let is_over = failure != AuthFailure::KeysUnavailable;
                Err(if is_over { Problem::bad_credential() } else { Problem::unavailable() })
            }
        }
    }
}
