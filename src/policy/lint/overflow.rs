//! Which arithmetic of a policy can leave Cedar's 64 bits. Such a policy errs, and one that errs fails the call whatever
//! the others say. Intervals over the policy's tree: bounds come from the input's schema, and from the conditions that
//! hold where the arithmetic stands.

use std::sync::Arc;

use cedar_policy::pst::{BinaryOp, Clause, Expr, Literal, Template, UnaryOp, Var};
use serde_json::Value;

use super::super::tree::{children, condition};

/// How many references of a schema are followed on the way to one member.
const MAX_REFERENCES: usize = 32;

/// Whether there is any arithmetic at all.
pub(super) fn is_arithmetic(template: &Template) -> bool {
    let mut todo: Vec<&Arc<Expr>> = template.clauses().iter().map(condition).collect();
    while let Some(expr) = todo.pop() {
        if operation(expr) {
            return true;
        }
        todo.extend(children(expr));
    }
    false
}

fn operation(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::UnaryOp { op: UnaryOp::Neg, .. }
            | Expr::BinaryOp { op: BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, .. }
    )
}

/// The operations that can overflow for an input of this schema, in the order of their evaluation.
pub(super) fn overflows(template: &Template, input: &Value) -> Vec<Arc<Expr>> {
    let mut walk = Walk { input, known: Vec::new(), found: Vec::new() };
    for clause in template.clauses() {
        // a clause is asked only where those before it hold
        walk.visit(condition(clause));
        match clause {
            Clause::When(it) => walk.assume(it, true),
            Clause::Unless(it) => walk.assume(it, false),
        }
    }
    walk.found
}

/// The attributes that an expression reads, as they are written.
pub(super) fn attributes(expr: &Arc<Expr>) -> Vec<&Arc<Expr>> {
    if matches!(&**expr, Expr::GetAttr { .. }) {
        return vec![expr];
    }
    children(expr).into_iter().flat_map(attributes).collect()
}

/// The members on the way from the input to an attribute; `None` if it is no part of the input.
pub(super) fn input_path(expr: &Expr) -> Option<Vec<&str>> {
    let Expr::GetAttr { expr, attr } = expr else { return None };
    if **expr == Expr::Var(Var::Context) {
        return (attr == "input").then(Vec::new);
    }
    let mut path = input_path(expr)?;
    path.push(attr);
    Some(path)
}

/// From the least to the greatest value, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    low: i128,
    high: i128,
}

impl Interval {
    const LONG: Self = Self { low: i64::MIN as i128, high: i64::MAX as i128 };

    fn point(value: i64) -> Self {
        Self { low: value.into(), high: value.into() }
    }

    fn and(self, other: Self) -> Self {
        Self { low: self.low.max(other.low), high: self.high.min(other.high) }
    }

    fn or(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// Of all results at the corners. No product of two of these leaves an `i128`.
    fn corners(self, other: Self, of: impl Fn(i128, i128) -> i128) -> Self {
        let (a, b) = (of(self.low, other.low), of(self.low, other.high));
        let (c, d) = (of(self.high, other.low), of(self.high, other.high));
        Self { low: a.min(b).min(c).min(d), high: a.max(b).max(c).max(d) }
    }
}

struct Walk<'a> {
    input: &'a Value,
    /// What the conditions around say of attributes.
    known: Vec<(Arc<Expr>, Interval)>,
    found: Vec<Arc<Expr>>,
}

