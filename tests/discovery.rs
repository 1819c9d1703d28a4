//! What a caller could get allowed, on its surface.

use countersign::{Filter, Identity, RequiresApproval, Surface};

use crate::shop::{App, cast};

#[tokio::test]
async fn a_listing_shows_what_some_input_could_get_allowed() {
    let app = App::new().await;
    let listed = app.dana().capabilities(Filter::all()).await.unwrap();
    let lines: Vec<_> = listed.iter().map(|it| format!("{} {:?}", it.id, it.requires_approval)).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    orders.search Never
    orders.refund Sometimes
    ping Never
    sums.add Never
    act.none Never
    act.read Never
    act.retried Never
    act.write Never
    act.again Never
    act.external Never
    echo.write Never
    echo.quiet Never
    echo.keyed Never
    payouts.send Always
    messages.send Always
    gifts.send Always
    "#);
    insta::assert_snapshot!(app.lines().await, @"- capabilities.discovered count=16");
}

#[tokio::test]
async fn a_filter_shapes_a_list_and_is_no_authority() {
    let app = App::new().await;
    let ids = async |filter: Filter| {
        let listed = app.dana().capabilities(filter).await.unwrap();
        listed.into_iter().map(|it| it.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(Filter::tags(["money"])).await, ["orders.refund", "payouts.send"]);
    assert_eq!(ids(Filter::tags(["orders", "nothing"])).await, ["orders.search", "orders.refund"]);
    assert_eq!(ids(Filter::tags(["money"]).ids(["orders.refund", "ping"])).await, ["orders.refund"]);
    assert_eq!(ids(Filter::all().ids(["ghost.read", "orders.purge", "no.such"])).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_descriptor_says_what_a_model_needs() {
    let app = App::new().await;
    let listed = app.dana().capabilities(Filter::all().ids(["orders.refund"])).await.unwrap();
    assert_eq!(listed[0].requires_approval, RequiresApproval::Sometimes);
    insta::assert_json_snapshot!(listed[0], @r#"
    {
      "id": "orders.refund",
      "description": "Refund an order, fully or in part.",
      "inputSchema": {
        "type": "object",
        "properties": {
          "orderId": {
            "type": "string"
          },
          "amountCents": {
            "type": "integer",
            "minimum": 0,
            "maximum": 4294967295
          }
        },
        "required": [
          "orderId",
          "amountCents"
        ],
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "additionalProperties": false
      },
      "sideEffect": "write",
      "risk": "high",
      "tags": [
        "money",
        "orders"
      ],
      "requiresApproval": "sometimes"
    }
    "#);
}

#[tokio::test]
async fn surfaces_hide_and_expose() {
    let app = App::new().await;
    let ids = async |surface| {
        let listed = app.over(surface, cast("dana")).capabilities(Filter::tags(["orders"])).await.unwrap();
        listed.into_iter().map(|it| it.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(Surface::Http).await, ["orders.search", "orders.refund"]);
    assert_eq!(ids(Surface::Mcp).await, ["orders.search"]); // a policy hides refunds there
    assert_eq!(ids(Surface::Workflow).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_listing_that_cannot_be_recorded_is_not_given() {
    let app = App::new().await;
    app.break_store(true);
    let error = app.dana().capabilities(Filter::all()).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.retryable), ("AUDIT_UNAVAILABLE", true));
    app.break_store(false);
    let nobody = app.on_behalf_of(Identity::none()).capabilities(Filter::all()).await.unwrap_err();
    assert_eq!(nobody.code.as_str(), "UNAUTHENTICATED");
    assert_eq!(app.lines().await, "- management.denied action=discover code=UNAUTHENTICATED");
}
