//! Flags of the commands about the log as evidence.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};

use crate::Timestamp;
use crate::cli::args::{Format, time};
use crate::export::Form;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum LogCommand {
    /// Sign everything that is on record by now, and hand the checkpoint to the anchors
    Checkpoint(Checkpoint),
    /// Check that nothing on record was changed since it was signed
    #[command(after_help = VERIFY_HELP)]
    Verify(Verify),
    /// Prove that an event is in the log, to somebody who has neither
    Prove(Prove),
    /// Send the log elsewhere: in order, at least once, going on where it was
    #[command(after_help = EXPORT_HELP)]
    Export(Box<Export>),
    /// Let old events leave the database for an archive that still verifies
    #[command(after_help = RETAIN_HELP)]
    Retain(Box<Retain>),
    /// The key that checkpoints are signed with
    Key(Key),
}

const VERIFY_HELP: &str = "\
Without --export and --proof it is a database that is checked. What is found has a place and a kind: edited, missing,
inserted, swapped, tail (the log ends too early), column, ends, tree, checkpoint, anchor, signature.
Exit codes: 0 nothing is wrong, 1 something is, 5 could not look.";

const EXPORT_HELP: &str = "\
A file goes on where it ends. With --cursor the database knows how far the other side is: it moves when a file is on the
disk, or a receiver answered 2xx. What is not taken holds up what comes behind it, and `audit export status` says why.
Beside a file of the form ndjson there are FILE.checkpoints and FILE.pub, for `audit verify --export FILE`.
Batches for a receiver are signed as in Standard Webhooks, with the secret that the variable `CSGN_EXPORT_SECRET` holds.
Exit codes: 0 everything went out, 1 something did not, 5 could not begin.";

const RETAIN_HELP: &str = "\
Events leave up to the last checkpoint before which all of them are old enough and nothing needs one: no export that is
behind, no request that may still be decided or run, no execution whose end is not known, no notification that is due.
Nothing is deleted before it is in the archive, log and archive verify, and an event says so; whatever ends the command,
the same one goes on. The archive is what `audit export` writes, with FILE.checkpoints and FILE.pub beside it; it goes on
where it ends, so that one file can have all that ever leaves. Keep it: `audit verify --archive FILE` reads it.
Exit codes: 0 done, or nothing is old enough; 1 the log does not verify, or something holds what is old enough; 5 could not.";

/// Which database.
#[derive(Debug, Args)]
pub(super) struct Db {
    /// The database
    #[arg(long, value_name = "URL", default_value = "sqlite:countersign.db")]
    pub(super) db: String,
}

