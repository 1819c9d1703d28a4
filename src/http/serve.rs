//! The accept loop: how many connections, how long each may take for what, and how all of it ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::HttpBody as _;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::HttpSettings;
use super::link::{Link, Pulse};

/// Where the parser gives up with a bare 431. The guard refuses less than that, in words.
const PARSED_HEADERS: usize = 200;
const PARSED_BYTES: usize = 128 * 1024;

/// How long nothing is accepted when the machine has no more to give, say file descriptors.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// Which address of this machine a request came in on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local(pub(super) SocketAddr);

/// What the loop keeps to.
pub(super) struct Limits {
    pub(super) settings: HttpSettings,
    /// Fires when nothing more is accepted.
    pub(super) stopping: CancellationToken,
}

/// Serves until `stop` is done, then ends in good order.
pub(super) async fn run(limits: Limits, router: Router, listener: TcpListener, stop: impl Future<Output = ()>) {
    let (limits, graceful) = (Arc::new(limits), GracefulShutdown::new());
    let mut links = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        // Whoever finds no place stays in the machine's own queue, which is bounded too.
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            Some(_) = links.join_next() => continue,
            accepted = listener.accept(), if links.len() < limits.settings.max_connections => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                links.spawn(answer(Arc::clone(&limits), router.clone(), stream, graceful.watcher()));
            }
            Err(error) => {
                tracing::warn!(cause = &error as &dyn std::error::Error, "a connection could not be accepted");
                tokio::time::sleep(EXHAUSTED).await;
            }
        }
    }
    drop(listener);
    limits.stopping.cancel();
    let ended = async {
        graceful.shutdown().await;
        while links.join_next().await.is_some() {}
    };
    if tokio::time::timeout(limits.settings.shutdown_timeout, ended).await.is_err() {
        tracing::warn!(connections = links.len(), "requests were cut off: the server stops");
    }
    links.shutdown().await;
}

/// One connection, to its end.
async fn answer(limits: Arc<Limits>, router: Router, stream: TcpStream, watcher: Watcher) {
    let Ok(local) = stream.local_addr() else { return };
    let _ = stream.set_nodelay(true); // slower without, and nothing else
    let (pulse, settings) = (Arc::<Pulse>::default(), &limits.settings);
    let link = Link::new(stream, Arc::clone(&pulse), settings.head_timeout, settings.write_timeout);
    let service = service_fn(move |mut request: Request<Incoming>| {
        pulse.busy(!request.body().is_end_stream());
        request.extensions_mut().insert(Local(local));
        request.extensions_mut().insert(Arc::clone(&pulse));
        let (router, pulse) = (router.clone(), Arc::clone(&pulse));
        async move {
            let response = router.oneshot(request).await;
            pulse.idle();
            response
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(settings.idle_timeout)
        .max_headers(PARSED_HEADERS)
        .max_header_size(PARSED_BYTES)
        .max_buf_size(2 * PARSED_BYTES);
    // A request goes on until its client is gone; what it began goes on all the same.
    if let Err(error) = watcher.watch(http.serve_connection(TokioIo::new(link), service)).await {
        tracing::debug!(cause = &error as &dyn std::error::Error, "a connection broke off");
    }
}
