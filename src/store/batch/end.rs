//! Ends: the first one writes the terminal event; whoever comes later settles an unknown outcome, and says whether it
//! did (EXE-3).

use std::collections::{HashMap, HashSet};

use super::super::db::row;
use super::super::job::{Answer, Ending, Op, Ready};
use super::super::op::{End, Finish, Reconcile, Settled};
use super::super::sql;
use super::Batch;
use crate::ExecutionId;
use crate::audit::{EventKind, Executed, ReconciledBy, ReconciledTo};
use crate::topic::Topic;

/// How an execution stands.
struct Standing {
    instance: String,
    state: String,
    envelope: String,
}

impl<'a> Batch<'a> {
    pub(super) async fn finish(&mut self) -> Result<(), sqlx::Error> {
        let mut list: Vec<(usize, &'a Ending)> =
            self.pick(|op| if let Op::Finish(it) = op { Some(&**it) } else { None });
        if list.is_empty() {
            return Ok(());
        }
        list.sort_by(|one, two| one.1.finish.what.execution.cmp(&two.1.finish.what.execution));
        self.skip_stored(&mut list).await?;
        let rows: Vec<_> = list.iter().map(|(_, it)| finish_row(&it.finish.what)).collect();
        let ended: HashSet<String> =
            self.conn.all::<(String,)>(sql::FINISH, &rows).await?.into_iter().map(|it| it.0).collect();
        let (first, late): (Vec<_>, Vec<_>) =
            list.into_iter().partition(|it| ended.contains(&*it.1.finish.what.execution));
        for (i, it) in &first {
            self.keep(*i, &it.finish.events);
            if it.finish.events.last().is_some_and(|it| it.terminal) {
                self.tell(ended_as(it.finish.what.end), None);
            }
            self.answer(*i, Answer::Settled(Settled { applied: true, late: false }));
        }
        let settled = self.finish_late(&late).await?;
        let ended = first.iter().chain(late.iter().filter(|it| settled.contains(&*it.1.finish.what.execution)));
        let back: Vec<_> = ended.filter(|it| it.1.unbegun).map(|it| row![&it.1.finish.what.execution]).collect();
        self.conn.run(sql::GIVE_BACK, &back).await?;
        self.conn.run(sql::FORGET_APPROVAL, &back).await
    }

    /// Whatever an earlier, uncertain COMMIT did store is not stored again (EXE-8).
    async fn skip_stored(&mut self, list: &mut Vec<(usize, &'a Ending)>) -> Result<(), sqlx::Error> {
        let uncertain = list.iter().filter(|it| it.1.uncertain).map(|it| &it.1.finish);
        let rows: Vec<_> = uncertain
            .flat_map(|it| {
                let own = it.events.first().map(|event| row![&it.what.execution, &event.id]);
                own.into_iter().chain([row![&it.what.execution, &it.spare]])
            })
            .collect();
        let stored: HashSet<String> =
            self.conn.all::<(String,)>(sql::EVENTS_KNOWN, &rows).await?.into_iter().map(|it| it.0).collect();
        list.retain(|(i, it)| {
            let known = it.uncertain && stored.contains(&*it.finish.what.execution);
            if known {
                self.answer(*i, Answer::Settled(Settled { applied: true, late: false }));
            }
            !known
        });
        Ok(())
    }

    /// The owner comes after the sweep or a takeover (EXE-3). One that never began at all has nothing to end.
    async fn finish_late(&mut self, late: &[(usize, &'a Ending)]) -> Result<HashSet<String>, sqlx::Error> {
        let known = late.iter().filter(|it| it.1.finish.what.end != End::Unknown);
        let rows = known.map(|(_, it)| {
            let Finish { execution, end, outcome, .. } = &it.finish.what;
            row![execution, end.as_str(), outcome.as_deref(), true]
        });
        let rows: Vec<_> = rows.collect();
        let settled: HashSet<String> =
            self.conn.all::<(String,)>(sql::RECONCILE, &rows).await?.into_iter().map(|it| it.0).collect();
        let standing = self.standing(late.iter().map(|it| &it.1.finish.what.execution)).await?;
        for (i, it) in late {
            let Finish { execution, end, .. } = &it.finish.what;
            let applied = settled.contains(&**execution);
            let stands = standing.get(&**execution);
            self.answer(*i, Answer::Settled(Settled { applied, late: stands.is_some() }));
            let (Some(stands), Some(to)) = (stands, reconciled_to(*end)) else { continue };
            let attempts: Vec<_> = it.finish.events.iter().filter(|event| !event.terminal).cloned().collect();
            self.keep(*i, &attempts);
            let kind = EventKind::Reconciled { by: ReconciledBy::LateFinish, to, applied };
            self.note_as(*i, it.finish.spare.clone(), &stands.envelope, kind)?;
            if applied {
                self.tell(Topic::ExecutionFinished, None);
            }
        }
        Ok(settled)
    }

    /// A hook or an operator says what became of an unknown outcome (EXE-7). What still runs is refused without a word
    /// in the log; what was settled before is not, for it may be a double effect.
    pub(super) async fn reconcile(&mut self) -> Result<(), sqlx::Error> {
        let list: Vec<(usize, &'a Ready<Reconcile>)> =
            self.pick(|op| if let Op::Reconcile(it) = op { Some(&**it) } else { None });
        if list.is_empty() {
            return Ok(());
        }
        let mut standing = self.standing(list.iter().map(|it| &it.1.what.execution)).await?;
        if self.end_lapsed(&list, &standing).await? {
            standing = self.standing(list.iter().map(|it| &it.1.what.execution)).await?;
        }
        let rows = list.iter().map(|(_, it)| {
            let Reconcile { execution, end, outcome, by, .. } = &it.what;
            row![execution, end.as_str(), outcome.as_deref(), *by == ReconciledBy::LateFinish]
        });
        let rows: Vec<_> = rows.collect();
        let settled: HashSet<String> =
            self.conn.all::<(String,)>(sql::RECONCILE, &rows).await?.into_iter().map(|it| it.0).collect();
        for (i, it) in list {
            let applied = settled.contains(&*it.what.execution);
            let stands = standing.get(&*it.what.execution);
            let late = applied || stands.is_some_and(|it| it.state != "running" && it.state != "unknown");
            self.answer(i, Answer::Settled(Settled { applied, late }));
            let (true, Some(stands), Some(to)) = (late, stands, reconciled_to(it.what.end)) else { continue };
            let kind = EventKind::Reconciled { by: it.what.by, to, applied };
            self.note_as(i, it.spare.clone(), &stands.envelope, kind)?;
            if applied {
                self.tell(Topic::ExecutionFinished, None);
                self.keep(i, &it.events);
            }
        }
        Ok(())
    }

    /// What somebody asks to settle and whose process is gone is ended first, without waiting for a sweep.
    async fn end_lapsed(
        &mut self,
        list: &[(usize, &'a Ready<Reconcile>)],
        standing: &HashMap<String, Standing>,
    ) -> Result<bool, sqlx::Error> {
        let running = |id: &ExecutionId| standing.get(&**id).filter(|it| it.state == "running");
        let running: Vec<_> =
            list.iter().filter_map(|(i, it)| Some((*i, &it.what.execution, running(&it.what.execution)?))).collect();
        if running.is_empty() {
            return Ok(false);
        }
        let own = self.own;
        let rows: Vec<_> = running.iter().map(|it| row![&it.2.instance, own]).collect();
        self.conn.run(sql::BURY, &rows).await?;
        let rows: Vec<_> = running.iter().map(|it| row![it.1]).collect();
        for (execution, envelope, state) in self.conn.all::<(String, String, String)>(sql::END_OF_DEAD, &rows).await? {
            let at = running.iter().find(|it| **it.1 == *execution).map_or(0, |it| it.0);
            self.interrupted(at, &envelope, &state)?;
        }
        Ok(true)
    }

    /// The sweep ended what a process left behind.
    pub(super) fn interrupted(&mut self, at: usize, envelope: &str, state: &str) -> Result<(), sqlx::Error> {
        self.note(at, envelope, EventKind::Interrupted { executed: Executed::Unknown, by: "sweep".into() })?;
        if state == End::Unknown.as_str() {
            self.tell(Topic::ExecutionUnknown, None);
        }
        Ok(())
    }

    async fn standing(
        &mut self,
        ids: impl Iterator<Item = &ExecutionId>,
    ) -> Result<HashMap<String, Standing>, sqlx::Error> {
        let rows: Vec<_> = ids.map(|it| row![it]).collect();
        let found = self.conn.all::<(String, String, String, String)>(sql::EXECUTION_STATES, &rows).await?;
        Ok(found
            .into_iter()
            .map(|(id, instance, state, envelope)| (id, Standing { instance, state, envelope }))
            .collect())
    }
}

fn finish_row(it: &Finish) -> super::super::db::Row<'_> {
    row![&it.execution, it.end.as_str(), it.outcome.as_deref()]
}

fn ended_as(end: End) -> Topic {
    match end {
        End::Completed | End::Failed | End::Free => Topic::ExecutionFinished,
        End::Unknown => Topic::ExecutionUnknown,
    }
}

fn reconciled_to(end: End) -> Option<ReconciledTo> {
    match end {
        End::Completed => Some(ReconciledTo::Completed),
        End::Failed => Some(ReconciledTo::Failed),
        End::Free => Some(ReconciledTo::NotExecuted),
        End::Unknown => None,
    }
}
