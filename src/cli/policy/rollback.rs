//! `policy rollback`: a set that was active before is it again.

use super::super::failure::Failure;
use super::super::open::Session;
use super::super::screen::Answer;
use super::args::Rollback;
use super::publish::answer;

pub(super) async fn run(args: &Rollback) -> Result<Answer, Failure> {
    let session = Session::follow(&args.records.db).await?;
    let changed = session.policies(&args.who)?.rollback(&args.hash).await;
    session.close().await;
    answer(changed)
}
