//! The HTTP API: authenticates the transport, makes the identity, hands over JSON *text*, and translates outcomes.
//! It decides nothing: every call goes through [`crate::Gateway`], which knows the surface as `http`.
//!
//! A request meets, in this order: the accept loop with its limits (`serve`), the guard (`guard`: Host, Origin, sizes,
//! how many at once), its credential (`asking`), its body (`body`), and one function of one resource.

mod approvals;
mod asking;
mod audit;
mod body;
mod capabilities;
mod executions;
mod guard;
mod health;
mod host;
mod key;
mod link;
mod log;
mod metrics;
mod openapi;
mod policies;
mod prefer;
mod problem;
mod query;
mod reply;
mod serve;
mod settings;
mod stream;
mod waiting;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;

pub use self::metrics::serve_metrics;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub use self::openapi::{description, listed as described};
use self::serve::Limits;
pub use self::settings::HttpSettings;
use crate::auth::Auth;
use crate::{Gateway, Surface};

/// What every route shares.
pub(crate) struct App {
    pub(crate) gateway: Gateway,
    pub(crate) auth: Auth,
    pub(crate) settings: HttpSettings,
    /// What the pipeline is told: `http`, unless a test claims another one.
    pub(crate) surface: Surface,
    /// Fires when the server stops: waiting calls are answered, streams end.
    pub(crate) stopping: CancellationToken,
    /// One permit for each call that is being worked on.
    calls: Arc<Semaphore>,
    /// One permit for each call that waits for a decision.
    waits: Arc<Semaphore>,
    /// Those who wait look one after the other, so that a thousand of them leave the store's readers to others.
    looks: Semaphore,
    /// One permit for each open stream.
    streams: Arc<Semaphore>,
    readiness: health::Readiness,
}

/// Serves one engine over HTTP/1.1.
///
/// ```no_run
/// # async fn shown(gateway: countersign::Gateway, auth: countersign::auth::Auth) -> std::io::Result<()> {
/// use countersign::http::{HttpSettings, Server};
///
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
/// let server = Server::new(gateway, auth, HttpSettings::default());
/// server.serve(listener, std::future::pending()).await;
/// # Ok(())
/// # }
/// ```
pub struct Server {
    app: App,
}

impl Server {
    /// A server that does not listen yet. `gateway` says which engine, `auth` whose credentials are taken.
    pub fn new(gateway: Gateway, auth: Auth, settings: HttpSettings) -> Self {
        gateway.core.meters.tells_of(auth.keyrings());
        let app = App {
            calls: Arc::new(Semaphore::new(settings.max_calls)),
            waits: Arc::new(Semaphore::new(settings.max_waits)),
            looks: Semaphore::new(1),
            streams: Arc::new(Semaphore::new(settings.max_streams)),
            readiness: health::Readiness::default(),
            gateway,
            auth,
            settings,
            surface: Surface::Http,
            stopping: CancellationToken::new(),
        };
        Self { app }
    }

    /// What the pipeline is told instead of `http`: for tests that compare surfaces.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn claiming(mut self, surface: Surface) -> Self {
        self.app.surface = surface;
        self
    }

    /// Serves until `stop` is done. Then nothing more is accepted, waiting calls are answered as they stand, streams end,
    /// running requests are finished, and after `shutdown_timeout` whatever is left is cut off.
    ///
    /// Executions go on without their request: [`crate::Engine::shutdown`] ends them, and is the caller's to call.
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()> + Send) {
        let (settings, stopping) = (self.app.settings.clone(), self.app.stopping.clone());
        serve::run(Limits { settings, stopping }, router(Arc::new(self.app)), listener, stop).await;
    }
}

/// Every route there is.
fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/capabilities", get(capabilities::list))
        .route("/v1/capabilities/{id}/invoke", post(capabilities::invoke))
        .route("/v1/approvals", get(approvals::list))
        .route("/v1/approvals/{id}", get(approvals::show))
        .route("/v1/approvals/{id}/decision", post(approvals::decide))
        .route("/v1/approvals/{id}/resume", post(approvals::resume))
        .route("/v1/approvals/{id}/withdraw", post(approvals::withdraw))
        .route("/v1/executions/{id}", get(executions::show))
        .route("/v1/executions/{id}/resolve", post(executions::resolve))
        .route("/v1/approvals/stream", get(stream::approvals))
        .route("/v1/audit/events", get(audit::events))
        .route("/v1/audit/events/stream", get(stream::events))
        .route("/v1/audit/log/checkpoint", get(log::checkpoint))
        .merge(log::tiles())
        .route("/v1/policies", get(policies::list))
        .route("/v1/policies/reload", post(policies::reload))
        .route("/v1/policies/explain", post(policies::explain))
        .route("/metrics", get(metrics::permitted))
        .route("/openapi.json", get(openapi::document))
        .route(health::LIVE, get(health::live))
        .route(health::READY, get(health::ready))
}

/// Every route, behind what holds of all of them.
pub(crate) fn router(app: Arc<App>) -> Router {
    routes()
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::no_method)
        .layer(CatchPanicLayer::custom(problem::panicked))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&app), guard::around))
        .with_state(app)
}
