//! A receiver of webhooks on loopback that answers as a test wants.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// How a receiver answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Answer {
    Status(u16),
    /// To a place where somebody else would get it.
    Redirect,
    /// Reads the message, and says nothing, ever.
    Silent,
    /// Reads the message and closes its side.
    HalfClosed,
    /// Takes the message, and answers without end.
    Endless,
}

/// A message as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Message {
    pub(crate) fn id(&self) -> &str {
        &self.headers["webhook-id"]
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn topic(&self) -> String {
        self.json()["type"].as_str().unwrap().to_owned()
    }
}

/// Answers the next messages one after the other, and all further ones in one way.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) url: String,
    messages: Arc<Mutex<Vec<Message>>>,
    answers: Arc<Mutex<(VecDeque<Answer>, Answer)>>,
}

impl Receiver {
    pub(crate) async fn new(first: &[Answer], then: Answer) -> Self {
        Self::at("127.0.0.1:0", first, then).await
    }

    /// At this address.
    pub(crate) async fn at(address: &str, first: &[Answer], then: Answer) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let answers = Arc::new(Mutex::new((first.iter().copied().collect(), then)));
        let receiver = Self { url, messages: Arc::default(), answers };
        let own = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let own = own.clone();
                tokio::spawn(async move { own.serve(stream).await });
            }
        });
        receiver
    }

    pub(crate) fn messages(&self) -> Vec<Message> {
        self.messages.lock().unwrap().clone()
    }

    /// What it answers from now on.
    pub(crate) fn now(&self, answer: Answer) {
        *self.answers.lock().unwrap() = (VecDeque::new(), answer);
    }

    /// Waits for so many messages, at most twenty seconds of real time.
    pub(crate) async fn got(&self, count: usize) -> Vec<Message> {
        for _ in 0..4_000 {
            let messages = self.messages();
            if messages.len() >= count {
                return messages;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{} of {count} messages: {:?}", self.messages().len(), self.messages());
    }

    async fn serve(&self, mut stream: TcpStream) {
        while let Some(message) = read(&mut stream).await {
            let answer = {
                let mut answers = self.answers.lock().unwrap();
                let then = answers.1;
                answers.0.pop_front().unwrap_or(then)
            };
            self.messages.lock().unwrap().push(message);
            let text = match answer {
                Answer::Status(status) => format!("HTTP/1.1 {status} x\r\ncontent-length: 13\r\n\r\ncanary-answer"),
                Answer::Redirect => {
                    format!("HTTP/1.1 307 x\r\nlocation: {}/elsewhere\r\ncontent-length: 0\r\n\r\n", self.url)
                }
                Answer::Silent => return std::future::pending().await,
                Answer::HalfClosed => {
                    let _ = stream.shutdown().await;
                    let _ = stream.read(&mut [0; 1]).await;
                    return;
                }
                Answer::Endless => {
                    let _ = stream.write_all(b"HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n").await;
                    while stream.write_all(b"5\r\nxxxxx\r\n").await.is_ok() {}
                    return;
                }
            };
            if stream.write_all(text.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// One request with its body; `None` when the sender has closed.
async fn read(stream: &mut TcpStream) -> Option<Message> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let mut request = lines.next()?.split(' ').map(str::to_owned);
    let (method, path) = (request.next()?, request.next()?);
    let headers: BTreeMap<String, String> = lines
        .filter_map(|it| it.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let mut body = vec![0; headers.get("content-length")?.parse().unwrap()];
    stream.read_exact(&mut body).await.ok()?;
    Some(Message { method, path, headers, body: String::from_utf8(body).unwrap() })
}
