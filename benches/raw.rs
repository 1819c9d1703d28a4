//! The rows of calls, written by hand: into a database that the engine made, set up as the engine sets up its own, with
//! what one real call left behind as the pattern.

use std::path::Path;
use std::time::Duration;

use countersign::{Engine, HandlerError, Invocation, Outcome};
use serde_json::{Value, json};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Executor as _, Row as _};

use crate::Failure;
use crate::shop::{Refund, Refunded, dana, input, name, source, unhandled};
use crate::table::now;

const POLICIES: &str = r#"
@id("support") permit (principal in Role::"support", action in Action::"orders.*", resource);
"#;

const EXECUTION: &str = "
    INSERT INTO execution (id, tenant, capability, requester, slot, fence, input_hash, given_hash, state, is_current,
                           instance, retake, ttl_us, approval_id, input, agent, envelope, started_at)
    VALUES (?, ?, ?, ?, NULL, 1, ?, ?, 'running', TRUE, ?, ?, ?, NULL, ?, ?, ?, ?)";
const END: &str = "
    UPDATE execution SET ended_at = ?, state = ?, outcome = ?, keep_until = ? + ttl_us, input = NULL WHERE id = ?";
const HEAD: &str = "UPDATE audit_head SET seq = seq + ? RETURNING seq";
const TWO_EVENTS: &str = "
    INSERT INTO audit_event (seq, id, tenant, execution_id, capability_id, actor_id, type, terminal, at, body, leaf)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const ONE_EVENT: &str = "
    INSERT INTO audit_event (seq, id, tenant, execution_id, capability_id, actor_id, type, terminal, at, body, leaf)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// The same with any number of rows, in one JSON parameter.
const EXECUTIONS: &str = "
    INSERT INTO execution (id, tenant, capability, requester, slot, fence, input_hash, given_hash, state, is_current,
                           instance, retake, ttl_us, approval_id, input, agent, envelope, started_at)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, NULL, 1, value ->> 4, value ->> 5, 'running', TRUE,
           value ->> 6, value ->> 7, value ->> 8, NULL, value ->> 9, value ->> 10, value ->> 11, value ->> 12
    FROM json_each(?) WHERE TRUE";
const ENDS: &str = "
    UPDATE execution SET ended_at = v.value ->> 0, state = v.value ->> 1, outcome = v.value ->> 2,
                         keep_until = v.value ->> 3 + ttl_us, input = NULL
    FROM json_each(?) AS v WHERE execution.id = v.value ->> 4";
const EVENTS: &str = "
    INSERT INTO audit_event (seq, id, tenant, execution_id, capability_id, actor_id, type, terminal, at, body, leaf)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
           value ->> 8, value ->> 9, value ->> 10
    FROM json_each(?) WHERE TRUE";

/// Some instant, in microseconds: as long in the database as any other.
const AT: i64 = 1_764_000_000_000_000;

/// One event as a call left it. Its body and leaf are written again as they are: their length is what counts.
struct Event {
    tenant: String,
    capability: String,
    actor: String,
    kind: String,
    terminal: bool,
    body: String,
    leaf: String,
}

/// What a call leaves behind.
struct Pattern {
    tenant: String,
    capability: String,
    requester: String,
    hash: String,
    instance: String,
    ttl: i64,
    input: String,
    agent: String,
    envelope: String,
    events: Vec<Event>,
}

/// One call's new ids.
struct Ids {
    execution: String,
    events: [String; 3],
}

pub(crate) struct Raw {
    link: SqliteConnection,
    pattern: Pattern,
}

impl Raw {
    pub(crate) async fn new(directory: &Path) -> Result<Self, Failure> {
        let path = directory.join("raw.db");
        let url = format!("sqlite:{}", path.display());
        let capability = unhandled(0).handler(slow);
        let engine = Engine::builder().capability(capability).policies(source(POLICIES)).database(url).build().await?;
        let call = engine.on_behalf_of(dana(), ()).invoke(name(0), input()).start();
        tokio::time::sleep(PAUSE / 2).await;
        let options = SqliteConnectOptions::new().filename(&path).synchronous(SqliteSynchronous::Full);
        let options = options.foreign_keys(true).pragma("secure_delete", "ON").disable_statement_logging();
        let mut link = options.pragma("journal_size_limit", "67108864").connect().await?;
        let (input,): (String,) = sqlx::query_as("SELECT input FROM execution").fetch_one(&mut link).await?;
        if !matches!(call.await, Outcome::Completed { recorded: true, .. }) {
            return Err("the call that is the pattern fails".into());
        }
        engine.shutdown(Duration::from_secs(5)).await;
        let pattern = Pattern::read(&mut link, input).await?;
        link.execute("CREATE TABLE one_row (id INTEGER PRIMARY KEY, what TEXT NOT NULL)").await?;
        Ok(Self { link, pattern })
    }

