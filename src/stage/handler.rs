//! Lease, deadline, cancellation, attempts: stages 10 and 11, around the middleware and the handler themselves.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::audit::EventKind;
use crate::caught::Panicked;
use crate::clock::Clock;
use crate::handler::{DeclaredError, Found, HandlerError, Kind};
use crate::id::Ids;
use crate::invocation::{Body, Frame, LeaseOwner};
use crate::outcome::ErrorCode;
use crate::rejection::{Failed, Late};
use crate::stage::Stage;
use crate::stage::idempotency::Begun;
use crate::store::Store;
use crate::telemetry;
use crate::trail::Trail;

/// How long a handler that was asked to stop may take to say how it ended.
const GRACE: Duration = Duration::from_millis(100);
/// The wait before the first retry; doubles with each.
const BACKOFF: Duration = Duration::from_millis(250);
/// How much of the process's lease must be left when an attempt begins (EXE-1).
const LEASE_MARGIN: Duration = Duration::from_millis(200);

/// What a handler returned, unchecked. It cannot become an outcome.
pub(crate) struct Raw(Value);

impl Raw {
    pub(super) fn into_json(self) -> Value {
        self.0
    }

    /// What a handler returned after its execution was answered.
    pub(crate) async fn late(handler: Late, begun: &Begun) -> Result<Self, Failed> {
        sorted(handler.await, true, &begun.capability().meta.errors).map(Self)
    }
}

/// What the handler stage needs of the engine.
pub(crate) struct Control<'a> {
    pub(crate) clock: &'a Clock,
    pub(crate) ids: &'a Ids,
    pub(crate) tasks: &'a TaskTracker,
    pub(crate) stop: &'a CancellationToken,
    pub(crate) store: &'a Store,
}

/// Why the wait for a handler ends before the handler does.
struct Stops<'a> {
    caller: &'a CancellationToken,
    shutdown: &'a CancellationToken,
    lease: &'a CancellationToken,
}

pub(crate) async fn run(
    trail: &mut Trail,
    begun: &Begun,
    body: Arc<dyn Body>,
    control: Control<'_>,
) -> Result<Raw, Failed> {
    let capability = begun.capability();
    let owner = LeaseOwner::default(); // ends on every way out of here, the late handler or not
    let mut nothing_yet = true; // every attempt so far stated that nothing happened
    let mut attempt = 1;
    loop {
        trail.attempts = attempt;
        trail.at(Stage::Control);
        if begun.lost().is_cancelled() || !control.store.lease_holds(LEASE_MARGIN) {
            return Err(Failed::LeaseLost { fresh: attempt == 1 || nothing_yet });
        }
        if begun.cancel().is_cancelled() {
            return Err(stopped(ErrorCode::Cancelled, nothing_yet));
        }
        trail.at(Stage::Handler);
        let failed = match once(begun, &body, attempt, &owner, &control).await {
            Ok(output) => return Ok(Raw(output)),
            Err(failed) => failed,
        };
        nothing_yet &= matches!(failed, Failed::NotExecuted { .. } | Failed::Stopped { not_executed: true, .. });
        let failed = settled(failed, nothing_yet);
        if attempt > capability.meta.retries || !may_retry(&failed, begun) {
            return Err(failed);
        }
        tokio::select! {
            () = control.clock.sleep(backoff(control.ids, attempt)) => {}
            () = begun.cancel().cancelled() => return Err(stopped(ErrorCode::Cancelled, nothing_yet)),
            () = control.stop.cancelled() => return Err(stopped(ErrorCode::Cancelled, nothing_yet)),
        }
        attempt += 1;
        trail.note(EventKind::Retried { attempt, previous_code: failed.code() });
    }
}

/// Corrects what the last attempt says by what the ones before it said.
fn settled(failed: Failed, nothing_yet: bool) -> Failed {
    match failed {
        Failed::NotExecuted { cause, .. } => Failed::NotExecuted { cause, always: nothing_yet },
        Failed::Stopped { code, late, .. } => Failed::Stopped { code, not_executed: nothing_yet, late },
        other => other,
    }
}

