//! What became of runs of which nobody knows: endpoints and commands are asked, and believed only if they say so.

use std::path::{Path, PathBuf};
use std::time::Duration;

use countersign::manifest::{ManifestSettings, load};
use countersign::testing::{Place, TestApp};
use countersign::{Engine, Outcome, PolicySource};
use serde_json::{Value, json};

use super::commands::{Alive, kill, victim};
use super::peer::{Call, Peer, Reply, Seen};
use super::{Files, POLICIES, SECRET, dana, fate, guarded, manifest};

const JSON: &str = "application/json";
const PATIENCE: Duration = Duration::from_secs(30);

fn policies() -> PolicySource {
    PolicySource::Files(vec![("all.cedar".into(), POLICIES.into())])
}

/// A write, and who is asked what became of it.
fn reconciled(handler: &str, reconcile: &str) -> Files {
    Files::of(&[("a.toml", doubted("things.change", handler, reconcile))])
}

fn doubted(id: &str, handler: &str, reconcile: &str) -> String {
    manifest(id, "write", handler) + "\n[reconcile]\n" + reconcile
}

async fn asking(files: &Files, settings: &ManifestSettings) -> TestApp<()> {
    asking_at(&Place::new().unwrap(), files, settings).await
}

async fn asking_at(place: &Place, files: &Files, settings: &ManifestSettings) -> TestApp<()> {
    let builder = Engine::builder().capabilities(files.load(settings).unwrap()).policies(policies());
    TestApp::open(builder.sweep(Duration::from_secs(6)), |_| (), place).await.unwrap()
}

async fn call(app: &TestApp<()>) -> Outcome {
    app.on_behalf_of(dana()).invoke("things.change", json!({"n": 1})).idempotency_key("k").await
}

/// The time of the engine goes on until something happens: rounds of hooks come, and those that were put off.
async fn in_time<T>(app: &TestApp<()>, it: impl Future<Output = T>) -> T {
    let passes = async {
        loop {
            app.clock().advance(Duration::from_millis(500));
            tokio::time::sleep(Duration::from_millis(50)).await; // a hook has at least 5 s of it
        }
    };
    tokio::select! {
        it = tokio::time::timeout(PATIENCE, it) => it.expect("it happens"),
        () = passes => unreachable!(),
    }
}

/// Where the execution stands once it is not unknown any more.
async fn settled(app: &TestApp<()>, outcome: &Outcome) -> String {
    let known = async {
        loop {
            let view = app.executions(dana()).show(outcome.execution_id()).await.unwrap();
            match json!(view.status).as_str().unwrap() {
                "unknown" => tokio::time::sleep(Duration::from_millis(10)).await,
                known => return known.to_owned(),
            }
        }
    };
    in_time(app, known).await // asked again, should the machine be so slow that its time was over
}

/// The next call that arrives. Connections that were given up before it do not matter.
async fn next_call(peer: &mut Peer) -> Call {
    loop {
        if let Seen::Call(call) = peer.next().await {
            return call;
        }
    }
}

fn endpoint(url: &str) -> String {
    format!("kind = \"http\"\nurl = \"{url}\"\nsign = {{ env = \"SIGNING_KEY\" }}")
}

