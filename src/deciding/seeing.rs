//! Which approvals somebody sees.

use super::{Approvals, Standing, actor_of, bound, not_found, standing};
use crate::approval::{ApprovalState, ApprovalView};
use crate::discovery::BUDGET;
use crate::outcome::Error;
use crate::policies::Loaded;
use crate::policy::ManageAction;
use crate::rejection::Rejection;
use crate::store::op::ApprovalRecord;

/// The most approvals that one listing returns.
const PAGE: usize = 200;

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

    /// What this party requested or may decide, in the order of filing, at most 200.
    ///
    /// # Errors
    /// UNAUTHENTICATED without an actor; `AUDIT_UNAVAILABLE` if the store is down; TIMEOUT if so many requests are
    /// others' that it takes longer than 30 s.
    pub async fn list(&self, status: Option<ApprovalState>) -> Result<Vec<ApprovalView>, Error> {
        self.try_list(status).await.map_err(|it| it.face())
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

    async fn try_list(&self, status: Option<ApprovalState>) -> Result<Vec<ApprovalView>, Rejection> {
        actor_of(&self.identity)?;
        let began = self.core.clock.monotonic();
        let policies = self.core.ruling().await;
        self.core.check_active(&policies)?;
        let (tenant, mut after, mut listed) = (self.identity.tenant_name(), None, Vec::new());
        loop {
            let page = self.core.store.approvals(tenant, status, None, after.as_ref(), PAGE).await?;
            after = page.last().map(|it| it.id.clone());
            let ends = page.len() < PAGE;
            for record in page {
                if self.core.clock.monotonic().since(began) > BUDGET {
                    return Err(Rejection::ListingTimeout);
                }
                if self.may_see(&policies, &record) {
                    let record = self.core.with_input(record).await?;
                    listed.extend(self.core.view(&record, Some(&self.identity)).ok());
                }
                if listed.len() == PAGE {
                    return Ok(listed);
                }
            }
            if ends {
                return Ok(listed);
            }
        }
    }

    /// The approval, if this party may know of it.
    async fn find(&self, policies: &Loaded, id: &str) -> Result<ApprovalRecord, Rejection> {
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
