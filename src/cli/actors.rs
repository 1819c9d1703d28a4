//! Who is named by `--actor`: one of the demo's people, or a file.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use super::failure::Failure;
use crate::workbench::ActorGiven;
use crate::{Identity, demo};

/// The most bytes of an actor file.
const MAX_FILE: u64 = 64 * 1024;

/// Without a name there is no actor: then the engine refuses, on record.
pub(super) fn identity(name: Option<&str>) -> Result<Identity, Failure> {
    let Some(name) = name else { return Ok(Identity::none()) };
    find(
        name,
        |given| if given.has_issuer() { Err("names an issuer, which only verified credentials do") } else { Ok(()) },
    )
}

/// Somebody in whose name nothing is done. They may be whoever a verified credential could name.
pub(super) fn supposed(name: &str) -> Result<Identity, Failure> {
    find(name, |_| Ok(()))
}

fn find(name: &str, check: impl Fn(&ActorGiven) -> Result<(), &'static str>) -> Result<Identity, Failure> {
    if let Some(identity) = demo::actor(name) {
        return Ok(identity);
    }
    if !Path::new(name).exists() {
        let known = demo::ACTORS.join(", ");
        let next = format!("name one of {known}, or a JSON file like `{EXAMPLE}`");
        return Err(Failure::could_not_run(format!("no actor and no file is called `{name}`"), next));
    }
    read(name, check)
}

const EXAMPLE: &str = r#"{"id": "kim", "kind": "user", "tenant": "acme", "roles": ["support"]}"#;

fn read(name: &str, check: impl Fn(&ActorGiven) -> Result<(), &'static str>) -> Result<Identity, Failure> {
    let wrong = |what: String| {
        Failure::could_not_run(format!("the actor file `{name}` {what}"), format!("write it like `{EXAMPLE}`"))
    };
    let unreadable = |error: io::Error| wrong(format!("cannot be read: {error}"));
    if !std::fs::metadata(name).map_err(unreadable)?.is_file() {
        return Err(wrong("is no file".into())); // a pipe would be waited for, and a device is endless
    }
    let mut text = String::new();
    let file = File::open(name).map_err(unreadable)?;
    file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(unreadable)?;
    if u64::try_from(text.len()).is_ok_and(|it| it > MAX_FILE) {
        return Err(wrong(format!("is longer than {MAX_FILE} bytes")));
    }
    let given: ActorGiven = serde_json::from_str(&text).map_err(|error| wrong(format!("is no actor: {error}")))?;
    check(&given).and_then(|()| given.identity()).map_err(|what| wrong(what.into()))
}
