//! What proofs assume holds of every call; and claims about entities of the application, with a solver where there is one.

use std::io::Write as _;

use cedar_policy::Authorizer;
use serde_json::{Value, json};

use super::*;
use crate::actor::{Actor, Identity};
use crate::policy::request::invoke_context;
use crate::policy::testing::{self, NOW, capability, case, change, set, shop, tagged};
use crate::policy::{Decision, Gathered};
use crate::resource::ResourceEntity;

const POLICIES: &str = r#"
@id("support") permit (principal in Role::"support", action, resource);
@id("people") permit (principal in Role::"manager", action == Countersign::Action::"approve", resource);
@id("large") @approval("manager") forbid (principal, action == Action::"orders.refund", resource)
when { context.input.amountCents > 50000 };
@id("own") forbid (principal, action == Action::"orders.get", resource) unless { resource.total < 100 };
"#;

/// On all surfaces, and one with bounds.
fn exposed() -> Vec<Arc<Governed>> {
    shop().into_iter().map(|it| change(it, |it| it.meta.expose = Surface::ALL.into())).collect()
}

/// The solver; says loudly that a test is skipped where there is none.
fn solver(test: &str) -> Option<Solver> {
    let named = std::env::vars_os().find(|(name, _)| name == "CVC5").map_or("cvc5".into(), |it| it.1);
    let found = std::process::Command::new(&named).arg("--version").output().is_ok_and(|it| it.status.success());
    if !found {
        // Past the capture of what passing tests print.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: there is no solver; install cvc5, or name it in CVC5");
    }
    found.then(|| Solver { executable: named.into(), limit: Duration::from_secs(30) })
}

fn verdict(set: &PolicySet, capabilities: &[Arc<Governed>], claim: Claim, solver: &Solver) -> Verdict {
    let mut proofs = prove(set, capabilities, &[claim], solver).unwrap();
    proofs.remove(0).verdict
}

fn identities() -> Vec<Identity> {
    let actors = ActorKind::ALL.map(|kind| Actor::new(kind, "kim").role("support").role("other"));
    let mut all: Vec<Identity> = actors.into_iter().map(Identity::new).collect();
    all.push(Identity::new(Actor::user("jo").issuer("https://id.example")).tenant("acme").client("agent-7"));
    all.push(Identity::new(Actor::service("bot").role("manager")));
    all
}

#[test]
fn what_proofs_assume_holds_of_every_call() {
    let bounded = json!({"type": "object", "required": ["n", "word"], "properties": {
        "n": {"type": "integer", "minimum": -5, "exclusiveMaximum": 10},
        "m": {"type": "integer", "maximum": 3, "exclusiveMinimum": 0},
        "word": {"$ref": "#/$defs/Word"},
        "text": {"type": "string", "minLength": 1},
    }, "$defs": {"Word": {"type": "string", "enum": ["a", "b"]}}});
    let bare = capability("bounded.do", crate::SideEffect::Write, crate::Risk::Low, bounded);
    let capabilities = [exposed(), vec![change(tagged(bare, &[]), |it| it.meta.expose = Surface::ALL.into())]].concat();
    let set = {
        let source = testing::source(POLICIES);
        load::load(&source, &capabilities).map_err(|it| testing::show(&it)).unwrap().0
    };
    let inputs: [(&str, &[Value]); 4] = [
        (
            "orders.refund",
            &[json!({"orderId": "", "amountCents": i64::MAX}), json!({"orderId": "o", "amountCents": -1})],
        ),
        ("orders.get", &[json!({"orderId": "o"})]),
        ("customers.search", &[json!({}), json!({"q": ""})]),
        (
            "bounded.do",
            &[
                json!({"n": -5, "word": "a"}),
                json!({"n": 9, "m": 3, "word": "b", "text": "t"}),
                json!({"n": 0, "m": 1, "word": "a"}),
            ],
        ),
    ];
    let mut asked = 0;
    for (id, inputs) in inputs {
        let governed = capabilities.iter().find(|it| &*it.id == id).unwrap();
        let compiled = set.capabilities.get(&governed.id).unwrap();
        let world = World::of(&set, Subject::Call(governed, compiled), &[]).unwrap();
        let forbid = cedar_policy::PolicySet::from_policies([world.forbid]).unwrap();
        for (identity, surface) in identities().iter().flat_map(|it| Surface::ALL.map(|surface| (it, surface))) {
            for input in inputs {
                let identity = identity.clone().on(surface);
                let principal = set.principal(&identity).unwrap();
                let context = invoke_context(compiled, &case(&identity, governed, input, None)).unwrap();
                let request = set.request(compiled, &principal, context, input).unwrap();
                let order = [ResourceEntity::new("Order", "o").attribute("total", 5)];
                let gathered =
                    set.gathered(&principal, governed, input, &order).unwrap_or_else(|_| Gathered::default());
                let entities = principal.among(&compiled.base, &gathered).unwrap();
                let response = Authorizer::new().is_authorized(&request, &forbid, &entities);
                let found = (response.diagnostics().reason().count(), response.diagnostics().errors().count());
                assert_eq!(found, (0, 0), "{id} {identity:?} {input}");
                asked += 1;
            }
        }
    }
    assert_eq!((asked, NOW.0 > 0), (240, true));
}

