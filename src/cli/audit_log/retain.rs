//! `audit retain`: old events leave for an archive; which archive has what.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::args::{Retain, RetainCommand};
use super::files::{beside, database, read_text};
use super::verify::Bar;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::open::{LEASE, Records, store};
use crate::cli::screen::{Answer, HINT, facts, table};
use crate::cli::user::issuer;
use crate::clock::{Clock, Timestamp};
use crate::export::{ExportError, SinkError};
use crate::retention::{self, Archive, ArchiveError, Plan, RetentionError};
use crate::store::op::Need;
use crate::store::{Detachment, LogReader, Store, StoreError};
use crate::verify::Given;

/// What a failure says has happened by then.
const NOTHING: &str = "nothing has left";
const PERHAPS: &str = "whether it may leave is not known: `audit retain status` says so";

/// Events of the last day stay: the calls that they are of may be on their way.
const YOUNGEST_US: i64 = 24 * 3_600_000_000;

pub(super) async fn run(args: Retain) -> Result<Answer, Failure> {
    if let Some(RetainCommand::Status { db, .. }) = &args.command {
        let records = Records::open(&db.db).await?;
        let told = status(&records.readers().log()).await;
        records.close().await;
        return told;
    }
    let path = database(&args.db.db)?;
    let before = before(&args)?;
    if args.dry_run {
        let records = Records::open(&args.db.db).await?;
        let plan = Plan::make(&records.readers().log(), before).await;
        records.close().await;
        return Ok(planned(&plan.map_err(|it| unavailable(&it))?));
    }
    let Some(archive) = &args.archive else {
        let next = "name the file that they go to: `--archive FILE`; or only look: `--dry-run`";
        return Err(Failure::could_not_run("events leave for an archive, and there is none", next));
    };
    if archive.to_str().is_none() {
        return Err(Failure::could_not_run("the archive's name is no text", "name it so that it can be written down"));
    }
    let trust = Trust::of(&args, &path)?;
    let store = store(path.clone()).await?;
    let done = retain(&store, &path, &trust, before, archive).await;
    store.close(LEASE).await;
    done
}

/// Events before this instant are old enough.
fn before(args: &Retain) -> Result<Timestamp, Failure> {
    let now = Clock::System.now();
    let kept = args.keep.map(|it| Timestamp(now.0.saturating_sub(i64::try_from(it.as_micros()).unwrap_or(i64::MAX))));
    let before = args.before.or(kept).unwrap_or(Timestamp(i64::MIN));
    if before.0 > now.0.saturating_sub(YOUNGEST_US) {
        let next = "keep at least a day: `--keep 1d`, or an earlier `--before`";
        return Err(Failure::could_not_run("events of the last day stay: calls that they are of may still run", next));
    }
    Ok(before)
}

/// By what the log is checked before anything leaves.
struct Trust {
    keys: Given,
    /// With what the log's own anchor has.
    log: Given,
    public: String,
}

impl Trust {
    fn of(args: &Retain, database: &Path) -> Result<Self, Failure> {
        let next = "name the log's public key, or its file: `--key log.key.pub`";
        let public = match &args.key {
            Some(key) if Given::new().keys(key).is_ok() => format!("{key}\n"),
            Some(key) => read_text(Path::new(key))?,
            None if Path::new("log.key.pub").is_file() => read_text(Path::new("log.key.pub"))?,
            None => {
                let cause = "nothing leaves unless what is signed was checked, and there is no public key";
                return Err(Failure::could_not_run(cause, next));
            }
        };
        let keys = Given::new().keys(&public);
        let keys = keys.map_err(|it| Failure::could_not_run(format!("the public key: {it}"), next))?;
        let mut log = keys.clone();
        let anchor = beside(database, ".checkpoints");
        if anchor.is_file() {
            log = log.anchor(&anchor.display().to_string(), &read_text(&anchor)?);
        }
        Ok(Self { keys, log, public })
    }
}

