//! `policy publish`: a directory becomes the active set.

use super::super::exit::{Exit, next_step};
use super::super::failure::Failure;
use super::super::open::{Session, source};
use super::super::screen::{Answer, GOOD};
use super::args::Publish;
use super::problem::render;
use crate::{ErrorCode, PolicyRefusal, PolicyReload};

pub(super) async fn run(args: &Publish) -> Result<Answer, Failure> {
    let source = source(Some(&args.dir))?;
    let session = Session::follow(&args.records.db).await?;
    let published = session.policies(&args.who)?.publish(source).await;
    session.close().await;
    answer(published)
}

/// What became of a change of the active set.
pub(super) fn answer(changed: Result<PolicyReload, PolicyRefusal>) -> Result<Answer, Failure> {
    match changed {
        Ok(PolicyReload { hash, changed, notes }) => {
            let shown: String = notes.iter().map(render).collect();
            let word = if changed { "active" } else { "active already" };
            let text = format!("{shown}{GOOD}{word}{GOOD:#} {hash}\n  next: countersign policy history\n");
            let json = serde_json::json!({"status": "active", "hash": hash, "changed": changed, "problems": notes});
            Ok(Answer::new(Exit::Done, &json, text))
        }
        Err(PolicyRefusal::Problems(problems)) => Err(Failure::of_policies(problems)),
        Err(PolicyRefusal::Refused(error)) => {
            let next = match error.code {
                ErrorCode::PolicyDenied => "let somebody do it whom the active policies permit `publish_policies`",
                ErrorCode::InputInvalid => "see what is kept: `countersign policy history`",
                other => next_step(other),
            };
            Ok(Answer::refused_with(&error, next))
        }
    }
}
