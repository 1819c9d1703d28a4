//! Deciding approvals, and seeing them. Deciding runs nothing.

mod listing;
mod standing;

use std::sync::Arc;
use std::time::Duration;

pub use self::listing::ApprovalPage;
#[cfg(feature = "http")]
pub(crate) use self::listing::PAGE;
pub(crate) use self::standing::{Standing, standing};
use crate::actor::Identity;
use crate::approval::{ApprovalState, ApprovalView, Binding, Decided, Verdict, binding_hash};
use crate::audit::{ApproverRef, AuditEvent, Envelope, EventKind, Requirement, hex};
use crate::canonical;
use crate::id::random;
use crate::outcome::{Detail, Error, ErrorCode};
use crate::pipeline::{Core, POLICY_TRIES};
use crate::policies::Loaded;
use crate::policy::{ManageAction, Managed, Management, PolicySet};
use crate::rejection::Rejection;
use crate::schema::Refused;
use crate::stage::approval::code_of;
use crate::store::op::{ApprovalRecord, Comment, Decide, Decided as Answer, Withdraw};
use crate::store::{Store, StoreError};
use crate::trail::{hashed, is_locator};
use sha2::{Digest as _, Sha256};

/// The most bytes of a comment.
const MAX_COMMENT: usize = 4096;