async fn retain(
    store: &Store,
    path: &Path,
    trust: &Trust,
    before: Timestamp,
    archive: &Path,
) -> Result<Answer, Failure> {
    let log = store.log();
    let mut deleted = finish(store, path, trust).await?;
    let plan = Plan::make(&log, before).await.map_err(|it| unavailable(&it))?;
    if plan.is_empty() {
        let json = json!({"detached": null, "deleted": deleted, "old": plan.old, "needed": needs(&plan.needed)});
        let exit = if plan.old > plan.after { Exit::Failed } else { Exit::Done };
        let went =
            if deleted > 0 { format!("{deleted} rows of an ended command are deleted.\n") } else { String::new() };
        return Ok(Answer::new(exit, &json, went + &why_nothing(&plan)));
    }
    let written = Archive::write(&log, path, &plan, archive, &trust.public).await;
    let written = written.map_err(|it| RetentionError::Archive(archive.display().to_string(), it));
    let written = written.map_err(|it| failed(&it, NOTHING))?;
    let (first, mut archives) = retention::going_too(&log, &plan).await.map_err(|it| unavailable(&it))?;
    archives.retain(|it| it != written.path());
    are_there(&archives, "the archive before this one")?;
    archives.push(written.path().to_owned());
    let checked = check(path, &archives, trust, (first, plan.through)).await;
    let checked = checked.and_then(|()| retention::check_alone(&written, &trust.keys, plan.through));
    checked.map_err(|it| failed(&it, NOTHING))?;
    let done = retention::detach(store, &plan, &written, issuer()).await;
    done.map_err(|it| failed(&it, if matches!(it, RetentionError::Store(_)) { PERHAPS } else { NOTHING }))?;
    deleted += purge(store).await?;
    let json = json!({
        "detached": {"from": plan.after + 1, "through": plan.through}, "archive": written.place(),
        "digest": written.digest(), "deleted": deleted, "old": plan.old, "needed": needs(&plan.needed),
    });
    let rows = [
        ("detached", format!("{} to {}", plan.after + 1, plan.through)),
        ("archive", written.place()),
        ("its SHA-256", written.digest().to_owned()),
        ("rows deleted", deleted.to_string()),
    ];
    let mut text = facts(&rows);
    if plan.through < plan.old {
        text.push_str(&why_not_more(&plan));
    }
    Ok(Answer::new(Exit::Done, &json, text))
}

/// What an earlier command began: its archives are looked at again before any more goes.
async fn finish(store: &Store, path: &Path, trust: &Trust) -> Result<u64, Failure> {
    let unfinished = retention::unfinished(&store.log()).await.map_err(|it| unavailable(&it))?;
    let Some((first, through, archives)) = unfinished else { return Ok(0) };
    are_there(&archives, "an earlier command was ended, and its archive")?;
    let checked = check(path, &archives, trust, (first, through)).await;
    checked.map_err(|it| failed(&it, "nothing more has left"))?;
    purge(store).await
}

/// What has rows that are to go must be looked at before they do.
fn are_there(archives: &[PathBuf], which: &str) -> Result<(), Failure> {
    match archives.iter().find(|it| !it.is_file()) {
        None => Ok(()),
        Some(missing) => {
            let cause = format!("{which} `{}` is not there; nothing more has left", missing.display());
            Err(Failure::could_not_run(cause, "put it back where it was, for as long as this takes"))
        }
    }
}

async fn check(path: &Path, archives: &[PathBuf], trust: &Trust, part: (i64, i64)) -> Result<(), RetentionError> {
    let bar = Bar::new();
    let done = retention::check(path, archives, &trust.log, part, &mut |done, all| bar.show(done, all)).await;
    bar.clear();
    done
}

async fn purge(store: &Store) -> Result<u64, Failure> {
    let bar = Bar::new();
    let done = retention::purge(store, &mut |done, all| bar.show(done, all)).await;
    bar.clear();
    done.map_err(|it| {
        let cause =
            format!("the log cannot be had: {it}; what is to go has left, and some of its rows are still there");
        Failure::could_not_run(cause, "see to the database, then do it again: it goes on from there")
    })
}

