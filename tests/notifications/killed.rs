//! kill -9, whenever: of every event on record that somebody wants to know, somebody was told.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use countersign::testing::stored_events;
use countersign::{Actor, Capability, Engine, EventKind, HandlerError, Invocation, Risk, Surface};
use serde_json::json;

use super::receiver::{Answer, Receiver};
use super::{SECRETS, env};
use crate::shop::{ALLOW_ALL, texts};

const ROUNDS: usize = 4;

async fn note(_: Invocation<()>, (): ()) -> Result<String, HandlerError> {
    Ok("done".into())
}

async fn process(directory: &Path, url: &str) -> Engine<()> {
    let draft = Capability::write("notes.write").risk(Risk::Low).description("Write a note.");
    let settings = format!("[[webhooks]]\nname = 'w'\nurl = '{url}'\nsecrets = [{{env = 'ONE'}}]");
    let settings = toml::from_str(&settings).unwrap();
    let notifications = super::Notifications::open(&settings, directory, &env).unwrap();
    Engine::builder()
        .capability(draft.expose([Surface::Direct]).handler(note))
        .policies(texts(ALLOW_ALL))
        .database(format!("sqlite:{}", directory.join("told.db").display()))
        .lease(Duration::from_secs(1))
        .sweep(Duration::from_millis(250))
        .notifications(notifications)
        .build()
        .await
        .unwrap()
}

/// The victim's side: this very test, run in a process of its own.
#[test]
fn a_victim_writes_until_it_is_killed() {
    let Ok(order) = std::env::var("COUNTERSIGN_TELLING_VICTIM") else { return };
    let (directory, url) = order.split_once(' ').unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = process(&PathBuf::from(directory), url).await;
        let caller = engine.on_behalf_of(Actor::automation("victim"), ());
        loop {
            let outcome = caller.invoke("notes.write", json!({})).await;
            println!("wrote {}", outcome.execution_id());
            let _ = std::io::stdout().flush();
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whenever_a_process_is_killed_each_event_on_record_is_told_at_least_once() {
    assert!(SECRETS[0].starts_with("whsec_"));
    let place = tempfile::tempdir().unwrap();
    let receiver = Receiver::new(&[], Answer::Status(200)).await;
    for round in 0..ROUNDS {
        let order = format!("{} {}", place.path().display(), receiver.url);
        // Killed after so many writes: in another place each time.
        let kill = move || {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "notifications::killed::a_victim_writes_until_it_is_killed", "--nocapture"])
                .env("COUNTERSIGN_TELLING_VICTIM", order)
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
            let wrote = lines.filter(|it| it.starts_with("wrote")).take(3 + round * 5).count();
            child.kill().unwrap();
            child.wait().unwrap();
            wrote
        };
        assert_eq!(tokio::task::spawn_blocking(kill).await.unwrap(), 3 + round * 5);
    }
    let survivor = process(place.path(), &receiver.url).await;
    let database = place.path().join("told.db");
    for _ in 0..600 {
        let (unended, left) = ("SELECT COUNT(*) FROM execution WHERE ended_at IS NULL", "SELECT COUNT(*) FROM outbox");
        if super::numbers(&database, unended).await == [0] && super::numbers(&database, left).await == [0] {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    survivor.shutdown(Duration::from_secs(10)).await;
    let events = stored_events(&database).await;
    let ends = events.iter().filter(|(_, it)| {
        matches!(it.kind, EventKind::Completed { .. } | EventKind::Cancelled { .. } | EventKind::Interrupted { .. })
    });
    let wanted: BTreeSet<String> = ends.map(|(_, it)| it.id.clone()).collect();
    let messages = receiver.messages();
    let told: BTreeSet<String> = messages.iter().map(|it| it.id().to_owned()).collect();
    assert!(wanted.len() >= (0..ROUNDS).map(|it| 3 + it * 5).sum());
    assert_eq!(told, wanted);
    println!("{} events, {} messages", wanted.len(), messages.len());
}
