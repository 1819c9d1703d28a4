//! Telling others: rows beside the events of a batch, and what deliverers do with them.

use std::collections::BTreeSet;

use super::super::db::row;
use super::super::job::{Answer, Op};
use super::super::outbox::{Due, Fate, Letters, Outbox, Settlement, Subscriber};
use super::super::sql;
use super::Batch;
use crate::audit::{AuditEvent, EventKind};
use crate::clock::Timestamp;
use crate::topic::Topic;

/// How long before its end others are told that a request expires: an hour.
const WARN_US: i64 = 3_600_000_000;

/// How long a dead letter is kept: 30 days.
const KEEP_DEAD_US: i64 = 30 * 24 * 3_600_000_000;

/// The most letters of one webhook that are due: further ones are dead. And the most that are dead, of all webhooks: the
/// oldest beyond that go.
const MOST: i64 = 100_000;

/// Something that others may want to know.
pub(super) struct Telling {
    id: String,
    topic: Topic,
    tenant: String,
    execution: Option<String>,
    approval: Option<String>,
}

/// event, topic, approval, created at, attempts, body.
type DueRow = (String, String, Option<String>, i64, i64, Option<String>);

impl Batch<'_> {
    /// Notes that the event that was noted last may be told.
    pub(super) fn tell(&mut self, topic: Topic, approval: Option<&str>) {
        self.tells = true;
        let Some((_, event)) = self.events.last().filter(|_| self.wanted.topics.has(topic)) else { return };
        self.tellings.push(Telling {
            id: event.id.clone(),
            topic,
            tenant: event.tenant.clone(),
            execution: event.execution.clone(),
            approval: approval.map(str::to_owned),
        });
    }

    /// One statement for all of a batch, and none where nobody wants to know.
    pub(super) async fn write_tellings(&mut self) -> Result<(), sqlx::Error> {
        let tellings = std::mem::take(&mut self.tellings);
        let rows: Vec<_> = tellings
            .iter()
            .map(|it| {
                let (execution, approval) = (it.execution.as_deref(), it.approval.as_deref());
                row![&it.id, it.topic.as_str(), &it.tenant, execution, approval, MOST]
            })
            .collect();
        self.wrote |= !rows.is_empty();
        self.conn.run(sql::TELL, &rows).await
    }

    /// The sweep's part: warnings of what expires soon, and letters that nobody will ask for.
    pub(super) async fn sweep_outbox(&mut self) -> Result<usize, sqlx::Error> {
        let mut warned = 0;
        if self.wanted.topics.has(Topic::ApprovalExpiring) {
            for (approval, tenant) in self.conn.all::<(String, String)>(sql::WARN, &[row![WARN_US]]).await? {
                warned += 1;
                let id = format!("expiring_{approval}");
                let (topic, approval) = (Topic::ApprovalExpiring, Some(approval));
                self.tellings.push(Telling { id, topic, tenant, execution: None, approval });
            }
        }
        let erased = self.conn.all::<(String,)>(sql::ERASE_DEAD, &[row![KEEP_DEAD_US]]).await?.len();
        let surplus = self.conn.all::<(String,)>(sql::ERASE_SURPLUS, &[row![MOST]]).await?.len();
        Ok(erased.max(surplus).max(warned))
    }

    pub(super) async fn outbox(&mut self) -> Result<(), sqlx::Error> {
        for (at, op) in self.pick(|op| if let Op::Outbox(it) = op { Some(it) } else { None }) {
            let answer = match op {
                Outbox::Subscribe(all) => self.subscribe(all).await?,
                Outbox::Claim { webhook, limit, claim_us } => self.claim_due(webhook, *limit, *claim_us).await?,
                Outbox::Settle(settled) => self.settle(settled).await?,
                Outbox::Disable { webhook } => {
                    self.conn.run(sql::DISABLE, &[row![webhook]]).await?;
                    self.subscriptions_changed().await?
                }
                Outbox::Revive(letters, done) => {
                    let count = self.revive(letters).await?;
                    self.done(at, done, count)
                }
                Outbox::Drop(Letters { id, webhook }, done) => {
                    let rows = [row![id.as_deref(), webhook.as_deref()]];
                    let count = self.conn.all::<(String,)>(sql::DROP_DEAD, &rows).await?.len();
                    self.done(at, done, count)
                }
            };
            self.answer(at, answer);
        }
        Ok(())
    }

    async fn subscriptions_changed(&mut self) -> Result<Answer, sqlx::Error> {
        self.conn.run(sql::BURY_UNADDRESSED, &[]).await?;
        self.conn.run(sql::SUBSCRIPTIONS_CHANGED, &[]).await?;
        Ok(Answer::Done)
    }

    /// Says it anew only if it is something else than before.
    async fn subscribe(&mut self, all: &[Subscriber]) -> Result<Answer, sqlx::Error> {
        type Stored = (String, String, Option<String>, Option<String>);
        let stored: BTreeSet<Stored> = self.conn.all::<Stored>(sql::WEBHOOKS, &[]).await?.into_iter().collect();
        let lines = all.iter().flat_map(|it| subscriptions(it).map(move |(topic, tenant)| (it, topic, tenant)));
        let lines: Vec<_> = lines.collect();
        let wanted: BTreeSet<Stored> = lines
            .iter()
            .map(|(it, topic, tenant)| {
                (it.name.clone(), it.address.clone(), Some((*topic).into()), Some((*tenant).into()))
            })
            .collect();
        if stored == wanted {
            return Ok(Answer::Done);
        }
        self.conn.run(sql::UNSUBSCRIBE, &[]).await?;
        let webhooks: Vec<_> = all.iter().map(|it| row![&it.name, &it.address]).collect();
        self.conn.run(sql::PUT_WEBHOOK, &webhooks).await?;
        let rows: Vec<_> = lines.iter().map(|(it, topic, tenant)| row![*topic, *tenant, &it.name]).collect();
        self.conn.run(sql::SUBSCRIBE, &rows).await?;
        self.conn.run(sql::DROP_WEBHOOKS, &[]).await?;
        self.subscriptions_changed().await
    }

    async fn claim_due(&mut self, webhook: &str, limit: i64, claim_us: i64) -> Result<Answer, sqlx::Error> {
        let rows = self.conn.all::<DueRow>(sql::CLAIM_DUE, &[row![webhook, limit, claim_us]]).await?;
        let mut due: Vec<_> = rows.into_iter().filter_map(due).collect();
        due.sort_by(|one: &Due, two| (one.created_at, &one.id).cmp(&(two.created_at, &two.id)));
        Ok(Answer::Due(due))
    }

    async fn settle(&mut self, settled: &[Settlement]) -> Result<Answer, sqlx::Error> {
        let gone = settled.iter().filter(|it| it.fate == Fate::Gone).map(|it| row![&it.id, &it.webhook]);
        self.conn.run(sql::TOLD, &gone.collect::<Vec<_>>()).await?;
        let failed = settled.iter().filter_map(|it| {
            let (state, wait_us, why) = match &it.fate {
                Fate::Gone => return None,
                Fate::Later { wait_us, why } => ("due", *wait_us, why),
                Fate::Dead { why } => ("dead", 0, why),
            };
            Some(row![&it.id, &it.webhook, it.attempt, state, wait_us, why])
        });
        self.conn.run(sql::PUT_OFF, &failed.collect::<Vec<_>>()).await?;
        Ok(Answer::Done)
    }

    /// What was done to nothing leaves no trace.
    fn done(&mut self, at: usize, done: &AuditEvent, letters: usize) -> Answer {
        let mut event = done.clone();
        if let EventKind::ManagementDone { count, .. } = &mut event.kind
            && letters > 0
        {
            *count = Some(letters);
            self.events.push((at, event.into_row()));
        }
        Answer::Letters(letters)
    }

    async fn revive(&mut self, letters: &Letters) -> Result<usize, sqlx::Error> {
        let rows = [row![letters.id.as_deref(), letters.webhook.as_deref()]];
        let revived = self.conn.all::<(String,)>(sql::REVIVE, &rows).await?;
        let webhooks: BTreeSet<&String> = revived.iter().map(|it| &it.0).collect();
        let rows: Vec<_> = webhooks.into_iter().map(|it| row![it]).collect();
        if !rows.is_empty() {
            self.conn.run(sql::ENABLE, &rows).await?;
            self.subscriptions_changed().await?;
            self.wrote = true;
        }
        Ok(revived.len())
    }
}

/// A line for each topic and tenant; an empty tenant is all of them.
fn subscriptions(it: &Subscriber) -> impl Iterator<Item = (&'static str, &str)> {
    let all: &[String] = &[];
    let tenants = if it.tenants.is_empty() { all } else { &it.tenants };
    let tenants: Vec<&str> = if tenants.is_empty() { vec![""] } else { tenants.iter().map(|it| &**it).collect() };
    it.topics.iter().flat_map(move |topic| tenants.clone().into_iter().map(|tenant| (topic.as_str(), tenant)))
}

/// `None`: of a topic that this version does not know; it stays claimed, for one that does.
fn due((id, topic, approval, created_at, attempt, event): DueRow) -> Option<Due> {
    let topic = Topic::parse(&topic)?;
    let (approval, created_at) = (approval.map(Into::into), Timestamp(created_at));
    Some(Due { id, topic, approval, created_at, attempt, event })
}
