//! `invoke`, and how an outcome looks.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::actors::identity;
use super::args::{Invoke, Place};
use super::exit::{Exit, Side, next_step};
use super::failure::Failure;
use super::open::{Database, Session, text};
use super::place::Where;
use super::remote::Reply;
use super::screen::{Answer, FAINT, GOOD, WARNING, facts, failed, plain, pretty};
use crate::builder::Role;
use crate::{ApprovalRequest, Error, ExecutionId, JsonInput, Outcome, Surface};

pub(super) async fn run(args: Invoke) -> Result<Answer, Failure> {
    let given = [("--actor", args.who.actor.is_some()), ("--surface", args.surface.is_some())];
    match args.place.find(&given)? {
        Where::Database(db) => run_here(&db, args).await,
        Where::Server(server) => {
            // Text, not a value: the pipeline sees what was wrong with it.
            let body = format!(r#"{{"input":{}}}"#, text("--input", &args.input)?);
            let wait = args.wait.map(|it| format!("wait={it}"));
            let headers = [
                ("idempotency-key", args.idempotency_key),
                ("x-correlation-id", args.correlation_id),
                ("prefer", wait),
            ];
            let path = ["v1", "capabilities", &args.capability, "invoke"];
            answer_of(&server.call(&path, body, &headers).await?)
        }
    }
}

async fn run_here(db: &str, args: Invoke) -> Result<Answer, Failure> {
    if args.wait.is_some() {
        let next = "leave it out, and run what was approved later: `countersign approvals resume ID --actor NAME`";
        return Err(Failure::could_not_run("`--wait` goes with a server", next));
    }
    let identity = identity(args.who.actor.as_deref())?;
    let input = text("--input", &args.input)?;
    let session = Session::open(db, &args.place, Role::Visits, Database::Created).await?;
    let caller = session.caller(identity, args.surface.unwrap_or(Surface::Direct));
    // Text, not a value: the pipeline sees what was wrong with it.
    let mut call = caller.invoke(args.capability, JsonInput::text(input));
    if let Some(key) = args.idempotency_key {
        call = call.idempotency_key(key);
    }
    if let Some(id) = args.correlation_id {
        call = call.correlation_id(id);
    }
    let outcome = call.await;
    session.close().await;
    answer(&outcome)
}

/// `approvals resume`: what was approved runs.
pub(super) async fn resume(
    id: &str,
    actor: Option<&str>,
    surface: Option<Surface>,
    place: &Place,
) -> Result<Answer, Failure> {
    match place.find(&[("--actor", actor.is_some()), ("--surface", surface.is_some())])? {
        Where::Database(db) => {
            let identity = identity(actor)?;
            let session = Session::open(&db, place, Role::Visits, Database::Existing).await?;
            let outcome = session.caller(identity, surface.unwrap_or(Surface::Direct)).resume(id).await;
            session.close().await;
            answer(&outcome)
        }
        Where::Server(server) => answer_of(&server.call(&["v1", "approvals", id, "resume"], String::new(), &[]).await?),
    }
}

/// An outcome as it is written, whoever wrote it: [`Outcome`] itself holds outputs that this process checked.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    status: Status,
    execution_id: ExecutionId,
    /// Presence decides: `null` is an output too.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    output: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approval: Option<ApprovalRequest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Error>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replayed: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recorded: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Completed,
    ApprovalRequired,
    Failed,
    Cancelled,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

fn answer(outcome: &Outcome) -> Result<Answer, Failure> {
    let told = serde_json::to_string(outcome).and_then(|it| serde_json::from_str::<Told>(&it));
    let told = told.map_err(|error| {
        let cause = format!("execution {} ended, and its outcome cannot be shown: {error}", outcome.execution_id());
        Failure::ending(Exit::Failed, cause, "see it on the trail: `countersign audit list`, and report it")
    })?;
    Ok(told.answer(Side::Database))
}

/// A server's answer to a call. What was refused before it became one has no execution.
fn answer_of(reply: &Reply) -> Result<Answer, Failure> {
    let Some(problem) = reply.problem()? else {
        return Ok(match reply.document::<Told>()? {
            Ok(told) => told.answer(Side::Server),
            Err(error) => Answer::refused(&error, Side::Server),
        });
    };
    let error = problem.error(reply.status())?;
    let Some(execution_id) = problem.execution_id else { return Ok(Answer::refused(&error, Side::Server)) };
    let is_stopped = problem.outcome.as_deref() == Some("cancelled");
    let status = if is_stopped { Status::Cancelled } else { Status::Failed };
    let replayed = reply.is_replayed.then_some(true);
    let error = Some(error);
    let told = Told { status, execution_id, output: None, approval: None, error, replayed, recorded: None };
    Ok(told.answer(Side::Server))
}

impl Told {
    fn answer(&self, side: Side) -> Answer {
        let (exit, gist) = match (&self.error, &self.approval) {
            (Some(error), _) => (Exit::of_code(error.code), format!("{} ({})", word(self.status), error.code)),
            (None, Some(approval)) => (Exit::Waiting, format!("approval required ({})", approval.id)),
            (None, None) => (Exit::Done, word(self.status).to_owned()),
        };
        let answer = Answer::new(exit, self, self.shown(side));
        let answer = answer.having_done(format!("{gist}, execution {}", self.execution_id));
        if self.error.is_some() { answer.on_standard_error() } else { answer }
    }

    fn shown(&self, side: Side) -> String {
        let execution = format!("{FAINT}execution {}{FAINT:#}\n", plain(&self.execution_id));
        if let Some(error) = &self.error {
            return format!("{}  {execution}", failed(error, next_step(error.code, side)));
        }
        if let Some(approval) = &self.approval {
            let (id, actor) = (&approval.id, side.actor());
            let rows = [
                ("approval", id.to_string()),
                ("why", approval.reasons.join("\n")),
                ("types", approval.types.join(", ")),
                ("expires", approval.expires_at.to_string()),
                ("input", approval.input_hash.clone()),
                ("next", format!("countersign approvals approve {id}{actor}")),
                ("then", format!("countersign approvals resume {id}{actor}")),
            ];
            return format!("{WARNING}approval required{WARNING:#}\n{}{execution}", facts(&rows));
        }
        let replayed = if self.replayed == Some(true) { ", replayed from its first run" } else { "" };
        let recorded = if self.recorded == Some(false) { ", its end is not on record yet" } else { "" };
        let output = self.output.as_ref().map(|it| serde_json::from_str::<Value>(it.get()).unwrap_or(json!(null)));
        let output = output.map(|it| plain(&pretty(&it)) + "\n").unwrap_or_default();
        format!("{GOOD}{}{GOOD:#}{replayed}{recorded}\n{output}{execution}", word(self.status))
    }
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Completed => "completed",
        Status::ApprovalRequired => "approval required",
        Status::Failed => "failed",
        Status::Cancelled => "cancelled",
    }
}
