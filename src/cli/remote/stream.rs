//! A stream of events (SSE) that goes on after the connection broke, from where it was.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::Response;
use reqwest::header::{ACCEPT, CONTENT_TYPE};

use super::super::failure::Failure;
use super::super::screen::print_error;
use super::reply::Reply;
use super::{Effect, Server};
use crate::Error;

/// How long a stream may be silent: the server says something every 15 s.
const SILENCE: Duration = Duration::from_secs(45);

/// How long one connection may last.
const CONNECTION: Duration = Duration::from_hours(24);

/// How long to wait before the first and any further try to connect again.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// The most bytes of one event.
const MAX_EVENT: usize = 4 * 1024 * 1024;

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Heard {
    pub(in crate::cli) data: String,
}

/// A stream that reconnects.
pub(in crate::cli) struct Stream<'a> {
    server: &'a Server,
    path: &'static [&'static str],
    query: Vec<(&'static str, Option<String>)>,
    /// The place in the log of what was heard last.
    last: Option<String>,
    open: Option<(Response, Lines)>,
    /// What came and was not asked for yet.
    heard: VecDeque<Heard>,
    /// Whether the server answered once: only then is it waited for.
    was_there: bool,
}

/// Why a connection gave no event.
enum Broken {
    /// The server said no, or something that no server says.
    Ended(Result<Error, Failure>),
    /// It may work again later.
    Lost(Failure),
}

impl<'a> Stream<'a> {
    /// Events that come from now on.
    pub(super) fn new(
        server: &'a Server,
        path: &'static [&'static str],
        query: Vec<(&'static str, Option<String>)>,
    ) -> Self {
        Self { server, path, query, last: None, open: None, heard: VecDeque::new(), was_there: false }
    }

    /// Connects, so that nothing that happens from now on is missed. How far the log is.
    pub(in crate::cli) async fn connect(&mut self) -> Result<Result<i64, Error>, Failure> {
        match self.try_begin().await {
            Ok(place) => Ok(Ok(place)),
            Err(Broken::Ended(Ok(error))) => Ok(Err(error)),
            Err(Broken::Ended(Err(failure)) | Broken::Lost(failure)) => Err(failure),
        }
    }

