//! Capabilities and policies for the tests of this module.

use std::sync::{Arc, LazyLock};

use cedar_policy::{Policy, PolicyId};
use serde_json::{Value, json};

use super::load::load;
use super::problem::SourceFile;
use super::rules::{self, Origin, Place, Rule};
use super::types::{Member, Type};
use super::{Case, Covers, Gathered, PolicyProblem, PolicySet, PolicySource, Severity, extend};
use crate::actor::{Actor, Identity, Surface};
use crate::capability::{ApprovalRule, Capability, Governed, ResourceMapping, Risk, SideEffect};
use crate::clock::Timestamp;
use crate::schema::Compiler;

pub(super) const NOW: Timestamp = Timestamp(1_735_689_600_000_000);

/// The one place that makes a capability past the registry.
pub(super) fn capability(id: &str, side_effect: SideEffect, risk: Risk, input: Value) -> Arc<Governed> {
    let builder = Capability::builder(id, side_effect).risk(risk).expose(Surface::ALL);
    let handler = async |_: crate::Invocation<()>, it| Ok::<_, crate::HandlerError>(it);
    let draft = builder.json_handler(input, json!({}), handler).draft;
    let (input_schema, output_schema) = (Arc::new(draft.input_schema), Arc::new(draft.output_schema));
    // Some of these schemas would not register; what the policy part makes of them is tested all the same.
    let compiler = Compiler::new();
    let open = Arc::new(json!({"type": "object", "additionalProperties": true}));
    let input = compiler.input("test", &open, |_| true, &mut Vec::new()).unwrap();
    let output = compiler.output("test", &open, &mut Vec::new()).unwrap();
    Arc::new(Governed {
        id: draft.id,
        side_effect,
        risk,
        meta: draft.meta,
        tool_name: id.replace('.', "_"),
        input_schema,
        output_schema,
        input,
        output,
        redact_output: Vec::new(),
        redact_display: Vec::new(),
        digest: String::new(),
        handler: 0,
    })
}

pub(super) fn change(mut capability: Arc<Governed>, change: impl FnOnce(&mut Governed)) -> Arc<Governed> {
    Arc::get_mut(&mut capability).map(change);
    capability
}

/// Exposed nowhere.
pub(super) fn staged(it: Arc<Governed>) -> Arc<Governed> {
    change(it, |it| it.meta.expose.clear())
}

pub(super) fn tagged(it: Arc<Governed>, tags: &[&str]) -> Arc<Governed> {
    change(it, |it| it.meta.tags = tags.iter().map(|it| (*it).to_owned()).collect())
}

pub(super) fn approved_by(it: Arc<Governed>, rule: ApprovalRule) -> Arc<Governed> {
    change(it, |it| it.meta.approval = Some(rule))
}

pub(super) fn on_entity(it: Arc<Governed>, entity: &str) -> Arc<Governed> {
    change(it, |it| it.meta.resource = Some(ResourceMapping { entity: entity.into(), id: "/orderId".into() }))
}

pub(super) fn refund_input() -> Value {
    json!({
        "type": "object", "additionalProperties": false, "required": ["orderId", "amountCents"],
        "properties": {
            "orderId": {"type": "string"},
            "amountCents": {"type": "integer"},
            "a": {"type": "integer"},
            "reason": {"type": ["string", "null"]},
        },
    })
}

/// `orders.refund` (write, high, money), `orders.get` (read, low, on an `Order`), `customers.search` (read, low).
pub(super) fn shop() -> Vec<Arc<Governed>> {
    let id = json!({"type": "object", "required": ["orderId"], "properties": {"orderId": {"type": "string"}}});
    let search = json!({"type": "object", "properties": {"q": {"type": "string"}}});
    vec![
        tagged(capability("orders.refund", SideEffect::Write, Risk::High, refund_input()), &["money"]),
        on_entity(capability("orders.get", SideEffect::Read, Risk::Low, id), "Order"),
        tagged(capability("customers.search", SideEffect::Read, Risk::Low, search), &["pii"]),
    ]
}

pub(super) const SHOP_SCHEMA: &str = "entity Tenant;\nentity Order in [Tenant] = { total: Long };\n\
     entity User = { department?: String, limit?: Long };\n";

pub(super) fn extension(text: &str) -> SourceFile {
    SourceFile { name: extend::FILE.into(), text: text.into() }
}

pub(super) fn source(text: &str) -> PolicySource {
    PolicySource::Files(vec![(extend::FILE.into(), SHOP_SCHEMA.into()), ("a.cedar".into(), text.into())])
}

pub(super) fn shop_set(text: &str) -> Result<(PolicySet, Vec<PolicyProblem>), Vec<PolicyProblem>> {
    load(&source(text), &shop())
}

/// A set that must load.
pub(super) fn set(text: &str) -> PolicySet {
    match shop_set(text) {
        Ok((set, _)) => set,
        Err(problems) => panic!("{}", show(&problems)),
    }
}

/// One line a problem.
pub(super) fn show(problems: &[PolicyProblem]) -> String {
    let line = |it: &PolicyProblem| {
        let weight = match it.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let id = it.policy.as_deref().map(|it| format!(" [{it}]")).unwrap_or_default();
        let help = it.help.as_deref().map(|it| format!(" -- {it}")).unwrap_or_default();
        format!("{weight} {}:{}:{}{id} {}{help}", it.file, it.line, it.column, it.what)
    };
    problems.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Rules past the loader, for sets that name what no schema has. Sorted by id.
pub(super) fn rules(text: &str) -> Vec<Rule> {
    let file = SourceFile { name: "a.cedar".into(), text: text.into() };
    let mut rules: Vec<Rule> = super::scan::scan(text)
        .unwrap()
        .into_iter()
        .map(|span| {
            let start = span.start;
            let policy = Policy::parse(None, &text[span]).unwrap();
            let (id, kind) = rules::read(&policy, &file, start).unwrap();
            let reason = policy.annotation("reason").map(str::to_owned);
            let policy = policy.new_id(PolicyId::new(&id));
            let place = Place { file: "a.cedar".into(), line: 1 };
            Rule { id, policy, kind, reason, origin: Origin::File { index: 0, start }, place }
        })
        .collect();
    rules.sort_by(|one, two| one.id.cmp(&two.id));
    rules
}

/// A call that needs no entities.
pub(super) fn case<'a>(
    identity: &'a Identity,
    governed: &'a Governed,
    input: &'a Value,
    covers: Option<&'a Covers>,
) -> Case<'a> {
    static NONE: LazyLock<Gathered> = LazyLock::new(Gathered::default);
    Case { identity, now: NOW, governed, input, covers, entities: &NONE }
}

pub(super) fn dana() -> Identity {
    Identity::new(Actor::user("dana").role("support"))
}

/// `?` if a member may be missing.
pub(super) fn optional(member: &Member) -> &'static str {
    if member.required { "" } else { "?" }
}

/// A type as a schema would say it.
pub(super) fn show_type(kind: &Type) -> String {
    match kind {
        Type::Set(element) => format!("Set<{}>", show_type(element)),
        Type::Record(members) => {
            let all: Vec<String> =
                members.iter().map(|(name, it)| format!("{name}{}: {}", optional(it), show_type(&it.kind))).collect();
            format!("{{{}}}", all.join(", "))
        }
        Type::Entity(name) => name.to_string(),
        other => format!("{other:?}"),
    }
}
