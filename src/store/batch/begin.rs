//! Beginning executions: keys, then approvals, then taking back what was claimed without one (IDM-4, APR-10).

use std::collections::{HashMap, HashSet};

use super::super::db::row;
use super::super::job::{Answer, Op, Ready};
use super::super::op::{Began, Begin};
use super::super::sql;
use super::Batch;
use crate::ApprovalId;
use crate::approval::ApprovalState;
use crate::audit::{EventKind, Executed};
use crate::topic::Topic;

type Begins<'a> = Vec<(usize, &'a Ready<Begin>)>;

/// The fence of each execution that holds its key so far.
type Fences = HashMap<String, i64>;

/// slot, id, instance, gives way, may be taken over.
type HolderRow = (String, String, String, bool, bool);

impl<'a> Batch<'a> {
    pub(super) async fn begin(&mut self) -> Result<(), sqlx::Error> {
        let mut begins = self.pick(|op| if let Op::Begin(it) = op { Some(&**it) } else { None });
        if begins.is_empty() {
            return Ok(());
        }
        begins.sort_by(|one, two| one.1.what.slot.cmp(&two.1.what.slot)); // one lock order for keys
        let mut fences = Fences::new();
        self.claim(&begins, &mut fences).await?;
        let losers: Begins<'a> = begins.iter().filter(|(_, it)| !holds(&fences, it)).copied().collect();
        self.look_up(&losers, &mut fences).await?;
        self.consume(&begins, &mut fences).await?;
        begins.retain(|(_, it)| holds(&fences, it));
        self.withdraw_others(&begins).await?;
        for (i, it) in begins {
            let fence = fences.get(&*it.what.execution).copied().unwrap_or(1);
            self.answer(i, Answer::Began(Began::Begun { fence }));
            self.keep_all(i, it);
        }
        Ok(())
    }

    async fn claim(&mut self, begins: &[(usize, &Ready<Begin>)], fences: &mut Fences) -> Result<(), sqlx::Error> {
        let rows: Vec<_> = begins.iter().map(|(_, it)| claim_row(it)).collect();
        fences.extend(self.conn.all::<(String, i64)>(sql::CLAIM, &rows).await?);
        Ok(())
    }

    /// Whoever lost a key looks at the row that holds it; one that gives way is superseded, a lapsed one ended first.
    async fn look_up(&mut self, losers: &Begins<'a>, fences: &mut Fences) -> Result<(), sqlx::Error> {
        let mut holders = self.holders(losers).await?;
        if self.take_over(losers, &holders).await? {
            holders = self.holders(losers).await?;
        }
        let old: Vec<_> = holders.values().filter(|it| it.3).map(|it| row![&it.1]).collect();
        let freed: HashSet<String> =
            self.conn.all::<(String,)>(sql::SUPERSEDE, &old).await?.into_iter().map(|it| it.0).collect();
        let again: Begins<'a> =
            losers.iter().filter(|(_, it)| slot(it).is_some_and(|it| freed.contains(it))).copied().collect();
        self.claim(&again, fences).await?;
        let (taken, rest): (Begins<'a>, Begins<'a>) =
            losers.iter().partition(|(_, it)| slot(it).and_then(|it| holders.get(it)).is_some_and(|it| !it.3));
        for (i, _) in taken {
            self.answer(i, Answer::Began(Began::KeyTaken));
        }
        let rest: Begins<'a> = rest.into_iter().filter(|(_, it)| !holds(fences, it)).collect();
        self.refuse_used(&rest).await // else: vanished, or of an instance that is dead
    }

    /// Whoever lost an approval: an execution names it already, even if the approval's own row was set back (APR-10).
    async fn refuse_used(&mut self, losers: &Begins<'a>) -> Result<(), sqlx::Error> {
        let rows: Vec<_> = losers.iter().filter_map(|(_, it)| Some(row![it.what.approval.as_ref()?])).collect();
        let used = self.conn.all::<(String, String)>(sql::BEGUN_WITH, &rows).await?;
        let used: HashMap<String, String> = used.into_iter().collect();
        for (i, it) in losers {
            if let Some(by) = it.what.approval.as_ref().and_then(|it| used.get(&**it)) {
                let (state, consumed_by) = (Some(ApprovalState::Consumed), Some(by.clone().into()));
                self.answer(*i, Answer::Began(Began::ApprovalRefused { state, consumed_by }));
            }
        }
        Ok(())
    }

    async fn holders(&mut self, losers: &Begins<'a>) -> Result<HashMap<String, HolderRow>, sqlx::Error> {
        let slots: Vec<_> = losers.iter().filter_map(|(_, it)| slot(it)).map(|it| row![it]).collect();
        let rows = self.conn.all::<HolderRow>(sql::HOLDERS, &slots).await?;
        Ok(rows.into_iter().map(|it| (it.0.clone(), it)).collect())
    }

