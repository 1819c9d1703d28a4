//! Others are told: signed, at least once, without payloads, and one receiver never delays another.

mod killed;
pub(crate) mod receiver;

use std::path::Path;
use std::time::Duration;

use countersign::notifications::{NotificationSettings, Notifications};
use countersign::testing::Place;
use countersign::{ApprovalState, EngineBuilder, Problem};
use serde_json::{Value, json};

use crate::logs::{logged, watch_logs};
use crate::shop::{App, Shop, act, asked, cast, code, omar, refund, shop};
use crate::tamper::numbers;
use receiver::{Answer, Message, Receiver};

/// Two secrets as they are configured.
pub(crate) const SECRETS: [&str; 2] =
    ["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr"];

fn env(name: &str) -> Option<String> {
    match name {
        "ONE" => Some(SECRETS[0].into()),
        "TWO" => Some(SECRETS[1].into()),
        "SHORT" => Some("whsec_c2hvcnQ=".into()),
        _ => None,
    }
}

fn settings(text: &str) -> NotificationSettings {
    toml::from_str(text).unwrap()
}

fn opened(text: &str) -> Notifications {
    Notifications::open(&settings(text), Path::new("."), &env).unwrap()
}

/// One webhook, for everything.
fn to(receiver: &Receiver) -> Notifications {
    with(receiver, "")
}

fn with(receiver: &Receiver, more: &str) -> Notifications {
    opened(&format!(
        "approval_url = 'https://app.example/approvals/{{id}}'\n[[webhooks]]\nname = 'desk'\nurl = '{}'\nsecrets = \
         [{{env = 'ONE'}}, {{env = 'TWO'}}]\n{more}",
        receiver.url
    ))
}

fn telling(notifications: Notifications) -> EngineBuilder<Shop> {
    shop().notifications(notifications)
}

