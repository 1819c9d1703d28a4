//! The proof is violent: processes are killed, or stopped past their lease and continued, at every step between begin
//! and finish, and effects are counted.
//!
//! A round is one key. A victim process calls with it and meets its fault; the survivor, in the test's own process,
//! repeats the call under the same key until it has an answer. Then: never two effects of a write that is not
//! idempotent, never an effect without a record, exactly one end of everything that started.
//!
//! `COUNTERSIGN_CRASH_ROUNDS` sets the number of rounds (default 60; the full proof is 200).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use countersign::testing::stored_events;
use countersign::{
    Actor, AuditEvent, Capability, Engine, EventKind, HandlerError, Invocation, Outcome, PolicySource, Risk, Stage,
    Surface,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const LEASE: Duration = Duration::from_secs(1);

/// Where a victim meets its fault: a stage's entrance, or inside the handler.
const STEPS: [&str; 9] =
    ["idempotency", "control", "handler", "before_effect", "after_effect", "output", "redaction", "record", "reply"];

/// What happens to it there.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Kill,
    /// Stopped past the lease, then continued.
    Stop,
    /// Killed from outside, whenever.
    Random,
}

struct Bench {
    effects: PathBuf,
    /// The step and the fault that wait there; none in the survivor.
    fault: Option<(String, Fault)>,
}

#[derive(Deserialize, JsonSchema)]
struct Effect {
    /// Names the round in the file of effects.
    name: String,
}

#[derive(Serialize, JsonSchema)]
struct Done {
    name: String,
}

async fn effect(cx: Invocation<Bench>, input: Effect) -> Result<Done, HandlerError> {
    cx.app().meet("before_effect");
    let execution = cx.agent().map(|it| it.execution_id.to_string()).unwrap_or_default();
    let mut file = OpenOptions::new().create(true).append(true).open(&cx.app().effects)?;
    file.write_all(format!("{} {execution}\n", input.name).as_bytes())?; // one append: whole lines
    cx.app().meet("after_effect");
    Ok(Done { name: input.name })
}

impl Bench {
    fn meet(&self, step: &str) {
        if let Some((at, fault)) = &self.fault
            && at == step
        {
            strike(*fault);
        }
    }
}

/// Does to this process what an operator, the kernel or a laptop's lid would do.
fn strike(fault: Fault) {
    let signal = match fault {
        Fault::Kill | Fault::Random => "-KILL",
        Fault::Stop => "-STOP",
    };
    println!("struck");
    let _ = std::io::stdout().flush();
    let _ = Command::new("kill").args([signal, &std::process::id().to_string()]).status();
    if fault == Fault::Kill {
        std::thread::sleep(Duration::from_mins(1)); // until the signal arrives
    }
}

fn stage_name(stage: Stage) -> String {
    serde_json::to_value(stage).ok().and_then(|it| it.as_str().map(Into::into)).unwrap_or_default()
}

async fn engine(database: &Path, fault: Option<(String, Fault)>) -> Engine<Bench> {
    let struck = AtomicUsize::new(0);
    let write = |id: &'static str| {
        Capability::write(id)
            .risk(Risk::Low)
            .description("Append a line to the file of effects.")
            .expose([Surface::Direct])
            .timeout(Duration::from_secs(20))
    };
    Engine::builder()
        .capability(write("effects.once").handler(effect))
        .capability(write("effects.again").idempotent().handler(effect))
        .policies(PolicySource::Files(vec![(
            "all.cedar".into(),
            r#"@id("all") permit (principal, action in Action::"invoke", resource);"#.into(),
        )]))
        .database(format!("sqlite:{}", database.display()))
        .lease(LEASE)
        .sweep(Duration::from_millis(250))
        .on_stage(move |stage| {
            if let Some((at, fault)) = &fault
                && *at == stage_name(stage)
                && struck.fetch_add(1, Ordering::Relaxed) == 0
            {
                strike(*fault);
            }
        })
        .build()
        .await
        .unwrap()
}

