//! The tree over the log: one process at a time lets it grow, and it only grows.

use sqlx::{ConnectOptions as _, Executor as _};

use super::super::op::{Ledger, TileRow};
use super::{bench, options};
use crate::audit::EventKind;

fn grow(from: i64, to: i64) -> Ledger {
    let width = to;
    let hashes = "0".repeat(usize::try_from(width).unwrap() * 64);
    Ledger::Grow { from, to, tiles: vec![TileRow { level: 0, place: 0, width, hashes }] }
}

#[tokio::test]
async fn of_two_that_let_it_grow_at_once_one_does() {
    let bench = bench().await;
    let other = bench.another().await;
    let (one, two, three) =
        tokio::join!(bench.store.ledger(grow(0, 2)), bench.store.ledger(grow(0, 3)), other.store.ledger(grow(0, 4)));
    let done = [one.unwrap(), two.unwrap(), three.unwrap()];
    assert_eq!(done.iter().filter(|it| **it).count(), 1, "{done:?}");
    let (_, size) = bench.store.log().heads().await.unwrap();
    let tiles = bench.store.log().tiles(&[(0, 0), (1, 0)]).await.unwrap();
    assert_eq!(tiles.iter().map(|it| (it.0, it.1, it.2)).collect::<Vec<_>>(), [(0, 0, size)]);
}

#[tokio::test]
async fn a_lost_reply_or_a_lost_commit_leaves_the_tree_in_order() {
    let bench = bench().await;
    bench.probe.lose_commits(1);
    assert!(bench.store.ledger(grow(0, 2)).await.unwrap());
    bench.probe.lose_replies(1);
    // It was done, and nobody was told: whoever asks again is told that the tree is another one by now.
    assert!(!bench.store.ledger(grow(2, 3)).await.unwrap());
    assert_eq!(bench.store.log().heads().await.unwrap().1, 3);
    for size in [3, 3, 2] {
        let note = format!("note of {size}");
        assert!(bench.store.ledger(Ledger::Checkpoint { size, note }).await.unwrap());
    }
    assert_eq!(bench.store.log().last_checkpoint().await.unwrap(), Some((3, "note of 3".into())));
    assert_eq!(bench.store.log().checkpoints(2, 9).await.unwrap().len(), 1);
    for size in [2, 3, 2] {
        bench.store.ledger(Ledger::Anchored { anchor: "a".into(), size }).await.unwrap();
    }
    let log = bench.store.log();
    assert_eq!((log.anchored("a").await.unwrap(), log.anchored("b").await.unwrap()), (3, 0));
}

#[tokio::test]
async fn a_tree_that_grows_holds_up_no_call() {
    let bench = bench().await;
    let execution = bench.ids.execution();
    let event = || bench.event(&execution, EventKind::Completed { duration_us: 1, attempts: 1 });
    bench.store.append(vec![event()]).await.unwrap();
    let commits = bench.probe.commits();
    let mut later = event();
    later.envelope.execution_id = None;
    let (grown, appended) = tokio::join!(bench.store.ledger(grow(0, 1)), bench.store.append(vec![later]));
    assert!(grown.unwrap());
    appended.unwrap();
    assert_eq!(bench.probe.commits() - commits, 2, "a transaction each: neither waits for what the other locks");
    assert_eq!(bench.store.log().heads().await.unwrap(), (2, 1));
}

#[tokio::test]
async fn what_is_in_the_tree_stays_there() {
    let bench = bench().await;
    bench.store.ledger(grow(0, 2)).await.unwrap();
    bench.store.ledger(Ledger::Checkpoint { size: 2, note: "note".into() }).await.unwrap();
    let mut link = options(&bench.dir.path().join("store.db")).connect().await.unwrap();
    for text in [
        "UPDATE ledger_head SET size = 1",
        "DELETE FROM ledger_head",
        "UPDATE ledger_tile SET hashes = '11' || SUBSTR(hashes, 3)",
        "UPDATE ledger_tile SET hashes = SUBSTR(hashes, 1, 64), width = 1",
        "UPDATE ledger_tile SET place = 1",
        "DELETE FROM ledger_tile",
        "UPDATE ledger_checkpoint SET note = 'x'",
        "DELETE FROM ledger_checkpoint",
    ] {
        assert!(link.execute(text).await.is_err(), "{text}");
    }
}
