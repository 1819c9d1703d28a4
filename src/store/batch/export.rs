//! Cursors of exports, and comments that are erased.

use std::collections::BTreeMap;

use super::super::db::row;
use super::super::job::{Answer, Op};
use super::super::op::{Erase, Export};
use super::super::sql;
use super::Batch;
use crate::ApprovalId;
use crate::audit::EventKind;

impl Batch<'_> {
    pub(super) async fn export(&mut self) -> Result<(), sqlx::Error> {
        for (at, it) in self.pick(|op| if let Op::Export(it) = op { Some(it) } else { None }) {
            let done = match it {
                Export::Begin { name, format, sink, seq } => {
                    self.conn.run(sql::PUT_CURSOR, &[row![name, *format, sink, *seq]]).await?;
                    true
                }
                Export::Move { name, from, to, sink } => {
                    let rows = [row![name, *from, *to, sink]];
                    !self.conn.all::<(String,)>(sql::MOVE_CURSOR, &rows).await?.is_empty()
                }
                Export::Stop { name, from, failure } => {
                    let rows = [row![name, *from, failure]];
                    !self.conn.all::<(String,)>(sql::STOP_CURSOR, &rows).await?.is_empty()
                }
                Export::Drop { name } => !self.conn.all::<(String,)>(sql::DROP_CURSOR, &[row![name]]).await?.is_empty(),
            };
            self.answer(at, Answer::Exported(done));
        }
        Ok(())
    }

    /// The text goes, its salt with it; what stays is the digest in the event, and another event that says so.
    pub(super) async fn erase(&mut self) -> Result<(), sqlx::Error> {
        for (at, Erase { comments, by }) in self.pick(|op| if let Op::Erase(it) = op { Some(it) } else { None }) {
            let rows: Vec<_> = comments.iter().map(|(approval, person)| row![approval, person]).collect();
            let gone = self.conn.all::<(String,)>(sql::ERASE_COMMENTS, &rows).await?;
            let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
            for (approval,) in &gone {
                *counts.entry(approval).or_default() += 1;
            }
            let rows: Vec<_> = counts.keys().map(|it| row![*it]).collect();
            let mut envelopes = self.conn.all::<(String, String)>(sql::ENVELOPES, &rows).await?;
            envelopes.sort();
            for (approval, envelope) in envelopes {
                let count = counts.get(&*approval).copied().unwrap_or_default();
                let approval_id = ApprovalId::from(approval);
                self.note(at, &envelope, EventKind::CommentsErased { approval_id, by: by.clone(), count })?;
            }
            self.answer(at, Answer::Erased(gone.len()));
        }
        Ok(())
    }
}