    /// The next event, however long it takes. An error that trying again does not change ends it.
    pub(in crate::cli) async fn next(&mut self) -> Result<Result<Heard, Error>, Failure> {
        let mut wait = FIRST_WAIT;
        loop {
            let broken = match self.try_next().await {
                Ok(heard) => return Ok(Ok(heard)),
                Err(broken) => broken,
            };
            self.open = None;
            match broken {
                Broken::Ended(Ok(error)) => return Ok(Err(error)),
                Broken::Ended(Err(failure)) => return Err(failure),
                Broken::Lost(failure) if !self.was_there => return Err(failure),
                Broken::Lost(_) => {}
            }
            if wait == LONGEST_WAIT {
                print_error("the server does not answer; trying again\n");
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// A stream begins with its place.
    async fn try_begin(&mut self) -> Result<i64, Broken> {
        self.try_connect().await?;
        while self.last.is_none() {
            self.listen().await?;
        }
        let place = self.last.as_deref().and_then(|it| it.parse().ok());
        place.ok_or_else(|| Broken::Ended(Err(foreign())))
    }

    async fn try_next(&mut self) -> Result<Heard, Broken> {
        if self.open.is_none() {
            self.try_connect().await?;
        }
        loop {
            if let Some(heard) = self.heard.pop_front() {
                return Ok(heard);
            }
            self.listen().await?;
        }
    }

    /// Takes what comes next, a part of an event perhaps.
    async fn listen(&mut self) -> Result<(), Broken> {
        let Some((response, lines)) = &mut self.open else { return Err(lost("the connection ended")) };
        match tokio::time::timeout(SILENCE, response.chunk()).await {
            Ok(Ok(Some(bytes))) => lines.add(&bytes).map_err(|()| lost("an event is too long"))?,
            Ok(Ok(None)) => return Err(lost("the connection ended")),
            Ok(Err(error)) => return Err(lost(&super::chain(&error))),
            Err(_) => return Err(lost("the server fell silent")),
        }
        while let Some(Block { id, data }) = lines.block() {
            self.last = id.or(self.last.take());
            self.heard.extend(data.map(|data| Heard { data }));
        }
        Ok(())
    }

    async fn try_connect(&mut self) -> Result<(), Broken> {
        let url = self.server.url(self.path, &self.query);
        let mut request = self.server.client.get(url).header(ACCEPT, "text/event-stream").timeout(CONNECTION);
        if let Some(last) = &self.last {
            request = request.header("last-event-id", last.as_str());
        }
        let answer = tokio::time::timeout(super::PATIENCE, self.server.authorized(request).send()).await;
        let response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(Broken::Lost(self.server.unanswered(&error, Effect::None))),
            Err(_) => return Err(lost("the server does not answer in time")),
        };
        let kind = response.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
        if response.status() == 200 && kind.starts_with("text/event-stream") {
            self.was_there = true;
            self.open = Some((response, Lines::default()));
            return Ok(());
        }
        let busy = response.status().is_server_error();
        let reply = Reply::read(response, Effect::None).await.map_err(Broken::Lost)?;
        match reply.document::<serde_json::Value>() {
            Ok(Err(error)) if busy && self.was_there => Err(lost(&error.message)),
            Ok(Err(error)) => Err(Broken::Ended(Ok(error))),
            Ok(Ok(_)) => Err(Broken::Ended(Err(foreign()))),
            Err(failure) if busy => Err(Broken::Lost(failure)),
            Err(failure) => Err(Broken::Ended(Err(failure))),
        }
    }
}

fn foreign() -> Failure {
    Failure::could_not_run("what answers there streams no events", "name the root of its API with `--server`")
}

fn lost(what: &str) -> Broken {
    Broken::Lost(Failure::could_not_run(format!("the stream broke: {what}"), "see that the server runs, and try again"))
}

/// The text of a stream, as far as it has come.
#[derive(Default)]
struct Lines {
    text: Vec<u8>,
}

impl Lines {
    fn add(&mut self, bytes: &[u8]) -> Result<(), ()> {
        if self.text.len() + bytes.len() > MAX_EVENT {
            return Err(());
        }
        self.text.extend_from_slice(bytes);
        Ok(())
    }

    /// The next block that is whole.
    fn block(&mut self) -> Option<Block> {
        let end = end_of_block(&self.text)?;
        let block: Vec<u8> = self.text.drain(..end).collect();
        Some(read(&String::from_utf8_lossy(&block)))
    }
}

/// What a blank line ends: an event, or only a place, or a sign that somebody is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Block {
    id: Option<String>,
    data: Option<String>,
}

/// Where the blank line that ends a block is over.
fn end_of_block(text: &[u8]) -> Option<usize> {
    let mut line = 0;
    for (at, _) in text.iter().enumerate().filter(|it| *it.1 == b'\n') {
        if matches!(&text[line..at], b"" | b"\r") {
            return Some(at + 1);
        }
        line = at + 1;
    }
    None
}

fn read(block: &str) -> Block {
    let mut id = None;
    let mut data: Vec<&str> = Vec::new();
    for line in block.lines() {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => id = Some(value.to_owned()),
            "data" => data.push(value),
            _ => {} // a comment, or what this command has no use for
        }
    }
    Block { id, data: (!data.is_empty()).then(|| data.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_they_are_cut() {
        let text = "retry: 1\nid: 6\n\nid: 7\nevent: a.b\ndata: {\"a\":\ndata: 1}\n\n: beat\n\nid:8\r\ndata:x\r\n\r\ndata: y\n";
        for size in 1..text.len() {
            let (mut lines, mut blocks) = (Lines::default(), Vec::new());
            for part in text.as_bytes().chunks(size) {
                lines.add(part).unwrap();
                blocks.extend(std::iter::from_fn(|| lines.block()));
            }
            let block = |id: &str, data: Option<&str>| Block { id: Some(id.into()), data: data.map(Into::into) };
            let (beat, first) = (Block::default(), block("7", Some("{\"a\":\n1}")));
            assert_eq!(blocks, [block("6", None), first, beat, block("8", Some("x"))], "{size}");
        }
    }

    #[test]
    fn an_event_without_end_is_given_up() {
        let mut lines = Lines::default();
        assert!((0..10).any(|_| lines.add(&vec![b'x'; 1024 * 1024]).is_err()));
    }
}
