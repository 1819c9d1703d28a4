//! Load while the server dies: the binary is killed again and again under mixed calls and started on the same database.
//! Whatever it acknowledged is on record exactly once, and its memory stays flat.
//!
//! Each client repeats a call under its key until it has an answer that will not change. Some keys never get one that says
//! what happened: their execution died with its process, and `OUTCOME_UNKNOWN` is the truth. They are counted.
//!
//! | variable | default | what |
//! |---|---|---|
//! | `COUNTERSIGN_SOAK_SECONDS` | 8 | how long there is load; the full proof is 600 |
//! | `COUNTERSIGN_SOAK_KILL_SECONDS` | 2 | how long a server lives; in the full proof 30 |
//! | `COUNTERSIGN_SOAK_BINARY` | the one of this build | what is proved |
//! | `COUNTERSIGN_SOAK_PLACE` | a temporary directory | where the database is, and stays |
//!
//! Settling what the last kill left takes up to a lease and a sweep more.

mod client;
mod judge;
mod record;
mod server;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use client::{Book, Client};
use record::Record;
use server::{Memory, Serving};

/// Connections, each with a client of its own.
const CLIENTS: usize = 32;
/// Generations that meet their end under load, however slow the machine is.
const KILLS: usize = 2;
/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// By how much the later half may exceed the earlier half, in KiB.
const SLACK: u64 = 16 * 1024;
/// A generation with so many looks is judged by itself, too.
const LONG: usize = 40;
/// Nothing that is left over takes so long to be settled: a lease of 30 s, and sweeps.
const SETTLED: Duration = Duration::from_mins(3);

fn seconds(name: &str, default: u64) -> Duration {
    Duration::from_secs(std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(default))
}

/// One server's life.
struct Generation {
    idle: Memory,
    looks: Vec<Memory>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_is_on_record_exactly_once_however_often_the_server_is_killed() {
    let temporary = tempfile::tempdir().unwrap();
    let place = std::env::var_os("COUNTERSIGN_SOAK_PLACE").map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let length = seconds("COUNTERSIGN_SOAK_SECONDS", 8);
    let (announce, servers) = watch::channel(None);
    let (stop, stopped) = watch::channel(false);
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(Client::new(number, servers.clone()).run(stopped.clone()));
    }
    let (mut generations, last) = kill_again_and_again(&place, length, &announce).await;
    stop.send(true).unwrap();
    let mut book = Book::default();
    while let Some(done) = clients.join_next().await {
        book.add(done.unwrap());
    }
    record::settled(&place, SETTLED).await;
    let after = last.memory();
    generations.push(Generation { idle: last.idle, looks: Vec::new() });
    last.stop().await;
    server::verify(&place).await;
    let record = Record::read(&place).await;
    tell(&book, &record, &generations, after);
    assert_eq!(judge::faults(&book, &record), Vec::<String>::new());
    flat("generations", &generations.iter().filter_map(Generation::peak).collect::<Vec<_>>());
    for long in generations.iter().filter(|it| it.looks.len() >= LONG) {
        // Its first looks are at a server that warms up.
        flat("a generation", &long.looks[LONG / 4..].iter().map(|it| it.own).collect::<Vec<_>>());
    }
}

/// Until the time is up: starts a server, lets it live for a while, kills it. The last one lives.
async fn kill_again_and_again(
    place: &Path,
    length: Duration,
    announce: &watch::Sender<Option<std::net::SocketAddr>>,
) -> (Vec<Generation>, Serving) {
    let life = seconds("COUNTERSIGN_SOAK_KILL_SECONDS", 2);
    let until = Instant::now() + length;
    let mut generations = Vec::new();
    loop {
        let serving = Serving::start(place).await;
        announce.send(Some(serving.address)).unwrap();
        if Instant::now() >= until && generations.len() >= KILLS {
            return (generations, serving);
        }
        let (began, mut looks) = (Instant::now(), Vec::new());
        while began.elapsed() < life {
            tokio::time::sleep(LOOK.min(life.saturating_sub(began.elapsed()))).await;
            looks.push(serving.memory());
        }
        generations.push(Generation { idle: serving.idle, looks });
        serving.kill().await; // and nobody was told
        announce.send(None).unwrap();
    }
}

impl Generation {
    fn peak(&self) -> Option<u64> {
        self.looks.iter().map(|it| it.own).max()
    }
}

/// The later half of the figures is not above the earlier half.
fn flat(what: &str, figures: &[u64]) {
    let (early, late) = figures.split_at(figures.len() / 2);
    if let (Some(early), Some(late)) = (early.iter().max(), late.iter().max()) {
        assert!(*late <= early + SLACK, "memory grows over {what}, in KiB: {figures:?}");
    }
}

fn tell(book: &Book, record: &Record, generations: &[Generation], after: Memory) {
    let unknown = book.keys.values().filter(|it| it.iter().any(|said| said.output().is_none())).count();
    let repeats: usize = book.keys.values().map(|it| it.len() - 1).sum();
    let own: Vec<u64> = generations.iter().filter_map(Generation::peak).collect();
    let resident = generations.iter().flat_map(|it| &it.looks).map(|it| it.resident).max();
    println!(
        "{} kills, {} keys ({unknown} of unknown outcome, {repeats} repeats), {} reads, {} refusals, {} broken \
         connections, {} events {:?}",
        own.len(),
        book.keys.len(),
        book.reads.len(),
        book.refused.len(),
        book.broken,
        record.events,
        record.tally,
    );
    println!(
        "memory in KiB: idle {:?}, peak {resident:?}, own by generation {own:?}, after {after:?}",
        generations[0].idle
    );
}
