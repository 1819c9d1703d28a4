//! Calls over HTTP on kept-alive loopback connections, beside the same calls through the library, and beside a bare echo:
//! a hyper server that reads the same request and answers with the same bytes. One after the other, call by call, within
//! one process, so that client, kernel and disk are the same for all. What HTTP adds is judged with the records in memory,
//! where there is such a place: a disk's own moods are many times what is measured.

use std::future::ready;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use countersign::auth::{Auth, AuthSettings};
use countersign::http::{HttpSettings, Server};
use countersign::{Caller, Capability, Engine, Outcome, Risk, Surface};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::Failure;
use crate::durable::{CALLERS, POLICIES};
use crate::shop::{builder, dana, directory, input, refund, unhandled};
use crate::table::{Table, median, now};

const READ: &str = "orders.look";
const WRITE: &str = "orders.refund_0";
const ROUNDS: usize = 9;
/// One by one.
const CALLS: usize = 1_500;
const WARM: usize = 100;
/// All at once, in a round.
const TURN: Duration = Duration::from_millis(400);
/// Where files are in memory.
const MEMORY: &str = "/dev/shm";
/// What HTTP may cost a call, beside what the library takes.
const MOST: f64 = 150.0;

pub(crate) async fn measure(table: &mut Table) -> Result<(), Failure> {
    let memory = Path::new(MEMORY);
    if memory.is_dir() {
        place(tempfile::tempdir_in(memory)?.path(), true, table).await?;
    }
    place(directory()?.path(), false, table).await
}

/// With the records in one place.
async fn place(directory: &Path, in_memory: bool, table: &mut Table) -> Result<(), Failure> {
    let look = Capability::read(READ).risk(Risk::Low).description("Look at a refund.");
    let look = look.expose([Surface::Direct, Surface::Http]).tags(["orders"]).handler(refund);
    let write = unhandled(0).expose([Surface::Http]).handler(refund);
    let engine = builder(0, POLICIES, directory, "http.db").capabilities([look, write]).build().await?;
    let mut servers = JoinSet::new();
    let api = serve(&engine, &mut servers).await?;
    for (what, capability) in [("a read", READ), ("a write", WRITE)] {
        let request = request(api, capability);
        let answer = Wire::open(api).await?.ask(&request).await?;
        let echo = echo(answer, &mut servers).await?;
        let ways = Ways { caller: engine.on_behalf_of(dana(), ()), capability, request, api, echo };
        if in_memory {
            one_by_one(&ways, &format!("{what}, in memory"), Some(MOST), table).await?;
        } else {
            one_by_one(&ways, &format!("{what}, on disk"), None, table).await?;
            at_once(&ways, &format!("{what}, on disk"), table).await?;
        }
    }
    servers.shutdown().await;
    engine.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

/// One call, in three ways.
struct Ways {
    caller: Caller,
    capability: &'static str,
    request: Vec<u8>,
    api: SocketAddr,
    echo: SocketAddr,
}

/// What HTTP adds is the difference between two calls that follow each other, in the middle.
async fn one_by_one(ways: &Ways, what: &str, most: Option<f64>, table: &mut Table) -> Result<(), Failure> {
    let (mut api, mut echo) = (Wire::open(ways.api).await?, Wire::open(ways.echo).await?);
    let mut all: [Vec<f64>; 4] = Default::default();
    for number in 0..WARM + CALLS {
        let library = took(call(&ways.caller, ways.capability)).await?;
        let over_http = took(api.ask(&ways.request)).await?;
        let floor = took(echo.ask(&ways.request)).await?;
        if number >= WARM {
            let figures = [library, over_http, floor, over_http - library];
            all.iter_mut().zip(figures).for_each(|(all, figure)| all.push(figure));
        }
    }
    let [library, over_http, floor, added] = all.map(|it| median(&it));
    table.compare(&format!("{what}, over HTTP : through the library"), (over_http, library), "us");
    table.compare(&format!("{what}, what HTTP adds : a bare echo of the same bytes"), (added, floor), "us");
    if let Some(most) = most {
        table.limit(&format!("{what}, what HTTP adds"), added, "us", most);
    }
    Ok(())
}

/// How long it took, in microseconds.
async fn took<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<f64, Failure> {
    let began = now();
    work.await?;
    Ok(began.elapsed().as_secs_f64() * 1e6)
}

/// Turns of as many callers as there are connections.
async fn at_once(ways: &Ways, what: &str, table: &mut Table) -> Result<(), Failure> {
    let mut rates: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        rates[0].push(rate_through_library(ways).await?);
        rates[1].push(rate_over_wires(ways.api, &ways.request).await?);
        rates[2].push(rate_over_wires(ways.echo, &ways.request).await?);
    }
    let [library, over_http, echo] = rates.map(|it| median(&it));
    table.compare(&format!("{what}, 64 connections : through the library"), (over_http, library), "calls/s");
    table.compare(&format!("{what}, 64 connections : a bare echo of the same bytes"), (over_http, echo), "calls/s");
    Ok(())
}

