//! The Merkle tree over the log grows behind it, in transactions of its own.

use super::super::db::row;
use super::super::job::{Answer, Op};
use super::super::op::Ledger;
use super::super::sql;
use super::Batch;

impl Batch<'_> {
    pub(super) async fn ledger(&mut self) -> Result<(), sqlx::Error> {
        for (at, it) in self.pick(|op| if let Op::Ledger(it) = op { Some(&**it) } else { None }) {
            let done = match it {
                Ledger::Grow { from, to, tiles } => {
                    let grown = !self.conn.all::<(i64,)>(sql::GROW, &[row![*from, *to]]).await?.is_empty();
                    if grown {
                        let tiles = tiles.iter().map(|it| row![it.level, it.place, it.width, &it.hashes]);
                        self.conn.run(sql::PUT_TILES, &tiles.collect::<Vec<_>>()).await?;
                    }
                    grown
                }
                Ledger::Checkpoint { size, note } => {
                    self.conn.run(sql::PUT_CHECKPOINT, &[row![*size, note]]).await?;
                    true
                }
                Ledger::Anchored { anchor, size } => {
                    self.conn.run(sql::PUT_ANCHORED, &[row![anchor, *size]]).await?;
                    true
                }
            };
            self.answer(at, Answer::Ledger(done));
        }
        Ok(())
    }
}
