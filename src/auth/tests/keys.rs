//! Keys over HTTP: when they are fetched, and what happens while that fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::{Auth, EVERYTHING, KeyFile, Signer, advance, block, claims, open};

/// An issuer on this machine that counts who asks.
struct Issuer {
    url: String,
    asked: Arc<AtomicUsize>,
    answer: Arc<Mutex<String>>,
    /// How many answers may be given.
    may_answer: Arc<Semaphore>,
    task: JoinHandle<()>,
}

impl Issuer {
    async fn new(keys: &[Value]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let (asked, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(String::new())));
        let may_answer = Arc::new(Semaphore::new(1_000));
        let task = spawn(serve(listener, Arc::clone(&asked), Arc::clone(&answer), Arc::clone(&may_answer)));
        let issuer = Self { url, asked, answer, may_answer, task };
        issuer.publish(keys);
        issuer
    }

    fn publish(&self, keys: &[Value]) {
        self.answers("200 OK", &json!({"keys": keys}).to_string());
    }

    fn answers(&self, status: &str, body: &str) {
        let length = body.len();
        *self.answer.lock().unwrap() =
            format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    async fn auth(&self, more: &str) -> Auth {
        open(&block(&format!("jwks_url = \"{}\"", self.url), &format!("{EVERYTHING}\n{more}"))).await.unwrap()
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[expect(clippy::disallowed_methods, reason = "a server and a caller of a test")]
fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(task)
}

async fn serve(listener: TcpListener, asked: Arc<AtomicUsize>, answer: Arc<Mutex<String>>, may_answer: Arc<Semaphore>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        read_request(&mut stream).await;
        asked.fetch_add(1, Ordering::SeqCst);
        may_answer.acquire().await.unwrap().forget();
        let text = answer.lock().unwrap().clone();
        let _ = stream.write_all(text.as_bytes()).await;
    }
}

async fn read_request(stream: &mut TcpStream) {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await.unwrap_or(0) == 0 {
            return;
        }
        text.push(byte[0]);
    }
}

fn token(signer: &Signer) -> String {
    signer.sign(&claims(&json!({"exp": super::seconds(100_000)})))
}

#[tokio::test]
async fn a_key_that_is_not_known_is_asked_for_once_a_cool_down() {
    let (old, new) = (Signer::ed("old", 1), Signer::ed("new", 2));
    let issuer = Issuer::new(&[old.jwk()]).await;
    let auth = issuer.auth("").await;
    assert_eq!((auth.class(&token(&old)).await, issuer.asked()), ("taken".into(), 1));
    issuer.publish(&[old.jwk(), new.jwk()]);
    // The start itself asked just now.
    assert_eq!((auth.class(&token(&new)).await, issuer.asked()), ("unknown_key".into(), 1));
    advance(&auth.clock, 30);
    assert_eq!((auth.class(&token(&new)).await, issuer.asked()), ("taken".into(), 2));
    for n in 0..20 {
        let forger = Signer::ed("forged", n);
        assert_eq!((auth.class(&token(&forger)).await, issuer.asked()), ("unknown_key".into(), 2));
    }
    advance(&auth.clock, 29);
    assert_eq!((auth.class(&token(&Signer::ed("forged", 1))).await, issuer.asked()), ("unknown_key".into(), 2));
    advance(&auth.clock, 1);
    assert_eq!((auth.class(&token(&Signer::ed("forged", 1))).await, issuer.asked()), ("unknown_key".into(), 3));
    assert_eq!((auth.class(&token(&old)).await, issuer.asked()), ("taken".into(), 3));
}

#[tokio::test]
async fn nobody_makes_a_server_fetch_by_a_token_that_is_refused_for_something_else() {
    let issuer = Issuer::new(&[Signer::ed("old", 1).jwk()]).await;
    let auth = issuer.auth("").await;
    advance(&auth.clock, 300);
    let forger = Signer::ed("forged", 1);
    let wrong_issuer = forger.sign(&claims(&json!({"iss": "https://j.example"})));
    let bad_algorithm =
        forger.sign_texts(&json!({"alg": "HS256", "kid": "forged"}).to_string(), &claims(&json!({})).to_string());
    let bad_signature = Signer::ed("old", 2).sign(&claims(&json!({})));
    let malformed = forger.sign_texts("{}", "{}");
    for token in [wrong_issuer, bad_algorithm, bad_signature, malformed, "opaque".into()] {
        assert_ne!(auth.class(&token).await, "taken");
    }
    assert_eq!(issuer.asked(), 1);
}

#[tokio::test]
async fn keys_that_are_gone_are_not_taken_any_more_once_theirs_is_old() {
    let (old, new) = (Signer::ed("old", 1), Signer::ed("new", 2));
    let issuer = Issuer::new(&[old.jwk()]).await;
    let auth = issuer.auth("keep_keys = \"10m\"").await;
    issuer.publish(&[new.jwk()]);
    advance(&auth.clock, 599);
    assert_eq!((auth.class(&token(&old)).await, issuer.asked()), ("taken".into(), 1));
    advance(&auth.clock, 1);
    assert_eq!((auth.class(&token(&old)).await, issuer.asked()), ("unknown_key".into(), 2));
    assert_eq!((auth.class(&token(&new)).await, issuer.asked()), ("taken".into(), 2));
    // An issuer that takes all its keys back is believed.
    issuer.publish(&[]);
    advance(&auth.clock, 600);
    assert_eq!((auth.class(&token(&new)).await, issuer.asked()), ("unknown_key".into(), 3));
}

