//! Management: approving, reading the trail, publishing policies. Governed by the same files, but every forbid there is
//! a plain deny, and nothing is lifted.

use std::collections::HashSet;

use cedar_policy::{Entities, Entity, EntityUid, Request, RestrictedExpression};

use super::PolicySet;
use super::compile::Managing;
use super::decide::references;
use super::request::{base, context, failure};
use super::value::{string, uid};
use crate::CapabilityId;
use crate::actor::Identity;
use crate::audit::{PolicyError, PolicyRef};
use crate::capability::{Risk, SideEffect};
use crate::clock::Timestamp;

/// Management actions (`Countersign::Action::".."`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManageAction {
    Approve,
    Reject,
    ReadApprovals,
    Withdraw,
    Resume,
    Reconcile,
    ReadAudit,
    ReadPolicies,
    PublishPolicies,
    ReadMetrics,
}

impl ManageAction {
    /// Every action, in the order of the declaration.
    pub(crate) const ALL: [Self; 10] = [
        Self::Approve,
        Self::Reject,
        Self::ReadApprovals,
        Self::Withdraw,
        Self::Resume,
        Self::Reconcile,
        Self::ReadAudit,
        Self::ReadPolicies,
        Self::PublishPolicies,
        Self::ReadMetrics,
    ];

    /// The name in policies and events.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::ReadApprovals => "read_approvals",
            Self::Withdraw => "withdraw",
            Self::Resume => "resume",
            Self::Reconcile => "reconcile",
            Self::ReadAudit => "read_audit",
            Self::ReadPolicies => "read_policies",
            Self::PublishPolicies => "publish_policies",
            Self::ReadMetrics => "read_metrics",
        }
    }

    /// Whether it decides one type of an approval (APR-2).
    pub(crate) fn decides(self) -> bool {
        matches!(self, Self::Approve | Self::Reject)
    }
}

/// What a management action acts on.
pub(crate) enum Managed<'a> {
    Engine,
    Approval {
        id: &'a str,
        capability: &'a CapabilityId,
        requester: &'a Identity,
        risk: Risk,
        side_effect: SideEffect,
        tenant: &'a str,
        /// For approve and reject: the one type that is decided.
        requirement: Option<&'a str>,
    },
}

/// The answer to a management action.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Management {
    Allow,
    Deny,
    Failed(Vec<PolicyError>),
}

impl PolicySet {
    pub(super) fn manage_or_fail(
        &self,
        action: ManageAction,
        managed: &Managed<'_>,
        identity: &Identity,
        now: Timestamp,
    ) -> Result<(Management, Vec<PolicyRef>), Vec<PolicyError>> {
        let managing = self.managing(action)?;
        let principal = self.principal_of(identity)?;
        let (resource, mut entities) = self.managed(managed)?;
        // the requester may be who asks now: then today's attributes count
        entities.retain(|it| it.uid() != principal.uid);
        entities.push(principal.entity());
        let mut pairs = base(identity, now);
        if action.decides() {
            let requirement = managed.requirement().ok_or_else(|| failure("request", "no_requirement"))?;
            pairs.push(("requirement".to_owned(), string(requirement)));
        }
        let action = managing.action.clone();
        let request = Request::new(principal.uid, action, resource, context(pairs)?, Some(&self.schema))
            .map_err(|_| failure("request", "not_in_schema"))?;
        let entities = managing
            .base
            .clone()
            .add_entities(entities, Some(&self.schema))
            .map_err(|_| failure("resource", "not_in_schema"))?;
        self.settle_management(managing, &request, &entities)
    }

    fn settle_management(
        &self,
        managing: &Managing,
        request: &Request,
        entities: &Entities,
    ) -> Result<(Management, Vec<PolicyRef>), Vec<PolicyError>> {
        let permits = self.evaluate(&managing.slice.permits, request, entities);
        let forbids = self.evaluate(&managing.slice.forbids, request, entities);
        let mut errors = permits.errors;
        errors.extend(forbids.errors);
        if !errors.is_empty() {
            PolicyError::sort(&mut errors);
            return Err(errors);
        }
        Ok(match (permits.satisfied.is_empty(), forbids.satisfied.is_empty()) {
            (false, true) => (Management::Allow, references(&permits.satisfied)),
            (_, false) | (true, true) => (Management::Deny, references(&forbids.satisfied)),
        })
    }

    pub(super) fn managing(&self, action: ManageAction) -> Result<&Managing, Vec<PolicyError>> {
        let place = ManageAction::ALL.iter().position(|it| *it == action);
        place.and_then(|it| self.managing.get(it)).ok_or_else(|| failure("action", "unknown"))
    }

    /// What is acted on, and the entities that it leads to.
    fn managed(&self, managed: &Managed<'_>) -> Result<(EntityUid, Vec<Entity>), Vec<PolicyError>> {
        let Managed::Approval { id, capability, requester, risk, side_effect, tenant, .. } = managed else {
            return Ok((self.managed.engine.clone(), Vec::new()));
        };
        let mut attributes: Vec<(String, RestrictedExpression)> = [
            ("capability", capability.as_str()),
            ("risk", risk.as_str()),
            ("effect", side_effect.as_str()),
            ("tenant", *tenant),
        ]
        .map(|(name, value)| (name.to_owned(), string(value)))
        .into();
        let mut entities = Vec::new();
        if let Some(actor) = requester.actor() {
            let member = format!("requester{}", actor.kind.entity_type());
            attributes.push((member, RestrictedExpression::new_entity_uid(self.uid_of(actor)?)));
            // attributes as they were when the request was filed may not fit today's schema: then a policy that
            // follows the requester errs, and others still decide
            entities.extend(self.principal_of(requester).map(|it| it.entity()));
        }
        let uid = uid(&self.managed.approval, id);
        let entity = Entity::new(uid.clone(), attributes.into_iter().collect(), HashSet::new());
        entities.push(entity.map_err(|_| failure("resource", "attribute"))?);
        Ok((uid, entities))
    }
}

impl Managed<'_> {
    fn requirement(&self) -> Option<&str> {
        match self {
            Self::Engine => None,
            Self::Approval { requirement, .. } => *requirement,
        }
    }
}
