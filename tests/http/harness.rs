//! A server over the demo application, on a port of its own, and a client that says what it is told and nothing else.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use countersign::auth::{Auth, AuthSettings};
use countersign::demo::{self, Desk};
use countersign::http::{HttpSettings, Server};
use countersign::testing::{Place, TestApp};
use countersign::{Actor, EngineBuilder, Gateway, Identity, Surface};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Nothing that a test waits for takes so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A static token of this configuration.
pub(crate) fn token(secret: &str, actor: &Actor, tenant: &str, client: Option<&str>, human: bool) -> Value {
    let sha256 = Sha256::digest(secret).iter().fold(String::new(), |text, it| format!("{text}{it:02x}"));
    let mut token = json!({
        "name": secret, "sha256": sha256, "id": actor.id, "kind": actor.kind, "tenant": tenant, "roles": actor.roles,
        "human": human,
    });
    if let Some(client) = client {
        token["client"] = client.into();
    }
    token
}

/// The tokens `demo-dana`, `demo-priya`, `demo-omar` and `demo-nightly`; the people among them may decide.
pub(crate) fn demo_tokens() -> Vec<Value> {
    let named = |name: &str| {
        let identity = demo::actor(name).unwrap();
        let human = name != "nightly";
        token(&format!("demo-{name}"), identity.actor().unwrap(), identity.tenant_name(), None, human)
    };
    ["dana", "priya", "omar", "nightly"].map(named).into()
}

/// Whose credentials are taken.
pub(crate) async fn auth(tokens: Vec<Value>) -> Auth {
    let settings: AuthSettings = serde_json::from_value(json!({ "tokens": tokens })).unwrap();
    Auth::new(&settings, Path::new(".")).await.unwrap()
}

/// A server that runs until it is dropped or told to stop.
pub(crate) struct TestServer<A = TestApp<Desk>> {
    pub(crate) app: A,
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<()>,
}

impl TestServer {
    /// The demo application with its four tokens.
    pub(crate) async fn new() -> Self {
        Self::tuned(|_| {}).await
    }

    /// The same, with other settings.
    pub(crate) async fn tuned(tune: impl FnOnce(&mut HttpSettings)) -> Self {
        Self::built(demo::builder(), tune).await
    }

    /// The same, with another builder.
    pub(crate) async fn built(builder: EngineBuilder<Desk>, tune: impl FnOnce(&mut HttpSettings)) -> Self {
        let app = demo_app(builder, &Place::new().unwrap()).await;
        let gateway = app.gateway();
        Self::over(app, gateway, auth(demo_tokens()).await, Surface::Http, tune).await
    }
}

/// The demo application, in one of several processes at one place.
pub(crate) async fn demo_app(builder: EngineBuilder<Desk>, place: &Place) -> TestApp<Desk> {
    let desk = Desk::default();
    let context = move |identity: &Identity| desk.of_tenant(identity.tenant_name());
    TestApp::open(builder, context, place).await.unwrap()
}

impl<A> TestServer<A> {
    /// A server over any application, as whatever surface.
    pub(crate) async fn over(
        app: A,
        gateway: Gateway,
        auth: Auth,
        surface: Surface,
        tune: impl FnOnce(&mut HttpSettings),
    ) -> Self {
        let mut settings = HttpSettings::default();
        tune(&mut settings);
        assert_eq!(settings.problems(), []);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let http = Server::new(gateway, auth, settings).claiming(surface);
        let served = tokio::spawn(http.serve(listener, async move {
            let _ = stopped.await; // dropped is stopped, too
        }));
        Self { app, address, stop: Some(stop), served }
    }

    /// Tells the server to stop.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until it has.
    pub(crate) async fn stopped(self) -> A {
        tokio::time::timeout(PATIENCE, self.served).await.expect("the server ends").unwrap();
        self.app
    }

    /// A connection of its own.
    pub(crate) async fn connect(&self) -> Wire {
        Wire::to(self.address).await.unwrap()
    }

    /// One request on a connection of its own.
    pub(crate) async fn send(&self, request: &Request) -> Answer {
        let mut wire = self.connect().await;
        wire.write(request.bytes(self.address).as_slice()).await;
        wire.answer().await
    }

    pub(crate) async fn get(&self, who: &str, path: &str) -> Answer {
        self.send(&Request::new("GET", path).as_who(who)).await
    }

    pub(crate) async fn post(&self, who: &str, path: &str, body: &Value) -> Answer {
        self.send(&Request::new("POST", path).as_who(who).json(body)).await
    }

    /// Calls a capability.
    pub(crate) async fn invoke(&self, who: &str, capability: &str, input: &Value) -> Answer {
        self.post(who, &format!("/v1/capabilities/{capability}/invoke"), &json!({ "input": input })).await
    }

    /// Files a refund that a manager must agree to, as Dana, and returns the approval's id.
    pub(crate) async fn ask(&self) -> String {
        let answer = self.invoke("demo-dana", "orders.refund", &refund(64_900)).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()["approval"]["id"].as_str().unwrap().to_owned()
    }

