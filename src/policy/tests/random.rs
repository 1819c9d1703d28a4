//! Random sets: what is fast against what is obvious.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use cedar_policy::{Authorizer, Decision as Answer, Entities, PolicySet as Set, Request};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::sample::select;
use serde_json::{Value, json};

use crate::actor::{Actor, Identity, Surface};
use crate::audit::{PolicyError, PolicyRef, Requirement};
use crate::capability::{Governed, RequiresApproval};
use crate::policy::compile::compile;
use crate::policy::decide::policy_error;
use crate::policy::request::invoke_context;
use crate::policy::rules::{Kind, Rule};
use crate::policy::schema::{Generated, generate};
use crate::policy::testing::{NOW, SHOP_SCHEMA, case, extension, rules, shop};
use crate::policy::{Case, Covers, Decision, Gates, Gathered, Listed, PolicySet, Principal, Visibility};
use crate::resource::ResourceEntity;
use crate::seen::Facts;

/// Without the linter: it refuses many of these, and deciding must be right all the same.
fn unlinted(text: &str) -> (PolicySet, Vec<Rule>) {
    static GENERATED: LazyLock<Generated> = LazyLock::new(|| generate(&SHOP, Some(&extension(SHOP_SCHEMA))).0.unwrap());
    let rules = rules(text);
    (compile(GENERATED.clone(), rules.clone(), &SHOP, [].into()).unwrap(), rules)
}

static SHOP: LazyLock<Vec<Arc<Governed>>> = LazyLock::new(shop);

const INDEPENDENT: [&str; 5] = [
    "context.surface == \"mcp\"",
    "principal.roles.contains(\"support\")",
    "principal is User",
    "principal is User && principal has limit && principal.limit * 2 > 1",
    "action in Action::\"tag/money\"",
];
const DEPENDENT: [&str; 10] = [
    "context.input.orderId == \"1\"",
    "context.input has amountCents && context.input.amountCents > 50",
    "!(context.input has reason)",
    "context.input has reason && context.input.reason == \"x\"",
    "context.input has a && context.input.a * 2000 > 100",
    "resource == Capability::\"orders.refund\"",
    "resource == Order::\"1\"",
    "resource is Order && resource.total * 2 > 100",
    "resource is Order && resource in Tenant::\"1\"",
    "context has approval",
];

fn condition() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![select(&INDEPENDENT[..]), select(&DEPENDENT[..])].prop_map(|it| format!("({it})"));
    leaf.prop_recursive(2, 8, 3, |it| {
        prop_oneof![
            (it.clone(), it.clone()).prop_map(|(one, two)| format!("({one} && {two})")),
            (it.clone(), it.clone()).prop_map(|(one, two)| format!("({one} || {two})")),
            it.clone().prop_map(|it| format!("!{it}")),
            (it.clone(), it.clone(), it).prop_map(|(a, b, c)| format!("(if {a} then {b} else {c})")),
        ]
    })
}

fn policy() -> impl Strategy<Value = String> {
    let effects = [
        "permit",
        "permit",
        "permit",
        "@reason(\"no\") forbid",
        "@hide forbid",
        "@approval(\"m\") @reason(\"one\") forbid",
        "@approval(\"m\") @quorum(\"2\") @expires_in(\"1h\") forbid",
        "@approval(\"f\") @expires_in(\"2h\") @reason(\"two\") forbid",
    ];
    let principals = ["principal", "principal", "principal in Role::\"support\"", "principal is Service"];
    let actions = [
        "action",
        "action",
        "action == Action::\"orders.refund\"",
        "action in Action::\"risk/high\"",
        "action in [Action::\"orders.*\", Action::\"customers.search\"]",
        "action == Action::\"customers.search\"",
    ];
    let resources = [
        "resource",
        "resource",
        "resource",
        "resource is Order",
        "resource == Order::\"1\"",
        "resource in Tenant::\"1\"",
    ];
    (
        select(effects.to_vec()),
        (select(principals.to_vec()), select(actions.to_vec()), select(resources.to_vec())),
        proptest::option::of(condition()),
        proptest::option::weighted(0.2, condition()),
    )
        .prop_map(|(effect, (principal, action, resource), when, unless)| {
            let when = when.map(|it| format!(" when {{ {it} }}")).unwrap_or_default();
            let unless = unless.map(|it| format!(" unless {{ {it} }}")).unwrap_or_default();
            // a hide has no input to look at
            let (when, unless) = if effect.contains("@hide") { (String::new(), String::new()) } else { (when, unless) };
            format!("{effect} ({principal}, {action}, {resource}){when}{unless};")
        })
}

