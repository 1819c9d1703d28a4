//! Claims that hold and claims that do not, with a solver where there is one.

use std::path::PathBuf;
use std::time::Duration;

use crate::policy::testing::{set, shop};
use crate::policy::{Calls, Claim, Solver, Verdict, prove};

fn solver() -> Solver {
    Solver { executable: PathBuf::from("cvc5"), limit: Duration::from_secs(30) }
}

fn calls(capability: &str) -> Calls {
    Calls { capabilities: vec![capability.into()], when: None }
}

#[test]
fn experiment() {
    let set = set(r#"
@id("support") permit (principal in Role::"support", action, resource);
@id("people") permit (principal in Role::"manager", action == Countersign::Action::"approve", resource);
@id("large") @approval("manager") forbid (principal, action == Action::"orders.refund", resource) when { context.input.amountCents > 50000 };
@id("sum") forbid (principal, action == Action::"orders.refund", resource) when { context.input has a && context.input.a + 1 > 5 };
@id("mcp") @hide forbid (principal, action == Action::"orders.refund", resource) when { context.surface == "mcp" };
@id("own") forbid (principal, action == Action::"orders.get", resource) unless { resource.total < 100 };
"#);
    let exposed: Vec<_> = shop().into_iter().map(|it| crate::policy::testing::change(it, |it| it.meta.expose = crate::Surface::ALL.into())).collect();
    let claims = [
        Claim::NeverWithoutApproval { calls: calls("orders.refund"), kind: "manager".into() },
        Claim::NeverWithoutApproval { calls: Calls { capabilities: vec!["orders.refund".into()], when: Some(crate::policy::condition("context.input.amountCents > 60000").unwrap()) }, kind: "manager".into() },
        Claim::OnlyRole { calls: calls("orders.refund"), roles: vec!["support".into()] },
        Claim::OnlyRole { calls: calls("orders.refund"), roles: vec!["manager".into()] },
        Claim::OnlyRole { calls: calls("orders.get"), roles: vec!["manager".into()] },
        Claim::NeverOver { calls: calls("orders.refund"), surface: crate::Surface::Mcp },
        Claim::NeverOver { calls: calls("customers.search"), surface: crate::Surface::Mcp },
        Claim::NoErrors { policies: set.policy_ids() },
        Claim::NoErrors { policies: ["large".to_owned()].into() },
    ];
    let proofs = prove(&set, &exposed, &claims, &solver()).unwrap();
    for it in proofs {
        let verdict = match it.verdict {
            Verdict::Proved => "proved".to_owned(),
            Verdict::Refuted(it) => format!("refuted {} {:?}", serde_json::to_string_pretty(&it).unwrap(), it.call),
            Verdict::Unknown(it) => format!("unknown {it}"),
            Verdict::Unsupported(it) => format!("unsupported {it}"),
        };
        println!("{} {verdict}", it.environments);
    }
}
