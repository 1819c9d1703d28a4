//! Streams of events (`text/event-stream`, the WHATWG's server-sent events): of the audit log, and of approvals.
//!
//! A stream reads the log page by page when its client has taken the last one, so a slow reader costs nothing but its
//! place; it is resumed by the place of the last event that was seen. What it may show is asked again before every page,
//! and who asks at every heartbeat.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use tokio::sync::OwnedSemaphorePermit;

use super::App;
use super::asking::Asking;
use super::audit;
use super::problem::Problem;
use super::query::Query;
use crate::audit::AuditEvent;
use crate::auth::Credential;
use crate::clock::Monotonic;
use crate::meters::Streaming;
use crate::outcome::Error;
use crate::reading::{AuditQuery, StoredEvent};
use crate::rejection::Rejection;
use crate::store::EventFilter;
use crate::{Approvals, AuditLog, EventKind};

/// How often something is sent, whatever happens; who asks is verified again then.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The most events that are read at once.
const PAGE: usize = 100;

/// How long a stream that has caught up lets more happen before it reads again.
const PAUSE: Duration = Duration::from_millis(100);

/// Where a client that lost its stream goes on: the `id` of the last event that it saw.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// For reverse proxies that would collect a stream before they pass it on.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// `GET /v1/audit/events/stream`: the events that `GET /v1/audit/events` would list, as they come.
pub(super) async fn events(
    State(app): State<Arc<App>>,
    asking: Asking,
    RawQuery(given): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = Query::parse(given.as_deref(), &audit::STREAMED)?;
    let (after, query) = (start(&headers, &query)?, audit::query(&query)?);
    app.gateway.core.may_read_audit(&asking.identity()).await?;
    open(app, asking, &headers, Shown::Events(query), after).await
}

/// `GET /v1/approvals/stream`: each approval that this party may see, as it stands, whenever something happens to it.
pub(super) async fn approvals(
    State(app): State<Arc<App>>,
    asking: Asking,
    RawQuery(given): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = Query::parse(given.as_deref(), &["after"])?;
    let after = start(&headers, &query)?;
    asking.approvals().may_follow().await?;
    open(app, asking, &headers, Shown::Approvals, after).await
}

/// What `Last-Event-ID` says, else `after`, which a client that reconnects sends again.
fn start(headers: &HeaderMap, query: &Query) -> Result<Option<i64>, Problem> {
    let mut given = headers.get_all(LAST_EVENT_ID).iter();
    let Some(last) = given.next() else { return query.number("after", 0, i64::MAX) };
    let place = last.to_str().ok().and_then(|it| it.parse::<i64>().ok()).filter(|it| *it >= 0);
    match (place, given.next()) {
        (Some(place), None) => Ok(Some(place)),
        _ => Err(Problem::one("/last-event-id", "type", None)),
    }
}

/// Which stream it is.
enum Shown {
    Events(AuditQuery),
    Approvals,
}

/// A stream on its way to one client.
struct Follower {
    app: Arc<App>,
    /// What came with the request: it is verified again.
    authorization: Option<String>,
    credential: Credential,
    shown: Shown,
    /// How far the log was read.
    at: i64,
    /// Whether there was more when it was last read.
    is_behind: bool,
    beat: Monotonic,
    read: Monotonic,
    _place: OwnedSemaphorePermit,
    _counted: Streaming,
}

async fn open(
    app: Arc<App>,
    asking: Asking,
    headers: &HeaderMap,
    shown: Shown,
    after: Option<i64>,
) -> Result<Response, Problem> {
    let place = Arc::clone(&app.streams).try_acquire_owned().map_err(|_| Problem::unavailable())?;
    let core = &app.gateway.core;
    let at = match after {
        Some(after) => after,
        None => core.store.end().await.map_err(|it| Rejection::from(it).face())?,
    };
    let authorization = headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok()).map(Into::into);
    let (now, counted) = (core.clock.monotonic(), core.meters.stream());
    let credential = asking.credential;
    let follower = Follower {
        authorization,
        credential,
        shown,
        at,
        is_behind: true,
        beat: now,
        read: now,
        _place: place,
        _counted: counted,
        app,
    };
    let first = (Some(Bytes::from(format!("retry: 1000\nid: {at}\n\n"))), follower);
    let frames = futures_util::stream::unfold(Some(first), async |state| {
        let (ready, mut follower) = state?;
        let frame = match ready {
            Some(ready) => Some(ready),
            None => follower.next().await,
        };
        Some((Ok::<_, Infallible>(frame?), Some((None, follower))))
    });
    let mut response = Response::new(Body::from_stream(frames));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