fn stopped(code: ErrorCode, not_executed: bool) -> Failed {
    Failed::Stopped { code, not_executed, late: None }
}

/// Only what does no harm twice is tried twice (INV-11); time-outs never are.
fn may_retry(failed: &Failed, begun: &Begun) -> bool {
    let read = begun.capability().side_effect.is_read();
    let sort = match failed {
        Failed::NotExecuted { .. } => true,
        Failed::Unknown(_) | Failed::Other(_) => read,
        Failed::Declared(_)
        | Failed::Unauthenticated { .. }
        | Failed::Forbidden { .. }
        | Failed::Output(_)
        | Failed::LeaseLost { .. }
        | Failed::Stopped { .. } => false,
    };
    sort && begun.capability().is_repeatable() && !begun.cancel().is_cancelled()
}

/// 250 ms doubling, plus up to a quarter, so that callers who failed together do not come back together.
fn backoff(ids: &Ids, attempt: u32) -> Duration {
    let wait = BACKOFF * 2u32.saturating_pow(attempt.saturating_sub(1).min(10));
    wait + wait.mul_f64(0.25 * ids.jitter())
}

async fn once(
    begun: &Begun,
    body: &Arc<dyn Body>,
    attempt: u32,
    owner: &LeaseOwner,
    control: &Control<'_>,
) -> Result<Value, Failed> {
    let capability = begun.capability();
    let mut agent = begun.agent().clone();
    agent.attempt = attempt;
    let frame = Arc::new(Frame::new(agent, owner.lease(), begun.trace().cloned()));
    let deadline = control.clock.sleep(capability.meta.timeout);
    let stops = Stops { caller: begun.cancel(), shutdown: control.stop, lease: begun.lost() };
    // A task of its own: a handler that blocks its thread cannot hold the answer back, and a panic stays inside. So
    // even what a handler does before it returns its future happens in there.
    let (body, place) = (Arc::clone(body), capability.handler);
    let (inner, input) = (Arc::clone(&frame), Arc::clone(begun.input()));
    let mut handler =
        control.tasks.spawn(async move { body.attempt(place, inner, input).await }.instrument(frame.span.clone()));
    let declared = &capability.meta.errors;
    let ended = async {
        let code = tokio::select! {
            biased;
            result = &mut handler => return sorted(result, frame.was_entered(), declared),
            code = stops.wait() => code,
            () = deadline => ErrorCode::Timeout,
        };
        frame.cancel.cancel();
        tokio::select! {
            biased;
            result = &mut handler => match sorted(result, frame.was_entered(), declared) {
                Ok(output) => Ok(output),
                // It obeyed, and says that nothing happened: believed.
                Err(Failed::NotExecuted { .. }) => Err(stopped(code, true)),
                Err(_) => Err(stopped(code, false)),
            },
            () = control.clock.sleep(GRACE) => Err(Failed::Stopped { code, not_executed: false, late: Some(handler) }),
        }
    };
    let ended = ended.await;
    match &ended {
        Ok(_) => telemetry::told(&frame.span, "completed", None),
        Err(failed) => telemetry::told(&frame.span, "failed", Some(failed.code())),
    }
    ended
}

impl Stops<'_> {
    async fn wait(&self) -> ErrorCode {
        tokio::select! {
            () = self.caller.cancelled() => {}
            () = self.shutdown.cancelled() => {}
            () = self.lease.cancelled() => {}
        }
        ErrorCode::Cancelled
    }
}

/// What a run came to. A code that the capability did not declare is a bug of its handler, and stays inside.
fn sorted(
    result: Result<Result<Value, HandlerError>, JoinError>,
    entered: bool,
    declared: &[DeclaredError],
) -> Result<Value, Failed> {
    let error = match result {
        Ok(Ok(output)) => return Ok(output),
        Ok(Err(error)) => error,
        Err(_) => HandlerError(Kind::Other(Found(Panicked.into()).into())), // what it said may be anything
    };
    Err(match Failed::of(error, entered) {
        Failed::Declared(error) if !declared.iter().any(|it| it.code == error.code) => {
            Failed::Other(Found(format!("undeclared error code `{}`", error.code).into()).into())
        }
        other => other,
    })
}
