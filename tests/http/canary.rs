//! Markers in everything that a client and an application can say: none is found where the schema does not let it out,
//! neither in the database's files nor in the log nor in an answer (INV-8, INV-9).

use countersign::testing::TestApp;
use countersign::{
    Actor, ApprovalRule, Capability, DeclaredError, Engine, EngineBuilder, HandlerError, Invocation, PolicySource,
    Risk, Surface,
};
use serde_json::{Value, json};

use super::harness::{Answer, Request, TestServer, auth, token};
use crate::logs::{logged, watch_logs};

/// What every marker begins with. Where it comes from follows.
const CANARY: &str = "canary-http-";

/// Dana's, as a whole: a secret that nobody else may learn.
const TOKEN: &str = "canary-http-token-of-dana";

const POLICIES: &str = r#"
    @id("all") permit (principal, action in Action::"invoke", resource);
    @id("manage") permit (principal in Role::"manager", action in [
        Countersign::Action::"approve", Countersign::Action::"reject", Countersign::Action::"read_approvals",
        Countersign::Action::"read_audit", Countersign::Action::"read_policies", Countersign::Action::"read_metrics"
    ], resource);
"#;

fn closed(member: &str) -> Value {
    json!({
        "type": "object", "additionalProperties": false, "required": [member],
        "properties": {member: {"type": "string", "maxLength": 100}},
    })
}

fn receipt() -> Value {
    json!({
        "type": "object", "additionalProperties": false, "required": ["shown", "kept"],
        "properties": {"shown": {"type": "string"}, "kept": {"type": "string"}},
    })
}

async fn answers(_: Invocation, _: Value) -> Result<Value, HandlerError> {
    Ok(json!({"shown": format!("{CANARY}shown"), "kept": format!("{CANARY}redacted")}))
}

async fn breaks_its_schema(_: Invocation, _: Value) -> Result<Value, HandlerError> {
    Ok(json!({"shown": 7, "kept": format!("{CANARY}misfit")}))
}

async fn fails(_: Invocation, _: Value) -> Result<Value, HandlerError> {
    Err(HandlerError::other(format!("{CANARY}cause")))
}

async fn did_nothing(_: Invocation, _: Value) -> Result<Value, HandlerError> {
    Err(HandlerError::not_executed(format!("{CANARY}nothing")))
}

async fn declines(_: Invocation, _: Value) -> Result<Value, HandlerError> {
    Err(DeclaredError::new("NO", "Not today.").into())
}

async fn panics(_: Invocation, input: Value) -> Result<Value, HandlerError> {
    assert!(input.is_null(), "{CANARY}panic");
    Ok(input)
}

fn builder() -> EngineBuilder<()> {
    let write = |id: &str| {
        Capability::write(id)
            .risk(Risk::Low)
            .description("For markers.")
            .expose([Surface::Http])
            .redact_output(["/kept"])
    };
    let input = || closed("text");
    Engine::builder()
        .capability(write("mark.answer").json_handler(input(), receipt(), answers))
        .capability(write("mark.misfit").json_handler(input(), receipt(), breaks_its_schema))
        .capability(write("mark.fail").json_handler(input(), receipt(), fails))
        .capability(write("mark.nothing").json_handler(input(), receipt(), did_nothing))
        .capability(write("mark.decline").error(DeclaredError::new("NO", "Not today.")).json_handler(
            input(),
            receipt(),
            declines,
        ))
        .capability(write("mark.panic").json_handler(input(), receipt(), panics))
        .capability(write("mark.ask").approval(ApprovalRule::of("manager")).redact_display(["/text"]).json_handler(
            input(),
            receipt(),
            answers,
        ))
        .policies(PolicySource::Files(vec![("all.cedar".into(), POLICIES.into())]))
}

/// The answers so far, each with what it may show.
#[derive(Default)]
struct Heard(Vec<(String, String)>);

impl Heard {
    /// What is not meant for its reader is in no part of an answer.
    fn note(&mut self, what: &str, answer: &Answer, shown: &[&str]) -> u16 {
        let mut text = format!("{} {:?} {}", answer.status, answer.headers, String::from_utf8_lossy(&answer.body));
        for it in shown {
            assert!(text.contains(it), "{what} shows {it}: {text}");
            text = text.replace(it, "..");
        }
        self.0.push((what.to_owned(), text));
        answer.status
    }

    fn leaks(&self) -> Vec<&(String, String)> {
        self.0.iter().filter(|it| it.1.contains(CANARY)).collect()
    }
}

