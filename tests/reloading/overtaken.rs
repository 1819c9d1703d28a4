//! Somebody publishes in another process, and this one has not heard of it when somebody decides here.

use countersign::{ApprovalState, ErrorCode, PolicySource, Resolution};
use serde_json::json;

use super::{App, POLICIES, PUBLISHERS, Place, act, admin, cast, code, process, refused, texts, with};

/// The shop's policies without these.
fn without(ids: &[&str]) -> PolicySource {
    let mut text = format!("{POLICIES}{PUBLISHERS}");
    for id in ids {
        let from = text.find(&format!("@id(\"{id}\")")).unwrap();
        let to = from + text[from..].find(';').unwrap() + 1;
        text.replace_range(from..to, "");
    }
    texts(&text)
}

async fn two() -> (Place, App, App) {
    let place = Place::new().unwrap();
    let (one, two) = (process(with(""), &place).await, process(with(""), &place).await);
    (place, one, two)
}

#[tokio::test]
async fn whoever_lost_the_right_decides_withdraws_and_settles_nothing_from_then_on() {
    let (_place, one, two) = two().await;
    let id = one.ask("ord_1").await;
    let call = one.dana().invoke("act.write", act("hang")).idempotency_key("k").start();
    let (unknown, ()) = tokio::join!(call, one.expire());
    assert_eq!(code(&unknown), "TIMEOUT");
    let unknown = unknown.execution_id();

    admin(&two).publish(without(&["managers-approve", "managers-reject"])).await.unwrap();
    assert_eq!(refused(one.approvals(cast("priya")).approve(&id, "manager").await), ErrorCode::ApprovalNotFound);
    admin(&two).publish(without(&["operators-withdraw"])).await.unwrap();
    assert_eq!(refused(one.approvals(cast("olga")).withdraw(&id).await), ErrorCode::ApprovalNotFound);
    admin(&two).publish(without(&["operators-reconcile"])).await.unwrap();
    let settled = one.executions(cast("olga")).resolve(unknown, Resolution::Failed).await;
    assert_eq!(refused(settled), ErrorCode::PolicyDenied);

    let view = one.approvals(cast("dana")).show(&id).await.unwrap();
    assert_eq!((view.status, view.decisions.len()), (ApprovalState::Pending, 0));
    let trail = one.trail().await;
    let told: Vec<_> = trail.entries().iter().filter(|it| it.kind == "management.denied").map(|it| &it.data).collect();
    assert_eq!(told.iter().map(|it| &it["action"]).collect::<Vec<_>>(), ["approve", "withdraw", "reconcile"]);
    let denied = trail.entries().iter().rfind(|it| it.kind == "management.denied").unwrap();
    assert_eq!(
        denied.policy_hash.as_deref(),
        Some(&*two.engine().policy_hash()),
        "the record names the set that denied"
    );
}

#[tokio::test]
async fn whoever_still_may_decides_withdraws_and_settles_under_the_set_that_came_between() {
    let (_place, one, two) = two().await;
    let (id, other) = (one.ask("ord_1").await, one.ask("ord_2").await);
    let call = one.dana().invoke("act.write", act("hang")).idempotency_key("k").start();
    let (unknown, ()) = tokio::join!(call, one.expire());

    admin(&two).publish(with(r#"@id("a") forbid (principal, action == Action::"ping", resource);"#)).await.unwrap();
    let decided = one.approvals(cast("priya")).approve(&id, "manager").await.unwrap();
    assert_eq!((decided.status, one.engine().policy_hash()), (ApprovalState::Approved, two.engine().policy_hash()));
    admin(&two).publish(with(r#"@id("b") forbid (principal, action == Action::"ping", resource);"#)).await.unwrap();
    let withdrawn = one.approvals(cast("olga")).withdraw(&other).await.unwrap();
    assert_eq!((withdrawn.status, one.engine().policy_hash()), (ApprovalState::Withdrawn, two.engine().policy_hash()));
    admin(&two).publish(with(r#"@id("c") forbid (principal, action == Action::"ping", resource);"#)).await.unwrap();
    let settled = one.executions(cast("olga")).resolve(unknown.execution_id(), Resolution::Failed).await.unwrap();
    assert_eq!((json!(settled.status), one.engine().policy_hash()), (json!("failed"), two.engine().policy_hash()));
}
