//! `approvals list|show|approve|reject|resume|withdraw`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::actors::identity;
use super::args::{Approvals as Args, ApprovalsCommand, As, Decide, Place};
use super::exit::Exit;
use super::failure::Failure;
use super::invoke;
use super::open::{Database, Session};
use super::screen::{Answer, GOOD, STRONG, WARNING, facts, plain, pretty, table};
use super::user::issuer;
use crate::builder::Role;
use crate::store::{EventFilter, StoreError};
use crate::{
    ApprovalState, ApprovalView, Approvals, AuditEvent, Decided, Error, ErrorCode, Requirement, Surface, Verdict,
};

/// How many rows are read at once.
const PAGE: usize = 500;

pub(super) async fn run(args: Args) -> Result<Answer, Failure> {
    match args.command {
        ApprovalsCommand::List { status, who, place } => list(status, &who, &place).await,
        ApprovalsCommand::Show { id, who, place } => show(&id, &who, &place).await,
        ApprovalsCommand::Approve(it) => decide(&it, Verdict::Approve).await,
        ApprovalsCommand::Reject(it) => decide(&it, Verdict::Reject).await,
        ApprovalsCommand::Resume { id, who, surface, place } => resume(&id, &who, surface, &place).await,
        ApprovalsCommand::Withdraw { id, who, place } => withdraw(&id, &who, &place).await,
    }
}

/// Approvals in an actor's name: decisions come in through the command line, and the record says who sat there.
fn as_actor(session: &Session, who: &As) -> Result<Approvals, Failure> {
    let identity = identity(who.actor.as_deref())?;
    Ok(Approvals {
        core: Arc::clone(session.core()),
        identity,
        via: "cli".into(),
        issuer: Some(issuer()),
        person: true,
    })
}

async fn list(status: Option<ApprovalState>, who: &As, place: &Place) -> Result<Answer, Failure> {
    let session = Session::open(place, Role::Looks, Database::Existing).await?;
    let listed = match who.actor {
        Some(_) => as_actor(&session, who)?.list(status).await,
        None => operators_list(&session, status).await,
    };
    session.close().await;
    Ok(match listed {
        Ok(all) if all.is_empty() => Answer::list(&all, "There are no such requests.\n"),
        Ok(all) => {
            let rows: Vec<_> = all.iter().map(row).collect();
            let headings = ["approval", "status", "capability", "requester", "needs", "expires"];
            Answer::list(&all, table(&headings, &rows))
        }
        Err(error) => Answer::refused(&error),
    })
}

/// The operator has the database anyway, and sees every tenant's.
async fn operators_list(session: &Session, status: Option<ApprovalState>) -> Result<Vec<ApprovalView>, Error> {
    let core = session.core();
    let mut all = Vec::new();
    for tenant in tenants(session).await.map_err(unreadable)? {
        let mut after = None;
        loop {
            let page = core.store.approvals(&tenant, status, None, after.as_ref(), PAGE).await.map_err(unreadable)?;
            let Some(last) = page.last() else { break };
            after = Some(last.id.clone());
            for record in page {
                let record = core.with_input(record).await.map_err(unreadable)?;
                all.extend(core.view(&record, None).ok());
            }
        }
    }
    all.sort_by(|one, two| two.requested_at.cmp(&one.requested_at).then_with(|| one.id.cmp(&two.id)));
    Ok(all)
}

/// Every tenant in which something was asked for.
async fn tenants(session: &Session) -> Result<BTreeSet<String>, StoreError> {
    let kind = Some("capability.approval_requested".to_owned());
    let mut filter = EventFilter { kind, ..EventFilter::default() };
    let mut tenants = BTreeSet::new();
    loop {
        let page = session.core().store.events(&filter, PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(tenants) };
        filter.after_seq = *last;
        let events = page.iter().filter_map(|(_, body)| serde_json::from_str::<AuditEvent>(body).ok());
        tenants.extend(events.map(|it| it.envelope.tenant));
    }
}

fn unreadable(error: StoreError) -> Error {
    crate::rejection::Rejection::from(error).face()
}

fn row(it: &ApprovalView) -> Vec<String> {
    vec![
        it.id.to_string(),
        it.status.as_str().into(),
        it.capability_id.to_string(),
        format!("{}@{}", it.requester.id, it.tenant),
        needs(it).join(", "),
        it.expires_at.to_string(),
    ]
}

/// `manager 0 of 1`.
fn needs(view: &ApprovalView) -> Vec<String> {
    let progress = |it: &Requirement| format!("{} {} of {}", it.kind, have(view, it), it.quorum);
    view.requirements.iter().map(progress).collect()
}

fn have(view: &ApprovalView, requirement: &Requirement) -> usize {
    view.decisions.iter().filter(|it| it.kind == requirement.kind && it.verdict == Verdict::Approve).count()
}

async fn show(id: &str, who: &As, place: &Place) -> Result<Answer, Failure> {
    let session = Session::open(place, Role::Looks, Database::Existing).await?;
    let shown = match who.actor {
        Some(_) => as_actor(&session, who)?.show(id).await,
        None => operators_view(&session, id).await,
    };
    session.close().await;
    Ok(match shown {
        Ok(view) => Answer::new(Exit::Done, &view, whole(&view)),
        Err(error) => Answer::refused(&error),
    })
}

