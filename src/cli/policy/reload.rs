//! `policy reload`: a server loads its own policies again.

use super::super::exit::Side;
use super::super::failure::Failure;
use super::super::place::Where;
use super::super::screen::Answer;
use super::args::Reload;
use super::publish::answer;
use crate::{PolicyProblem, PolicyRefusal, PolicyReload};

/// What a server answers.
#[derive(serde::Deserialize)]
struct Reloaded {
    hash: String,
    changed: bool,
    notes: Vec<PolicyProblem>,
}

pub(super) async fn run(args: &Reload) -> Result<Answer, Failure> {
    let server = match args.records.find(&[])? {
        Where::Server(server) => server,
        Where::Database(_) => {
            let next = "name the server that is to load them: `--server URL`; or publish them: `countersign policy publish DIR`";
            return Err(Failure::could_not_run("a database loads no policies", next));
        }
    };
    let reply = server.call(&["v1", "policies", "reload"], String::new(), &[]).await?;
    let done = match reply.problem()? {
        None => reply.document::<Reloaded>()?.map_err(PolicyRefusal::Refused),
        Some(problem) if !problem.problems.is_empty() => Err(PolicyRefusal::Problems(problem.problems)),
        Some(problem) => Err(PolicyRefusal::Refused(problem.error(reply.status())?)),
    };
    let done = done.map(|Reloaded { hash, changed, notes }| PolicyReload { hash, changed, notes });
    answer(done, Side::Server)
}
