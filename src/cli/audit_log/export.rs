//! `audit export`: the log, sent elsewhere; how far each export is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::args::{Export, ExportCommand, Point};
use super::files::{database, read_text};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::interrupt::interrupted;
use crate::cli::open::{LEASE, store};
use crate::cli::screen::{Answer, ERROR, HINT, facts, table};
use crate::export::{self, Checkpoints, Entry, ExportError, Exporter, FileSink, Form, Sink, SinkError, Webhook};
use crate::notifications::{Keys, key};
use crate::secret::{Secret, SecretRef};
use crate::store::op::Export as Step;
use crate::store::{Cursor, LogReader, Store, StoreError};
use crate::verify::Given;

/// Holds the secret that batches are signed with.
const VARIABLE: &str = "CSGN_EXPORT_SECRET";

/// How often the log is looked at for more.
const POLL: Duration = Duration::from_millis(300);

/// The longest that a receiver is left alone.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

pub(super) async fn run(args: Export) -> Result<Answer, Failure> {
    match &args.command {
        Some(ExportCommand::Status { db, .. }) => status(&LogReader::open(&database(&db.db)?)).await,
        Some(ExportCommand::Forget { name, db, .. }) => forget(name, database(&db.db)?).await,
        None => {
            let path = database(&args.db.db)?;
            if export::is_of_database(&path, Path::new(&args.out)) {
                let cause = format!("`{}` belongs to the database itself", args.out);
                return Err(Failure::could_not_run(cause, "name another file: `--out FILE`"));
            }
            let sink = sink(&args)?;
            match args.cursor.clone() {
                None => export(&args, LogReader::open(&path), sink, None).await,
                Some(name) => {
                    let store = store(path).await?;
                    let done = export(&args, store.log(), sink, Some((&store, name))).await;
                    store.close(LEASE).await;
                    done
                }
            }
        }
    }
}

fn sink(args: &Export) -> Result<Sink, Failure> {
    if args.out == "-" {
        return Ok(Sink::Stream(Box::new(std::io::stdout())));
    }
    if !args.out.contains("://") {
        let path = Path::new(&args.out);
        return FileSink::open(path).map(Sink::File).map_err(|it| unfit(path, &it));
    }
    let webhook = Webhook::new(&args.out, Keys::new(vec![secret(args)?]));
    webhook.map(Sink::Webhook).ok_or_else(|| {
        let next = "write an https URL without a password; http goes to this machine only";
        Failure::could_not_run("this receiver gets nothing: its URL is neither https nor this machine", next)
    })
}

fn unfit(path: &Path, error: &SinkError) -> Failure {
    Failure::could_not_run(format!("`{}`: {error}", path.display()), "name another file: `--out FILE`")
}

#[expect(clippy::disallowed_methods, reason = "the environment is read by the command line only")]
fn secret(args: &Export) -> Result<Vec<u8>, Failure> {
    let next = "make one of 24 to 64 random bytes: `echo whsec_$(openssl rand -base64 32)`";
    let held = || std::env::var(VARIABLE).ok().filter(|it| !it.is_empty()).map(Secret::from);
    let secret = if let Some(path) = &args.secret_file {
        let found = SecretRef::File(path.clone()).resolve(Path::new(""), &|_| None);
        found.map_err(|it| Failure::could_not_run(it.to_string(), "name a file that has nothing but the secret"))?
    } else {
        held().ok_or_else(|| {
            let cause = format!("there is no secret for the receiver: neither `--secret-file` nor `{VARIABLE}`");
            Failure::could_not_run(cause, next)
        })?
    };
    key(&secret).ok_or_else(|| Failure::could_not_run("the secret is not `whsec_` and base64", next))
}

async fn export(
    args: &Export,
    log: LogReader,
    sink: Sink,
    cursor: Option<(&Store, String)>,
) -> Result<Answer, Failure> {
    let interruption = interrupted()?;
    let kept = match &cursor {
        Some((_, name)) => log.cursors(Some(name)).await.map_err(|it| unavailable(&it))?.pop(),
        None => None,
    };
    let (after, until) = bounds(args, &log).await.map_err(|it| unavailable(&it))?;
    let (at, is_new) = (begin(args, after, kept.as_ref())?, kept.is_none());
    let (source, portion) = (args.source.clone(), usize::from(args.batch));
    let mut exporter = Exporter { log, cursor: None, form: args.form, source, sink, at, until, portion };
    let end = file_end(&exporter).await?;
    let mut beside = None;
    if let Sink::File(file) = &mut exporter.sink {
        let opened = |file: &FileSink| Checkpoints::open(file.path(), at).map_err(SinkError::Io);
        let prepared = file.settle().and_then(|()| (args.form == Form::Ndjson).then(|| opened(file)).transpose());
        beside = prepared.map_err(|it| unfit(file.path(), &it))?;
    }
    if let Some((store, name)) = cursor.as_ref().filter(|_| is_new) {
        // A cursor that can go nowhere would keep everything from leaving for an archive.
        exporter.check(end.unwrap_or(at).max(at)).await.map_err(|it| broken(&it))?;
        let (format, sink) = (args.form.as_str(), exporter.sink.name());
        let step = Step::Begin { name: name.clone(), format, sink, seq: at };
        store.export(step).await.map_err(|it| unavailable(&it))?;
    }
    exporter.cursor = cursor;
    let public = beside_key(args, &exporter.sink)?;
    let mut sent = Sent { after: at, count: 0, checkpoints: 0, beside, public };
    let done = tokio::select! {
        done = follow(args, &mut exporter, end, &mut sent) => done,
        () = interruption => Ok(()),
    };
    told(args, &exporter, &sent, done)
}

