//! Watching the directory of policies: editors' saves, and volumes whose links are swapped.
//!
//! Events only say that something happened. What is loaded is what is there once the directory is quiet, and only if its
//! content is another one than before, so that an event too many costs nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::pipeline::Core;

/// How long nothing must happen before it is loaded.
const QUIET: Duration = Duration::from_millis(300);
/// A directory that is never quiet is loaded this often.
const LONGEST: Duration = Duration::from_secs(3);
/// How often the path is asked whether it still leads to the directory that is watched.
const LOOK: Duration = Duration::from_secs(1);

/// Loads what changes, until the engine stops or is gone.
pub(crate) async fn watch(core: Weak<Core>, directory: PathBuf, clock: Clock, stop: CancellationToken) {
    let mut eye = Eye::new(directory);
    let mut changed = true; // between the first loading and now, perhaps
    eye.open().await;
    loop {
        let Some(core) = core.upgrade() else { return };
        let is_settled = !changed || core.policies.reload_changed(core.around()).await;
        drop(core);
        changed = tokio::select! {
            () = stop.cancelled() => return,
            changed = eye.changed(&clock) => changed || !is_settled,
        };
    }
}

/// A directory under observation.
struct Eye {
    directory: PathBuf,
    /// `None` if the system cannot watch it now: then its content is compared whenever the path is looked at.
    watcher: Option<RecommendedWatcher>,
    /// Whether that was told.
    is_blind: bool,
    /// Which directory the path led to.
    place: Option<Place>,
    tell: mpsc::Sender<()>,
    told: mpsc::Receiver<()>,
}

impl Eye {
    fn new(directory: PathBuf) -> Self {
        let (tell, told) = mpsc::channel(1); // one event says as much as many
        Self { directory, watcher: None, is_blind: false, place: None, tell, told }
    }

    /// Watches whatever the path leads to now. Waits for the disk, briefly.
    async fn open(&mut self) {
        self.place = place(&self.directory).await;
        let tell = self.tell.clone();
        let told = move |event: notify::Result<notify::Event>| {
            // Reading is an event, too, and loading reads.
            if !event.is_ok_and(|it| it.kind.is_access()) {
                let _ = tell.try_send(()); // full: it is told already
            }
        };
        let watcher = notify::recommended_watcher(told).and_then(|mut it| {
            it.watch(&self.directory, RecursiveMode::NonRecursive)?;
            Ok(it)
        });
        let was_blind = std::mem::replace(&mut self.is_blind, watcher.is_err());
        if let Err(error) = watcher.as_ref()
            && !was_blind
        {
            let directory = self.directory.display();
            tracing::warn!(%directory, %error, "the policy directory cannot be watched: it is read every second");
        }
        self.watcher = watcher.ok();
    }

    /// Waits until something happened and the directory is quiet, or until it is time to look whether anybody still
    /// wants to know. True if something may have changed.
    async fn changed(&mut self, clock: &Clock) -> bool {
        tokio::select! {
            _ = self.told.recv() => {}
            () = clock.sleep(LOOK) => {
                if self.watcher.is_some() && self.place == place(&self.directory).await {
                    return false;
                }
            }
        }
        let began = clock.monotonic();
        while clock.monotonic().since(began) < LONGEST {
            tokio::select! {
                biased;
                _ = self.told.recv() => {}
                () = clock.sleep(QUIET) => break,
            }
        }
        self.open().await; // what was watched may be gone, and another one be called so
        true
    }
}

/// A directory, whatever leads to it.
type Place = (PathBuf, (u64, u64));

async fn place(directory: &Path) -> Option<Place> {
    let directory = directory.to_owned();
    let place = tokio::task::spawn_blocking(move || Some((fs::canonicalize(&directory).ok()?, node(&directory)?)));
    place.await.ok()?
}

#[cfg(unix)]
fn node(directory: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(directory).ok().map(|it| (it.dev(), it.ino()))
}

#[cfg(not(unix))]
fn node(_: &Path) -> Option<(u64, u64)> {
    Some((0, 0))
}

#[cfg(feature = "testing")]
#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::TestApp;
    use crate::{Engine, PolicySource};

    #[tokio::test]
    async fn watching_ends_with_the_engine() {
        let directory = tempfile::tempdir().unwrap();
        let policy = "@id(\"a\") permit (principal, action == Countersign::Action::\"approve\", resource);";
        fs::write(directory.path().join("a.cedar"), policy).unwrap();
        let builder = Engine::<()>::builder().policies(PolicySource::Directory(directory.path().into()));
        let app = TestApp::new(builder, |_| ()).await.unwrap();
        let core = &app.engine().core;
        let (clock, stop) = (core.clock.clone(), core.stop.clone());
        let watching = watch(Arc::downgrade(core), directory.path().into(), clock, stop);
        // The engine is still there: a watcher that did not end with it would keep this test for ever.
        tokio::join!(watching, app.engine().shutdown(Duration::from_secs(1)));
    }
}
