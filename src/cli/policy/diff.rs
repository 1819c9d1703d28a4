//! `policy diff`: which decisions change from one set to another.

use std::path::Path;

use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::open::{Session, registry};
use super::super::screen::{Answer, GOOD, plain};
use super::args::{Diff as Args, Look};
use super::changes::{counted, progress, progress_ends, replayed, shown};
use super::matrix::at_fault;
use super::plural;
use super::set::{self, named};
use crate::policy::PolicySet;
use crate::workbench::{Diff, Pair, Replaying, Suite, World, files};
use crate::{Surface, Timestamp};

pub(super) async fn run(args: &Args) -> Result<Answer, Failure> {
    let session = match &args.db {
        Some(db) => Some(Session::follow(db).await?),
        None => None,
    };
    let answer = compared(args, session.as_ref()).await;
    if let Some(session) = session {
        session.close().await;
    }
    answer
}

async fn compared(args: &Args, session: Option<&Session>) -> Result<Answer, Failure> {
    let world = set::world(registry()?, &args.comparing.actors)?;
    let (old, old_directory) = named(&args.old, &world.registry, session).await?;
    let (new, new_directory) = named(&args.new, &world.registry, session).await?;
    let mut diff = Diff::new(Pair { old: &old, new: &new });
    let everybody = set::world(registry()?, &[])?; // cases name whom they like
    let suite = |directory, set| suite(directory, &everybody, set);
    diff.cases(suite(old_directory, &old)?.as_ref(), suite(new_directory, &new)?.as_ref());
    let surfaces: Vec<_> = Surface::ALL.into_iter().filter(|it| *it != Surface::Test).collect();
    let now = args.now.unwrap_or_else(|| crate::clock::Clock::System.now());
    diff.matrix(&world, &surfaces, now).map_err(at_fault)?;
    if let Some(session) = session {
        let replaying = Replaying {
            core: session.core(),
            cast: &world.cast,
            since: args.since.unwrap_or(Timestamp(i64::MIN)),
            until: None,
            show_inputs: args.comparing.show_inputs,
        };
        let replayed = diff.trail(&replaying, &mut progress).await;
        progress_ends();
        replayed.map_err(|it| Failure::of_trail(&it))?.map_err(at_fault)?;
    }
    let exit = if diff.changes.count() == 0 { Exit::Done } else { Exit::Failed };
    Ok(Answer::new(exit, &diff.json(), text(&diff, (&old, &new), args.comparing.look)))
}

/// The cases beside a set, if there are any.
fn suite(directory: Option<&Path>, world: &World, set: &PolicySet) -> Result<Option<Suite>, Failure> {
    let Some(directory) = directory.filter(|it| it.join("tests").exists()) else { return Ok(None) };
    let files = files(directory, "tests").map_err(Failure::of_cases)?;
    if files.is_empty() {
        return Ok(None);
    }
    Suite::read(&files, world, set).map(Some).map_err(Failure::of_cases)
}

fn text(diff: &Diff<'_>, sets: (&PolicySet, &PolicySet), look: Look) -> String {
    let mut text = String::new();
    let rows = policies(diff, sets);
    if !rows.is_empty() {
        text += &look.heading("Policies");
        text += &look.table(&["", "policy", "at", "decisions"], &rows);
        text += "\n";
    }
    if diff.changes.count() > 0 {
        text += &look.heading("Decisions");
        text += &shown(&diff.changes, look);
        text += "\n";
    }
    text + &look.said(&summary(diff, look))
}

/// Added, removed and changed ones, and whether they are behind a decision that changed.
fn policies(diff: &Diff<'_>, (old, new): (&PolicySet, &PolicySet)) -> Vec<Vec<String>> {
    let neutral = diff.neutral();
    let row = |sign: &str, id: &String, set: &PolicySet| {
        let place = set.place(id).map(ToString::to_string).unwrap_or_default();
        let changes = if neutral.contains(&id) { "none changes" } else { "some change" };
        vec![sign.to_owned(), id.clone(), place, changes.to_owned()]
    };
    let (added, removed) = (diff.policies.added.iter(), diff.policies.removed.iter());
    let mut rows: Vec<_> = added.map(|it| row("+", it, new)).collect();
    rows.extend(removed.map(|it| row("-", it, old)));
    rows.extend(diff.policies.changed.iter().map(|it| row("~", it, new)));
    rows
}

fn summary(diff: &Diff<'_>, look: Look) -> Vec<String> {
    let (cases, cells) = (diff.asked.cases, diff.asked.matrix);
    let of = format!("{cases} case{} and {cells} cells of the matrix", plural(cases));
    let count = diff.changes.count();
    let mut lines = Vec::new();
    if diff.schema_changed() {
        lines.push("the schema is another one".to_owned());
    }
    lines.extend(diff.replay.as_ref().into_iter().flat_map(|it| replayed(it, look)));
    lines.push(match (count, look) {
        (0, Look::Table) => format!("{GOOD}no decision changes{GOOD:#}: {of}"),
        (0, Look::Markdown) => format!("**No decision changes:** {of}."),
        (_, _) => format!("{count} change{}: {}; of {of}", plural(count), plain(&counted(&diff.changes))),
    });
    lines
}
