//! The Cedar schema that is generated from the registered capabilities. Built as JSON and printed by Cedar, so that no
//! name is ever spliced into text.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use cedar_policy::{Entities, EntityTypeName, EntityUid, Schema, SchemaFragment};
use serde_json::{Map, Value, json};

use super::gather::{Shape, Shapes};
use super::input::{LeftOut, of_arrays, of_input};
use super::problem::{MAX_PROBLEMS, SourceFile, did_you_mean};
use super::types::{Member, Type, named, record};
use super::value::uid;
use super::{ManageAction, PolicyProblem, extend};
use crate::CapabilityId;
use crate::actor::ActorKind;
use crate::capability::{Governed, Risk, SideEffect};

/// What stands for the registered capabilities where a file is named.
pub(super) const CAPABILITY_FILE: &str = "<capability>";
/// What stands for the generated schema where a file is named.
const SCHEMA_FILE: &str = "schema";

/// The attributes that every principal has; the optional ones are false.
pub(super) const PRINCIPAL_ATTRIBUTES: [(&str, bool); 4] =
    [("roles", true), ("scopes", true), ("tenant", false), ("issuer", false)];

/// The schema, ready to check with, and what was learned while it was made.
#[cfg_attr(test, derive(Clone))]
pub(super) struct Generated {
    pub(super) schema: Schema,
    pub(super) text: String,
    /// What the schema was made from.
    document: Value,
    /// Every action and group. An action that is left out of the entities is in no group, silently.
    pub(super) actions: Entities,
    pub(super) inputs: HashMap<CapabilityId, Type>,
    /// Per capability what policies miss of its input, by path.
    pub(super) unseen: BTreeMap<String, Vec<LeftOut>>,
    pub(super) shapes: Shapes,
    /// Per kind of principal, the attributes that the application declares.
    pub(super) attributes: HashMap<&'static str, BTreeMap<String, Member>>,
    /// The names of all roles, if the application lists them.
    pub(super) roles: Option<BTreeSet<String>>,
}

/// Generates, and says what policies cannot see.
pub(super) fn generate(
    capabilities: &[Arc<Governed>],
    extension: Option<&SourceFile>,
) -> (Option<Generated>, Vec<PolicyProblem>) {
    let mut problems = Vec::new();
    let mut document = json!({"": {"entityTypes": entity_types(), "commonTypes": {}, "actions": {}}});
    if let Some(file) = extension {
        problems.extend(extend::merge(&mut document, file));
    }
    let inputs = add_capabilities(&mut document, capabilities, &mut problems);
    document["Countersign"] = management();
    if problems.iter().any(PolicyProblem::is_fatal) {
        return (None, problems);
    }
    match compile(&document, inputs) {
        Ok(generated) => {
            problems.extend(extension.into_iter().flat_map(|file| generated.unsupplied(file)));
            if problems.iter().any(PolicyProblem::is_fatal) { (None, problems) } else { (Some(generated), problems) }
        }
        Err(mut why) => {
            if let Some(file) = extension {
                // it ends with the name that is at fault
                let word = why.what.rsplit([' ', '`', '.']).find(|it| !it.is_empty()).unwrap_or_default().to_owned();
                let help = why.help.take();
                *why = file.problem_at_word(0, &word, why.what).maybe_help(help);
            }
            problems.push(*why);
            (None, problems)
        }
    }
}