#[tokio::test]
async fn old_keys_stay_while_the_issuer_is_down() {
    let (known, other) = (Signer::ed("known", 1), Signer::ed("other", 2));
    let issuer = Issuer::new(&[known.jwk()]).await;
    let auth = issuer.auth("").await;
    let big = format!("{{\"keys\": [], \"pad\": \"{}\"}}", "x".repeat(1 << 20));
    let elsewhere = Issuer::new(&[other.jwk()]).await;
    let redirect = format!("302 Found\r\nlocation: {}", elsewhere.url);
    for (status, body) in [
        ("503 Service Unavailable", ""),
        ("404 Not Found", "{\"keys\": []}"),
        ("204 No Content", ""),
        (&*redirect, ""),
        ("200 OK", "<html>"),
        ("200 OK", "{\"keys\": 5}"),
        ("200 OK", &*big),
    ] {
        issuer.answers(status, body);
        let before = auth.keys()[0].failures;
        advance(&auth.clock, 3_600);
        assert_eq!(auth.class(&token(&other)).await, "unknown_key", "{status}");
        assert_eq!(auth.class(&token(&known)).await, "taken", "{status}");
        let report = &auth.keys()[0];
        assert_eq!((report.failures, report.usable, report.trouble.is_some()), (before + 1, Some(1), true), "{status}");
    }
    assert_eq!(elsewhere.asked(), 0);
    issuer.publish(&[other.jwk()]);
    advance(&auth.clock, 30);
    assert_eq!(auth.class(&token(&other)).await, "taken");
    assert_eq!(auth.class(&token(&known)).await, "unknown_key");
    assert!(auth.keys()[0].trouble.is_none());
}

#[tokio::test]
async fn whoever_has_a_known_key_does_not_wait_for_an_issuer_that_is_down() {
    let known = Signer::ed("known", 1);
    let issuer = Issuer::new(&[known.jwk()]).await;
    let auth = issuer.auth("").await;
    issuer.answers("500 Oops", "");
    advance(&auth.clock, 600);
    assert_eq!(auth.class(&token(&known)).await, "taken");
    // From now on it does not even answer: the test would end by the fetch's own time-out.
    issuer.may_answer.forget_permits(1_000);
    for _ in 0..3 {
        advance(&auth.clock, 600);
        assert_eq!(auth.class(&token(&known)).await, "taken");
    }
}

#[tokio::test]
async fn a_server_starts_before_its_issuer_and_takes_its_tokens_later() {
    let signer = Signer::ed("k", 1);
    let issuer = Issuer::new(&[signer.jwk()]).await;
    issuer.answers("502 Bad Gateway", "");
    let auth = issuer.auth("").await;
    assert_eq!((auth.class(&token(&signer)).await, issuer.asked()), ("keys_unavailable".into(), 1));
    issuer.publish(&[signer.jwk()]);
    assert_eq!((auth.class(&token(&signer)).await, issuer.asked()), ("keys_unavailable".into(), 1));
    advance(&auth.clock, 30);
    assert_eq!((auth.class(&token(&signer)).await, issuer.asked()), ("taken".into(), 2));
}

#[tokio::test]
async fn all_who_need_keys_at_once_wait_for_one_fetch() {
    let (old, new) = (Signer::ed("old", 1), Signer::ed("new", 2));
    let issuer = Issuer::new(&[old.jwk()]).await;
    let auth = issuer.auth("").await;
    issuer.publish(&[new.jwk()]);
    advance(&auth.clock, 30);
    let tokens: Vec<_> = (0..50).map(|_| token(&new)).collect();
    let classes = join_all(tokens.iter().map(|it| auth.class(it))).await;
    assert_eq!((classes, issuer.asked()), (vec!["taken".to_owned(); 50], 2));
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_break_off_what_others_wait_for() {
    let (old, new) = (Signer::ed("old", 1), Signer::ed("new", 2));
    let issuer = Issuer::new(&[old.jwk()]).await;
    let auth = Arc::new(issuer.auth("").await);
    issuer.publish(&[new.jwk()]);
    issuer.may_answer.forget_permits(1_000);
    advance(&auth.clock, 30);
    let caller = |auth: &Arc<Auth>| {
        let (auth, token) = (Arc::clone(auth), token(&new));
        spawn(async move { auth.class(&token).await })
    };
    let first = caller(&auth);
    while issuer.asked() < 2 {
        tokio::task::yield_now().await;
    }
    let second = caller(&auth);
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    issuer.may_answer.add_permits(1);
    assert_eq!((second.await.unwrap(), issuer.asked()), ("taken".into(), 2));
}

#[tokio::test]
async fn a_file_is_read_again_like_an_issuer() {
    let (old, new) = (Signer::ed("old", 1), Signer::ed("new", 2));
    let keys = KeyFile::new(&[old.jwk()]);
    let auth = open(&block(&keys.place(), EVERYTHING)).await.unwrap();
    keys.publish(&[new.jwk()]);
    assert_eq!(auth.class(&token(&new)).await, "unknown_key");
    assert_eq!(auth.class(&token(&old)).await, "taken");
    advance(&auth.clock, 30);
    assert_eq!(auth.class(&token(&new)).await, "taken");
    assert_eq!(auth.class(&token(&old)).await, "unknown_key");
    keys.write("gone");
    advance(&auth.clock, 600);
    assert_eq!(auth.class(&token(&new)).await, "taken");
    assert!(auth.keys()[0].trouble.is_some());
}
