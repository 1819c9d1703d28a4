//! What runs as a command: the program, its arguments, its environment and where it runs.

use std::path::Path;

use super::fields::{Fields, Found, Placed};
use super::secrets::{Vault, is_secret};

/// The variable that says which trace a command runs in.
pub(super) const TRACE: &str = "TRACEPARENT";
const MAX_ARGUMENTS: usize = 64;
const MAX_VARIABLES: usize = 128;

/// The program as it is named, and its whole path, from the manifests' directory. There is no search path: what runs is
/// what is named.
pub(super) fn program(fields: &mut Fields<'_>, directory: &Path, found: &mut Found<'_>) -> Option<(String, String)> {
    let given = fields.required::<String>("program", "name the program: `program = \"./refund\"`", found)?;
    let path = directory.join(&given.value);
    let fix = "name an executable file, absolute or from the manifests' directory; no search path is used";
    let Ok(about) = std::fs::metadata(&path) else {
        given.problem(found, "there is no such program", fix);
        return None;
    };
    if !about.is_file() || !is_executable(&about) {
        given.problem(found, "it is not an executable file", fix);
        return None;
    }
    text(&path, &given, found).map(|path| (given.value, path))
}

fn is_executable(about: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;

    about.permissions().mode() & 0o111 != 0
}

/// Where it runs: as it is named, if it is, and the whole path.
pub(super) fn working_directory(
    fields: &mut Fields<'_>,
    directory: &Path,
    found: &mut Found<'_>,
) -> Option<(Option<String>, String)> {
    let Some(given) = fields.optional::<String>("cwd", found) else {
        return directory.to_str().map(|it| (None, it.into()));
    };
    let path = directory.join(&given.value);
    if !path.is_dir() {
        given.problem(found, "there is no such directory", "name one, absolute or from the manifests' directory");
        return None;
    }
    text(&path, &given, found).map(|path| (Some(given.value), path))
}

fn text(path: &Path, given: &Placed<String>, found: &mut Found<'_>) -> Option<String> {
    let text = path.to_str().filter(|it| !it.contains('\0')).map(Into::into);
    if text.is_none() {
        given.problem(found, "the path is not text", "give the directory a name in UTF-8");
    }
    text
}

pub(super) fn arguments(fields: &mut Fields<'_>, found: &mut Found<'_>) -> Vec<String> {
    let Some(given) = fields.optional::<Vec<String>>("args", found) else { return Vec::new() };
    if given.value.len() > MAX_ARGUMENTS {
        given.problem(found, format!("there are more than {MAX_ARGUMENTS} arguments"), "remove some");
    }
    for argument in &given.value {
        let option = argument.split_once('=').filter(|(name, _)| is_option(name));
        let (name, value) = option.unwrap_or(("", argument));
        if argument.contains('\0') {
            given.problem(found, "an argument holds a NUL", "remove it");
        } else if is_secret(name, value) {
            let fix = "hand it over in the environment, by reference: `secrets = { NAME = { file = \"PATH\" } }`";
            given.problem(found, "an argument looks like a secret, and everybody sees arguments", fix);
        }
    }
    given.value
}

/// The whole environment of the command: the variables that the manifest passes on, as far as they are set, and secrets.
pub(super) fn environment(fields: &mut Fields<'_>, vault: &Vault<'_>, found: &mut Found<'_>) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    let within = fields.name().to_owned();
    if let Some(given) = fields.optional::<Vec<String>>("env", found) {
        for name in &given.value {
            if name == TRACE {
                given.problem(found, "the engine sets `TRACEPARENT` itself", "remove it");
            } else if is_variable(name) {
                out.extend((vault.env)(name).filter(|it| !it.contains('\0')).map(|value| (name.clone(), value)));
            } else {
                given.problem(found, "it lists what is no name of a variable", "use letters, digits and `_`");
            }
        }
    }
    if let Some(table) = fields.table("secrets", found) {
        for (name, given) in table.open() {
            if !is_variable(&name) {
                given.problem(found, "it is no name of a variable", "use letters, digits and `_`");
            } else if name == TRACE {
                given.problem(found, "the engine sets this variable itself", "remove it");
            } else if out.iter().any(|(it, _)| *it == name) {
                given.problem(found, format!("`{within}.env` passes it on too"), "keep one of the two");
            } else {
                out.extend(vault.fetch(given, found).map(|it| (name, it.reveal().to_owned())));
            }
        }
    }
    if out.len() > MAX_VARIABLES {
        found.problem(fields.at(), &within, format!("it has more than {MAX_VARIABLES} variables"), "remove some");
    }
    out
}

/// `--name` of `--name=value`.
fn is_option(name: &str) -> bool {
    name.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.'))
}

fn is_variable(name: &str) -> bool {
    name.bytes().next().is_some_and(|it| it.is_ascii_alphabetic() || it == b'_')
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_')
}