fn compile(document: &Value, (inputs, unseen): Inputs) -> Result<Generated, Box<PolicyProblem>> {
    let wrong = |it: &dyn std::error::Error| {
        let cause = it.source().map_or_else(String::new, |it| format!(": {it}"));
        let problem = PolicyProblem::of_file(SCHEMA_FILE, format!("{it}{cause}"));
        Box::new(problem.help("declare what is missing, or rename it"))
    };
    let fragment = SchemaFragment::from_json_value(document.clone()).map_err(|it| wrong(&it))?;
    let text = fragment.to_cedarschema().map_err(|it| wrong(&it))?;
    let schema = Schema::from_schema_fragments([fragment]).map_err(|it| wrong(&it))?;
    let actions = schema.action_entities().map_err(|it| wrong(&it))?;
    let listed = document[""]["entityTypes"]["Role"]["enum"].as_array();
    let roles = listed.map(|all| all.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    let shapes = shapes(document)?;
    Ok(Generated {
        attributes: declared_attributes(&shapes),
        schema,
        text,
        document: document.clone(),
        actions,
        inputs,
        unseen,
        shapes,
        roles,
    })
}

impl Generated {
    /// The same schema for requests of these actions only. The others keep their names and groups.
    pub(super) fn narrowed(&self, keep: impl Fn(&EntityUid) -> bool) -> Option<Schema> {
        let mut document = Map::new();
        for (namespace, all) in self.document.as_object()? {
            let mut declared = all.clone();
            let kind = if namespace.is_empty() { "Action".into() } else { format!("{namespace}::Action") };
            let kind: EntityTypeName = kind.parse().ok()?;
            for (id, action) in declared["actions"].as_object_mut().into_iter().flatten() {
                if let Some(it) = action.as_object_mut().filter(|_| !keep(&uid(&kind, id))) {
                    it.remove("appliesTo");
                }
            }
            document.insert(namespace.clone(), declared);
        }
        Schema::from_json_value(Value::Object(document)).ok()
    }

    /// Attributes of principals that refer to entities with parents. Those are not fetched, so that `in` would say no
    /// whatever the truth, and a forbid over it never hold.
    fn unsupplied(&self, file: &SourceFile) -> Vec<PolicyProblem> {
        let mut problems = Vec::new();
        for kind in ActorKind::ALL.map(ActorKind::entity_type) {
            for (name, member) in self.attributes.get(kind).into_iter().flatten() {
                let Some(entity) = member.kind.entities().into_iter().find(|it| self.has_parents(it)) else { continue };
                let what = format!(
                    "`{kind}.{name}` refers to `{entity}`, whose parents nothing supplies: `in` would not see them"
                );
                let help = "make what policies ask for a role, or an attribute of its own that they compare";
                problems.push(file.problem_at_word(extend::declaration(file, kind), name, what).help(help));
            }
        }
        problems.truncate(MAX_PROBLEMS);
        problems
    }

    fn has_parents(&self, entity: &EntityTypeName) -> bool {
        let full = entity.to_string();
        let (namespace, base) = full.rsplit_once("::").unwrap_or(("", &full));
        has_parents(&self.document[namespace]["entityTypes"][base])
    }
}

fn has_parents(entity: &Value) -> bool {
    entity["memberOfTypes"].as_array().is_some_and(|it| !it.is_empty())
}

/// What an application declares of the principals.
fn declared_attributes(shapes: &Shapes) -> HashMap<&'static str, BTreeMap<String, Member>> {
    let own = |name: &str| PRINCIPAL_ATTRIBUTES.iter().any(|(own, _)| *own == name);
    let declared = |kind: &str| {
        let all = shapes.get(kind).into_iter().flat_map(|it| &it.attributes);
        all.filter(|(name, _)| !own(name)).map(|(name, it)| (name.clone(), it.clone())).collect()
    };
    ActorKind::ALL.map(ActorKind::entity_type).map(|kind| (kind, declared(kind))).into()
}

/// Every entity type but those that only the engine makes.
fn shapes(document: &Value) -> Result<Shapes, Box<PolicyProblem>> {
    let mut out = Shapes::new();
    for (namespace, declared) in document.as_object().into_iter().flatten().filter(|it| it.0 != "Countersign") {
        for (base, entity) in declared["entityTypes"].as_object().into_iter().flatten() {
            let full = if namespace.is_empty() { base.clone() } else { format!("{namespace}::{base}") };
            if full != "Capability" {
                let shape = shape(&full, entity, document, namespace)?;
                out.insert(full, shape);
            }
        }
    }
    Ok(out)
}

fn shape(full: &str, entity: &Value, document: &Value, namespace: &str) -> Result<Shape, Box<PolicyProblem>> {
    let wrong = |what: String, help: &str| Box::new(PolicyProblem::of_file(SCHEMA_FILE, what).help(help));
    if !entity["tags"].is_null() {
        return Err(wrong(format!("`{full}` has tags, which nothing fills"), "declare attributes"));
    }
    let mut attributes = BTreeMap::new();
    for (name, declared) in entity["shape"]["attributes"].as_object().into_iter().flatten() {
        let Some(kind) = Type::from_json(declared, document, namespace) else {
            let what = format!("no attribute can have the type of `{full}.{name}`");
            let help = "use Bool, Long, String, datetime, decimal, ipaddr, an entity, sets and records of them";
            return Err(wrong(what, help));
        };
        attributes.insert(name.clone(), Member { kind, required: declared["required"] != json!(false) });
    }
    let name = full.parse().map_err(|_| wrong(format!("`{full}` is no type"), "rename it"))?;
    let fetched = full != "Role" && (has_parents(entity) || !attributes.is_empty());
    Ok(Shape { name, attributes, fetched })
}

/// Every group that an action of this capability is in.
fn groups(capability: &Governed) -> BTreeSet<String> {
    let mut groups = BTreeSet::from([
        "invoke".to_owned(),
        format!("effect/{}", capability.side_effect.as_str()),
        format!("risk/{}", capability.risk.as_str()),
    ]);
    groups.extend(capability.meta.tags.iter().map(|it| format!("tag/{it}")));
    groups.extend(capability.id.match_indices('.').map(|(at, _)| format!("{}.*", &capability.id[..at])));
    groups
}