fn policies() -> impl Strategy<Value = String> {
    proptest::collection::vec(policy(), 1..7).prop_map(|all| {
        let all: Vec<String> = all.iter().enumerate().map(|(at, it)| format!("@id(\"{at}\") {it}\n")).collect();
        all.concat()
    })
}

fn identity() -> impl Strategy<Value = Identity> {
    (any::<bool>(), any::<bool>(), any::<bool>(), select(vec![None, Some(1), Some(i64::MAX)])).prop_map(
        |(user, support, mcp, limit)| {
            let mut actor = if user { Actor::user("dana") } else { Actor::service("dana") };
            if support {
                actor = actor.role("support");
            }
            if let Some(limit) = limit {
                actor = actor.attribute("limit", limit);
            }
            Identity::new(actor).on(if mcp { Surface::Mcp } else { Surface::Http })
        },
    )
}

fn input() -> impl Strategy<Value = Value> {
    let (ids, amounts) = (select(vec!["1", "2"]), select(vec![10, 100]));
    let reasons = select(vec![None, Some("x"), Some("y")]);
    let numbers = select(vec![None, Some(1), Some(9_007_199_254_740_991_i64)]);
    (ids, amounts, reasons, numbers).prop_map(|(id, amount, reason, number)| {
        let mut input = json!({"orderId": id, "amountCents": amount});
        if let Some(reason) = reason {
            input["reason"] = json!(reason);
        }
        if let Some(number) = number {
            input["a"] = json!(number);
        }
        input
    })
}

fn covers() -> impl Strategy<Value = Option<Covers>> {
    let types: [&[(&str, u32)]; 4] = [&[], &[("m", 1)], &[("m", 2), ("f", 1)], &[("f", 1)]];
    let some = select(types.to_vec()).prop_map(|types| {
        let types = types.iter().map(|(kind, people)| ((*kind).to_owned(), *people)).collect();
        Some(Covers { id: "apr_1".into(), types, decided_at: NOW })
    });
    prop_oneof![Just(None), some]
}

fn order() -> impl Strategy<Value = ResourceEntity> {
    let tenants = proptest::collection::vec(select(vec!["1", "2"]), 0..3);
    (select(vec![10, 100, i64::MAX]), tenants).prop_map(|(total, tenants)| {
        let order = ResourceEntity::new("Order", "").attribute("total", total);
        tenants.into_iter().fold(order, |it, tenant| it.parent("Tenant", tenant))
    })
}

/// What an application would give for a call.
fn gathered(set: &PolicySet, principal: &Principal, governed: &Governed, call: &Call) -> Gathered {
    let mut gathering = set.gathering(principal, governed, &call.input).unwrap();
    let wanted = gathering.wanted().into_iter();
    gathering.accept(wanted.map(|entity| ResourceEntity { entity, ..call.order.clone() }).collect()).unwrap();
    gathering.finish().unwrap()
}

