//! The drift gate for an application's own tests: what is governed is what was agreed to.
//!
//! ```
//! # fn doc(directory: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
//! use countersign::testing::drift;
//! use countersign::{Engine, EngineBuilder};
//!
//! fn builder() -> EngineBuilder {
//!     Engine::builder() // the application's own
//! }
//!
//! let snapshot = directory.join("governance.snap");
//! drift::write(&builder(), &snapshot)?; // once, and whenever a change is meant
//! drift::check(&builder(), &snapshot)?; // in a test
//! # Ok(())
//! # }
//! # doc(tempfile::tempdir().unwrap().path()).unwrap();
//! ```

use std::fmt;
use std::path::{Path, PathBuf};

use super::TestApp;
use crate::builder::{BuildError, EngineBuilder, Problem};
use crate::drift::{Drift, Governance, Unreadable};
use crate::engine::Engine;
use crate::pipeline::Core;

/// What has governance: a builder, an engine, a [`TestApp`].
pub trait Governed: sealed::Sealed {
    /// Its governance. Of a builder without its database, waiting for the disk if its policies are there.
    ///
    /// # Errors
    /// Whatever keeps capabilities from registering or policies from loading.
    fn governance(&self) -> Result<Governance, BuildError>;
}

mod sealed {
    /// Only the engine knows what it governs.
    pub trait Sealed {}
}

impl<C> sealed::Sealed for EngineBuilder<C> {}
impl<C> sealed::Sealed for Engine<C> {}
impl<C> sealed::Sealed for TestApp<C> {}

impl<C: Send + Sync + 'static> Governed for EngineBuilder<C> {
    fn governance(&self) -> Result<Governance, BuildError> {
        let (registry, set) = self.governed()?;
        Governance::of(&registry, &set).map_err(at_fault)
    }
}

impl<C: Send + Sync + 'static> Governed for Engine<C> {
    fn governance(&self) -> Result<Governance, BuildError> {
        of_core(&self.core)
    }
}

impl<C: Send + Sync + 'static> Governed for TestApp<C> {
    fn governance(&self) -> Result<Governance, BuildError> {
        of_core(&self.engine().core)
    }
}

fn of_core(core: &Core) -> Result<Governance, BuildError> {
    Governance::of(&core.registry, &core.policies.current().set).map_err(at_fault)
}

fn at_fault(what: String) -> BuildError {
    BuildError { problems: vec![Problem::new("the policies", what, "report it: they load")] }
}

/// Why a check did not pass. `Debug` is the report, which is what a test that returns it prints.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum NotAsAgreed {
    /// Governance is otherwise than the snapshot says.
    #[error("governance drifted from `{}`\n{}", .1.display(), .0.text())]
    Drifted(Drift, PathBuf),
    /// There is no snapshot that can be read.
    #[error("the snapshot `{}` cannot be read; write it with `testing::drift::write`", .1.display())]
    Unread(#[source] std::io::Error, PathBuf),
    /// It is no snapshot.
    #[error("`{}` is no snapshot; write it anew with `testing::drift::write`", .1.display())]
    NoSnapshot(#[source] Unreadable, PathBuf),
    /// The snapshot cannot be written.
    #[error("the snapshot `{}` cannot be written", .1.display())]
    Unwritten(#[source] std::io::Error, PathBuf),
    /// The application cannot be built as it is.
    #[error(transparent)]
    Unfit(#[from] BuildError),
}

impl fmt::Debug for NotAsAgreed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        let cause = std::error::Error::source(self);
        cause.map_or(Ok(()), |cause| write!(f, "\n  cause: {cause}"))
    }
}

/// Compares with the snapshot at `path`, which `countersign capabilities check` reads as well.
///
/// # Errors
/// If anything is otherwise, or there is nothing to compare with: a missing snapshot is no agreement.
pub fn check(governed: &impl Governed, path: impl AsRef<Path>) -> Result<(), NotAsAgreed> {
    let path = path.as_ref();
    let text = std::fs::read_to_string(path).map_err(|error| NotAsAgreed::Unread(error, path.to_owned()))?;
    let before = Governance::parse(&text).map_err(|error| NotAsAgreed::NoSnapshot(error, path.to_owned()))?;
    let drift = governed.governance()?.since(&before);
    if drift.is_none() { Ok(()) } else { Err(NotAsAgreed::Drifted(drift, path.to_owned())) }
}

/// Writes the snapshot anew: what is governed now is agreed to. The difference is for a review to see.
///
/// # Errors
/// If it cannot be made or written.
pub fn write(governed: &impl Governed, path: impl AsRef<Path>) -> Result<(), NotAsAgreed> {
    let path = path.as_ref();
    let text = governed.governance()?.text();
    std::fs::write(path, text).map_err(|error| NotAsAgreed::Unwritten(error, path.to_owned()))
}
