//! `capabilities snapshot|check`: everything that is governed as a file, and what became of it since.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::json;

use super::application::governed;
use super::args::{Check, Drawn, Governing, Snapshot};
use super::exit::Exit;
use super::failure::Failure;
use super::screen::{Answer, GOOD, HINT, plain};
use super::settings;
use crate::Problem;
use crate::drift::Governance;

/// The most bytes of a snapshot: some ten thousand capabilities.
const MAX: u64 = 64 << 20;

pub(super) fn snapshot(args: &Snapshot) -> Result<Answer, Failure> {
    let text = now(&args.of)?.text();
    let Some(out) = &args.out else { return Ok(Answer::new(Exit::Done, &(), text)) };
    let shown = out.display().to_string();
    std::fs::write(out, &text).map_err(|error| {
        Failure::could_not_run(
            format!("`{shown}` cannot be written: {error}"),
            "name a file in a directory that is there",
        )
    })?;
    Ok(Answer::new(Exit::Done, &(), format!("{GOOD}written{GOOD:#} {}\n", plain(&shown))))
}

/// Everything that keeps it from looking ends in one way, whatever it is: a gate must not take it for "the same".
pub(super) fn check(args: &Check) -> Result<Answer, Failure> {
    compared(args).map_err(|it| it.and_end(Exit::CouldNotLook))
}

fn compared(args: &Check) -> Result<Answer, Failure> {
    let before = read(&args.snapshot)?;
    let drift = now(&args.of)?.since(&before);
    let exit = if drift.is_none() { Exit::Done } else { Exit::Failed };
    let file = args.snapshot.display().to_string();
    let text = match args.format {
        Drawn::Text if drift.is_none() => plain(&drift.text()),
        Drawn::Text => {
            let next = format!("countersign capabilities snapshot --out {file}");
            let next = format!("look at each; if all are meant: `{}`", plain(&next));
            format!("{}  {HINT}next:{HINT:#} {next}\n", plain(&drift.text()))
        }
        Drawn::Github => plain(&drift.github(&file)),
        Drawn::Md => drift.markdown(),
        Drawn::Json => String::new(),
    };
    let json = json!({"same": drift.is_none(), "counts": drift.counts(), "differences": drift.differences});
    Ok(Answer::new(exit, &json, text))
}

/// What this application governs as it is now.
fn now(of: &Governing) -> Result<Governance, Failure> {
    let config = settings::read(of.config.config.as_deref()).map_err(|it| settings::unfit(&it))?;
    let unfit = |problems: Vec<Problem>| {
        Failure::of_problems("what is governed cannot be read", &problems, "correct it, and look again")
    };
    let builder = governed(&config, of.policies.clone()).map_err(unfit)?;
    let (registry, set) = builder.governed().map_err(|it| unfit(it.problems))?;
    Governance::of(&registry, &set).map_err(|it| Failure::could_not_run(it, "report it: the policies load"))
}

fn read(path: &Path) -> Result<Governance, Failure> {
    let shown = path.display().to_string();
    let next = format!("write one: `countersign capabilities snapshot --out {shown}`");
    let mut text = String::new();
    let read = File::open(path).and_then(|it| it.take(MAX).read_to_string(&mut text));
    read.map_err(|error| Failure::could_not_run(format!("`{shown}` cannot be read: {error}"), &*next))?;
    Governance::parse(&text).map_err(|error| Failure::could_not_run(format!("`{shown}`: {error}"), next))
}