/// Which private key.
#[derive(Debug, Args)]
pub(super) struct Private {
    /// The file of the private key (default: the key that the variable `CSGN_AUDIT_KEY` holds, else `log.key`)
    #[arg(long, value_name = "FILE")]
    pub(super) key: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Checkpoint {
    #[command(flatten)]
    pub(super) db: Db,
    #[command(flatten)]
    pub(super) private: Private,
    /// A file that the checkpoint is appended to (default: the database's path with `.checkpoints`)
    #[arg(long = "anchor", value_name = "FILE")]
    pub(super) anchors: Vec<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Verify {
    #[command(flatten)]
    pub(super) db: Db,
    /// Instead of a database: an export, one line `{"event":..,"leaf":"..","seq":..}` an event, or `-`
    #[arg(long, value_name = "FILE", conflicts_with = "proof")]
    pub(super) export: Option<PathBuf>,
    /// Instead of a database: the proof of one event
    #[arg(long, value_name = "FILE")]
    pub(super) proof: Option<PathBuf>,
    /// With --proof: the event's bytes (default: those in the proof)
    #[arg(long, value_name = "FILE", requires = "proof")]
    pub(super) entry: Option<PathBuf>,
    /// A public key that is trusted, or a file of such. Without one, signatures are not checked
    #[arg(long = "key", value_name = "KEY|FILE")]
    pub(super) keys: Vec<String>,
    /// Statements of rotation, which lead from a trusted key to its successors
    #[arg(long, value_name = "FILE", requires = "keys")]
    pub(super) rotations: Vec<PathBuf>,
    /// Checkpoints that you have kept
    #[arg(long, value_name = "FILE")]
    pub(super) checkpoints: Vec<PathBuf>,
    /// What an anchor has kept (default with a database: its path with `.checkpoints`, if that is there)
    #[arg(long = "anchor", value_name = "FILE")]
    pub(super) anchors: Vec<PathBuf>,
    /// With a database: an archive of events that left it. With any, they are all to be in one
    #[arg(long = "archive", value_name = "FILE", conflicts_with_all = ["export", "proof"])]
    pub(super) archives: Vec<PathBuf>,
    /// Only what came after this: a checkpoint (with a database), or what --save wrote
    #[arg(long, value_name = "FILE")]
    pub(super) from: Option<PathBuf>,
    /// If nothing is wrong, write what the next --from needs
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Prove {
    /// The event's number
    #[arg(value_parser = clap::value_parser!(i64).range(1..))]
    pub(super) seq: i64,
    #[command(flatten)]
    pub(super) db: Db,
    /// The archive that has the event, if it has left the database
    #[arg(long, value_name = "FILE")]
    pub(super) archive: Option<PathBuf>,
    /// Where to (default: standard output)
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(group(ArgGroup::new("age").args(["before", "keep"]).required(true)))]
pub(in crate::cli) struct Retain {
    #[command(subcommand)]
    pub(super) command: Option<RetainCommand>,
    #[command(flatten)]
    pub(super) db: Db,
    /// Events from before this day or instant leave, UTC
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) before: Option<Timestamp>,
    /// Events that are older leave: `365d`, at least `1d`
    #[arg(long, value_name = "DURATION", value_parser = age)]
    pub(super) keep: Option<Duration>,
    /// The file that they go to: a new one, or one that has what left last
    #[arg(long, value_name = "FILE")]
    pub(super) archive: Option<PathBuf>,
    /// The log's public key, or a file of it (default: `log.key.pub`, if that is there)
    #[arg(long, value_name = "KEY|FILE")]
    pub(super) key: Option<String>,
    /// Only say what would leave, and what holds the rest
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) format: Format,
}

#[derive(Debug, Subcommand)]
pub(super) enum RetainCommand {
    /// Which archive has what
    Status {
        #[command(flatten)]
        db: Db,
        #[command(flatten)]
        format: Format,
    },
}

fn age(text: &str) -> Result<Duration, String> {
    crate::duration::parse(text).ok_or_else(|| "it is a number and a unit, like `365d`".to_owned())
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct Export {
    #[command(subcommand)]
    pub(super) command: Option<ExportCommand>,
    #[command(flatten)]
    pub(super) db: Db,
    /// What events look like: ndjson, cloudevents (1.0), ocsf (1.8.0, API Activity) or otel (OpenTelemetry logs, OTLP in JSON)
    #[arg(long = "format", value_name = "FORM", default_value = "ndjson", value_parser = form)]
    pub(super) form: Form,
    /// Where to: a file, `-` for standard output, or the URL of a receiver: https, or http to this machine
    #[arg(long, value_name = "FILE|-|URL", default_value = "-")]
    pub(super) out: String,
    /// Keep in the database how far this export is, and go on from there
    #[arg(long, value_name = "NAME", value_parser = cursor)]
    pub(super) cursor: Option<String>,
    /// Only events behind this number, or from this time on, `2026-06-01T12:00:00Z` or `2026-06-01`; a cursor that is there
    /// knows better
    #[arg(long, value_name = "SEQ|TIME", value_parser = point)]
    pub(super) after: Option<Point>,
    /// Only events up to this number, or before this time
    #[arg(long, value_name = "SEQ|TIME", value_parser = point)]
    pub(super) until: Option<Point>,
    /// Go on until Ctrl-C
    #[arg(short, long, conflicts_with = "until")]
    pub(super) follow: bool,
    /// How many events at once
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(super) batch: u16,
    /// How often a receiver is tried that takes nothing; with --follow for ever
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(super) attempts: u32,
    /// A file with the secret for a receiver, `whsec_..`
    #[arg(long, value_name = "FILE")]
    pub(super) secret_file: Option<PathBuf>,
    /// Where events are from, as `source` of CloudEvents
    #[arg(long, value_name = "URI", default_value = "urn:countersign", value_parser = source)]
    pub(super) source: String,
    /// The public key for beside a file, or a file of it (default: `log.key.pub`, if that is there)
    #[arg(long, value_name = "KEY|FILE")]
    pub(super) key: Option<String>,
    #[command(flatten)]
    pub(super) format: Format,
}

#[derive(Debug, Subcommand)]
pub(super) enum ExportCommand {
    /// How far each cursor is, and what holds it up
    Status {
        #[command(flatten)]
        db: Db,
        #[command(flatten)]
        format: Format,
    },
    /// Forget a cursor
    Forget {
        /// Its name
        name: String,
        #[command(flatten)]
        db: Db,
        #[command(flatten)]
        format: Format,
    },
}

/// Where in the log.
#[derive(Clone, Copy, Debug)]
pub(super) enum Point {
    Seq(i64),
    Time(Timestamp),
}

fn point(text: &str) -> Result<Point, String> {
    if !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit()) {
        return text.parse().map(Point::Seq).map_err(|_| "there are never so many events".to_owned());
    }
    time(text).map(Point::Time).map_err(|it| format!("{it}, or the number of an event"))
}

fn form(text: &str) -> Result<Form, String> {
    let found = Form::ALL.into_iter().find(|it| it.as_str() == text);
    found.ok_or_else(|| "it is ndjson, cloudevents, ocsf or otel".to_owned())
}

fn cursor(text: &str) -> Result<String, String> {
    let legal = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || matches!(it, b'_' | b'-');
    let is_fit = (1..=64).contains(&text.len()) && text.bytes().all(legal);
    is_fit.then(|| text.to_owned()).ok_or_else(|| "it is 1 to 64 of a-z, 0-9, `_` and `-`".to_owned())
}

fn source(text: &str) -> Result<String, String> {
    let is_fit = (1..=512).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_graphic());
    is_fit.then(|| text.to_owned()).ok_or_else(|| "it is a URI".to_owned())
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Key {
    #[command(subcommand)]
    pub(in crate::cli) command: KeyCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum KeyCommand {
    /// Make one, with its public key in a file beside it
    New(KeyNew),
    /// The public key, in the forms that there are of it
    Show(KeyShow),
    /// Another key from now on; old checkpoints stay good
    Rotate(KeyShow),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct KeyNew {
    /// The log's name: by convention where it is served, without `https://`, `audit.example.com/v1/audit/log`
    #[arg(long, value_name = "NAME")]
    pub(super) origin: String,
    /// The file to make; the public key goes to the same path with `.pub`
    #[arg(long, value_name = "FILE", default_value = "log.key")]
    pub(super) out: PathBuf,
    #[command(flatten)]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct KeyShow {
    #[command(flatten)]
    pub(super) private: Private,
    #[command(flatten)]
    pub(in crate::cli) format: Format,
}
