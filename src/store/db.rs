//! One connection, and how statements and their rows reach it: the one place that knows the dialect.
//!
//! A batch travels as ONE JSON parameter, so that the text, and with it the prepared statement, never changes with the
//! size of the batch. (sqlx binds `$n` in quadratic time on SQLite.)

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteRow, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, FromRow, SqlSafeStr as _, SqlStr};

use super::lock::{FileLock, Turn};
use super::sql::Sql;
use crate::clock::Clock;

/// How long a statement waits for tools that do not know the writer's file lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How old `{now}` may be when the first statement is through, in microseconds: else the transaction is done again.
const STALE_US: i64 = 1_000_000;

/// How many rows the driver's thread may be ahead: more than a batch has, so that it never waits to hand one over.
const ROWS_AHEAD: usize = 1024;

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
///
/// Each statement is handed to a thread of the driver, and that costs more than what a statement does. So BEGIN goes with
/// the first one, and two that belong together go together.
pub(super) struct Conn {
    link: SqliteConnection,
    lock: FileLock,
    texts: HashMap<(Opening, &'static str), SqlStr>,
    clock: Clock,
    opening: Opening,
    /// The store's clock (EXE-5), read when the transaction began.
    pub(super) now: i64,
}

/// Whether BEGIN is still to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Opening {
    Due,
    Done,
}

impl Conn {
    pub(super) async fn open(path: &Path, clock: Clock, turn: Turn) -> Result<Self, sqlx::Error> {
        let lock = FileLock::new(path, turn)?;
        let link = options(path).connect().await?;
        Ok(Self { link, lock, texts: HashMap::new(), clock, opening: Opening::Done, now: 0 })
    }

    /// Locks the file; the transaction is opened by the first statement. The time is read after waiting, not before.
    pub(super) async fn begin(&mut self) -> Result<(), sqlx::Error> {
        self.lock.acquire().await?;
        self.now = self.clock.now().0;
        self.opening = Opening::Due;
        Ok(())
    }

    /// COMMIT. After an error nobody knows (EXE-8).
    pub(super) async fn commit(&mut self) -> Result<(), sqlx::Error> {
        self.end("COMMIT").await
    }

    pub(super) async fn rollback(&mut self) -> Result<(), sqlx::Error> {
        self.end("ROLLBACK").await
    }

    async fn end(&mut self, word: &'static str) -> Result<(), sqlx::Error> {
        let done = match std::mem::replace(&mut self.opening, Opening::Done) {
            Opening::Due => Ok(()), // nothing was sent
            Opening::Done => self.link.execute(word).await.map(drop),
        };
        self.lock.release()?;
        done
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
        let text = self.text(sql, None);
        let query = sqlx::query_as(text).bind(self.now);
        let query = if sql.columns.is_empty() { query } else { query.bind(json(rows)) };
        self.fetch(query).await
    }

    /// Runs a statement that returns nothing of interest.
    pub(super) async fn run(&mut self, sql: Sql, rows: &[Row<'_>]) -> Result<(), sqlx::Error> {
        self.all::<(String,)>(sql, rows).await.map(drop)
    }

    /// Runs two statements over a batch each, one after the other, and reads what the first returns.
    pub(super) async fn both<T: Read>(
        &mut self,
        first: (Sql, &[Row<'_>]),
        second: (Sql, &[Row<'_>]),
    ) -> Result<Vec<T>, sqlx::Error> {
        let text = self.text(first.0, Some(second.0));
        self.fetch(sqlx::query_as(text).bind(self.now).bind(json(first.1)).bind(json(second.1))).await
    }

    async fn fetch<T: Read>(&mut self, query: Query<'_, T>) -> Result<Vec<T>, sqlx::Error> {
        let opens = std::mem::replace(&mut self.opening, Opening::Done) == Opening::Due;
        let rows = query.fetch_all(&mut self.link).await?;
        // A tool that does not know the file lock made BEGIN wait: `{now}` is long ago.
        if opens && self.clock.now().0.saturating_sub(self.now) > STALE_US {
            return Err(std::io::Error::other("another program kept the database locked").into());
        }
        Ok(rows)
    }

    /// The text of statements that go together, and of BEGIN if it is still to be sent.
    fn text(&mut self, first: Sql, second: Option<Sql>) -> SqlStr {
        let key = (self.opening, first.text);
        let text = self.texts.entry(key).or_insert_with(|| {
            let begin = if self.opening == Opening::Due { "BEGIN IMMEDIATE;" } else { "" };
            let mut text = format!("{begin}{}", expanded(first, 2));
            if let Some(second) = second {
                text = format!("{text};{}", expanded(second, 3));
            }
            sql_str(text)
        });
        text.clone()
    }
}

type Query<'q, T> = sqlx::query::QueryAs<'q, sqlx::Sqlite, T, SqliteArguments>;

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
        .row_buffer_size(ROWS_AHEAD)
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
    sql_str(expanded(sql, 2))
}

/// The batch is this parameter.
fn expanded(sql: Sql, parameter: u8) -> String {
    let mut rows = String::from("(SELECT ");
    for (i, kind) in sql.columns.chars().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        let (open, close) = match kind {
            'i' => ("CAST(", " AS BIGINT)"),
            'b' => ("CAST(", " AS BOOLEAN)"),
            _ => ("", ""),
        };
        let _ = write!(rows, "{comma}{open}r ->> {i}{close} AS column{}", i + 1); // into a String: cannot fail
    }
    // The limit keeps the row in one place: without it every column would print its row's text anew.
    let _ = write!(rows, " FROM (SELECT value AS r FROM json_each(${parameter}) LIMIT -1)) AS v");
    sql.text.replace("{rows}", &rows).replace("{now}", "$1")
}

fn sql_str(text: String) -> SqlStr {
    let text: Arc<str> = text.into(); // cheap to clone
    AssertSqlSafe(text).into_sql_str() // made of constants
}

/// A batch as the JSON parameter of a statement.
fn json(rows: &[Row<'_>]) -> String {
    if rows.is_empty() {
        return "[]".into();
    }
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
        insta::assert_snapshot!(expand(sql).as_str(), @"SELECT $1 FROM (SELECT r ->> 0 AS column1, CAST(r ->> 1 AS BIGINT) AS column2, CAST(r ->> 2 AS BOOLEAN) AS column3 FROM (SELECT value AS r FROM json_each($2) LIMIT -1)) AS v");
    }
}
