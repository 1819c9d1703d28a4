//! Approvals page by page, in the order of filing.

use serde::{Deserialize, Serialize};

use super::{Approvals, actor_of};
use crate::ApprovalId;
use crate::approval::{ApprovalState, ApprovalView};
use crate::discovery::BUDGET;
use crate::outcome::{Detail, Error};
use crate::policies::Loaded;
use crate::rejection::Rejection;
use crate::schema::Refused;

/// The most approvals of one page.
pub(crate) const PAGE: usize = 200;

/// Some approvals as one party sees them, in the order of filing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalPage {
    /// Each as it stands now.
    pub approvals: Vec<ApprovalView>,
    /// What the next page begins behind. Absent at the end; there may be nothing behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<ApprovalId>,
}

impl Approvals {
    /// What this party requested or may decide, in the order of filing, the first 200. [`Self::page`] goes on behind them.
    ///
    /// # Errors
    /// As for [`Self::page`].
    pub async fn list(&self, status: Option<ApprovalState>) -> Result<Vec<ApprovalView>, Error> {
        self.page(status, None, PAGE).await.map(|it| it.approvals)
    }

    /// What this party requested or may decide, in the order of filing, behind one of them; 1 to 200.
    ///
    /// # Errors
    /// UNAUTHENTICATED without an actor; `INPUT_INVALID` if `after` is none that this party may know of; `AUDIT_UNAVAILABLE` if
    /// the store is down; TIMEOUT if so many requests are others' that it takes longer than 30 s.
    pub async fn page(
        &self,
        status: Option<ApprovalState>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ApprovalPage, Error> {
        self.try_page(status, after, limit.clamp(1, PAGE)).await.map_err(|it| it.face())
    }

    async fn try_page(
        &self,
        status: Option<ApprovalState>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ApprovalPage, Rejection> {
        actor_of(&self.identity)?;
        let began = self.core.clock.monotonic();
        let policies = self.core.ruling().await;
        self.core.check_active(&policies)?;
        let mut last = match after {
            Some(id) => Some(self.known(&policies, id).await?),
            None => None,
        };
        let mut approvals = Vec::new();
        loop {
            let records =
                self.core.store.approvals(self.identity.tenant_name(), status, None, last.as_ref(), PAGE).await?;
            last = records.last().map(|it| it.id.clone());
            let ends = records.len() < PAGE;
            for record in records {
                if self.core.clock.monotonic().since(began) > BUDGET {
                    return Err(Rejection::ListingTimeout);
                }
                if self.may_see(&policies, &record) {
                    let record = self.core.with_input(record).await?;
                    approvals.extend(self.core.view(&record, Some(&self.identity)).ok());
                }
                if approvals.len() == limit {
                    let next = approvals.last().map(|it| it.id.clone());
                    return Ok(ApprovalPage { approvals, next });
                }
            }
            if ends {
                return Ok(ApprovalPage { approvals, next: None });
            }
        }
    }

    /// One that is hidden looks as one that is not there (INV-7): neither is a place to go on from.
    async fn known(&self, policies: &Loaded, id: &str) -> Result<ApprovalId, Rejection> {
        match self.find(policies, id).await {
            Ok(record) => Ok(record.id),
            Err(Rejection::Approval { .. }) => {
                let detail = Detail::Input { path: "/after".into(), keyword: "enum".into(), nearest: None };
                let paths = vec!["/after".into()];
                Err(Rejection::InputInvalid(Refused { outward: vec![detail], paths, well_formed: true }))
            }
            Err(other) => Err(other),
        }
    }
}
