//! What the workbench's commands work on: a loaded set, and the people that questions name.

use std::path::Path;
use std::sync::Arc;

use super::super::actors::supposed;
use super::super::failure::Failure;
use super::super::open::{Session, source};
use crate::policies::Called;
use crate::policy::{self, PolicySet, SourceFile, read_file};
use crate::registry::Registry;
use crate::workbench::{Cast, World};
use crate::{PolicySource, demo};

/// The set of a directory, or the demo's own.
pub(super) fn loaded(directory: Option<&Path>, registry: &Registry) -> Result<PolicySet, Failure> {
    let (set, _) = policy::load(&source(directory)?, registry).map_err(Failure::of_policies)?;
    Ok(set)
}

/// A set that is named: a directory; with a database also `current`, the active set, or the hash of a copy, or how that
/// begins. With the directory, if it is one.
pub(super) async fn named<'a>(
    name: &'a str,
    registry: &Registry,
    session: Option<&Session>,
) -> Result<(PolicySet, Option<&'a Path>), Failure> {
    let directory = Path::new(name);
    let source = match session {
        Some(session) if name == "current" => {
            PolicySource::Files(session.core().policies.current().set.texts().to_vec())
        }
        Some(session) if !directory.is_dir() => copy(name, session).await?,
        None if name == "current" && !directory.is_dir() => {
            let next = "say of which database: `--db sqlite:countersign.db`";
            return Err(Failure::could_not_run("the active set is not known without a database", next));
        }
        Some(_) | None => return Ok((loaded(Some(directory), registry)?, Some(directory))),
    };
    let (set, _) = policy::load(&source, registry).map_err(Failure::of_policies)?;
    Ok((set, None))
}

async fn copy(name: &str, session: &Session) -> Result<PolicySource, Failure> {
    let next = "name a directory, `current`, or a set of `countersign policy history` by 6 digits of its hash at least";
    let what = match session.core().copy_called(name).await.map_err(|it| Failure::of_trail(&it))? {
        Called::One(source) => return Ok(source),
        Called::None => format!("no directory and no kept policy set is called `{name}`"),
        Called::Altered => {
            let what = format!("the kept policy set `{name}` is not as it was written: somebody changed the database");
            return Err(Failure::could_not_run(what, "find out who changed the database; name another set"));
        }
        Called::Several => format!("several kept policy sets are called `{name}..`"),
    };
    Err(Failure::could_not_run(what, next))
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
