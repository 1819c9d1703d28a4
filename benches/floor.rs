//! What the gate must do in any case, by hand: the principal, the context, the request and both checks against the
//! schema, both sets of policies, one validation, one RFC 8785 hash.

use std::collections::{HashMap, HashSet};
use std::time::SystemTime;

use cedar_policy::{
    Authorizer, Context, Decision, Effect, Entities, Entity, EntityId, EntityTypeName, EntityUid, PolicySet, Request,
    RestrictedExpression, Schema,
};
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::Failure;
use crate::shop::{input, name};

/// Everything that does not depend on the call.
pub(crate) struct Floor {
    schema: Schema,
    authorizer: Authorizer,
    permits: PolicySet,
    forbids: PolicySet,
    user: EntityTypeName,
    role: EntityTypeName,
    action: EntityUid,
    resource: EntityUid,
    base: Entities,
    validator: jsonschema::Validator,
    input: Value,
}

impl Floor {
    pub(crate) fn new(schema: &str, policies: &str, input_schema: &Value) -> Result<Self, Failure> {
        let (schema, _) = Schema::from_cedarschema_str(schema)?;
        let (permits, forbids) = split(policies)?;
        let (action, resource) = (uid("Action", &name(0))?, uid("Capability", &name(0))?);
        let base = Entities::from_entities([known(&schema, &action)?, capability(0)?], None)?;
        let (user, role) = ("User".parse()?, "Role".parse()?);
        let validator = jsonschema::draft202012::options().should_validate_formats(true).build(input_schema)?;
        let (authorizer, input) = (Authorizer::new(), input());
        Ok(Self { schema, authorizer, permits, forbids, user, role, action, resource, base, validator, input })
    }

    pub(crate) fn lets_pass(&self) -> Result<bool, Failure> {
        let principal = principal(&self.user, &self.role)?;
        let named = principal.uid();
        let input = RestrictedExpression::new_record([
            ("amountCents".to_owned(), RestrictedExpression::new_long(self.member("amountCents")?.as_i64().ok_or("")?)),
            ("orderId".to_owned(), text(self.member("orderId")?.as_str().ok_or("")?)),
            ("reason".to_owned(), text(self.member("reason")?.as_str().ok_or("")?)),
        ])?;
        let context = Context::from_pairs(facts().into_iter().chain([("input".to_owned(), input)]))?;
        let (action, resource) = (self.action.clone(), self.resource.clone());
        let request = Request::new(named, action, resource, context, Some(&self.schema))?;
        let entities = self.base.clone().add_entities([principal], Some(&self.schema))?;
        let permitted = self.authorizer.is_authorized(&request, &self.permits, &entities);
        let forbidden = self.authorizer.is_authorized(&request, &self.forbids, &entities);
        let valid = self.validator.is_valid(&self.input);
        let hash = Sha256::digest(serde_json_canonicalizer::to_string(&self.input)?);
        let satisfied = forbidden.diagnostics().reason().count();
        Ok(valid && permitted.decision() == Decision::Allow && satisfied == 0 && !hash.is_empty())
    }

    fn member(&self, name: &str) -> Result<&Value, Failure> {
        self.input.get(name).ok_or_else(|| format!("no `{name}`").into())
    }
}

/// The permits and the forbids of a text.
pub(crate) fn split(policies: &str) -> Result<(PolicySet, PolicySet), Failure> {
    let (mut permits, mut forbids) = (PolicySet::new(), PolicySet::new());
    for policy in policies.parse::<PolicySet>()?.policies() {
        match policy.effect() {
            Effect::Permit => permits.add(policy.clone())?,
            Effect::Forbid => forbids.add(policy.clone())?,
        }
    }
    Ok((permits, forbids))
}

/// Dana, as Cedar sees her.
pub(crate) fn principal(user: &EntityTypeName, role: &EntityTypeName) -> Result<Entity, Failure> {
    let attributes = HashMap::from([
        ("roles".to_owned(), RestrictedExpression::new_set([text("support")])),
        ("scopes".to_owned(), RestrictedExpression::new_set([])),
        ("tenant".to_owned(), text("acme")),
    ]);
    let named = |kind: &EntityTypeName, id| EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id));
    Ok(Entity::new(named(user, "dana"), attributes, HashSet::from([named(role, "support")]))?)
}

/// What every context has.
pub(crate) fn facts() -> [(String, RestrictedExpression); 3] {
    let now = DateTime::<Utc>::from(SystemTime::now()).to_rfc3339_opts(SecondsFormat::Millis, true);
    [
        ("surface".to_owned(), text("direct")),
        ("tenant".to_owned(), text("acme")),
        ("now".to_owned(), RestrictedExpression::new_datetime(now)),
    ]
}

/// A capability, as Cedar sees it.
pub(crate) fn capability(number: usize) -> Result<Entity, Failure> {
    let attributes = HashMap::from([
        ("effect".to_owned(), text("write")),
        ("risk".to_owned(), text("high")),
        ("tags".to_owned(), RestrictedExpression::new_set([text("orders"), text("money")])),
    ]);
    Ok(Entity::new(uid("Capability", &name(number))?, attributes, HashSet::new())?)
}

/// An action of the schema, with its groups.
pub(crate) fn known(schema: &Schema, action: &EntityUid) -> Result<Entity, Failure> {
    Ok(schema.action_entities()?.get(action).ok_or("no such action")?.clone())
}

pub(crate) fn uid(kind: &str, id: &str) -> Result<EntityUid, Failure> {
    Ok(EntityUid::from_type_name_and_id(kind.parse()?, EntityId::new(id)))
}

fn text(it: &str) -> RestrictedExpression {
    RestrictedExpression::new_string(it.to_owned())
}
