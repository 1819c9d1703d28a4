//! What asks a server to stop.

use super::super::failure::Failure;

/// The signals that end a server: SIGTERM and SIGINT; elsewhere Ctrl-C.
pub(super) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    /// They are caught from now on.
    #[cfg(unix)]
    pub(super) fn new() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};

        let deaf = |error| {
            Failure::could_not_run(format!("signals cannot be caught: {error}"), "free some of the machine's memory")
        };
        let terminate = signal(SignalKind::terminate()).map_err(deaf)?;
        let interrupt = signal(SignalKind::interrupt()).map_err(deaf)?;
        Ok(Self { terminate, interrupt })
    }

    #[cfg(not(unix))]
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self {})
    }

    /// Waits for the next one.
    #[cfg(unix)]
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    #[cfg(not(unix))]
    pub(super) async fn next(&mut self) -> &'static str {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await; // nobody can ask any more
        }
        "Ctrl-C"
    }
}
