//! Operations as the writer queues them: checked, with their events hashed by the caller.

use std::time::Duration;

use super::StoreError;
use super::op::{
    Activate, Activated, Began, Begin, Decide, Decided, Detach, Detached, Erase, Export, File, Filed, Finish, Ledger,
    Reconcile, Seen, Settled, Unresolved, Withdraw,
};
use super::outbox::{Due, Laid, Outbox, Pick, Picked};
use super::seal::Key;
use crate::ExecutionId;
use crate::audit::{AuditEvent, Envelope, EventRow, in_order};
use crate::clock::Monotonic;

/// The most bytes that one text of an operation may have.
const MAX_TEXT: usize = 2 * 1024 * 1024;

/// An operation whose events are ready to be stored.
#[derive(Debug)]
pub(super) struct Ready<T> {
    pub(super) what: T,
    pub(super) events: Vec<EventRow>,
    pub(super) seen: Option<Box<SeenRow>>,
    /// Canonical text of the envelope that is stored with the row; empty if none is.
    pub(super) envelope: String,
    /// The id of an event that only the transaction can make: fixed before it, so that nothing is written twice.
    pub(super) spare: String,
}

impl<T> Ready<T> {
    pub(super) fn new(what: T, events: Vec<AuditEvent>) -> Self {
        Self { what, events: rows(events), seen: None, envelope: String::new(), spare: String::new() }
    }

    pub(super) fn with_envelope(mut self, envelope: &Envelope) -> Self {
        self.envelope = in_order(envelope);
        self
    }

    pub(super) fn with_seen(mut self, seen: Option<Box<SeenRow>>) -> Self {
        self.seen = seen;
        self
    }

    pub(super) fn with_spare(mut self, id: String) -> Self {
        self.spare = id;
        self
    }
}

/// What policies saw, sealed.
#[derive(Debug)]
pub(super) struct SeenRow {
    pub(super) execution: ExecutionId,
    pub(super) place: i64,
    pub(super) tenant: String,
    pub(super) capability: String,
    pub(super) policy_hash: String,
    pub(super) decided_at: i64,
    pub(super) sealed: String,
}

impl SeenRow {
    pub(super) fn new(seen: Seen, key: &Key) -> Self {
        let Seen { execution, place, tenant, capability, policy_hash, decided_at, facts } = seen;
        let sealed = key.seal(&Self::id(&execution, place), facts.as_bytes());
        Self { execution, place, tenant, capability, policy_hash, decided_at: decided_at.0, sealed }
    }

    /// What it is sealed for: no other row, and no other text of the same execution.
    pub(super) fn id(execution: &str, place: i64) -> String {
        format!("{execution}/decision/{place}")
    }
}

pub(super) fn rows(events: Vec<AuditEvent>) -> Vec<EventRow> {
    events.into_iter().map(AuditEvent::into_row).collect()
}

/// The end of an execution, and what the writer knows about it.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) finish: Ready<Finish>,
    /// It never started: an approval that it consumed is given back (EXE-8).
    pub(super) unbegun: bool,
    /// An earlier attempt may have been committed: look before writing (EXE-8).
    pub(super) uncertain: bool,
}

/// Another active set, with the seal of its copy.
#[derive(Debug)]
pub(super) struct Activating {
    pub(super) activate: Ready<Activate>,
    pub(super) seal: String,
}

