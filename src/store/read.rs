//! The readers: a pool of their own, one short transaction each.

mod log;

use std::collections::HashMap;
use std::num::NonZero;
use std::path::Path;
use std::thread;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};

pub(crate) use self::log::LogReader;
#[cfg(feature = "cli")]
pub(crate) use self::log::LogState;
use super::StoreError;
use super::db::{Cell, Read, Row, expand, fetch, options, query, row, values};
use super::op::{Active, ApprovalRecord, ExecutionRecord, Holder, HolderState, SeenRecord};
#[cfg(feature = "cli")]
use super::outbox::Letter;
use super::outbox::{Backlog, Pick};
#[cfg(feature = "cli")]
use super::record::LetterRow;
use super::record::{ApprovalRow, DecisionRow, ExecutionRow, SeenColumns, seen_record, unreadable};
use super::seal::{Key, SealError};
use super::sql::{self, Sql};
use crate::approval::ApprovalState;
use crate::clock::{Clock, Timestamp};
use crate::{ApprovalId, ExecutionId};

/// How many connections read at once: one a core, within these bounds.
const LEAST: u32 = 2;
const MOST: u32 = 4;

/// How much each of them keeps of the file: 512 KiB, as SQLite wants it said. The kernel keeps the rest.
const CACHE: &str = "-512";

/// The most decisions that are read at once: each may be as large as an input.
const MAX_SEEN: usize = 1_000;

/// Which events to list; what is `None` does not matter.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventFilter {
    pub(crate) tenant: Option<String>,
    pub(crate) execution: Option<String>,
    pub(crate) capability: Option<String>,
    pub(crate) actor: Option<String>,
    /// The event's type, `capability.denied`.
    pub(crate) kind: Option<String>,
    /// From this instant on.
    pub(crate) since: Option<Timestamp>,
    /// Before this instant.
    pub(crate) until: Option<Timestamp>,
    /// Only events behind this place.
    pub(crate) after_seq: i64,
    /// Only events up to this place, and at it.
    pub(crate) up_to: Option<i64>,
    /// Only what approvals are about. Of all executions, the first ones.
    pub(crate) approvals: bool,
    /// The last ones instead of the first ones; in order all the same.
    pub(crate) last: bool,
}

/// How much of one capability waits for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) capability: String,
    pub(crate) count: i64,
    /// The age of the oldest, in microseconds.
    pub(crate) oldest_us: i64,
}

/// What operators count of what is on record, and of the way there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Requests that wait for a decision; `None` if the store cannot be asked.
    pub(crate) pending: Option<Vec<Pending>>,
    /// Executions of which nobody knows whether they happened; likewise.
    pub(crate) unknown: Option<Vec<Pending>>,
    /// Operations of this process that wait for the writer.
    pub(crate) queued: usize,
    /// How long what the writer is storing, or owes, has waited to be on record.
    pub(crate) lag: Duration,
}

/// Reads, and writes nothing.
#[derive(Clone, Debug)]
pub(crate) struct Readers {
    pool: SqlitePool,
    clock: Clock,
}

/// What the copy's files say, its seal, and the name and text of one of them.
type CopyRow = (String, Option<String>, Option<String>, Option<String>);

/// id, state, retake, lapsed, input hash, given hash, outcome.
type HolderRow = (String, String, bool, bool, String, String, Option<String>);

impl Readers {
    pub(super) fn open(path: &Path, clock: Clock) -> Self {
        Self::with(options(path).read_only(true), clock)
    }