async fn call(caller: &Caller, capability: &str) -> Result<(), Failure> {
    match caller.invoke(capability, input()).await {
        Outcome::Completed { recorded: true, .. } => Ok(()),
        other => Err(format!("a call ends otherwise: {other:?}").into()),
    }
}

/// Calls a second.
async fn rate_through_library(ways: &Ways) -> Result<f64, Failure> {
    let (began, mut tasks) = (now(), JoinSet::new());
    for _ in 0..CALLERS {
        let (caller, capability) = (ways.caller.clone(), ways.capability);
        tasks.spawn(async move {
            let mut calls = 0u32;
            while began.elapsed() < TURN {
                call(&caller, capability).await?;
                calls += 1;
            }
            Ok::<_, Failure>(calls)
        });
    }
    sum(tasks).await.map(|calls| f64::from(calls) / began.elapsed().as_secs_f64())
}

/// Requests a second; the connections are there before.
async fn rate_over_wires(address: SocketAddr, request: &[u8]) -> Result<f64, Failure> {
    let mut wires = Vec::new();
    for _ in 0..CALLERS {
        wires.push(Wire::open(address).await?);
    }
    let (began, mut tasks) = (now(), JoinSet::new());
    for mut wire in wires {
        let request = request.to_vec();
        tasks.spawn(async move {
            let mut calls = 0u32;
            while began.elapsed() < TURN {
                wire.ask(&request).await?;
                calls += 1;
            }
            Ok::<_, Failure>(calls)
        });
    }
    sum(tasks).await.map(|calls| f64::from(calls) / began.elapsed().as_secs_f64())
}

async fn sum(mut tasks: JoinSet<Result<u32, Failure>>) -> Result<u32, Failure> {
    let mut all = 0;
    while let Some(done) = tasks.join_next().await {
        all += done??;
    }
    Ok(all)
}

/// A client that does as little as a client can.
struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Wire {
    async fn open(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::with_capacity(4096) })
    }

    /// One request, and the body of its answer.
    async fn ask(&mut self, request: &[u8]) -> Result<Bytes, Failure> {
        self.stream.write_all(request).await?;
        self.read.clear();
        loop {
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err("the server hung up".into());
            }
            let Some(end) = self.read.windows(4).position(|it| it == b"\r\n\r\n") else { continue };
            let head = std::str::from_utf8(&self.read[..end])?;
            if !head.starts_with("HTTP/1.1 200 ") {
                return Err(format!("another answer: {head}").into());
            }
            let length = head.split("\r\n").find_map(|it| it.strip_prefix("content-length: "));
            let whole = end + 4 + length.ok_or("no length")?.parse::<usize>()?;
            while self.read.len() < whole {
                if self.stream.read_buf(&mut self.read).await? == 0 {
                    return Err("the server hung up".into());
                }
            }
            return Ok(Bytes::copy_from_slice(&self.read[end + 4..whole]));
        }
    }
}

fn request(address: SocketAddr, capability: &str) -> Vec<u8> {
    let body = json!({ "input": input() }).to_string();
    format!(
        "POST /v1/capabilities/{capability}/invoke HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer bench-token\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The API over an engine, with Dana's token.
async fn serve(engine: &Engine, servers: &mut JoinSet<()>) -> Result<SocketAddr, Failure> {
    let sha256 = Sha256::digest("bench-token").iter().fold(String::new(), |text, it| format!("{text}{it:02x}"));
    let settings: AuthSettings = serde_json::from_value(json!({"tokens": [
        {"name": "dana", "sha256": sha256, "id": "dana", "kind": "user", "tenant": "acme", "roles": ["support"]},
    ]}))?;
    let auth = Auth::new(&settings, Path::new(".")).await?;
    let gateway = engine.gateway(|_| ready(Ok::<_, Failure>(())));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = Server::new(gateway, auth, HttpSettings::default());
    servers.spawn(server.serve(listener, std::future::pending()));
    Ok(address)
}

/// What HTTP costs in any case.
async fn echo(answer: Bytes, servers: &mut JoinSet<()>) -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    servers.spawn(async move {
        let mut links = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let answer = answer.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer.clone();
                async move {
                    request.into_body().collect().await?;
                    Response::builder()
                        .header("content-type", "application/json")
                        .body(Full::new(answer))
                        .map_err(Failure::from)
                }
            });
            links.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    Ok(address)
}
