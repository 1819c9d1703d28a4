//! `policy prove`: the statements beside the policies.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::open::registry;
use super::super::screen::{Answer, ERROR, GOOD, HINT, STRONG, WARNING, plain, table};
use super::args::Prove;
use super::plural;
use super::set::{loaded, world};
use crate::demo;
use crate::policy::{Solver, SourceFile};
use crate::workbench::{Proved, Statements, files as files_beside};

pub(super) fn run(args: &Prove) -> Result<Answer, Failure> {
    let world = world(registry()?, &[])?;
    let set = loaded(args.dir.as_deref(), &world.registry)?;
    let policies = args.dir.as_deref().unwrap_or(Path::new("."));
    let statements = Statements::read(&files(args.dir.as_deref())?, policies, &world, &set);
    let statements = statements.map_err(Failure::of_statements)?;
    let solver = Solver { executable: args.solver.clone(), limit: Duration::from_secs(args.limit) };
    let answers = statements.prove(&set, &world, &solver).map_err(|cause| {
        let next =
            "install the solver cvc5 (`apt-get install cvc5`), or say where it is: `--solver PATH`, or `CVC5=PATH`";
        Failure::could_not_run(format!("nothing can be proved: {cause}"), next)
    })?;
    Ok(answer(&answers, args.dir.as_deref()))
}

fn files(directory: Option<&Path>) -> Result<Vec<SourceFile>, Failure> {
    match directory {
        Some(directory) => files_beside(directory, "invariants").map_err(Failure::of_statements),
        None => {
            Ok(demo::POLICY_INVARIANTS.map(|(name, text)| SourceFile { name: name.into(), text: text.into() }).into())
        }
    }
}

fn answer(answers: &[Proved], directory: Option<&Path>) -> Answer {
    let (all, open) = (answers.len(), answers.iter().filter(|it| it.outcome != "proved").count());
    let json = json!({"ok": open == 0, "proved": all - open, "notProved": open, "statements": answers});
    let rows: Vec<_> = answers.iter().map(row).collect();
    let mut text = table(&["statement", "outcome", "environments"], &rows);
    text.extend(answers.iter().map(|it| details(it, directory)));
    let (exit, end) = if open == 0 {
        (Exit::Done, format!("{GOOD}ok{GOOD:#}: {all} statement{} proved\n", plural(all)))
    } else {
        (Exit::Failed, format!("{ERROR}failed{ERROR:#}: {open} of {all} statement{} not proved\n", plural(all)))
    };
    Answer::new(exit, &json, text + &end)
}

fn row(it: &Proved) -> Vec<String> {
    let place = format!("{}:{} {}", it.file, it.line, it.name);
    vec![place, it.outcome.into(), it.environments.to_string()]
}

/// What of a statement that is not proved is to be known.
fn details(it: &Proved, directory: Option<&Path>) -> String {
    if it.outcome == "proved" {
        return String::new();
    }
    let mut text = format!("\n{STRONG}{}{STRONG:#} is {}\n", plain(&it.name), it.outcome);
    if let Some(found) = &it.counterexample {
        let named = it.call.as_ref().map(ToString::to_string);
        let shown = named.unwrap_or_else(|| json!(found).to_string());
        let _ = writeln!(text, "  {}", plain(&shown)); // into a String: cannot fail, as below
    }
    if let Some(note) = &it.note {
        let _ = writeln!(text, "  {WARNING}note{WARNING:#}: {}", plain(note));
    }
    if it.call.is_some() {
        let of = directory.map(|it| format!(" --policies {}", it.display())).unwrap_or_default();
        let next = format!("put this call into a file, and see why: `countersign policy explain --file FILE{of}`");
        let _ = writeln!(text, "  {HINT}next:{HINT:#} {}", plain(&next));
    }
    text + "\n"
}