/// Document 4's procedure, word for word, over all policies in one set: one evaluation of everything but the hides, and
/// a second one without the gates.
fn by_the_book(rules: &[Rule], request: &Request, entities: &Entities, covers: Option<&Covers>) -> Decision {
    let set = |keep: fn(&Kind) -> bool| {
        Set::from_policies(rules.iter().filter(|it| keep(&it.kind)).map(|it| it.policy.clone())).unwrap()
    };
    let ask = |set: &Set| Authorizer::new().is_authorized(request, set, entities);
    let first = ask(&set(|it| !matches!(it, Kind::Hide)));
    let mut failed: Vec<PolicyError> = first.diagnostics().errors().map(policy_error).collect();
    if !failed.is_empty() {
        PolicyError::sort(&mut failed);
        return Decision::Failed(failed);
    }
    let ungated = ask(&set(|it| matches!(it, Kind::Permit | Kind::Deny)));
    let by_id = |response: &cedar_policy::Response| {
        let ids: BTreeSet<String> = response.diagnostics().reason().map(ToString::to_string).collect();
        rules.iter().filter(|it| ids.contains(&it.id)).collect::<Vec<_>>()
    };
    let refs = |rules: &[&Rule]| rules.iter().map(|it| it.reference()).collect::<Vec<PolicyRef>>();
    if ungated.decision() == Answer::Deny {
        let denying = by_id(&ungated);
        return Decision::Deny { reason: denying.iter().find_map(|it| it.reason.clone()), policies: refs(&denying) };
    }
    let satisfied = by_id(&first);
    let gates: Vec<&Rule> = satisfied.into_iter().filter(|it| matches!(it.kind, Kind::Gate(_))).collect();
    let mut all = [by_id(&ungated), gates.clone()].concat();
    all.sort_by(|one, two| one.id.cmp(&two.id));
    let (mut types, mut life, mut reasons, mut lifted) = (BTreeMap::new(), Duration::MAX, Vec::new(), true);
    for rule in &gates {
        let Kind::Gate(gate) = &rule.kind else { unreachable!() };
        let Requirement { kind, quorum } = &gate.requirement;
        types.entry(kind.clone()).and_modify(|it| *it = std::cmp::max(*it, *quorum)).or_insert(*quorum);
        life = life.min(gate.expires_in);
        reasons.extend(rule.reason.clone().filter(|it| !reasons.contains(it)));
        lifted &= covers.is_some_and(|it| it.types.get(kind).is_some_and(|people| people >= quorum));
    }
    if lifted {
        return Decision::Allow { policies: refs(&all) };
    }
    let requirements = types.into_iter().map(|(kind, quorum)| Requirement { quorum, kind }).collect();
    Decision::RequireApproval(Gates { requirements, expires_in: life, reasons, policies: refs(&all) })
}

/// Sets cost more to make than calls to decide: so many calls for each.
fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = (identity(), input(), covers(), 0..3_usize, order());
    proptest::collection::vec(
        call.prop_map(|(who, input, covers, at, order)| Call { who, input, covers, at, order }),
        10,
    )
}

#[derive(Clone, Debug)]
struct Call {
    who: Identity,
    input: Value,
    covers: Option<Covers>,
    at: usize,
    /// What the order is, if the call is about one.
    order: ResourceEntity,
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn sliced_deciding_is_deciding_by_the_book_over_all_policies(text in policies(), calls in calls()) {
        let (set, rules) = unlinted(&text);
        for call in &calls {
            let Call { who, input, covers, at, .. } = call;
            let governed = &SHOP[*at];
            let principal = set.principal(who).unwrap();
            let entities = gathered(&set, &principal, governed, call);
            let case = Case { entities: &entities, ..case(who, governed, input, covers.as_ref()) };
            let decided = set.decide(&principal, &case);
            let compiled = set.compiled(governed).unwrap();
            let context = invoke_context(compiled, &case).unwrap();
            let request = set.request(compiled, &principal, context, input).unwrap();
            let entities = principal.among(&compiled.base, &entities).unwrap();
            let expected = by_the_book(&rules, &request, &entities, covers.as_ref());
            proptest::prop_assert_eq!(&decided, &expected);
            // the stages and the workbench ask `judge`
            let judged = set.judge(&Ok(principal), &case);
            proptest::prop_assert_eq!(judged, expected);
        }
    }