/// Behind which event it is to begin, if that was said, and with which it ends. Events are not quite in the order of their
/// times: rather some too many than one too few.
async fn bounds(args: &Export, log: &LogReader) -> Result<(Option<i64>, i64), StoreError> {
    let after = match args.after {
        None => None,
        Some(Point::Seq(seq)) => Some(seq),
        Some(Point::Time(time)) => {
            let place = log.before_first_from(time).await?;
            // Of what has left some may be of that time, unless something that is there is older.
            Some(if place == log.gone().await? { 0 } else { place })
        }
    };
    let until = match args.until {
        None => i64::MAX,
        Some(Point::Seq(seq)) => seq,
        Some(Point::Time(time)) => log.last_before(time).await?,
    };
    Ok((after, until))
}

/// Behind which event it begins.
fn begin(args: &Export, after: Option<i64>, kept: Option<&Cursor>) -> Result<i64, Failure> {
    let Some(cursor) = kept else { return Ok(after.unwrap_or(0)) };
    if cursor.format != args.form.as_str() {
        let next = format!("go on with `--format {}`, or use another cursor", cursor.format);
        return Err(Failure::could_not_run(format!("the cursor `{}` is of another form", cursor.name), next));
    }
    if after.is_some_and(|it| it != cursor.seq) {
        let next = format!("leave `--after` out, or `countersign audit export forget {}`", cursor.name);
        return Err(Failure::could_not_run(format!("the cursor `{}` is at {}", cursor.name, cursor.seq), next));
    }
    Ok(cursor.seq)
}

/// Where a file ends, if it has anything: it must be a part of this log, and leave no gap.
async fn file_end(exporter: &Exporter<'_>) -> Result<Option<i64>, Failure> {
    let (Sink::File(file), form) = (&exporter.sink, exporter.form) else { return Ok(None) };
    let Some(last) = file.last(form).map_err(|it| unfit(file.path(), &it))? else { return Ok(None) };
    let rows = exporter.log.exported(last - 1, last, 1).await.map_err(|it| unavailable(&it))?;
    let entry = rows.into_iter().next().map(|(seq, body, leaf)| Entry { seq, body, leaf });
    let why = match entry {
        Some(entry) if file.ends_with(form, &entry, &exporter.source) => {
            if last >= exporter.at {
                return Ok(Some(last));
            }
            format!("it ends with event {last}, and the export goes on behind {}", exporter.at)
        }
        None if last <= exporter.log.detached().await.map_err(|it| unavailable(&it))? => {
            format!("it ends with event {last}, which has left the database since")
        }
        Some(_) | None => format!("it ends with an event {last} that is not this log's, or looks otherwise"),
    };
    Err(unfit(file.path(), &SinkError::Unfit(why)))
}

/// The public key for beside a file.
fn beside_key(args: &Export, sink: &Sink) -> Result<Option<PathBuf>, Failure> {
    let (Sink::File(file), Form::Ndjson) = (sink, args.form) else { return Ok(None) };
    let text = match &args.key {
        Some(key) if Given::new().keys(key).is_ok() => format!("{key}\n"),
        Some(key) => read_text(Path::new(key))?,
        None if Path::new("log.key.pub").is_file() => read_text(Path::new("log.key.pub"))?,
        None => return Ok(None),
    };
    if let Err(error) = Given::new().keys(&text) {
        return Err(Failure::could_not_run(format!("the public key: {error}"), "name the right one with `--key`"));
    }
    let written = export::beside(file.path(), ".pub", &text);
    written.map(Some).map_err(|it| unfit(file.path(), &SinkError::Io(it)))
}

/// What went out.
struct Sent {
    after: i64,
    count: u64,
    checkpoints: usize,
    /// Where those go.
    beside: Option<Checkpoints>,
    public: Option<PathBuf>,
}

