//! The trail and the outcome are committed. What is not on record is not answered.

use std::time::Duration;

use crate::audit::{AuditEvent, EventKind, ReconciledBy};
use crate::clock::Clock;
use crate::handler::Found;
use crate::outcome::Outcome;
use crate::rejection::{Failed, Late, Rejection};
use crate::stage::Stage;
use crate::stage::approval::Filed;
use crate::stage::idempotency::{Begun, Known};
use crate::stage::redaction::{self, Output, Stored};
use crate::store::op::{End, Finish, HolderState, Reconcile, Settled};
use crate::store::{EventFilter, Store, StoreError};
use crate::trail::Trail;

/// How long a reply waits for its record (EXE-9).
const PATIENCE: Duration = Duration::from_secs(5);

/// An outcome that is on record: the only thing that a surface may answer with (INV-10, INV-13).
pub(crate) struct Recorded(Outcome);

impl Recorded {
    pub(crate) fn into_outcome(self) -> Outcome {
        self.0
    }

    pub(crate) fn outcome(&self) -> &Outcome {
        &self.0
    }
}

/// What became of the wish to end.
#[expect(clippy::large_enum_variant, reason = "moved once")]
pub(crate) enum Ending {
    /// The second part is the execution itself, if its handler still runs.
    Recorded(Recorded, Option<(Begun, Late)>),
    /// A read whose policy set is not the active one any more: nothing is on record, back to stage 5.
    PolicyChanged,
}

/// Settles the claim and writes the terminal event: one transaction, together with the beginning for a read.
pub(crate) async fn finish(
    trail: &mut Trail,
    begun: Begun,
    ended: Result<Output, Failed>,
    store: &Store,
    clock: &Clock,
) -> Result<Ending, Rejection> {
    let nature = begun.nature();
    let execution_id = trail.execution().clone();
    let (event, end, stored, outcome, late) = match ended {
        Ok(output) => {
            let event = EventKind::Completed { duration_us: trail.elapsed_us(), attempts: trail.attempts };
            let stored = begun.slot().map(|_| Stored::seal(begun.capability(), &output));
            let outcome = Outcome::Completed { execution_id, output: Some(output), replayed: false, recorded: true };
            (event, End::Completed, stored, outcome, None)
        }
        Err(mut failed) => {
            log(trail, &failed);
            let late = failed.take_late();
            // A read's failure belongs to the stage it came from, a write's too.
            let event = failed.event(failed_at(trail, &failed), trail.attempts, trail.elapsed_us(), nature);
            let end = failed.end(nature);
            let stored =
                (end == End::Failed && begun.slot().is_some()).then(|| Stored::seal_failure(&failed.face(nature)));
            (event, end, stored, failed.outcome(execution_id, nature), late)
        }
    };
    trail.at(Stage::Record);
    if begun.deferred().is_some() {
        return finish_read(trail, begun, event, outcome, late, store, clock).await;
    }
    let outcome = match within(clock, settle(trail, &begun, (end, stored), event, store)).await {
        Some(Ok(settled)) => {
            if settled.late && !settled.applied {
                tracing::error!(execution = %trail.execution(), "ended after it was settled otherwise: it may be a double effect");
            }
            outcome
        }
        // It happened, and never turns into "it did not" (INV-10): the store goes on trying.
        failed => {
            let error = failed.and_then(Result::err);
            tracing::error!(execution = %trail.execution(), error = ?error, "ran, but its end is not on record yet");
            unrecorded(outcome)
        }
    };
    trail.written();
    Ok(Ending::Recorded(Recorded(outcome), late.map(|late| (begun, late))))
}

/// The end itself must be on record, whatever repetitions are answered with (EXE-9): an outcome that the store does not
/// take gives way to one that says less.
async fn settle(
    trail: &Trail,
    begun: &Begun,
    (end, stored): (End, Option<String>),
    event: EventKind,
    store: &Store,
) -> Result<Settled, StoreError> {
    let operation = |outcome, event| Finish {
        execution: trail.execution().clone(),
        slot: begun.slot().map(|it| it.as_str().to_owned()),
        end,
        outcome,
        events: trail.with(event),
    };
    let less = stored.is_some();
    match store.finish(operation(stored, event.clone())).await {
        Err(StoreError::Invalid(cause)) if less => {
            tracing::error!(execution = %trail.execution(), %cause, "the outcome cannot be stored: repetitions get none");
            store.finish(operation(Some(Stored::seal_less(end)), event)).await
        }
        done => done,
    }
}

