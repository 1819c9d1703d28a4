//! `policy backtest`: another set against the decisions on record.

use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::open::{Session, registry};
use super::super::place::{Lack, database};
use super::super::screen::{Answer, GOOD, plain};
use super::args::{Backtest as Args, Look};
use super::changes::{counted, progress, progress_ends, replayed, shown};
use super::matrix::at_fault;
use super::plural;
use super::set::{named, world};
use crate::workbench::{Backtest, Replaying, backtest};

const LACK: Lack = Lack { what: "asks no other policies of its calls", next: "work on its database: `--db URL`" };

pub(super) async fn run(args: &Args) -> Result<Answer, Failure> {
    let session = Session::follow(&database(args.db.as_deref(), &args.remote, &LACK)?).await?;
    let answer = tested(args, &session).await;
    session.close().await;
    answer
}

async fn tested(args: &Args, session: &Session) -> Result<Answer, Failure> {
    let world = world(registry()?, &args.comparing.actors)?;
    let (candidate, _) = named(&args.set, &world.registry, Some(session)).await?;
    let replaying = Replaying {
        core: session.core(),
        cast: &world.cast,
        since: args.since,
        until: args.until,
        show_inputs: args.comparing.show_inputs,
    };
    let tested = backtest(&candidate, &replaying, &mut progress).await;
    progress_ends();
    let tested = tested.map_err(|it| Failure::of_trail(&it))?.map_err(at_fault)?;
    let exit = if tested.changes.count() == 0 { Exit::Done } else { Exit::Failed };
    let left = session.core().store.log().gone().await.map_err(|it| Failure::of_trail(&it))?;
    let left = Some(left).filter(|it| *it > 0);
    let mut json = tested.json(&candidate);
    if let Some(left) = left {
        json["detached"] = left.into();
    }
    Ok(Answer::new(exit, &json, text(&tested, left, args.comparing.look)))
}

fn text(tested: &Backtest, left: Option<i64>, look: Look) -> String {
    let Backtest { replay, changes } = tested;
    let mut text = String::new();
    if changes.count() > 0 {
        text += &look.heading("Decisions");
        text += &shown(changes, look);
        text += "\n";
    }
    let mut lines = replayed(replay, look);
    lines.extend(left.map(|it| format!("events up to {it} have left the database: their calls were not asked again")));
    let (count, asked) = (changes.count(), replay.exact + replay.without_input);
    lines.push(match (count, look) {
        (0, Look::Table) => format!("{GOOD}no decision changes{GOOD:#} of {asked} asked again"),
        (0, Look::Markdown) => format!("**No decision changes** of {asked} asked again."),
        (_, _) => format!("{count} change{}: {}; of {asked} asked again", plural(count), plain(&counted(changes))),
    });
    text + &look.said(&lines)
}
