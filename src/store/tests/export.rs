//! Cursors only move on, for one export at a time; comments go, and the event that says so comes.

use super::super::op::{Comment, Erase, Export};
use super::{bench, decide};
use crate::approval::Verdict::Approve;

fn moved(from: i64, to: i64) -> Export {
    Export::Move { name: "c".into(), from, to, sink: "stdout".into() }
}

fn begin(seq: i64) -> Export {
    Export::Begin { name: "c".into(), format: "ndjson", sink: "stdout".into(), seq }
}

#[tokio::test]
async fn of_two_that_move_a_cursor_one_does_and_none_moves_it_back() {
    let bench = bench().await;
    let other = bench.another().await;
    assert!(!bench.store.export(moved(0, 2)).await.unwrap(), "there is none");
    for seq in [0, 7] {
        assert!(bench.store.export(begin(seq)).await.unwrap());
    }
    let (one, two) = tokio::join!(bench.store.export(moved(0, 2)), other.store.export(moved(0, 3)));
    let done = [one.unwrap(), two.unwrap()];
    assert_eq!(done.iter().filter(|it| **it).count(), 1, "{done:?}");
    let at = bench.store.log().cursors(Some("c")).await.unwrap()[0].seq;
    assert!(bench.store.export(moved(at, at - 1)).await.is_err());
    let stop = Export::Stop { name: "c".into(), from: at, failure: "status 500".into() };
    assert!(bench.store.export(stop.clone()).await.unwrap() && bench.store.export(stop).await.unwrap());
    let told = bench.store.log().cursors(None).await.unwrap();
    assert_eq!((told.len(), told[0].failures, told[0].failure.as_deref()), (1, 2, Some("status 500")));
    assert!(bench.store.export(moved(at, at + 1)).await.unwrap());
    assert_eq!(bench.store.log().cursors(None).await.unwrap()[0].failure, None);
    assert!(bench.store.export(Export::Drop { name: "c".into() }).await.unwrap());
    assert_eq!(bench.store.log().cursors(None).await.unwrap(), []);
}

#[tokio::test]
async fn a_lost_reply_or_a_lost_commit_erases_once_and_says_so_once() {
    for lose in [false, true] {
        let bench = bench().await;
        let approval = bench.file(None, &[("manager", 1)]).await;
        let comment = Comment { text: "because".into(), salt: "salt".into(), digest: "sha256:d".into() };
        let decision = super::Decide { comment: Some(comment), ..decide(&approval, "priya", "manager", Approve) };
        bench.store.decide(decision).await.unwrap();
        let found = bench.store.log().comments(None, ("", ""), 9).await.unwrap();
        assert_eq!(found, [(approval.to_string(), "[null,\"priya\"]".to_owned())]);
        if lose {
            bench.probe.lose_commits(1);
        } else {
            bench.probe.lose_replies(1);
        }
        let erase = Erase { comments: found, by: "cli:ada".into() };
        assert_eq!(bench.store.erase(erase.clone()).await.unwrap(), 1);
        assert_eq!(bench.store.erase(erase).await.unwrap(), 0);
        let told: Vec<(String,)> =
            bench.rows("SELECT body FROM audit_event WHERE type = 'capability.comments_erased'").await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].0.contains(r#""by":"cli:ada","count":1}"#), "{told:?}");
    }
}