/// No record, no answer.
async fn finish_read(
    trail: &mut Trail,
    begun: Begun,
    event: EventKind,
    outcome: Outcome,
    late: Option<Late>,
    store: &Store,
    clock: &Clock,
) -> Result<Ending, Rejection> {
    let mut events = trail.unwritten().to_vec();
    // `capability.retried` was noted after the start, and everything else before it.
    if let Some(started) = begun.deferred() {
        let retried = events.iter().position(|it| matches!(it.kind, EventKind::Retried { .. }));
        events.insert(retried.unwrap_or(events.len()), trail.event(started.clone()));
    }
    events.push(trail.event(event));
    match within(clock, store.read_once(begun.generation(), events, trail.seen())).await {
        Some(Ok(true)) => {
            trail.written();
            Ok(Ending::Recorded(Recorded(outcome), late.map(|late| (begun, late))))
        }
        Some(Ok(false)) => {
            trail.starts_over();
            Ok(Ending::PolicyChanged)
        }
        Some(Err(error)) => Err(error.into()),
        None => Err(Rejection::Audit(StoreError::Unavailable("no commit within the time".into()))),
    }
}

async fn within<T>(clock: &Clock, commit: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased; // it is handed to the writer whatever the clock says: a process may have been stopped right here
        done = commit => Some(done),
        () = clock.sleep(PATIENCE) => None,
    }
}

fn unrecorded(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Completed { execution_id, output, replayed, recorded: _ } => {
            Outcome::Completed { execution_id, output, replayed, recorded: false }
        }
        other @ (Outcome::ApprovalRequired { .. } | Outcome::Failed { .. } | Outcome::Cancelled { .. }) => other,
    }
}

/// The stage that a failure belongs to.
fn failed_at(trail: &Trail, failed: &Failed) -> Stage {
    match failed {
        Failed::Output(_) => trail.stage(),
        Failed::LeaseLost { .. } => Stage::Control,
        Failed::Declared(_)
        | Failed::Unauthenticated { .. }
        | Failed::Forbidden { .. }
        | Failed::NotExecuted { .. }
        | Failed::Unknown(_)
        | Failed::Other(_)
        | Failed::Stopped { .. } => Stage::Handler,
    }
}

/// What the application says of its own failure may hold anything, a caller's input too, so it is not logged: the
/// application's middleware sees it first, and knows what it may write down (INV-9).
fn log(trail: &Trail, failed: &Failed) {
    let (execution, code) = (trail.execution(), failed.code());
    match failed {
        Failed::NotExecuted { cause, .. } | Failed::Unknown(cause) | Failed::Other(cause) => {
            let cause = cause.downcast_ref::<Found>().map(|it| it as &dyn std::error::Error);
            tracing::warn!(%execution, %code, cause, "the handler failed");
        }
        Failed::Output(problems) => tracing::error!(%execution, %code, ?problems, "the output was withheld"),
        Failed::Declared(_)
        | Failed::Unauthenticated { .. }
        | Failed::Forbidden { .. }
        | Failed::LeaseLost { .. }
        | Failed::Stopped { .. } => tracing::info!(%execution, %code, "the execution did not complete"),
    }
}

/// How a handler ended whose execution was answered before it did. A read left nothing to settle.
pub(crate) async fn late(trail: &mut Trail, begun: &Begun, ended: Result<Output, Failed>, store: &Store) {
    if begun.deferred().is_some() {
        return;
    }
    let nature = begun.nature();
    let (end, outcome) = match ended {
        Ok(output) => (End::Completed, begun.slot().map(|_| Stored::seal(begun.capability(), &output))),
        Err(failed @ Failed::NotExecuted { .. }) => {
            log(trail, &failed);
            (End::Free, None)
        }
        // It knows no more than what is on record.
        Err(failed @ Failed::Unknown(_)) => return log(trail, &failed),
        Err(failed) => {
            log(trail, &failed);
            (End::Failed, begun.slot().map(|_| Stored::seal_failure(&failed.face(nature))))
        }
    };
    let operation = Reconcile {
        execution: trail.execution().clone(),
        slot: begun.slot().map(|it| it.as_str().to_owned()),
        end,
        outcome,
        by: ReconciledBy::LateFinish,
        generation: None,
        events: Vec::new(),
    };
    match store.reconcile(operation).await {
        Ok(Some(settled)) if settled.applied => {}
        Ok(_) => {
            tracing::error!(execution = %trail.execution(), "ended late and was settled before: it may be a double effect");
        }
        Err(error) => tracing::error!(execution = %trail.execution(), %error, "a late end is not on record"),
    }
}