async fn server() -> TestServer<TestApp<()>> {
    let app = TestApp::new(builder(), |_| ()).await.unwrap();
    let tokens = vec![
        token(TOKEN, &Actor::user("dana"), "acme", None, true),
        token("token-of-priya", &Actor::user("priya").role("manager"), "acme", None, true),
    ];
    let gateway = app.gateway();
    TestServer::over(app, gateway, auth(tokens).await, Surface::Http, |_| {}).await
}

async fn calls(server: &TestServer<TestApp<()>>, heard: &mut Heard) {
    let marked = json!({"text": format!("{CANARY}input")});
    let shown = format!("{CANARY}shown");
    for (capability, key, shown, status) in [
        ("mark.answer", None, &[&*shown][..], 200),
        ("mark.misfit", Some("k2"), &[], 500),
        ("mark.fail", Some("k3"), &[], 500),
        ("mark.nothing", Some("k4"), &[], 500),
        ("mark.decline", Some("k5"), &[], 422),
        ("mark.panic", Some("k6"), &[], 500),
    ] {
        let request = Request::new("POST", &format!("/v1/capabilities/{capability}/invoke")).as_who(TOKEN);
        let request = request.json(&json!({"input": marked}));
        let request = if let Some(key) = key { request.header("Idempotency-Key", key) } else { request };
        assert_eq!(heard.note(capability, &server.send(&request).await, shown), status, "{capability}");
    }
    // Of bodies that do not fit.
    for (body, status) in [
        (json!({"input": {"text": 7, format!("{CANARY}member"): 1}}).to_string(), 422),
        (json!({"input": {"text": CANARY.repeat(20)}}).to_string(), 422),
        (json!({"input": marked, format!("{CANARY}envelope"): 1}).to_string(), 422),
        (format!("{{\"input\": {CANARY}broken"), 400),
    ] {
        let request = Request::new("POST", "/v1/capabilities/mark.answer/invoke").as_who(TOKEN).text(&body);
        assert_eq!(heard.note(&body, &server.send(&request).await, &[]), status, "{body}");
    }
}

async fn approvals(server: &TestServer<TestApp<()>>, heard: &mut Heard) {
    let ask = json!({"input": {"text": format!("{CANARY}input")}});
    let asked = server.post(TOKEN, "/v1/capabilities/mark.ask/invoke", &ask).await;
    assert_eq!(heard.note("asking", &asked, &[]), 202);
    let id = asked.json()["approval"]["id"].as_str().unwrap().to_owned();
    heard.note("seeing", &server.get("token-of-priya", &format!("/v1/approvals/{id}")).await, &[]);
    heard.note("listing", &server.get(TOKEN, "/v1/approvals").await, &[]);
    for (decision, status) in [
        (json!({"decision": format!("{CANARY}decision")}), 422),
        (json!({"decision": "approve", "type": format!("{CANARY}type")}), 422),
        (json!({"decision": "approve", "type": "manager", format!("{CANARY}more"): 1}), 422),
        (json!({"decision": "approve", "type": "manager"}), 200),
    ] {
        let answer = server.post("token-of-priya", &format!("/v1/approvals/{id}/decision"), &decision).await;
        assert_eq!(heard.note("deciding", &answer, &[]), status, "{decision} {answer:?}");
    }
    let resumed = server.post(TOKEN, &format!("/v1/approvals/{id}/resume"), &json!({})).await;
    assert_eq!(heard.note("resuming", &resumed, &[&format!("{CANARY}shown")]), 200);
    let question = json!({"capability": "mark.answer", "input": {"text": 7}, "surface": format!("{CANARY}surface")});
    let explained = server.post("token-of-priya", "/v1/policies/explain", &question).await;
    assert_eq!(heard.note("explaining", &explained, &[]), 422);
    let question = json!({"capability": "mark.answer", "input": {"text": format!("{CANARY}explained")}});
    let explained = server.post("token-of-priya", "/v1/policies/explain", &question).await;
    assert_eq!(heard.note("explaining", &explained, &[]), 200);
}

