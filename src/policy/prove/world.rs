//! What the engine makes true of every call: without it a solver refutes claims with calls that cannot be.
//!
//! An assumption is a condition in Cedar's JSON form, so that no name is ever spliced into text.

use std::collections::BTreeSet;

use cedar_policy::pst::{Clause, Template};
use cedar_policy::{Policy, PolicyId};
use serde_json::{Map, Value, json};

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
                all.push(one_of(governed.meta.expose.iter().map(|it| it.as_str()), surface()));
                all.extend(fits_input(&compiled.input, &governed.input_schema));
                if let Resource::Capability(_) = compiled.resource {
                    all.extend(is_capability(governed));
                }
            }
            Subject::Manage(_) => all.push(one_of(Surface::ALL.map(Surface::as_str), surface())),
        }
        let mut plain = plain();
        if let Subject::Call(_, compiled) = subject {
            plain.extend(has_texts(&compiled.input));
        }
        let direct = eq(surface(), value(Surface::Direct.as_str()));
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
    let covers = pair("contains", get(approval, "types"), value(kind));
    forbid("<covered>", "when", &and(has(variable("context"), "approval"), covers))
}

/// Refuses whoever is in one of these roles.
pub(super) fn in_roles(roles: &[String]) -> Result<Policy, String> {
    let all: Vec<Value> = roles.iter().map(|it| role(it)).collect();
    forbid("<roles>", "when", &pair("in", variable("principal"), json!({"Set": all})))
}

/// Refuses every other surface.
pub(super) fn not_over(only: Surface) -> Result<Policy, String> {
    forbid("<surface>", "unless", &eq(surface(), value(only.as_str())))
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
        pair("<=", time("1970-01-01"), now()),
        pair("<", now(), time("9999-01-01")),
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
        is_empty(get(principal(), "scopes")),
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
    let is_in = pair("in", variable("principal"), role(name));
    let has = pair("contains", get(variable("principal"), "roles"), value(name));
    eq(is_in, has)
}

/// The capability is the resource, with its own attributes.
fn is_capability(governed: &Governed) -> Vec<Value> {
    let resource = |attribute: &str| get(variable("resource"), attribute);
    let tags: Vec<Value> = governed.meta.tags.iter().map(|it| value(&**it)).collect();
    let tags = if tags.is_empty() {
        is_empty(resource("tags")) // an empty set has no type
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
        let named = declared["$ref"].as_str().and_then(|it| schema.pointer(it.strip_prefix('#')?));
        let holds = [declared].into_iter().chain(named).flat_map(|it| fits(&member.kind, it, &input(name)));
        all.extend(holds.map(|it| when_there(name, member.required, it)));
    }
    all
}

/// What a schema says of one value.
fn fits(kind: &Type, schema: &Value, it: &Value) -> Vec<Value> {
    let bound = |word: &str| schema[word].as_i64().map(value);
    match kind {
        Type::Long => {
            let least = bound("minimum").map(|least| pair("<=", least, it.clone()));
            let most = bound("maximum").map(|most| pair("<=", it.clone(), most));
            let above = bound("exclusiveMinimum").map(|least| pair("<", least, it.clone()));
            let below = bound("exclusiveMaximum").map(|most| pair("<", it.clone(), most));
            [least, most, above, below].into_iter().flatten().collect()
        }
        Type::String => {
            let is_some = schema["minLength"].as_u64().is_some_and(|it| it > 0);
            let not_empty = is_some.then(|| not(eq(it.clone(), value(""))));
            let listed = schema["enum"].as_array().filter(|all| all.iter().all(Value::is_string));
            let listed = listed.map(|all| one_of(all.iter().filter_map(Value::as_str), it.clone()));
            not_empty.into_iter().chain(listed).collect()
        }
        _ => Vec::new(),
    }
}

fn surface() -> Value {
    get(variable("context"), "surface")
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

/// Whether a text is among others.
fn one_of<'a>(texts: impl IntoIterator<Item = &'a str>, it: Value) -> Value {
    let all: Vec<Value> = texts.into_iter().map(value).collect();
    if all.is_empty() {
        return value(false); // an empty set has no type
    }
    pair("contains", json!({"Set": all}), it)
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
    node(".", [("left", left), ("attr", attribute.into())])
}

fn has(left: Value, attribute: &str) -> Value {
    node("has", [("left", left), ("attr", attribute.into())])
}

fn eq(left: Value, right: Value) -> Value {
    pair("==", left, right)
}

fn and(left: Value, right: Value) -> Value {
    pair("&&", left, right)
}

/// The form in which Cedar sees that what `test` asks for is there.
fn implies(test: Value, then: Value) -> Value {
    node("if-then-else", [("if", test), ("then", then), ("else", value(true))])
}

fn not(arg: Value) -> Value {
    node("!", [("arg", arg)])
}

fn is_empty(arg: Value) -> Value {
    node("isEmpty", [("arg", arg)])
}

fn pair(operator: &str, left: Value, right: Value) -> Value {
    node(operator, [("left", left), ("right", right)])
}

fn node<const N: usize>(name: &str, members: [(&str, Value); N]) -> Value {
    let members = members.into_iter().map(|(name, it)| (name.to_owned(), it)).collect();
    Value::Object(Map::from_iter([(name.to_owned(), Value::Object(members))]))
}
