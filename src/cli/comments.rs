//! `comments erase`: what approvers wrote goes, and the log stays as it is.

use serde_json::json;

use super::args::{Comments, CommentsCommand, CommentsErase};
use super::exit::Exit;
use super::failure::Failure;
use super::open::{Database, LEASE, check_database, store};
use super::place::Lack;
use super::screen::Answer;
use super::user::issuer;
use crate::Actor;
use crate::store::op::Erase;
use crate::store::{Store, StoreError};

/// How many comments one transaction erases.
const PORTION: usize = 256;

const LACK: Lack = Lack { what: "erases nobody's comments", next: "work on its database, where that is: `--db URL`" };

pub(super) async fn run(args: Comments) -> Result<Answer, Failure> {
    let CommentsCommand::Erase(args) = args.command;
    let store = store(check_database(&args.records.database(&LACK)?, Database::Existing)?).await?;
    let erased = erase(&store, &args).await;
    store.close(LEASE).await;
    let erased = erased.map_err(|error| {
        let cause = format!("the comments cannot be erased: {error}");
        Failure::could_not_run(cause, "see to the database, then erase again")
    })?;
    let text = match erased {
        0 => "There are no such comments.\n".into(),
        1 => "1 comment erased.\n".into(),
        many => format!("{many} comments erased.\n"),
    };
    let answer = Answer::new(Exit::Done, &json!({"erased": erased}), text);
    Ok(if erased > 0 { answer.having_done(format!("{erased} erased")) } else { answer })
}

async fn erase(store: &Store, args: &CommentsErase) -> Result<usize, StoreError> {
    // All spellings of an id are one person, as where decisions are counted.
    let person = args.person.as_deref().map(|it| id(&Actor::user(it).party().folded()));
    let (log, mut erased) = (store.log(), 0);
    let mut after = (String::new(), String::new());
    loop {
        let mut found = log.comments(args.approval.as_deref(), (&after.0, &after.1), PORTION).await?;
        let Some(last) = found.last() else { return Ok(erased) };
        after.clone_from(last);
        found.retain(|it| person.is_none() || person == Some(id(&it.1)));
        if !found.is_empty() {
            erased += store.erase(Erase { comments: found, by: issuer() }).await?;
        }
    }
}

/// The id of a folded party.
fn id(folded: &str) -> Option<String> {
    let (_, id): (Option<String>, String) = serde_json::from_str(folded).ok()?;
    Some(id)
}
