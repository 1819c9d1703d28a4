//! Handlers that do as they are told.

use std::sync::atomic::Ordering;
use std::time::Duration;

use countersign::{DeclaredError, HandlerError, Invocation, Next};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Shop;

pub(crate) const NOT_ELIGIBLE: DeclaredError = DeclaredError::new("NOT_ELIGIBLE", "The order cannot be refunded.");

/// How long `act.*` may take.
pub(crate) const ACT_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Refund {
    order_id: String,
    amount_cents: u32,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Refunded {
    refund_id: String,
    approvers: Vec<String>,
    gateway_ref: String,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Search {
    #[schemars(length(max = 100))]
    query: String,
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 50))]
    limit: u32,
}

fn ten() -> u32 {
    10
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Found {
    orders: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Sum {
    a: i64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Payout {
    to: String,
    amount_cents: u32,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Message {
    to: String,
    text: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Sent {
    to: String,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Act {
    #[serde(rename = "do")]
    how: How,
}

#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct Acted {
    #[schemars(range(max = 99))]
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<String>,
}

impl Acted {
    fn at(attempt: u32) -> Self {
        Self { attempt, more: None }
    }

    fn with(attempt: u32, more: impl Into<String>) -> Self {
        Self { attempt, more: Some(more.into()) }
    }
}

/// What a handler is told to do.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum How {
    Ok,
    Declared,
    Undeclared,
    Forbidden,
    Unauthenticated,
    /// The middleware says no, and the handler is not reached.
    Closed,
    NoSession,
    NotExecuted,
    /// Nothing happened twice, then it works.
    Busy,
    Fail,
    /// Fails once in a way that nobody knows, then says that nothing happened.
    FailThenNothing,
    Panic,
    PanicWithLock,
    /// Ignores that it is asked to stop.
    Hang,
    /// Stops when asked, and says that nothing happened.
    Obey,
    /// Stops when asked, and says nothing.
    ObeySilently,
    /// Finishes when asked to stop.
    FinishWhenAsked,
    /// Blocks its thread.
    Block,
    BadOutput,
    HugeOutput,
}

/// Middleware that stays authoritative.
pub(crate) async fn desk(cx: Invocation<Shop>, next: Next<Shop>) -> Result<Value, HandlerError> {
    match next.input()["do"].as_str() {
        Some("closed") => return Err(HandlerError::forbidden()),
        Some("no_session") => return Err(HandlerError::unauthenticated()),
        _ => {}
    }
    let state = std::sync::Arc::clone(&cx.app().0);
    state.agents.lock().unwrap().extend(cx.agent().cloned());
    next.run().await
}

pub(crate) async fn act(cx: Invocation<Shop>, Act { how }: Act) -> Result<Acted, HandlerError> {
    let state = &cx.app().0;
    let attempt = cx.agent().map_or(0, |it| it.attempt);
    let done = || Ok(Acted::at(attempt));
    match how {
        How::Declared => Err(NOT_ELIGIBLE.into()),
        How::Undeclared => Err(DeclaredError::new("NEVER_SAID", "secret-cause").into()),
        How::Forbidden => Err(HandlerError::forbidden()),
        How::Unauthenticated => Err(HandlerError::unauthenticated()),
        How::Busy if state.tries.fetch_add(1, Ordering::Relaxed) < 2 => Err(HandlerError::not_executed("busy")),
        How::Ok | How::Busy | How::Closed | How::NoSession => done(),
        How::Fail => Err(HandlerError::other("secret-cause")),
        How::FailThenNothing if attempt == 1 => Err(HandlerError::other("secret-cause")),
        How::NotExecuted | How::FailThenNothing => Err(HandlerError::not_executed("secret-cause")),
        How::Panic => panic!("secret-cause"),
        How::PanicWithLock => {
            let _held = state.lock.lock();
            panic!("secret-cause")
        }
        How::Hang | How::Obey | How::ObeySilently | How::FinishWhenAsked => hang(&cx, how, attempt).await,
        How::Block => {
            std::thread::sleep(Duration::from_millis(600));
            done()
        }
        How::BadOutput => Ok(Acted::with(100, "secret-cause")),
        How::HugeOutput => Ok(Acted::with(attempt, "x".repeat(1 << 20))),
    }
}

async fn hang(cx: &Invocation<Shop>, how: How, attempt: u32) -> Result<Acted, HandlerError> {
    let state = &cx.app().0;
    state.entered.add_permits(1);
    tokio::select! {
        biased;
        () = signal_to_go(state) => return Ok(Acted::at(attempt)),
        () = cx.cancelled() => state.asked.add_permits(1),
    }
    match how {
        How::Obey => Err(HandlerError::not_executed("stopped in time")),
        How::ObeySilently => Err(HandlerError::other("stopped somewhere")),
        How::FinishWhenAsked => Ok(Acted::at(attempt)),
        _ => {
            signal_to_go(state).await;
            Ok(Acted::with(attempt, "late"))
        }
    }
}

async fn signal_to_go(state: &super::State) {
    state.go_on.acquire().await.unwrap().forget();
}

pub(crate) async fn refund(cx: Invocation<Shop>, input: Refund) -> Result<Refunded, HandlerError> {
    if input.order_id == "gone" {
        return Err(NOT_ELIGIBLE.into());
    }
    let approval = cx.agent().and_then(|it| it.approval.clone());
    Ok(Refunded {
        refund_id: format!("{}-{}", input.order_id, input.amount_cents),
        approvers: approval.into_iter().flat_map(|it| it.approvers).map(|it| it.id).collect(),
        gateway_ref: "secret-cause".into(),
    })
}

pub(crate) async fn search(_: Invocation<Shop>, Search { query, limit }: Search) -> Result<Found, HandlerError> {
    Ok(Found { orders: vec![format!("{} of at most {limit}", query.len())] })
}

pub(crate) async fn purge(_: Invocation<Shop>, (): ()) -> Result<Value, HandlerError> {
    Ok(json!({"purged": true}))
}

pub(crate) async fn ping(_: Invocation<Shop>, (): ()) -> Result<String, HandlerError> {
    Ok("pong".into())
}

pub(crate) async fn add(_: Invocation<Shop>, Sum { a }: Sum) -> Result<i64, HandlerError> {
    Ok(a.saturating_add(1))
}

pub(crate) async fn echo(_: Invocation<Shop>, mut input: Value) -> Result<Value, HandlerError> {
    Ok(input["value"].take())
}

pub(crate) async fn pay(_: Invocation<Shop>, input: Payout) -> Result<Sent, HandlerError> {
    Ok(Sent { to: format!("{}: {}", input.to, input.amount_cents) })
}

pub(crate) async fn write_to(_: Invocation<Shop>, input: Message) -> Result<Sent, HandlerError> {
    Ok(Sent { to: format!("{}: {} bytes", input.to, input.text.len()) })
}
