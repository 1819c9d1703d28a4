//! The application under test: a small shop whose handlers do as they are told.

mod handlers;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use countersign::testing::{Place, TestApp};
use countersign::{
    Actor, AgentInvocationInfo, ApprovalId, ApprovalRule, Caller, Capability, CapabilityBuilder, Engine, EngineBuilder,
    ErrorCode, Idempotency, Identity, Outcome, PolicySource, Risk, SideEffect, Surface,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

pub(crate) use handlers::{ACT_TIMEOUT, NOT_ELIGIBLE};

/// What the policies of the shop say, in `tests/shop/policies.cedar`.
pub(crate) const POLICIES: &str = include_str!("shop/policies.cedar");

/// What handlers share with the test that drives them.
pub(crate) struct State {
    /// One permit for each handler that has begun to hang.
    pub(crate) entered: Semaphore,
    /// One permit for each hanging handler that was asked to stop.
    pub(crate) asked: Semaphore,
    /// A hanging handler takes one permit to go on.
    pub(crate) go_on: Semaphore,
    /// How often `busy` handlers were tried.
    pub(crate) tries: AtomicU32,
    /// What the last handlers were told, in order.
    pub(crate) agents: std::sync::Mutex<Vec<AgentInvocationInfo>>,
    /// Handlers hold it while they run, if they are told to.
    pub(crate) lock: std::sync::Mutex<()>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            entered: Semaphore::new(0),
            asked: Semaphore::new(0),
            go_on: Semaphore::new(0),
            tries: AtomicU32::default(),
            agents: std::sync::Mutex::default(),
            lock: std::sync::Mutex::default(),
        }
    }
}

/// Waits for one permit, at most ten seconds.
pub(crate) async fn signal(of: &Semaphore) {
    tokio::time::timeout(Duration::from_secs(10), of.acquire()).await.expect("the signal comes").unwrap().forget();
}

/// The application's context.
pub(crate) struct Shop(pub(crate) Arc<State>);

/// The shop with the kit around it.
pub(crate) struct App {
    kit: TestApp<Shop>,
    pub(crate) state: Arc<State>,
}

impl Deref for App {
    type Target = TestApp<Shop>;

    fn deref(&self) -> &TestApp<Shop> {
        &self.kit
    }
}

impl App {
    /// The whole shop.
    pub(crate) async fn new() -> Self {
        Self::with(shop()).await
    }

    /// Another shop.
    pub(crate) async fn with(builder: EngineBuilder<Shop>) -> Self {
        Self::open(builder, &Place::new().unwrap()).await
    }

    /// One of several at one place.
    pub(crate) async fn open(builder: EngineBuilder<Shop>, place: &Place) -> Self {
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let kit = TestApp::open(builder, move |_| Shop(Arc::clone(&shared)), place).await.unwrap();
        Self { kit, state }
    }

    /// A member of the cast, in the library.
    pub(crate) fn caller(&self, name: &str) -> Caller {
        self.on_behalf_of(cast(name))
    }

    pub(crate) fn dana(&self) -> Caller {
        self.caller("dana")
    }

    /// How many handlers ran.
    pub(crate) fn runs(&self) -> usize {
        self.effects().len()
    }

    /// What the handlers were told so far.
    pub(crate) fn agents(&self) -> Vec<AgentInvocationInfo> {
        self.state.agents.lock().unwrap().clone()
    }

    /// Files a refund above $500 and returns the approval's id.
    pub(crate) async fn ask(&self, order: &str) -> ApprovalId {
        asked(&self.dana().invoke("orders.refund", refund(order, 60_000)).await)
    }

    /// Files a refund above $500 that Priya approves.
    pub(crate) async fn approved(&self, order: &str) -> ApprovalId {
        let id = self.ask(order).await;
        self.approvals(cast("priya")).approve(&id, "manager").await.unwrap();
        id
    }

    /// The trail without the loading of policies, one line an event.
    pub(crate) async fn lines(&self) -> String {
        self.trail().await.without_policies().to_string()
    }

