//! What each route answers.

use super::harness::{TestServer, refund};

#[tokio::test]
async fn a_small_refund_is_answered_with_its_output() {
    let server = TestServer::new().await;
    let answer = server.invoke("demo-dana", "orders.refund", &refund(1_900)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    insta::assert_snapshot!(answer.text(), @r#"{"status":"completed","executionId":"exe-1","output":{"refundId":"ref_1","orderId":"ord_42","amountCents":1900,"refundedCents":1900,"approvedBy":[],"reason":"It arrived broken."},"replayed":false}"#);
}
