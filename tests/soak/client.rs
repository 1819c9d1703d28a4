//! One client on one connection: reads, keyed writes, calls that are refused, calls that wait for a person who decides.
//! It repeats what broke off, and notes what it was told.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::http::harness::{Answer, Request, Wire};

/// Between two calls: a desk's agents think too, and a proof of ten minutes fits on a disk.
const PAUSE: Duration = Duration::from_millis(20);
/// Before what is under way elsewhere is asked for again: what `Retry-After` says.
const LATER: Duration = Duration::from_secs(1);
/// Longer than the server lets any call wait.
const PATIENCE: Duration = Duration::from_secs(15);
/// For everything that is owed when the load is over.
const SETTLED: Duration = Duration::from_mins(3);
/// How many of its keys a client asks for once more at the end, from its whole time.
const REPEATS: usize = 50;

/// What the server said of a key, once.
#[derive(Clone, Debug)]
pub(super) enum Said {
    Completed { execution: String, replayed: bool, output: Value },
    Unknown,
}

impl Said {
    /// The execution, if this answer is its own.
    pub(super) fn ran(&self) -> Option<&str> {
        match self {
            Self::Completed { execution, replayed: false, .. } => Some(execution),
            Self::Completed { .. } | Self::Unknown => None,
        }
    }

    /// The execution that only repeated an earlier one's answer.
    pub(super) fn replayed(&self) -> Option<&str> {
        match self {
            Self::Completed { execution, replayed: true, .. } => Some(execution),
            Self::Completed { .. } | Self::Unknown => None,
        }
    }

    /// None if nobody knows what came of it.
    pub(super) fn output(&self) -> Option<&Value> {
        match self {
            Self::Completed { output, .. } => Some(output),
            Self::Unknown => None,
        }
    }
}

/// Everything that clients were told.
#[derive(Default)]
pub(super) struct Book {
    /// By key, in the order of asking.
    pub(super) keys: BTreeMap<String, Vec<Said>>,
    /// Executions of reads that were answered.
    pub(super) reads: Vec<String>,
    /// Executions that were refused.
    pub(super) refused: Vec<String>,
    /// Answers that nobody should get.
    pub(super) others: Vec<String>,
    /// How many requests had no answer.
    pub(super) broken: usize,
}

impl Book {
    pub(super) fn add(&mut self, other: Self) {
        let Self { keys, reads, refused, others, broken } = other;
        self.keys.extend(keys); // each client has keys of its own
        self.reads.extend(reads);
        self.refused.extend(refused);
        self.others.extend(others);
        self.broken += broken;
    }
}

pub(super) struct Client {
    number: usize,
    servers: watch::Receiver<Option<SocketAddr>>,
    wire: Option<(Wire, SocketAddr)>,
    book: Book,
    /// Keys without a last answer, and when to ask again.
    owed: VecDeque<(Instant, String)>,
}

impl Client {
    pub(super) fn new(number: usize, servers: watch::Receiver<Option<SocketAddr>>) -> Self {
        Self { number, servers, wire: None, book: Book::default(), owed: VecDeque::new() }
    }

    /// Until it is told to stop; then until every key has its last answer.
    pub(super) async fn run(mut self, stop: watch::Receiver<bool>) -> Book {
        for call in self.number.. {
            if *stop.borrow() {
                break;
            }
            if self.owed.front().is_some_and(|(at, _)| *at <= Instant::now()) {
                let (_, key) = self.owed.pop_front().unwrap();
                self.pursue(key).await;
            }
            match call % 8 {
                0..=2 => self.read().await,
                3 => self.be_refused().await,
                4..=6 => self.pursue(format!("refund-{}-{call}", self.number)).await,
                _ => self.pursue(format!("message-{}-{call}", self.number)).await,
            }
            tokio::time::sleep(PAUSE).await;
        }
        self.settle().await;
        let every = (self.book.keys.len() / REPEATS).max(1);
        let again: Vec<String> = self.book.keys.keys().step_by(every).cloned().collect();
        self.owed.extend(again.into_iter().map(|it| (Instant::now(), it)));
        self.settle().await;
        self.book
    }

    async fn settle(&mut self) {
        let until = Instant::now() + SETTLED;
        while let Some((at, key)) = self.owed.pop_front() {
            if Instant::now() > until {
                self.book.others.push(format!("{key} is not settled"));
                continue;
            }
            tokio::time::sleep_until(at.into()).await;
            self.pursue(key).await;
        }
    }

    async fn read(&mut self) {
        let request = invoke("orders.get", &json!({"orderId": "ord_42"}));
        let Some(answer) = self.send(request).await else { return };
        match answer.status {
            200 => self.book.reads.push(execution(&answer)),
            503 => {}
            _ => self.book.others.push(format!("a read: {}", answer.text())),
        }
    }