impl Walk<'_> {
    /// The values that an expression can have, if it is a number at all.
    fn visit(&mut self, expr: &Arc<Expr>) -> Interval {
        let before = self.known.len();
        let values = match &**expr {
            Expr::BinaryOp { op: op @ (BinaryOp::And | BinaryOp::Or), left, right } => {
                self.visit(left);
                self.assume(left, *op == BinaryOp::And);
                self.visit(right);
                Interval::LONG
            }
            Expr::IfThenElse { cond, then_expr, else_expr } => {
                self.visit(cond);
                self.assume(cond, true);
                let yes = self.visit(then_expr);
                self.known.truncate(before);
                self.assume(cond, false);
                yes.or(self.visit(else_expr))
            }
            Expr::BinaryOp { op: op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), left, right } => {
                let (left, right) = (self.visit(left), self.visit(right));
                let of = match op {
                    BinaryOp::Add => |a, b| a + b,
                    BinaryOp::Sub => |a, b| a - b,
                    _ => |a, b| a * b,
                };
                self.result(expr, left.corners(right, of))
            }
            Expr::UnaryOp { op: UnaryOp::Neg, expr: operand } => {
                let of = self.visit(operand);
                self.result(expr, Interval { low: -of.high, high: -of.low })
            }
            _ => {
                for child in children(expr) {
                    self.visit(child);
                }
                self.values(expr).unwrap_or(Interval::LONG)
            }
        };
        self.known.truncate(before);
        values
    }

    /// Where a result is a number at all, it is one of 64 bits.
    fn result(&mut self, expr: &Arc<Expr>, values: Interval) -> Interval {
        if values.and(Interval::LONG) != values && !self.found.contains(expr) {
            self.found.push(Arc::clone(expr));
        }
        values.and(Interval::LONG)
    }

    /// The values of a literal or an attribute.
    fn values(&self, expr: &Arc<Expr>) -> Option<Interval> {
        match &**expr {
            Expr::Literal(Literal::Long(value)) => Some(Interval::point(*value)),
            Expr::GetAttr { .. } => {
                let declared = input_path(expr).and_then(|path| declared(self.input, &path));
                let known = self.known.iter().filter(|it| it.0 == *expr).map(|it| it.1);
                Some(known.fold(declared.unwrap_or(Interval::LONG), Interval::and))
            }
            _ => None,
        }
    }

    /// Notes what follows for attributes if a condition is true or false.
    fn assume(&mut self, expr: &Arc<Expr>, holds: bool) {
        match &**expr {
            Expr::UnaryOp { op: UnaryOp::Not, expr } => self.assume(expr, !holds),
            Expr::BinaryOp { op: BinaryOp::And, left, right } if holds => {
                self.assume(left, true);
                self.assume(right, true);
            }
            Expr::BinaryOp { op: BinaryOp::Or, left, right } if !holds => {
                self.assume(left, false);
                self.assume(right, false);
            }
            Expr::BinaryOp { op, left, right } => {
                let (Some(a), Some(b)) = (self.values(left), self.values(right)) else { return };
                let Some((least, greatest)) = order(*op, holds) else { return };
                self.known.push((Arc::clone(left), bounded(b, least, greatest)));
                self.known.push((Arc::clone(right), bounded(a, greatest, least)));
            }
            _ => {}
        }
    }
}

/// How far the left side is at least above, and below, the right one: `None` without a bound.
fn order(op: BinaryOp, holds: bool) -> Option<(Option<i128>, Option<i128>)> {
    Some(match (op, holds) {
        (BinaryOp::Eq, true) | (BinaryOp::NotEq, false) => (Some(0), Some(0)),
        (BinaryOp::Less, true) | (BinaryOp::GreaterEq, false) => (None, Some(1)),
        (BinaryOp::LessEq, true) | (BinaryOp::Greater, false) => (None, Some(0)),
        (BinaryOp::Greater, true) | (BinaryOp::LessEq, false) => (Some(1), None),
        (BinaryOp::GreaterEq, true) | (BinaryOp::Less, false) => (Some(0), None),
        _ => return None,
    })
}

/// What is at least so far above, and below, one of these values.
fn bounded(other: Interval, above: Option<i128>, below: Option<i128>) -> Interval {
    Interval {
        low: above.map_or(Interval::LONG.low, |it| other.low + it),
        high: below.map_or(Interval::LONG.high, |it| other.high - it),
    }
}

/// What the schema of an input says of a member's values.
fn declared(schema: &Value, path: &[&str]) -> Option<Interval> {
    let mut at = schema;
    for name in path {
        at = member(schema, at, name, MAX_REFERENCES)?;
    }
    Some(interval(schema, at, MAX_REFERENCES))
}

fn target<'a>(document: &'a Value, schema: &Value) -> Option<&'a Value> {
    document.pointer(schema["$ref"].as_str()?.strip_prefix('#')?)
}

fn alternatives<'a>(schema: &'a Value, keyword: &str) -> impl Iterator<Item = &'a Value> {
    schema[keyword].as_array().into_iter().flatten()
}

fn member<'a>(document: &'a Value, schema: &'a Value, name: &str, steps: usize) -> Option<&'a Value> {
    let steps = steps.checked_sub(1)?;
    if let Some(found) = schema["properties"].get(name) {
        return Some(found);
    }
    let others = ["anyOf", "oneOf", "allOf"].into_iter().flat_map(|it| alternatives(schema, it));
    target(document, schema).into_iter().chain(others).find_map(|it| member(document, it, name, steps))
}

/// Of a number's schema. What is not understood bounds nothing.
fn interval(document: &Value, schema: &Value, steps: usize) -> Interval {
    let Some(steps) = steps.checked_sub(1) else { return Interval::LONG };
    let mut values = Interval::LONG.and(keywords(schema));
    if let Some(target) = target(document, schema) {
        values = values.and(interval(document, target, steps));
    }
    for keyword in ["anyOf", "oneOf"] {
        let is_null = |it: &&Value| it["type"] == "null" || it.get("const") == Some(&Value::Null);
        let all = alternatives(schema, keyword).filter(|it| !is_null(it)).map(|it| interval(document, it, steps));
        values = all.reduce(Interval::or).map_or(values, |it| values.and(it));
    }
    alternatives(schema, "allOf").map(|it| interval(document, it, steps)).fold(values, Interval::and)
}

