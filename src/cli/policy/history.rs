//! `policy history`: which sets were active.

use serde::Deserialize;

use super::super::exit::{Side, next_step};
use super::super::failure::Failure;
use super::super::open::{Records, Session};
use super::super::place::Where;
use super::super::remote::Asked;
use super::super::screen::{Answer, HINT, print_error, table};
use super::args::History;
use crate::policies::policy_history;
use crate::rejection::Rejection;
use crate::{ErrorCode, PolicyActivation, PolicyChanges, PolicyOrigin};

/// How much of a hash names a set: what `rollback` takes.
const SHORT: usize = "sha256:".len() + 12;

/// How many policies of a kind are named in a table.
const NAMED: usize = 3;

pub(super) async fn run(args: &History) -> Result<Answer, Failure> {
    let (history, side) = match args.records.find(&[("--actor", args.who.actor.is_some())])? {
        Where::Database(db) => (history_here(&db, args).await?, Side::Database),
        Where::Server(server) => {
            let query = [("limit", Some(args.limit.to_string()))];
            let found = server.get::<Policies>(&["v1", "policies"], &query).await?;
            (found.map(|it| it.history), Side::Server)
        }
    };
    Ok(match history {
        Ok(all) => {
            let left = left(&all, args.limit);
            if args.records.format.json && !left.is_empty() {
                print_error(&left); // the answer is the changes alone
            }
            Answer::list(&all, shown(&all, side) + &left)
        }
        Err(error) => {
            let next = match error.code {
                ErrorCode::PolicyDenied => "look as somebody whom the active policies permit `read_policies`",
                other => next_step(other, side),
            };
            Answer::refused_with(&error, next)
        }
    })
}

/// What a server answers.
#[derive(Deserialize)]
struct Policies {
    history: Vec<PolicyActivation>,
}

/// With an actor: if policy lets it read policies. Without: for the operator, who has the database anyway.
async fn history_here(db: &str, args: &History) -> Result<Asked<Vec<PolicyActivation>>, Failure> {
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    if args.who.actor.is_some() {
        let session = Session::follow(db).await?;
        let history = session.policies(&args.who)?.history(limit).await;
        session.close().await;
        return Ok(history);
    }
    let records = Records::open(db).await?;
    let history = policy_history(records.readers(), limit).await;
    records.close().await;
    Ok(history.map_err(|it| Rejection::from(it).face()))
}

/// Changes that are in an archive.
fn left(all: &[PolicyActivation], limit: u32) -> String {
    let is_all = u32::try_from(all.len()).is_ok_and(|it| it < limit);
    match all.last().map(|it| it.generation) {
        Some(Some(first)) if is_all && first > 1 => {
            format!("{HINT}changes before {first} have left the database:{HINT:#} they are in the archive\n")
        }
        // There is no engine without a set, and no set without a change.
        None => format!("{HINT}all changes have left the database:{HINT:#} they are in the archive\n"),
        Some(_) => String::new(),
    }
}

fn shown(all: &[PolicyActivation], side: Side) -> String {
    let rows: Vec<_> = all.iter().map(row).collect();
    let table = table(&["no", "since", "policies", "state", "files", "how", "what changed"], &rows);
    let back = all.iter().find(|it| it.kept && !it.active);
    let next = back.map(|it| format!("{HINT}next:{HINT:#} countersign policy rollback {} --actor NAME\n", short(it)));
    let next = next.filter(|_| side == Side::Database); // no server goes back
    table + &next.unwrap_or_default()
}

fn row(it: &PolicyActivation) -> Vec<String> {
    let state = match (it.active, it.kept) {
        (true, _) => "active",
        (false, true) => "kept",
        (false, false) => "gone",
    };
    vec![
        it.generation.map_or_else(|| "-".into(), |it| it.to_string()),
        it.at.to_string(),
        short(it).to_owned(),
        state.into(),
        it.files.to_string(),
        how(it),
        changes(it),
    ]
}

fn short(it: &PolicyActivation) -> &str {
    it.policy_hash.get(..SHORT).unwrap_or(&it.policy_hash)
}

fn how(it: &PolicyActivation) -> String {
    let word = match it.origin {
        PolicyOrigin::Files => "from files",
        PolicyOrigin::Published => "published",
        PolicyOrigin::RolledBack => "rolled back",
        PolicyOrigin::CarriedOver => "carried over",
    };
    let who = it.actor.as_ref().map(|it| format!(" by {}", it.id)).unwrap_or_default();
    let via = it.via.as_ref().map(|it| format!(" via {it}")).unwrap_or_default();
    format!("{word}{who}{via}")
}

fn changes(it: &PolicyActivation) -> String {
    let Some(PolicyChanges { added, removed, changed, more }) = &it.changes else { return "-".into() };
    let kinds = [("+", added), ("-", removed), ("~", changed)];
    let count = added.len() + removed.len() + changed.len() + more;
    let named: Vec<_> =
        kinds.iter().flat_map(|(sign, ids)| ids.iter().take(NAMED).map(move |id| format!("{sign}{id}"))).collect();
    match count - named.len() {
        0 if named.is_empty() => "the capabilities".into(),
        0 => named.join(" "),
        more => format!("{} and {more} more", named.join(" ")),
    }
}
