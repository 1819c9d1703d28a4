//! Whoever holds the database file changes the copy of a policy set.

use countersign::testing::Place;
use countersign::{ErrorCode, PolicyRefusal};

use super::{ALLOW_ALL, App, NO_SEARCH, PUBLISHERS, admin, everything_but, process, search, texts, told, with};
use crate::ledger::Forger;

#[tokio::test]
async fn a_changed_copy_of_the_active_set_is_active_nowhere() {
    let place = Place::new().unwrap();
    let (one, two) = (process(with(""), &place).await, process(with(""), &place).await);
    let first = one.engine().policy_hash();
    let published = admin(&one).publish(with(NO_SEARCH)).await.unwrap().hash;
    let mut forger = Forger::at(&place.database()).await;
    forger
        .does("UPDATE policy_file SET text = REPLACE(text, '@id(\"no-search\") forbid', '@id(\"no-search\") permit')")
        .await;
    assert_eq!(search(&two).await, "POLICY_FAILED", "it had to fetch the copy");
    assert_eq!(search(&one).await, "POLICY_DENIED", "it has the set itself");
    assert_eq!(admin(&one).rollback(&first).await.unwrap().hash, first, "another copy");
    let Err(PolicyRefusal::Refused(error)) = admin(&one).rollback(&published).await else { panic!("it went back") };
    assert_eq!(error.code, ErrorCode::PolicyFailed);
    assert_eq!(search(&one).await, "-");
}

#[tokio::test]
async fn a_changed_copy_is_not_carried_over_to_other_capabilities() {
    let place = Place::new().unwrap();
    let files = || texts(&format!("{ALLOW_ALL}{PUBLISHERS}"));
    let one = App::open(everything_but(&["messages.send"]).policies(files()), &place).await;
    admin(&one).publish(texts(&format!("{ALLOW_ALL}{PUBLISHERS}{NO_SEARCH}"))).await.unwrap();
    Forger::at(&place.database()).await.does("UPDATE policy_file SET text = REPLACE(text, 'no-search', 'none')").await;
    let other = everything_but(&["messages.send", "ping"]).policies(files()).sealing_key(countersign::testing::KEY);
    let error = other.database(format!("sqlite:{}", place.database().display())).build().await.err().unwrap();
    assert!(error.problems[0].what.ends_with("in the database is not the one that was written"), "{error}");
    let refused = told(&one).await.pop().unwrap();
    assert_eq!(refused[0], "policy.refused");
}
