//! `notifications list|retry|drop`: what waits to be told, and what was given up.

use std::fmt::Write as _;

use serde_json::json;

use super::args::{Notifications, NotificationsCommand, Records, Which};
use super::exit::Exit;
use super::failure::Failure;
use super::open::{Database, LEASE, check_database, store};
use super::place::Lack;
use super::screen::{Answer, HINT, table};
use super::user::issuer;
use crate::store::outbox::{Letter, Letters};
use crate::store::{Store, StoreError};

const LACK: Lack =
    Lack { what: "shows nobody what it tells others", next: "look at its database, where that is: `--db URL`" };

pub(super) async fn run(args: Notifications) -> Result<Answer, Failure> {
    match args.command {
        NotificationsCommand::List { webhook, dead, limit, records } => {
            let store = open(&records).await?;
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let state = dead.then_some("dead");
            let listed = store.letters(webhook.as_deref(), state, limit).await;
            store.close(LEASE).await;
            let letters = listed.map_err(|it| unreadable(&it))?;
            Ok(Answer::list(&letters, shown(&letters)))
        }
        NotificationsCommand::Retry { which, records } => {
            let store = open(&records).await?;
            let count = store.revive(which.into(), &issuer()).await;
            store.close(LEASE).await;
            Ok(counted("retried", count.map_err(|it| unreadable(&it))?))
        }
        NotificationsCommand::Drop { which, records } => {
            let store = open(&records).await?;
            let count = store.drop_letters(which.into(), &issuer()).await;
            store.close(LEASE).await;
            Ok(counted("dropped", count.map_err(|it| unreadable(&it))?))
        }
    }
}

async fn open(records: &Records) -> Result<Store, Failure> {
    store(check_database(&records.database(&LACK)?, Database::Existing)?).await
}

impl From<Which> for Letters {
    fn from(Which { id, webhook, all: _ }: Which) -> Self {
        Self { id, webhook }
    }
}

fn unreadable(error: &StoreError) -> Failure {
    let cause = format!("the notifications cannot be had: {error}");
    Failure::could_not_run(cause, "see to the database, then try again")
}

fn counted(what: &str, count: usize) -> Answer {
    let many = if count == 1 { "" } else { "s" };
    let text = match count {
        0 => format!("There is nothing to be {what}: see `countersign notifications list --dead`.\n"),
        _ => format!("{count} notification{many} {what}.\n"),
    };
    Answer::new(Exit::Done, &json!({what: count}), text)
}

fn shown(letters: &[Letter]) -> String {
    if letters.is_empty() {
        return "Nothing waits to be told.\n".into();
    }
    let row = |it: &Letter| {
        let about = it.approval_id.clone().or_else(|| it.execution_id.clone()).unwrap_or_default();
        let next = it.next_at.map_or_else(|| "given up".into(), |it| it.to_string());
        let failure = it.failure.clone().unwrap_or_default();
        vec![it.id.clone(), it.webhook.clone(), it.topic.clone(), about, it.attempts.to_string(), next, failure]
    };
    let rows: Vec<_> = letters.iter().map(row).collect();
    let hint = "see to the receiver, then `countersign notifications retry --all`";
    let mut text = table(&["id", "webhook", "type", "about", "attempts", "next", "failure"], &rows);
    if letters.iter().any(|it| it.state == "dead") {
        let _ = writeln!(text, "{HINT}next:{HINT:#} {hint}"); // into a String: cannot fail
    }
    text
}
