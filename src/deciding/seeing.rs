//! Which approvals somebody sees.

use super::{Approvals, Standing, actor_of, bound, not_found, standing};
use crate::approval::ApprovalView;
use crate::outcome::Error;
use crate::policies::Loaded;
use crate::policy::ManageAction;
use crate::rejection::Rejection;
use crate::store::op::ApprovalRecord;

impl Approvals {
    /// Whether this party may follow what happens to approvals; which ones it sees is asked one by one.
    #[cfg(feature = "http")]
    pub(crate) async fn may_follow(&self) -> Result<(), Error> {
        let may = async {
            actor_of(&self.identity)?;
            let policies = self.core.ruling().await;
            self.core.check_active(&policies)
        };
        may.await.map_err(|it: Rejection| it.face())
    }

    /// One approval, if this party requested it or may decide it.
    ///
    /// # Errors
    /// `APPROVAL_NOT_FOUND`, whatever the reason.
    pub async fn show(&self, id: &str) -> Result<ApprovalView, Error> {
        let shown = async {
            let policies = self.core.ruling().await;
            let record = self.find(&policies, id).await?;
            self.core.view(&record, Some(&self.identity))
        };
        shown.await.map_err(|it| it.face())
    }

    /// The approval, if this party may know of it.
    pub(super) async fn find(&self, policies: &Loaded, id: &str) -> Result<ApprovalRecord, Rejection> {
        actor_of(&self.identity)?;
        self.core.check_active(policies)?;
        let record = self.load(id).await?;
        if self.may_see(policies, &record) { Ok(record) } else { Err(not_found()) }
    }

    pub(super) fn may_see(&self, policies: &Loaded, record: &ApprovalRecord) -> bool {
        let Some(binding) = bound(record) else { return false };
        let mine = standing(ManageAction::ReadApprovals, &self.identity, &binding.requester) == Standing::Granted;
        let may = |action, requirement| self.may(policies, action, &binding, requirement) == Ok(());
        let decidable = || binding.requirements.iter().any(|it| may(ManageAction::Approve, Some(&*it.kind)));
        mine || may(ManageAction::ReadApprovals, None) || decidable()
    }
}
