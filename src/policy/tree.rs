//! Walking and rewriting the trees of policies.

use std::sync::Arc;

use cedar_policy::pst::{
    self, BinaryOp, Clause, Expr, Literal, PrincipalConstraint, ResourceConstraint, StaticPolicy, Template, UnaryOp,
    Var,
};
use cedar_policy::{Policy, pst::EntityOrSlot};

/// A policy's tree. `None` for a template, which never loads.
pub(super) fn body(policy: &Policy) -> Option<Template> {
    match policy.to_pst().ok()? {
        pst::Policy::Static(it) => Some(it.body().clone()),
        pst::Policy::Linked(_) => None,
    }
}

/// Back to a policy.
pub(super) fn rebuild(template: Template) -> Option<Policy> {
    let policy = StaticPolicy::try_from(template).ok()?;
    Policy::from_pst(pst::Policy::Static(policy)).ok()
}

/// A capability's action.
pub(super) fn action(capability: &str) -> Option<pst::EntityUID> {
    let kind = pst::EntityType::from_name(pst::Name::unqualified("Action").ok()?);
    Some(pst::EntityUID { ty: kind, eid: capability.into() })
}

/// What must hold one by one: the conjuncts of a `when`, and of an `unless` the disjuncts, each of which must be false.
#[cfg(any(feature = "http", feature = "testing"))]
pub(super) fn conjuncts(clause: &Clause) -> Vec<(&'static str, Clause)> {
    match clause {
        Clause::When(it) => split(it, BinaryOp::And).into_iter().map(|it| ("when", Clause::When(it))).collect(),
        Clause::Unless(it) => split(it, BinaryOp::Or).into_iter().map(|it| ("unless", Clause::Unless(it))).collect(),
    }
}

/// The operands of a chain, from left to right.
#[cfg(any(feature = "http", feature = "testing"))]
fn split(expr: &Arc<Expr>, by: BinaryOp) -> Vec<Arc<Expr>> {
    let (mut todo, mut out) = (vec![expr], Vec::new());
    while let Some(expr) = todo.pop() {
        match &**expr {
            Expr::BinaryOp { op, left, right } if *op == by => todo.extend([right, left]),
            _ => out.push(Arc::clone(expr)),
        }
    }
    out
}

/// The expression of a `when` or `unless`.
pub(super) fn condition(clause: &Clause) -> &Arc<Expr> {
    match clause {
        Clause::When(it) | Clause::Unless(it) => it,
    }
}

/// The expressions directly below.
pub(super) fn children(expr: &Expr) -> Vec<&Arc<Expr>> {
    match expr {
        Expr::UnaryOp { expr, .. }
        | Expr::GetAttr { expr, .. }
        | Expr::HasAttr { expr, .. }
        | Expr::Like { expr, .. } => {
            vec![expr]
        }
        Expr::BinaryOp { left, right, .. } => vec![left, right],
        Expr::Is { expr, in_expr, .. } => std::iter::once(expr).chain(in_expr).collect(),
        Expr::IfThenElse { cond, then_expr, else_expr } => vec![cond, then_expr, else_expr],
        Expr::Set(all) => all.iter().collect(),
        Expr::Record(members) => members.values().collect(),
        // Literals, variables; and a node of a later Cedar would be opaque, which `Known` takes for unknown.
        _ => Vec::new(),
    }
}

/// How deep the conditions go. Iterative, so it cannot run out of stack; each further clause is one level.
pub(super) fn depth(template: &Template) -> usize {
    let clauses = template.clauses().iter().enumerate();
    let mut todo: Vec<(&Expr, usize)> = clauses.map(|(at, it)| (&**condition(it), at + 1)).collect();
    let mut deepest = 0;
    while let Some((expr, depth)) = todo.pop() {
        deepest = deepest.max(depth);
        todo.extend(children(expr).into_iter().map(|it| (&**it, depth + 1)));
    }
    deepest
}