    #[test]
    fn whatever_some_input_gets_allowed_is_listed(text in policies(), calls in calls()) {
        let (set, _) = unlinted(&text);
        for call in &calls {
            let Call { who, input, covers, at, .. } = call;
            let governed = &SHOP[*at];
            let principal = set.principal(who).unwrap();
            let visible = set.visibility(&principal, who, NOW, governed) == Visibility::Visible;
            let listed = set.list(&principal, who, NOW, governed);
            let refused = set.refuses_whatever(&principal, who, NOW, governed);
            let entities = gathered(&set, &principal, governed, call);
            let case = Case { entities: &entities, ..case(who, governed, input, None) };
            let decided = set.decide(&principal, &case);
            proptest::prop_assert!(!(passes(&decided) && refused.is_some()), "refused, but {decided:?}");
            let is_missing = visible && listed == Listed::No;
            proptest::prop_assert!(!(passes(&decided) && is_missing), "not listed, but {decided:?}");
            #[cfg(feature = "cli")]
            foreseen(&set, governed, who, listed, &decided)?;
            match &decided {
                Decision::Allow { .. } => proptest::prop_assert_ne!(listed, Listed::Yes(RequiresApproval::Always)),
                Decision::RequireApproval(_) => proptest::prop_assert_ne!(listed, Listed::Yes(RequiresApproval::Never)),
                Decision::Deny { .. } | Decision::Failed(_) => {}
            }
            let resumed = Case { covers: covers.as_ref(), ..case };
            let facts = Facts::of(&resumed, &Arc::new(input.clone()), &decided).text().unwrap();
            let resumed = set.decide(&principal, &resumed);
            let kept: Facts = serde_json::from_str(&facts).unwrap();
            proptest::prop_assert_eq!(&decided_by(&kept, &set, governed), &resumed, "what was kept is what was decided by");
            proptest::prop_assert!(!(passes(&resumed) && refused.is_some()), "refused, but resumed: {resumed:?}");
        }
    }
}

/// What a set says of a call that was kept.
fn decided_by(kept: &Facts, set: &PolicySet, governed: &Governed) -> Decision {
    let Facts { identity, now, input, covers, entities, .. } = kept;
    let decide = || {
        let principal = set.principal(identity)?;
        let entities = set.gathered(&principal, governed, input, entities)?;
        let (now, covers) = (*now, covers.as_ref());
        Ok(set.judge(&Ok(principal), &Case { identity, now, governed, input, covers, entities: &entities }))
    };
    decide().unwrap_or_else(Decision::Failed)
}

/// The matrix says what a listing says, and no input comes out otherwise.
#[cfg(feature = "cli")]
fn foreseen(
    set: &PolicySet,
    governed: &Governed,
    who: &Identity,
    listed: Listed,
    decided: &Decision,
) -> Result<(), proptest::test_runner::TestCaseError> {
    use crate::policy::Outlook;

    let outlook = set.forecaster(governed).unwrap().forecast(who, NOW).outlook;
    let agrees = match (&outlook, listed) {
        (Outlook::Approval(_), Listed::Yes(it)) => it == RequiresApproval::Always,
        (Outlook::Allow, Listed::Yes(it)) => it == RequiresApproval::Never,
        (Outlook::Sometimes(types), Listed::Yes(it)) => types.is_empty() == (it == RequiresApproval::Never),
        (Outlook::Deny | Outlook::Hidden | Outlook::Failed, it) => it == Listed::No,
        (Outlook::Unexposed, _) | (Outlook::Approval(_) | Outlook::Allow | Outlook::Sometimes(_), Listed::No) => false,
    };
    proptest::prop_assert!(agrees, "{outlook:?}, but {listed:?}");
    let fits = match (&outlook, decided) {
        (_, Decision::Failed(_)) | (Outlook::Hidden | Outlook::Sometimes(_), _) => true,
        (Outlook::Allow, it) => matches!(it, Decision::Allow { .. }),
        (Outlook::Approval(_), it) => matches!(it, Decision::RequireApproval(_) | Decision::Deny { .. }),
        (Outlook::Deny | Outlook::Failed | Outlook::Unexposed, it) => matches!(it, Decision::Deny { .. }),
    };
    proptest::prop_assert!(fits, "{outlook:?}, but {decided:?}");
    Ok(())
}

fn passes(decision: &Decision) -> bool {
    matches!(decision, Decision::Allow { .. } | Decision::RequireApproval(_))
}