/// Requests that say it in their head: tokens, headers, paths and queries.
async fn heads(server: &TestServer<TestApp<()>>, heard: &mut Heard) {
    let c = |word: &str| format!("{CANARY}{word}");
    let get = |path: &str| Request::new("GET", path);
    for (request, status) in [
        (get("/v1/capabilities").as_who(&c("guessed")), 401),
        (get("/v1/capabilities").header("Authorization", &format!("Basic {}", c("basic"))), 401),
        (get("/v1/capabilities").as_who(TOKEN).header("Authorization", &c("second")), 401),
        (get("/v1/capabilities").header("Authorization", &format!("Bearer {}", c("\u{e9}"))), 401),
        (get("/v1/capabilities").as_who(TOKEN).header("Cookie", &c("cookie")), 200),
        (get("/v1/capabilities").as_who(TOKEN).header("X-Unknown", &c("header")), 200),
        (get("/v1/capabilities").as_who(TOKEN).header("traceparent", &c("trace")), 200),
        (get("/v1/capabilities").as_who(TOKEN).header("X-Request-Id", &c("request").repeat(20)), 200),
        (get("/v1/capabilities").as_who(TOKEN).header("Origin", &format!("http://{}", c("origin"))), 403),
        (get("/v1/capabilities").as_who(TOKEN).header("Host", &c("host.example")), 403),
        (get(&format!("/{}", c("path"))).as_who(TOKEN), 404),
        (get(&format!("/v1/{}/x", c("path"))).as_who(TOKEN), 404),
        (get(&format!("/v1/approvals/{}", c("approval"))).as_who(TOKEN), 404),
        (get(&format!("/v1/executions/{}", c("execution"))).as_who(TOKEN), 404),
        (get(&format!("/v1/capabilities?{}=1", c("parameter"))).as_who(TOKEN), 422),
        (get(&format!("/v1/capabilities?tag={}&id={}", c("tag"), c("id"))).as_who(TOKEN), 200),
        (get(&format!("/v1/approvals?status={}", c("status"))).as_who(TOKEN), 422),
        (get(&format!("/v1/audit/events?since={}", c("since"))).as_who("token-of-priya"), 422),
        (get(&format!("/v1/audit/events?actor={}", c("actor"))).as_who("token-of-priya"), 200),
        (get("/v1/audit/events/stream").as_who("token-of-priya").header("Last-Event-ID", &c("last")), 422),
        (Request::new(&format!("CANARY{}", "X".repeat(20)), "/v1/capabilities").as_who(TOKEN), 405),
    ] {
        let answer = server.send(&request).await;
        assert_eq!(heard.note(&format!("{request:?}"), &answer, &[]), status, "{request:?} {answer:?}");
    }
    let invoke = |id: &str| Request::new("POST", &format!("/v1/capabilities/{id}/invoke")).as_who(TOKEN);
    let input = json!({"input": {"text": "x"}});
    for (request, status) in [
        (invoke(&format!("{CANARY}Name")).json(&input), 404), // outside the grammar: it is nobody's name
        (invoke("mark.answer").header("Idempotency-Key", &format!("\"{CANARY}key")).json(&input), 400),
        (invoke("mark.answer").header("X-Correlation-Id", &CANARY.repeat(20)).json(&input), 200),
        (invoke("mark.answer").header("Prefer", &format!("wait={CANARY}")).json(&input), 200),
        (invoke("mark.answer").header("Content-Type", &format!("text/{CANARY}")).body(CANARY.as_bytes()), 415),
    ] {
        let shown = if status == 200 { vec![format!("{CANARY}shown")] } else { Vec::new() };
        let shown: Vec<_> = shown.iter().map(String::as_str).collect();
        let answer = server.send(&request).await;
        assert_eq!(heard.note(&format!("{request:?}"), &answer, &shown), status, "{request:?} {answer:?}");
    }
}

/// The database, its log of changes and whatever else lies beside it.
fn files(database: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(database.parent().unwrap()).unwrap();
    let files = entries.map(|it| it.unwrap().path()).filter(|it| it.is_file());
    files.map(|it| (it.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(it).unwrap())).collect()
}

fn found(bytes: &[u8], what: &str) -> usize {
    bytes.windows(what.len()).filter(|it| *it == what.as_bytes()).count()
}

#[tokio::test]
async fn markers_are_found_nowhere_but_where_the_schema_lets_them_out() {
    watch_logs();
    let server = server().await;
    let mut heard = Heard::default();
    calls(&server, &mut heard).await;
    approvals(&server, &mut heard).await;
    heads(&server, &mut heard).await;
    let mut page = server.get("token-of-priya", "/v1/audit/events?limit=1000").await;
    assert_eq!(heard.note("the log", &page, &[]), 200);
    page = server.get("token-of-priya", "/metrics").await;
    assert_eq!(heard.note("the metrics", &page, &[]), 200);
    assert_eq!(heard.leaks(), Vec::<&(String, String)>::new());

    let files = files(&server.app.place().database());
    let names: Vec<_> = files.iter().map(|it| it.0.as_str()).collect();
    assert!(names.contains(&"test.db") && names.contains(&"test.db-wal"), "{names:?}");
    assert!(files.iter().any(|it| found(&it.1, "capability.completed") > 0), "the search finds what is there");
    let leaks: Vec<_> = files.iter().filter(|it| found(&it.1, CANARY) > 0).map(|it| &it.0).collect();
    assert_eq!(leaks, Vec::<&String>::new());
    assert_eq!(logged(CANARY), Vec::<String>::new());
}