impl Follower {
    /// The next events, or a heartbeat. `None` ends the stream: the server stops, the store fails, or this party may not
    /// read on. Whoever connects again learns which.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let core = Arc::clone(&self.app.gateway.core);
            if core.clock.monotonic().since(self.beat) >= HEARTBEAT {
                return self.heartbeat().await;
            }
            if !self.is_behind {
                let left = HEARTBEAT.saturating_sub(core.clock.monotonic().since(self.beat));
                tokio::select! {
                    biased;
                    () = self.app.stopping.cancelled() => return None,
                    () = core.clock.sleep(left) => continue,
                    _ = core.tail.beyond(self.at) => {}
                }
                if core.clock.monotonic().since(self.read) < PAUSE {
                    tokio::time::sleep(PAUSE).await;
                }
            }
            if self.app.stopping.is_cancelled() {
                return None;
            }
            let text = self.page().await?;
            if !text.is_empty() {
                self.beat = core.clock.monotonic();
                return Some(text.into());
            }
        }
    }

    /// Says that it is there and how far it is, if the credential is still good.
    async fn heartbeat(&mut self) -> Option<Bytes> {
        self.credential = self.app.auth.identify(self.authorization.as_deref()).await.ok()?;
        self.may_go_on().await?;
        self.beat = self.app.gateway.core.clock.monotonic();
        Some(format!(": heartbeat\nid: {}\n\n", self.at).into())
    }

    /// The next page of the log, as far as it is for this party.
    async fn page(&mut self) -> Option<String> {
        let core = Arc::clone(&self.app.gateway.core);
        self.read = core.clock.monotonic();
        self.may_go_on().await?;
        let page = core.page(self.filter(), PAGE).await;
        let page = page.inspect_err(|it| tracing::warn!(cause = it as &dyn std::error::Error, "a stream ends")).ok()?;
        (self.at, self.is_behind) = (page.up_to.max(self.at), page.next.is_some());
        let mut text = String::new();
        if let Some(through) = page.detached {
            frame(&mut text, through, "detached", &format!("{{\"through\":{through}}}"));
        }
        match &self.shown {
            Shown::Events(_) => page.events.iter().for_each(|it| frame(&mut text, it.seq, kind_of(it), &it.text())),
            Shown::Approvals => {
                let approvals = self.approvals();
                for event in &page.events {
                    approval(&mut text, event, &approvals).await?;
                }
            }
        }
        Some(text)
    }

    async fn may_go_on(&self) -> Option<()> {
        let core = &self.app.gateway.core;
        let may = !self.credential.is_expired(core.clock.now())
            && match &self.shown {
                Shown::Events(_) => self.log().still_may().await,
                Shown::Approvals => self.approvals().may_follow().await.is_ok(),
            };
        may.then_some(())
    }

    fn filter(&self) -> EventFilter {
        match &self.shown {
            Shown::Events(query) => self.log().filter(&AuditQuery { after: self.at, ..query.clone() }),
            Shown::Approvals => EventFilter {
                approvals: true,
                ..self.log().filter(&AuditQuery { after: self.at, ..AuditQuery::default() })
            },
        }
    }

    fn log(&self) -> AuditLog {
        self.app.gateway.audit(self.credential.identity.clone(), self.app.surface)
    }

    fn approvals(&self) -> Approvals {
        let Credential { identity, person, .. } = &self.credential;
        self.app.gateway.approvals(identity.clone(), self.app.surface, *person)
    }
}

/// What an event is about, if that is an approval that this party may see: as it stands now. `None`: the store failed.
async fn approval(text: &mut String, event: &StoredEvent, approvals: &Approvals) -> Option<()> {
    let Ok(AuditEvent { kind, .. }) = serde_json::from_str(&event.body) else { return Some(()) };
    let id = match &kind {
        EventKind::ApprovalRequested { approval_id, .. }
        | EventKind::ApprovalWithdrawn { approval_id, .. }
        | EventKind::ApprovalExpired { approval_id }
        | EventKind::Started { approval_id: Some(approval_id), .. } => approval_id,
        EventKind::Approved(it) | EventKind::Rejected(it) => &it.approval_id,
        _ => return Some(()), // not an event of approvals
    };
    match approvals.show(id).await {
        Ok(view) => frame(text, event.seq, kind.name(), &serde_json::to_string(&view).ok()?),
        Err(Error { code: crate::ErrorCode::ApprovalNotFound, .. }) => {}
        Err(_) => return None,
    }
    Some(())
}

fn kind_of(event: &StoredEvent) -> &str {
    // Canonical JSON has no white space, and the only other `type`s are inside of `data`, which comes first.
    event.body.rsplit_once("\"type\":\"").and_then(|it| it.1.split_once('"')).map_or("event", |it| it.0)
}

/// JSON on one line, so one `data` line.
fn frame(text: &mut String, seq: i64, kind: &str, data: &str) {
    // Writing to a string cannot fail.
    let _ = write!(text, "id: {seq}\nevent: {kind}\ndata: {data}\n\n");
}