/// What a request is made of, as far as it is known when an approximation is evaluated.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) principal: bool,
    /// Whether it is the capability itself. An application's entity is named by the input.
    pub(super) resource: bool,
    /// The known members of the context. Everything else in it may be anything.
    pub(super) context: &'static [&'static str],
}

/// An upper or a lower bound.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// True whenever some request could make it true.
    Over,
    /// True only if every request makes it true.
    Under,
}

impl Bound {
    fn flip(self) -> Self {
        match self {
            Self::Over => Self::Under,
            Self::Under => Self::Over,
        }
    }
}

/// The context member that an expression reads, if it is of the form `context.x` or `context has x`.
pub(super) fn context_member(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::GetAttr { expr, attr } if **expr == Expr::Var(Var::Context) => Some(attr),
        Expr::HasAttr { expr, attrs } if **expr == Expr::Var(Var::Context) => Some(&attrs.head),
        _ => None,
    }
}

impl Known {
    /// Whether an expression is the same for every request. In doubt it is not.
    pub(super) fn covers(&self, expr: &Expr) -> bool {
        if let Some(member) = context_member(expr) {
            return self.context.contains(&member);
        }
        match expr {
            Expr::Var(Var::Principal) => self.principal,
            Expr::Var(Var::Action) | Expr::Literal(_) => true,
            Expr::Var(Var::Resource) => self.resource,
            Expr::UnaryOp { .. }
            | Expr::BinaryOp { .. }
            | Expr::GetAttr { .. }
            | Expr::HasAttr { .. }
            | Expr::Like { .. }
            | Expr::Is { .. }
            | Expr::IfThenElse { .. }
            | Expr::Set(_)
            | Expr::Record(_) => children(expr).into_iter().all(|it| self.covers(it)),
            _ => false, // `context` as a whole, slots, nodes of a later Cedar
        }
    }

    /// Whether a policy is the same for every request.
    pub(super) fn covers_all(&self, template: &Template) -> bool {
        let scope = (self.principal || matches!(template.principal, PrincipalConstraint::Any))
            && (self.resource || matches!(template.resource, ResourceConstraint::Any | ResourceConstraint::Is(_)));
        scope && template.clauses().iter().all(|it| self.covers(condition(it)))
    }

    /// The policy's bound. `None`: it cannot be certain.
    pub(super) fn approximate(&self, template: &Template, bound: Bound) -> Option<Template> {
        let principal = match (&template.principal, self.principal, bound) {
            (it @ PrincipalConstraint::Any, ..) | (it, true, _) => it.clone(),
            (_, false, Bound::Over) => PrincipalConstraint::Any,
            (_, false, Bound::Under) => return None,
        };
        let resource = self.resource(&template.resource, bound)?;
        let clauses: Vec<Clause> = template
            .clauses()
            .iter()
            .map(|it| match it {
                Clause::When(it) => Clause::When(self.rewrite(it, bound)),
                Clause::Unless(it) => Clause::Unless(self.rewrite(it, bound.flip())),
            })
            .collect();
        Template::new(template.id.clone(), template.effect, principal, template.action.clone(), resource)
            .try_with_clauses(clauses)
            .ok()
    }

    /// Only the type of an unknown resource is known.
    fn resource(&self, resource: &ResourceConstraint, bound: Bound) -> Option<ResourceConstraint> {
        match (resource, bound) {
            (it, _) if self.resource => Some(it.clone()),
            (it @ (ResourceConstraint::Any | ResourceConstraint::Is(_)), _) => Some(it.clone()),
            (_, Bound::Under) => None,
            (ResourceConstraint::IsIn(kind, _), Bound::Over) => Some(ResourceConstraint::Is(kind.clone())),
            (ResourceConstraint::Eq(EntityOrSlot::Entity(it)), Bound::Over) => {
                Some(ResourceConstraint::Is(it.ty.clone()))
            }
            (ResourceConstraint::Eq(EntityOrSlot::Slot(_)) | ResourceConstraint::In(_), Bound::Over) => {
                Some(ResourceConstraint::Any)
            }
        }
    }

