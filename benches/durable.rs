//! Whole calls of a trivial write on SQLite with `synchronous=FULL`, beside the same rows in the same number of
//! transactions through the same driver by hand. In turns, on the disk that holds the build.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use countersign::{Caller, Engine, Outcome};

use crate::Failure;
use crate::raw::Raw;
use crate::shop::{dana, directory, engine, input, name};
use crate::table::{Table, Target, median, now};

pub(crate) const POLICIES: &str = r#"
@id("support") permit (principal in Role::"support", action in Action::"orders.*", resource);
"#;

pub(crate) const CALLERS: usize = 64;
const ROUNDS: usize = 11;
const TURN: Duration = Duration::from_millis(400);

pub(crate) async fn measure(table: &mut Table) -> Result<(), Failure> {
    let directory = directory()?;
    let raw = Raw::new(directory.path()).await?;
    let engine = engine(1, POLICIES, directory.path(), "engine.db").await?;
    // A task, as calls are: waking a worker of the runtime costs more than waking a thread that waits for one future.
    let rates = tokio::spawn(rates(raw, Load::new(&engine))).await??;
    engine.shutdown(Duration::from_secs(5)).await;
    tell(table, &rates);
    Ok(())
}

/// In the middle of their rounds, in the order in which [`tell`] takes them.
async fn rates(mut raw: Raw, load: Arc<Load>) -> Result<[f64; 8], Failure> {
    for _ in 0..50 {
        load.call(false).await?;
    }
    let mut rates: [Vec<f64>; 8] = Default::default();
    for _ in 0..ROUNDS {
        rates[0].push(load.rate(1, false).await?);
        rates[1].push(raw.one_by_one(TURN).await?);
        rates[2].push(load.rate(CALLERS, false).await?);
        rates[3].push(raw.in_batches(CALLERS, TURN).await?);
        rates[4].push(load.rate(1, true).await?);
        rates[5].push(load.rate(CALLERS, true).await?);
        rates[6].push(raw.commits(TURN / 4).await?);
        rates[7].push(raw.in_batches(1, TURN / 2).await?);
    }
    Ok(rates.map(|it| median(&it)))
}

fn tell(table: &mut Table, rates: &[f64; 8]) {
    let [one, raw_one, many, raw_many, keyed_one, keyed_many, commits, json_one] = *rates;
    let took = |rate: f64| 1e6 / rate;
    let what = "durable, one caller : the same rows by hand";
    table.judge(what, (took(one), took(raw_one)), "us", Target::AtMost(1.3));
    table.judge("durable, 64 callers : one caller", (many, one), "calls/s", Target::AtLeast(8.0));
    table.judge("durable, 64 callers : raw batches of 64", (many, raw_many), "calls/s", Target::AtLeast(0.5));
    table.compare("durable, one caller : one-row commits", (took(one), took(commits)), "us");
    table.compare("durable, one caller : by hand with JSON parameters", (took(one), took(json_one)), "us");
    table.compare("durable with keys, one caller : without", (took(keyed_one), took(one)), "us");
    table.compare("durable with keys, 64 callers : without", (keyed_many, many), "calls/s");
}

/// Callers of one engine.
pub(crate) struct Load {
    caller: Caller,
    keys: AtomicU64,
}

impl Load {
    pub(crate) fn new(engine: &Engine) -> Arc<Self> {
        Arc::new(Self { caller: engine.on_behalf_of(dana(), ()), keys: AtomicU64::new(0) })
    }

    async fn call(&self, keyed: bool) -> Result<(), Failure> {
        let mut call = self.caller.invoke(name(0), input());
        if keyed {
            call = call.idempotency_key(format!("key-{}", self.keys.fetch_add(1, Ordering::Relaxed)));
        }
        match call.await {
            Outcome::Completed { recorded: true, .. } => Ok(()),
            other => Err(format!("a call ends otherwise: {other:?}").into()),
        }
    }

    /// Calls a second.
    async fn rate(self: &Arc<Self>, callers: usize, keyed: bool) -> Result<f64, Failure> {
        let began = now();
        let calls = self.turn(callers, keyed, TURN).await?;
        Ok(f64::from(calls) / began.elapsed().as_secs_f64())
    }

    /// How many calls without keys are done in a turn.
    pub(crate) async fn calls(self: &Arc<Self>, callers: usize, turn: Duration) -> Result<u32, Failure> {
        self.turn(callers, false, turn).await
    }

    async fn turn(self: &Arc<Self>, callers: usize, keyed: bool, turn: Duration) -> Result<u32, Failure> {
        let began = now();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..callers {
            let load = Arc::clone(self);
            tasks.spawn(async move {
                let mut calls = 0u32;
                while began.elapsed() < turn {
                    load.call(keyed).await?;
                    calls += 1;
                }
                Ok::<_, Failure>(calls)
            });
        }
        let mut calls = 0;
        while let Some(done) = tasks.join_next().await {
            calls += done??;
        }
        Ok(calls)
    }
}
