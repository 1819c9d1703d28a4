//! An application that decides approvals inline, while the call waits.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::approval::{ApprovalState, ApprovalView, Verdict};
use crate::caught::caught_async;
use crate::deciding::Approvals;
use crate::pipeline::Core;
use crate::stage::approval::Filed;
use crate::{Actor, Identity};

/// How long an inline approver may take before the call suspends.
const PATIENCE: Duration = Duration::from_secs(50);

/// Asks people, in the application's own way, while the call waits: at most 50 s, then it suspends (APR-4).
///
/// The request is filed first, and the answer goes through the same checks as any other decision.
#[async_trait]
pub trait ApprovalHandler: Send + Sync + 'static {
    /// Asked again while types are outstanding. `None` lets the call wait for a decision from elsewhere.
    async fn ask(&self, request: &ApprovalView) -> Option<InlineDecision>;
}

/// What a person said.
#[derive(Clone, Debug)]
pub struct InlineDecision {
    /// Who. Never the requester.
    pub actor: Actor,
    /// The type that is decided.
    pub kind: String,
    /// Approve or reject.
    pub verdict: Verdict,
    /// For people to read.
    pub comment: Option<String>,
}

/// The application's handler behind the engine's checks.
pub(crate) struct InlineApprover(pub(crate) Arc<dyn ApprovalHandler>);

impl InlineApprover {
    /// Asks until everything is decided, nobody answers, or the time is up. What came of it is in the store.
    pub(crate) async fn ask(&self, core: &Arc<Core>, filed: &Filed) {
        tokio::select! {
            () = self.ask_all(core, filed) => {}
            () = core.clock.sleep(PATIENCE) => {} // a lapsed wait decides nothing (APR-11)
        }
    }

    async fn ask_all(&self, core: &Arc<Core>, filed: &Filed) {
        let mut decided = None;
        loop {
            let Ok(Some(record)) = core.store.approval(filed.id()).await else { return };
            let Ok(view) = core.view(&record, None) else { return };
            // An answer that was given before adds nothing: then the call waits for somebody else.
            if view.status != ApprovalState::Pending || decided == Some(view.decisions.len()) {
                return;
            }
            decided = Some(view.decisions.len());
            let tenant = view.tenant.clone();
            let answer = caught_async(self.0.ask(&view)).await;
            let Ok(Some(InlineDecision { actor, kind, verdict, comment })) = answer else { return };
            let approvals = Approvals {
                core: Arc::clone(core),
                identity: Identity::new(actor).tenant(tenant),
                via: "inline".into(),
                issuer: None,
                person: true,
            };
            if let Err(error) = approvals.decide(filed.id(), &kind, verdict, comment.as_deref()).await {
                tracing::warn!(code = %error.code, "the inline approver's answer is no decision");
                return;
            }
        }
    }
}