    /// Calls a second, each with two transactions of its own.
    pub(crate) async fn one_by_one(&mut self, time: Duration) -> Result<f64, Failure> {
        let (mut calls, mut spent) = (0u32, Duration::ZERO);
        while spent < time {
            let ids = ids();
            let began = now();
            self.begin_one(&ids).await?;
            self.end_one(&ids).await?;
            spent += began.elapsed();
            calls += 1;
        }
        Ok(f64::from(calls) / spent.as_secs_f64())
    }

    async fn begin_one(&mut self, ids: &Ids) -> Result<(), Failure> {
        let Self { link, pattern } = self;
        link.execute("BEGIN IMMEDIATE").await?;
        let query = sqlx::query(EXECUTION).bind(&ids.execution).bind(&pattern.tenant).bind(&pattern.capability);
        let query = query.bind(&pattern.requester).bind(&pattern.hash).bind(&pattern.hash).bind(&pattern.instance);
        let query = query.bind(false).bind(pattern.ttl).bind(&pattern.input).bind(&pattern.agent);
        query.bind(&pattern.envelope).bind(AT).execute(&mut *link).await?;
        let seq = head(link, 2).await?;
        let mut query = sqlx::query(TWO_EVENTS);
        for ((event, id), seq) in pattern.events.iter().zip(&ids.events).take(2).zip(seq - 1..) {
            query = event.bind(query, seq, id, &ids.execution);
        }
        query.execute(&mut *link).await?;
        link.execute("COMMIT").await?;
        Ok(())
    }

    async fn end_one(&mut self, ids: &Ids) -> Result<(), Failure> {
        let Self { link, pattern } = self;
        link.execute("BEGIN IMMEDIATE").await?;
        let query = sqlx::query(END).bind(AT).bind("completed").bind(None::<String>).bind(AT);
        query.bind(&ids.execution).execute(&mut *link).await?;
        let seq = head(link, 1).await?;
        let [.., event] = &*pattern.events else { return Err("no events".into()) };
        event.bind(sqlx::query(ONE_EVENT), seq, &ids.events[2], &ids.execution).execute(&mut *link).await?;
        link.execute("COMMIT").await?;
        Ok(())
    }

    /// Calls a second, so many in each pair of transactions.
    pub(crate) async fn in_batches(&mut self, size: usize, time: Duration) -> Result<f64, Failure> {
        let (mut calls, mut spent) = (0u32, Duration::ZERO);
        while spent < time {
            let batch: Vec<Ids> = (0..size).map(|_| ids()).collect();
            let began = now();
            self.begin_batch(&batch).await?;
            self.end_batch(&batch).await?;
            spent += began.elapsed();
            calls += u32::try_from(size)?;
        }
        Ok(f64::from(calls) / spent.as_secs_f64())
    }

    async fn begin_batch(&mut self, batch: &[Ids]) -> Result<(), Failure> {
        let Self { link, pattern: it } = self;
        link.execute("BEGIN IMMEDIATE").await?;
        let row = |ids: &Ids| {
            json!([
                ids.execution,
                it.tenant,
                it.capability,
                it.requester,
                it.hash,
                it.hash,
                it.instance,
                false,
                it.ttl,
                it.input,
                it.agent,
                it.envelope,
                AT
            ])
        };
        run(link, EXECUTIONS, batch.iter().map(row).collect()).await?;
        let count = i64::try_from(batch.len() * 2)?;
        let seq = head(link, count).await?;
        let events = batch.iter().flat_map(|ids| it.events.iter().zip(&ids.events).take(2).map(move |it| (ids, it)));
        let rows = events.zip(seq - count + 1..).map(|((ids, (event, id)), seq)| event.row(seq, id, &ids.execution));
        run(link, EVENTS, rows.collect()).await?;
        link.execute("COMMIT").await?;
        Ok(())
    }

