//! Deciding approvals, and seeing them. Deciding runs nothing.

mod listing;
mod ruling;
mod seeing;
mod standing;
mod stored;

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

pub use self::listing::ApprovalPage;
#[cfg(feature = "http")]
pub(crate) use self::listing::PAGE;
pub(crate) use self::standing::{Standing, standing};
pub(crate) use self::stored::{bound, opened, verified};
use crate::actor::Identity;
use crate::approval::{ApprovalState, Binding, Decided, Verdict};
use crate::audit::{ApproverRef, AuditEvent, EventKind, Requirement, hex};
use crate::id::random;
use crate::outcome::{Detail, Error, ErrorCode};
use crate::pipeline::{Core, POLICY_TRIES};
use crate::policies::Loaded;
use crate::policy::{ManageAction, Managed};
use crate::rejection::Rejection;
use crate::schema::Refused;
use crate::stage::approval::code_of;
use crate::store::op::{ApprovalRecord, Comment, Decide, Decided as Answer, Withdraw};
use crate::trail::{hashed, is_locator};

/// The most bytes of a comment.
const MAX_COMMENT: usize = 4096;

/// Approvals as one party sees them.
#[derive(Clone)]
pub struct Approvals {
    pub(crate) core: Arc<Core>,
    pub(crate) identity: Identity,
    /// How decisions come in, and who vouches for the decider, for the record.
    pub(crate) via: String,
    pub(crate) issuer: Option<String>,
    /// Whether the credential is marked as a person's (APR-4). In process, the actor's kind says enough.
    pub(crate) person: bool,
}

impl Approvals {
    /// Agrees, for one of the types that the request asks for.
    ///
    /// # Errors
    /// `APPROVAL_NOT_FOUND`, `APPROVAL_SELF_APPROVAL`, `APPROVER_NOT_ELIGIBLE`, or the state that the approval is in if it
    /// is not pending any more. Repeating one's own same decision returns the stored result.
    pub async fn approve(&self, id: &str, kind: &str) -> Result<Decided, Error> {
        self.decide(id, kind, Verdict::Approve, None).await
    }

    /// Refuses, finally: one rejection by anyone who may decide ends the request.
    ///
    /// # Errors
    /// As for [`Self::approve`].
    pub async fn reject(&self, id: &str, kind: &str) -> Result<Decided, Error> {
        self.decide(id, kind, Verdict::Reject, None).await
    }

    /// Decides, with a comment of at most 4,096 bytes for people to read. The comment can be erased later without
    /// touching the trail, which has a salted digest of it.
    ///
    /// # Errors
    /// As for [`Self::approve`]; `INPUT_INVALID` for a comment that is too long.
    pub async fn decide(
        &self,
        id: &str,
        kind: &str,
        verdict: Verdict,
        comment: Option<&str>,
    ) -> Result<Decided, Error> {
        self.decide_type(id, Some(kind), verdict, comment).await
    }

    /// As [`Self::decide`], for the one type that is outstanding.
    ///
    /// # Errors
    /// As for [`Self::decide`]; `INPUT_INVALID` if several are.
    pub async fn decide_outstanding(
        &self,
        id: &str,
        verdict: Verdict,
        comment: Option<&str>,
    ) -> Result<Decided, Error> {
        self.decide_type(id, None, verdict, comment).await
    }

    async fn decide_type(
        &self,
        id: &str,
        kind: Option<&str>,
        verdict: Verdict,
        comment: Option<&str>,
    ) -> Result<Decided, Error> {
        let mut attempts = Attempts::default();
        loop {
            let policies = self.core.ruling().await;
            let done = self.try_decide(&policies, id, kind, verdict, comment).await;
            if attempts.is_last(&done) {
                return self.recorded(&policies, action_of(verdict), id, done).await;
            }
        }
    }

    /// Takes a request back: its requester, or whoever policy lets withdraw.
    ///
    /// # Errors
    /// `APPROVAL_NOT_FOUND`, or the state that the approval is in if it is not open any more.
    pub async fn withdraw(&self, id: &str) -> Result<Decided, Error> {
        let mut attempts = Attempts::default();
        loop {
            let policies = self.core.ruling().await;
            let done = self.try_withdraw(&policies, id).await;
            if attempts.is_last(&done) {
                return self.recorded(&policies, ManageAction::Withdraw, id, done).await;
            }
        }
    }

    async fn load(&self, id: &str) -> Result<ApprovalRecord, Rejection> {
        let record = if is_locator(id) { self.core.store.approval(&id.into()).await? } else { None };
        record.filter(|it| *it.tenant == *self.identity.tenant).ok_or_else(not_found)
    }

