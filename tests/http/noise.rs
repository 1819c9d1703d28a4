//! Noise on every route: never an error of the server.

use super::harness::{Request, TestServer};

/// xorshift64*: the same noise in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: u64) -> usize {
        usize::try_from(self.next() % bound).unwrap()
    }

    /// Bytes, or JSON of the right sort with some of its bytes changed, so that every depth is reached.
    fn body(&mut self) -> Vec<u8> {
        const SEEDS: [&str; 6] = [
            r#"{"input":{"orderId":"ord_42","amountCents":64900,"reason":"It arrived broken."}}"#,
            r#"{"input":{"query":"lamp"}}"#,
            r#"{"decision":"approve","type":"manager","comment":"fine"}"#,
            r#"{"as":"completed","output":{"a":[1,2.5e3,null,true,"\ud83d\ude00"]}}"#,
            "{}",
            "[[[[[[{\"a\":1e308}]]]]]]",
        ];
        if self.below(3) == 0 {
            let length = self.below(200);
            return (0..length).map(|_| self.next().to_le_bytes()[0]).collect();
        }
        let mut body = SEEDS[self.below(6)].as_bytes().to_vec();
        for _ in 0..self.below(4) {
            let at = self.below(u64::try_from(body.len()).unwrap());
            match self.below(3) {
                0 => body[at] = self.next().to_le_bytes()[0],
                1 => drop(body.splice(at..at, body.clone())),
                _ => body.truncate(at.max(1)),
            }
        }
        body
    }
}

#[tokio::test]
async fn a_hundred_random_bodies_on_each_route_are_never_the_servers_fault() {
    let server = TestServer::new().await;
    let id = server.ask().await;
    let mut noise = Noise(0x5EED_C0DE);
    let (mut wire, mut seen) = (server.connect().await, std::collections::BTreeMap::new());
    for path in [
        "/v1/capabilities/orders.refund/invoke".to_owned(),
        "/v1/capabilities/orders.search/invoke".to_owned(),
        "/v1/capabilities/no.such/invoke".to_owned(),
        format!("/v1/approvals/{id}/decision"),
        format!("/v1/approvals/{id}/resume"),
        format!("/v1/approvals/{id}/withdraw"),
        "/v1/executions/exe-1/resolve".to_owned(),
        "/v1/policies/explain".to_owned(),
        "/v1/policies/reload".to_owned(),
        "/v1/capabilities".to_owned(),
        "/v1/approvals".to_owned(),
        "/healthz".to_owned(),
        "/readyz".to_owned(),
        "/nowhere".to_owned(),
    ] {
        for _ in 0..100 {
            let (body, who) = (noise.body(), ["demo-dana", "demo-priya", ""][noise.below(3)]);
            let request =
                Request::new("POST", &path).as_who(who).header("Content-Type", "application/json").body(&body);
            wire.write(&request.bytes(server.address)).await;
            let Some(answer) = wire.try_answer().await else {
                panic!("{path} hung up on {:?}", String::from_utf8_lossy(&body))
            };
            assert!(answer.status < 500, "{path} {:?}: {answer:?}", String::from_utf8_lossy(&body));
            *seen.entry(answer.status).or_insert(0) += 1;
            if answer.header("connection") == Some("close") {
                wire = server.connect().await;
            }
        }
    }
    for status in [200, 400, 401, 404, 405, 422] {
        assert!(seen.contains_key(&status), "the noise never got {status}: {seen:?}");
    }
}