    pub(super) fn with(options: SqliteConnectOptions, clock: Clock) -> Self {
        // More of them than cores read no faster, and each has a thread, an arena of the allocator and a cache for itself.
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let most = u32::try_from(cores).unwrap_or(MOST).clamp(LEAST, MOST);
        let options = options.pragma("cache_size", CACHE);
        let pool = SqlitePoolOptions::new().max_connections(most).test_before_acquire(false);
        let pool = pool.idle_timeout(None).max_lifetime(None);
        Self { pool: pool.connect_lazy_with(options), clock }
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    /// The log as such.
    #[cfg(feature = "cli")]
    pub(crate) fn log(&self) -> LogReader {
        LogReader::of(self)
    }

    pub(super) async fn approval(&self, id: &ApprovalId) -> Result<Option<ApprovalRecord>, StoreError> {
        Ok(self.approvals_by(sql::APPROVAL, &values![id]).await?.pop())
    }

    #[cfg(feature = "http")]
    pub(super) async fn standing(&self, id: &ApprovalId) -> Result<Option<(ApprovalState, Timestamp)>, StoreError> {
        let mut link = self.pool.acquire().await.map_err(unavailable)?;
        let rows: Vec<(String, i64)> =
            query(&mut link, sql::STANDING, self.now(), &values![id]).await.map_err(unavailable)?;
        let Some((state, expires_at)) = rows.into_iter().next() else { return Ok(None) };
        let state = ApprovalState::parse(&state).ok_or_else(|| unavailable(unreadable(&state)))?;
        Ok(Some((state, Timestamp(expires_at))))
    }

    pub(super) async fn approval_of_call(
        &self,
        slot: &str,
        input_hash: &str,
        given_hash: &str,
    ) -> Result<Option<ApprovalRecord>, StoreError> {
        Ok(self.approvals_by(sql::APPROVAL_OF_CALL, &values![slot, input_hash, given_hash]).await?.pop())
    }

    pub(super) async fn approvals(
        &self,
        tenant: &str,
        status: Option<ApprovalState>,
        requester: Option<&str>,
        after: Option<&ApprovalId>,
        limit: usize,
    ) -> Result<Vec<ApprovalRecord>, StoreError> {
        let status = status.map(ApprovalState::as_str);
        let values = values![tenant, status, requester, after.map(ApprovalId::as_str), many(limit)];
        self.approvals_by(sql::APPROVALS, &values).await
    }

    pub(super) async fn holder(&self, slot: &str) -> Result<Option<Holder>, StoreError> {
        let mut link = self.pool.acquire().await.map_err(unavailable)?;
        let rows = query::<HolderRow>(&mut link, sql::HOLDER, self.now(), &values![slot]).await.map_err(unavailable)?;
        let Some((id, state, retake, lapsed, input_hash, given_hash, outcome)) = rows.into_iter().next() else {
            return Ok(None);
        };
        let state = holder_state(&state, retake, lapsed).ok_or_else(|| unavailable(unreadable(&state)))?;
        Ok(Some(Holder { execution: id.into(), state, input_hash, given_hash, outcome }))
    }

    pub(crate) async fn execution(&self, id: &ExecutionId) -> Result<Option<ExecutionRecord>, StoreError> {
        let rows: Vec<ExecutionRow> = self.rows(sql::EXECUTIONS, &[row![id]]).await?;
        rows.into_iter().next().map(|it| it.record().map_err(unavailable)).transpose()
    }

    /// Executions that began, the latest first, older than `before`, without their inputs.
    #[cfg(feature = "cli")]
    pub(crate) async fn executions(
        &self,
        state: Option<&str>,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ExecutionRecord>, StoreError> {
        let mut link = self.pool.acquire().await.map_err(unavailable)?;
        let values = values![state, before, many(limit)];
        let rows: Vec<ExecutionRow> =
            query(&mut link, sql::EXECUTIONS_LATEST, self.now(), &values).await.map_err(unavailable)?;
        rows.into_iter().map(|it| it.record().map_err(unavailable)).collect()
    }

    /// Requests of all tenants, the latest first, older than `before`, without their inputs.
    #[cfg(feature = "cli")]
    pub(crate) async fn latest_approvals(
        &self,
        status: Option<ApprovalState>,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ApprovalRecord>, StoreError> {
        let values = values![status.map(ApprovalState::as_str), before, many(limit)];
        self.approvals_by(sql::APPROVALS_LATEST, &values).await
    }

    pub(crate) async fn events(&self, filter: &EventFilter, limit: usize) -> Result<Vec<(i64, String)>, StoreError> {
        let EventFilter { tenant, execution, capability, actor, kind, since, until, .. } = filter;
        let EventFilter { after_seq, up_to, approvals, last, .. } = filter;
        let text = match (execution, last) {
            _ if *approvals => sql::EVENTS_OF_APPROVALS,
            (None, false) => sql::EVENTS_FIRST,
            (None, true) => sql::EVENTS_LAST,
            (Some(_), false) => sql::EVENTS_OF_FIRST,
            (Some(_), true) => sql::EVENTS_OF_LAST,
        };
        let (since, until) = (since.map_or(i64::MIN, |it| it.0), until.map_or(i64::MAX, |it| it.0));
        let values = values![
            *after_seq,
            execution.as_deref(),
            tenant.as_deref(),
            capability.as_deref(),
            actor.as_deref(),
            kind.as_deref(),
            since,
            until,
            many(limit),
            up_to.unwrap_or(i64::MAX),
        ];
        let mut link = self.pool.acquire().await.map_err(unavailable)?;
        let mut events = query(&mut link, text, self.now(), &values).await.map_err(unavailable)?;
        if *last {
            events.reverse();
        }
        Ok(events)
    }

    pub(super) async fn decision_records(
        &self,
        since: Timestamp,
        after: Option<&SeenRecord>,
        limit: usize,
        key: &Key,
    ) -> Result<Vec<SeenRecord>, StoreError> {
        let (at, execution, place) = after.map_or((i64::MIN, "", 0), |it| (it.decided_at.0, &*it.execution, it.place));
        let values = values![since.0, at, execution, place, many(limit.min(MAX_SEEN))];
        let mut link = self.pool.acquire().await.map_err(unavailable)?;
        let rows: Vec<SeenColumns> = query(&mut link, sql::SEEN, self.now(), &values).await.map_err(unavailable)?;
        Ok(rows.into_iter().map(|it| seen_record(it, key)).collect())
    }

    #[cfg(feature = "cli")]
    pub(super) async fn decisions_of(&self, id: &ExecutionId, key: &Key) -> Result<Vec<SeenRecord>, StoreError> {
        let rows: Vec<SeenColumns> = self.rows(sql::SEEN_OF, &[row![id]]).await?;
        Ok(rows.into_iter().map(|it| seen_record(it, key)).collect())
    }

    pub(super) async fn pending(&self) -> Result<Vec<Pending>, StoreError> {
        let now = self.now();
        let mut link = self.pool.acquire().await.map_err(unavailable)?;
        let rows: Vec<(String, i64, i64)> = query(&mut link, sql::PENDING, now, &[]).await.map_err(unavailable)?;
        let pending = |(capability, count, oldest): (String, i64, i64)| Pending {
            capability,
            count,
            oldest_us: now.saturating_sub(oldest).max(0),
        };
        Ok(rows.into_iter().map(pending).collect())
    }

    pub(super) async fn unknown(&self) -> Result<Vec<Pending>, StoreError> {
        let mut link = self.pool.acquire().await.map_err(unavailable)?;
        let rows: Vec<(String, i64)> = query(&mut link, sql::UNKNOWN, self.now(), &[]).await.map_err(unavailable)?;
        Ok(rows.into_iter().map(|(capability, count)| Pending { capability, count, oldest_us: 0 }).collect())
    }

    pub(crate) async fn active(&self) -> Result<Option<Active>, StoreError> {
        let mut link = self.pool.acquire().await.map_err(unavailable)?;
        let rows: Vec<(String, i64)> = query(&mut link, sql::ACTIVE, self.now(), &[]).await.map_err(unavailable)?;
        Ok(rows.into_iter().next().map(|(hash, generation)| Active { hash, generation }))
    }

    pub(super) async fn copy(
        &self,
        hash: &str,
        key: &Key,
    ) -> Result<Option<Result<Vec<(String, String)>, SealError>>, StoreError> {
        let mut link = self.pool.acquire().await.map_err(unavailable)?;
        let rows: Vec<CopyRow> = query(&mut link, sql::COPY, self.now(), &values![hash]).await.map_err(unavailable)?;
        let Some((said, seal)) = rows.first().map(|it| (it.0.clone(), it.1.clone())) else { return Ok(None) };
        let files: Vec<_> = rows.into_iter().filter_map(|(_, _, name, text)| name.zip(text)).collect();
        let is_sound = seal.is_some_and(|it| it == key.copy(hash, &said, &files));
        Ok(Some(is_sound.then_some(files).ok_or(SealError)))
    }

    pub(crate) async fn copies(&self, prefix: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        let mut link = self.pool.acquire().await.map_err(unavailable)?;
        let values = values![prefix, many(limit)];
        let rows: Vec<(String,)> = query(&mut link, sql::COPIES, self.now(), &values).await.map_err(unavailable)?;
        Ok(rows.into_iter().map(|it| it.0).collect())
    }

    pub(crate) async fn loaded(&self, limit: usize) -> Result<Vec<String>, StoreError> {
        let mut link = self.pool.acquire().await.map_err(unavailable)?;
        let rows: Vec<(i64, String)> =
            query(&mut link, sql::LOADED, self.now(), &values![many(limit)]).await.map_err(unavailable)?;
        Ok(rows.into_iter().map(|it| it.1).collect())
    }

    /// The place of the last event.
    pub(crate) async fn last(&self) -> Result<i64, StoreError> {
        let mut link = self.pool.acquire().await.map_err(unavailable)?;
        let rows: Vec<(i64,)> = query(&mut link, sql::LAST, self.now(), &[]).await.map_err(unavailable)?;
        Ok(rows.first().map_or(0, |it| it.0))
    }

    #[cfg(feature = "http")]
    pub(super) async fn is_due(&self, webhook: &str) -> Result<bool, StoreError> {
        let mut link = self.pool.acquire().await.map_err(unavailable)?;
        let rows: Vec<(i64,)> =
            query(&mut link, sql::IS_DUE, self.now(), &values![webhook]).await.map_err(unavailable)?;
        Ok(!rows.is_empty())
    }

    #[cfg(feature = "cli")]
    pub(super) async fn letters(
        &self,
        webhook: Option<&str>,
        state: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Letter>, StoreError> {
        let mut link = self.pool.acquire().await.map_err(unavailable)?;
        let values = values![webhook, state, many(limit)];
        let rows: Vec<LetterRow> = query(&mut link, sql::OUTBOX, self.now(), &values).await.map_err(unavailable)?;
        Ok(rows.into_iter().map(LetterRow::letter).collect())
    }

    pub(super) async fn backlog(&self) -> Result<Backlog, StoreError> {
        let mut link = self.pool.acquire().await.map_err(unavailable)?;
        let rows: Vec<(i64, i64, Option<i64>)> =
            query(&mut link, sql::OUTBOX_COUNTS, self.now(), &[]).await.map_err(unavailable)?;
        let (due, dead, oldest) = rows.first().copied().unwrap_or_default();
        Ok(Backlog { due, dead, oldest: oldest.map(Timestamp) })
    }

    pub(super) async fn can_pick(&self, of: &[Pick]) -> Result<bool, StoreError> {
        let rows: Vec<_> = of.iter().map(|it| row![&it.capability, &it.mark]).collect();
        Ok(!self.rows::<(String,)>(sql::TO_PICK, &rows).await?.is_empty())
    }

    /// Approvals with their decisions, as they stood at one instant.
    async fn approvals_by(&self, text: &'static str, values: &[Cell<'_>]) -> Result<Vec<ApprovalRecord>, StoreError> {
        let now = self.now();
        let mut link = self.pool.begin().await.map_err(unavailable)?;
        let approvals: Vec<ApprovalRow> = query(&mut link, text, now, values).await.map_err(unavailable)?;
        let ids: Vec<_> = approvals.iter().map(|it| row![&it.id]).collect();
        let rows: Vec<DecisionRow> = if ids.is_empty() {
            Vec::new()
        } else {
            let text = expand(sql::DECISIONS_OF);
            fetch(&mut link, text, now, sql::DECISIONS_OF, &ids).await.map_err(unavailable)?
        };
        link.rollback().await.map_err(unavailable)?;
        let mut decisions: HashMap<String, Vec<_>> = HashMap::new();
        for row in rows {
            let id = row.approval_id.clone();
            decisions.entry(id).or_default().push(row.record().map_err(unavailable)?);
        }
        let records = approvals.into_iter().map(|it| {
            let decisions = decisions.remove(&it.id).unwrap_or_default();
            it.record(decisions).map_err(unavailable)
        });
        records.collect()
    }

    async fn rows<T: Read>(&self, sql: Sql, rows: &[Row<'_>]) -> Result<Vec<T>, StoreError> {
        let mut link = self.pool.acquire().await.map_err(unavailable)?;
        fetch(&mut link, expand(sql), self.now(), sql, rows).await.map_err(unavailable)
    }

    fn now(&self) -> i64 {
        self.clock.now().0
    }
}

fn holder_state(state: &str, retake: bool, lapsed: bool) -> Option<HolderState> {
    match (state, lapsed, retake) {
        ("completed", ..) => Some(HolderState::Completed),
        ("failed", ..) => Some(HolderState::Failed),
        ("running", false, _) => Some(HolderState::Running),
        ("running", true, true) => Some(HolderState::Retakable),
        ("running", true, false) | ("unknown", ..) => Some(HolderState::Unknown),
        _ => None,
    }
}

fn many(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unavailable(error: sqlx::Error) -> StoreError {
    StoreError::Unavailable(error.to_string())
}