#[test]
fn a_counterexample_brings_the_entities_that_it_is_about() {
    let Some(solver) = solver("counterexamples about entities") else { return };
    let set = set(POLICIES);
    let calls = Calls { capabilities: vec!["orders.get".into()], when: None };
    let claim = Claim::OnlyRole { calls, roles: vec!["manager".into()] };
    let Verdict::Refuted(found) = verdict(&set, &exposed(), claim, &solver) else { panic!("it is not refuted") };
    let call = found.call.unwrap();
    let [order] = &*call.entities else { panic!("{:?}", call.entities) };
    assert_eq!(found.resource, format!("Order::{:?}", order.entity.id));
    assert_eq!(call.input["orderId"], json!(order.entity.id));
    assert!(order.attributes["total"].as_i64().unwrap() < 100);
}

#[test]
fn nobody_in_particular_gets_nothing_approved() {
    let Some(solver) = solver("anonymous calls") else { return };
    let set = set(r#"
@id("anybody") permit (principal is Anonymous, action == Action::"orders.refund", resource);
@id("people") permit (principal in Role::"manager", action == Countersign::Action::"approve", resource);
@id("all") @approval("manager") forbid (principal, action == Action::"orders.refund", resource);
"#);
    let calls = Calls { capabilities: vec!["orders.refund".into()], when: None };
    let claim = Claim::NeverOver { calls, surface: Surface::Http };
    assert!(matches!(verdict(&set, &exposed(), claim, &solver), Verdict::Proved));
}

#[test]
fn a_call_on_which_a_policy_errs_refutes_nothing() {
    let Some(solver) = solver("calls on which policies err") else { return };
    let set = set(r#"
@id("support") permit (principal in Role::"support", action == Action::"orders.refund", resource);
@id("sum") forbid (principal, action == Action::"orders.refund", resource)
when { context.input.amountCents + 1 <= 9223372036854775807 };
"#);
    let calls = Calls { capabilities: vec!["orders.refund".into()], when: None };
    let claim = Claim::NeverOver { calls, surface: Surface::Http };
    let Verdict::Unknown(why) = verdict(&set, &exposed(), claim, &solver) else { panic!("it is settled") };
    insta::assert_snapshot!(why, @"the only call found makes `sum` err, which refuses it: see to `no_errors` first");
    let claim = Claim::NoErrors { policies: set.policy_ids() };
    let Verdict::Refuted(found) = verdict(&set, &exposed(), claim, &solver) else { panic!("it is not refuted") };
    assert_eq!(found.erring, ["sum"]);
    assert_eq!(found.call.unwrap().input["amountCents"], json!(i64::MAX));
}

/// Refunds by everybody from everywhere, decided.
fn refunds(set: &PolicySet, capabilities: &[Arc<Governed>]) -> impl Iterator<Item = (Identity, Decision)> {
    let governed = Arc::clone(&capabilities[0]);
    let callers = identities().into_iter().flat_map(|it| Surface::ALL.map(|surface| it.clone().on(surface)));
    let calls = callers.flat_map(|it| [0, 50, 51].map(|cents| (it.clone(), cents)));
    calls.map(move |(identity, cents)| {
        let input = json!({"orderId": "o", "amountCents": cents});
        let principal = set.principal(&identity).unwrap();
        let decision = set.decide(&principal, &case(&identity, &governed, &input, None));
        (identity, decision)
    })
}

/// Whether a claim about refunds does not hold of a call, by the engine's own decision.
fn contradicts(claim: &Claim, identity: &Identity, decision: &Decision) -> bool {
    let (allowed, gates) = match decision {
        Decision::Allow { .. } => (true, Vec::new()),
        Decision::RequireApproval(it) => (true, it.requirements.iter().map(|it| it.kind.clone()).collect()),
        Decision::Deny { .. } | Decision::Failed(_) => (false, Vec::new()),
    };
    allowed
        && match claim {
            Claim::NeverWithoutApproval { kind, .. } => !gates.contains(kind),
            Claim::OnlyRole { roles, .. } => !identity.actor().unwrap().roles.iter().any(|it| roles.contains(it)),
            Claim::NeverOver { surface, .. } => identity.surface() == *surface,
            Claim::NoErrors { .. } | Claim::Implies { .. } => false,
        }
}

#[test]
fn what_is_proved_no_call_contradicts() {
    let Some(solver) = solver("proofs against calls") else { return };
    let gate = "@id(\"gate\") @approval(\"manager\") forbid (principal, action, resource)";
    let conditions = [
        "when { context.input.amountCents > 50 }",
        "unless { principal.roles.contains(\"other\") && context.surface != \"http\" }",
        "when { resource.risk == \"high\" && principal has tenant && principal.tenant == context.tenant }",
        "unless { principal in Role::\"support\" || principal has issuer }",
    ];
    let people = "@id(\"people\") permit (principal in Role::\"manager\", \
        action == Countersign::Action::\"approve\", resource);";
    let (mut asked, mut refuted) = (0, 0);
    for (permit, forbid) in conditions.iter().flat_map(|one| conditions.iter().map(move |two| (one, two))) {
        let scope = "(principal, action == Action::\"orders.refund\", resource)";
        let gate = gate.replace("(principal, action, resource)", scope);
        let set = set(&format!("@id(\"permit\") permit {scope} {permit};\n{gate} {forbid};\n{people}"));
        let calls = || Calls { capabilities: vec!["orders.refund".into()], when: None };
        let claims = [
            Claim::NeverWithoutApproval { calls: calls(), kind: "manager".into() },
            Claim::OnlyRole { calls: calls(), roles: vec!["support".into()] },
            Claim::NeverOver { calls: calls(), surface: Surface::Http },
        ];
        let capabilities = exposed();
        let proofs = prove(&set, &capabilities, &claims, &solver).unwrap();
        for (claim, proof) in claims.iter().zip(proofs) {
            let contradicted = refunds(&set, &capabilities).any(|(it, decision)| contradicts(claim, &it, &decision));
            match proof.verdict {
                Verdict::Proved => assert!(!contradicted, "{permit} {forbid}"),
                Verdict::Refuted(_) => refuted += 1,
                Verdict::Unknown(why) | Verdict::Unsupported(why) => panic!("{why}"),
            }
            asked += 1;
        }
    }
    assert_eq!((asked, refuted), (48, 41));
}