/// How long filing a request may take: its time to live counts from when it is stored.
const FILING: Duration = Duration::from_mins(1);

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
    async fn find(&self, policies: &Loaded, id: &str) -> Result<ApprovalRecord, Rejection> {
        actor_of(&self.identity)?;
        self.core.check_active(policies)?;
        let record = self.load(id).await?;
        if self.may_see(policies, &record) { Ok(record) } else { Err(not_found()) }
    }

    async fn load(&self, id: &str) -> Result<ApprovalRecord, Rejection> {
        let record = if is_locator(id) { self.core.store.approval(&id.into()).await? } else { None };
        record.filter(|it| *it.tenant == *self.identity.tenant).ok_or_else(not_found)
    }

    fn may_see(&self, policies: &Loaded, record: &ApprovalRecord) -> bool {
        let Some(binding) = bound(record) else { return false };
        let mine = standing(ManageAction::ReadApprovals, &self.identity, &binding.requester) == Standing::Granted;
        let may = |action, requirement| self.may(policies, action, &binding, requirement) == Ok(());
        let decidable = || binding.requirements.iter().any(|it| may(ManageAction::Approve, Some(&*it.kind)));
        mine || may(ManageAction::ReadApprovals, None) || decidable()
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

impl Core {
    /// The set that decides one management action: the active one, as far as this process has heard of it. Whether it
    /// could be had is for [`Self::check_active`] to say.
    pub(crate) async fn ruling(&self) -> Arc<Loaded> {
        let mut policies = self.policies.follow(&self.registry, &self.store).await;
        for _ in 1..POLICY_TRIES {
            if self.check_active(&policies).is_ok() {
                break;
            }
            policies = self.policies.follow(&self.registry, &self.store).await;
        }
        policies
    }

    /// A process that cannot have the active set allows nothing by another one. One that only looks has its own.
    pub(crate) fn check_active(&self, policies: &Loaded) -> Result<(), Rejection> {
        let is_behind = policies.is_ruling() && policies.generation < self.store.generation();
        if is_behind { Err(Rejection::PolicyUnstable) } else { Ok(()) }
    }

    /// Whether this policy set allows a management action; else the code that says why not.
    pub(crate) fn may(
        &self,
        set: &PolicySet,
        action: ManageAction,
        managed: &Managed<'_>,
        identity: &Identity,
    ) -> Result<(), ErrorCode> {
        match set.manage(action, managed, identity, self.clock.now()) {
            Management::Allow => Ok(()),
            Management::Deny => Err(ErrorCode::PolicyDenied),
            Management::Failed(errors) => {
                tracing::error!(action = action.as_str(), ?errors, "policies could not be evaluated");
                Err(ErrorCode::PolicyFailed)
            }
        }
    }

    /// An event that names the set that answered.
    pub(crate) fn management_event(&self, set: &PolicySet, identity: &Identity, kind: EventKind) -> AuditEvent {
        let policy_hash = Some(set.hash().to_string());
        let envelope = Envelope { policy_hash, ..Envelope::of(identity) };
        AuditEvent { id: self.ids.event(), at: self.clock.now(), kind, envelope }
    }

    /// An approval that was listed, and so came without its input.
    pub(crate) async fn with_input(&self, record: ApprovalRecord) -> Result<ApprovalRecord, StoreError> {
        let input = self.store.approval(&record.id).await?.and_then(|it| it.input);
        Ok(ApprovalRecord { input, ..record })
    }

    /// An approval in display form. `None` as the viewer is the operator, who has the database anyway.
    pub(crate) fn view(&self, record: &ApprovalRecord, viewer: Option<&Identity>) -> Result<ApprovalView, Rejection> {
        let binding = bound(record).ok_or(Rejection::approval(ErrorCode::ApprovalInputMismatch))?;
        let requester = binding.requester.actor().ok_or(Rejection::Internal("an approval without a requester"))?;
        let mine = viewer.is_none_or(|it| it.actor().map(crate::Actor::party) == Some(requester.party()));
        let capability = self.registry.get(&binding.capability_id);
        let input = opened(record, &self.store).ok().and_then(|it| serde_json::from_str(&it).ok());
        Ok(ApprovalView {
            id: record.id.clone(),
            status: record.state,
            side_effect: binding.side_effect,
            risk: binding.risk,
            tenant: record.tenant.clone(),
            surface: binding.requester.surface,
            requester: ApproverRef { id: requester.id.clone(), kind: requester.kind, issuer: requester.issuer.clone() },
            client: binding.requester.client.clone().map(|it| it.0),
            // Whoever is not registered any more has no display rules: then nothing is shown.
            input: capability.zip(input).map(|(capability, input)| capability.redact_for_display(input)),
            input_hash: binding.input_hash,
            reasons: binding.reasons,
            requirements: binding.requirements,
            decisions: record.decisions.clone(),
            requested_at: binding.requested_at,
            expires_at: record.expires_at,
            execution_id: record.consumed_by.clone().filter(|_| mine),
            capability_id: binding.capability_id,
        })
    }
}

/// What the stored request says, if it still parses. Not yet verified.
pub(crate) fn bound(record: &ApprovalRecord) -> Option<Binding> {
    serde_json::from_str(&record.binding).ok()
}

/// Recomputes what a decision binds: the request, the columns beside it, and the input (INV-5).
pub(crate) fn verified(record: &ApprovalRecord, store: &Store) -> Result<Binding, Rejection> {
    let mismatch = || Rejection::approval(ErrorCode::ApprovalInputMismatch);
    let binding = bound(record).ok_or_else(mismatch)?;
    let life = u64::try_from(binding.life_us).unwrap_or(0);
    let sound = store.evidence(&record.tenant, &binding_hash(&record.binding)) == record.binding_hash
        && binding.approval_id == record.id
        && *binding.requester.tenant == *record.tenant
        && *binding.capability_id == *record.capability
        && binding.requirements == record.requirements
        && binding.input_hash == record.input_hash
        && record.expires_at <= binding.requested_at.plus(Duration::from_micros(life)).plus(FILING);
    let input = opened(record, store)?;
    let hash = canonical::input_hash(&binding.capability_id, &input);
    if sound && *hash == *binding.input_hash { Ok(binding) } else { Err(mismatch()) }
}

/// The stored input. A seal that does not open is a mismatch (EXE-6).
pub(crate) fn opened(record: &ApprovalRecord, store: &Store) -> Result<String, Rejection> {
    let mismatch = || Rejection::approval(ErrorCode::ApprovalInputMismatch);
    let sealed = record.input.as_deref().ok_or_else(mismatch)?;
    let plain = store.open_sealed(&record.id, sealed).map_err(|_| mismatch())?;
    String::from_utf8(plain).map_err(|_| mismatch())
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
