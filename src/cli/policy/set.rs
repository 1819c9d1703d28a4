//! What the workbench's commands work on: a loaded set, and the people that questions name.

use std::path::Path;
use std::sync::Arc;

use super::super::actors::supposed;
use super::super::failure::Failure;
use super::super::open::source;
use crate::demo;
use crate::policy::{self, PolicySet, SourceFile, read_file};
use crate::registry::Registry;
use crate::workbench::{Cast, World};

/// The set of a directory, or the demo's own.
pub(super) fn loaded(directory: Option<&Path>, registry: &Registry) -> Result<PolicySet, Failure> {
    let (set, _) = policy::load(&source(directory)?, registry).map_err(Failure::of_policies)?;
    Ok(set)
}

/// A file of the workbench's own form.
pub(super) fn file(path: &Path) -> Result<SourceFile, Failure> {
    let name = path.display().to_string();
    let text = read_file(path).map_err(|error| {
        Failure::could_not_run(format!("`{name}` cannot be read: {error}"), "name a file of UTF-8 text, at most 1 MiB")
    })?;
    Ok(SourceFile { name, text })
}

/// The demo's capabilities, and these actors, each the name of one of the demo's people or a file; without any, all of
/// the demo's people.
pub(super) fn world(registry: Registry, actors: &[String]) -> Result<World, Failure> {
    let named = actors.iter().map(|name| Ok((name.clone(), supposed(name)?)));
    let mut cast: Cast = named.collect::<Result<_, Failure>>()?;
    if cast.is_empty() {
        cast = demo::ACTORS.iter().filter_map(|name| Some(((*name).to_owned(), demo::actor(name)?))).collect();
    }
    Ok(World { registry: Arc::new(registry), cast })
}