async fn operators_view(session: &Session, id: &str) -> Result<ApprovalView, Error> {
    let core = session.core();
    let record =
        if crate::trail::is_locator(id) { core.store.approval(&id.into()).await.map_err(unreadable)? } else { None };
    let missing = crate::rejection::Rejection::approval(ErrorCode::ApprovalNotFound);
    record.ok_or(missing).and_then(|it| core.view(&it, None)).map_err(|it| it.face())
}

/// What an approver needs to know before deciding: who, what exactly, why, how far it is.
fn whole(view: &ApprovalView) -> String {
    let style = if view.status == ApprovalState::Approved { GOOD } else { WARNING };
    let issuer = |it: &Option<String>| it.as_ref().map(|it| format!(", vouched for by {it}")).unwrap_or_default();
    let requester = &view.requester;
    let decisions = view.decisions.iter().map(|it| {
        let (who, how) = (&it.approver.id, it.verdict.as_str());
        format!("{who} said {how} for {} via {} at {}{}", it.kind, it.via, it.at, issuer(&it.approver.issuer))
    });
    let decisions: Vec<_> = decisions.collect();
    let mut rows = vec![
        (
            "capability",
            format!("{} (effect {}, risk {})", view.capability_id, view.side_effect.as_str(), view.risk.as_str()),
        ),
        ("asked by", format!("{} ({}){}", requester.id, requester.kind.as_str(), issuer(&requester.issuer))),
        ("for", format!("tenant {}, over {}", view.tenant, view.surface.as_str())),
        ("why", view.reasons.join("\n")),
        ("needs", needs(view).join("\n")),
        ("decisions", if decisions.is_empty() { "none yet".into() } else { decisions.join("\n") }),
        ("asked at", view.requested_at.to_string()),
        ("expires", view.expires_at.to_string()),
        ("input hash", view.input_hash.clone()),
    ];
    rows.extend(view.client.clone().map(|it| ("client", it)));
    rows.extend(view.execution_id.as_ref().map(|it| ("run as", it.to_string())));
    let input = view.input.as_ref().map_or_else(|| "(not kept any more)".to_owned(), |it| plain(&pretty(it)));
    let next = match view.status {
        ApprovalState::Pending => format!("next: countersign approvals approve {} --actor NAME\n", view.id),
        ApprovalState::Approved => {
            format!("next: countersign approvals resume {} --actor {}\n", view.id, plain(&requester.id))
        }
        ApprovalState::Rejected | ApprovalState::Expired | ApprovalState::Withdrawn | ApprovalState::Consumed => {
            String::new()
        }
    };
    let status = view.status.as_str();
    format!(
        "{STRONG}{}{STRONG:#} {style}{status}{style:#}\n{}exactly this will run:\n{input}\n{next}",
        view.id,
        facts(&rows)
    )
}

async fn decide(args: &Decide, verdict: Verdict) -> Result<Answer, Failure> {
    let session = Session::open(&args.place, Role::Visits, Database::Existing).await?;
    let approvals = as_actor(&session, &args.who)?;
    let kind = match &args.kind {
        Some(kind) => kind.clone(),
        None => outstanding(&approvals, &args.id).await?,
    };
    let decided = approvals.decide(&args.id, &kind, verdict, args.comment.as_deref()).await;
    session.close().await;
    Ok(settled(decided))
}

/// The one type that is outstanding. Where there is nothing to choose from, the engine says why, on record.
async fn outstanding(approvals: &Approvals, id: &str) -> Result<String, Failure> {
    let Ok(view) = approvals.show(id).await else { return Ok(String::new()) };
    let open = |it: &&Requirement| have(&view, it) < usize::try_from(it.quorum).unwrap_or(usize::MAX);
    let types: Vec<_> = view.requirements.iter().filter(open).map(|it| it.kind.clone()).collect();
    match &*types {
        [] => Ok(view.requirements.first().map(|it| it.kind.clone()).unwrap_or_default()),
        [one] => Ok(one.clone()),
        several => {
            let cause = format!("several types are outstanding: {}", several.join(", "));
            Err(Failure::invalid(cause, format!("say which one is decided: `--type {}`", several[0])))
        }
    }
}

async fn withdraw(id: &str, who: &As, place: &Place) -> Result<Answer, Failure> {
    let session = Session::open(place, Role::Visits, Database::Existing).await?;
    let done = as_actor(&session, who)?.withdraw(id).await;
    session.close().await;
    Ok(settled(done))
}

fn settled(done: Result<Decided, Error>) -> Answer {
    match done {
        Ok(decided) => {
            let next = match decided.status {
                ApprovalState::Approved => {
                    format!("  next: countersign approvals resume {} --actor NAME\n", decided.id)
                }
                ApprovalState::Pending => "  next: others must agree too\n".into(),
                ApprovalState::Rejected
                | ApprovalState::Expired
                | ApprovalState::Withdrawn
                | ApprovalState::Consumed => String::new(),
            };
            let text = format!("{GOOD}{}{GOOD:#} {}\n{next}", decided.status.as_str(), decided.id);
            Answer::new(Exit::Done, &decided, text)
        }
        Err(error) => Answer::refused(&error),
    }
}

async fn resume(id: &str, who: &As, surface: Surface, place: &Place) -> Result<Answer, Failure> {
    let identity = identity(who.actor.as_deref())?;
    let session = Session::open(place, Role::Visits, Database::Existing).await?;
    let outcome = session.caller(identity, surface).resume(id).await;
    session.close().await;
    Ok(invoke::answer(&outcome))
}
