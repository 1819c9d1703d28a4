//! What was approved runs by itself, as its requester of today: APR-8, `run_on_approval`.

mod waiting;

use std::fs::OpenOptions;
use std::future::ready;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use countersign::testing::{Place, stored_events};
use countersign::{
    Actor, ApprovalId, ApprovalState, Capability, Engine, EngineBuilder, EventKind, HandlerError, Identity, Invocation,
    PolicySource, Requesters, Risk, Surface,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shop::{App, POLICIES, Shop, State, asked, cast, code, everything_but, refund, signal, texts};

/// What the application says about a requester, today.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Says {
    /// As ever, and with one more role.
    Known,
    WithoutRoles,
    NoMore,
    /// Somebody else.
    Another,
    OtherTenant,
    Panics,
}

/// Answers what the test wants, after so many failures.
#[derive(Clone)]
struct Today {
    says: Arc<Mutex<Says>>,
    failures: Arc<AtomicU32>,
    /// How often it was asked.
    asked: Arc<AtomicU32>,
}

impl Today {
    fn says(says: Says) -> Self {
        Self { says: Arc::new(Mutex::new(says)), failures: Arc::default(), asked: Arc::default() }
    }

    fn after(failures: u32) -> Self {
        let it = Self::says(Says::Known);
        it.failures.store(failures, Ordering::Relaxed);
        it
    }

    fn fails(&self) -> bool {
        self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1)).is_ok()
    }
}

