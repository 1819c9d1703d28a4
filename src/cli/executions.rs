//! `executions list|show|resolve`.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::actors::identity;
use super::args::{Began, Executions as Args, ExecutionsCommand, ExecutionsList, Place, ResolveTo};
use super::exit::{Exit, Side, next_step};
use super::failure::Failure;
use super::open::{Database, Records, Session, text};
use super::place::{Lack, Where};
use super::remote::Asked;
use super::screen::{Answer, HINT, STRONG, facts, plain, pretty, table};
use super::user::issuer;
use crate::builder::Role;
use crate::canonical;
use crate::executions::{execution_view, execution_views};
use crate::rejection::Rejection;
use crate::{ErrorCode, ExecutionStatus, ExecutionView, Executions, Resolution};

/// No route lists executions: policy lets people read the trail, and there they are.
const LACK: Lack = Lack {
    what: "lists no executions",
    next: "see what was interrupted: `countersign audit list --type capability.interrupted`; or work on its database: `--db URL`",
};

pub(super) async fn run(args: Args) -> Result<Answer, Failure> {
    match args.command {
        ExecutionsCommand::List(args) => list(&args).await,
        ExecutionsCommand::Show { id, who, place } => show(&id, who.actor.as_deref(), &place).await,
        ExecutionsCommand::Resolve { id, who, to, output, place } => {
            resolve(&id, who.actor.as_deref(), to, output.as_deref(), &place).await
        }
    }
}

/// The state, and the output where it may be seen today (EXE-11).
#[derive(Debug, Deserialize, Serialize)]
struct Shown {
    #[serde(flatten)]
    view: ExecutionView,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
}

impl From<ExecutionView> for Shown {
    fn from(view: ExecutionView) -> Self {
        Self { view, output: None }
    }
}

/// Presence decides: `null` is an output too.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

async fn list(args: &ExecutionsList) -> Result<Answer, Failure> {
    let records = Records::open(&args.records.database(&LACK)?).await?;
    let status = args.status.map(|it| match it {
        Began::Running => ExecutionStatus::Running,
        Began::Completed => ExecutionStatus::Completed,
        Began::Failed => ExecutionStatus::Failed,
        Began::Unknown => ExecutionStatus::Unknown,
        Began::NotExecuted => ExecutionStatus::NotExecuted,
    });
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let listed = execution_views(records.readers(), status, args.before.as_deref(), limit + 1).await;
    records.close().await;
    let mut all = listed.map_err(|it| Failure::of_trail(&it))?;
    let has_more = all.len() > limit;
    all.truncate(limit);
    let Some(last) = all.last() else { return Ok(Answer::list(&all, "There are no such executions.\n")) };
    let rows: Vec<_> = all.iter().map(row).collect();
    let hint = format!("{HINT}there are more:{HINT:#} `--before {}`, or a larger `--limit`\n", last.id);
    let text = table(&["execution", "status", "capability", "actor", "started", "ended"], &rows);
    Ok(Answer::list(&all, text + if has_more { &hint } else { "" }))
}

fn row(it: &ExecutionView) -> Vec<String> {
    let status = serde_json::to_value(it.status).ok();
    let actor = it.actor.as_ref().map_or_else(|| "nobody".into(), |it| it.id.clone());
    vec![
        it.id.to_string(),
        status.as_ref().and_then(|it| it.as_str()).unwrap_or_default().to_owned(),
        it.capability_id.as_ref().map_or_else(|| "-".into(), ToString::to_string),
        format!("{actor}@{}", it.tenant),
        it.started_at.to_string(),
        it.ended_at.map_or_else(|| "-".into(), |it| it.to_string()),
    ]
}

async fn show(id: &str, actor: Option<&str>, place: &Place) -> Result<Answer, Failure> {
    let (shown, side) = match place.find(&[("--actor", actor.is_some())])? {
        Where::Server(server) => (server.get(&["v1", "executions", id], &[]).await?, Side::Server),
        Where::Database(db) => (show_here(&db, id, actor, place).await?, Side::Database),
    };
    Ok(answer(shown, side))
}

/// With an actor: what it asked for, or may read. Without: everything, for the operator.
async fn show_here(db: &str, id: &str, actor: Option<&str>, place: &Place) -> Result<Asked<Shown>, Failure> {
    let Some(name) = actor else {
        let records = Records::open(db).await?;
        let view = execution_view(records.readers(), id).await;
        records.close().await;
        let view = view.map_err(|it| Rejection::from(it).face());
        let view = view.and_then(|it| it.ok_or_else(|| Rejection::ExecutionNotFound.face()));
        return Ok(view.map(Shown::from));
    };
    let session = Session::open(db, place, Role::Looks, Database::Existing).await?;
    let executions = session.engine.executions(identity(Some(name))?);
    let shown = match executions.show(id).await {
        Ok(view) => executions.output(id).await.map(|it| Shown { view, output: it.map(crate::Output::into_json) }),
        Err(error) => Err(error),
    };
    session.close().await;
    Ok(shown)
}

async fn resolve(
    id: &str,
    actor: Option<&str>,
    to: ResolveTo,
    output: Option<&str>,
    place: &Place,
) -> Result<Answer, Failure> {
    let place_found = place.find(&[("--actor", actor.is_some())])?;
    let resolution = resolution(to, output)?;
    let (resolved, side) = match place_found {
        Where::Server(server) => {
            let body = match resolution {
                Resolution::Completed(None) => json!({"as": "completed"}),
                Resolution::Completed(Some(output)) => json!({"as": "completed", "output": output}),
                Resolution::Failed => json!({"as": "failed"}),
                Resolution::NotExecuted => json!({"as": "not_executed"}),
            };
            (server.post(&["v1", "executions", id, "resolve"], body.to_string()).await?, Side::Server)
        }
        Where::Database(db) => {
            let identity = identity(actor)?;
            let session = Session::open(&db, place, Role::Visits, Database::Existing).await?;
            // The record says who sat there.
            let executions = Executions { core: Arc::clone(session.core()), identity, issuer: Some(issuer()) };
            let resolved = executions.resolve(id, resolution).await;
            session.close().await;
            (resolved.map(Shown::from), Side::Database)
        }
    };
    let done = format!("execution {id} is settled");
    let is_done = resolved.is_ok();
    let answer = answer(resolved, side);
    Ok(if is_done { answer.having_done(done) } else { answer })
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

fn answer(shown: Asked<Shown>, side: Side) -> Answer {
    match shown {
        Ok(shown) => Answer::new(Exit::Done, &shown, whole(&shown)),
        Err(error) => Answer::refused_with(&error, next(error.code, side)),
    }
}

/// Two codes mean something of their own here.
fn next(code: ErrorCode, side: Side) -> &'static str {
    match code {
        ErrorCode::CapabilityNotFound => "look for its id on the trail: `countersign audit list`",
        ErrorCode::ApprovalAlreadyDecided => "see how it ended: `countersign executions show ID`",
        other => next_step(other, side),
    }
}

fn whole(Shown { view, output }: &Shown) -> String {
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
    let output = output.as_ref().map(|it| format!("output\n{}\n", plain(&pretty(it)))).unwrap_or_default();
    format!("{STRONG}{}{STRONG:#}\n{}{output}", view.id, facts(&rows))
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
