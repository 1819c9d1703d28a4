//! Where a command works: on a database, or through a server. Flags go before the environment.

use super::args::{Place, Records, Remote};
use super::failure::Failure;
use super::remote::Server;
use crate::secret::{Secret, SecretRef};

/// The database of commands that name none.
const DATABASE: &str = "sqlite:countersign.db";

/// The variables that name a server and hold its token.
const SERVER: &str = "COUNTERSIGN_SERVER";
const TOKEN: &str = "COUNTERSIGN_TOKEN";

/// Where a command works.
pub(super) enum Where {
    /// The URL of a database.
    Database(String),
    Server(Server),
}

/// Flags that mean something to a database only, and whether they are given.
type Given<'a> = &'a [(&'static str, bool)];

impl Place {
    /// Where this command works. `given` is what else the command was told that a server does not take.
    pub(super) fn find(&self, given: Given<'_>) -> Result<Where, Failure> {
        let given = [given, &[("--policies", self.policies.is_some())]].concat();
        find(self.db.as_deref(), &self.remote, &given)
    }
}

impl Records {
    /// As [`Place::find`].
    pub(super) fn find(&self, given: Given<'_>) -> Result<Where, Failure> {
        find(self.db.as_deref(), &self.remote, given)
    }

    /// See [`database`].
    pub(super) fn database(&self, lack: &Lack) -> Result<String, Failure> {
        database(self.db.as_deref(), &self.remote, lack)
    }
}

/// What a server cannot be asked for, and what to do instead.
pub(super) struct Lack {
    pub(super) what: &'static str,
    pub(super) next: &'static str,
}

/// The database, for a command that no server has a route for.
pub(super) fn database(db: Option<&str>, remote: &Remote, lack: &Lack) -> Result<String, Failure> {
    match find(db, remote, &[])? {
        Where::Database(url) => Ok(url),
        Where::Server(_) => Err(Failure::could_not_run(format!("a server {}", lack.what), lack.next)),
    }
}

fn find(db: Option<&str>, remote: &Remote, given: Given<'_>) -> Result<Where, Failure> {
    let Some((url, named_by)) = server(db, remote)? else {
        let alone = [
            ("--token", remote.token.is_some()),
            ("--token-file", remote.token_file.is_some()),
            ("--insecure-http", remote.insecure_http),
        ];
        return match alone.iter().find(|it| it.1) {
            Some((flag, _)) => {
                let next = "name it, too: `--server URL`";
                Err(Failure::could_not_run(format!("`{flag}` goes with a server"), next))
            }
            None => Ok(Where::Database(db.unwrap_or(DATABASE).to_owned())),
        };
    };
    if let Some((flag, _)) = given.iter().find(|it| it.1) {
        let cause = match *flag {
            "--actor" => "`--actor` goes with a database: a server knows who asks by the token".to_owned(),
            flag => format!("`{flag}` goes with a database, and `{named_by}` names a server"),
        };
        return Err(Failure::could_not_run(cause, format!("leave `{flag}` out, or name a database: `--db URL`")));
    }
    Server::new(&url, token(remote)?.as_ref(), remote.insecure_http).map(Where::Server)
}

/// A server's URL, and what names it. A database that is named goes before the environment.
fn server(db: Option<&str>, remote: &Remote) -> Result<Option<(String, &'static str)>, Failure> {
    match (&remote.server, db) {
        (Some(_), Some(_)) => {
            let next = "leave one of them out: a command works on a database, or asks a server";
            Err(Failure::could_not_run("`--server` and `--db` name two places", next))
        }
        (Some(url), None) => Ok(Some((url.clone(), "--server"))),
        (None, Some(_)) => Ok(None),
        (None, None) => Ok(variable(SERVER).map(|url| (url, SERVER))),
    }
}

fn token(remote: &Remote) -> Result<Option<Secret>, Failure> {
    if let Some(path) = &remote.token_file {
        let found = SecretRef::File(path.clone()).resolve(std::path::Path::new(""), &variable);
        return found.map(Some).map_err(|error| {
            let below = std::error::Error::source(&error).map(|it| format!(": {it}")).unwrap_or_default();
            Failure::could_not_run(format!("{error}{below}"), "name a file that has nothing but the token")
        });
    }
    Ok(remote.token.clone().or_else(|| variable(TOKEN).map(Secret::from)))
}

#[expect(clippy::disallowed_methods, reason = "the environment is read by the command line only")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|it| !it.is_empty())
}