#[tokio::test]
async fn an_endpoint_is_asked_by_another_document_than_calls_are() {
    let done = Reply::Answer("200 OK", JSON, r#"{"reconciled":"completed","output":"late"}"#);
    let mut peer = Peer::new(Box::leak(Box::new([Reply::Reset, done]))).await;
    let at = |path: &str| endpoint(&format!("{}{path}", peer.origin));
    let files = reconciled(&at("/run"), &at("/became"));
    let app = asking(&files, &ManifestSettings::default().endpoints([&peer.origin])).await;
    let outcome = call(&app).await;
    assert_eq!(fate(&app, &outcome).await, "EXECUTION_FAILED, executed unknown: unknown");
    let (ran, asked) = (peer.call().await, in_time(&app, peer.call()).await);
    assert_eq!(settled(&app, &outcome).await, "completed");
    assert_eq!(fate(&app, &call(&app).await).await, "completed \"late\"");

    assert_eq!(asked.head.lines().next(), Some("POST /became HTTP/1.1"));
    let id = asked.header("webhook-id").unwrap();
    assert!(id.starts_with("reconcile-"), "{id}");
    let theirs = standardwebhooks::Webhook::new(SECRET).unwrap();
    let seconds = asked.header("webhook-timestamp").unwrap().parse().unwrap();
    assert_eq!(asked.header("webhook-signature").unwrap(), theirs.sign(id, seconds, &asked.body).unwrap());
    assert_eq!(asked.header("idempotency-key"), None, "a server that keeps answers by it would give the call's");
    let (mut ran, mut asked) = (ran.json(), asked.json());
    for document in [&mut ran, &mut asked["reconcile"]] {
        document["invocation"]["deadline"] = "[time]".into();
    }
    assert_eq!(asked, json!({ "reconcile": ran }));
}

/// Less than it promises.
const SHORT: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{\"reconciled\":\"not_executed\"}";

#[tokio::test]
async fn only_an_endpoint_that_says_so_settles_anything() {
    let answer = |body| Reply::Answer("200 OK", JSON, body);
    for (name, reply, becomes) in [
        ("completed", answer(r#"{"reconciled":"completed","output":1}"#), "completed"),
        ("an output of another shape", answer(r#"{"reconciled":"completed","output":"1"}"#), "unknown"),
        ("not executed, while who called lives", answer(r#"{"reconciled":"not_executed"}"#), "unknown"),
        ("unknown", answer(r#"{"reconciled":"unknown"}"#), "unknown"),
        ("a call's answer, as to a wrong signature", answer(r#"{"status":"not_executed"}"#), "unknown"),
        ("an error", Reply::Answer("503 No", JSON, r#"{"reconciled":"not_executed"}"#), "unknown"),
        ("a page", Reply::Answer("200 OK", "text/html", r#"{"reconciled":"not_executed"}"#), "unknown"),
        ("a reset", Reply::Reset, "unknown"),
        ("a way elsewhere", Reply::Answer("307 Go", JSON, r#"{"reconciled":"not_executed"}"#), "unknown"),
        ("an answer cut short", Reply::Bytes(SHORT), "unknown"),
        ("an answer without an end", Reply::Flood, "unknown"),
        ("an answer that is too slow", Reply::Trickle, "unknown"),
        ("silence", Reply::Nothing, "unknown"),
    ] {
        let mut peer = Peer::new(Box::leak(Box::new([Reply::Reset, reply]))).await;
        let at = |path: &str| endpoint(&format!("{}{path}", peer.origin));
        let text = doubted("things.change", &at("/run"), &at("/became"));
        let files =
            Files::of(&[("a.toml", text.replace("output_schema = {}", "output_schema = { type = \"integer\" }"))]);
        let app = asking(&files, &ManifestSettings::default().endpoints([&peer.origin])).await;
        let outcome = call(&app).await;
        assert!(matches!(peer.next().await, Seen::Call(_)), "{name}");
        in_time(&app, next_call(&mut peer)).await;
        if becomes == "unknown" {
            in_time(&app, next_call(&mut peer)).await; // asked again: the first answer decided nothing
            assert!(fate(&app, &call(&app).await).await.starts_with("OUTCOME_UNKNOWN "), "{name}");
        } else {
            assert_eq!(settled(&app, &outcome).await, becomes, "{name}");
        }
    }
}

#[tokio::test]
async fn who_never_answers_keeps_nobody_else_from_being_asked() {
    let mut slow = Peer::new(&[Reply::Reset, Reply::Nothing]).await;
    let mut fast =
        Peer::new(&[Reply::Reset, Reply::Answer("200 OK", JSON, r#"{"reconciled":"completed","output":1}"#)]).await;
    let at = |peer: &Peer, path: &str| endpoint(&format!("{}{path}", peer.origin));
    let files = Files::of(&[
        ("a.toml", doubted("things.change", &at(&slow, "/run"), &at(&slow, "/became"))),
        ("b.toml", doubted("things.other", &at(&fast, "/run"), &at(&fast, "/became"))),
    ]);
    let app = asking(&files, &ManifestSettings::default().endpoints([&slow.origin, &fast.origin])).await;
    assert_eq!(fate(&app, &call(&app).await).await, "EXECUTION_FAILED, executed unknown: unknown");
    let other = app.on_behalf_of(dana()).invoke("things.other", json!({})).await;
    assert_eq!(fate(&app, &other).await, "EXECUTION_FAILED, executed unknown: unknown");
    slow.call().await;
    fast.call().await;
    in_time(&app, slow.call()).await; // no time passes from here, and so it has all of it
    assert!(matches!(fast.next().await, Seen::Call(_)), "in the same round");
    assert_eq!(settled(&app, &other).await, "completed");
}

/// A command in place of an endpoint.
fn script(text: &str) -> String {
    format!("kind = \"command\"\nprogram = \"/bin/bash\"\nargs = ['-c', '''{text}''']")
}

#[tokio::test]
async fn only_a_command_that_says_so_settles_anything() {
    for (name, text, becomes) in [
        ("completed", r#"echo '{"reconciled":"completed","output":1}'"#, "completed"),
        ("not executed, while who called lives", r#"echo '{"reconciled":"not_executed"}'"#, "unknown"),
        ("unknown", r#"echo '{"reconciled":"unknown"}'"#, "unknown"),
        ("what says of a call that nothing happened", "exit 75", "unknown"),
        ("a call's answer", r#"echo '{"status":"not_executed"}'"#, "unknown"),
        ("an answer and an error", r#"echo '{"reconciled":"not_executed"}'; exit 1"#, "unknown"),
        ("an answer and a signal", r#"echo '{"reconciled":"not_executed"}'; kill -9 $$"#, "unknown"),
        ("a flood", r#"echo '{"reconciled":"not_executed"}'; yes ' '"#, "unknown"),
        ("an answer that comes too late", r#"echo '{"reconciled":"not_executed"}'; sleep 1000"#, "unknown"),
    ] {
        let alive = Alive::new().await;
        let files = reconciled(&script("exit 1"), &script(&(alive.up() + text)));
        let app = asking(&files, &guarded()).await;
        let outcome = call(&app).await;
        in_time(&app, alive.family()).await;
        if becomes == "unknown" {
            in_time(&app, alive.family()).await; // asked again: the first answer decided nothing
            assert!(fate(&app, &call(&app).await).await.starts_with("OUTCOME_UNKNOWN "), "{name}");
        } else {
            assert_eq!(settled(&app, &outcome).await, becomes, "{name}");
        }
    }
}

#[tokio::test]
async fn that_nothing_happened_is_believed_when_the_engine_that_called_is_gone() {
    let not = Reply::Answer("200 OK", JSON, r#"{"reconciled":"not_executed"}"#);
    let peer = Peer::new(Box::leak(Box::new([Reply::Reset, not]))).await;
    let at = |path: &str| endpoint(&format!("{}{path}", peer.origin));
    let settings = guarded().endpoints([&peer.origin]);
    let said = r#"echo '{"reconciled":"not_executed"}'"#;
    for files in [reconciled(&at("/run"), &at("/became")), reconciled(&script("exit 1"), &script(said))] {
        let place = Place::new().unwrap();
        let app = asking_at(&place, &files, &settings).await;
        let outcome = call(&app).await;
        assert_eq!(fate(&app, &outcome).await, "EXECUTION_FAILED, executed unknown: unknown");
        app.engine().shutdown(PATIENCE).await;
        let heir = asking_at(&place, &files, &settings).await;
        assert_eq!(settled(&heir, &outcome).await, "not_executed");
        let again = call(&heir).await;
        assert_ne!(again.execution_id(), outcome.execution_id(), "the key is free: it runs once more");
        assert_eq!(fate(&heir, &again).await, "EXECUTION_FAILED, executed unknown: unknown");
    }
}

#[tokio::test]
async fn a_command_reads_what_it_is_asked_about() {
    let tell = r#"read -r line; printf '{"reconciled":"completed","output":%s}' "$line""#;
    let files = reconciled(&script("exit 1"), &script(tell));
    let app = asking(&files, &guarded()).await;
    let outcome = call(&app).await;
    assert_eq!(settled(&app, &outcome).await, "completed");
    let replay = call(&app).await;
    let told = serde_json::to_value(replay.output()).unwrap();
    assert_eq!(told["reconcile"]["input"], json!({"n": 1}));
    assert_eq!(told["reconcile"]["invocation"]["executionId"], json!(outcome.execution_id()));
}

#[tokio::test]
async fn a_command_that_is_asked_and_never_ends_is_killed_when_nobody_waits_any_more() {
    let alive = Alive::new().await;
    let never = "trap '' TERM; (sleep 1000; true) & sleep 1000; true";
    let files = reconciled(&script("exit 1"), &script(&(alive.up() + never)));
    let app = asking(&files, &guarded()).await;
    assert_eq!(fate(&app, &call(&app).await).await, "EXECUTION_FAILED, executed unknown: unknown");
    let mut family = in_time(&app, alive.family()).await;
    app.clock().advance(Duration::from_secs(30));
    family.is_gone().await;
    let mut family = in_time(&app, alive.family()).await;
    app.engine().shutdown(PATIENCE).await;
    family.is_gone().await; // nor does it outlive its engine's orderly end
}

#[test]
fn the_procedure_itself_is_not_asked_what_it_did() {
    let at = ManifestSettings::default().endpoints(["https://app.example"]);
    let run = endpoint("https://app.example/run");
    let told = [
        reconciled(&run, &run).problems(&at),
        reconciled(&script("exit 1"), &script("exit 1")).problems(&guarded()),
        reconciled(&script("exit 1"), &script("exit 1").replace("/bin/bash", "/bin/./bash")).problems(&guarded()),
        reconciled(&run, "kind = \"http\"\nurl = \"https://app.example/became\"").problems(&at),
        reconciled(&run, &script("exit 1")).problems(&at),
        Files::of(&[(
            "a.toml",
            manifest("things.look", "read", &run) + "[reconcile]\n" + &endpoint("https://app.example/became"),
        )])
        .problems(&at),
    ];
    insta::assert_snapshot!(told.join("\n"), @r#"
    a.toml:17: `reconcile`: it is the procedure itself, which could run a second time; name another address or command, one that looks what happened and changes nothing
    a.toml:17: `reconcile`: it is the procedure itself, which could run a second time; name another address or command, one that looks what happened and changes nothing
    a.toml:17: `reconcile`: it is the procedure itself, which could run a second time; name another address or command, one that looks what happened and changes nothing
    a.toml:17: `reconcile.sign`: it is missing; name the secret that the endpoint checks signatures by: `sign = { env = "NAME" }`
    a.toml:17: `reconcile`: nothing would end the command if this process died; name the `countersign` binary with `guard` of `[capabilities]`
    a.toml:16: `reconcile`: it has a reconcile hook, but no effect; remove `reconcile`: nothing is ever unknown about a capability that changes nothing
    "#);
}

/// An engine on a place of its own, in real time.
async fn process(directory: &Path) -> Engine<()> {
    let loaded = load(&directory.join("manifests"), &guarded(), &super::env).unwrap();
    Engine::builder()
        .capabilities(loaded)
        .policies(policies())
        .database(format!("sqlite:{}", directory.join("asked.db").display()))
        .lease(Duration::from_secs(1))
        .sweep(Duration::from_millis(250))
        .build()
        .await
        .unwrap()
}

async fn change(engine: &Engine<()>) -> Value {
    json!(engine.on_behalf_of(dana(), ()).invoke("things.change", json!({"n": 1})).idempotency_key("k").await)
}

/// The victim's side: this very test, run in a process of its own.
#[test]
fn a_victim_asks_what_became_of_a_call() {
    let Ok(directory) = std::env::var("COUNTERSIGN_ASKING_VICTIM") else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = process(&PathBuf::from(directory)).await;
        change(&engine).await;
        std::future::pending::<()>().await; // until it is killed
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exe_10_a_command_that_is_asked_dies_with_its_engine_and_another_engine_asks_again() {
    let alive = Alive::new().await;
    let waits = "trap '' TERM; sleep 1000 & read -r _ <&3 || sleep 1000; echo '{\"reconciled\":\"completed\",\"output\":\"late\"}'";
    let text =
        manifest("things.change", "write", &script("exit 1")) + "\n[reconcile]\n" + &script(&(alive.up() + waits));
    let place = Files::of(&[("manifests/a.toml", text)]);
    let asks = "reconciling::a_victim_asks_what_became_of_a_call";
    let mut victim = victim(asks, "COUNTERSIGN_ASKING_VICTIM", place.path());
    let mut family = alive.family().await;
    kill(&victim.id().to_string());
    victim.wait().unwrap();
    family.is_gone().await;

    let survivor = process(place.path()).await;
    assert_eq!(change(&survivor).await["error"]["code"], "OUTCOME_UNKNOWN");
    let mut family = alive.family().await;
    family.go_on().await;
    family.is_gone().await;
    let replayed = async {
        loop {
            let outcome = change(&survivor).await;
            if outcome["output"] == "late" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, replayed).await.expect("what it said is on record");
    survivor.shutdown(PATIENCE).await;
}