    fn rewrite(&self, expr: &Arc<Expr>, bound: Bound) -> Arc<Expr> {
        if self.covers(expr) {
            return Arc::clone(expr);
        }
        let both = |op, left, right| Arc::new(Expr::BinaryOp { op, left, right });
        match &**expr {
            Expr::BinaryOp { op: op @ (BinaryOp::And | BinaryOp::Or), left, right } => {
                both(*op, self.rewrite(left, bound), self.rewrite(right, bound))
            }
            Expr::UnaryOp { op: UnaryOp::Not, expr } => {
                Arc::new(Expr::UnaryOp { op: UnaryOp::Not, expr: self.rewrite(expr, bound.flip()) })
            }
            Expr::IfThenElse { cond, then_expr, else_expr } => {
                let (yes, no) = (self.rewrite(then_expr, bound), self.rewrite(else_expr, bound));
                match bound {
                    _ if self.covers(cond) => {
                        Arc::new(Expr::IfThenElse { cond: Arc::clone(cond), then_expr: yes, else_expr: no })
                    }
                    Bound::Over => both(BinaryOp::Or, yes, no),
                    Bound::Under => both(BinaryOp::And, yes, no),
                }
            }
            _ => Arc::new(Expr::Literal(Literal::Bool(bound == Bound::Over))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Known = Known { principal: true, resource: false, context: &["surface"] };

    fn bounds(text: &str) -> String {
        let template = body(&Policy::parse(None, text).unwrap()).unwrap();
        let show =
            |bound| KNOWN.approximate(&template, bound).and_then(rebuild).map_or("-".into(), |it| it.to_string());
        format!("{}: {} | {}", KNOWN.covers_all(&template), show(Bound::Over), show(Bound::Under)).replace('\n', " ")
    }

    #[test]
    fn what_depends_on_the_input_becomes_a_bound() {
        let table = [
            "permit(principal, action, resource) when { context.surface == \"mcp\" };",
            "permit(principal, action, resource) when { context.surface == \"mcp\" && context.input.a > 1 };",
            "permit(principal, action, resource) when { !(context.input has a) };",
            "permit(principal, action, resource) unless { context.input has a || context.surface == \"x\" };",
            "permit(principal, action, resource) when { if context.input has a then context.surface == \"x\" else false };",
            "permit(principal, action, resource) when { if context.surface == \"x\" then context.input.b else true };",
            "permit(principal, action, resource is Order in Tenant::\"t\");",
            "permit(principal, action, resource == Order::\"1\");",
            "permit(principal, action, resource is Order);",
            "permit(principal, action, resource) when { resource.total > 1 };",
            "permit(principal, action, resource) when { [context].contains(context) };",
            "permit(principal, action, resource) when { context has approval };",
        ];
        let lines: Vec<String> = table.iter().map(|it| bounds(it)).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        true: permit(principal, action, resource) when { context.surface == "mcp" }; | permit(principal, action, resource) when { context.surface == "mcp" };
        false: permit(principal, action, resource) when { (context.surface == "mcp") && true }; | permit(principal, action, resource) when { (context.surface == "mcp") && false };
        false: permit(principal, action, resource) when { !false }; | permit(principal, action, resource) when { !true };
        false: permit(principal, action, resource) unless { false || (context.surface == "x") }; | permit(principal, action, resource) unless { true || (context.surface == "x") };
        false: permit(principal, action, resource) when { (context.surface == "x") || false }; | permit(principal, action, resource) when { (context.surface == "x") && false };
        false: permit(principal, action, resource) when { if context.surface == "x" then true else true }; | permit(principal, action, resource) when { if context.surface == "x" then false else true };
        false: permit(principal, action, resource is Order); | -
        false: permit(principal, action, resource is Order); | -
        true: permit(principal, action, resource is Order); | permit(principal, action, resource is Order);
        false: permit(principal, action, resource) when { true }; | permit(principal, action, resource) when { false };
        false: permit(principal, action, resource) when { true }; | permit(principal, action, resource) when { false };
        false: permit(principal, action, resource) when { true }; | permit(principal, action, resource) when { false };
        "#);
    }
}
