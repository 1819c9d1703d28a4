//! Approved requests that a worker takes up, and lays down again (APR-8).

use super::super::db::row;
use super::super::job::{Answer, Op};
use super::super::outbox::{Laid, Picked};
use super::super::sql;
use super::Batch;

impl Batch<'_> {
    pub(super) async fn take_up(&mut self) -> Result<(), sqlx::Error> {
        let asked = self
            .pick(|op| if let Op::Pick { of, limit, claim_us } = op { Some((of, *limit, *claim_us)) } else { None });
        for (at, (of, limit, claim_us)) in asked {
            let rows: Vec<_> = of.iter().map(|it| row![&it.capability, &it.mark, limit, claim_us]).collect();
            let picked = self.conn.all::<(String, String, String, i64)>(sql::PICK, &rows).await?;
            let picked = picked.into_iter().map(|(approval, capability, binding, pick)| Picked {
                approval: approval.into(),
                capability,
                binding,
                pick,
            });
            self.answer(at, Answer::Picked(picked.collect()));
        }
        let laid = self.pick(|op| if let Op::LayDown(it) = op { Some(it) } else { None });
        let rows = laid.iter().map(|(_, it)| {
            let Laid { approval, pick, wait_us, refused_under } = it;
            row![approval, *pick, *wait_us, refused_under.as_deref()]
        });
        self.conn.run(sql::LAY_DOWN, &rows.collect::<Vec<_>>()).await?;
        for (at, _) in laid {
            self.answer(at, Answer::Done);
        }
        Ok(())
    }
}
