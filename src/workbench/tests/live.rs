//! Random policy sets and calls: what the workbench says would come of a call is what comes of it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::registry::Registry;
use crate::testing::TestApp;
use crate::workbench::judge::{Question, Ruling, Word, judge};
use crate::{
    Actor, ApprovalRule, Capability, Engine, ErrorCode, HandlerError, Identity, Invocation, JsonInput, Outcome,
    PolicySource, Risk, Surface,
};

/// A write that shows itself almost everywhere, a read with less, and a write that always asks.
fn capabilities() -> Vec<Capability> {
    let done = async |_: Invocation<()>, _: Value| Ok::<_, HandlerError>(json!({}));
    let shown = [Surface::Direct, Surface::Http, Surface::Mcp];
    let input = json!({"type": "object", "additionalProperties": false, "required": ["amount"], "properties": {
        "amount": {"type": "integer"}, "note": {"type": "string"}, "mode": {"type": "string", "default": "normal"}}});
    let output = json!({"type": "object", "additionalProperties": false});
    vec![
        Capability::write("money.send").description("Sends.").risk(Risk::High).expose(shown).json_handler(
            input.clone(),
            output.clone(),
            done,
        ),
        Capability::read("money.look").description("Looks.").risk(Risk::Low).expose([Surface::Direct]).json_handler(
            input.clone(),
            output.clone(),
            done,
        ),
        Capability::write("money.burn")
            .description("Burns.")
            .risk(Risk::High)
            .expose(shown)
            .approval(ApprovalRule::of("m").quorum(2))
            .json_handler(input, output, done),
    ]
}

/// How many of the 24 sets must load: not all can, and without any nothing would be compared.
const LOADED: u32 = 6;

const IDS: [&str; 4] = ["money.send", "money.send", "money.look", "money.burn"];

/// So that no gate is one that nobody can lift.
const APPROVERS: &str = "@id(\"approvers\") permit (principal in Role::\"boss\", \
    action == Countersign::Action::\"approve\", resource);\n";

fn condition() -> impl Strategy<Value = String> {
    let early = [
        "context.surface == \"mcp\"",
        "principal.roles.contains(\"support\")",
        "context has client && context.client == \"agent\"",
        "context.tenant == \"acme\"",
    ];
    let late = [
        "context.input.amount > 50",
        "context.input.mode == \"normal\"",
        "context.input has note && context.input.note == \"x\"",
        "context.input.amount * 1000000000000 > 1",
        "context has approval && context.approval.types.contains(\"m\")",
    ];
    let leaf = prop_oneof![select(early.to_vec()), select(late.to_vec())].prop_map(|it| format!("({it})"));
    leaf.prop_recursive(2, 6, 2, |it| {
        prop_oneof![
            (it.clone(), it.clone()).prop_map(|(one, two)| format!("({one} && {two})")),
            (it.clone(), it.clone()).prop_map(|(one, two)| format!("({one} || {two})")),
            it.prop_map(|it| format!("!{it}")),
        ]
    })
}

/// A policy that loads, whatever its parts.
fn policy() -> impl Strategy<Value = String> {
    let effects = [
        "permit",
        "permit",
        "permit",
        "permit",
        "permit",
        "permit",
        "@reason(\"no\") forbid",
        "@hide forbid",
        "@approval(\"m\") @reason(\"one\") forbid",
        "@approval(\"m\") @quorum(\"2\") forbid",
        "@approval(\"f\") @expires_in(\"2h\") forbid",
    ];
    let principals = ["principal", "principal", "principal in Role::\"support\"", "principal is User"];
    let parts = (select(effects.to_vec()), select(principals.to_vec()), select(IDS.to_vec()));
    (parts, proptest::option::of(condition())).prop_map(|((effect, principal, id), when)| {
        let when = match when {
            // a hide is decided before there is input, and no gate may look at the approval that lifts it
            Some(_) if effect.contains("@hide") => " when { context.surface == \"mcp\" }".into(),
            Some(it) if effect.contains("@approval") => {
                format!(
                    " when {{ {} }}",
                    it.replace("context has approval && context.approval.types.contains", "[\"m\"].contains")
                )
            }
            Some(it) => format!(" when {{ {it} }}"),
            None => String::new(),
        };
        format!("{effect} ({principal}, action == Action::\"{id}\", resource){when};")
    })
}

fn policies() -> impl Strategy<Value = String> {
    proptest::collection::vec(policy(), 2..14).prop_map(|all| {
        let all = all.iter().enumerate().map(|(at, it)| format!("@id(\"{at}\") {it}\n"));
        APPROVERS.to_owned() + &all.collect::<String>()
    })
}

fn identity() -> impl Strategy<Value = Identity> {
    let actors = prop_oneof![
        3 => Just(Actor::user("dana").role("support")),
        1 => Just(Actor::user("omar")),
        1 => Just(Actor::service("crm").role("support")),
        1 => Just(Actor::anonymous().role("support")),
    ];
    let surfaces = select(vec![Surface::Direct, Surface::Direct, Surface::Http, Surface::Mcp, Surface::Workflow]);
    (actors, surfaces, any::<bool>(), any::<bool>()).prop_map(|(actor, surface, acme, client)| {
        let identity = Identity::new(actor).on(surface).tenant(if acme { "acme" } else { "globex" });
        if client { identity.client("agent") } else { identity }
    })
}

