//! Procedures behind HTTP: one signed POST a run, on a connection of its own.
//!
//! "Nothing happened" is believed if the procedure states it, or if no byte of the call was ever sent. Whatever else goes
//! wrong with a write leaves its outcome unknown (EXE-4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use url::Url;

use super::exchange::{self, Answer, Garbage, MAX_ANSWER};
use super::fields::{Fields, Found};
use super::headers::Headers;
use super::origins::{self, Origins};
use super::secrets::Vault;
use super::{signature, trace};
use crate::capability::Reconciliation;
use crate::clock::Clock;
use crate::handler::{DeclaredError, HandlerError};
use crate::id;
use crate::invocation::{AgentInvocationInfo, Invocation};
use crate::notifications::Keys;
use crate::{BoxError, audit};

/// How much longer than its procedure a call may take: the engine's own deadline comes first.
const SLACK: Duration = Duration::from_secs(1);
/// One procedure behind HTTP.
pub(super) struct Endpoint {
    url: Url,
    headers: HeaderMap,
    keys: Keys,
    client: reqwest::Client,
    timeout: Duration,
    errors: Vec<DeclaredError>,
}

/// Why there is no answer. Neither addresses nor what the other side wrote is in it.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error("the call to the endpoint failed")]
    Failed(#[source] reqwest::Error),
    #[error("the call was to stop before the endpoint answered")]
    Stopped,
    #[error("the endpoint answered with more than 1 MiB")]
    TooLong,
    #[error("the endpoint answered {0}, which says nothing about what happened")]
    Status(u16),
    #[error("the endpoint answered {0} with something that is no answer")]
    Garbage(u16, #[source] Garbage),
}

impl Endpoint {
    /// Reads `[handler]` of kind `http`.
    pub(super) fn read(
        mut fields: Fields<'_>,
        (origins, vault, client): (&Origins, &Vault<'_>, &reqwest::Client),
        (timeout, errors): (Duration, &[DeclaredError]),
        found: &mut Found<'_>,
    ) -> Option<Self> {
        let url = fields.required::<String>("url", "write where the procedure is: `url = \"https://..\"`", found);
        let url = url.and_then(|it| origins.endpoint(&it, found));
        let fix = "name the secret that the endpoint checks signatures by: `sign = { env = \"NAME\" }`";
        fields.demand("sign", fix, found);
        let keys = fields.raw("sign").and_then(|it| signature::keys(it, vault, found));
        let mut headers = Headers { all: HeaderMap::new(), has_secrets: None };
        if let Some(given) = fields.raw("bearer") {
            headers.bearer(given, vault, found);
        }
        if let Some(table) = fields.table("headers", found) {
            table.open().for_each(|(name, given)| headers.take(&name, given, vault, found));
        }
        fields.end(found);
        let url = url?;
        if let Some(secret) = headers.has_secrets.filter(|_| !origins::may_have_secrets(&url)) {
            secret.problem(
                found,
                "a secret would go over the network unencrypted",
                "give the endpoint an `https` address",
            );
        }
        let (client, errors) = (client.clone(), errors.to_vec());
        Some(Self { url, headers: headers.all, keys: keys?, client, timeout, errors })
    }

    /// Where it is, as far as that was agreed to.
    pub(super) fn place(&self) -> String {
        format!("http {}", self.url)
    }

    /// Calls the procedure, until it answers or the invocation is to stop: then the connection is closed.
    pub(super) async fn call<C>(&self, cx: &Invocation<C>, input: &Value) -> Result<Value, HandlerError> {
        let body = match exchange::question(cx, input, self.timeout) {
            Ok(text) => Bytes::from(text),
            Err(error) => return Err(HandlerError::not_executed(error)),
        };
        let mut request = self.request(&call_id(cx.agent()), &body);
        if let Some(agent) = cx.agent() {
            request = request.header("idempotency-key", &agent.idempotency_key);
        }
        if let Some(parent) = trace::parent(cx) {
            request = request.header("traceparent", parent);
        }
        let gate = Gate::default();
        let call = request.body(gate.guard(body)).send();
        let answer = tokio::select! {
            biased;
            answer = answer(call) => answer,
            () = cx.cancelled() => Err(NoAnswer::Stopped),
        };
        match answer {
            Ok(answer) => answer.settle(&self.errors),
            // A connection never made, or closed before the call was on it: DNS, refusal, TLS, the time to connect.
            Err(cause) if gate.pass() => Err(HandlerError::not_executed(cause)),
            Err(cause) => Err(HandlerError::unknown(cause)),
        }
    }

    /// Asks what became of a run. No answer is no finding.
    pub(super) async fn ask(&self, agent: &AgentInvocationInfo, input: &Value) -> Result<Reconciliation, BoxError> {
        let body = Bytes::from(exchange::doubt(agent, input, self.timeout)?);
        let request = self.request(&format!("reconcile-{}", random()), &body);
        let (status, bytes) = heard(request.body(body).send()).await?;
        if !status.is_success() {
            return Err(NoAnswer::Status(status.as_u16()).into());
        }
        Ok(exchange::finding(&bytes).map_err(|garbage| NoAnswer::Garbage(status.as_u16(), garbage))?)
    }

    /// A signed POST, but for its body.
    fn request(&self, id: &str, body: &Bytes) -> reqwest::RequestBuilder {
        let seconds = Clock::System.now().0 / 1_000_000;
        self.client
            .post(self.url.clone())
            .timeout(self.timeout + SLACK)
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("accept", "application/json")
            .header(CONTENT_LENGTH, body.len())
            .header("webhook-id", id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", self.keys.sign(id, seconds, body))
    }
}

/// The name of one attempt: who receives it twice receives a repetition of the same bytes.
fn call_id(agent: Option<&AgentInvocationInfo>) -> String {
    match agent {
        Some(agent) => format!("{}-{}", agent.execution_id, agent.attempt),
        None => format!("ungoverned-{}", random()),
    }
}

fn random() -> String {
    audit::hex(&id::random::<16>())
}

/// Lets one of two pass: the call's body on its way out, or the statement that it was never sent. The client takes the body
/// once there is a connection, before it writes the first byte; a body that comes second is refused, and the connection with
/// it, even if nobody waits for the call any more.
#[derive(Clone, Default)]
struct Gate(Arc<AtomicBool>);

impl Gate {
    /// Whether this is the first to come.
    fn pass(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    fn guard(&self, body: Bytes) -> reqwest::Body {
        let gate = self.clone();
        reqwest::Body::wrap_stream(futures_util::stream::once(async move {
            if gate.pass() { Ok(body) } else { Err(std::io::Error::from(std::io::ErrorKind::Interrupted)) }
        }))
    }
}

/// The answer to a call, if it is one.
async fn answer(call: impl Future<Output = Result<Response, reqwest::Error>>) -> Result<Answer, NoAnswer> {
    let (status, bytes) = heard(call).await?;
    let answer = Answer::parse(&bytes).map_err(|garbage| NoAnswer::Garbage(status.as_u16(), garbage))?;
    if fits(&answer, status) { Ok(answer) } else { Err(NoAnswer::Garbage(status.as_u16(), Garbage::Shape)) }
}

/// A status that may come with an answer, and JSON of at most 1 MiB.
async fn heard(
    call: impl Future<Output = Result<Response, reqwest::Error>>,
) -> Result<(StatusCode, Vec<u8>), NoAnswer> {
    let failed = |error: reqwest::Error| NoAnswer::Failed(error.without_url());
    let mut response = call.await.map_err(failed)?;
    let status = response.status();
    if !(status.is_success() || status.is_client_error() || status.is_server_error()) || !is_json(&response) {
        return Err(NoAnswer::Status(status.as_u16()));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if bytes.len() + chunk.len() > MAX_ANSWER {
            return Err(NoAnswer::TooLong);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok((status, bytes))
}

/// An error status that comes with an output contradicts itself.
fn fits(answer: &Answer, status: StatusCode) -> bool {
    match answer {
        Answer::Completed(_) => status.is_success(),
        Answer::Failed { .. } | Answer::NotExecuted | Answer::Unauthenticated | Answer::Forbidden => true,
    }
}

fn is_json(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|it| it.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_that_is_said_not_to_be_sent_is_not_sent_afterwards() {
        use http_body_util::BodyExt as _;

        let (gate, body) = (Gate::default(), Bytes::from("{}"));
        let sent = gate.guard(body.clone()).collect().await.map(http_body_util::Collected::to_bytes);
        assert_eq!((sent.ok(), gate.pass()), (Some(body.clone()), false), "the call came first");
        let gate = Gate::default();
        assert!(gate.pass());
        assert!(gate.guard(body).collect().await.is_err(), "the statement came first");
    }
}
