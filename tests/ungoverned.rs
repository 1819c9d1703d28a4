//! The application's own calls: middleware and handler, no agent, no policy, no trail.

use std::sync::Arc;

use countersign::{HandlerError, Invocation};
use serde_json::json;

use crate::shop::{App, Shop, State};

fn context() -> Shop {
    Shop(Arc::new(State::default()))
}

#[tokio::test]
async fn an_ungoverned_call_has_middleware_and_no_agent_and_leaves_no_trail() {
    let app = App::new().await;
    let before = app.trail().await;
    // What no policy permits anybody: nobody was asked. No redaction either: it does not leave.
    let run = |input| app.engine().run_ungoverned("orders.refund", context(), input);
    let output = run(json!({"orderId": "ord_1", "amountCents": 900_000})).await.unwrap();
    assert_eq!(output, json!({"refundId": "ord_1-900000", "approvers": [], "gatewayRef": "secret-cause"}));
    // Its attempt counts no agent: the handler saw none.
    let output = app.engine().run_ungoverned("act.write", context(), json!({"do": "ok"})).await.unwrap();
    assert_eq!(output, json!({"attempt": 0}));
    let refused = app.engine().run_ungoverned("act.write", context(), json!({"do": "closed"})).await;
    assert_eq!(format!("{:?}", refused.unwrap_err()), format!("{:?}", HandlerError::forbidden()));
    assert!(app.engine().run_ungoverned("no.such", context(), json!({})).await.is_err());
    assert_eq!(app.trail().await, before);
    assert_eq!(app.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn an_ungoverned_invocation_is_never_cancelled_and_holds_no_lease() {
    let cx = Invocation::ungoverned(context());
    assert!(cx.agent().is_none() && cx.lease().is_none() && !cx.is_cancelled());
    let waited = tokio::time::timeout(std::time::Duration::from_millis(20), cx.cancelled()).await;
    assert!(waited.is_err());
}
