//! `policy publish`: a directory becomes the active set.

use super::super::exit::{Exit, Side, next_step};
use super::super::failure::Failure;
use super::super::open::{Session, source};
use super::super::place::Lack;
use super::super::screen::{Answer, GOOD};
use super::args::Publish;
use super::problem::render;
use crate::{ErrorCode, PolicyRefusal, PolicyReload};

/// Policies do not travel: they are where the server loads them from, or are published beside its database.
pub(super) const LACK: Lack = Lack {
    what: "takes no policies from here",
    next: "put them where it loads its own from, then `countersign policy reload`; or work on its database: `--db URL`",
};

pub(super) async fn run(args: &Publish) -> Result<Answer, Failure> {
    let db = args.records.database(&LACK)?;
    let source = source(Some(&args.dir))?;
    let session = Session::follow(&db).await?;
    let published = session.policies(&args.who)?.publish(source).await;
    session.close().await;
    answer(published, Side::Database)
}

/// What became of a change of the active set.
pub(super) fn answer(changed: Result<PolicyReload, PolicyRefusal>, side: Side) -> Result<Answer, Failure> {
    match changed {
        Ok(PolicyReload { hash, changed, notes }) => {
            let shown: String = notes.iter().map(render).collect();
            let word = if changed { "active" } else { "active already" };
            let text = format!("{shown}{GOOD}{word}{GOOD:#} {hash}\n  next: countersign policy history\n");
            let json = serde_json::json!({"status": "active", "hash": hash, "changed": changed, "problems": notes});
            Ok(Answer::new(Exit::Done, &json, text).having_done(format!("{word} {hash}")))
        }
        Err(PolicyRefusal::Problems(problems)) => Err(Failure::of_policies(problems)),
        Err(PolicyRefusal::Refused(error)) => {
            let next = match error.code {
                ErrorCode::PolicyDenied => "let somebody do it whom the active policies permit `publish_policies`",
                ErrorCode::InputInvalid => "see what is kept: `countersign policy history`",
                other => next_step(other, side),
            };
            Ok(Answer::refused_with(&error, next))
        }
    }
}