/// The victim's side: this very test, run in a process of its own.
#[test]
fn a_victim_calls_once() {
    let Ok(order) = std::env::var("COUNTERSIGN_VICTIM") else { return };
    let order: serde_json::Value = serde_json::from_str(&order).unwrap();
    let text = |name: &str| order[name].as_str().unwrap().to_owned();
    let fault = match order["fault"].as_str().unwrap() {
        "Kill" => Fault::Kill,
        "Stop" => Fault::Stop,
        _ => Fault::Random,
    };
    let fault = (fault != Fault::Random).then(|| (text("step"), fault));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = engine(Path::new(&text("database")), fault.clone()).await;
        let bench = Bench { effects: text("effects").into(), fault };
        let caller = engine.on_behalf_of(Actor::automation("crash"), bench);
        println!("calling");
        let _ = std::io::stdout().flush();
        let outcome =
            caller.invoke(text("capability"), json!({"name": text("name")})).idempotency_key(text("name")).await;
        println!("ended {}", serde_json::to_string(&outcome).unwrap());
        engine.shutdown(Duration::from_secs(5)).await;
    });
}

struct Victim {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Victim {
    fn start(order: &serde_json::Value) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::a_victim_calls_once", "--nocapture"])
            .env("COUNTERSIGN_VICTIM", order.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines }
    }

