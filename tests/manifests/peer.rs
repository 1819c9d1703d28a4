//! The other side of an endpoint: takes calls one by one, and answers as it is told, or not at all.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// What happens to a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reply {
    /// A whole answer: status line, content type and body.
    Answer(&'static str, &'static str, &'static str),
    /// These bytes, then the end.
    Bytes(&'static str),
    /// The connection is reset when the call was read.
    Reset,
    /// The connection is reset while the call is still being sent.
    ResetEarly,
    /// Nothing, until the caller closes the connection.
    Nothing,
    /// An answer a byte at a time, without an end.
    Trickle,
    /// An answer without an end, as fast as it is taken.
    Flood,
}

/// A call as it arrived.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Call {
    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|it| it.split_once(':'));
        lines.find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// What is seen of the calls.
#[derive(Debug)]
pub(super) enum Seen {
    Call(Call),
    /// The caller closed the connection before it had an answer.
    Closed,
}

pub(super) struct Peer {
    pub(super) origin: String,
    pub(super) seen: UnboundedReceiver<Seen>,
}

impl Peer {
    /// Answers the calls with these replies, in turn; the last one goes on.
    pub(super) async fn new(replies: &'static [Reply]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let (sender, seen) = unbounded_channel();
        tokio::spawn(async move {
            for number in 0.. {
                let Ok((mut stream, _)) = listener.accept().await else { return };
                let reply = replies[number.min(replies.len() - 1)];
                if matches!(reply, Reply::ResetEarly) {
                    let _ = stream.read(&mut [0; 16]).await;
                    stream.set_zero_linger().unwrap();
                    continue;
                }
                let sender = sender.clone();
                tokio::spawn(async move {
                    let Some(call) = read(&mut stream).await else { return };
                    let _ = sender.send(Seen::Call(call));
                    if answer(&mut stream, reply).await.is_err() {
                        let _ = sender.send(Seen::Closed);
                    }
                });
            }
        });
        Self { origin, seen }
    }

    /// The next call.
    pub(super) async fn call(&mut self) -> Call {
        match self.next().await {
            Seen::Call(call) => call,
            Seen::Closed => panic!("a connection was closed"),
        }
    }

    pub(super) async fn next(&mut self) -> Seen {
        let next = tokio::time::timeout(std::time::Duration::from_secs(30), self.seen.recv());
        next.await.expect("something is seen").unwrap()
    }
}

async fn read(stream: &mut TcpStream) -> Option<Call> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let mut call = Call { head: String::from_utf8(bytes[..end].to_vec()).unwrap(), body: bytes[end + 4..].to_vec() };
    let length: usize = call.header("content-length").expect("a length, which simple servers need").parse().unwrap();
    while call.body.len() < length {
        if stream.read_buf(&mut call.body).await.ok()? == 0 {
            return None;
        }
    }
    Some(call)
}

/// Fails if the caller closes the connection first.
async fn answer(stream: &mut TcpStream, reply: Reply) -> std::io::Result<()> {
    match reply {
        Reply::Answer(status, kind, body) => {
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all(format!("{head}{body}").as_bytes()).await
        }
        Reply::Bytes(bytes) => stream.write_all(bytes.as_bytes()).await,
        Reply::Reset => stream.set_zero_linger(),
        Reply::ResetEarly => Ok(()),
        Reply::Nothing => match stream.read(&mut [0; 16]).await {
            Ok(0) | Err(_) => Err(std::io::ErrorKind::ConnectionAborted.into()),
            Ok(_) => Ok(()),
        },
        Reply::Trickle => {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n")
                .await?;
            loop {
                stream.write_all(b" ").await?;
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
        Reply::Flood => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n").await?;
            let blanks = vec![b' '; 65_536];
            loop {
                stream.write_all(&blanks).await?;
            }
        }
    }
}
