//! Filing requests for a decision (APR-1, APR-9, APR-11) and taking them back.

use std::collections::{HashMap, HashSet};

use super::super::db::row;
use super::super::job::{Answer, Op, Ready};
use super::super::op::{Decided, File, Filed, Withdraw};
use super::super::sql;
use super::Batch;
use crate::ApprovalId;
use crate::approval::ApprovalState;
use crate::audit::{AuditEvent, EventKind};
use crate::clock::Timestamp;
use crate::topic::Topic;

/// The most requests that may wait for a decision at once (APR-11).
const MAX_PENDING_OF_REQUESTER: i64 = 100;
const MAX_PENDING_OF_TENANT: i64 = 10_000;

/// How long no worker takes up what an inline approver is asked about: as long as the call may wait for it, and then begin.
const INLINE_US: i64 = 60_000_000;

type Files<'a> = Vec<(usize, &'a Ready<File>)>;

/// The request that a filing comes to: its id, the hash of its binding and its end.
struct Open {
    approval: ApprovalId,
    binding_hash: String,
    expires_at: i64,
}

impl<'a> Batch<'a> {
    pub(super) async fn file(&mut self) -> Result<(), sqlx::Error> {
        let mut files: Files<'a> = self.pick(|op| if let Op::File(it) = op { Some(&**it) } else { None });
        if files.is_empty() {
            return Ok(());
        }
        self.expire_calls(&files).await?;
        self.supersede(&mut files).await?;
        let open = self.open_of_calls(&files).await?;
        files.retain(|(i, it)| open.get(&call(it)).is_none_or(|found| self.filed(*i, it, found, true)));
        self.limit(&mut files).await?;
        let rows: Vec<_> = files.iter().map(|(_, it)| (it, requirements(&it.what))).collect();
        let rows: Vec<_> = rows.iter().map(|(it, requirements)| file_row(it, requirements)).collect();
        let ends: HashMap<String, i64> = self.conn.all::<(String, i64)>(sql::FILE, &rows).await?.into_iter().collect();
        for (i, it) in files {
            let Some(expires_at) = ends.get(&*it.what.approval).copied() else { continue }; // vanished: next batch
            let (approval, binding_hash) = (it.what.approval.clone(), it.what.binding_hash.clone());
            self.filed(i, it, &Open { approval, binding_hash, expires_at }, false);
        }
        Ok(())
    }

    /// Requests of the same calls whose time has passed end here, not when the sweep comes by.
    async fn expire_calls(&mut self, files: &Files<'a>) -> Result<(), sqlx::Error> {
        let rows: Vec<_> = files
            .iter()
            .filter(|it| it.1.what.slot.is_some())
            .map(|it| row![it.1.what.slot.as_deref(), &it.1.what.input_hash])
            .collect();
        for (approval, envelope, slot) in self.conn.all::<(String, String, String)>(sql::EXPIRE_CALL, &rows).await? {
            let at = files.iter().find(|it| it.1.what.slot.as_deref() == Some(&slot)).map_or(0, |it| it.0);
            self.note(at, &envelope, EventKind::ApprovalExpired { approval_id: (&*approval).into() })?;
            self.tell(Topic::ApprovalExpired, Some(&approval));
        }
        Ok(())
    }

    /// A new request withdraws the one it replaces, in the same transaction (APR-7); if that has ended, nothing is filed.
    async fn supersede(&mut self, files: &mut Files<'a>) -> Result<(), sqlx::Error> {
        let old: Vec<_> = files.iter().filter_map(|(i, it)| Some((*i, it.what.supersedes.as_ref()?))).collect();
        let withdrawn =
            self.withdraw_each(&old.iter().map(|it| (it.0, it.1, "superseded")).collect::<Vec<_>>()).await?;
        let ended: Vec<_> = old.into_iter().filter(|it| !withdrawn.contains(&**it.1)).collect();
        if ended.is_empty() {
            return Ok(());
        }
        let states = self.approval_states(&ended.iter().map(|it| it.1).collect::<Vec<_>>()).await?;
        for (i, approval) in &ended {
            let (state, by) = states.get(&***approval).cloned().unwrap_or((ApprovalState::Withdrawn, None));
            self.answer(*i, Answer::Filed(Filed::SupersededEnded { state, consumed_by: by.map(Into::into) }));
        }
        files.retain(|it| ended.iter().all(|ended| ended.0 != it.0));
        Ok(())
    }

    async fn open_of_calls(&mut self, files: &Files<'a>) -> Result<HashMap<(String, String), Open>, sqlx::Error> {
        let calls = files.iter().filter_map(|(_, it)| Some((it.what.slot.as_deref()?, &it.what.input_hash)));
        let calls: Vec<_> = calls.collect();
        let rows: Vec<_> = calls.iter().map(|it| row![it.0, it.1]).collect();
        let found = self.conn.all::<(String, String, String, i64)>(sql::OPEN_OF_CALL, &rows).await?;
        let hash = |slot: &str| calls.iter().find(|it| it.0 == slot).map_or(String::new(), |it| it.1.clone());
        let open = found.into_iter().map(|(slot, id, binding_hash, expires_at)| {
            let hash = hash(&slot);
            ((slot, hash), Open { approval: id.into(), binding_hash, expires_at })
        });
        Ok(open.collect())
    }