    fn may(
        &self,
        policies: &Loaded,
        action: ManageAction,
        binding: &Binding,
        requirement: Option<&str>,
    ) -> Result<(), ErrorCode> {
        let managed = Managed::Approval {
            id: &binding.approval_id,
            capability: &binding.capability_id,
            requester: &binding.requester,
            risk: binding.risk,
            side_effect: binding.side_effect,
            tenant: binding.requester.tenant_name(),
            requirement,
        };
        self.core.may(&policies.set, action, &managed, &self.identity)
    }

    /// In this order: known, not the requester, a person, allowed, still what was bound; then the store decides.
    async fn try_decide(
        &self,
        policies: &Loaded,
        id: &str,
        kind: Option<&str>,
        verdict: Verdict,
        comment: Option<&str>,
    ) -> Result<Decided, Rejection> {
        let actor = actor_of(&self.identity)?.clone();
        self.core.check_active(policies)?;
        let record = self.load(id).await?;
        let binding = bound(&record).ok_or(Rejection::approval(ErrorCode::ApprovalInputMismatch))?;
        if standing(action_of(verdict), &self.identity, &binding.requester) == Standing::Own {
            return Err(Rejection::approval(ErrorCode::ApprovalSelfApproval)); // INV-4, APR-3
        }
        let kind = match kind {
            Some(kind) => kind.to_owned(),
            None => self.outstanding(policies, &record, &binding, verdict)?,
        };
        self.check_eligible(policies, &record, &binding, &kind, verdict)?;
        verified(&record, &self.core.store)?;
        let decision = Decide {
            approval: record.id.clone(),
            person: actor.party().folded(),
            approver: ApproverRef { id: actor.id.clone(), kind: actor.kind, issuer: self.issuer_of(&actor) },
            kind,
            verdict,
            via: self.via.clone(),
            generation: policies.deciding(),
            comment: comment.map(salted).transpose()?,
        };
        answered(record.id, self.core.store.decide(decision).await?)
    }

    /// The type that a decision without one is about. Whoever may decide none of them learns nothing of them.
    fn outstanding(
        &self,
        policies: &Loaded,
        record: &ApprovalRecord,
        binding: &Binding,
        verdict: Verdict,
    ) -> Result<String, Rejection> {
        let agreed =
            |kind: &str| record.decisions.iter().filter(|it| it.verdict == Verdict::Approve && it.kind == kind).count();
        let is_open = |it: &&Requirement| agreed(&it.kind) < usize::try_from(it.quorum).unwrap_or(usize::MAX);
        let mut open = binding.requirements.iter().filter(is_open);
        let (first, second) = (open.next().or_else(|| binding.requirements.first()), open.next());
        let Some(first) = first else { return Err(Rejection::Internal("an approval that requires nothing")) };
        let eligible = |it: &Requirement| self.check_eligible(policies, record, binding, &it.kind, verdict).is_ok();
        if second.is_none() || !binding.requirements.iter().any(eligible) {
            return Ok(first.kind.clone()); // the check that follows has its own reasons to refuse
        }
        let detail = Detail::Input { path: String::new(), keyword: "required".into(), nearest: Some("type".into()) };
        let refused = Refused { outward: vec![detail], paths: vec!["/type".into()], well_formed: true };
        Err(Rejection::InputInvalid(refused))
    }

    fn issuer_of(&self, actor: &crate::Actor) -> Option<String> {
        actor.issuer.clone().or_else(|| self.issuer.clone())
    }

    /// People decide, not agents (APR-4); and only for a type that policy lets them decide (APR-2).
    fn check_eligible(
        &self,
        policies: &Loaded,
        record: &ApprovalRecord,
        binding: &Binding,
        kind: &str,
        verdict: Verdict,
    ) -> Result<(), Rejection> {
        let action = action_of(verdict);
        let person = self.person && standing(action, &self.identity, &binding.requester) != Standing::NoPerson;
        let asked = binding.requirements.iter().any(|it| it.kind == kind);
        let allowed =
            if person { self.may(policies, action, binding, Some(kind)) } else { Err(ErrorCode::ApproverNotEligible) };
        match allowed {
            Ok(()) if asked => Ok(()),
            Ok(()) => Err(Rejection::InputInvalid(other_type(binding))),
            Err(ErrorCode::PolicyFailed) => Err(Rejection::approval(ErrorCode::PolicyFailed)),
            Err(_) if self.may_see(policies, record) => Err(Rejection::approval(ErrorCode::ApproverNotEligible)),
            Err(_) => Err(not_found()),
        }
    }

