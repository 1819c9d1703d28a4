//! Anchors elsewhere: what they get, in which order, and what becomes of it when they fail.

use std::path::Path;
use std::time::Duration;

use countersign::testing::Place;
use countersign::{Anchor, AuditSettings, LogKey, LogTree};
use serde_json::json;

use super::{Log, ORIGIN, auditor, told, verified};
use crate::notifications::receiver::{Answer, Message, Receiver};
use crate::shop::{App, shop};

const SECRET: &str = "canary-token";

/// A shop whose checkpoints go to these servers, and to nobody else.
async fn anchored(key: &LogKey, place: &Place, urls: &[&str]) -> App {
    let anchors: Vec<_> = urls.iter().map(|it| json!({"url": it, "token": {"env": "TOKEN"}})).collect();
    let settings: AuditSettings = serde_json::from_value(json!({"anchors": anchors})).unwrap();
    let env = |name: &str| (name == "TOKEN").then(|| SECRET.to_owned());
    // Signs when it is told to, and at no other time.
    let log = settings.open(Path::new("."), &env).unwrap().key(key.clone()).every(u64::MAX, Duration::from_hours(24));
    App::open(shop().log_tree(log), place).await
}

/// Another event, and the checkpoint that covers it, which the anchors are told of before it is back.
async fn signed(app: &App) -> String {
    app.dana().invoke("ping", json!({})).await.into_result().unwrap();
    app.engine().checkpoint().await.unwrap().unwrap().note
}

fn bodies(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|it| &*it.body).collect()
}

/// Lets time pass, for all who wait for it, until something holds.
async fn until(app: &App, holds: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if holds() {
            return;
        }
        app.clock().advance(Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never comes: {:?}", app.engine().log_health());
}

/// Why the only anchor takes nothing; empty if it does.
fn failure(app: &App) -> String {
    app.engine().log_health().anchors.values().cloned().collect()
}

#[tokio::test]
async fn a_server_gets_each_checkpoint_as_it_is_signed_in_order_with_the_token() {
    let server = Receiver::new(&[], Answer::Status(204)).await;
    let app = anchored(&LogKey::generate(ORIGIN).unwrap(), &Place::new().unwrap(), &[&server.url]).await;
    let notes = [signed(&app).await, signed(&app).await, signed(&app).await];
    let messages = server.messages();
    let mut told = bodies(&messages);
    told.dedup(); // at least once
    assert_eq!(told, notes);
    for it in &messages {
        assert_eq!((&*it.method, &*it.path), ("PUT", "/hook"));
        assert_eq!(it.headers["content-type"], "text/plain; charset=utf-8");
        assert_eq!(it.headers["authorization"], format!("Bearer {SECRET}"));
    }
}

#[tokio::test]
async fn a_server_that_fails_gets_what_it_lacks_when_it_works_again_and_nothing_is_left_out() {
    let server = Receiver::new(&[], Answer::Status(503)).await;
    let app = anchored(&LogKey::generate(ORIGIN).unwrap(), &Place::new().unwrap(), &[&server.url]).await;
    let mut notes = Vec::new();
    for (answer, expected) in [
        (Answer::Status(503), "the server answered 503"),
        (Answer::Status(404), "the server answered 404"),
        // It has it, and did not say so.
        (Answer::HalfClosed, "the server cannot be reached"),
        // Nobody is led elsewhere, least of all with the token.
        (Answer::Redirect, "the server answered 307"),
    ] {
        server.now(answer);
        notes.push(signed(&app).await);
        assert_eq!(failure(&app), expected);
    }
    let tried = server.messages();
    assert!(tried.iter().all(|it| it.path == "/hook" && it.body == notes[0]), "{tried:?}");
    server.now(Answer::Status(200));
    until(&app, || server.messages().len() >= tried.len() + notes.len()).await;
    until(&app, || failure(&app).is_empty()).await;
    assert_eq!(bodies(&server.messages()[tried.len()..]), notes);
}

#[tokio::test]
async fn a_server_that_is_not_there_yet_is_tried_until_it_is() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let url = format!("http://{address}/hook");
    let app = anchored(&LogKey::generate(ORIGIN).unwrap(), &Place::new().unwrap(), &[&url]).await;
    let note = signed(&app).await;
    assert_eq!(failure(&app), "the server cannot be reached");
    let server = Receiver::at(&address.to_string(), &[], Answer::Status(201)).await;
    until(&app, || !server.messages().is_empty() && failure(&app).is_empty()).await;
    assert_eq!(bodies(&server.messages()), [note]);
}

#[tokio::test]
async fn the_next_process_goes_on_with_what_a_server_lacks() {
    let server = Receiver::new(&[], Answer::Status(200)).await;
    let (key, place) = (LogKey::generate(ORIGIN).unwrap(), Place::new().unwrap());
    let app = anchored(&key, &place, &[&server.url]).await;
    let first = signed(&app).await;
    let taken = server.messages().len();
    assert!(server.messages().iter().all(|it| it.body == first));
    server.now(Answer::Status(500));
    let second = signed(&app).await;
    app.engine().shutdown(Duration::from_secs(5)).await;
    let refused = server.messages().len();
    assert!(server.messages()[taken..].iter().all(|it| it.body == second), "{:?}", server.messages());
    server.now(Answer::Status(200));
    let app = anchored(&key, &place, &[&server.url]).await;
    let third = signed(&app).await;
    let messages = server.messages();
    let mut told = bodies(&messages[refused..]);
    told.dedup();
    assert_eq!(told, [second, third]);
}

