//! One connection, and how statements and their rows reach it: the one place that knows the dialect.
//!
//! A batch travels as ONE JSON parameter, so that the text, and with it the prepared statement, never changes with the
//! size of the batch. (sqlx binds `$n` in quadratic time on SQLite.)

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, FromRow, SqlSafeStr as _, SqlStr};

use super::lock::FileLock;
use super::sql::Sql;
use crate::clock::Clock;

/// How long a statement waits for tools that do not know the writer's file lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// One value of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cell<'a> {
    Text(Option<&'a str>),
    Int(i64),
    Bool(bool),
}

macro_rules! cell {
    ($($from:ty, $it:ident => $cell:expr;)+) => {$(
        impl<'a> From<$from> for Cell<'a> {
            fn from($it: $from) -> Self {
                $cell
            }
        }
    )+};
}
cell! {
    &'a str, it => Self::Text(Some(it));
    &'a String, it => Self::Text(Some(it));
    &'a crate::ExecutionId, it => Self::Text(Some(it));
    &'a crate::ApprovalId, it => Self::Text(Some(it));
    Option<&'a str>, it => Self::Text(it);
    i64, it => Self::Int(it);
    bool, it => Self::Bool(it);
}

/// The cells of one row.
pub(super) type Row<'a> = Vec<Cell<'a>>;

/// A row of a batch from anything that is a cell.
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$($crate::store::db::Cell::from($cell)),*] };
}
pub(super) use row;

/// Single values of a statement without a batch.
macro_rules! values {
    ($($cell:expr),* $(,)?) => { [$($crate::store::db::Cell::from($cell)),*] };
}
pub(super) use values;

/// What a row of a result can be read into.
pub(super) trait Read: for<'r> FromRow<'r, SqliteRow> + Send + Unpin {}
impl<T: for<'r> FromRow<'r, SqliteRow> + Send + Unpin> Read for T {}

/// The writing connection. It holds the file lock while, and only while, a transaction is open.
pub(super) struct Conn {
    link: SqliteConnection,
    lock: FileLock,
    texts: HashMap<&'static str, SqlStr>,
    clock: Clock,
    /// The store's clock (EXE-5), read when the transaction began.
    pub(super) now: i64,
}

impl Conn {
    pub(super) async fn open(path: &Path, clock: Clock) -> Result<Self, sqlx::Error> {
        let lock = FileLock::new(path)?;
        let link = options(path).connect().await?;
        Ok(Self { link, lock, texts: HashMap::new(), clock, now: 0 })
    }

    /// Locks the file and opens a transaction. The time is read after waiting, not before.
    pub(super) async fn begin(&mut self) -> Result<(), sqlx::Error> {
        self.lock.acquire().await?;
        let done = self.link.execute("BEGIN IMMEDIATE").await;
        self.now = self.clock.now().0;
        if done.is_err() {
            self.lock.release()?;
        }
        done.map(drop)
    }

    /// COMMIT. After an error nobody knows (EXE-8).
    pub(super) async fn commit(&mut self) -> Result<(), sqlx::Error> {
        self.end("COMMIT").await
    }

    pub(super) async fn rollback(&mut self) -> Result<(), sqlx::Error> {
        self.end("ROLLBACK").await
    }

    async fn end(&mut self, word: &'static str) -> Result<(), sqlx::Error> {
        let done = self.link.execute(word).await;
        self.lock.release()?;
        done.map(drop)
    }

    /// Gives the connection up, whatever state it is in. What was not committed never will be.
    pub(super) async fn discard(self) {
        let _ = self.link.close_hard().await; // nothing can be done about it, and the next one waits its turn
    }

    pub(super) async fn close(self) -> Result<(), sqlx::Error> {
        self.link.close().await
    }