    async fn try_withdraw(&self, policies: &Loaded, id: &str) -> Result<Decided, Rejection> {
        actor_of(&self.identity)?;
        self.core.check_active(policies)?;
        let record = self.load(id).await?;
        let binding = bound(&record).ok_or_else(not_found)?;
        let mine = standing(ManageAction::Withdraw, &self.identity, &binding.requester) == Standing::Granted;
        let (by, events) = if mine {
            ("requester", Vec::new())
        } else if self.may(policies, ManageAction::Withdraw, &binding, None) == Ok(()) {
            let done = EventKind::ManagementDone {
                action: ManageAction::Withdraw.as_str().into(),
                count: None,
                approval_id: Some(id.to_owned()),
                execution_id: None,
            };
            ("operator", vec![self.event(policies, done)])
        } else if self.may_see(policies, &record) {
            return Err(Rejection::approval(ErrorCode::ApproverNotEligible));
        } else {
            return Err(not_found());
        };
        let withdraw = Withdraw { approval: record.id.clone(), by, generation: policies.deciding(), events };
        answered(record.id, self.core.store.withdraw(withdraw).await?)
    }

    /// A refusal is on record too; if it cannot be, that is the answer.
    async fn recorded<T>(
        &self,
        policies: &Loaded,
        action: ManageAction,
        id: &str,
        done: Result<T, Rejection>,
    ) -> Result<T, Error> {
        let rejection = match done {
            Ok(done) => return Ok(done),
            Err(rejection) => rejection,
        };
        tracing::info!(action = action.as_str(), code = %rejection.code(), cause = &rejection as &dyn std::error::Error, "refused");
        if let Rejection::Audit(_) = rejection {
            return Err(rejection.face()); // it may have been done: a denial on record would say that it was not (EXE-8)
        }
        let denied = EventKind::ManagementDenied {
            action: action.as_str().into(),
            approval_id: Some(if is_locator(id) { id.to_owned() } else { hashed(id) }),
            execution_id: None,
            code: rejection.code(),
        };
        match self.core.store.append(vec![self.event(policies, denied)]).await {
            Ok(()) => Err(rejection.face()),
            Err(error) => Err(Rejection::from(error).face()),
        }
    }

    fn event(&self, policies: &Loaded, kind: EventKind) -> AuditEvent {
        self.core.management_event(&policies.set, &self.identity, kind)
    }
}

/// How often something was tried under the set that allowed it, and found another one active when it was to be stored.
#[derive(Default)]
pub(crate) struct Attempts(u32);

impl Attempts {
    /// Whether that is what came of it. Whoever keeps publishing meanwhile is not waited for.
    pub(crate) fn is_last<T>(&mut self, done: &Result<T, Rejection>) -> bool {
        self.0 += 1;
        self.0 >= POLICY_TRIES || !matches!(done, Err(Rejection::PolicyUnstable))
    }
}

fn action_of(verdict: Verdict) -> ManageAction {
    match verdict {
        Verdict::Approve => ManageAction::Approve,
        Verdict::Reject => ManageAction::Reject,
    }
}

pub(crate) fn actor_of(identity: &Identity) -> Result<&crate::Actor, Rejection> {
    identity.actor().filter(|it| it.is_well_formed()).ok_or(Rejection::Unauthenticated)
}

fn answered(id: crate::ApprovalId, answer: Answer) -> Result<Decided, Rejection> {
    match answer {
        Answer::Done { state } => Ok(Decided { id, status: state }),
        // Still pending, so it was this person who decided otherwise before.
        Answer::Refused { state: ApprovalState::Pending } => {
            Err(Rejection::approval(ErrorCode::ApprovalAlreadyDecided))
        }
        Answer::Refused { state } => Err(Rejection::approval(code_of(state))),
        Answer::Missing => Err(not_found()),
        Answer::PolicyChanged => Err(Rejection::PolicyUnstable),
    }
}

fn not_found() -> Rejection {
    Rejection::approval(ErrorCode::ApprovalNotFound)
}

fn other_type(binding: &Binding) -> Refused {
    let nearest = binding.requirements.first().map(|it| it.kind.clone());
    let detail = Detail::Input { path: "/type".into(), keyword: "enum".into(), nearest };
    Refused { outward: vec![detail], paths: vec!["/type".into()], well_formed: true }
}

fn salted(text: &str) -> Result<Comment, Rejection> {
    if text.len() > MAX_COMMENT || text.contains('\0') {
        let detail = Detail::Input { path: "/comment".into(), keyword: "maxLength".into(), nearest: None };
        let paths = vec!["/comment".into()];
        return Err(Rejection::InputInvalid(Refused { outward: vec![detail], paths, well_formed: true }));
    }
    let salt = hex(&random::<16>());
    let digest = format!("sha256:{}", hex(&Sha256::digest(format!("{salt}{text}").as_bytes())));
    Ok(Comment { text: text.to_owned(), salt, digest })
}