#[derive(Debug)]
pub(super) enum Op {
    File(Box<Ready<File>>),
    Decide(Box<Decide>),
    Withdraw(Ready<Withdraw>),
    Begin(Box<Ready<Begin>>),
    Finish(Box<Ending>),
    Reconcile(Box<Ready<Reconcile>>),
    /// Events, and what policies saw if these tell what came of a decision.
    Append(Box<Ready<()>>),
    /// A read on record: the generation that it was decided under, and its whole trail.
    Read(Box<Ready<i64>>),
    Activate(Box<Activating>),
    /// Asks for the lease of this instance; `asked` when, by monotonic time.
    Renew {
        instance: String,
        enrol: Option<Enrol>,
        asked: Monotonic,
    },
    /// Looks after what is over: `keep_us` is how long decision records are kept.
    Sweep {
        keep_us: i64,
    },
    Unresolved {
        capabilities: Vec<String>,
        limit: i64,
    },
    /// Takes up approved requests (APR-8).
    Pick {
        of: Vec<Pick>,
        limit: i64,
        claim_us: i64,
    },
    /// Leaves one alone for a while.
    LayDown(Laid),
    /// What others are told of.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only the HTTP part tells others"))]
    Outbox(Outbox),
    Ledger(Box<Ledger>),
    /// How far an export is.
    #[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "asked by commands"))]
    Export(Export),
    /// Comments of approvers.
    #[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "asked by commands"))]
    Erase(Erase),
    /// What an archive has.
    #[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "asked by commands"))]
    Detach(Box<Ready<Detach>>),
    /// Deletes so many events of it.
    #[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "asked by commands"))]
    Purge {
        limit: i64,
    },
    /// Leaves in good order.
    Retire {
        instance: String,
    },
}

/// A lease to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Enrol {
    pub(super) lease: Duration,
    /// How long it declares nobody dead (EXE-2).
    pub(super) wait: Duration,
}

#[derive(Debug)]
pub(super) enum Answer {
    Filed(Filed),
    Decided(Decided),
    Began(Began),
    Settled(Settled),
    /// Allowed under a policy set that is not the active one any more.
    Unsettled,
    Appended,
    Read(bool),
    Activated(Activated),
    Renewed {
        held: bool,
        generation: i64,
    },
    Swept {
        more: bool,
    },
    Unresolved(Vec<Unresolved>),
    Picked(Vec<Picked>),
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only the HTTP part tells others"))]
    Due(Vec<Due>),
    /// How many.
    #[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "asked by commands"))]
    Letters(usize),
    Done,
    /// Whether the tree was as large as the operation says.
    Ledger(bool),
    /// Whether the cursor was where the operation says.
    #[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "asked by commands"))]
    Exported(bool),
    /// How many comments were there.
    #[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "asked by commands"))]
    Erased(usize),
    #[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "asked by commands"))]
    Detached(Detached),
    /// How many events are deleted.
    #[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "asked by commands"))]
    Purged(usize),
    Retired,
}

