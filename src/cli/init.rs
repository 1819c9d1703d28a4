//! `init`: a configuration to begin with, commented, and policies that load. Overwrites nothing.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::args::Init;
use super::exit::Exit;
use super::failure::Failure;
use super::open::registry;
use super::screen::{Answer, GOOD, HINT, plain};
use crate::PolicySource;
use crate::config::DEFAULT_FILE;
use crate::policy::{self, SCHEMA_FILE};

const POLICY: &str = include_str!("init/starter.cedar");

/// What is written, without the schema, which is made of the policies and the capabilities.
const FILES: [(&str, &str); 3] = [
    (DEFAULT_FILE, include_str!("init/countersign.toml")),
    ("policies/starter.cedar", POLICY),
    ("policies/tests/starter.yaml", include_str!("init/starter.yaml")),
];

pub(super) fn run(args: &Init) -> Result<Answer, Failure> {
    let source = PolicySource::Files(vec![("starter.cedar".into(), POLICY.into())]);
    let schema = policy::schema(&source, &registry()?).map_err(Failure::of_policies)?;
    let schema_file = format!("policies/{SCHEMA_FILE}");
    let files = FILES.into_iter().chain([(&*schema_file, &*schema.text)]);
    let files: Vec<(PathBuf, &str)> = files.map(|(name, text)| (place(&args.dir, name), text)).collect();
    let taken: Vec<_> = files.iter().filter(|(path, _)| path.symlink_metadata().is_ok()).collect();
    if !taken.is_empty() {
        let names: Vec<_> = taken.iter().map(|(path, _)| format!("`{}`", path.display())).collect();
        let cause = format!("{} would be overwritten", names.join(", "));
        return Err(Failure::could_not_run(cause, "name another directory, or move it away: `countersign init DIR`"));
    }
    for (at, (path, text)) in files.iter().enumerate() {
        write(path, text).map_err(|error| {
            // All or nothing: what is left would be in the way the next time.
            for (written, _) in &files[..at] {
                let _ = fs::remove_file(written);
            }
            let cause = format!("`{}` cannot be written: {error}", path.display());
            Failure::could_not_run(cause, "name a directory that may be written: `countersign init DIR`")
        })?;
    }
    Ok(answer(&args.dir, &files))
}

/// Without a dot before what is here.
fn place(directory: &Path, name: &str) -> PathBuf {
    if directory == Path::new(".") { name.into() } else { directory.join(name) }
}

/// New, or not at all.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn answer(directory: &Path, files: &[(PathBuf, &str)]) -> Answer {
    let names: Vec<String> = files.iter().map(|(path, _)| path.display().to_string()).collect();
    let mut next: Vec<String> = [
        "countersign token new --id dana --role support --append countersign.toml",
        "countersign token new --id priya --role manager --human --append countersign.toml",
        "countersign doctor",
        "countersign serve",
    ]
    .map(str::to_owned)
    .into();
    if directory != Path::new(".") {
        next.insert(0, format!("cd {}", quoted(&directory.display().to_string())));
    }
    let json = json!({"written": names, "next": next});
    let mut text = String::new();
    // into a String: cannot fail
    for name in &names {
        let _ = writeln!(text, "{GOOD}written{GOOD:#} {}", plain(name));
    }
    let _ = writeln!(text, "{HINT}next:{HINT:#}");
    for step in &next {
        let _ = writeln!(text, "  {}", plain(step));
    }
    Answer::new(Exit::Done, &json, text)
}

/// As a shell takes it for one word.
fn quoted(text: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '/' | '.' | '_' | '-');
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
