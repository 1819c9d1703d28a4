//! `audit list|tail`, on a database and through a server.

mod look;
mod tail;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use self::look::more;
pub(super) use self::look::{numbered, shown};
use super::actors::identity;
use super::args::{About, Audit, AuditCommand, AuditList, Place};
use super::exit::Side;
use super::failure::Failure;
use super::open::{Database, Records, Session};
use super::place::Where;
use super::remote::{Asked, Server};
use super::screen::{Answer, HINT, print_error};
use crate::builder::Role;
use crate::policy::ManageAction;
use crate::rejection::Rejection;
use crate::store::EventFilter;
use crate::{Error, Identity};

/// The most events that a server is asked for at once.
const PAGE: usize = 500;

/// Its place in the log, and its text.
type Event = (i64, String);

pub(super) async fn run(args: Audit) -> Result<Answer, Failure> {
    match args.command {
        AuditCommand::List(args) => list(&args).await,
        AuditCommand::Tail(args) => tail::run(&args).await,
        AuditCommand::Log(command) => super::audit_log::run(command).await,
    }
}

async fn list(args: &AuditList) -> Result<Answer, Failure> {
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let (listed, side) = match args.place.find(&[("--actor", args.who.actor.is_some())])? {
        Where::Database(db) => {
            let filter = EventFilter { since: args.since, until: args.until, ..of(&args.about, args.after) };
            (listed_here(&db, args, filter, limit).await?, Side::Database)
        }
        Where::Server(server) => {
            let mut query = asked(&args.about);
            query.push(("since", args.since.map(|it| it.to_string())));
            query.push(("until", args.until.map(|it| it.to_string())));
            (read(&server, &query, args.after, limit).await?, Side::Server)
        }
    };
    if let (true, Ok((_, left @ Some(_)))) = (args.place.format.json, &listed) {
        print_error(&gone(*left)); // the answer is the events alone
    }
    Ok(match listed {
        Ok((events, left)) if events.is_empty() => {
            Answer::list(&[Value::Null; 0], format!("There are no such events.\n{}", gone(left)))
        }
        Ok((events, left)) => {
            let text = shown(&events) + &gone(left) + &more(&events, args.limit);
            let json: Vec<_> = events.iter().map(|(seq, body)| numbered(*seq, body)).collect();
            Answer::list(&json, text)
        }
        Err(error) => Answer::refused(&error, side),
    })
}

/// Never a silent gap.
fn gone(left: Option<i64>) -> String {
    left.map(|it| format!("{HINT}events up to {it} have left the database:{HINT:#} `audit retain status`\n"))
        .unwrap_or_default()
}

/// With an actor: what policy lets it read, of its own tenant. Without: everything, for the operator. And up to where events
/// have left, as [`read`] says.
async fn listed_here(
    db: &str,
    args: &AuditList,
    mut filter: EventFilter,
    limit: usize,
) -> Result<Asked<(Vec<Event>, Option<i64>)>, Failure> {
    let log = match Log::open(db, args.who.actor.as_deref(), &args.place).await? {
        Ok(log) => log,
        Err(error) => return Ok(Err(error)),
    };
    filter.tenant = log.tenant();
    let readers = log.records.readers();
    let (events, gone) = (readers.events(&filter, limit).await, readers.log().gone().await);
    log.records.close().await;
    let left = gone.map(|it| Some(it).filter(|it| *it > filter.after_seq));
    Ok(events.and_then(|it| Ok((it, left?))).map_err(|it| Rejection::from(it).face()))
}

/// A log that may be read.
struct Log {
    records: Records,
    /// Who reads, unless it is the operator.
    reader: Option<Identity>,
}

impl Log {
    async fn open(db: &str, actor: Option<&str>, place: &Place) -> Result<Asked<Self>, Failure> {
        let Some(name) = actor else {
            return Ok(Ok(Self { records: Records::open(db).await?, reader: None }));
        };
        let identity = identity(Some(name))?;
        let session = Session::open(db, place, Role::Looks, Database::Existing).await?;
        if let Err(error) = session.core().may_read_audit(&identity).await {
            session.close().await;
            return Ok(Err(error));
        }
        Ok(Ok(Self { records: Records::Session(session), reader: Some(identity) }))
    }

    /// Of which events are read, unless it is all of them.
    fn tenant(&self) -> Option<String> {
        self.reader.as_ref().map(|it| it.tenant_name().to_owned())
    }

    /// Whether the reader still may, however long ago the log was opened.
    async fn check(&self) -> Result<(), Error> {
        match (&self.records, &self.reader) {
            (Records::Session(session), Some(reader)) => {
                let allowed = session.core().reading(ManageAction::ReadAudit, reader).await.1;
                allowed.map_err(|it| it.face())
            }
            (Records::Session(_) | Records::Readers(_), _) => Ok(()),
        }
    }
}

fn of(about: &About, after_seq: i64) -> EventFilter {
    EventFilter {
        execution: about.execution.clone(),
        capability: about.capability.clone(),
        actor: about.actor_id.clone(),
        kind: about.kind.clone(),
        after_seq,
        ..EventFilter::default()
    }
}

/// The same, as a server is asked for it.
fn asked(about: &About) -> Vec<(&'static str, Option<String>)> {
    vec![
        ("execution", about.execution.clone()),
        ("capability", about.capability.clone()),
        ("actor", about.actor_id.clone()),
        ("type", about.kind.clone()),
    ]
}

/// A page of a server's log.
#[derive(Deserialize)]
struct Page {
    events: Vec<Box<RawValue>>,
    #[serde(default)]
    next: Option<i64>,
    #[serde(default)]
    detached: Option<i64>,
}

async fn page(
    server: &Server,
    query: &[(&'static str, Option<String>)],
    after: i64,
    limit: usize,
) -> Result<Asked<Page>, Failure> {
    let mut query = query.to_vec();
    query.push(("after", Some(after.to_string())));
    query.push(("limit", Some(limit.to_string())));
    server.get(&["v1", "audit", "events"], &query).await
}

/// So many events of a server's log, in as many pages as it takes; and up to where they have left it, if that is behind
/// where they were to begin.
async fn read(
    server: &Server,
    query: &[(&'static str, Option<String>)],
    mut after: i64,
    limit: usize,
) -> Result<Asked<(Vec<Event>, Option<i64>)>, Failure> {
    let (mut events, mut left) = (Vec::new(), None);
    loop {
        let page = match page(server, query, after, (limit - events.len()).min(PAGE)).await? {
            Ok(page) => page,
            Err(error) => return Ok(Err(error)),
        };
        left = left.or(page.detached);
        events.extend(page.events.iter().filter_map(|it| event(it.get())));
        match page.next {
            Some(next) if next > after && events.len() < limit => after = next,
            Some(_) | None => {
                events.truncate(limit);
                return Ok(Ok((events, left)));
            }
        }
    }
}

/// An event as servers write it: as it is stored, with its place before its other members.
fn event(text: &str) -> Option<Event> {
    #[derive(Deserialize)]
    struct Place {
        seq: i64,
    }
    let Place { seq } = serde_json::from_str(text).ok()?;
    let members = text.strip_prefix(&format!("{{\"seq\":{seq},"))?;
    Some((seq, format!("{{{members}")))
}