/// They exist without members too, so that a general rule always loads.
fn general_groups() -> BTreeSet<String> {
    let effects = SideEffect::ALL.map(|it| format!("effect/{}", it.as_str()));
    let risks = Risk::ALL.map(|it| format!("risk/{}", it.as_str()));
    effects.into_iter().chain(risks).chain(["invoke".to_owned()]).collect()
}

/// The types of the inputs, and what they leave out.
type Inputs = (HashMap<CapabilityId, Type>, BTreeMap<String, Vec<LeftOut>>);

fn add_capabilities(document: &mut Value, capabilities: &[Arc<Governed>], problems: &mut Vec<PolicyProblem>) -> Inputs {
    let (mut inputs, mut unseen) = Inputs::default();
    let (mut all_groups, mut actions) = (general_groups(), Map::new());
    for capability in capabilities {
        let mut left_out = Vec::new();
        let input = of_input(&capability.input_schema, &mut left_out);
        problems.extend(left_out.iter().map(|it| invisible(&capability.id, it)));
        let groups = groups(capability);
        let resource = resource_type(document, capability, problems);
        actions.insert(capability.id.to_string(), action(&groups, &resource, invoke_context(&input)));
        all_groups.extend(groups);
        left_out.extend(of_arrays(&input, ""));
        left_out.sort();
        unseen.insert(capability.id.to_string(), left_out);
        inputs.insert(capability.id.clone(), input);
    }
    for group in all_groups {
        if actions.contains_key(&group) {
            let what = format!("the id `{group}` is the name of a group of actions");
            problems.push(PolicyProblem::of_file(CAPABILITY_FILE, what).help("rename the capability"));
        }
        actions.insert(group, json!({}));
    }
    document[""]["actions"] = Value::Object(actions);
    (inputs, unseen)
}

fn invisible(capability: &CapabilityId, it: &LeftOut) -> PolicyProblem {
    let what = format!("policies cannot see `{}` in the input of `{capability}`: {}", it.path, it.why);
    PolicyProblem::of_file(SCHEMA_FILE, what).help("a policy that refers to it does not load").note()
}

