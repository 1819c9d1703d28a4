//! What holds of every request, on every route, before its body is read and its credential looked at.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, CACHE_CONTROL,
    CONTENT_LENGTH, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::Instrument as _;

use super::body::MAX_BODY;
use super::host::{self, Origin};
use super::problem::{Malformed, Problem, Transport};
use super::reply::Executed;
use super::serve::Local;
use super::{App, health, openapi};
use crate::id::random;
use crate::telemetry;

const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: usize = 64 * 1024;
const MAX_TARGET: usize = 8 * 1024;

/// A caller's own id of one request, or one that is made for it. On every answer and in the log.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// W3C Trace Context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// What pages may send and see, if their origin is allowed.
const CORS_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, last-event-id, prefer, traceparent, x-correlation-id, x-request-id",
);
const CORS_EXPOSED: HeaderValue = HeaderValue::from_static(
    "countersign-recorded, idempotent-replayed, location, preference-applied, retry-after, www-authenticate, x-request-id",
);

/// The place of a request among those that are worked on. Whoever only waits gives it back meanwhile.
#[derive(Clone, Debug)]
pub(super) struct Place {
    held: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
    calls: Arc<Semaphore>,
}

impl Place {
    fn take(calls: &Arc<Semaphore>) -> Option<Self> {
        let permit = Arc::clone(calls).try_acquire_owned().ok()?;
        Some(Self { held: Arc::new(Mutex::new(Some(permit))), calls: Arc::clone(calls) })
    }

    /// Gives it back.
    pub(super) fn leave(&self) {
        drop(self.held.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Waits until there is one again.
    pub(super) async fn again(&self) {
        let permit = Arc::clone(&self.calls).acquire_owned().await.ok();
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }
}

/// Around every route.
pub(super) async fn around(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let began = app.gateway.core.clock.monotonic();
    let id = request_id(request.headers());
    let method = known(request.method());
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let span = span(&id, method, &route, request.headers());
    let origin = host::origin(request.headers(), &app.settings);
    let is_nobodys = !request.headers().contains_key(AUTHORIZATION);
    let mut response = match admit(&app, &request, &origin) {
        Admitted::Preflight => StatusCode::NO_CONTENT.into_response(),
        Admitted::Refused(problem) => problem.into_response(),
        Admitted::To(place) => {
            if let Some(place) = place {
                request.extensions_mut().insert(place);
            }
            next.run(request).instrument(span.clone()).await
        }
    };
    // Nobody in particular is told what is wrong with a request before they say who they are.
    if is_nobodys && response.extensions().get::<Malformed>().is_some() {
        response = Problem::unauthenticated().into_response();
    }
    finish(&mut response, &id, origin, &route);
    let took = app.gateway.core.clock.monotonic().since(began);
    let execution = response.extensions().get::<Executed>().map(|it| tracing::field::display(it.0.clone()));
    let (status, duration_us) = (response.status().as_u16(), u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    app.gateway.core.meters.answered((method, openapi::route(&route), status));
    tracing::info!(parent: &span, status, duration_us, execution, "answered");
    span.record("status", status); // after the line, which says it already
    response
}

/// What the guard thinks of a request.
enum Admitted {
    /// Probes are let in however much is going on, and take no place.
    To(Option<Place>),
    /// A browser asks whether a page may ask.
    Preflight,
    Refused(Problem),
}

fn admit(app: &App, request: &Request, origin: &Origin) -> Admitted {
    let (headers, uri) = (request.headers(), request.uri());
    let is_probe = health::is_probe(uri.path());
    let Some(Local(local)) = request.extensions().get::<Local>() else {
        return Admitted::Refused(Problem::internal());
    };
    let refuse = |it: Transport| Admitted::Refused(it.into());
    if !host::is_ours(headers, uri, *local, &app.settings, is_probe) {
        return refuse(Transport::HostRefused);
    }
    match origin {
        Origin::Refused => return refuse(Transport::OriginRefused),
        Origin::Allowed(_)
            if request.method() == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) =>
        {
            return Admitted::Preflight;
        }
        Origin::Allowed(_) | Origin::Absent => {}
    }
    if let Some(transport) = too_large(headers, request.uri().path_and_query().map_or(0, |it| it.as_str().len())) {
        return refuse(transport);
    }
    if is_probe {
        return Admitted::To(None);
    }
    Place::take(&app.calls).map_or_else(|| Admitted::Refused(Problem::unavailable()), |it| Admitted::To(Some(it)))
}

/// What is too large for anybody, from the head alone.
fn too_large(headers: &HeaderMap, target: usize) -> Option<Transport> {
    if headers.len() > MAX_HEADERS
        || headers.iter().map(|(k, v)| k.as_str().len() + v.len() + 4).sum::<usize>() > MAX_HEADER_BYTES
    {
        return Some(Transport::HeadersTooLarge);
    }
    if target > MAX_TARGET {
        return Some(Transport::TargetTooLong);
    }
    // The parser has seen to it that there is one length at most, and that it is a number.
    let length = headers.get(CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse::<u64>().ok()).unwrap_or(0);
    (length > u64::try_from(MAX_BODY).unwrap_or(u64::MAX)).then_some(Transport::BodyTooLarge)
}

fn span(id: &str, method: &'static str, route: &str, headers: &HeaderMap) -> tracing::Span {
    let span = tracing::info_span!(
        "http.request",
        request = id,
        method,
        route,
        trace = tracing::field::Empty,
        parent = tracing::field::Empty,
        status = tracing::field::Empty,
    );
    if let Some((trace, parent, flags)) = traceparent(headers) {
        span.record("trace", trace).record("parent", parent);
        telemetry::continues(&span, trace, parent, flags);
    }
    span
}

/// The one `00-<trace id>-<parent id>-<flags>`, lower-case hexadecimal, ids that are not all zero; else as if it were not there.
/// Later versions may append something (W3C Trace Context, section 3.2.4).
fn traceparent(headers: &HeaderMap) -> Option<(&str, &str, &str)> {
    let mut given = headers.get_all(TRACEPARENT).iter();
    let text = given.next()?.to_str().ok()?;
    let mut parts = text.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |it: &str, length| it.len() == length && it.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
    let named = |it: &str| it.bytes().any(|it| it != b'0');
    let shaped = hex(version, 2) && hex(trace, 32) && hex(parent, 16) && hex(flags, 2) && version != "ff";
    let whole = version != "00" || parts.next().is_none();
    (shaped && whole && given.next().is_none() && named(trace) && named(parent)).then_some((trace, parent, flags))
}

/// The trace that a request says it is part of, as others are told of it.
pub(super) fn trace(headers: &HeaderMap) -> Option<Arc<str>> {
    traceparent(headers).map(|(trace, parent, flags)| format!("00-{trace}-{parent}-{flags}").into())
}

/// A given one of 1 to 128 visible ASCII characters, else 128 random bits.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|it| it.to_str().ok());
    let fit = |it: &&str| (1..=128).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_graphic());
    given.filter(fit).map_or_else(|| BASE64_URL_SAFE_NO_PAD.encode(random::<16>()), Into::into)
}