    async fn end_batch(&mut self, batch: &[Ids]) -> Result<(), Failure> {
        let Self { link, pattern } = self;
        link.execute("BEGIN IMMEDIATE").await?;
        let rows = batch.iter().map(|ids| json!([AT, "completed", null, AT, ids.execution]));
        run(link, ENDS, rows.collect()).await?;
        let count = i64::try_from(batch.len())?;
        let seq = head(link, count).await?;
        let [.., event] = &*pattern.events else { return Err("no events".into()) };
        let rows = batch.iter().zip(seq - count + 1..).map(|(ids, seq)| event.row(seq, &ids.events[2], &ids.execution));
        run(link, EVENTS, rows.collect()).await?;
        link.execute("COMMIT").await?;
        Ok(())
    }

    /// One-row commits a second: what the disk alone allows.
    pub(crate) async fn commits(&mut self, time: Duration) -> Result<f64, Failure> {
        let (mut commits, began) = (0u32, now());
        while began.elapsed() < time {
            let query = sqlx::query("INSERT INTO one_row (what) VALUES (?)").bind(&self.pattern.hash);
            query.execute(&mut self.link).await?;
            commits += 1;
        }
        Ok(f64::from(commits) / began.elapsed().as_secs_f64())
    }
}

async fn head(link: &mut SqliteConnection, count: i64) -> Result<i64, Failure> {
    Ok(sqlx::query_scalar(HEAD).bind(count).fetch_one(link).await?)
}

async fn run(link: &mut SqliteConnection, text: &'static str, rows: Vec<Value>) -> Result<(), Failure> {
    sqlx::query(text).bind(Value::Array(rows).to_string()).execute(link).await?;
    Ok(())
}

type Query<'q> = sqlx::query::Query<'q, sqlx::Sqlite, <sqlx::Sqlite as sqlx::Database>::Arguments>;

impl Event {
    fn bind<'q>(&'q self, query: Query<'q>, seq: i64, id: &'q str, execution: &'q str) -> Query<'q> {
        let query = query.bind(seq).bind(id).bind(&self.tenant).bind(execution).bind(&self.capability);
        let query = query.bind(&self.actor).bind(&self.kind).bind(self.terminal).bind(AT);
        query.bind(&self.body).bind(&self.leaf)
    }

    fn row(&self, seq: i64, id: &str, execution: &str) -> Value {
        json!([
            seq,
            id,
            self.tenant,
            execution,
            self.capability,
            self.actor,
            self.kind,
            self.terminal,
            AT,
            self.body,
            self.leaf
        ])
    }
}

impl Pattern {
    async fn read(link: &mut SqliteConnection, input: String) -> Result<Self, Failure> {
        let row = sqlx::query("SELECT * FROM execution").fetch_one(&mut *link).await?;
        let events = sqlx::query("SELECT * FROM audit_event WHERE execution_id IS NOT NULL ORDER BY seq");
        let rows = events.fetch_all(&mut *link).await?;
        let events = rows.iter().map(|row| {
            Ok(Event {
                tenant: row.try_get("tenant")?,
                capability: row.try_get("capability_id")?,
                actor: row.try_get("actor_id")?,
                kind: row.try_get("type")?,
                terminal: row.try_get("terminal")?,
                body: row.try_get("body")?,
                leaf: row.try_get("leaf")?,
            })
        });
        let events = events.collect::<Result<Vec<_>, sqlx::Error>>()?;
        if events.len() != 3 {
            return Err(format!("a call leaves {} events, not three", events.len()).into());
        }
        Ok(Self {
            tenant: row.try_get("tenant")?,
            capability: row.try_get("capability")?,
            requester: row.try_get("requester")?,
            hash: row.try_get("input_hash")?,
            instance: row.try_get("instance")?,
            ttl: row.try_get("ttl_us")?,
            agent: row.try_get("agent")?,
            envelope: row.try_get("envelope")?,
            input,
            events,
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "rows by hand need ids as the engine's are")]
fn ids() -> Ids {
    let id = || uuid::Uuid::now_v7().to_string();
    Ids { execution: id(), events: [id(), id(), id()] }
}

const PAUSE: Duration = Duration::from_millis(600);

/// Long enough to look at its row while it runs.
async fn slow(_: Invocation, input: Refund) -> Result<Refunded, HandlerError> {
    tokio::time::sleep(PAUSE).await;
    Ok(Refunded::of(input))
}
