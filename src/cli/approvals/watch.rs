//! `approvals watch`: what waits now, then every change, until Ctrl-C.

use std::ops::ControlFlow;
use std::time::Duration;

use super::super::args::{As, Place};
use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::interrupt::interrupted;
use super::super::remote::{Asked, Server};
use super::super::screen::{Answer, Lines, STRONG, row as in_columns};
use super::look::{HEADINGS, row};
use super::source::Source;
use crate::builder::Role;
use crate::pipeline::Core;
use crate::store::EventFilter;
use crate::{ApprovalState, ApprovalView, AuditEvent, EventKind};

/// How often a database is looked at.
const POLL: Duration = Duration::from_millis(300);

/// How many events are read at once.
const PAGE: usize = 500;

/// The most requests that are shown at first.
const FIRST: usize = 1_000;

/// How wide the columns are.
const WIDTHS: [usize; 6] = [31, 9, 20, 16, 20, 27];

pub(super) async fn run(who: &As, place: &Place) -> Result<Answer, Failure> {
    let stop = interrupted()?;
    let source = Source::open(who, place, Role::Looks).await?;
    let side = source.side();
    let lines = Lines { json: place.format.json };
    let ended = tokio::select! {
        ended = watch(&source, lines) => ended,
        () = stop => Ok(Ok(Exit::Done)),
    };
    source.close().await;
    Ok(match ended? {
        Ok(exit) => Answer::silent(exit),
        Err(error) => Answer::refused(&error, side),
    })
}

/// Ends only because nobody reads any more, or with an error.
async fn watch(source: &Source, lines: Lines) -> Result<Asked<Exit>, Failure> {
    match source {
        Source::Operator(session) | Source::Actor(session, _) => here(source, session.core(), lines).await,
        Source::Server(server) => there(source, server, lines).await,
    }
}

/// From where the log ends, so that nothing is missed between looking at what waits and what comes.
async fn here(source: &Source, core: &Core, lines: Lines) -> Result<Asked<Exit>, Failure> {
    let failed = |it| Failure::of_trail(&it);
    let readers = core.store.readers();
    let after_seq = readers.last().await.map_err(failed)?;
    let mut filter = EventFilter { approvals: true, after_seq, ..EventFilter::default() };
    if let ControlFlow::Break(ended) = first(source, lines).await? {
        return Ok(ended);
    }
    loop {
        let page = readers.events(&filter, PAGE).await.map_err(failed)?;
        let events = page.iter().filter_map(|(_, body)| serde_json::from_str::<AuditEvent>(body).ok());
        for id in events.filter_map(|it| approval_of(it.kind)) {
            // What this actor may not know of is passed over.
            if let Ok(view) = source.show(&id).await?
                && let ControlFlow::Break(exit) = print(lines, &view)
            {
                return Ok(Ok(exit));
            }
        }
        filter.after_seq = page.last().map_or(filter.after_seq, |it| it.0);
        if page.len() < PAGE {
            tokio::time::sleep(POLL).await;
        }
    }
}

async fn there(source: &Source, server: &Server, lines: Lines) -> Result<Asked<Exit>, Failure> {
    let mut stream = server.stream(&["v1", "approvals", "stream"], Vec::new());
    if let Err(error) = stream.connect().await? {
        return Ok(Err(error));
    }
    if let ControlFlow::Break(ended) = first(source, lines).await? {
        return Ok(ended);
    }
    loop {
        let heard = match stream.next().await? {
            Ok(heard) => heard,
            Err(error) => return Ok(Err(error)),
        };
        // Whatever else may come over a stream is no approval.
        if let Ok(view) = serde_json::from_str::<ApprovalView>(&heard.data)
            && let ControlFlow::Break(exit) = print(lines, &view)
        {
            return Ok(Ok(exit));
        }
    }
}

/// What waits now, the oldest first: what comes is younger.
async fn first(source: &Source, lines: Lines) -> Result<ControlFlow<Asked<Exit>>, Failure> {
    let mut waiting = match source.list(Some(ApprovalState::Pending), None, FIRST).await? {
        Ok((waiting, _)) => waiting,
        Err(error) => return Ok(ControlFlow::Break(Err(error))),
    };
    waiting.reverse();
    if !lines.json {
        let heading = in_columns(&WIDTHS, &HEADINGS.map(str::to_owned));
        if let ControlFlow::Break(exit) = lines.print(&(), &format!("{STRONG}{heading}{STRONG:#}")) {
            return Ok(ControlFlow::Break(Ok(exit)));
        }
    }
    for view in &waiting {
        if let ControlFlow::Break(exit) = print(lines, view) {
            return Ok(ControlFlow::Break(Ok(exit)));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn print(lines: Lines, view: &ApprovalView) -> ControlFlow<Exit> {
    lines.print(view, &in_columns(&WIDTHS, &row(view)))
}

/// The approval that an event is about.
fn approval_of(kind: EventKind) -> Option<String> {
    match kind {
        EventKind::ApprovalRequested { approval_id, .. }
        | EventKind::ApprovalWithdrawn { approval_id, .. }
        | EventKind::ApprovalExpired { approval_id } => Some(approval_id.to_string()),
        EventKind::Approved(it) | EventKind::Rejected(it) => Some(it.approval_id.to_string()),
        EventKind::Started { approval_id, .. } => approval_id.map(|it| it.to_string()),
        _ => None, // nothing changes by it
    }
}