    /// Priya agrees.
    pub(crate) async fn approve(&self, id: &str) {
        let decision = json!({"decision": "approve", "type": "manager"});
        let answer = self.post("demo-priya", &format!("/v1/approvals/{id}/decision"), &decision).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

pub(crate) fn refund(cents: u32) -> Value {
    json!({"orderId": "ord_42", "amountCents": cents, "reason": "It arrived broken."})
}

/// One request, as bytes.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &str, target: &str) -> Self {
        Self { method: method.into(), target: target.into(), headers: Vec::new(), body: Vec::new() }
    }

    /// With this token; none if it is empty.
    #[expect(clippy::wrong_self_convention, reason = "it is who asks, and no conversion")]
    pub(crate) fn as_who(self, token: &str) -> Self {
        if token.is_empty() { self } else { self.header("Authorization", &format!("Bearer {token}")) }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.text(&body.to_string())
    }

    /// JSON as it is written.
    pub(crate) fn text(self, body: &str) -> Self {
        self.header("Content-Type", "application/json").body(body.as_bytes())
    }

    pub(crate) fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }

    /// With `Host`, unless the request has one, and the length of the body, unless the request says what it is.
    pub(crate) fn bytes(&self, address: SocketAddr) -> Vec<u8> {
        let says = |name: &str| self.headers.iter().any(|it| it.0.eq_ignore_ascii_case(name));
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        if !says("host") {
            let _ = write!(head, "Host: {address}\r\n");
        }
        if !says("content-length") && !says("transfer-encoding") && self.method == "POST" {
            let _ = write!(head, "Content-Length: {}\r\n", self.body.len());
        }
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let mut bytes = (head + "\r\n").into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// A raw connection.
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    read: Vec<u8>,
}

impl Wire {
    /// To any server.
    pub(crate) async fn to(address: SocketAddr) -> std::io::Result<Self> {
        Ok(Self { stream: TcpStream::connect(address).await?, read: Vec::new() })
    }

    /// Writes; whoever was hung up on notices when it reads.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// Reads one answer, whole: of known length, in chunks, or to the end.
    pub(crate) async fn answer(&mut self) -> Answer {
        self.try_answer().await.expect("an answer")
    }

    /// `None` if the server hangs up instead.
    pub(crate) async fn try_answer(&mut self) -> Option<Answer> {
        let end = loop {
            if let Some(at) = find(&self.read, b"\r\n\r\n") {
                break at;
            }
            if !self.more().await {
                return None;
            }
        };
        let head = String::from_utf8(self.read.drain(..end + 4).collect()).unwrap();
        let mut answer = Answer::of_head(&head);
        if let Some(length) = answer.header("content-length") {
            let length: usize = length.parse().unwrap();
            while self.read.len() < length && self.more().await {}
            answer.body = self.read.drain(..length.min(self.read.len())).collect();
        } else if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(mut chunk) = self.chunk().await.filter(|it| !it.is_empty()) {
                answer.body.append(&mut chunk);
            }
        }
        Some(answer)
    }

    /// Reads the head of an answer only.
    pub(crate) async fn head(&mut self) -> Answer {
        let end = loop {
            if let Some(at) = find(&self.read, b"\r\n\r\n") {
                break at;
            }
            assert!(self.more().await, "a head");
        };
        Answer::of_head(&String::from_utf8(self.read.drain(..end + 4).collect()).unwrap())
    }

    /// The next chunk of a chunked answer; empty at its end, `None` if the server hangs up.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        let end = loop {
            if let Some(at) = find(&self.read, b"\r\n") {
                break at;
            }
            if !self.more().await {
                return None;
            }
        };
        let line = String::from_utf8(self.read.drain(..end + 2).collect()).unwrap();
        let size = usize::from_str_radix(line.trim(), 16).unwrap();
        while self.read.len() < size + 2 {
            if !self.more().await {
                return None;
            }
        }
        let chunk = self.read.drain(..size).collect();
        self.read.drain(..2);
        Some(chunk)
    }

    /// Waits until the server hangs up.
    pub(crate) async fn hung_up(&mut self) {
        while self.more().await {}
    }

    async fn more(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        let read =
            tokio::time::timeout(PATIENCE, self.stream.read(&mut buffer)).await.expect("the server says something");
        let read = read.unwrap_or(0); // reset is hung up
        self.read.extend_from_slice(&buffer[..read]);
        read > 0
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|it| it == what)
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    fn of_head(head: &str) -> Self {
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |it: &str| it.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self { status, headers: lines.filter_map(header).collect(), body: Vec::new() }
    }

    /// The one header of this name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|it| it.0.eq_ignore_ascii_case(name)).map(|it| it.1.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of a problem.
    pub(crate) fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        problem["code"].as_str().unwrap().to_owned()
    }
}