    /// Waits for a line that contains one of these; false if the process ended without.
    fn says(&self, words: &[&str]) -> bool {
        loop {
            match self.lines.recv_timeout(Duration::from_mins(1)) {
                Ok(line) if words.iter().any(|it| line.contains(it)) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    fn signal(&self, signal: &str) {
        let _ = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
    }
}

struct Round {
    number: usize,
    capability: &'static str,
    step: &'static str,
    fault: Fault,
}

impl Round {
    fn new(number: usize) -> Self {
        let capability = if number.is_multiple_of(3) { "effects.again" } else { "effects.once" };
        let fault = match number % 4 {
            0 | 2 => Fault::Kill,
            1 => Fault::Stop,
            _ => Fault::Random,
        };
        Self { number, capability, step: STEPS[(number / 4) % STEPS.len()], fault }
    }

    fn name(&self) -> String {
        format!("round-{}", self.number)
    }

    /// Lets the victim meet its fault; blocking.
    fn strike(&self, database: &Path, effects: &Path) {
        let order = json!({"database": database, "effects": effects, "capability": self.capability,
            "step": self.step, "fault": format!("{:?}", self.fault), "name": self.name()});
        let mut victim = Victim::start(&order);
        assert!(victim.says(&["calling"]), "{}: the victim did not start", self.name());
        match self.fault {
            Fault::Kill => assert!(victim.says(&["struck", "ended"]), "{}: no fault", self.name()),
            Fault::Random => {
                std::thread::sleep(Duration::from_micros((self.number as u64 * 7919) % 12_000));
                victim.signal("-KILL");
            }
            Fault::Stop => {
                assert!(victim.says(&["struck"]), "{}: no fault", self.name());
                std::thread::sleep(LEASE + Duration::from_millis(700));
                victim.signal("-CONT");
                victim.says(&["ended"]);
            }
        }
        let _ = victim.child.wait();
    }
}

/// Repeats the call until it has an answer that will not change.
async fn survive(engine: &Engine<Bench>, effects: &Path, round: &Round) -> String {
    let bench = Bench { effects: effects.to_owned(), fault: None };
    let caller = engine.on_behalf_of(Actor::automation("crash"), bench);
    for _ in 0..200 {
        let input = json!({"name": round.name()});
        let outcome = caller.invoke(round.capability, input).idempotency_key(round.name()).await;
        match &outcome {
            Outcome::Completed { .. } => return "completed".into(),
            Outcome::Failed { error, .. } | Outcome::Cancelled { error, .. } => match error.code.as_str() {
                "IDEMPOTENCY_IN_PROGRESS" | "UNAVAILABLE" | "AUDIT_UNAVAILABLE" | "CANCELLED" => {}
                code => return code.into(),
            },
            Outcome::ApprovalRequired { .. } => return "approval_required".into(),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    "no answer".into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exe_10_killed_and_stopped_processes_never_cause_two_effects_or_lose_a_record() {
    let rounds = std::env::var("COUNTERSIGN_CRASH_ROUNDS").ok().and_then(|it| it.parse().ok()).unwrap_or(60);
    let place = tempfile::tempdir().unwrap();
    let (database, effects) = (place.path().join("crash.db"), place.path().join("effects"));
    let survivor = engine(&database, None).await;
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = Vec::new();
    for _ in 0..8 {
        let (database, effects, survivor, next) =
            (database.clone(), effects.clone(), survivor.clone(), Arc::clone(&next));
        workers.push(tokio::spawn(async move {
            let mut answers = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= rounds {
                    return answers;
                }
                let round = Round::new(number);
                let (db, file) = (database.clone(), effects.clone());
                let round = tokio::task::spawn_blocking(move || {
                    round.strike(&db, &file);
                    round
                });
                let round = round.await.unwrap();
                let answer = survive(&survivor, &effects, &round).await;
                answers.push((round, answer));
            }
        }));
    }
    let mut answers = Vec::new();
    for worker in workers {
        answers.extend(worker.await.unwrap());
    }
    tokio::time::sleep(LEASE + Duration::from_secs(1)).await; // the last dead are swept
    survivor.shutdown(Duration::from_secs(10)).await;
    let events = stored_events(&database).await;
    assert_eq!(answers.len(), rounds);
    judge(&answers, &effects, &events);
}

fn judge(answers: &[(Round, String)], effects: &Path, events: &[(i64, AuditEvent)]) {
    let lines = std::fs::read_to_string(effects).unwrap_or_default();
    let mut effects: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in lines.lines() {
        let (name, execution) = line.split_once(' ').unwrap();
        effects.entry(name).or_default().push(execution);
    }
    let started: BTreeSet<&str> = executions(events, |it| matches!(it, EventKind::Started { .. }));
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, event) in events.iter().filter(|(_, it)| it.kind.is_terminal()) {
        *ends.entry(event.envelope.execution_id.as_ref().unwrap()).or_default() += 1;
    }
    let mut tally: BTreeMap<String, usize> = BTreeMap::new();
    for (round, answer) in answers {
        let name = round.name();
        let what = format!("{name} ({} {:?} at {}): {answer}", round.capability, round.fault, round.step);
        let happened = effects.get(&*name).map_or(&[][..], |it| it);
        if round.capability == "effects.once" {
            assert!(happened.len() <= 1, "{what}: two effects: {happened:?}");
            assert!(matches!(&**answer, "completed" | "OUTCOME_UNKNOWN"), "{what}: an answer of another sort");
            assert!(answer != "completed" || happened.len() == 1, "{what}: completed without an effect");
        } else {
            assert_eq!(answer, "completed", "{what}: an idempotent write is taken over");
            assert!(!happened.is_empty(), "{what}: completed without an effect");
        }
        assert!(happened.iter().all(|it| started.contains(it)), "{what}: an effect without a record");
        *tally.entry(format!("{} {answer}", round.capability)).or_default() += 1;
    }
    for execution in &started {
        assert_eq!(ends.get(execution), Some(&1), "execution {execution} has not exactly one end");
    }
    let seqs: Vec<i64> = events.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(seqs, (1..=i64::try_from(events.len()).unwrap()).collect::<Vec<_>>(), "seq has gaps");
    println!("{} rounds, {} executions, {tally:?}", answers.len(), started.len());
}

fn executions(events: &[(i64, AuditEvent)], which: impl Fn(&EventKind) -> bool) -> BTreeSet<&str> {
    let of = events.iter().filter(|(_, it)| which(&it.kind));
    of.filter_map(|(_, it)| it.envelope.execution_id.as_ref().map(countersign::ExecutionId::as_str)).collect()
}