    /// One execution's trail, one line an event.
    pub(crate) async fn lines_of(&self, outcome: &Outcome) -> String {
        self.trail_of(outcome.execution_id()).await.to_string()
    }

    /// Waits for an execution that retries, and lets time pass meanwhile.
    pub(crate) async fn retrying(&self, call: countersign::Execution) -> Outcome {
        let mut call = std::pin::pin!(call);
        for _ in 0..1_000 {
            tokio::select! {
                biased;
                outcome = &mut call => return outcome,
                () = tokio::time::sleep(Duration::from_millis(5)) => self.clock().advance(Duration::from_millis(50)),
            }
        }
        panic!("the execution never ended")
    }

    /// Lets an execution run out of time: its handler hangs by now, and will not obey.
    pub(crate) async fn expire(&self) {
        signal(&self.state.entered).await;
        self.clock().advance(ACT_TIMEOUT);
        signal(&self.state.asked).await;
        self.clock().advance(Duration::from_millis(100));
    }
}

/// The people and programs of the shop.
pub(crate) fn cast(name: &str) -> Actor {
    match name {
        "dana" | "sam" => Actor::user(name).role("support"),
        "priya" | "paul" => Actor::user(name).role("manager"),
        "fay" | "fred" | "flo" => Actor::user(name).role("finance"),
        "ada" => Actor::user(name).role("admin"),
        "olga" => Actor::user(name).role("operator"),
        "aldo" => Actor::user(name).role("auditor"),
        "nightly" => Actor::automation(name).role("job"),
        "crm" => Actor::service(name).role("support"),
        "anonymous" => Actor::anonymous(),
        other => Actor::user(other),
    }
}

/// `dana` of another tenant.
pub(crate) fn omar() -> Identity {
    Identity::new(Actor::user("omar").role("support").role("manager")).tenant("acme")
}

pub(crate) fn refund(order: &str, cents: u64) -> Value {
    json!({"orderId": order, "amountCents": cents})
}

pub(crate) fn act(how: &str) -> Value {
    json!({"do": how})
}

/// The approval that an outcome waits for.
pub(crate) fn asked(outcome: &Outcome) -> ApprovalId {
    outcome.approval().unwrap_or_else(|| panic!("no approval is asked for: {outcome:?}")).id.clone()
}

/// The code, or `-` for what completed and `?` for what waits.
pub(crate) fn code(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed { .. } => "-",
        Outcome::ApprovalRequired { .. } => "?",
        Outcome::Failed { error, .. } | Outcome::Cancelled { error, .. } => error.code.as_str(),
    }
}

/// The code of a decision that was refused.
pub(crate) fn refused<T: std::fmt::Debug>(decision: Result<T, countersign::Error>) -> ErrorCode {
    decision.unwrap_err().code
}

pub(crate) fn json_of(outcome: &Outcome) -> Value {
    serde_json::to_value(outcome).unwrap()
}

/// One policy file.
pub(crate) fn texts(text: &str) -> PolicySource {
    PolicySource::Files(vec![("shop.cedar".into(), text.into())])
}

/// The shop's policies with one text replaced by another.
pub(crate) fn policies_with(from: &str, to: &str) -> PolicySource {
    assert!(POLICIES.contains(from), "the policies say `{from}` nowhere");
    texts(&POLICIES.replace(from, to))
}

/// What lets anybody do anything, for tests that are not about policies.
pub(crate) const ALLOW_ALL: &str = r#"@id("anything") permit (principal, action in Action::"invoke", resource);"#;

/// A capability that everybody sees, to be completed.
pub(crate) fn draft(id: &str, effect: SideEffect) -> CapabilityBuilder {
    Capability::builder(id, effect).risk(Risk::Low).description("For tests.").expose([Surface::Direct, Surface::Test])
}

/// Builders of single capabilities, for shops that differ in one.
pub(crate) fn refund_draft() -> CapabilityBuilder {
    Capability::write("orders.refund")
        .risk(Risk::High)
        .description("Refund an order, fully or in part.")
        .expose([Surface::Direct, Surface::Http, Surface::Mcp])
        .tags(["orders", "money"])
        .error(NOT_ELIGIBLE)
        .redact_output(["/gatewayRef"])
}

