//! What the engine makes true of every call: without it a solver refutes claims with calls that cannot be.
//!
//! An assumption is a condition in Cedar's JSON form, so that no name is ever spliced into text.

use std::collections::BTreeSet;

use cedar_policy::pst::{Clause, Template};
use cedar_policy::{Policy, PolicyId};
use serde_json::{Value, json};

use super::super::compile::Resource;
use super::super::types::Type;
use super::super::{PolicySet, tree};
use super::Subject;
use crate::actor::Surface;
use crate::capability::Governed;

/// What is assumed of an action's requests.
pub(super) struct World {
    /// Refuses every request of which it does not hold.
    pub(super) forbid: Policy,
    /// Each refuses what else makes a request hard to read, the first the most. No proof rests on them: they choose among
    /// counterexamples.
    pub(super) plain: Vec<Policy>,
}

impl World {
    /// `policies` are those beside the subject's own whose roles count.
    pub(super) fn of(set: &PolicySet, subject: Subject<'_>, policies: &[Policy]) -> Result<Self, String> {
        let mentioned = subject.slice().all().chain(policies).flat_map(roles).collect::<BTreeSet<_>>();
        // What the schema does not list no actor can have, and no policy can name.
        let listed = set.projection.listed_roles();
        let roles = mentioned.into_iter().filter(|it| listed.is_none_or(|all| all.contains(it)));
        let mut all = base();
        all.extend(roles.map(|it| is_role(&it)));
        match subject {
            Subject::Call(governed, compiled) => {
                all.push(among("surface", governed.meta.expose.iter().map(|it| it.as_str())));
                all.extend(fits_input(&compiled.input, &governed.input_schema));
                if let Resource::Capability(_) = compiled.resource {
                    all.extend(is_capability(governed));
                }
            }
            Subject::Manage(_) => all.push(among("surface", Surface::ALL.map(Surface::as_str))),
        }
        let mut plain = plain();
        if let Subject::Call(_, compiled) = subject {
            plain.extend(has_texts(&compiled.input));
        }
        let direct = eq(get(variable("context"), "surface"), value(Surface::Direct.as_str()));
        let plain = [plain.iter().cloned().chain([direct]).collect(), plain];
        Ok(Self {
            forbid: forbid("<assumed>", "unless", &together(all))?,
            plain: plain.into_iter().map(|it| forbid("<plain>", "unless", &together(it))).collect::<Result<_, _>>()?,
        })
    }

    /// A policy, of those requests only that `forbid` does not refuse.
    pub(super) fn before(forbid: &Policy, policy: &Policy) -> Option<Policy> {
        let assumed = tree::body(forbid)?.into_clauses().into_iter().map(|it| match it {
            Clause::When(it) | Clause::Unless(it) => Clause::When(it),
        });
        let it = tree::body(policy)?;
        let clauses: Vec<Clause> = assumed.chain(it.clauses().iter().cloned()).collect();
        let made = Template::new(it.id.clone(), it.effect, it.principal, it.action, it.resource);
        tree::rebuild(made.try_with_clauses(clauses).ok()?)
    }
}

/// Refuses what an approval of this type was presented for.
pub(super) fn covered(kind: &str) -> Result<Policy, String> {
    let approval = get(variable("context"), "approval");
    let covers = json!({"contains": {"left": get(approval, "types"), "right": value(kind)}});
    forbid("<covered>", "when", &and(has(variable("context"), "approval"), covers))
}

/// Refuses whoever is in one of these roles.
pub(super) fn in_roles(roles: &[String]) -> Result<Policy, String> {
    let all: Vec<Value> = roles.iter().map(|it| role(it)).collect();
    forbid("<roles>", "when", &json!({"in": {"left": variable("principal"), "right": {"Set": all}}}))
}

/// Refuses every other surface.
pub(super) fn not_over(surface: Surface) -> Result<Policy, String> {
    forbid("<surface>", "unless", &eq(get(variable("context"), "surface"), value(surface.as_str())))
}

/// The names of the roles that a policy mentions.
pub(super) fn roles(policy: &Policy) -> Vec<String> {
    let named = policy.entity_literals().into_iter().filter(|it| it.type_name().to_string() == "Role");
    named.map(|it| it.id().unescaped().to_owned()).collect()
}

/// A policy, of calls of these capabilities only.
pub(super) fn narrowed<'a>(policy: &Policy, capabilities: impl Iterator<Item = &'a str>) -> Result<Policy, String> {
    let actions: Vec<Value> = capabilities.map(|it| json!({"type": "Action", "id": it})).collect();
    let mut json = policy.to_json().map_err(|_| "it has no JSON form")?;
    json["action"] = json!({"op": "in", "entities": actions});
    Policy::from_json(Some(policy.id().clone()), json).map_err(|_| "it has no JSON form".into())
}

fn forbid(id: &str, kind: &str, body: &Value) -> Result<Policy, String> {
    let any = json!({"op": "All"});
    let policy = json!({
        "effect": "forbid", "principal": any, "action": any, "resource": any,
        "conditions": [{"kind": kind, "body": body}],
    });
    // The text names only what is ours.
    Policy::from_json(Some(PolicyId::new(id)), policy).map_err(|_| format!("`{id}` is no policy"))
}

/// Of every request: the tenant is the principal's, names are not empty, and the time is one that can be written down.
fn base() -> Vec<Value> {
    let (principal, context) = (|| variable("principal"), || variable("context"));
    let tenant = || get(context(), "tenant");
    let not_empty = |it: Value| not(eq(it, value("")));
    let now = || get(context(), "now");
    vec![
        has(principal(), "tenant"),
        eq(get(principal(), "tenant"), tenant()),
        not_empty(tenant()),
        implies(has(context(), "client"), not_empty(get(context(), "client"))),
        implies(has(principal(), "issuer"), not_empty(get(principal(), "issuer"))),
        json!({"<=": {"left": time("1970-01-01"), "right": now()}}),
        json!({"<": {"left": now(), "right": time("9999-01-01")}}),
    ]
}