/// The key is known: it is answered, never run. Stages 3 to 7 have passed with today's facts (IDM-1).
pub(crate) async fn known(trail: &mut Trail, known: Known, store: &Store) -> Result<Recorded, Rejection> {
    let Known { valid, holder } = known;
    if holder.input_hash != *valid.input.hash && holder.given_hash != *valid.input.given_hash {
        return Err(Rejection::KeyReused);
    }
    let stored = match holder.state {
        HolderState::Running | HolderState::Retakable => return Err(Rejection::InProgress),
        HolderState::Unknown => return Err(Rejection::OutcomeUnknown(holder.execution)),
        HolderState::Completed | HolderState::Failed => holder.outcome,
    };
    let text = stored.ok_or(Rejection::Internal("a settled key without an outcome"))?;
    let replay = redaction::replay(trail.at(Stage::Redaction), &valid.exposed.capability, &Stored::from_store(text))?;
    let event = EventKind::Replayed { original_execution_id: holder.execution };
    trail.at(Stage::Record);
    store.append_decided(trail.with(event), trail.seen()).await?;
    trail.written();
    Ok(Recorded(replay.into_outcome()))
}

/// A person is asked. Filing put it on record, unless an inline approver was asked first and let it wait.
pub(crate) async fn waiting(trail: &mut Trail, filed: Filed, store: &Store) -> Result<Recorded, Rejection> {
    let execution_id = trail.execution().clone();
    if let Some(suspended) = filed.unsuspended {
        store.append(trail.with(suspended)).await?;
        trail.written();
    }
    Ok(Recorded(Outcome::ApprovalRequired { execution_id, approval: filed.request }))
}

/// The end of an execution that never began: one commit, and without it no honest answer.
pub(crate) async fn refusal(trail: &mut Trail, rejection: Rejection, store: &Store, clock: &Clock) -> Recorded {
    let execution = trail.execution().clone();
    let (code, stage) = (rejection.code(), trail.stage());
    if let Rejection::Context(_) = rejection {
        tracing::warn!(%execution, %code, ?stage, cause = %rejection, "refused"); // without the application's own words
    } else {
        tracing::info!(%execution, %code, ?stage, cause = &rejection as &dyn std::error::Error, "refused");
    }
    let outcome = rejection.outcome(execution.clone());
    let uncertain = matches!(rejection, Rejection::Cancelled | Rejection::OutOfTime | Rejection::Audit(_));
    let event = rejection.event(trail.stage(), trail.elapsed_us());
    let commit = async {
        if uncertain && is_told_already(trail, store).await? {
            return Ok(());
        }
        store.append_decided(trail.with(event), trail.seen()).await
    };
    match within(clock, commit).await {
        Some(Ok(())) => Recorded(outcome),
        failed => {
            let error = failed.and_then(Result::err);
            tracing::error!(%execution, ?error, "a refusal is not on record");
            let error = error.unwrap_or(StoreError::Unavailable("no commit within the time".into()));
            Recorded(Rejection::Audit(error).outcome(execution))
        }
    }
}

/// Whether a step that was given up, or got no answer, left a record all the same: a request that was filed, or a begin,
/// whose end the store owes. What was queued before this has been decided when it is answered.
async fn is_told_already(trail: &mut Trail, store: &Store) -> Result<bool, StoreError> {
    store.append(Vec::new()).await?;
    let filter = EventFilter { execution: Some(trail.execution().to_string()), ..EventFilter::default() };
    let bodies = store.events(&filter, 16).await?;
    let events: Vec<AuditEvent> = bodies.iter().filter_map(|(_, it)| serde_json::from_str(it).ok()).collect();
    if !events.is_empty() {
        trail.written(); // only the end is missing, if that
    }
    Ok(events.iter().any(|it| it.kind.is_terminal() || matches!(it.kind, EventKind::Started { .. })))
}