#[tokio::test]
async fn one_anchor_that_fails_or_hangs_keeps_nothing_from_another() {
    let (good, bad) = (Receiver::new(&[], Answer::Status(200)).await, Receiver::new(&[], Answer::Silent).await);
    let key = LogKey::generate(ORIGIN).unwrap();
    let anchors = [Anchor::put(&bad.url).unwrap(), Anchor::put(&good.url).unwrap()];
    let log = LogTree::new().key(key).every(1, Duration::from_secs(1)).anchors(anchors);
    let app = App::open(shop().log_tree(log), &Place::new().unwrap()).await;
    app.dana().invoke("ping", json!({})).await.into_result().unwrap();
    until(&app, || !good.messages().is_empty() && !bad.messages().is_empty()).await;
    assert_eq!(failure(&app), "", "it still has its time");
}

#[tokio::test]
async fn at_the_end_one_anchor_that_hangs_costs_another_none_of_its_time() {
    let (good, bad) = (Receiver::new(&[], Answer::Status(200)).await, Receiver::new(&[], Answer::Silent).await);
    let anchors = [Anchor::put(&bad.url).unwrap(), Anchor::put(&good.url).unwrap()];
    let log = LogTree::new().key(LogKey::generate(ORIGIN).unwrap()).every(u64::MAX, Duration::from_hours(24));
    let app = App::open(shop().log_tree(log.anchors(anchors)), &Place::new().unwrap()).await;
    app.dana().invoke("ping", json!({})).await.into_result().unwrap();
    assert!(good.messages().is_empty(), "nothing is signed before the end");
    tokio::select! {
        () = app.engine().shutdown(Duration::from_secs(5)) => panic!("it waits for the one that hangs"),
        both = async { (bad.got(1).await, good.got(1).await) } => assert_eq!(both.0[0].body, both.1[0].body),
    }
}

/// Anchors whose disk was full after so many bytes of a note, once or twice.
fn torn(directory: &Path, note: &[u8]) -> Vec<std::path::PathBuf> {
    let cut = |at: usize| note.get(..at).unwrap();
    let once = (0..=note.len()).map(|it| (it.to_string(), cut(it).to_vec()));
    let twice = (8..note.len()).step_by(8).map(|it| (format!("{it}-twice"), [cut(it), b"\n\n", cut(it / 2)].concat()));
    let write = |(name, text): (String, Vec<u8>)| {
        let path = directory.join(format!("anchor-{name}"));
        std::fs::write(&path, text).unwrap();
        path
    };
    once.chain(twice).map(write).collect()
}

#[tokio::test]
async fn an_anchor_whose_disk_was_full_at_any_byte_of_a_note_is_in_order_once_it_has_the_whole() {
    let log = Log::new().await;
    log.call(1).await;
    let first = log.checkpoint().await.note;
    let (place, key) = log.close().await;
    let database = place.database();
    let paths = torn(database.parent().unwrap(), format!("{first}\n").as_bytes());
    let given = |paths: &[std::path::PathBuf]| {
        let read = |it: &std::path::PathBuf| String::from_utf8_lossy(&std::fs::read(it).unwrap()).into_owned();
        paths.iter().fold(auditor(&key, &database), |given, it| given.anchor(&it.display().to_string(), &read(it)))
    };
    let cut = &paths[first.len() / 2..][..1];
    let report = verified(&database, &given(cut)).await;
    assert_eq!((report.findings.len(), told(&report)), (1, vec!["0 anchor".to_owned()]), "nothing came behind it");
    let tree = LogTree::new().key(key.clone()).every(u64::MAX, Duration::from_hours(24));
    let app = App::open(shop().log_tree(tree.anchors(paths.iter().map(Anchor::file))), &place).await;
    let next = signed(&app).await;
    app.engine().shutdown(Duration::from_secs(5)).await;
    for path in &paths {
        let bytes = std::fs::read(path).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains(&first) && text.contains(&next), "{}: {text}", path.display());
    }
    assert_eq!(told(&verified(&database, &given(&paths)).await), [""; 0]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_command_that_fails_is_run_again_until_it_takes_what_it_lacks() {
    let place = Place::new().unwrap();
    let (kept, ready) = (place.database().with_file_name("kept"), place.database().with_file_name("ready"));
    let script = format!("test -e '{}' && cat >> '{}'", ready.display(), kept.display());
    let anchors = [Anchor::command(["sh".to_owned(), "-c".to_owned(), script]).unwrap()];
    let log = LogTree::new().key(LogKey::generate(ORIGIN).unwrap()).every(u64::MAX, Duration::from_hours(24));
    let app = App::open(shop().log_tree(log.anchors(anchors)), &place).await;
    let notes = [signed(&app).await, signed(&app).await];
    assert_eq!((&*failure(&app), kept.exists()), ("the command ended with exit status: 1", false));
    std::fs::write(&ready, "").unwrap();
    until(&app, || failure(&app).is_empty()).await;
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), notes.concat());
}