/// Methods are the client's text: the log has a closed set of them.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::OPTIONS => "OPTIONS",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "OTHER",
    }
}

/// What every answer says, a refused one too.
fn finish(response: &mut Response, id: &str, origin: Origin, route: &str) {
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if route != "/openapi.json" {
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    if let Origin::Allowed(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(VARY, HeaderValue::from_static("origin"));
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, CORS_HEADERS);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, CORS_EXPOSED);
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_taken_as_the_standard_says() {
        let read = |text: &'static str| {
            let headers = HeaderMap::from_iter([(TRACEPARENT, HeaderValue::from_static(text))]);
            traceparent(&headers).map(|(trace, parent, flags)| format!("{trace} {parent} {flags}"))
        };
        let ids = Some("4bf92f3577b34da6a3ce929d0e0e4736 00f067aa0ba902b7 01".to_owned());
        assert_eq!(read("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), ids);
        assert_eq!(read("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more"), ids);
        for text in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let all = |texts: &[&[u8]]| {
            let values = texts.iter().map(|it| (TRACEPARENT, HeaderValue::from_bytes(it).unwrap()));
            let mut headers = HeaderMap::new();
            values.for_each(|(name, value)| _ = headers.append(name, value));
            super::trace(&headers).map(|it| it.to_string())
        };
        assert_eq!(all(&[trace.as_bytes()]).as_deref(), Some(trace));
        assert_eq!(all(&[trace.as_bytes(), trace.as_bytes()]), None, "two of them");
        let long = "-x".repeat(5_000);
        assert_eq!(all(&[format!("{trace}{long}").as_bytes()]), None, "10 KB more");
        assert_eq!(all(&[trace.replacen("00", "01", 1).as_bytes(), b""]), None);
        let later = format!("{}{long}", trace.replacen("00", "cc", 1));
        assert_eq!(all(&[later.as_bytes()]).as_deref(), Some(trace), "of a later version, what is known of it");
        for odd in [&b"\t00"[..], b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0\t", b"00-\xff"] {
            assert_eq!(all(&[odd]), None);
        }
        assert!(HeaderValue::from_str(&format!("{trace}\r\nx: y")).is_err(), "no line of its own");
    }

    #[test]
    fn a_request_has_its_own_id_or_a_new_one() {
        let given =
            |text: &[u8]| request_id(&HeaderMap::from_iter([(REQUEST_ID, HeaderValue::from_bytes(text).unwrap())]));
        assert_eq!(given(b"req-1"), "req-1");
        for odd in [&b""[..], b"a b", &[b'x'; 129], b"\xe4"] {
            assert_eq!(given(odd).len(), 22, "{odd:?}");
        }
        assert_ne!(request_id(&HeaderMap::new()), request_id(&HeaderMap::new()));
    }
}