#[async_trait]
impl Requesters for Today {
    async fn current(&self, stored: &Identity) -> Result<Option<Identity>, Box<dyn std::error::Error + Send + Sync>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.fails() {
            return Err("the directory is down".into());
        }
        let says = *self.says.lock().unwrap();
        let id = &stored.actor().unwrap().id;
        let of = |actor: Actor| Ok(Some(Identity::new(actor).tenant(stored.tenant_name())));
        match says {
            Says::Known => of(cast(id).role("of-today")),
            Says::WithoutRoles => of(Actor::user(id)),
            Says::NoMore => Ok(None),
            Says::Another => of(cast("sam")),
            Says::OtherTenant => Ok(Some(Identity::new(cast(id)).tenant("acme"))),
            Says::Panics => panic!("the test wants it"),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Refund {
    order_id: String,
    #[expect(dead_code, reason = "policies read it")]
    amount_cents: u32,
}

#[derive(Serialize, JsonSchema)]
struct Refunded {
    order: String,
}

async fn pay_back(cx: Invocation<Shop>, input: Refund) -> Result<Refunded, HandlerError> {
    if input.order_id == "slow" {
        let state = Arc::clone(&cx.app().0);
        state.entered.add_permits(1);
        state.go_on.acquire().await.unwrap().forget();
    }
    Ok(Refunded { order: input.order_id })
}

fn refunds() -> Capability<Shop> {
    let draft = Capability::write("orders.refund").risk(Risk::High).description("Refund an order.").tags(["orders"]);
    draft.expose([Surface::Direct, Surface::Http]).run_on_approval().handler(pay_back)
}

/// The shop whose refunds run on approval.
fn shop(policies: PolicySource, today: &Today, state: &Arc<State>) -> EngineBuilder<Shop> {
    let state = Arc::clone(state);
    everything_but(&["orders.refund"])
        .capability(refunds())
        .policies(policies)
        .requesters(today.clone())
        .worker_context(move |_| ready(Ok::<_, std::convert::Infallible>(Shop(Arc::clone(&state)))))
}

async fn open(today: &Today) -> (App, Arc<State>) {
    let state = Arc::default();
    (App::with(shop(texts(POLICIES), today, &state)).await, state)
}

/// Lets time pass until something holds, slowly: what is on its way must not run out of time on a busy machine.
async fn until(app: &App, holds: impl AsyncFn() -> bool) {
    for step in 0..4_000 {
        if holds().await {
            return;
        }
        if step % 5 == 4 {
            app.clock().advance(Duration::from_millis(250));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never came to hold:\n{}", app.lines().await);
}

async fn state_of(app: &App, id: &str) -> ApprovalState {
    app.approvals(cast("priya")).show(id).await.unwrap().status
}

/// How many lines of the trail say so.
async fn told(app: &App, what: &str) -> usize {
    app.lines().await.lines().filter(|it| it.contains(what)).count()
}

/// Files and approves a request of somebody else, which runs: the worker has looked at everything before it.
async fn another_runs(app: &App, order: &str) {
    let before = app.runs();
    app.approved(order).await;
    until(app, async || app.runs() > before).await;
}

#[tokio::test]
async fn apr_8_what_was_approved_runs_as_the_requester_of_today_from_where_it_was_asked_for() {
    let (app, state) = open(&Today::says(Says::Known)).await;
    let dana = app.over(Surface::Http, Identity::new(cast("dana")).client("agent-7"));
    let id = asked(&dana.invoke("orders.refund", refund("ord_1", 60_000)).idempotency_key("k").await);
    app.approvals(cast("priya")).approve(&id, "manager").await.unwrap();
    until(&app, async || told(&app, "capability.completed").await == 1).await;
    insta::assert_snapshot!(app.lines().await, @r"
    exe-1 capability.requested risk=high sideEffect=write
    exe-1 capability.approval_requested approvalId=apr-1 existing=false expiresAt=+3600s suspended=true
    exe-1 capability.approved approvalId=apr-1 by=user priya have=1 need=1 type=manager via=direct
    exe-2 capability.requested approvalId=apr-1 risk=high sideEffect=write
    exe-2 capability.started approvalId=apr-1 keyed=true
    exe-2 capability.completed attempts=1
    ");
    let agent = state.agents.lock().unwrap()[0].clone();
    assert_eq!((agent.surface, agent.client.map(|it| it.0)), (Surface::Http, Some("agent-7".into())));
    assert_eq!(agent.actor.roles, ["support", "of-today"]);
    assert_eq!(state_of(&app, &id).await, ApprovalState::Consumed);
    // The requester repeats the call, and gets what the worker's run came to.
    let again = dana.invoke("orders.refund", refund("ord_1", 60_000)).idempotency_key("k").await;
    assert_eq!((code(&again), app.runs()), ("-", 1));
}

#[tokio::test]
async fn apr_8_what_policy_refuses_is_left_alone_until_policies_change() {
    let today = Today::says(Says::WithoutRoles);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("shop.cedar");
    std::fs::write(&file, POLICIES).unwrap();
    let source = PolicySource::Directory(directory.path().into());
    let app = App::with(shop(source, &today, &Arc::default())).await;
    let id = app.approved("ord_1").await;
    until(&app, async || told(&app, "publicCode=POLICY_DENIED").await == 1).await;
    *today.says.lock().unwrap() = Says::Known;
    another_runs(&app, "ord_2").await;
    another_runs(&app, "ord_3").await;
    let denials = told(&app, "publicCode=POLICY_DENIED").await;
    assert_eq!((denials, state_of(&app, &id).await), (1, ApprovalState::Approved), "it is not taken up again");
    std::fs::write(&file, POLICIES.replace("@id(\"support-may-do-sums\")", "@id(\"support-may-do-many-sums\")"))
        .unwrap();
    assert!(app.engine().reload_policies().await.unwrap().changed);
    until(&app, async || app.runs() == 3).await;
    until(&app, async || state_of(&app, &id).await == ApprovalState::Consumed).await;
}

#[tokio::test]
async fn apr_8_what_fails_for_now_is_tried_again_with_nothing_spent() {
    let today = Today::after(3);
    let (app, _) = open(&today).await;
    let id = app.approved("ord_1").await;
    until(&app, async || today.failures.load(Ordering::Relaxed) == 0).await;
    assert_eq!((app.runs(), told(&app, "capability.started").await), (0, 0));
    until(&app, async || app.runs() == 1).await;
    until(&app, async || state_of(&app, &id).await == ApprovalState::Consumed).await;
}

#[tokio::test]
async fn apr_8_a_context_that_cannot_be_made_is_made_again_later() {
    let failures = Arc::new(AtomicU32::new(2));
    let left = Arc::clone(&failures);
    let builder = shop(texts(POLICIES), &Today::says(Says::Known), &Arc::default()).worker_context(move |_| {
        let fails = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1)).is_ok();
        ready(if fails { Err("no connection") } else { Ok(Shop(Arc::default())) })
    });
    let app = App::with(builder).await;
    app.approved("ord_1").await;
    until(&app, async || app.runs() == 1).await;
    assert_eq!(told(&app, "code=EXECUTION_FAILED").await, 2);
}

#[tokio::test]
async fn apr_8_of_a_requester_who_is_no_more_or_another_one_nothing_runs_and_the_trail_says_so() {
    for (says, told_as) in [
        (Says::NoMore, "code=UNAUTHENTICATED"),
        (Says::Another, "code=APPROVAL_NOT_FOUND"),
        (Says::OtherTenant, "code=APPROVAL_NOT_FOUND"),
    ] {
        let today = Today::says(says);
        let (app, _) = open(&today).await;
        let id = app.approved("ord_1").await;
        until(&app, async || told(&app, told_as).await == 1).await;
        *today.says.lock().unwrap() = Says::Known;
        another_runs(&app, "ord_2").await;
        assert_eq!((state_of(&app, &id).await, told(&app, told_as).await), (ApprovalState::Approved, 1), "{says:?}");
        // The requester is back, and runs it.
        assert_eq!(code(&app.dana().resume(&id).await), "-", "{says:?}");
    }
}

#[tokio::test]
async fn a_panic_of_the_application_s_directory_is_a_failure_that_may_pass() {
    let today = Today::says(Says::Panics);
    let (app, _) = open(&today).await;
    app.approved("ord_1").await;
    until(&app, async || today.asked.load(Ordering::Relaxed) == 1).await;
    *today.says.lock().unwrap() = Says::Known;
    until(&app, async || app.runs() == 1).await;
    assert_eq!(today.asked.load(Ordering::Relaxed), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apr_8_two_processes_run_each_request_once_and_never_meet() {
    let (place, today) = (Place::new().unwrap(), Today::says(Says::Known));
    let both = [(); 2].map(|()| shop(texts(POLICIES), &today, &Arc::default()));
    let [one, two] = both;
    let (one, two) = (App::open(one, &place).await, App::open(two, &place).await);
    let mut ids: Vec<ApprovalId> = Vec::new();
    for n in 0..20 {
        ids.push(if n % 2 == 0 { &one } else { &two }.approved(&format!("ord_{n}")).await);
    }
    until(&one, async || one.runs() + two.runs() >= 20).await;
    until(&one, async || told(&one, "capability.completed").await == 20).await;
    assert_eq!(one.runs() + two.runs(), 20);
    // Taken up by one of them alone: nobody came too late.
    assert_eq!((told(&one, "capability.started").await, told(&one, "capability.failed").await), (20, 0));
    for id in &ids {
        assert_eq!(state_of(&one, id).await, ApprovalState::Consumed);
    }
}

#[tokio::test]
async fn a_shutdown_waits_for_what_the_worker_runs_and_takes_up_nothing_more() {
    let place = Place::new().unwrap();
    let (today, state) = (Today::says(Says::Known), Arc::default());
    let app = App::open(shop(texts(POLICIES), &today, &state), &place).await;
    let later = app.ask("ord_2").await;
    app.approved("slow").await;
    signal(&state.entered).await;
    let engine = app.engine().clone();
    let ending = tokio::spawn(async move { engine.shutdown(Duration::from_secs(10)).await });
    while code(&app.dana().invoke("act.none", crate::shop::act("ok")).await) != "UNAVAILABLE" {
        tokio::task::yield_now().await; // the shutdown is on its way
    }
    app.approvals(cast("priya")).approve(&later, "manager").await.unwrap();
    state.go_on.add_permits(1);
    ending.await.unwrap();
    let events = stored_events(place.database()).await;
    let count = |which: fn(&EventKind) -> bool| events.iter().filter(|(_, it)| which(&it.kind)).count();
    assert_eq!(count(|it| matches!(it, EventKind::Completed { .. })), 1);
    assert_eq!(count(|it| matches!(it, EventKind::Started { .. })), 1);
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn without_requesters_or_a_context_it_cannot_be_registered() {
    let built = everything_but(&["orders.refund"]).capability(refunds()).policies(texts(POLICIES));
    let error = built.requesters(Today::says(Says::Known)).database("sqlite:none.db").build().await.err().unwrap();
    insta::assert_snapshot!(error, @r"
    the engine cannot be built, 1 problem
      `orders.refund`: it runs on approval, and no worker could run it; give the builder `requesters` and a `worker_context`, or remove `run_on_approval`
    ");
}

#[tokio::test]
async fn what_does_not_run_on_approval_waits_for_its_requester() {
    let (app, _) = open(&Today::says(Says::Known)).await;
    let gift = asked(&app.dana().invoke("gifts.send", serde_json::json!({})).await);
    app.approvals(cast("priya")).approve(&gift, "manager").await.unwrap();
    another_runs(&app, "ord_1").await;
    assert_eq!((state_of(&app, &gift).await, app.runs()), (ApprovalState::Approved, 1));
}

/// Kills its process when it is asked who a requester is: the request is taken up, and nothing has begun.
struct Deadly;

#[async_trait]
impl Requesters for Deadly {
    async fn current(&self, _: &Identity) -> Result<Option<Identity>, Box<dyn std::error::Error + Send + Sync>> {
        println!("struck");
        let _ = std::io::stdout().flush();
        let _ = Command::new("kill").args(["-KILL", &std::process::id().to_string()]).status();
        std::future::pending().await
    }
}

/// Appends a line to the file of effects.
async fn effect(cx: Invocation<std::path::PathBuf>, input: Refund) -> Result<Refunded, HandlerError> {
    let mut file = OpenOptions::new().create(true).append(true).open(cx.app())?;
    file.write_all(format!("{}\n", input.order_id).as_bytes())?;
    Ok(Refunded { order: input.order_id })
}

async fn process(directory: &Path, requesters: impl Requesters) -> Engine<std::path::PathBuf> {
    let effects = directory.join("effects");
    let draft = Capability::write("orders.refund").risk(Risk::High).description("Refund an order.");
    Engine::builder()
        .capability(draft.expose([Surface::Direct]).run_on_approval().handler(effect))
        .policies(texts(&format!("{}{}", crate::shop::ALLOW_ALL, GATES)))
        .database(format!("sqlite:{}", directory.join("worker.db").display()))
        .lease(Duration::from_secs(1))
        .sweep(Duration::from_millis(250))
        .requesters(requesters)
        .worker_context(move |_| ready(Ok::<_, std::convert::Infallible>(effects.clone())))
        .build()
        .await
        .unwrap()
}

const GATES: &str = r#"
@id("refunds-need-a-manager") @approval("manager") forbid (principal, action == Action::"orders.refund", resource);
@id("managers") permit (principal in Role::"manager", action == Countersign::Action::"approve", resource);
"#;

/// The victim's side: this very test, run in a process of its own.
#[test]
fn a_victim_dies_with_a_request_in_its_hands() {
    let Ok(directory) = std::env::var("COUNTERSIGN_WORKER_VICTIM") else { return };
    let directory = std::path::PathBuf::from(directory);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = process(&directory, Deadly).await;
        let dana = engine.on_behalf_of(cast("dana"), directory.join("effects"));
        let id = asked(&dana.invoke("orders.refund", refund("ord_1", 1)).await);
        engine.approvals(cast("priya")).approve(&id, "manager").await.unwrap();
        tokio::time::sleep(Duration::from_mins(1)).await; // until it is killed
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apr_8_a_process_that_is_killed_between_taking_up_and_beginning_leaves_the_request_to_another() {
    let place = tempfile::tempdir().unwrap();
    let victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "worker::a_victim_dies_with_a_request_in_its_hands", "--nocapture"])
        .env("COUNTERSIGN_WORKER_VICTIM", place.path())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&victim.stdout).contains("struck") && victim.status.code().is_none());
    let effects = || std::fs::read_to_string(place.path().join("effects")).unwrap_or_default();
    assert_eq!(effects(), "");
    let survivor = process(place.path(), Today::says(Says::Known)).await;
    for _ in 0..600 {
        if !effects().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    survivor.shutdown(Duration::from_secs(10)).await;
    assert_eq!(effects(), "ord_1\n");
    let events = stored_events(place.path().join("worker.db")).await;
    let names: Vec<&str> =
        events.iter().map(|(_, it)| it.kind.name()).filter(|it| !it.starts_with("policy.")).collect();
    assert_eq!(
        names,
        [
            "capability.requested",
            "capability.approval_requested",
            "capability.approved",
            "capability.requested",
            "capability.started",
            "capability.completed",
        ]
    );
}

/// Agrees inline, while the call waits.
struct Priya;

#[async_trait]
impl countersign::ApprovalHandler for Priya {
    async fn ask(&self, _: &countersign::ApprovalView) -> Option<countersign::InlineDecision> {
        Some(countersign::InlineDecision {
            actor: cast("priya"),
            kind: "manager".into(),
            verdict: countersign::Verdict::Approve,
            comment: None,
        })
    }
}

#[tokio::test]
async fn what_is_approved_inline_is_left_to_the_call_that_waits_for_it() {
    let builder = shop(texts(POLICIES), &Today::says(Says::Known), &Arc::default()).approver(Priya);
    let app = App::with(builder).await;
    for n in 0..20 {
        let outcome = app.dana().invoke("orders.refund", refund(&format!("ord_{n}"), 60_000)).await;
        assert_eq!(code(&outcome), "-", "{outcome:?}");
        app.clock().advance(Duration::from_secs(1));
    }
    assert_eq!((app.runs(), told(&app, "capability.failed").await), (20, 0));
}
