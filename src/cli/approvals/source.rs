//! Where approvals are looked for and decided: a database, for its operator or in an actor's name, or a server.

use std::sync::Arc;

use serde_json::json;

use super::super::actors::identity;
use super::super::args::{As, Place};
use super::super::exit::Side;
use super::super::failure::Failure;
use super::super::open::{Database, Session};
use super::super::place::Where;
use super::super::remote::{Asked, Server};
use super::super::user::issuer;
use crate::builder::Role;
use crate::deciding::PAGE;
use crate::rejection::Rejection;
use crate::store::StoreError;
use crate::{ApprovalPage, ApprovalState, ApprovalView, Approvals, Decided, Error, ErrorCode, Verdict};

/// The most pages of a listing that are looked through for the latest.
const MAX_PAGES: usize = 250;

/// Where approvals are.
pub(super) enum Source {
    /// Whoever has the database sees every tenant's.
    Operator(Session),
    Actor(Session, Box<Approvals>),
    Server(Box<Server>),
}

/// Some requests, the latest first, and whether there are more.
type Page = (Vec<ApprovalView>, bool);

impl Source {
    /// Without an actor, the operator looks.
    pub(super) async fn open(who: &As, place: &Place, role: Role) -> Result<Self, Failure> {
        match place.find(&[("--actor", who.actor.is_some())])? {
            Where::Server(server) => Ok(Self::Server(Box::new(server))),
            Where::Database(db) if who.actor.is_none() => {
                Ok(Self::Operator(Session::open(&db, place, role, Database::Existing).await?))
            }
            Where::Database(db) => Self::of_actor(&db, who, place, role).await,
        }
    }

    /// Without an actor, nobody decides: the engine refuses, on record.
    pub(super) async fn open_as(who: &As, place: &Place, role: Role) -> Result<Self, Failure> {
        match place.find(&[("--actor", who.actor.is_some())])? {
            Where::Server(server) => Ok(Self::Server(Box::new(server))),
            Where::Database(db) => Self::of_actor(&db, who, place, role).await,
        }
    }

    /// Decisions come in through the command line, and the record says who sat there.
    async fn of_actor(db: &str, who: &As, place: &Place, role: Role) -> Result<Self, Failure> {
        let identity = identity(who.actor.as_deref())?;
        let session = Session::open(db, place, role, Database::Existing).await?;
        let core = Arc::clone(session.core());
        let approvals = Approvals { core, identity, via: "cli".into(), issuer: Some(issuer()), person: true };
        Ok(Self::Actor(session, Box::new(approvals)))
    }

    pub(super) fn side(&self) -> Side {
        match self {
            Self::Operator(_) | Self::Actor(..) => Side::Database,
            Self::Server(_) => Side::Server,
        }
    }

    pub(super) async fn close(self) {
        match self {
            Self::Operator(session) | Self::Actor(session, _) => session.close().await,
            Self::Server(_) => {}
        }
    }

    pub(super) async fn list(
        &self,
        status: Option<ApprovalState>,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Asked<Page>, Failure> {
        let all = match self {
            Self::Operator(session) => {
                return Ok(operators_list(session, status, before, limit).await.map_err(unreadable));
            }
            Self::Actor(_, approvals) => {
                all(async |after| Ok(approvals.page(status, after.as_deref(), PAGE).await)).await?
            }
            Self::Server(server) => {
                let status = status.map(|it| it.as_str().to_owned());
                let page = async |after| {
                    let query = [("status", status.clone()), ("after", after)];
                    server.get::<ApprovalPage>(&["v1", "approvals"], &query).await
                };
                all(page).await?
            }
        };
        Ok(all.map(|all| latest(all, before, limit)))
    }

    pub(super) async fn show(&self, id: &str) -> Result<Asked<ApprovalView>, Failure> {
        Ok(match self {
            Self::Operator(session) => operators_view(session, id).await,
            Self::Actor(_, approvals) => approvals.show(id).await,
            Self::Server(server) => server.get(&["v1", "approvals", id], &[]).await?,
        })
    }

    pub(super) async fn decide(
        &self,
        id: &str,
        kind: &str,
        verdict: Verdict,
        comment: Option<&str>,
    ) -> Result<Asked<Decided>, Failure> {
        Ok(match self {
            Self::Operator(_) => Err(Rejection::Unauthenticated.face()),
            Self::Actor(_, approvals) => approvals.decide(id, kind, verdict, comment).await,
            Self::Server(server) => {
                let mut body = json!({"decision": verdict});
                if !kind.is_empty() {
                    body["type"] = json!(kind);
                }
                if let Some(comment) = comment {
                    body["comment"] = json!(comment);
                }
                server.post(&["v1", "approvals", id, "decision"], body.to_string()).await?
            }
        })
    }

    pub(super) async fn withdraw(&self, id: &str) -> Result<Asked<Decided>, Failure> {
        Ok(match self {
            Self::Operator(_) => Err(Rejection::Unauthenticated.face()),
            Self::Actor(_, approvals) => approvals.withdraw(id).await,
            Self::Server(server) => server.post(&["v1", "approvals", id, "withdraw"], String::new()).await?,
        })
    }
}

/// Every page, in the order of filing: the latest are at the end.
async fn all(
    page: impl AsyncFn(Option<String>) -> Result<Asked<ApprovalPage>, Failure>,
) -> Result<Asked<Vec<ApprovalView>>, Failure> {
    let (mut all, mut after) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let ApprovalPage { approvals, next } = match page(after).await? {
            Ok(page) => page,
            Err(error) => return Ok(Err(error)),
        };
        all.extend(approvals);
        let Some(next) = next else { return Ok(Ok(all)) };
        after = Some(next.to_string());
    }
    let cause = format!("there are more than {} requests", MAX_PAGES * PAGE);
    Err(Failure::could_not_run(cause, "ask for those that stand somewhere: `--status pending`"))
}

/// The operator has the database anyway, and sees every tenant's.
async fn operators_list(
    session: &Session,
    status: Option<ApprovalState>,
    before: Option<&str>,
    limit: usize,
) -> Result<Page, StoreError> {
    let core = session.core();
    let mut records = core.store.readers().latest_approvals(status, before, limit.saturating_add(1)).await?;
    let has_more = records.len() > limit;
    records.truncate(limit);
    let mut all = Vec::new();
    for record in records {
        let record = core.with_input(record).await?;
        all.extend(core.view(&record, None).ok());
    }
    Ok((all, has_more))
}

async fn operators_view(session: &Session, id: &str) -> Result<ApprovalView, Error> {
    let core = session.core();
    let record =
        if crate::trail::is_locator(id) { core.store.approval(&id.into()).await.map_err(unreadable)? } else { None };
    let missing = Rejection::approval(ErrorCode::ApprovalNotFound);
    record.ok_or(missing).and_then(|it| core.view(&it, None)).map_err(|it| it.face())
}

/// What is listed in the order of filing, the latest first, behind a request, so many at most.
fn latest(mut all: Vec<ApprovalView>, before: Option<&str>, limit: usize) -> Page {
    all.sort_by(|one, two| two.requested_at.cmp(&one.requested_at).then_with(|| two.id.cmp(&one.id)));
    if let Some(before) = before {
        let from = all.iter().position(|it| *it.id == *before).map_or(all.len(), |it| it + 1);
        all.drain(..from);
    }
    let has_more = all.len() > limit;
    all.truncate(limit);
    (all, has_more)
}

fn unreadable(error: StoreError) -> Error {
    Rejection::from(error).face()
}