fn keywords(schema: &Value) -> Interval {
    let of = |name: &str| whole(&schema[name]);
    let low = of("minimum").into_iter().chain(of("exclusiveMinimum").map(|it| it + 1)).max();
    let high = of("maximum").into_iter().chain(of("exclusiveMaximum").map(|it| it - 1)).min();
    let listed = schema["enum"].as_array().map(Vec::as_slice).or_else(|| schema.get("const").map(std::slice::from_ref));
    let listed = listed.unwrap_or_default().iter().filter_map(Value::as_i64).map(Interval::point).reduce(Interval::or);
    let bounds = Interval { low: low.unwrap_or(Interval::LONG.low), high: high.unwrap_or(Interval::LONG.high) };
    listed.map_or(bounds, |it| bounds.and(it))
}

/// A whole number; a broken one bounds nothing.
fn whole(value: &Value) -> Option<i128> {
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

#[cfg(test)]
mod tests {
    use cedar_policy::Policy;
    use serde_json::json;

    use super::super::super::tree::body;
    use super::*;

    fn of(condition: &str) -> String {
        let input = json!({
            "$defs": {"Cents": {"type": "integer", "minimum": 0, "maximum": 1_000_000}, "Loop": {"$ref": "#/$defs/Loop"}},
            "properties": {
                "any": {"type": "integer"},
                "small": {"type": "integer", "minimum": -5, "exclusiveMaximum": 10},
                "cents": {"$ref": "#/$defs/Cents"},
                "maybe": {"anyOf": [{"$ref": "#/$defs/Cents"}, {"type": "null"}]},
                "listed": {"enum": [1, 20]},
                "large": {"type": "integer", "maximum": 9_000_000_000_000_000_000_u64},
                "loop": {"$ref": "#/$defs/Loop"},
                "line": {"allOf": [{"properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}}]},
            },
        });
        let text = format!("forbid (principal, action, resource) {condition};").replace('$', "context.input.");
        let template = body(&Policy::parse(None, &text).unwrap()).unwrap();
        let found: Vec<String> = overflows(&template, &input).iter().map(ToString::to_string).collect();
        assert_eq!(is_arithmetic(&template), condition.contains(['+', '*', '-']), "{condition}");
        format!("{condition} => {}", found.join(" ; "))
    }

    #[test]
    fn what_can_leave_64_bits_is_found_and_what_cannot_is_not() {
        let table = [
            "when { $any > 1 }",
            "when { $any + 1 > 1 }",
            "when { $any * 1 > 1 }",
            "when { $any - 1 > 1 }",
            "when { -$any > 1 }",
            "when { -$large > 1 }",
            "when { $large + 1 > 1 }",
            "when { $cents * 2000 > 1 }",
            "when { $cents * $cents > 1 }",
            "when { $cents * $cents * $cents * $cents > 1 }",
            "when { $maybe * $listed - $small * 1000000 + 7 > 1 }",
            "when { $loop + 1 > 1 }",
            "when { $line.n * 9000000 > 1 }",
            "when { $line.x * 9000000 > 1 }",
            "when { [1, $any + 1].contains(2) }",
            "when { {a: $any + 1}.a == 2 }",
            "when { 9223372036854775807 + 1 > 0 }",
            "when { principal.limit + 1 > 0 }",
            "when { (if $small > 1 then $any else 1) + 1 > 0 }",
            "when { (if $small > 1 then $cents else 1) * 1000 > 0 }",
        ];
        insta::assert_snapshot!(table.map(of).join("\n"));
    }

    #[test]
    fn conditions_that_hold_where_the_arithmetic_stands_bound_it() {
        let table = [
            "when { $any < 1000 && $any > -1000 && $any * 2000 > 1 }",
            "when { $any < 1000 && $any * 2000 > 1 }",
            "when { $any * 2000 > 1 && $any < 1000 && $any > -1000 }",
            "when { 1000 >= $any && 0 <= $any && $any * 2000 > 1 }",
            "when { $any == 7 && $any * 2000 > 1 }",
            "when { $any != 7 && $any * 2000 > 1 }",
            "when { $any != 7 || $any * 2000 > 1 }",
            "when { ($any > 1000 || $any < 0) || $any * 2000 > 1 }",
            "when { !($any > 1000 || $any < 0) && $any * 2000 > 1 }",
            "when { ($any < 1000 && $any > 0 || true) && $any * 2000 > 1 }",
            "when { if $any < 1000 && $any > 0 then $any * 2000 > 1 else false }",
            "when { if $any < 1000 || $any > 2000 then false else $any * 2000 > 1 }",
            "when { if $any < 1000 && $any > 0 then true else $any * 2000 > 1 }",
            "when { $any <= 1000 } unless { $any < 0 } when { $any * 2000 > 1 }",
            "when { $any <= $cents && $any >= 0 && $any * 2000 > 1 }",
            "when { principal.limit < 10 && principal.limit > 0 && principal.limit * 2000 > 1 }",
            "when { principal.limit < 10 && principal.limit > 0 && resource.limit * 2000 > 1 }",
        ];
        insta::assert_snapshot!(table.map(of).join("\n"));
    }
}
