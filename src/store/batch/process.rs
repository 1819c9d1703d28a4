//! What concerns the process rather than a call: leases, the sweep, hooks to ask.

use std::collections::HashSet;

use super::super::db::{Cell, row};
use super::super::job::{Answer, Op};
use super::super::op::Unresolved;
use super::super::record::ExecutionRow;
use super::super::sql;
use super::Batch;
use crate::audit::EventKind;
use crate::clock::micros;
use crate::topic::Topic;

/// How long the input of an ended approval is kept: 24 h (EXE-6).
const KEEP_INPUT_US: i64 = 24 * 3_600_000_000;

/// The most rows that one sweep takes on of a kind.
const SWEPT: usize = 256;

impl Batch<'_> {
    pub(super) async fn instances(&mut self) -> Result<(), sqlx::Error> {
        let renewals =
            self.pick(|op| if let Op::Renew { instance, enrol, .. } = op { Some((instance, *enrol)) } else { None });
        if !renewals.is_empty() {
            let new = renewals
                .iter()
                .filter_map(|(_, (id, enrol))| enrol.map(|it| row![*id, micros(it.lease), micros(it.wait)]));
            self.conn.run(sql::ENROL, &new.collect::<Vec<_>>()).await?;
            let rows: Vec<_> = renewals.iter().map(|(_, (id, _))| row![*id]).collect();
            let held: HashSet<String> =
                self.conn.all::<(String,)>(sql::RENEW, &rows).await?.into_iter().map(|it| it.0).collect();
            let generation = self.conn.all::<(i64,)>(sql::GENERATION, &[]).await?.first().map_or(0, |it| it.0);
            for (i, (id, _)) in renewals {
                self.answer(i, Answer::Renewed { held: held.contains(id), generation });
            }
        }
        for (i, keep_us) in self.pick(|op| if let Op::Sweep { keep_us } = op { Some(*keep_us) } else { None }) {
            let more = self.sweep(i, keep_us).await?;
            self.answer(i, Answer::Swept { more });
        }
        for (i, instance) in self.pick(|op| if let Op::Retire { instance } = op { Some(instance) } else { None }) {
            self.conn.run(sql::RETIRE, &[row![instance]]).await?;
            self.answer(i, Answer::Retired);
        }
        Ok(())
    }

    /// Declares lapsed processes dead and ends what they left; ends lapsed requests; erases old inputs and decision
    /// records (EXE-2, EXE-6); warns of what expires soon.
    async fn sweep(&mut self, at: usize, keep_us: i64) -> Result<bool, sqlx::Error> {
        let own = self.own;
        self.conn.run(sql::BURY, &[row![None::<&str>, own]]).await?;
        let ended = self.conn.all::<(String, String, String)>(sql::SWEEP, &[]).await?;
        for (_, envelope, state) in &ended {
            self.interrupted(at, envelope, state)?;
        }
        self.conn.run(sql::PURGE, &[]).await?;
        let expired = self.conn.all::<(String, String)>(sql::EXPIRE_LAPSED, &[]).await?;
        for (approval, envelope) in &expired {
            self.note(at, envelope, EventKind::ApprovalExpired { approval_id: (&**approval).into() })?;
            self.tell(Topic::ApprovalExpired, Some(approval));
        }
        let erased = self.conn.all::<(String,)>(sql::ERASE_INPUTS, &[row![KEEP_INPUT_US]]).await?;
        let forgotten = self.conn.all::<(String,)>(sql::ERASE_SEEN, &[row![keep_us]]).await?;
        let told = self.sweep_outbox().await?;
        Ok([ended.len(), expired.len(), erased.len(), forgotten.len(), told].into_iter().any(|it| it >= SWEPT))
    }

    pub(super) async fn unresolved(&mut self) -> Result<(), sqlx::Error> {
        let asked = self.pick(|op| {
            if let Op::Unresolved { capabilities, limit } = op { Some((capabilities, *limit)) } else { None }
        });
        for (i, (capabilities, limit)) in asked {
            let rows: Vec<_> = capabilities.iter().map(|it| row![it, limit]).collect();
            let claimed = self.conn.all::<(String,)>(sql::CLAIM_UNKNOWN, &rows).await?;
            let rows: Vec<Vec<Cell<'_>>> = claimed.iter().map(|it| row![&it.0]).collect();
            let rows = self.conn.all::<ExecutionRow>(sql::EXECUTIONS, &rows).await?;
            let unresolved = rows.into_iter().map(|it| Ok(Unresolved { tries: it.tries - 1, execution: it.record()? }));
            let mut unresolved: Vec<_> = unresolved.collect::<Result<_, sqlx::Error>>()?;
            unresolved.sort_by(|one, two| one.execution.id.cmp(&two.execution.id));
            self.answer(i, Answer::Unresolved(unresolved));
        }
        Ok(())
    }
}