/// Everything but the policies, so that tests can take others.
pub(crate) fn shop_without_policies() -> EngineBuilder<Shop> {
    everything_but(&[])
}

/// The shop.
pub(crate) fn shop() -> EngineBuilder<Shop> {
    shop_without_policies().policies(texts(POLICIES))
}

/// The shop without some capabilities, for tests that register their own.
pub(crate) fn everything_but(ids: &[&str]) -> EngineBuilder<Shop> {
    let all = orders().into_iter().chain(acts()).chain(echoes()).chain(gated());
    let kept = all.filter(|(id, _)| !ids.contains(id)).map(|(_, capability)| capability);
    Engine::builder().capabilities(kept).middleware(handlers::desk)
}

type Named = (&'static str, Capability<Shop>);

fn orders() -> Vec<Named> {
    let direct = [Surface::Direct, Surface::Http, Surface::Mcp];
    let read = |id: &str| Capability::read(id).risk(Risk::Low).description("Reads orders.").expose(direct);
    let purge = Capability::destructive("orders.purge").risk(Risk::Critical).description("Forget all orders.");
    vec![
        ("orders.search", read("orders.search").tags(["orders"]).handler(handlers::search)),
        ("orders.refund", refund_draft().handler(handlers::refund)),
        ("orders.purge", purge.handler(handlers::purge)),
        ("ghost.read", read("ghost.read").handler(handlers::purge)),
        (
            "ping",
            Capability::none("ping").risk(Risk::Low).description("Answers.").expose(direct).handler(handlers::ping),
        ),
        ("sums.add", draft("sums.add", SideEffect::None).handler(handlers::add)),
    ]
}

fn acts() -> Vec<Named> {
    let act = |id: &'static str, effect| draft(id, effect).timeout(ACT_TIMEOUT).error(NOT_ELIGIBLE);
    vec![
        ("act.none", act("act.none", SideEffect::None).handler(handlers::act)),
        ("act.read", act("act.read", SideEffect::Read).handler(handlers::act)),
        ("act.retried", act("act.retried", SideEffect::Read).retries(2).handler(handlers::act)),
        ("act.write", act("act.write", SideEffect::Write).handler(handlers::act)),
        ("act.again", act("act.again", SideEffect::Write).idempotent().retries(2).handler(handlers::act)),
        ("act.external", act("act.external", SideEffect::External).handler(handlers::act)),
    ]
}

fn echoes() -> Vec<Named> {
    let open = || json!({"type": "object", "properties": {"value": {}}, "additionalProperties": true});
    let echo = |id: &'static str, effect| draft(id, effect);
    let quiet = Idempotency { store_output: false, ..Idempotency::default() };
    let keyed = Idempotency { on_reads: true, ..Idempotency::default() };
    vec![
        ("echo.write", echo("echo.write", SideEffect::Write).json_handler(open(), json!({}), handlers::echo)),
        (
            "echo.quiet",
            echo("echo.quiet", SideEffect::Write).idempotency(quiet).json_handler(open(), json!({}), handlers::echo),
        ),
        (
            "echo.keyed",
            echo("echo.keyed", SideEffect::Read).idempotency(keyed).json_handler(open(), json!({}), handlers::echo),
        ),
    ]
}

fn gated() -> Vec<Named> {
    let payout = Capability::external("payouts.send").risk(Risk::Critical).description("Pay somebody.");
    let message = Capability::external("messages.send").risk(Risk::Medium).description("Write to a customer.");
    let gift = Capability::external("gifts.send").risk(Risk::Low).description("Send a gift.");
    let rule = ApprovalRule::of("confirmation").expires_in(Duration::from_mins(30));
    vec![
        ("payouts.send", payout.expose([Surface::Direct]).tags(["money"]).handler(handlers::pay)),
        (
            "messages.send",
            message.expose([Surface::Direct]).approval(rule).redact_display(["/text"]).handler(handlers::write_to),
        ),
        ("gifts.send", gift.expose([Surface::Direct]).handler(handlers::ping)),
    ]
}
