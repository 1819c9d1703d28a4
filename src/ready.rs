//! Whether this process can take calls: what a load balancer wants to know.

use std::time::Duration;

use crate::pipeline::Core;

/// How long the store may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why no call could begin. `Display` is for logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotReady {
    #[error("the engine shuts down")]
    Stopping,
    #[error("the active policy set is not the one that this process has")]
    Policies,
    #[error("the store cannot be written")]
    Store,
    #[error("the store takes too long")]
    Slow,
}

impl Core {
    /// One small write, and a look at what is there. Ask at most once a second: whoever asks may be anybody.
    pub(crate) async fn ready(&self) -> Result<(), NotReady> {
        if self.tasks.is_closed() {
            return Err(NotReady::Stopping);
        }
        let written = tokio::select! {
            biased;
            written = self.store.try_write() => written,
            () = self.clock.sleep(PATIENCE) => return Err(NotReady::Slow),
        };
        if let Err(error) = written {
            tracing::warn!(cause = &error as &dyn std::error::Error, "not ready");
            return Err(NotReady::Store);
        }
        let policies = self.policies.follow(&self.registry, &self.store).await;
        self.check_active(&policies).map_err(|_| NotReady::Policies)
    }
}