/// What it came to by then: `left` says that.
fn failed(error: &RetentionError, left: &str) -> Failure {
    let next = match error {
        RetentionError::Unverified(report) => {
            let first = report.findings.first().map(|it| format!("{} {}", it.seq, it.kind)).unwrap_or_default();
            let cause = format!("{error}, beginning with {first}; {left}");
            return Failure::ending(Exit::Failed, cause, "see all of it: `countersign audit verify --archive FILE`");
        }
        RetentionError::Store(_)
        | RetentionError::Archive(_, ArchiveError::Store(_) | ArchiveError::Export(ExportError::Store(_))) => {
            "see to the database, then do it again: it goes on from there"
        }
        RetentionError::Archive(_, ArchiveError::Sink(SinkError::Io(_)) | ArchiveError::Io(_))
        | RetentionError::Io(_) => "see to the file and the space on its disk, then do it again: it goes on from there",
        RetentionError::Archive(..) => "name another file: `--archive FILE`",
        RetentionError::Uncovered => "look into it: `countersign audit verify --archive FILE`",
        RetentionError::Verify(_) => "see to the files that you named, then do it again",
        RetentionError::Overtaken | RetentionError::Needed(_) => "do it again",
    };
    let cause = match std::error::Error::source(error) {
        Some(source) if !error.to_string().ends_with(&source.to_string()) => format!("{error}: {source}"),
        Some(_) | None => error.to_string(),
    };
    Failure::could_not_run(format!("{cause}; {left}"), next)
}

fn planned(plan: &Plan) -> Answer {
    let detached = (!plan.is_empty()).then(|| json!({"from": plan.after + 1, "through": plan.through}));
    let json = json!({"detached": detached, "old": plan.old, "needed": needs(&plan.needed), "dry_run": true});
    if plan.is_empty() {
        return Answer::new(Exit::Done, &json, why_nothing(plan));
    }
    let mut text = format!("Events {} to {} would leave.\n", plan.after + 1, plan.through);
    if plan.through < plan.old {
        text.push_str(&why_not_more(plan));
    }
    Answer::new(Exit::Done, &json, text)
}

fn why_nothing(plan: &Plan) -> String {
    if plan.old <= plan.after {
        return "No events are old enough.\n".into();
    }
    format!("Nothing leaves.\n{}", why_not_more(plan))
}

/// What holds events that are old enough.
fn why_not_more(plan: &Plan) -> String {
    let old = plan.old;
    if plan.needed.is_empty() {
        return format!(
            "{HINT}events up to {old} are old enough:{HINT:#} no checkpoint ends between {} and there; from the next one \
             on they can leave\n",
            plan.through + 1
        );
    }
    let row = |it: &Need| vec![(it.seq + 1).to_string(), it.kind.clone(), it.name.clone(), remedy(&it.kind).into()];
    let rows: Vec<_> = plan.needed.iter().map(row).collect();
    format!("{HINT}events up to {old} are old enough, and needed by:{HINT:#}\n")
        + &table(&["from", "kind", "name", "next"], &rows)
}

fn remedy(kind: &str) -> &'static str {
    match kind {
        "export" => "export on, or `audit export forget NAME`",
        "approval" => "it is decided, run or expires",
        "execution" => "`executions resolve ID`",
        _ => "`notifications list`",
    }
}

fn needs(all: &[Need]) -> Vec<serde_json::Value> {
    all.iter().map(|it| json!({"kind": it.kind, "name": it.name, "from": it.seq + 1})).collect()
}

async fn status(log: &LogReader) -> Result<Answer, Failure> {
    let parts = log.detachments().await.map_err(|it| unavailable(&it))?;
    if parts.is_empty() {
        return Ok(Answer::list(&parts, "All events are in the database.\n"));
    }
    let row = |it: &Detachment| {
        vec![format!("{}..{}", it.from, it.through), it.archive.clone(), it.at.to_string(), it.digest.clone()]
    };
    let rows: Vec<_> = parts.iter().map(row).collect();
    let mut text = table(&["events", "archive", "since", "its SHA-256 then"], &rows);
    if retention::unfinished(log).await.map_err(|it| unavailable(&it))?.is_some() {
        text.push_str("Some of them are still in the database, too: the next `audit retain` deletes them.\n");
    }
    Ok(Answer::list(&parts, text))
}

fn unavailable(error: &StoreError) -> Failure {
    Failure::could_not_run(format!("the log cannot be had: {error}"), "see to the database, then do it again")
}