    /// Refuses what would be too many (APR-11). One that replaces another adds none.
    async fn limit(&mut self, files: &mut Files<'a>) -> Result<(), sqlx::Error> {
        let askers: HashSet<(&str, &str)> =
            files.iter().map(|it| (&*it.1.what.tenant, &*it.1.what.requester)).collect();
        let rows: Vec<_> = askers.iter().map(|it| row![it.0, it.1]).collect();
        let counts = self.conn.all::<(String, String, i64, i64)>(sql::PENDING_COUNTS, &rows).await?;
        let mut of_tenant: HashMap<&str, i64> = counts.iter().map(|it| (&*it.0, it.3)).collect();
        let mut of_requester: HashMap<_, i64> = counts.iter().map(|it| ((&*it.0, &*it.1), it.2)).collect();
        files.retain(|(i, it)| {
            let File { tenant, requester, supersedes, .. } = &it.what;
            let all = of_tenant.entry(tenant).or_default();
            let own = of_requester.entry((tenant, requester)).or_default();
            let admitted = supersedes.is_some() || (*own < MAX_PENDING_OF_REQUESTER && *all < MAX_PENDING_OF_TENANT);
            if admitted {
                *own += 1;
                *all += 1;
            } else {
                self.answer(*i, Answer::Filed(Filed::RateLimited));
            }
            admitted
        });
        Ok(())
    }

    /// Answers a filing and completes its event. False, for `retain`: there is nothing more to do.
    fn filed(&mut self, at: usize, it: &'a Ready<File>, open: &Open, existing: bool) -> bool {
        let expires_at = Timestamp(open.expires_at);
        self.keep_all(at, it);
        self.events.push((at, requested(&it.what.requested, open, existing).into_row()));
        if !existing {
            self.tell(Topic::ApprovalRequested, Some(&open.approval));
        }
        self.answer(at, Answer::Filed(Filed::Filed { approval: open.approval.clone(), existing, expires_at }));
        false
    }

    pub(super) async fn withdraw(&mut self) -> Result<(), sqlx::Error> {
        let mut list: Vec<(usize, &Ready<Withdraw>)> =
            self.pick(|op| if let Op::Withdraw(it) = op { Some(it) } else { None });
        if list.is_empty() {
            return Ok(());
        }
        list.sort_by(|one, two| one.1.what.approval.cmp(&two.1.what.approval));
        let rows: Vec<_> = list.iter().map(|(i, it)| (*i, &it.what.approval, it.what.by)).collect();
        let withdrawn = self.withdraw_each(&rows).await?;
        let states = self.approval_states(&rows.iter().map(|it| it.1).collect::<Vec<_>>()).await?;
        for (i, it) in list {
            let decided = match states.get(&*it.what.approval) {
                None => Decided::Missing,
                Some((state, _)) if withdrawn.contains(&*it.what.approval) => {
                    self.keep(i, &it.events);
                    Decided::Done { state: *state }
                }
                Some((state, _)) => Decided::Refused { state: *state },
            };
            self.answer(i, Answer::Decided(decided));
        }
        Ok(())
    }

    /// position, approval, by whom -> the approvals that were open until now.
    async fn withdraw_each(&mut self, list: &[(usize, &ApprovalId, &str)]) -> Result<HashSet<String>, sqlx::Error> {
        let rows: Vec<_> = list.iter().map(|it| row![it.1, it.2]).collect();
        let mut withdrawn = HashSet::new();
        for (approval, envelope) in self.conn.all::<(String, String)>(sql::WITHDRAW, &rows).await? {
            let (at, by) = list.iter().find(|it| **it.1 == *approval).map_or((0, ""), |it| (it.0, it.2));
            let kind = EventKind::ApprovalWithdrawn { approval_id: (&*approval).into(), by: by.into() };
            self.note(at, &envelope, kind)?;
            self.tell(Topic::ApprovalWithdrawn, Some(&approval));
            withdrawn.insert(approval);
        }
        Ok(withdrawn)
    }
}

fn call(it: &Ready<File>) -> (String, String) {
    (it.what.slot.clone().unwrap_or_default(), it.what.input_hash.clone())
}

fn requirements(file: &File) -> String {
    serde_json::to_string(&file.requirements).unwrap_or_default() // plain data: cannot fail
}

fn file_row<'b>(it: &'b Ready<File>, requirements: &'b String) -> super::super::db::Row<'b> {
    let File { approval, tenant, capability, requester, slot, input_hash, given_hash, .. } = &it.what;
    let File { binding, binding_hash, input, life_us, .. } = &it.what;
    let is_inline = matches!(it.what.requested.kind, EventKind::ApprovalRequested { suspended: false, .. });
    let left_alone = if is_inline { INLINE_US } else { 0 };
    row![
        approval,
        tenant,
        capability,
        requester,
        slot.as_deref(),
        input_hash,
        given_hash,
        binding,
        binding_hash,
        input,
        requirements,
        &it.envelope,
        *life_us,
        left_alone,
    ]
}

/// The event of the filing, with what only the transaction knows.
fn requested(event: &AuditEvent, open: &Open, found: bool) -> AuditEvent {
    let mut event = event.clone();
    if let EventKind::ApprovalRequested { approval_id, binding_hash, expires_at, existing, .. } = &mut event.kind {
        approval_id.clone_from(&open.approval);
        binding_hash.clone_from(&open.binding_hash);
        *expires_at = Timestamp(open.expires_at);
        *existing = found;
    }
    event
}