    /// Ends what a lapsed process left behind and may be run again, then and now; in the same transaction (EXE-3).
    async fn take_over(
        &mut self,
        losers: &Begins<'a>,
        holders: &HashMap<String, HolderRow>,
    ) -> Result<bool, sqlx::Error> {
        let holder =
            |it: &Ready<Begin>| slot(it).filter(|_| it.what.retake).and_then(|it| holders.get(it)).filter(|it| it.4);
        let victims: Vec<_> = losers.iter().filter_map(|(i, it)| Some((*i, holder(it)?))).collect();
        if victims.is_empty() {
            return Ok(false);
        }
        let own = self.own;
        let rows: Vec<_> = victims.iter().map(|(_, it)| row![&it.2, own]).collect();
        self.conn.run(sql::BURY, &rows).await?;
        let rows: Vec<_> = victims.iter().map(|(_, it)| row![&it.1]).collect();
        for (execution, envelope, _) in self.conn.all::<(String, String, String)>(sql::END_OF_DEAD, &rows).await? {
            let at = victims.iter().find(|(_, it)| it.1 == execution).map_or(0, |(i, _)| *i);
            let kind = EventKind::Interrupted { executed: Executed::Unknown, by: "takeover".into() };
            self.note(at, &envelope, kind)?;
        }
        Ok(true)
    }

    /// Consumes what is presented; whoever is refused gives its key back (APR-10).
    async fn consume(&mut self, begins: &Begins<'a>, fences: &mut Fences) -> Result<(), sqlx::Error> {
        let mut presented: Vec<_> =
            begins.iter().filter_map(|(i, it)| Some((*i, it.what.approval.as_ref()?, &it.what.execution))).collect();
        presented.retain(|it| fences.contains_key(&**it.2));
        presented.sort_by(|one, two| one.1.cmp(two.1));
        let rows: Vec<_> = presented.iter().map(|it| row![it.1, it.2]).collect();
        let spent: HashSet<String> =
            self.conn.all::<(String,)>(sql::CONSUME, &rows).await?.into_iter().map(|it| it.0).collect();
        presented.retain(|it| !spent.contains(&**it.2));
        if presented.is_empty() {
            return Ok(());
        }
        let rows: Vec<_> = presented.iter().map(|it| row![it.2]).collect();
        self.conn.run(sql::UNCLAIM, &rows).await?;
        let ids: Vec<&ApprovalId> = presented.iter().map(|it| it.1).collect();
        let states = self.approval_states(&ids).await?;
        for (i, approval, execution) in presented {
            fences.remove(&**execution);
            let (state, consumed_by) = states.get(&**approval).cloned().unzip();
            let consumed_by = consumed_by.flatten().map(Into::into);
            self.answer(i, Answer::Began(Began::ApprovalRefused { state, consumed_by }));
        }
        Ok(())
    }

    /// Beginning a call ends every other request for it, whether or not one was presented (APR-6).
    async fn withdraw_others(&mut self, begun: &Begins<'a>) -> Result<(), sqlx::Error> {
        let keyed: Vec<_> = begun.iter().filter_map(|(i, it)| Some((*i, slot(it)?, &it.what))).collect();
        let rows: Vec<_> = keyed.iter().map(|it| row![it.1, &it.2.input_hash, &it.2.given_hash]).collect();
        for (approval, envelope, slot) in self.conn.all::<(String, String, String)>(sql::WITHDRAW_OTHERS, &rows).await?
        {
            let at = keyed.iter().find(|it| it.1 == slot).map_or(0, |it| it.0);
            let kind = EventKind::ApprovalWithdrawn { approval_id: (&*approval).into(), by: "superseded".into() };
            self.note(at, &envelope, kind)?;
            self.tell(Topic::ApprovalWithdrawn, Some(&approval));
        }
        Ok(())
    }

    /// Each approval's state now, and who consumed it.
    pub(super) async fn approval_states(
        &mut self,
        ids: &[&ApprovalId],
    ) -> Result<HashMap<String, (ApprovalState, Option<String>)>, sqlx::Error> {
        let rows: Vec<_> = ids.iter().map(|it| row![*it]).collect();
        let rows = self.conn.all::<(String, String, Option<String>)>(sql::APPROVAL_STATES, &rows).await?;
        Ok(rows.into_iter().filter_map(|it| Some((it.0, (ApprovalState::parse(&it.1)?, it.2)))).collect())
    }
}

fn slot(it: &Ready<Begin>) -> Option<&str> {
    it.what.slot.as_deref()
}

fn holds(fences: &Fences, it: &Ready<Begin>) -> bool {
    fences.contains_key(&*it.what.execution)
}

fn claim_row(it: &Ready<Begin>) -> super::super::db::Row<'_> {
    let Begin { execution, tenant, capability, requester, slot, input_hash, given_hash, .. } = &it.what;
    let Begin { instance, retake, ttl_us, approval, input, agent, .. } = &it.what;
    row![
        execution,
        tenant,
        capability,
        requester,
        slot.as_deref(),
        input_hash,
        given_hash,
        instance,
        *retake,
        *ttl_us,
        approval.as_deref(),
        input,
        agent,
        &it.envelope,
    ]
}
