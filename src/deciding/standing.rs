//! What holds of a management action before any policy is asked. [`super::Approvals`], [`crate::Executions`], a resume and
//! the workbench ask here, so that their answers cannot differ.

use crate::actor::{Actor, ActorKind, Identity};
use crate::policy::ManageAction;

/// How somebody stands to what somebody asked for, whatever the policies say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Policies say.
    Asked,
    /// It is their own, so no policy is asked.
    Granted,
    /// Nobody knows of another tenant's requests.
    Foreign,
    /// Only the requester resumes: to everybody else there is nothing to resume (APR-8).
    NotRequester,
    /// Nobody decides or settles what they asked for themselves (INV-4, APR-3).
    Own,
    /// People decide, not agents (APR-4).
    NoPerson,
}

/// How `identity` stands to what `requester` asked for.
pub(crate) fn standing(action: ManageAction, identity: &Identity, requester: &Identity) -> Standing {
    use ManageAction::{Approve, ReadApprovals, Reconcile, Reject, Resume, Withdraw};
    if identity.tenant != requester.tenant {
        return Standing::Foreign;
    }
    match action {
        Approve | Reject | Reconcile if is_requester(identity, requester) => Standing::Own,
        Approve | Reject if !is_person(identity) => Standing::NoPerson,
        ReadApprovals | Withdraw if is_own(identity, requester) => Standing::Granted,
        Resume if requester.is_same_caller(identity) => Standing::Granted,
        Resume => Standing::NotRequester,
        _ => Standing::Asked,
    }
}

/// Whether it is the very party that asked.
fn is_own(identity: &Identity, requester: &Identity) -> bool {
    identity.actor().map(Actor::party).is_some_and(|it| Some(it) == requester.actor().map(Actor::party))
}

/// Every actor of either delegation chain counts (APR-3).
fn is_requester(identity: &Identity, requester: &Identity) -> bool {
    let parties = |it: &Identity| it.actor().map(|it| it.parties().collect::<Vec<_>>()).unwrap_or_default();
    let asked = parties(requester);
    parties(identity).iter().any(|it| asked.iter().any(|other| it.may_be(other)))
}

/// A person, and nobody acts in their name (APR-4).
fn is_person(identity: &Identity) -> bool {
    identity.actor().is_some_and(|it| it.kind == ActorKind::User && it.chain.is_empty())
}
