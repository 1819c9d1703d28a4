//! Procedures behind HTTP: one signed POST a run, on a connection of its own.
//!
//! "Nothing happened" is believed if the procedure states it, or if no byte of the call was ever sent. Whatever else goes
//! wrong with a write leaves its outcome unknown (EXE-4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use toml::de::DeValue;
use url::Url;

use super::exchange::{self, Answer, Garbage, MAX_ANSWER};
use super::fields::{Fields, Found, Placed};
use super::origins::{self, Origins};
use super::secrets::{Vault, is_secret};
use super::signature::Key;
use crate::clock::Clock;
use crate::handler::{DeclaredError, HandlerError};
use crate::id;
use crate::invocation::{AgentInvocationInfo, Invocation};
use crate::secret::Secret;

/// How much longer than its procedure a call may take: the engine's own deadline comes first.
const SLACK: Duration = Duration::from_secs(1);
/// The most headers of a manifest's own.
const MAX_HEADERS: usize = 32;

/// Headers that belong to the engine and to the protocol.
const OURS: [&str; 17] = [
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "traceparent",
    "tracestate",
    "upgrade",
    "user-agent",
];

/// One procedure behind HTTP.
pub(super) struct Endpoint {
    url: Url,
    headers: HeaderMap,
    key: Key,
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
        let key = fields.raw("sign").and_then(|it| key(it, vault, found));
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
        Some(Self { url, headers: headers.all, key: key?, client, timeout, errors })
    }

    /// Calls the procedure, until it answers or the invocation is to stop: then the connection is closed.
    pub(super) async fn call<C>(&self, cx: &Invocation<C>, input: &Value) -> Result<Value, HandlerError> {
        let gate = Gate::default();
        let call = match self.request(cx, input, &gate) {
            Ok(request) => request.send(),
            Err(error) => return Err(HandlerError::not_executed(error)),
        };
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

    fn request<C>(
        &self,
        cx: &Invocation<C>,
        input: &Value,
        gate: &Gate,
    ) -> Result<reqwest::RequestBuilder, serde_json::Error> {
        let body = Bytes::from(exchange::question(cx, input, self.timeout)?);
        let id = call_id(cx.agent());
        let seconds = Clock::System.now().0 / 1_000_000;
        let mut request = self
            .client
            .post(self.url.clone())
            .timeout(self.timeout + SLACK)
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("accept", "application/json")
            .header(CONTENT_LENGTH, body.len())
            .header("webhook-id", &id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", self.key.sign(&id, seconds, &body));
        if let Some(agent) = cx.agent() {
            request = request.header("idempotency-key", &agent.idempotency_key);
        }
        if let Some(parent) = traceparent(&cx.span()) {
            request = request.header("traceparent", parent);
        }
        Ok(request.body(gate.guard(body)))
    }
}

/// The name of one attempt: who receives it twice receives a repetition of the same bytes.
fn call_id(agent: Option<&AgentInvocationInfo>) -> String {
    match agent {
        Some(agent) => format!("{}-{}", agent.execution_id, agent.attempt),
        None => format!("ungoverned-{}", crate::audit::hex(&id::random::<16>())),
    }
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
    let answer = Answer::parse(&bytes).map_err(|garbage| NoAnswer::Garbage(status.as_u16(), garbage))?;
    if fits(&answer, status) { Ok(answer) } else { Err(NoAnswer::Garbage(status.as_u16(), Garbage::Shape)) }
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

/// The trace that this run is part of, for the other side (W3C Trace Context).
#[cfg(feature = "otel")]
fn traceparent(span: &tracing::Span) -> Option<String> {
    use opentelemetry::trace::TraceContextExt as _;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    let context = span.context();
    let parent = context.span().span_context().clone();
    let sampled = u8::from(parent.is_sampled());
    parent.is_valid().then(|| format!("00-{}-{}-{sampled:02x}", parent.trace_id(), parent.span_id()))
}

#[cfg(not(feature = "otel"))]
fn traceparent(_: &tracing::Span) -> Option<String> {
    None
}

fn key(given: Placed<DeValue<'_>>, vault: &Vault<'_>, found: &mut Found<'_>) -> Option<Key> {
    let (at, field) = (given.at, given.field.clone());
    let secret = vault.fetch(given, found)?;
    let key = Key::parse(secret.reveal());
    if key.is_none() {
        let fix = "make one with `echo whsec_$(openssl rand -base64 32)`";
        found.problem(at, &field, "the secret is not 24 to 64 bytes in Base64", fix);
    }
    key
}

/// The headers of a manifest.
struct Headers {
    all: HeaderMap,
    /// A field whose value is a secret.
    has_secrets: Option<Placed<()>>,
}

impl Headers {
    fn bearer(&mut self, given: Placed<DeValue<'_>>, vault: &Vault<'_>, found: &mut Found<'_>) {
        let place = Placed { value: (), field: given.field.clone(), at: given.at };
        if let Some(secret) = vault.fetch(given, found) {
            self.secret(reqwest::header::AUTHORIZATION, &place, &format!("Bearer {}", secret.reveal()), found);
        }
    }

    fn take(&mut self, name: &str, given: Placed<DeValue<'_>>, vault: &Vault<'_>, found: &mut Found<'_>) {
        let place = Placed { value: (), field: given.field.clone(), at: given.at };
        let Ok(header) = HeaderName::try_from(name) else {
            return place.problem(found, "it is not the name of a header", "write it as `X-Region`");
        };
        if OURS.contains(&header.as_str()) || header.as_str().starts_with("webhook-") {
            return place.problem(found, "this header belongs to the engine or to the protocol", "remove it");
        }
        if self.all.contains_key(&header) {
            return place.problem(
                found,
                "this header is there twice",
                "keep one of them; letters of any size are the same",
            );
        }
        if self.all.len() >= MAX_HEADERS {
            return place.problem(found, format!("there are more than {MAX_HEADERS} headers"), "remove some");
        }
        let Some(text) = given.value.as_str() else {
            let secret: Option<Secret> = vault.fetch(given, found);
            if let Some(secret) = secret {
                self.secret(header, &place, secret.reveal(), found);
            }
            return;
        };
        if is_secret(name, text) {
            let fix = "say where the secret is: `{ env = \"NAME\" }` or `{ file = \"PATH\" }`";
            return place.problem(found, "it looks like a secret, which is never written into a manifest", fix);
        }
        match HeaderValue::try_from(text) {
            Ok(value) => _ = self.all.insert(header, value),
            Err(_) => place.problem(found, "it is not the value of a header", "use visible ASCII characters"),
        }
    }

    fn secret(&mut self, header: HeaderName, place: &Placed<()>, text: &str, found: &mut Found<'_>) {
        match HeaderValue::try_from(text) {
            Ok(mut value) => {
                value.set_sensitive(true);
                self.all.insert(header, value);
                self.has_secrets = Some(place.clone());
            }
            Err(_) => place.problem(found, "its secret is not the value of a header", "use visible ASCII characters"),
        }
    }
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

    #[cfg(feature = "otel")]
    #[test]
    fn a_trace_is_named_to_the_other_side_and_where_there_is_none_nothing_is() {
        use opentelemetry::trace::TracerProvider as _;
        use tracing_subscriber::layer::SubscriberExt as _;

        assert_eq!(traceparent(&tracing::info_span!("no trace")), None);
        let provider = opentelemetry_sdk::trace::SdkTracerProvider::builder().build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let parent = traceparent(&tracing::info_span!("a trace")).unwrap();
            let lengths: Vec<usize> = parent.split('-').map(str::len).collect();
            assert_eq!((lengths, &parent[..3], &parent[52..]), (vec![2, 32, 16, 2], "00-", "-01"), "{parent}");
        });
    }
}