/// An ordinary request: at noon, in the tenant `default`, without what may be left out.
fn plain() -> Vec<Value> {
    let (principal, context) = (|| variable("principal"), || variable("context"));
    vec![
        eq(get(context(), "now"), time("2026-01-01T12:00:00Z")),
        eq(get(context(), "tenant"), value("default")),
        not(has(context(), "client")),
        not(has(principal(), "issuer")),
        json!({"isEmpty": {"arg": get(principal(), "scopes")}}),
    ]
}

/// The input's texts are not empty.
fn has_texts(kind: &Type) -> Vec<Value> {
    let Type::Record(members) = kind else { return Vec::new() };
    let texts = members.iter().filter(|(_, it)| it.kind == Type::String);
    texts.map(|(name, it)| when_there(name, it.required, not(eq(input(name), value(""))))).collect()
}

/// Whoever has a role's name is in the role.
fn is_role(name: &str) -> Value {
    let is_in = json!({"in": {"left": variable("principal"), "right": role(name)}});
    let has = json!({"contains": {"left": get(variable("principal"), "roles"), "right": value(name)}});
    eq(is_in, has)
}

/// The capability is the resource, with its own attributes.
fn is_capability(governed: &Governed) -> Vec<Value> {
    let resource = |attribute: &str| get(variable("resource"), attribute);
    let tags: Vec<Value> = governed.meta.tags.iter().map(|it| value(&**it)).collect();
    let tags = if tags.is_empty() {
        json!({"isEmpty": {"arg": resource("tags")}}) // an empty set has no type
    } else {
        eq(resource("tags"), json!({"Set": tags}))
    };
    vec![
        eq(variable("resource"), entity("Capability", &governed.id)),
        eq(resource("effect"), value(governed.side_effect.as_str())),
        eq(resource("risk"), value(governed.risk.as_str())),
        tags,
    ]
}

/// What the schema's own words say of the input's members, as far as it takes no more than comparing: bounds of
/// integers, lists of texts, and texts that are not empty. More is allowed than the schema allows, never less.
fn fits_input(kind: &Type, schema: &Value) -> Vec<Value> {
    let Type::Record(members) = kind else { return Vec::new() };
    let mut all = Vec::new();
    for (name, member) in members {
        let declared = &schema["properties"][name];
        let at = input(name);
        let mut holds = Vec::new();
        match member.kind {
            Type::Long => {
                let bound = |word: &str| declared[word].as_i64().map(|it| value(it));
                holds.extend(bound("minimum").map(|it| json!({"<=": {"left": it, "right": at}})));
                holds.extend(bound("maximum").map(|it| json!({"<=": {"left": at, "right": it}})));
                holds.extend(bound("exclusiveMinimum").map(|it| json!({"<": {"left": it, "right": at}})));
                holds.extend(bound("exclusiveMaximum").map(|it| json!({"<": {"left": at, "right": it}})));
            }
            Type::String => {
                let may_be_empty = declared["minLength"].as_u64().is_none_or(|it| it == 0);
                holds.extend((!may_be_empty).then(|| not(eq(at.clone(), value("")))));
                let listed = declared["enum"].as_array().filter(|all| all.iter().all(Value::is_string));
                holds.extend(listed.map(|all| {
                    let all: Vec<Value> = all.iter().map(|it| json!({"Value": it})).collect();
                    json!({"contains": {"left": {"Set": all}, "right": at}})
                }));
            }
            _ => {}
        }
        all.extend(holds.into_iter().map(|it| when_there(name, member.required, it)));
    }
    all
}

fn input(name: &str) -> Value {
    get(get(variable("context"), "input"), name)
}

/// Something of a member of the input that may not be there.
fn when_there(name: &str, is_required: bool, holds: Value) -> Value {
    if is_required { holds } else { implies(has(get(variable("context"), "input"), name), holds) }
}

fn together(all: Vec<Value>) -> Value {
    all.into_iter().reduce(and).unwrap_or_else(|| value(true))
}

fn time(text: &str) -> Value {
    json!({"datetime": [value(text)]})
}

fn has(left: Value, attribute: &str) -> Value {
    json!({"has": {"left": left, "attr": attribute}})
}

fn among<'a>(member: &str, names: impl IntoIterator<Item = &'a str>) -> Value {
    let all: Vec<Value> = names.into_iter().map(value).collect();
    if all.is_empty() {
        return value(false); // an empty set has no type
    }
    json!({"contains": {"left": {"Set": all}, "right": get(variable("context"), member)}})
}

fn variable(name: &str) -> Value {
    json!({"Var": name})
}

fn value(it: impl Into<Value>) -> Value {
    json!({"Value": it.into()})
}

fn entity(kind: &str, id: &str) -> Value {
    json!({"Value": {"__entity": {"type": kind, "id": id}}})
}

fn role(name: &str) -> Value {
    entity("Role", name)
}

fn get(left: Value, attribute: &str) -> Value {
    json!({".": {"left": left, "attr": attribute}})
}

fn eq(left: Value, right: Value) -> Value {
    json!({"==": {"left": left, "right": right}})
}

fn and(left: Value, right: Value) -> Value {
    json!({"&&": {"left": left, "right": right}})
}

/// The form in which Cedar sees that what `test` asks for is there.
fn implies(test: Value, then: Value) -> Value {
    json!({"if-then-else": {"if": test, "then": then, "else": value(true)}})
}

fn not(arg: Value) -> Value {
    json!({"!": {"arg": arg}})
}
