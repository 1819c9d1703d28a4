//! The active policy set: proposals, what was published, copies.

use std::time::Duration;

use super::super::op::{Activate, Activated, Active};
use super::super::{SealError, sql};
use super::{Bench, bench};
use crate::audit::EventKind;

impl Bench {
    fn published(&self, hash: &str, under: i64) -> Activate {
        let done =
            EventKind::ManagementDone { action: "publish".into(), count: None, approval_id: None, execution_id: None };
        let events = vec![self.event(&self.ids.execution(), done)];
        Activate { proposed: false, under: Some(under), events, ..self.activate(hash) }
    }

    async fn activated(&self, activate: Activate) -> Activated {
        self.store.activate(activate).await.unwrap()
    }
}

fn done(generation: i64, changed: bool) -> Activated {
    Activated::Done { generation, changed }
}

fn kept(hash: &str, generation: i64) -> Activated {
    Activated::Kept(Active { hash: hash.into(), generation })
}

#[tokio::test]
async fn what_was_published_stays_until_files_say_something_new() {
    let bench = bench().await;
    assert_eq!(bench.activated(bench.activate("a")).await, done(1, true));
    assert_eq!(bench.activated(bench.published("p", 1)).await, done(2, true));
    assert_eq!(bench.activated(bench.activate("a")).await, kept("p", 2), "the same files as before");
    let compiled_anew = Activate { hash: "p2".into(), said: "p".into(), ..bench.published("p2", 2) };
    assert_eq!(bench.activated(compiled_anew).await, done(3, true));
    assert_eq!(bench.activated(bench.activate("a")).await, kept("p2", 3));
    assert_eq!(bench.activated(bench.activate("b")).await, done(4, true), "other files");
    assert_eq!(bench.activated(bench.activate("a")).await, done(5, true), "and others again");
    let for_others = Activate { said: "a".into(), ..bench.activate("a2") };
    assert_eq!(bench.activated(for_others).await, done(6, true), "the same files under another schema");
    bench.check().await;
}

#[tokio::test]
async fn what_was_allowed_under_another_set_is_not_done() {
    let bench = bench().await;
    bench.activated(bench.activate("a")).await;
    assert_eq!(bench.activated(bench.published("p", 1)).await, done(2, true));
    assert_eq!(bench.activated(bench.published("q", 1)).await, kept("p", 2));
    assert_eq!(bench.activated(bench.published("p", 1)).await, kept("p", 2), "even if it is active");
    assert_eq!(bench.activated(bench.published("p", 2)).await, done(2, false));
    let trail = ["policy.loaded", "policy.loaded", "management.done", "management.done"];
    assert_eq!(bench.trail().await, trail, "done is on record with what was done, and only then");
}

