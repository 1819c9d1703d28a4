//! `policy rollback`: a set that was active before is it again.

use super::super::exit::Side;
use super::super::failure::Failure;
use super::super::open::Session;
use super::super::screen::Answer;
use super::args::Rollback;
use super::publish::{LACK, answer};

pub(super) async fn run(args: &Rollback) -> Result<Answer, Failure> {
    let session = Session::follow(&args.records.database(&LACK)?).await?;
    let changed = session.policies(&args.who)?.rollback(&args.hash).await;
    session.close().await;
    answer(changed, Side::Database)
}