/// Lets time pass until something holds, slowly: what is on its way must not run out of time on a busy machine.
async fn until(app: &App, holds: impl AsyncFn() -> bool) {
    for step in 0..8_000 {
        if holds().await {
            return;
        }
        if step % 20 == 19 {
            app.clock().advance(Duration::from_secs(1));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never came to hold");
}

/// How many rows of the outbox are due, and how many are dead.
async fn waiting(app: &App) -> (i64, i64) {
    let count = async |state: &str| {
        let query = format!("SELECT COUNT(*) FROM outbox WHERE state = '{state}'");
        numbers(&app.place().database(), &query).await[0]
    };
    (count("due").await, count("dead").await)
}

/// Time passes here too: an attempt that found no time on a busy machine is made again.
async fn settled(app: &App) {
    until(app, async || waiting(app).await == (0, 0)).await;
}

/// Bodies, in the order of what they tell of.
fn bodies(mut messages: Vec<Message>) -> Vec<Value> {
    messages.sort_by_key(|it| it.id().to_owned());
    messages.iter().map(Message::json).collect()
}

#[tokio::test]
async fn a_request_is_told_from_its_filing_to_its_run_without_what_it_is_about() {
    let receiver = Receiver::new(&[], Answer::Status(204)).await;
    let app = App::with(telling(to(&receiver))).await;
    let id = asked(&app.dana().invoke("orders.refund", refund("canary-order", 60_000)).await);
    receiver.got(1).await;
    app.approvals(cast("priya")).approve(&id, "manager").await.unwrap();
    receiver.got(2).await;
    assert_eq!(code(&app.dana().resume(&id).await), "-");
    let messages = receiver.got(3).await;
    assert!(messages.iter().all(|it| !it.body.contains("canary") && !it.body.contains("60000")), "{messages:?}");
    settled(&app).await;
    story(messages);
}

/// What the three messages of a request say.
#[expect(clippy::too_many_lines, reason = "it is what they say")]
fn story(messages: Vec<Message>) {
    insta::assert_json_snapshot!(bodies(messages), @r#"
    [
      {
        "type": "approval.requested",
        "timestamp": "2026-01-01T00:00:00.000000Z",
        "data": {
          "approvalId": "apr-1",
          "executionId": "exe-1",
          "capabilityId": "orders.refund",
          "tenant": "default",
          "requester": {
            "id": "dana",
            "kind": "user"
          },
          "reasons": [
            "Refunds above $500 need a manager's approval."
          ],
          "requirements": [
            {
              "quorum": 1,
              "type": "manager"
            }
          ],
          "expiresAt": "2026-01-01T01:00:00.000000Z",
          "url": "https://app.example/approvals/apr-1"
        }
      },
      {
        "type": "approval.approved",
        "timestamp": "2026-01-01T00:00:00.000000Z",
        "data": {
          "approvalId": "apr-1",
          "executionId": "exe-1",
          "capabilityId": "orders.refund",
          "tenant": "default",
          "requester": {
            "id": "dana",
            "kind": "user"
          },
          "reasons": [
            "Refunds above $500 need a manager's approval."
          ],
          "requirements": [
            {
              "quorum": 1,
              "type": "manager"
            }
          ],
          "expiresAt": "2026-01-01T01:00:00.000000Z",
          "decidedBy": {
            "id": "priya",
            "kind": "user"
          },
          "url": "https://app.example/approvals/apr-1"
        }
      },
      {
        "type": "execution.finished",
        "timestamp": "2026-01-01T00:00:00.000000Z",
        "data": {
          "approvalId": "apr-1",
          "executionId": "exe-2",
          "capabilityId": "orders.refund",
          "tenant": "default",
          "requester": {
            "id": "dana",
            "kind": "user"
          },
          "status": "completed"
        }
      }
    ]
    "#);
}

#[tokio::test]
async fn messages_are_signed_as_standard_webhooks_say_with_every_secret() {
    let receiver = Receiver::new(&[], Answer::Status(200)).await;
    let app = App::with(telling(to(&receiver))).await;
    app.ask("ord_1").await;
    let message = receiver.got(1).await.remove(0);
    let seconds: i64 = message.headers["webhook-timestamp"].parse().unwrap();
    assert_eq!(seconds, app.clock().now().0 / 1_000_000);
    let signed = SECRETS.map(|it| {
        let oracle = standardwebhooks::Webhook::new(it).unwrap();
        oracle.sign(message.id(), seconds, message.body.as_bytes()).unwrap()
    });
    assert_eq!(message.headers["webhook-signature"], signed.join(" "));
    assert_eq!((&*message.path, &*message.headers["content-type"]), ("/hook", "application/json"));
    // Its id is that of the event on record.
    let stored = countersign::testing::stored_events(app.place().database()).await;
    let event = stored.iter().find(|(_, it)| it.kind.name() == "capability.approval_requested").unwrap();
    assert_eq!(message.id(), event.1.id);
}

#[tokio::test]
async fn what_is_refused_dropped_or_sent_elsewhere_is_tried_again_as_the_same_message() {
    watch_logs();
    let first = [Answer::Status(500), Answer::Redirect, Answer::HalfClosed, Answer::Status(404)];
    let receiver = Receiver::new(&first, Answer::Endless).await;
    let app = App::with(telling(to(&receiver))).await;
    app.ask("ord_1").await;
    let database = app.place().database();
    for (count, wait, why) in
        [(1, 5, "status 500"), (2, 30, "status 307"), (3, 300, "no answer"), (4, 1_800, "status 404")]
    {
        until(&app, async || receiver.messages().len() == count).await;
        // What came of this very attempt: until then the row is claimed, and tells of the one before.
        let failed = format!("SELECT attempts FROM outbox WHERE attempts = {count} AND failure = '{why}'");
        until(&app, async || !numbers(&database, &failed).await.is_empty()).await;
        let next = numbers(&database, "SELECT next_at FROM outbox").await[0] - app.clock().now().0;
        // Some of it may be over already.
        assert!(((wait - 5) * 1_000_000..=wait * 1_000_000).contains(&next), "{count}: {next}");
        app.clock().advance(Duration::from_micros(next.unsigned_abs()));
    }
    until(&app, async || waiting(&app).await == (0, 0)).await;
    let messages = receiver.messages();
    assert!(messages.iter().all(|it| it.id() == messages[0].id() && it.body == messages[0].body), "{messages:?}");
    assert!(messages.iter().all(|it| it.path == "/hook"), "nobody else got it");
    assert_eq!(messages.len(), 5);
    assert_eq!(logged("canary-answer"), [""; 0], "what a receiver answers is nobody's business");
}

#[tokio::test]
async fn a_receiver_that_says_nothing_delays_no_other() {
    let (silent, healthy) = (Receiver::new(&[], Answer::Silent).await, Receiver::new(&[], Answer::Status(200)).await);
    let hook = |name: &str, it: &Receiver| {
        format!("[[webhooks]]\nname = '{name}'\nurl = '{}'\nsecrets = [{{env = 'ONE'}}]\n", it.url)
    };
    let app = App::with(telling(opened(&(hook("silent", &silent) + &hook("healthy", &healthy))))).await;
    for n in 0..20 {
        app.ask(&format!("ord_{n}")).await;
    }
    healthy.got(20).await;
    silent.got(16).await; // no more at once
    assert_eq!(silent.messages().len(), 16);
    // Its time is over: the attempt failed.
    app.clock().advance(Duration::from_secs(15));
    let failed = "SELECT COUNT(*) FROM outbox WHERE failure = 'timeout'";
    while numbers(&app.place().database(), failed).await[0] < 16 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    silent.now(Answer::Status(200));
    until(&app, async || waiting(&app).await == (0, 0)).await;
    let ids: std::collections::BTreeSet<String> = silent.messages().iter().map(|it| it.id().to_owned()).collect();
    assert_eq!(ids.len(), 20);
}

#[tokio::test]
async fn a_message_that_nobody_takes_is_given_up_and_shown() {
    let receiver = Receiver::new(&[], Answer::Status(503)).await;
    let app = App::with(telling(with(&receiver, "attempts = 3"))).await;
    app.ask("ord_1").await;
    until(&app, async || waiting(&app).await == (0, 1)).await;
    assert_eq!(receiver.messages().len(), 3);
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_told_nothing_more() {
    let receiver = Receiver::new(&[], Answer::Status(410)).await;
    let app = App::with(telling(to(&receiver))).await;
    app.ask("ord_1").await;
    until(&app, async || waiting(&app).await == (0, 1)).await;
    app.ask("ord_2").await;
    assert_eq!((waiting(&app).await, receiver.messages().len()), ((0, 1), 1));
}

#[tokio::test]
async fn a_webhook_gets_the_events_and_tenants_that_it_names() {
    let receiver = Receiver::new(&[], Answer::Status(200)).await;
    let only = "events = ['approval.rejected', 'execution.*']\ntenants = ['acme']";
    let app = App::with(telling(with(&receiver, only))).await;
    assert_eq!(code(&app.dana().invoke("act.write", act("ok")).await), "-"); // of another tenant
    let id = asked(&app.on_behalf_of(omar()).invoke("orders.refund", refund("ord_1", 60_000)).await);
    let paul = countersign::Identity::new(cast("paul")).tenant("acme");
    let decided = app.approvals(paul).reject(&id, "manager").await.unwrap();
    assert_eq!(decided.status, ApprovalState::Rejected);
    assert_eq!(code(&app.on_behalf_of(omar()).invoke("act.read", act("ok")).await), "-"); // a read leaves no record
    settled(&app).await; // the deadline that comes next would end an attempt that is on its way
    let call = app.on_behalf_of(omar()).invoke("act.write", act("hang")).start();
    app.expire().await;
    assert_eq!(code(&call.await), "TIMEOUT");
    assert_eq!(code(&app.on_behalf_of(omar()).invoke("act.write", act("declared")).await), "EXECUTION_FAILED");
    settled(&app).await;
    let mut told: Vec<String> = receiver
        .messages()
        .iter()
        .map(|it| {
            let data = &it.json()["data"];
            let text = |name: &str| data[name].as_str().unwrap_or("-").to_owned();
            format!("{} {} {} {}", it.topic(), text("status"), text("executed"), text("code"))
        })
        .collect();
    told.sort();
    told.dedup(); // at least once
    assert_eq!(
        told,
        [
            "approval.rejected - - -",
            "execution.finished failed unknown EXECUTION_FAILED",
            "execution.unknown unknown unknown TIMEOUT"
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_deliver_each_message_once_and_one_without_webhooks_writes_for_them() {
    let place = Place::new().unwrap();
    let receiver = Receiver::new(&[], Answer::Status(200)).await;
    let quiet = App::open(shop(), &place).await;
    let (one, two) = (App::open(telling(to(&receiver)), &place).await, App::open(telling(to(&receiver)), &place).await);
    for (n, app) in [&quiet, &one, &two].into_iter().cycle().take(30).enumerate() {
        app.ask(&format!("ord_{n}")).await;
    }
    until(&one, async || waiting(&one).await == (0, 0)).await;
    let mut ids: Vec<String> = receiver.messages().iter().map(|it| it.id().to_owned()).collect();
    ids.sort();
    let count = ids.len();
    ids.dedup();
    assert_eq!((count, ids.len()), (30, 30));
}

#[tokio::test]
async fn what_would_have_expired_is_not_told_when_it_is_over() {
    let receiver = Receiver::new(&[Answer::Status(500)], Answer::Status(200)).await;
    let hook = with(&receiver, "events = ['approval.expiring']");
    // Sweeps come due; the lease does not run out while time leaps.
    let app = App::with(telling(hook).sweep(Duration::from_secs(1))).await;
    let first = app.ask("ord_1").await;
    app.clock().advance(Duration::from_mins(45));
    until(&app, async || receiver.messages().len() == 1).await;
    app.approvals(cast("priya")).reject(&first, "manager").await.unwrap(); // so there is nothing to warn of any more
    let second = app.ask("ord_2").await;
    app.clock().advance(Duration::from_mins(45));
    until(&app, async || receiver.messages().len() == 2).await;
    let mut told: Vec<Value> = receiver.messages().iter().map(Message::json).collect();
    let ids: Vec<&Value> = told.iter().map(|it| &it["data"]["approvalId"]).collect();
    assert_eq!(ids, [&json!(first), &json!(second)]);
    told[0]["timestamp"] = "[when the sweep came by]".into();
    insta::assert_json_snapshot!(told[0], @r#"
    {
      "type": "approval.expiring",
      "timestamp": "[when the sweep came by]",
      "data": {
        "approvalId": "apr-1",
        "capabilityId": "orders.refund",
        "tenant": "default",
        "requester": {
          "id": "dana",
          "kind": "user"
        },
        "reasons": [
          "Refunds above $500 need a manager's approval."
        ],
        "requirements": [
          {
            "quorum": 1,
            "type": "manager"
          }
        ],
        "expiresAt": "2026-01-01T01:00:00.000000Z",
        "status": "pending",
        "url": "https://app.example/approvals/apr-1"
      }
    }
    "#);
    settled(&app).await;
}

#[tokio::test]
async fn a_shutdown_waits_for_messages_on_their_way() {
    let receiver = Receiver::new(&[], Answer::Silent).await;
    let app = App::with(telling(to(&receiver))).await;
    app.ask("ord_1").await;
    receiver.got(1).await;
    let (engine, clock) = (app.engine().clone(), app.clock().clone());
    let ending = tokio::spawn(async move { engine.shutdown(Duration::from_mins(1)).await });
    while code(&app.dana().invoke("act.none", act("ok")).await) != "UNAVAILABLE" {
        tokio::task::yield_now().await;
    }
    clock.advance(Duration::from_secs(15)); // the attempt's time is over, not the shutdown's patience
    ending.await.unwrap();
    let failures = "SELECT COUNT(*) FROM outbox WHERE state = 'due' AND failure = 'timeout'";
    assert_eq!(numbers(&app.place().database(), failures).await, [1]);
}

#[test]
fn settings_that_cannot_be_kept_are_told_all_at_once() {
    let text = "
        approval_url = 'http://app.example/approvals'
        [[webhooks]]
        name = 'Desk'
        url = 'http://hooks.example/x'
        secrets = [{env = 'MISSING'}, {env = 'SHORT'}]
        events = ['approval.reqested', 'audit.*']
        attempts = 0
        [[webhooks]]
        name = 'desk'
        url = 'https://me:word@hooks.example/x'
        secrets = []
        tenants = ['']
        [[webhooks]]
        name = 'desk'
        url = 'nowhere'
        secrets = [{file = 'no/such/file'}]
    ";
    let problems = Notifications::open(&settings(text), Path::new("/etc"), &env).unwrap_err();
    let shown: Vec<String> = problems.iter().map(|Problem { at, what, fix }| format!("{at}: {what}; {fix}")).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    notifications.approval_url: it has no `{id}`, so that it leads to no request; write something like `https://app.example/approvals/{id}`
    webhook `Desk`: its name is not legal; use 1 to 64 lower-case letters, digits, `_` and `-`
    webhook `Desk`: `attempts` is out of bounds; choose 1 to 16, or leave it out
    webhook `Desk`: its `url` is neither https nor this machine; write an https URL; http goes to this machine only, `http://127.0.0.1:9000/hook`
    webhook `Desk`: the environment variable `MISSING` is not set, or empty; put the secret there
    webhook `Desk`: a secret is not `whsec_` and base64; make one of 24 to 64 random bytes: `echo whsec_$(openssl rand -base64 32)`
    webhook `Desk`: there is no event `approval.reqested`; did you mean `approval.requested`?
    webhook `Desk`: there is no event `audit.*`; name topics, `approval.*` or `execution.*`
    webhook `desk`: `tenants` are not fit; name at most 256, none of them empty
    webhook `desk`: its `url` holds a password; remove it: the receiver checks signatures
    webhook `desk`: it has no `secrets`, or more than 4; name 1 to 4: `secrets = [{ env = "WEBHOOK_SECRET" }]`
    webhook `desk`: two webhooks have this name; rename one of them
    webhook `desk`: its `url` is none; write an https URL; http goes to this machine only, `http://127.0.0.1:9000/hook`
    webhook `desk`: the file `/etc/no/such/file` cannot be read: No such file or directory (os error 2); put the secret there
    "#);
    let unknown = toml::from_str::<NotificationSettings>("webhook = []").unwrap_err();
    assert!(unknown.message().contains("unknown field `webhook`"), "{unknown}");
    assert!(Notifications::open(&NotificationSettings::default(), Path::new("."), &env).is_ok());
    let shown = format!("{:?}", opened(TWO));
    assert!(shown.contains("desk") && !shown.contains("C2FV") && !shown.contains("hooks.example"), "{shown}");
}

const TWO: &str = "[[webhooks]]\nname = 'desk'\nurl = 'https://hooks.example/x'\nsecrets = [{env = 'ONE'}]";
