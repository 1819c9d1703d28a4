//! `audit tail`: the last events, and those that come.

use std::ops::ControlFlow;
use std::time::Duration;

use super::super::args::AuditTail;
use super::super::exit::{Exit, Side};
use super::super::failure::Failure;
use super::super::interrupt::interrupted;
use super::super::place::Where;
use super::super::remote::{Asked, Server};
use super::super::screen::{Answer, Lines, STRONG, print_error, row as in_columns};
use super::look::{HEADINGS, numbered, row};
use super::{Event, Log, asked, event, gone, of, read};
use crate::store::{EventFilter, StoreError};

/// How often a database is looked at.
const POLL: Duration = Duration::from_millis(300);

/// How many events are read at once.
const MANY: usize = 500;

/// How wide the columns are: what comes is not known yet.
const WIDTHS: [usize; 6] = [6, 27, 29, 12, 20, 0];

pub(super) async fn run(args: &AuditTail) -> Result<Answer, Failure> {
    let stop = interrupted()?;
    let lines = Lines { json: args.place.format.json };
    let place = args.place.find(&[("--actor", args.who.actor.is_some())])?;
    let (ended, side) = match place {
        Where::Server(server) => {
            let ended = tokio::select! {
                ended = there(&server, args, lines) => ended?,
                () = stop => Ok(Exit::Done),
            };
            (ended, Side::Server)
        }
        Where::Database(db) => match Log::open(&db, args.who.actor.as_deref(), &args.place).await? {
            Ok(log) => {
                let ended = tokio::select! {
                    ended = here(&log, args, lines) => ended,
                    () = stop => Ok(Ok(Exit::Done)),
                };
                log.records.close().await;
                (ended.map_err(|it| Failure::of_trail(&it))?, Side::Database)
            }
            Err(error) => (Err(error), Side::Database),
        },
    };
    Ok(match ended {
        Ok(exit) => Answer::silent(exit),
        Err(error) => Answer::refused(&error, side),
    })
}

async fn here(log: &Log, args: &AuditTail, lines: Lines) -> Result<Asked<Exit>, StoreError> {
    let readers = log.records.readers();
    let end = readers.last().await?;
    let filter = EventFilter { tenant: log.tenant(), ..of(&args.about, 0) };
    let count = usize::try_from(args.lines).unwrap_or(usize::MAX);
    let last = EventFilter { last: true, up_to: Some(end), ..filter.clone() };
    let events = if count == 0 { Vec::new() } else { readers.events(&last, count).await? };
    if events.len() < count {
        say_gone(Some(readers.log().gone().await?).filter(|it| *it > 0));
    }
    if let ControlFlow::Break(exit) = first(lines, &events) {
        return Ok(Ok(exit));
    }
    let mut filter = EventFilter { after_seq: end, ..filter };
    if !args.follow {
        return Ok(Ok(Exit::Done));
    }
    loop {
        if let Err(error) = log.check().await {
            return Ok(Err(error));
        }
        let page = readers.events(&filter, MANY).await?;
        if let ControlFlow::Break(exit) = print(lines, &page) {
            return Ok(Ok(exit));
        }
        filter.after_seq = page.last().map_or(filter.after_seq, |it| it.0);
        if page.len() < MANY {
            tokio::time::sleep(POLL).await;
        }
    }
}

/// The stream says where the log ends; what is before that is asked for, and what comes behind it is heard.
async fn there(server: &Server, args: &AuditTail, lines: Lines) -> Result<Asked<Exit>, Failure> {
    let query = asked(&args.about);
    let mut stream = server.stream(&["v1", "audit", "events", "stream"], query.clone());
    let end = match stream.connect().await? {
        Ok(end) => end,
        Err(error) => return Ok(Err(error)),
    };
    let events = match last(server, args, &query, end).await? {
        Ok(events) => events,
        Err(error) => return Ok(Err(error)),
    };
    if let ControlFlow::Break(exit) = first(lines, &events) {
        return Ok(Ok(exit));
    }
    if !args.follow {
        return Ok(Ok(Exit::Done));
    }
    loop {
        let heard = match stream.next().await? {
            Ok(heard) => heard,
            Err(error) => return Ok(Err(error)),
        };
        let events: Vec<_> = event(&heard.data).into_iter().collect();
        if let ControlFlow::Break(exit) = print(lines, &events) {
            return Ok(Ok(exit));
        }
    }
}

/// The last events of a server's log, looked for from its end backwards.
async fn last(
    server: &Server,
    args: &AuditTail,
    query: &[(&'static str, Option<String>)],
    end: i64,
) -> Result<Asked<Vec<Event>>, Failure> {
    let count = usize::try_from(args.lines).unwrap_or(usize::MAX);
    if count == 0 {
        return Ok(Ok(Vec::new()));
    }
    let mut window = 1_000;
    loop {
        let after = (end - window).max(0);
        let (mut events, left) = match read(server, query, after, usize::MAX).await? {
            Ok(page) => page,
            Err(error) => return Ok(Err(error)),
        };
        events.retain(|it| it.0 <= end); // the rest comes over the stream
        if events.len() >= count || after == 0 {
            if events.len() < count {
                say_gone(left);
            }
            events.drain(..events.len().saturating_sub(count));
            return Ok(Ok(events));
        }
        window *= 8;
    }
}

/// Beside the events, wherever those go: never a silent gap.
fn say_gone(left: Option<i64>) {
    if left.is_some() {
        print_error(&gone(left));
    }
}

fn heading(lines: Lines) -> ControlFlow<Exit> {
    if lines.json {
        return ControlFlow::Continue(());
    }
    let heading = in_columns(&WIDTHS, &HEADINGS.map(str::to_owned));
    lines.print(&(), &format!("{STRONG}{heading}{STRONG:#}"))
}

/// The first ones, under a heading.
fn first(lines: Lines, events: &[Event]) -> ControlFlow<Exit> {
    heading(lines)?;
    print(lines, events)
}

fn print(lines: Lines, events: &[Event]) -> ControlFlow<Exit> {
    events.iter().try_for_each(|(seq, body)| lines.print(&numbered(*seq, body), &in_columns(&WIDTHS, &row(*seq, body))))
}