/// What two operations of one batch must not share.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(super) enum Resource<'a> {
    Slot(&'a str),
    Approval(&'a str),
    Execution(&'a str),
    Instance(&'a str),
}

impl Op {
    /// A decider is no resource: a person's two decisions meet only in one approval.
    pub(super) fn resources(&self) -> [Option<Resource<'_>>; 3] {
        use Resource::{Approval, Execution, Instance, Slot};
        match self {
            Self::File(it) => {
                let superseded = it.what.supersedes.as_deref().map(Approval);
                [it.what.slot.as_deref().map(Slot), Some(Approval(&it.what.approval)), superseded]
            }
            Self::Decide(it) => [Some(Approval(&it.approval)), None, None],
            Self::Withdraw(it) => [Some(Approval(&it.what.approval)), None, None],
            Self::Begin(it) => {
                let approval = it.what.approval.as_deref().map(Approval);
                [it.what.slot.as_deref().map(Slot), approval, Some(Execution(&it.what.execution))]
            }
            Self::Finish(it) => {
                let finish = &it.finish.what;
                [finish.slot.as_deref().map(Slot), Some(Execution(&finish.execution)), None]
            }
            Self::Reconcile(it) => [it.what.slot.as_deref().map(Slot), Some(Execution(&it.what.execution)), None],
            Self::Renew { instance, .. } => [Some(Instance(instance)), None, None],
            Self::LayDown(it) => [Some(Approval(&it.approval)), None, None],
            Self::Append(_)
            | Self::Read(_)
            | Self::Activate(_)
            | Self::Sweep { .. }
            | Self::Unresolved { .. }
            | Self::Pick { .. }
            | Self::Outbox(_)
            | Self::Ledger(_)
            | Self::Export(_)
            | Self::Erase(_)
            | Self::Detach(_)
            | Self::Purge { .. }
            | Self::Retire { .. } => [None, None, None],
        }
    }

    /// What touches rows that nobody can name beforehand has a batch of its own. Rare, all of them.
    pub(super) fn is_alone(&self) -> bool {
        match self {
            Self::Activate(_)
            | Self::Sweep { .. }
            | Self::Unresolved { .. }
            | Self::Pick { .. }
            | Self::Ledger(_)
            | Self::Export(_)
            | Self::Erase(_)
            | Self::Detach(_)
            | Self::Purge { .. }
            | Self::Retire { .. } => true,
            // What changes who is told of what must not meet what is told.
            Self::Outbox(it) => !matches!(it, Outbox::Claim { .. } | Outbox::Settle(_)),
            Self::File(_)
            | Self::Decide(_)
            | Self::Withdraw(_)
            | Self::Begin(_)
            | Self::Finish(_)
            | Self::Reconcile(_)
            | Self::Append(_)
            | Self::Read(_)
            | Self::Renew { .. }
            | Self::LayDown(_) => false,
        }
    }

    /// What must reach the store whatever the load, and goes first (EXE-9).
    pub(super) fn is_urgent(&self) -> bool {
        matches!(
            self,
            Self::Finish(_)
                | Self::Renew { .. }
                | Self::Sweep { .. }
                | Self::Reconcile(_)
                | Self::Ledger(_)
                | Self::Retire { .. }
        )
    }

    /// Whether nothing is lost if the caller is gone before it was sent.
    pub(super) fn may_be_dropped(&self) -> bool {
        matches!(self, Self::Begin(_) | Self::File(_) | Self::Read(_))
    }

    /// The generation of the policy set that this was decided under.
    pub(super) fn generation(&self) -> Option<i64> {
        match self {
            Self::Begin(it) => Some(it.what.generation),
            Self::Read(it) => Some(it.what),
            Self::Decide(it) => it.generation,
            Self::Withdraw(it) => it.what.generation,
            Self::Reconcile(it) => it.what.generation,
            _ => None,
        }
    }

    /// What it is told if that is not the active one any more.
    pub(super) fn stale(&self) -> Answer {
        match self {
            Self::Read(_) => Answer::Read(false),
            Self::Decide(_) | Self::Withdraw(_) => Answer::Decided(Decided::PolicyChanged),
            Self::Reconcile(_) => Answer::Unsettled,
            _ => Answer::Began(Began::PolicyChanged), // no other one names a generation
        }
    }

    /// Refuses texts that no database may be given, before they can fail a whole batch; and measures the rest.
    pub(super) fn check(&self) -> Result<usize, StoreError> {
        let mut bytes = 0;
        let mut problem = None;
        self.each_text(&mut |text| {
            bytes += text.len();
            if text.contains('\0') {
                problem = Some("a text contains NUL".to_owned());
            } else if text.len() > MAX_TEXT {
                problem = Some(format!("a text has {} bytes, more than {MAX_TEXT}", text.len()));
            }
        });
        problem.map_or(Ok(bytes), |it| Err(StoreError::Invalid(it)))
    }

    fn each_text(&self, look: &mut dyn FnMut(&str)) {
        match self {
            Self::File(it) => each_of_file(it, look),
            Self::Decide(it) => {
                let comment = it.comment.iter().flat_map(|it| [it.text.as_str(), &it.salt, &it.digest]);
                let issuer = it.approver.issuer.as_deref().unwrap_or_default();
                let texts: [&str; 6] = [&it.approval, &it.person, &it.kind, &it.via, &it.approver.id, issuer];
                texts.into_iter().chain(comment).for_each(look);
            }
            Self::Withdraw(it) => {
                look(&it.what.approval);
                each_row(&it.events, look);
            }
            Self::Begin(it) => each_of_begin(it, look),
            Self::Finish(it) => {
                look(&it.finish.what.execution);
                look(it.finish.what.outcome.as_deref().unwrap_or_default());
                each_row(&it.finish.events, look);
            }
            Self::Reconcile(it) => {
                look(&it.what.execution);
                look(it.what.outcome.as_deref().unwrap_or_default());
                each_row(&it.events, look);
            }
            Self::Append(it) => each_recorded(it, look),
            Self::Read(it) => each_recorded(it, look),
            Self::Activate(it) => each_of_activate(&it.activate, look),
            Self::Renew { instance, .. } | Self::Retire { instance } => look(instance),
            Self::Unresolved { capabilities, .. } => capabilities.iter().for_each(|it| look(it)),
            Self::Pick { of, .. } => {
                for it in of {
                    look(&it.capability);
                    look(&it.mark);
                }
            }
            Self::LayDown(it) => {
                look(&it.approval);
                look(it.refused_under.as_deref().unwrap_or_default());
            }
            Self::Outbox(it) => each_of_outbox(it, look),
            Self::Ledger(it) => it.each_text(look),
            Self::Export(it) => it.each_text(look),
            Self::Erase(it) => it.each_text(look),
            Self::Detach(it) => {
                look(&it.what.archive);
                look(&it.what.digest);
                each_row(&it.events, look);
            }
            Self::Sweep { .. } | Self::Purge { .. } => {}
        }
    }
}

fn each_of_file(it: &Ready<File>, look: &mut dyn FnMut(&str)) {
    let File { approval, execution, tenant, capability, requester, slot, input_hash, .. } = &it.what;
    let File { given_hash, binding, binding_hash, input, requirements, .. } = &it.what;
    let ids: [&str; 4] = [approval, execution, slot.as_deref().unwrap_or_default(), &it.envelope];
    let texts = [tenant, capability, requester, input_hash, given_hash, binding, binding_hash, input];
    ids.into_iter().for_each(&mut *look);
    texts.into_iter().chain(requirements.iter().map(|it| &it.kind)).for_each(|it| look(it));
    each_recorded(it, look);
}

fn each_of_begin(it: &Ready<Begin>, look: &mut dyn FnMut(&str)) {
    let Begin { execution, tenant, capability, requester, slot, input_hash, given_hash, .. } = &it.what;
    let Begin { instance, approval, input, agent, .. } = &it.what;
    let (slot, approval) = (slot.as_deref().unwrap_or_default(), approval.as_deref().unwrap_or_default());
    let ids: [&str; 4] = [execution, slot, approval, &it.envelope];
    let texts = [tenant, capability, requester, input_hash, given_hash, instance, input, agent];
    ids.into_iter().for_each(&mut *look);
    for text in texts {
        look(text);
    }
    each_recorded(it, look);
}

fn each_recorded<T>(it: &Ready<T>, look: &mut dyn FnMut(&str)) {
    if let Some(SeenRow { execution, tenant, capability, policy_hash, sealed, .. }) = it.seen.as_deref() {
        let texts: [&str; 5] = [execution, tenant, capability, policy_hash, sealed];
        texts.into_iter().for_each(&mut *look);
    }
    each_row(&it.events, look);
}

fn each_of_activate(it: &Ready<Activate>, look: &mut dyn FnMut(&str)) {
    let Activate { hash, files, said, .. } = &it.what;
    let files = files.iter().flat_map(|(name, text)| [name, text]);
    files.chain([hash, said]).for_each(|it| look(it));
    each_row(&it.events, look);
}

fn each_of_outbox(it: &Outbox, look: &mut dyn FnMut(&str)) {
    match it {
        Outbox::Subscribe(all) => {
            let texts = all.iter().flat_map(|it| [&it.name, &it.address].into_iter().chain(&it.tenants));
            texts.for_each(|it| look(it));
        }
        Outbox::Claim { webhook, .. } | Outbox::Disable { webhook } => look(webhook),
        Outbox::Settle(settled) => settled.iter().for_each(|it| {
            look(&it.id);
            look(&it.webhook);
        }),
        Outbox::Revive(it, _) | Outbox::Drop(it, _) => it.id.iter().chain(&it.webhook).for_each(|it| look(it)),
    }
}

fn each_row(events: &[EventRow], look: &mut dyn FnMut(&str)) {
    for event in events {
        let EventRow { id, tenant, execution, capability, actor, body, .. } = event;
        [id, tenant, body].into_iter().chain(execution).chain(capability).chain(actor).for_each(|it| look(it));
    }
}
