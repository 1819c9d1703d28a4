//! What loads and is probably not meant: arithmetic that can overflow, permits that are shared by everything, capabilities
//! that nobody can call.

use std::collections::BTreeMap;
use std::sync::Arc;

use cedar_policy::pst::{ActionConstraint, EntityUID, Expr, ResourceConstraint, Template};
use serde_json::Value;

use super::super::PolicyProblem;
use super::super::rules::{Kind, Origin, Rule};
use super::super::schema::CAPABILITY_FILE;
use super::super::tree::{action, body, rebuild};
use super::{Linter, is_impossible, overflow};
use crate::capability::Governed;

/// How many capabilities one warning names.
const MAX_NAMES: usize = 8;

impl Linter<'_> {
    /// For a set without errors.
    pub(in crate::policy) fn warnings(&self) -> Vec<PolicyProblem> {
        let mut warnings = Vec::new();
        for rule in self.rules {
            let Some(template) = body(&rule.policy) else { continue };
            if overflow::is_arithmetic(&template) {
                self.overflows(rule, &template, &mut warnings);
            }
            if matches!(rule.kind, Kind::Permit) && is_for_everything(&template) {
                let what = "it permits every capability, those to come too";
                let help = "name actions or a group, as in `action in Action::\"effect/read\"`, or add a condition";
                warnings.push(self.problem(rule, 0, what).help(help).warning());
            }
        }
        warnings.extend(self.uncallable());
        warnings
    }

    fn overflows(&self, rule: &Rule, template: &Template, warnings: &mut Vec<PolicyProblem>) {
        // of each expression the first capability whose input does not bound it
        let mut found: BTreeMap<String, (Arc<Expr>, Option<&Governed>)> = BTreeMap::new();
        let mut reached = self.reached(rule).peekable();
        if reached.peek().is_none() {
            let all = overflow::overflows(template, &Value::Null);
            found.extend(all.into_iter().map(|it| (it.to_string(), (it, None))));
        }
        for capability in reached {
            for it in overflow::overflows(template, &capability.input_schema) {
                found.entry(it.to_string()).or_insert((it, Some(capability)));
            }
        }
        for (text, (expr, capability)) in found {
            let what = match capability {
                Some(it) => format!("`{text}` can overflow, and a call of `{}` then fails", it.id),
                None => format!("`{text}` can overflow, and the request then fails"),
            };
            let help = bound(&expr, capability);
            let word = overflow::attributes(&expr).first().map_or_else(String::new, ToString::to_string);
            warnings.push(self.problem_at_expr(rule, &expr, &word, what).help(help).warning());
        }
    }

    /// Exposed capabilities that no permit reaches, or only such as can never hold for them.
    fn uncallable(&self) -> Option<PolicyProblem> {
        let permits = self.rules.iter().filter(|it| matches!(it.kind, Kind::Permit));
        let permits: Vec<_> = permits.filter_map(|it| Some((it, body(&it.policy)?))).collect();
        let is_callable = |capability: &Governed| {
            permits.iter().any(|(rule, template)| self.invokes(rule, capability) && self.can_hold(template, capability))
        };
        // one that is exposed nowhere is meant to be called by nobody
        let exposed = self.governed.iter().filter(|it| !it.meta.expose.is_empty());
        let none = exposed.filter(|it| !is_callable(it));
        let names: Vec<String> = none.map(|it| format!("`{}`", it.id)).collect();
        let is_empty = self.rules.iter().all(|it| matches!(it.origin, Origin::Capability));
        if is_empty || names.is_empty() {
            return None;
        }
        let more = names.len().saturating_sub(MAX_NAMES);
        let shown = names[..names.len() - more].join(", ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let what = format!("nobody can call {shown}{more}: no permit that could hold reaches them");
        let help = "permit their actions, or leave the capabilities out";
        Some(PolicyProblem::of_file(CAPABILITY_FILE, what).help(help).warning())
    }

    /// Whether a permit could hold for this capability among those that it names.
    fn can_hold(&self, template: &Template, capability: &Governed) -> bool {
        let narrowed = match &template.action {
            // as a whole it is not impossible: that is an error
            ActionConstraint::Eq(_) => return true,
            ActionConstraint::Any | ActionConstraint::In(_) => action(&capability.id),
        };
        let Some(action) = narrowed else { return true };
        let scope = (template.principal.clone(), ActionConstraint::Eq(action), template.resource.clone());
        let narrowed = Template::new("narrowed", template.effect, scope.0, scope.1, scope.2);
        let narrowed = narrowed.try_with_clauses(template.clauses().clone()).ok().and_then(rebuild);
        narrowed.is_none_or(|it| !is_impossible(&self.validator, it))
    }
}

fn is_for_everything(template: &Template) -> bool {
    let is_all = |it: &EntityUID| it.eid == "invoke" && it.ty.to_string() == "Action";
    let action = match &template.action {
        ActionConstraint::Any => true,
        ActionConstraint::Eq(_) => false,
        ActionConstraint::In(all) => all.iter().any(is_all),
    };
    action && matches!(template.resource, ResourceConstraint::Any) && template.clauses().is_empty()
}

/// The next step: which bound is missing, and where it can be given.
fn bound(expr: &Arc<Expr>, capability: Option<&Governed>) -> String {
    let Some(attribute) = overflow::attributes(expr).into_iter().next() else { return "write smaller numbers".into() };
    let condition = format!("conditions before it, as in `{attribute} >= 0 && {attribute} <= 1000000 && ..`");
    match (overflow::input_path(attribute), capability) {
        (Some(path), Some(it)) => format!(
            "give `/{}` a `minimum` and a `maximum` in the input schema of `{}`, or bound it by {condition}",
            path.join("/"),
            it.id
        ),
        _ => format!("bound it by {condition}"),
    }
}
