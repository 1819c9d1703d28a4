//! Policy copies of an older version, which have no seal yet.

use std::collections::BTreeMap;

use sqlx::{Connection as _, SqliteConnection};

use super::super::seal::Key;

/// A file of a copy: hash, what the set says, name, text.
type FileRow = (String, String, Option<String>, Option<String>);

/// Once in the life of a database: what its copies say when it is upgraded is believed. From then on a copy without a
/// seal is a changed one.
pub(super) async fn seal(link: &mut SqliteConnection, key: &Key) -> Result<(), sqlx::Error> {
    let mut change = link.begin().await?;
    let done = "INSERT INTO setting (name, value) VALUES ('policy_copies', 'sealed') ON CONFLICT DO NOTHING";
    if sqlx::query(done).execute(&mut *change).await?.rows_affected() == 0 {
        return change.rollback().await;
    }
    let files = "SELECT p.hash, p.said, f.name, f.text FROM policy_set p LEFT JOIN policy_file f ON f.hash = p.hash";
    let files: Vec<FileRow> = sqlx::query_as(files).fetch_all(&mut *change).await?;
    let mut sets = BTreeMap::<(String, String), Vec<(String, String)>>::new();
    for (hash, said, name, text) in files {
        sets.entry((hash, said)).or_default().extend(name.zip(text));
    }
    for ((hash, said), files) in sets {
        let seal = key.copy(&hash, &said, &files);
        let put = sqlx::query("UPDATE policy_set SET seal = $1 WHERE hash = $2");
        put.bind(seal).bind(hash).execute(&mut *change).await?;
    }
    change.commit().await
}
