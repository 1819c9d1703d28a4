//! `approvals list|show|approve|reject|resume|withdraw|watch`.

mod look;
mod source;
mod watch;

use self::look::{have, listed, settled, whole};
use self::source::Source;
use super::args::{Approvals as Args, ApprovalsCommand, ApprovalsList, As, Decide, Place};
use super::exit::{Exit, Side};
use super::failure::Failure;
use super::invoke;
use super::screen::Answer;
use crate::builder::Role;
use crate::{ApprovalView, Requirement, Verdict};

pub(super) async fn run(args: Args) -> Result<Answer, Failure> {
    match args.command {
        ApprovalsCommand::List(args) => list(&args).await,
        ApprovalsCommand::Show { id, who, place } => show(&id, &who, &place).await,
        ApprovalsCommand::Watch { who, place } => watch::run(&who, &place).await,
        ApprovalsCommand::Approve(it) => decide(&it, Verdict::Approve).await,
        ApprovalsCommand::Reject(it) => decide(&it, Verdict::Reject).await,
        ApprovalsCommand::Resume { id, who, surface, place } => {
            invoke::resume(&id, who.actor.as_deref(), surface, &place).await
        }
        ApprovalsCommand::Withdraw { id, who, place } => withdraw(&id, &who, &place).await,
    }
}

async fn list(args: &ApprovalsList) -> Result<Answer, Failure> {
    let source = Source::open(&args.who, &args.place, Role::Looks).await?;
    let side = source.side();
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let found = source.list(args.status, args.before.as_deref(), limit).await;
    source.close().await;
    Ok(match found? {
        Ok((all, has_more)) => listed(&all, has_more),
        Err(error) => Answer::refused(&error, side),
    })
}

async fn show(id: &str, who: &As, place: &Place) -> Result<Answer, Failure> {
    let source = Source::open(who, place, Role::Looks).await?;
    let side = source.side();
    let shown = source.show(id).await;
    source.close().await;
    Ok(match shown? {
        Ok(view) => Answer::new(Exit::Done, &view, whole(&view, side)),
        Err(error) => Answer::refused(&error, side),
    })
}

async fn decide(args: &Decide, verdict: Verdict) -> Result<Answer, Failure> {
    let source = Source::open_as(&args.who, &args.place, Role::Visits).await?;
    let decided = decided(&source, args, verdict).await;
    source.close().await;
    decided
}

async fn decided(source: &Source, args: &Decide, verdict: Verdict) -> Result<Answer, Failure> {
    let kind = match &args.kind {
        Some(kind) => kind.clone(),
        // Where there is nothing to choose from, the engine says why, on record.
        None => match source.show(&args.id).await? {
            Ok(view) => outstanding(&view)?,
            Err(_) => String::new(),
        },
    };
    let decided = source.decide(&args.id, &kind, verdict, args.comment.as_deref()).await?;
    Ok(settled(decided, source.side()))
}

/// The one type that is outstanding.
fn outstanding(view: &ApprovalView) -> Result<String, Failure> {
    let open = |it: &&Requirement| have(view, it) < usize::try_from(it.quorum).unwrap_or(usize::MAX);
    let types: Vec<_> = view.requirements.iter().filter(open).map(|it| it.kind.clone()).collect();
    match &*types {
        [] => Ok(view.requirements.first().map(|it| it.kind.clone()).unwrap_or_default()),
        [one] => Ok(one.clone()),
        several => {
            let cause = format!("several types are outstanding: {}", several.join(", "));
            Err(Failure::invalid(cause, format!("say which one is decided: `--type {}`", several[0])))
        }
    }
}

async fn withdraw(id: &str, who: &As, place: &Place) -> Result<Answer, Failure> {
    let source = Source::open_as(who, place, Role::Visits).await?;
    let done = source.withdraw(id).await;
    let side: Side = source.side();
    source.close().await;
    Ok(settled(done?, side))
}