fn resource_type(document: &Value, capability: &Governed, problems: &mut Vec<PolicyProblem>) -> String {
    let own = "Capability".to_owned();
    let Some(mapping) = &capability.meta.resource else { return own };
    let (namespace, base) = mapping.entity.rsplit_once("::").unwrap_or(("", &mapping.entity));
    let declared = |it: &str| document.get(namespace).is_some_and(|all| !all["entityTypes"][it].is_null());
    let ours = namespace.is_empty() && matches!(base, "Capability" | "Role");
    let usable = declared(base) && !ours && mapping.entity.parse::<EntityTypeName>().is_ok();
    if usable {
        return mapping.entity.clone();
    }
    let what = format!("`{}` acts on `{}`, which is no entity type of the application", capability.id, mapping.entity);
    let names = document[""]["entityTypes"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    problems.push(
        PolicyProblem::of_file(CAPABILITY_FILE, what)
            .help(format!("declare `entity {base};` in `{}`", extend::FILE))
            .maybe_help(did_you_mean(&mapping.entity, names)),
    );
    own
}

fn entity_types() -> Value {
    let attributes = |kind: &str, required: bool| {
        let mut it = if kind == "roles" || kind == "scopes" { strings() } else { named("String") };
        it["required"] = json!(required);
        it
    };
    let shape = record(PRINCIPAL_ATTRIBUTES.map(|(name, required)| (name.to_owned(), attributes(name, required))));
    let mut all = Map::new();
    for kind in ActorKind::ALL {
        all.insert(kind.entity_type().into(), json!({"memberOfTypes": ["Role"], "shape": shape}));
    }
    all.insert("Role".into(), json!({}));
    let attributes = [("effect", named("String")), ("risk", named("String")), ("tags", strings())];
    let shape = record(attributes.map(|(name, kind)| (name.to_owned(), kind)));
    all.insert("Capability".into(), json!({"shape": shape}));
    Value::Object(all)
}

fn management() -> Value {
    let mut attributes: Vec<(String, Value)> =
        ["capability", "risk", "effect", "tenant"].map(|name| (name.to_owned(), named("String"))).into();
    // Cedar has no unions, so a requester is in the one of four members that has its type.
    attributes.extend(
        ActorKind::ALL
            .map(ActorKind::entity_type)
            .map(|kind| (format!("requester{kind}"), json!({"type": "Entity", "name": kind, "required": false}))),
    );
    let mut actions = Map::from_iter([("manage".to_owned(), json!({}))]);
    for it in ManageAction::ALL {
        let (mut context, mut resources) = (base_context(), vec!["Approval", "Engine"]);
        if it.decides() {
            context.insert("requirement".into(), named("String"));
            resources.truncate(1);
        }
        actions.insert(it.as_str().into(), applies(&["manage"], &resources, context));
    }
    let entities = json!({"Approval": {"shape": record(attributes)}, "Engine": {}});
    json!({"entityTypes": entities, "actions": actions})
}

fn action(groups: &BTreeSet<String>, resource: &str, context: Map<String, Value>) -> Value {
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    applies(&groups, &[resource], context)
}

fn applies(groups: &[&str], resources: &[&str], context: Map<String, Value>) -> Value {
    let groups: Vec<Value> = groups.iter().map(|it| json!({"id": it})).collect();
    json!({"memberOf": groups, "appliesTo": {
        "principalTypes": ActorKind::ALL.map(ActorKind::entity_type),
        "resourceTypes": resources,
        "context": record(context),
    }})
}

fn base_context() -> Map<String, Value> {
    let mut client = named("String");
    client["required"] = json!(false);
    let members =
        [("surface", named("String")), ("tenant", named("String")), ("client", client), ("now", named("datetime"))];
    members.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect()
}

fn invoke_context(input: &Type) -> Map<String, Value> {
    let members = [("id", named("String")), ("types", strings()), ("decidedAt", named("datetime"))];
    let mut approval = record(members.map(|(name, kind)| (name.to_owned(), kind)));
    approval["required"] = json!(false);
    let mut context = base_context();
    context.insert("approval".into(), approval);
    context.insert("input".into(), input.to_json());
    context
}

fn strings() -> Value {
    json!({"type": "Set", "element": named("String")})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::{self, capability, extension};

    fn text(capabilities: &[Arc<Governed>], more: Option<&SourceFile>) -> String {
        let (generated, problems) = generate(capabilities, more);
        generated.map_or_else(|| format!("{problems:#?}"), |it| it.text)
    }

    #[test]
    fn the_schema_of_a_small_application() {
        let all = [capability("orders.refund", SideEffect::Write, Risk::High, testing::refund_input())];
        insta::assert_snapshot!(text(&all, None));
    }

    #[test]
    fn what_policies_cannot_see_is_a_note_that_names_the_path() {
        let input = json!({"type": "object", "properties": {"meta": {"type": "object"}, "n": {"type": "number"}}});
        let (generated, problems) = generate(&[capability("a.b", SideEffect::Read, Risk::Low, input)], None);
        assert!(generated.is_some());
        assert!(problems.iter().all(|it| !it.is_fatal()));
        let lines: Vec<&str> = problems.iter().map(|it| it.what.as_str()).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        policies cannot see `/meta` in the input of `a.b`: it is a map
        policies cannot see `/n` in the input of `a.b`: it is a number without `multipleOf` a multiple of 0.0001
        "#);
    }

    #[test]
    fn an_application_extends_principals_and_adds_types() {
        let more = extension(
            "type Limits = { cents: Long };\nentity Team;\nentity Role enum [\"support\"];\n\
             namespace Shop { entity Desk; type Seat = { desk: Desk, next?: Desk }; }\n\
             entity User in [Role] = { limits: Limits, seat?: Shop::Seat, teams?: Set<Team> };",
        );
        let (generated, problems) = generate(&[], Some(&more));
        assert_eq!(problems, []);
        let generated = generated.unwrap();
        assert_eq!(generated.roles, Some(BTreeSet::from(["support".to_owned()])));
        let user = testing::show_type(&Type::Record(generated.attributes["User"].clone()));
        insta::assert_snapshot!(user, @r#"{limits: {cents: Long}, seat?: {desk: Shop::Desk, next?: Shop::Desk}, teams?: Set<Team>}"#);
        assert_eq!(generated.attributes["Service"], BTreeMap::new());
    }

    #[test]
    fn an_entity_that_a_capability_acts_on_must_be_declared() {
        let all = [testing::on_entity(capability("orders.get", SideEffect::Read, Risk::Low, json!({})), "Ordr")];
        let (generated, problems) = generate(&all, Some(&extension("entity Order;")));
        assert!(generated.is_none());
        let fatal: Vec<_> =
            problems.iter().filter(|it| it.is_fatal()).map(|it| (&*it.what, it.help.as_deref())).collect();
        assert_eq!(
            fatal,
            [(
                "`orders.get` acts on `Ordr`, which is no entity type of the application",
                Some("did you mean `Order`?")
            )]
        );
    }

    #[test]
    fn the_id_of_a_group_is_reserved() {
        let all = [capability("invoke", SideEffect::Read, Risk::Low, testing::refund_input())];
        let (generated, problems) = generate(&all, None);
        assert!(generated.is_none());
        assert_eq!(problems[0].what, "the id `invoke` is the name of a group of actions");
    }
}
