//! `policy schema`: what a call looks like to policies.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::open::{registry, source};
use super::super::screen::{Answer, GOOD, HINT, WARNING, plain, print_error};
use super::args::Schema;
use crate::policy::{self, Kept, SCHEMA_FILE, SchemaFile};

pub(super) fn run(args: &Schema) -> Result<Answer, Failure> {
    let source = source(args.policies.as_deref())?;
    let schema = policy::schema(&source, &registry()?).map_err(Failure::of_policies)?;
    match args.policies.as_deref().filter(|_| args.write) {
        Some(directory) => write(directory, &schema),
        None => Ok(print(args, &schema)),
    }
}

fn print(args: &Schema, schema: &SchemaFile) -> Answer {
    if schema.kept == Kept::Stale && !args.format.json {
        let next = "the same command with `--write`";
        // beside the schema, which may go to a file or another tool
        print_error(&format!(
            "{WARNING}warning:{WARNING:#} `{SCHEMA_FILE}` says something else\n  {HINT}next:{HINT:#} {next}\n"
        ));
    }
    let json = json!({"file": schema.kept, "unseen": schema.unseen, "schema": schema.text});
    Answer::new(Exit::Done, &json, &*schema.text)
}

fn write(directory: &Path, schema: &SchemaFile) -> Result<Answer, Failure> {
    let path = directory.join(SCHEMA_FILE);
    let shown = path.display().to_string();
    let is_written = schema.kept != Kept::Current;
    if is_written {
        fs::write(&path, &schema.text).map_err(|error| {
            Failure::could_not_run(
                format!("`{shown}` cannot be written: {error}"),
                "make the directory one that may be",
            )
        })?;
    }
    let file = if is_written { "written" } else { "current" };
    let said = if is_written { "written" } else { "was up to date" };
    let json = json!({"file": file, "unseen": schema.unseen, "schema": schema.text});
    Ok(Answer::new(Exit::Done, &json, format!("{GOOD}ok{GOOD:#}: `{}` {said}\n", plain(&shown))))
}
