//! Flags of the commands about the log as evidence.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::args::Format;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum LogCommand {
    /// Sign everything that is on record by now, and hand the checkpoint to the anchors
    Checkpoint(Checkpoint),
    /// Check that nothing on record was changed since it was signed
    #[command(after_help = VERIFY_HELP)]
    Verify(Verify),
    /// Prove that an event is in the log, to somebody who has neither
    Prove(Prove),
    /// The key that checkpoints are signed with
    Key(Key),
}

const VERIFY_HELP: &str = "\
Without --export and --proof it is a database that is checked. What is found has a place and a kind: edited, missing,
inserted, swapped, tail (the log ends too early), column, ends, tree, checkpoint, anchor, signature.
Exit codes: 0 nothing is wrong, 1 something is, 5 could not look.";

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
    /// Where to (default: standard output)
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) format: Format,
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