    async fn be_refused(&mut self) {
        let request = invoke("orders.refund", &refund(600_000));
        let Some(answer) = self.send(request).await else { return };
        match (answer.status, answer.json()["code"].as_str()) {
            (403, Some("POLICY_DENIED")) => self.book.refused.push(execution(&answer)),
            (503, _) => {}
            _ => self.book.others.push(format!("a call that is refused: {}", answer.text())),
        }
    }

    /// Asks once; what has no last answer yet is owed. Every fourth key is asked for twice.
    async fn pursue(&mut self, key: String) {
        let Some(said) = self.ask(&key).await else {
            self.owed.push_back((Instant::now() + LATER, key));
            return;
        };
        let told = self.book.keys.entry(key.clone()).or_default();
        told.push(said);
        if told.len() == 1 && self.book.keys.len().is_multiple_of(4) {
            self.owed.push_back((Instant::now() + LATER, key));
        }
    }

    async fn ask(&mut self, key: &str) -> Option<Said> {
        let request = if key.starts_with("refund") {
            invoke("orders.refund", &refund(1))
        } else {
            invoke(
                "messages.send",
                &json!({"customerId": "cus_7", "subject": "Your lamp", "body": "It is on its way."}),
            )
        };
        let answer = self.send(request.header("Idempotency-Key", key).header("X-Correlation-Id", key)).await?;
        if answer.status != 202 {
            return self.understood(key, &answer);
        }
        let path = format!("/v1/approvals/{}", answer.json()["approval"]["id"].as_str().unwrap());
        let decision = Request::new("POST", &format!("{path}/decision")).as_who("demo-priya");
        let decided = self.send(decision.json(&json!({"decision": "approve"}))).await?;
        if decided.status != 200 {
            return self.understood(key, &decided);
        }
        let resumed = self.send(Request::new("POST", &format!("{path}/resume")).as_who("demo-dana")).await?;
        self.understood(key, &resumed)
    }

    /// None if the same call must be made again.
    fn understood(&mut self, key: &str, answer: &Answer) -> Option<Said> {
        let body = answer.json();
        match (answer.status, body["code"].as_str()) {
            // It ran, and no record of that was promised.
            (200, _) if answer.header("countersign-recorded") == Some("false") => None,
            (200, _) => Some(Said::Completed {
                execution: execution(answer),
                replayed: body["replayed"] == true,
                output: body["output"].clone(),
            }),
            (409, Some("OUTCOME_UNKNOWN")) => Some(Said::Unknown),
            // The key says how the run ended that took it.
            (503, _) | (409, Some("IDEMPOTENCY_IN_PROGRESS" | "APPROVAL_CONSUMED")) => None,
            _ => {
                self.book.others.push(format!("{key}: {body}"));
                None
            }
        }
    }

    /// One request on the connection, which is made anew after it broke. None if there is no whole answer.
    async fn send(&mut self, request: Request) -> Option<Answer> {
        if self.wire.is_none() {
            self.wire = self.connect().await;
        }
        let answer = match &mut self.wire {
            Some((wire, address)) => {
                wire.write(&request.bytes(*address)).await;
                tokio::time::timeout(PATIENCE, wire.try_answer()).await.ok().flatten()
            }
            None => None,
        };
        let whole = |it: &Answer| {
            let length = it.header("content-length").and_then(|it| it.parse().ok());
            length.is_none_or(|length: usize| it.body.len() == length)
        };
        let answer = answer.filter(whole);
        if answer.is_none() {
            self.book.broken += 1;
            self.wire = None;
        }
        answer
    }

    /// Waits for a server; one that is announced may be dead already.
    async fn connect(&mut self) -> Option<(Wire, SocketAddr)> {
        let announced = tokio::time::timeout(PATIENCE, self.servers.wait_for(Option::is_some)).await;
        let address = (*announced.ok()?.ok()?)?;
        if let Ok(wire) = Wire::to(address).await {
            return Some((wire, address));
        }
        let _ = tokio::time::timeout(LATER, self.servers.changed()).await;
        None
    }
}

fn invoke(capability: &str, input: &Value) -> Request {
    let request = Request::new("POST", &format!("/v1/capabilities/{capability}/invoke")).as_who("demo-dana");
    request.json(&json!({ "input": input }))
}

/// Of an order that lasts: of its 6,200 dollars a cent goes back with every call.
fn refund(cents: u32) -> Value {
    json!({"orderId": "ord_7", "amountCents": cents, "reason": "A scratch."})
}

fn execution(answer: &Answer) -> String {
    answer.json()["executionId"].as_str().unwrap().to_owned()
}
