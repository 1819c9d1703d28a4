//! `executions show|resolve`.

use super::actors::identity;
use super::args::{Executions, ExecutionsCommand, ResolveTo};
use super::exit::{Exit, next_step};
use super::failure::Failure;
use super::open::{Database, Session, text};
use super::screen::{Answer, STRONG, facts};
use crate::builder::Role;
use crate::canonical;
use crate::rejection::Rejection;
use crate::{Error, ErrorCode, ExecutionStatus, ExecutionView, Resolution};

pub(super) async fn run(args: Executions) -> Result<Answer, Failure> {
    match args.command {
        ExecutionsCommand::Show { id, who, place } => {
            let session = Session::open(&place, Role::Looks, Database::Existing).await?;
            let shown = match who.actor {
                Some(name) => session.engine.executions(identity(Some(&name))?).show(&id).await,
                None => operators_view(&session, &id).await,
            };
            session.close().await;
            Ok(answer(shown))
        }
        ExecutionsCommand::Resolve { id, who, to, output, place } => {
            let (identity, resolution) = (identity(who.actor.as_deref())?, resolution(to, output.as_deref())?);
            let session = Session::open(&place, Role::Visits, Database::Existing).await?;
            let resolved = session.engine.executions(identity).resolve(&id, resolution).await;
            session.close().await;
            Ok(answer(resolved))
        }
    }
}

async fn operators_view(session: &Session, id: &str) -> Result<ExecutionView, Error> {
    let view = session.core().execution_view(id).await.map_err(|it| Rejection::from(it).face())?;
    view.ok_or_else(|| Rejection::ExecutionNotFound.face())
}

fn resolution(to: ResolveTo, output: Option<&str>) -> Result<Resolution, Failure> {
    let output = output.map(|it| text("--output", it)).transpose()?;
    match (to, output) {
        (ResolveTo::Completed, None) => Ok(Resolution::Completed(None)),
        (ResolveTo::Completed, Some(text)) => {
            // As strictly as an input: of repeated members nobody knows which one was meant.
            let output = canonical::parse(&text).map_err(|faults| {
                let fault = faults.all.first().map_or("not JSON", |it| it.kind.keyword());
                Failure::invalid(
                    format!("the output cannot be taken: {fault}"),
                    "give JSON that fits the output schema",
                )
            })?;
            Ok(Resolution::Completed(Some(output)))
        }
        (ResolveTo::Failed | ResolveTo::NotExecuted, Some(_)) => Err(Failure::could_not_run(
            "an output goes with `--as completed` only",
            "leave `--output` out, or say `--as completed`",
        )),
        (ResolveTo::Failed, None) => Ok(Resolution::Failed),
        (ResolveTo::NotExecuted, None) => Ok(Resolution::NotExecuted),
    }
}

fn answer(shown: Result<ExecutionView, Error>) -> Answer {
    match shown {
        Ok(view) => Answer::new(Exit::Done, &view, whole(&view)),
        Err(error) => Answer::refused_with(&error, next(error.code)),
    }
}

/// Two codes mean something of their own here.
fn next(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::CapabilityNotFound => "look for its id on the trail: `countersign audit list`",
        ErrorCode::ApprovalAlreadyDecided => "see how it ended: `countersign executions show ID`",
        other => next_step(other),
    }
}

fn whole(view: &ExecutionView) -> String {
    let actor = view.actor.as_ref().map_or_else(|| "nobody".into(), |it| format!("{} ({})", it.id, it.kind.as_str()));
    let mut rows = vec![
        ("status", status(view.status).to_owned()),
        ("capability", view.capability_id.as_ref().map_or_else(|| "none".into(), ToString::to_string)),
        ("actor", format!("{actor}, tenant {}", view.tenant)),
        ("started", view.started_at.to_string()),
    ];
    rows.extend(view.ended_at.map(|it| ("ended", it.to_string())));
    rows.extend(view.approval_id.as_ref().map(|it| ("approval", it.to_string())));
    rows.push(("trail", format!("countersign audit list --execution {}", view.id)));
    format!("{STRONG}{}{STRONG:#}\n{}", view.id, facts(&rows))
}

fn status(it: ExecutionStatus) -> &'static str {
    match it {
        ExecutionStatus::Running => "running",
        ExecutionStatus::Completed => "completed",
        ExecutionStatus::Failed => "failed",
        ExecutionStatus::Cancelled => "cancelled",
        ExecutionStatus::Waiting => "waiting for approval",
        ExecutionStatus::Unknown => {
            "unknown: it may have taken effect, settle it with `countersign executions resolve`"
        }
        ExecutionStatus::NotExecuted => "not executed",
    }
}
