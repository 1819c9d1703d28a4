//! The HTTP API: authenticates the transport, makes the identity, hands over JSON *text*, and translates outcomes.
//! It decides nothing: every call goes through [`crate::Gateway`], which knows the surface as `http`.

mod asking;
mod problem;
mod settings;

use std::sync::Arc;

use axum::Router;

pub use self::settings::HttpSettings;
use crate::Gateway;
use crate::auth::Auth;

/// What every route shares.
pub(crate) struct App {
    pub(crate) gateway: Gateway,
    pub(crate) auth: Auth,
    pub(crate) settings: HttpSettings,
}

/// Every route there is.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new().with_state(app)
}
