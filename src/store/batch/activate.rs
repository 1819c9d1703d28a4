//! The active policy set: one row that every process follows, and copies of what it names.

use super::super::db::row;
use super::super::job::{Activating, Answer, Op};
use super::super::op::{Activate, Activated, Active};
use super::super::sql;
use super::Batch;
use crate::audit::EventKind;

impl Batch<'_> {
    /// Another set becomes the active one; the same one stays, without an event of loading.
    pub(super) async fn activate(&mut self) -> Result<(), sqlx::Error> {
        for (at, it) in self.pick(|op| if let Op::Activate(it) = op { Some(&**it) } else { None }) {
            let activated = self.activate_one(at, it).await?;
            self.answer(at, Answer::Activated(activated));
        }
        Ok(())
    }

    async fn activate_one(&mut self, at: usize, op: &Activating) -> Result<Activated, sqlx::Error> {
        let it = &op.activate.what;
        let head = self.conn.all::<(Option<String>, i64)>(sql::BEHIND_HEAD, &[]).await?;
        let (previous, generation) = head.into_iter().next().ok_or(sqlx::Error::RowNotFound)?;
        let overtaken = it.under.is_some_and(|under| under != generation);
        let gives_way =
            it.proposed && previous.as_ref() != Some(&it.hash) && self.gave_way(it, previous.as_ref()).await?;
        if overtaken || gives_way {
            return Ok(Activated::Kept(Active { hash: previous.unwrap_or_default(), generation }));
        }
        if it.proposed {
            self.conn.run(sql::PROPOSE, &[row![&it.said]]).await?;
        }
        let changed = previous.as_ref() != Some(&it.hash);
        let generation = generation + i64::from(changed);
        self.copy(it, &op.seal, generation).await?;
        if changed {
            self.conn.all::<(i64,)>(sql::ACTIVATE, &[row![&it.hash]]).await?;
            self.loaded(at, it, previous, generation);
        }
        self.keep(at, &op.activate.events);
        Ok(Activated::Done { generation, changed })
    }

    /// Whether these files were the last ones proposed, and what is active says something else.
    async fn gave_way(&mut self, it: &Activate, previous: Option<&String>) -> Result<bool, sqlx::Error> {
        let Some(previous) = previous else { return Ok(false) };
        let proposed = self.conn.all::<(String,)>(sql::PROPOSAL, &[]).await?;
        if proposed.first().is_none_or(|last| last.0 != it.said) {
            return Ok(false);
        }
        let says = self.conn.all::<(String,)>(sql::COPY_SAYS, &[row![previous]]).await?;
        Ok(says.first().is_some_and(|says| says.0 != it.said))
    }

    /// Once for each hash: what differs in layout and comments only is the same set.
    async fn copy(&mut self, it: &Activate, seal: &str, generation: i64) -> Result<(), sqlx::Error> {
        let hash = &it.hash;
        if self.conn.all::<(String,)>(sql::COPY_SAYS, &[row![hash]]).await?.is_empty() {
            self.conn.run(sql::INSERT_COPY, &[row![hash, &it.said, generation, seal]]).await?;
            let files: Vec<_> = it.files.iter().map(|(name, text)| row![hash, name, text]).collect();
            self.conn.run(sql::INSERT_COPIED, &files).await?;
        } else {
            self.conn.run(sql::RENEW_COPY, &[row![hash, generation]]).await?;
        }
        self.conn.run(sql::DROP_COPIES, &[]).await
    }

    fn loaded(&mut self, at: usize, it: &Activate, previous: Option<String>, now: i64) {
        let mut event = it.loaded.clone();
        if let EventKind::PolicyLoaded { previous_hash, generation, changes, .. } = &mut event.kind {
            if previous != it.compared {
                *changes = None;
            }
            *previous_hash = previous;
            *generation = Some(now);
        }
        self.events.push((at, event.into_row()));
    }
}
