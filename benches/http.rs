//! Calls over HTTP on kept-alive loopback connections, beside the same calls through the library, and beside a bare echo:
//! a hyper server that reads the same request and answers with the same bytes. In turns, within one process, so that
//! client, kernel and disk are the same for all.

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
use crate::table::{Table, Target, median, now};

const READ: &str = "orders.look";
const WRITE: &str = "orders.refund_0";
const ROUNDS: usize = 9;
/// One by one, in a round.
const CALLS: usize = 200;
/// All at once, in a round.
const TURN: Duration = Duration::from_millis(400);
/// What HTTP may cost a call, beside what the library takes.
const MOST: f64 = 150.0;

pub(crate) async fn measure(table: &mut Table) -> Result<(), Failure> {
    let directory = directory()?;
    let look = Capability::read(READ).risk(Risk::Low).description("Look at a refund.");
    let look = look.expose([Surface::Direct, Surface::Http]).tags(["orders"]).handler(refund);
    let write = unhandled(0).expose([Surface::Http]).handler(refund);
    let engine = builder(0, POLICIES, directory.path(), "http.db").capabilities([look, write]).build().await?;
    let mut servers = JoinSet::new();
    let api = serve(&engine, &mut servers).await?;
    for (what, capability) in [("a read", READ), ("a durable write", WRITE)] {
        let request = request(api, capability);
        let answer = Wire::open(api).await?.ask(&request).await?;
        let echo = echo(answer, &mut servers).await?;
        let ways = Ways { caller: engine.on_behalf_of(dana(), ()), capability, request, api, echo };
        one_by_one(&ways, what, table).await?;
        at_once(&ways, what, table).await?;
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

/// Rounds of calls one after the other: what HTTP adds is the difference within a round.
async fn one_by_one(ways: &Ways, what: &str, table: &mut Table) -> Result<(), Failure> {
    let (mut api, mut echo) = (Wire::open(ways.api).await?, Wire::open(ways.echo).await?);
    let mut rounds: [Vec<f64>; 4] = Default::default();
    for round in 0..=ROUNDS {
        let library = ways.through_library().await?;
        let over_http = api.median(&ways.request).await?;
        let floor = echo.median(&ways.request).await?;
        // The first round is for warming up.
        if round > 0 {
            let figures = [library, over_http, floor, over_http - library];
            rounds.iter_mut().zip(figures).for_each(|(all, figure)| all.push(figure));
        }
    }
    let [library, over_http, floor, added] = rounds.map(|it| median(&it));
    table.compare(&format!("{what} over HTTP, p50 : through the library"), (over_http, library), "us");
    table.compare(&format!("what HTTP adds to {what}, p50 : a bare echo of the same bytes"), (added, floor), "us");
    table.limit(&format!("what HTTP adds to {what}, p50"), added, "us", MOST);
    Ok(())
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
    table.compare(&format!("{what} over HTTP, 64 connections : through the library"), (over_http, library), "calls/s");
    // The time that each takes of the machine, since both are busy with nothing else.
    let took = |rate: f64| 1e6 / rate;
    let added = took(over_http) - took(library);
    table.compare(&format!("what HTTP adds to {what}, 64 connections : a bare echo"), (added, took(echo)), "us");
    if what == "a read" {
        return Ok(());
    }
    table.judge("HTTP, 64 connections : one call's share of it", (added, MOST), "us", Target::AtMost(1.0));
    Ok(())
}

impl Ways {
    async fn call(&self) -> Result<(), Failure> {
        call(&self.caller, self.capability).await
    }

    /// The median of a round, in microseconds.
    async fn through_library(&self) -> Result<f64, Failure> {
        let mut figures = Vec::with_capacity(CALLS);
        for _ in 0..CALLS {
            let began = now();
            self.call().await?;
            figures.push(began.elapsed().as_secs_f64() * 1e6);
        }
        Ok(median(&figures))
    }
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

    /// The median of a round, in microseconds.
    async fn median(&mut self, request: &[u8]) -> Result<f64, Failure> {
        let mut figures = Vec::with_capacity(CALLS);
        for _ in 0..CALLS {
            let began = now();
            self.ask(request).await?;
            figures.push(began.elapsed().as_secs_f64() * 1e6);
        }
        Ok(median(&figures))
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
    let sha256: String = Sha256::digest("bench-token").iter().map(|it| format!("{it:02x}")).collect();
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