/// Until everything went out, or for ever. What passes is tried again.
async fn follow(
    args: &Export,
    exporter: &mut Exporter<'_>,
    end: Option<i64>,
    sent: &mut Sent,
) -> Result<(), ExportError> {
    if let Some(end) = end.filter(|it| *it > exporter.at) {
        exporter.advance(end).await?; // a crash came between the file and the cursor
    }
    let mut failures = 0;
    loop {
        let before = exporter.at;
        let done = exporter.round().await;
        sent.count += u64::try_from(exporter.at - before).unwrap_or(0);
        if let Some(beside) = &mut sent.beside {
            sent.checkpoints += beside.follow(exporter.at, &exporter.log).await?;
        }
        let pause = match done {
            Ok(_) if args.follow => POLL,
            Ok(_) => return Ok(()),
            Err(ExportError::Sink(error)) if error.is_passing() => {
                failures = if exporter.at > before { 1 } else { failures + 1 };
                if failures >= args.attempts && !args.follow {
                    return Err(error.into());
                }
                tracing::warn!(cause = %error, "the receiver takes nothing; it is tried again");
                Duration::from_secs(1 << failures.min(9)).min(LONGEST_PAUSE)
            }
            Err(error) => return Err(error),
        };
        tokio::time::sleep(pause).await;
    }
}

fn told(args: &Export, exporter: &Exporter<'_>, sent: &Sent, done: Result<(), ExportError>) -> Result<Answer, Failure> {
    let is_stream = matches!(exporter.sink, Sink::Stream(_));
    let failure = match done {
        Ok(()) | Err(ExportError::Sink(SinkError::Gone)) if is_stream => return Ok(Answer::silent(Exit::Done)),
        Ok(()) => None,
        Err(error @ (ExportError::Store(_) | ExportError::Detached(_))) => return Err(broken(&error)),
        Err(error) => Some((error.to_string(), next(&error))),
    };
    let (sink, at) = (exporter.sink.name(), exporter.at);
    let mut json = json!({
        "format": args.form.as_str(), "sink": sink, "events": sent.count, "after": sent.after, "through": at,
        "checkpoints": sent.checkpoints,
    });
    if let Some((failure, next)) = failure {
        json["failure"] = json!(failure);
        let text = format!(
            "{ERROR}error:{ERROR:#} {sink}: {failure}; it has everything up to event {at}\n  {HINT}next:{HINT:#} {next}\n"
        );
        return Ok(Answer::new(Exit::Failed, &json, text).on_standard_error());
    }
    let mut rows = vec![("exported", sent.count.to_string()), ("to", sink), ("through event", at.to_string())];
    if let (Sink::File(_), Form::Ndjson) = (&exporter.sink, args.form) {
        rows.push(("checkpoints", sent.checkpoints.to_string()));
        rows.extend(sent.public.as_ref().map(|it| ("public key", it.display().to_string())));
    }
    Ok(Answer::new(Exit::Done, &json, facts(&rows)))
}

/// What can be done about it.
fn next(error: &ExportError) -> String {
    match error {
        ExportError::Detached(through) => format!(
            "begin behind them: `--after {through}`; `countersign audit retain status` says which archive has them"
        ),
        ExportError::Missing(_) | ExportError::NoEvent(_) => {
            "find out what became of it: `countersign audit verify`".into()
        }
        ExportError::Store(_) | ExportError::Moved | ExportError::Sink(_) => {
            "see to it, then export again: it goes on from there".into()
        }
    }
}

/// The log that is to go out cannot, or not from there.
fn broken(error: &ExportError) -> Failure {
    match error {
        ExportError::Store(error) => unavailable(error),
        error => Failure::could_not_run(error.to_string(), next(error)),
    }
}

async fn status(log: &LogReader) -> Result<Answer, Failure> {
    let cursors = log.cursors(None).await.map_err(|it| unavailable(&it))?;
    let (end, _) = log.heads().await.map_err(|it| unavailable(&it))?;
    if cursors.is_empty() {
        return Ok(Answer::list(
            &cursors,
            "There are no cursors: `countersign audit export --cursor NAME` makes one.\n",
        ));
    }
    let row = |it: &Cursor| {
        let behind = (end - it.seq).max(0).to_string();
        let held = it.failure.as_ref().map(|why| format!("{why} ({} times)", it.failures)).unwrap_or_default();
        vec![it.name.clone(), it.format.clone(), it.sink.clone(), it.seq.to_string(), behind, held]
    };
    let rows: Vec<_> = cursors.iter().map(row).collect();
    Ok(Answer::list(&cursors, table(&["cursor", "form", "to", "through", "behind", "held up by"], &rows)))
}

async fn forget(name: &str, path: PathBuf) -> Result<Answer, Failure> {
    let store = store(path).await?;
    let gone = store.export(Step::Drop { name: name.to_owned() }).await;
    store.close(LEASE).await;
    if gone.map_err(|it| unavailable(&it))? {
        return Ok(Answer::new(Exit::Done, &json!({"forgotten": name}), "The cursor is gone.\n"));
    }
    let next = "see which there are: `countersign audit export status`";
    Err(Failure::could_not_run(format!("there is no cursor `{name}`"), next))
}

fn unavailable(error: &StoreError) -> Failure {
    Failure::could_not_run(format!("the log cannot be had: {error}"), "see to the database, then export again")
}