    /// Runs a statement over a batch and reads what it returns. An empty batch of a statement with columns does nothing.
    pub(super) async fn all<T: Read>(&mut self, sql: Sql, rows: &[Row<'_>]) -> Result<Vec<T>, sqlx::Error> {
        if rows.is_empty() && !sql.columns.is_empty() {
            return Ok(Vec::new());
        }
        let text = self.texts.entry(sql.text).or_insert_with(|| expand(sql)).clone();
        fetch(&mut self.link, text, self.now, sql, rows).await
    }

    /// Runs a statement that returns nothing of interest.
    pub(super) async fn run(&mut self, sql: Sql, rows: &[Row<'_>]) -> Result<(), sqlx::Error> {
        self.all::<(String,)>(sql, rows).await.map(drop)
    }
}

/// Runs an expanded statement over a batch.
pub(super) async fn fetch<T: Read>(
    link: &mut SqliteConnection,
    text: SqlStr,
    now: i64,
    sql: Sql,
    rows: &[Row<'_>],
) -> Result<Vec<T>, sqlx::Error> {
    let query = sqlx::query_as(text).bind(now);
    if sql.columns.is_empty() {
        return query.fetch_all(link).await;
    }
    query.bind(json(rows)).fetch_all(link).await
}

/// Runs a statement whose parameters are single values, from `$2` on.
pub(super) async fn query<T: Read>(
    link: &mut SqliteConnection,
    text: &'static str,
    now: i64,
    values: &[Cell<'_>],
) -> Result<Vec<T>, sqlx::Error> {
    let mut query = sqlx::query_as(expand(Sql { text, columns: "" })).bind(now);
    for value in values {
        query = match *value {
            Cell::Text(text) => query.bind(text),
            Cell::Int(number) => query.bind(number),
            Cell::Bool(flag) => query.bind(flag),
        };
    }
    query.fetch_all(link).await
}

/// How every connection to this file is set up (WAL is a property of the file, set by [`super::open`]).
pub(super) fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        .pragma("secure_delete", "ON")
        .pragma("journal_size_limit", "67108864")
        .disable_statement_logging()
}

/// The file beside the database with this ending.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// `{rows}` and `{now}` in SQLite's dialect.
pub(super) fn expand(sql: Sql) -> SqlStr {
    let mut rows = String::from("(SELECT ");
    for (i, kind) in sql.columns.chars().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        let (open, close) = match kind {
            'i' => ("CAST(", " AS BIGINT)"),
            'b' => ("CAST(", " AS BOOLEAN)"),
            _ => ("", ""),
        };
        let _ = write!(rows, "{comma}{open}value ->> {i}{close} AS column{}", i + 1); // into a String: cannot fail
    }
    rows.push_str(" FROM json_each($2)) AS v");
    let text: Arc<str> = sql.text.replace("{rows}", &rows).replace("{now}", "$1").into(); // cheap to clone
    AssertSqlSafe(text).into_sql_str() // made of constants
}

/// A batch as the JSON parameter of a statement.
fn json(rows: &[Row<'_>]) -> String {
    let mut out = Vec::with_capacity(rows.len() * 256 + 2);
    for (i, row) in rows.iter().enumerate() {
        out.extend_from_slice(if i == 0 { b"[[" } else { b"],[" });
        for (j, cell) in row.iter().enumerate() {
            if j > 0 {
                out.push(b',');
            }
            // Into memory, and of plain texts and numbers: cannot fail.
            let _ = match cell {
                Cell::Text(text) => serde_json::to_writer(&mut out, text),
                Cell::Int(number) => serde_json::to_writer(&mut out, number),
                Cell::Bool(flag) => serde_json::to_writer(&mut out, flag),
            };
        }
    }
    out.extend_from_slice(b"]]");
    String::from_utf8(out).unwrap_or_default() // JSON is UTF-8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_one_json_text() {
        let rows: Vec<Row<'_>> = vec![row!["a\"\n", None, 7, true], row!["ü", Some("x"), -1, false]];
        insta::assert_snapshot!(json(&rows), @r#"[["a\"\n",null,7,true],["ü","x",-1,false]]"#);
    }

    #[test]
    fn placeholders_become_the_dialect() {
        let sql = Sql { columns: "tib", text: "SELECT {now} FROM {rows}" };
        insta::assert_snapshot!(expand(sql).as_str(), @"SELECT $1 FROM (SELECT value ->> 0 AS column1, CAST(value ->> 1 AS BIGINT) AS column2, CAST(value ->> 2 AS BOOLEAN) AS column3 FROM json_each($2)) AS v");
    }
}
