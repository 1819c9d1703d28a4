//! What looks like a secret is masked where the engine shows it, and only there.

use countersign::{ApprovalRule, HandlerError, Invocation, SideEffect};
use serde_json::{Value, json};

use crate::shop::{ALLOW_ALL, App, Shop, asked, cast, draft, everything_but, json_of, texts};

async fn echo(_: Invocation<Shop>, input: Value) -> Result<Value, HandlerError> {
    Ok(input)
}

#[tokio::test]
async fn approvers_see_masks_and_the_handler_gets_what_was_sent() {
    let item = json!({"type": "object", "properties": {"note": {"type": "string"}}, "additionalProperties": true});
    let open = json!({
        "type": "object", "properties": {"value": {"type": "array", "items": item}}, "additionalProperties": true,
    });
    let connect = draft("desk.connect", SideEffect::Write).approval(ApprovalRule::of("manager"));
    let connect = connect.redact_display(["/value/*/note"]).json_handler(open, json!({}), echo);
    let policies = format!(
        r#"{ALLOW_ALL} @id("people") permit (principal in Role::"manager", action in
            [Countersign::Action::"approve", Countersign::Action::"read_approvals"], resource);"#
    );
    let app = App::with(everything_but(&[]).capability(connect).policies(texts(&policies))).await;
    let sent = json!({"value": [{"note": "n", "apiKey": "k-1", "maxTokens": 5}], "db": "postgres://app:pw@db.test/x", "monkey": 1});
    let first = app.dana().invoke("desk.connect", sent.clone()).await;
    let id = asked(&first);
    let view = app.approvals(cast("priya")).show(&id).await.unwrap();
    let shown =
        json!({"value": [{"apiKey": "[masked]", "maxTokens": 5}], "db": "postgres://[masked]@db.test/x", "monkey": 1});
    assert_eq!(view.input, Some(shown));
    app.approvals(cast("priya")).approve(&id, "manager").await.unwrap();
    assert_eq!(json_of(&app.dana().resume(&id).await)["output"], sent);
    let plain = json!({"value": [{"note": "n", "apiKey": "k-2", "maxTokens": 5}], "db": "postgres://app:pw@db.test/x", "monkey": 1});
    let other = asked(&app.dana().invoke("desk.connect", plain).await);
    let hash = app.approvals(cast("priya")).show(&other).await.unwrap().input_hash;
    assert_ne!(hash, view.input_hash, "the hash is of what was sent, not of what is shown");
}
