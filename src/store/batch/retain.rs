//! Retention: how far the log may go, with the event that says so; and then the events, some at a time.

use super::super::db::row;
use super::super::job::{Answer, Op, Ready};
use super::super::op::{Detach, Detached, Need};
use super::super::sql;
use super::Batch;

impl Batch<'_> {
    pub(super) async fn retain(&mut self) -> Result<(), sqlx::Error> {
        for (at, it) in self.pick(|op| if let Op::Detach(it) = op { Some(&**it) } else { None }) {
            let detached = self.detach(at, it).await?;
            self.answer(at, Answer::Detached(detached));
        }
        for (at, limit) in self.pick(|op| if let Op::Purge { limit } = op { Some(*limit) } else { None }) {
            let gone = self.conn.all::<(String,)>(sql::PURGE_EVENTS, &[row![limit]]).await?;
            self.answer(at, Answer::Purged(gone.len()));
        }
        Ok(())
    }

    async fn detach(&mut self, at: usize, op: &Ready<Detach>) -> Result<Detached, sqlx::Error> {
        let Detach { after, through, archive, digest, .. } = &op.what;
        let last = self.conn.all::<(i64,)>(sql::DETACHED, &[]).await?;
        if last.first().is_none_or(|it| it.0 != *after) {
            return Ok(Detached::Overtaken);
        }
        let needed = self.conn.all::<(String, String, i64)>(sql::NEEDED, &[row![*through]]).await?;
        if !needed.is_empty() {
            return Ok(Detached::Needed(needed.into_iter().map(Need::from).collect()));
        }
        self.conn.run(sql::DETACH, &[row![*after, *through, archive, digest]]).await?;
        self.keep(at, &op.events);
        Ok(Detached::Done)
    }
}
