//! Capabilities from files: procedures in any language, called over HTTP or as local commands.
//!
//! `docs/manifests.md` is the contract for their authors.

mod command;
mod endpoint;
mod exchange;
mod fields;
mod file;
mod guard;
mod headers;
mod json;
mod origins;
mod procedure;
mod program;
mod registered;
mod secrets;
mod settings;
mod signature;
mod source;
mod trace;

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

pub use self::guard::{GUARD, guard};
pub use self::settings::ManifestSettings;

use self::file::{Around, Manifest};
use self::origins::Origins;
use self::secrets::Vault;
use crate::builder::Problem;
use crate::capability::Capability;
use crate::outbound;

/// Longer than any procedure may take: each call has a time-out of its own.
const LONGEST: Duration = Duration::from_hours(25);

/// Reads every manifest of a directory, `*.toml`, for [`EngineBuilder::capabilities`](crate::EngineBuilder::capabilities).
/// At most 1,024 files of at most 1 MiB each; directories below are not looked into.
///
/// Relative paths in a manifest count from the directory. `env` reads the environment: for secrets, and for what commands
/// are to be passed on. The capabilities fit an engine with any context; their procedures do not see it. They need a tokio
/// runtime with input, output and time.
///
/// ```no_run
/// # fn doc() -> Result<countersign::EngineBuilder<()>, Vec<countersign::Problem>> {
/// use countersign::manifest::{ManifestSettings, load};
///
/// let settings = ManifestSettings::default().endpoints(["https://app.example"]);
/// let env = |name: &str| std::env::var(name).ok();
/// let engine = countersign::Engine::builder().capabilities(load("capabilities".as_ref(), &settings, &env)?);
/// # Ok(engine)
/// # }
/// ```
///
/// # Errors
/// Every problem of every file, each with file, line, field and what to do. No value of a manifest is repeated in one.
pub fn load<C: Send + Sync + 'static>(
    directory: &Path,
    settings: &ManifestSettings,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Capability<C>>, Vec<Problem>> {
    let mut problems = Vec::new();
    let origins = Origins::new(&settings.endpoints, &mut problems);
    let guard = guard_of(settings, &mut problems);
    let client = outbound::unpooled(LONGEST).map_err(|error| {
        vec![Problem::new("the machine", format!("no calls can be made: {error}"), "see to its certificates")]
    })?;
    let Ok(directory) = std::path::absolute(directory) else {
        problems.push(Problem::new("[capabilities] directory", "it is no path", "name a directory of manifests"));
        return Err(problems);
    };
    let vault = Vault { base: &directory, env };
    let around = Around { directory: &directory, origins: &origins, vault, guard: guard.as_deref(), client: &client };
    let mut manifests: Vec<Manifest<C>> = Vec::new();
    for (path, text) in source::manifests(&directory, &mut problems) {
        match file::read(&path.display().to_string(), &text, &around) {
            Ok(manifest) => manifests.push(manifest),
            Err(found) => problems.extend(found),
        }
    }
    problems.extend(collisions(&manifests));
    if problems.is_empty() { Ok(manifests.into_iter().map(|it| it.capability).collect()) } else { Err(problems) }
}

/// The texts of a directory's manifests, as far as they can be read.
pub(crate) fn texts(directory: &Path) -> Vec<String> {
    source::manifests(directory, &mut Vec::new()).into_iter().map(|it| it.1).collect()
}

/// The guard as a whole path: commands run elsewhere.
fn guard_of(settings: &ManifestSettings, problems: &mut Vec<Problem>) -> Option<std::path::PathBuf> {
    let guard = std::path::absolute(settings.guard.as_deref()?).ok().filter(|it| it.is_file());
    if guard.is_none() {
        let fix = "name the `countersign` binary, or a program of your own that calls `manifest::guard`";
        problems.push(Problem::new("[capabilities] guard", "there is no such program", fix));
    }
    guard
}

/// Two files with one id: told with both, where the engine would know their ids alone.
fn collisions<C>(manifests: &[Manifest<C>]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut first: HashMap<&str, &str> = HashMap::new();
    for manifest in manifests {
        let id = manifest.capability.draft.id.as_str();
        match first.get(id) {
            Some(other) => {
                let what = format!("`id`: `{id}` is the id of `{other}` too");
                problems.push(Problem::new(&*manifest.place, what, "rename one of them"));
            }
            None => _ = first.insert(id, &manifest.place),
        }
    }
    problems
}