fn input() -> impl Strategy<Value = Value> {
    select(vec![
        json!({"amount": 1}),
        json!({"amount": 100, "note": "x"}),
        json!({"amount": 9_007_199_254_740_991_i64}),
        json!({"amount": 100, "mode": "fast"}),
        json!({"amount": "1"}),
        json!({"amount": 1, "other": true}),
    ])
}

fn calls() -> impl Strategy<Value = Vec<(Identity, &'static str, Value)>> {
    proptest::collection::vec((identity(), select(IDS.to_vec()), input()), 24)
}

struct Run {
    app: TestApp<()>,
    set: Arc<crate::policy::PolicySet>,
    registry: Registry,
}

impl Run {
    async fn of(text: &str) -> Option<Self> {
        let source = PolicySource::Files(vec![("a.cedar".into(), text.into())]);
        let builder = Engine::builder().capabilities(capabilities()).policies(source);
        let app = TestApp::new(builder, |_| ()).await.ok()?; // a policy that can never apply does not load
        let set = Arc::clone(&app.engine().core.policies.current().set);
        let drafts = capabilities().into_iter().map(|it| it.draft).collect();
        Some(Self { app, set, registry: Registry::new(drafts).ok()? })
    }

    fn ruling(&self, identity: &Identity, id: &str, input: &Value, approved: Option<BTreeMap<String, u32>>) -> Ruling {
        let now = self.app.clock().now();
        let question = Question {
            identity: identity.clone(),
            capability: Arc::clone(self.registry.get(id).unwrap()),
            input: JsonInput::from(input.clone()),
            now,
            covers: approved.map(|types| Question::approved(types, now)),
            entities: Vec::new(),
        };
        judge(&self.set, &question).ruling
    }

    /// What is on record of the outcome, in the form of a ruling.
    async fn on_record(&self, outcome: &Outcome) -> (String, Value, Value) {
        let trail = self.app.trail_of(outcome.execution_id()).await;
        let told = trail.entries().iter().rfind(|it| !it.data["policies"].is_null() || !it.data["errors"].is_null());
        let data = told.map(|it| it.data.clone()).unwrap_or_default();
        let denied = trail.entries().iter().find_map(|it| it.data["reason"].as_str());
        let word = match (outcome, denied) {
            (Outcome::Completed { .. }, _) => "allow".into(),
            (Outcome::ApprovalRequired { approval, .. }, _) => Word::Approval(approval.types.clone()).to_string(),
            (_, Some("policy_denied")) => "deny".into(),
            (_, Some("policy_failed")) => "failed".into(),
            (_, Some("not_exposed")) => "unexposed".into(),
            (_, Some("hidden")) => "hidden".into(),
            _ if outcome.error().is_some_and(|it| it.code == ErrorCode::InputInvalid) => "invalid".into(),
            _ => format!("{outcome:?}"),
        };
        let list = |name: &str| if data[name].is_null() { json!([]) } else { data[name].clone() };
        (word, list("policies"), list("errors"))
    }

    /// Two bosses agree with each type: one person decides one.
    async fn approve(&self, identity: &Identity, outcome: &Outcome) -> BTreeMap<String, u32> {
        let Outcome::ApprovalRequired { approval, .. } = outcome else { unreachable!() };
        let mut approved = BTreeMap::new();
        for kind in &approval.types {
            for boss in [format!("ann-{kind}"), format!("bob-{kind}")] {
                let boss = Identity::new(Actor::user(boss).role("boss")).tenant(identity.tenant_name());
                if self.app.approvals(boss).approve(&approval.id, kind).await.is_ok() {
                    *approved.entry(kind.clone()).or_insert(0) += 1;
                }
            }
        }
        approved
    }
}

fn told(ruling: &Ruling) -> (String, Value, Value) {
    (ruling.word().to_string(), json!(ruling.policies()), json!(ruling.errors()))
}

/// What comes out otherwise than the workbench says. `None` if the policies do not load.
async fn differences(text: &str, calls: &[(Identity, &'static str, Value)]) -> Option<Vec<String>> {
    let run = Run::of(text).await?;
    let mut differences = Vec::new();
    for (identity, id, input) in calls {
        let caller = run.app.over(identity.surface(), identity.clone());
        let outcome = caller.invoke(*id, input.clone()).await;
        let (said, is) = (told(&run.ruling(identity, id, input, None)), run.on_record(&outcome).await);
        if said != is {
            differences.push(format!("{id} {input} {identity:?}: {said:?} but {is:?}"));
        }
        let Outcome::ApprovalRequired { approval, .. } = &outcome else { continue };
        let approved = run.approve(identity, &outcome).await;
        let resumed = caller.resume(approval.id.as_str()).await;
        let said = told(&run.ruling(identity, id, input, Some(approved)));
        let is = run.on_record(&resumed).await;
        if said != is {
            differences.push(format!("resumed {id} {input} {identity:?}: {said:?} but {is:?}"));
        }
    }
    Some(differences)
}

#[test]
fn what_the_workbench_says_is_what_happens() {
    let loaded = Cell::new(0);
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
    let tested = TestRunner::new(config).run(&(policies(), calls()), |(text, calls)| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let Some(differences) = runtime.block_on(differences(&text, &calls)) else { return Ok(()) };
        loaded.set(loaded.get() + 1);
        proptest::prop_assert!(differences.is_empty(), "{}", differences.join("\n"));
        Ok(())
    });
    tested.unwrap();
    assert!(loaded.get() >= LOADED, "only {} sets load, so hardly anything was compared", loaded.get());
}
