//! `invoke`, and how an outcome looks.

use super::actors::identity;
use super::args::Invoke;
use super::exit::Exit;
use super::failure::Failure;
use super::open::{Database, Session, text};
use super::screen::{Answer, FAINT, GOOD, WARNING, facts, failed, plain, pretty};
use crate::builder::Role;
use crate::{JsonInput, Outcome};

pub(super) async fn run(args: Invoke) -> Result<Answer, Failure> {
    let identity = identity(args.who.actor.as_deref())?;
    let input = text("--input", &args.input)?;
    let session = Session::open(&args.place, Role::Visits, Database::Created).await?;
    // Text, not a value: the pipeline sees what was wrong with it.
    let mut call = session.caller(identity, args.surface).invoke(args.capability, JsonInput::text(input));
    if let Some(key) = args.idempotency_key {
        call = call.idempotency_key(key);
    }
    if let Some(id) = args.correlation_id {
        call = call.correlation_id(id);
    }
    let outcome = call.await;
    session.close().await;
    Ok(answer(&outcome))
}

pub(super) fn answer(outcome: &Outcome) -> Answer {
    Answer::new(Exit::of_outcome(outcome), outcome, shown(outcome))
}

fn shown(outcome: &Outcome) -> String {
    let id = outcome.execution_id();
    let execution = format!("{FAINT}execution {id}{FAINT:#}\n");
    match outcome {
        Outcome::Completed { output, replayed, recorded, .. } => {
            let replayed = if *replayed { ", replayed from its first run" } else { "" };
            let recorded = if *recorded { "" } else { ", its end is not on record yet" };
            let output = output.as_ref().map(|it| plain(&pretty(it)) + "\n").unwrap_or_default();
            format!("{GOOD}completed{GOOD:#}{replayed}{recorded}\n{output}{execution}")
        }
        Outcome::ApprovalRequired { approval, .. } => {
            let rows = [
                ("approval", approval.id.to_string()),
                ("why", approval.reasons.join("\n")),
                ("types", approval.types.join(", ")),
                ("expires", approval.expires_at.to_string()),
                ("input", approval.input_hash.clone()),
                ("next", format!("countersign approvals approve {} --actor NAME", approval.id)),
                ("then", format!("countersign approvals resume {} --actor NAME", approval.id)),
            ];
            format!("{WARNING}approval required{WARNING:#}\n{}{execution}", facts(&rows))
        }
        Outcome::Failed { error, .. } | Outcome::Cancelled { error, .. } => format!("{}{execution}", failed(error)),
    }
}
