//! Who asks: the identity of a request, from its credentials alone (INV-3).

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};

use super::App;
use crate::auth::Credential;
use crate::{Approvals, Caller, Executions, PolicySets, Surface};

/// The party behind a request. Absent credentials are a party without an actor: what it asks for ends
/// `UNAUTHENTICATED`, on record. Bad ones never get here.
pub(crate) struct Asking {
    pub(crate) app: Arc<App>,
    pub(crate) credential: Credential,
}

impl Asking {
    pub(crate) fn caller(&self) -> Caller {
        self.app.gateway.caller(self.credential.identity.clone(), Surface::Http)
    }

    pub(crate) fn approvals(&self) -> Approvals {
        self.app.gateway.approvals(self.credential.identity.clone(), Surface::Http, self.credential.person)
    }

    pub(crate) fn executions(&self) -> Executions {
        self.app.gateway.executions(self.credential.identity.clone(), Surface::Http)
    }

    pub(crate) fn policies(&self) -> PolicySets {
        self.app.gateway.policies(self.credential.identity.clone(), Surface::Http)
    }
}

impl FromRequestParts<Arc<App>> for Asking {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, StatusCode> {
        let mut given = parts.headers.get_all(header::AUTHORIZATION).iter();
        let (first, more) = (given.next(), given.next().is_some());
        let text = first.map(|it| if more { "" } else { it.to_str().unwrap_or_default() });
        match app.auth.identify(text).await {
            Ok(credential) => Ok(Self { app: Arc::clone(app), credential }),
            Err(failure) => {
                app.gateway.core.auth_failed(failure, Surface::Http).await;
                Err(StatusCode::UNAUTHORIZED)
            }
        }
    }
}