#[tokio::test]
async fn an_event_says_what_changed_only_if_it_was_compared_with_the_set_before_it() {
    let bench = bench().await;
    bench.activated(bench.activate("a")).await;
    bench.activated(Activate { compared: Some("a".into()), ..bench.activate("b") }).await;
    bench.activated(Activate { compared: Some("a".into()), ..bench.activate("c") }).await;
    let loaded = bench.store.readers().loaded(2).await.unwrap();
    assert!(loaded[0].contains(r#""generation":3"#) && !loaded[0].contains("changes"), "{loaded:?}");
    assert!(loaded[1].contains(r#""previousHash":"a""#) && loaded[1].contains(r#""changes":{}"#), "{loaded:?}");
}

#[tokio::test]
async fn copies_are_kept_once_and_the_last_hundred_of_them() {
    let bench = bench().await;
    let empty = Activate { files: [].into(), ..bench.activate("empty") };
    bench.activated(empty).await;
    assert_eq!(bench.store.copy("empty").await, Ok(Some(Ok(vec![]))));
    assert_eq!(bench.store.copy("never").await, Ok(None));
    for n in 0..99 {
        bench.activated(bench.activate(&format!("set-{n:02}"))).await;
    }
    let other_layout = Activate { files: [("x.cedar".into(), "// x".into())].into(), ..bench.activate("set-00") };
    bench.activated(other_layout).await;
    let file = ("set-00.cedar".to_owned(), "// set-00".to_owned());
    assert_eq!(bench.store.copy("set-00").await, Ok(Some(Ok(vec![file]))), "the first copy stays");
    bench.activated(bench.activate("one-more")).await;
    assert_eq!(bench.store.copy("empty").await, Ok(None), "the oldest goes");
    bench.activated(bench.activate("and-another")).await;
    assert_eq!(bench.store.copy("set-01").await, Ok(None));
    assert!(bench.store.copy("set-00").await.unwrap().is_some(), "it was active again since");
    assert_eq!(bench.number("SELECT COUNT(*) FROM policy_set").await, 100);
    assert_eq!(bench.number("SELECT COUNT(*) FROM policy_file").await, 100);
    assert_eq!(bench.store.copies("set-0", 2).await.unwrap(), ["set-00", "set-09"]);
    assert_eq!(bench.store.copies("%", 9).await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_copy_that_is_not_the_one_that_was_written_is_not_believed() {
    let bench = bench().await;
    for changed in [
        "UPDATE policy_file SET text = '// b' WHERE name = 'a.cedar'",
        "UPDATE policy_file SET name = 'b.cedar' WHERE name = 'a.cedar'",
        "INSERT INTO policy_file SELECT hash, 'b.cedar', '' FROM policy_set",
        "DELETE FROM policy_file",
        "UPDATE policy_set SET said = 'b'",
        "UPDATE policy_set SET seal = NULL",
        "UPDATE policy_set SET seal = (SELECT value FROM setting WHERE name = 'key_check')",
    ] {
        let bench = super::bench().await;
        bench.activated(bench.activate("a")).await;
        assert!(matches!(bench.store.copy("a").await, Ok(Some(Ok(_)))));
        bench.tampers(changed).await;
        assert_eq!(bench.store.copy("a").await, Ok(Some(Err(SealError))), "{changed}");
    }
    bench.activated(bench.activate("a")).await;
    bench.activated(bench.activate("b")).await;
    bench
        .tampers(
            "UPDATE policy_file SET hash = 'x' WHERE hash = 'a'; UPDATE policy_file SET hash = 'a' WHERE hash = 'b'",
        )
        .await;
    assert_eq!(bench.store.copy("a").await, Ok(Some(Err(SealError))), "another set's copy");
}

#[tokio::test]
async fn copies_of_an_older_version_are_believed_once() {
    let bench = bench().await;
    bench.activated(bench.activate("a")).await;
    bench.store.close(Duration::ZERO).await;
    bench.tampers("UPDATE policy_set SET seal = NULL; DELETE FROM setting WHERE name = 'policy_copies'").await;
    let upgraded = bench.another().await;
    assert!(matches!(upgraded.store.copy("a").await, Ok(Some(Ok(_)))));
    bench.tampers("UPDATE policy_set SET seal = NULL").await;
    let later = bench.another().await;
    assert_eq!(later.store.copy("a").await, Ok(Some(Err(SealError))));
}

#[tokio::test]
async fn a_set_with_a_text_that_no_database_takes_is_refused_alone() {
    let bench = bench().await;
    let nul = Activate { files: [("a.cedar".into(), "// \0".into())].into(), ..bench.activate("a") };
    assert!(bench.store.activate(nul).await.is_err());
    assert_eq!(bench.store.active().await, Ok(None));
}

#[tokio::test]
async fn the_history_is_read_without_the_rest_of_the_log() {
    use sqlx::ConnectOptions as _;
    let bench = bench().await;
    let mut link = super::options(&bench.dir.path().join("store.db")).connect().await.unwrap();
    let plan = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", sql::LOADED));
    let steps: Vec<(i64, i64, i64, String)> = sqlx::query_as(plan).bind(1).bind(9).fetch_all(&mut link).await.unwrap();
    assert!(steps.iter().any(|it| it.3.contains("USING INDEX audit_event_policy")), "{steps:?}");
}
