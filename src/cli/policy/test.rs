//! `policy test`: the cases beside the policies.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;

use serde_json::json;

use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::open::registry;
use super::super::screen::{Answer, ERROR, GOOD, WARNING, plain, table};
use super::args::Test;
use super::plural;
use super::set::{loaded, world};
use crate::demo;
use crate::policy::SourceFile;
use crate::workbench::{CaseResult, Coverage, Report, Suite, files as files_beside, junit};

/// Where a report of `JUnit` says that it is one: within so many bytes.
const HEAD: u64 = 4096;

pub(super) fn run(args: &Test) -> Result<Answer, Failure> {
    let world = world(registry()?, &[])?;
    let set = loaded(args.dir.as_deref(), &world.registry)?;
    let files = files(args.dir.as_deref())?;
    let suite = Suite::read(&files, &world, &set).map_err(Failure::of_cases)?;
    let report = suite.run(&set);
    if let Some(path) = &args.junit {
        if !may_replace(path) {
            let cause = format!("`{}` is there, and no report that this command could replace", path.display());
            return Err(Failure::could_not_run(cause, "name another file, or remove that one: `--junit report.xml`"));
        }
        std::fs::write(path, junit(&report)).map_err(|error| {
            let cause = format!("the report `{}` cannot be written: {error}", path.display());
            Failure::could_not_run(cause, "name a file in a directory that exists: `--junit report.xml`")
        })?;
    }
    Ok(answer(&report))
}

/// Whether nothing is lost: nothing is there, nothing is in it, or a report is. A device or a pipe holds nothing.
fn may_replace(path: &Path) -> bool {
    if !std::fs::metadata(path).is_ok_and(|it| it.is_file()) {
        return true;
    }
    let mut head = Vec::new();
    let is_read = std::fs::File::open(path).and_then(|it| it.take(HEAD).read_to_end(&mut head)).is_ok();
    let head = String::from_utf8_lossy(&head);
    is_read && (head.is_empty() || (head.trim_start().starts_with('<') && head.contains("<testsuite")))
}

/// The cases of a directory, or the demo's own.
fn files(directory: Option<&Path>) -> Result<Vec<SourceFile>, Failure> {
    match directory {
        Some(directory) => files_beside(directory, "tests").map_err(Failure::of_cases),
        None => Ok(demo::POLICY_TESTS.map(|(name, text)| SourceFile { name: name.into(), text: text.into() }).into()),
    }
}

fn answer(report: &Report) -> Answer {
    let (all, failed) = (report.cases.len(), report.failed());
    let json = json!({
        "ok": failed == 0,
        "passed": all - failed,
        "failed": failed,
        "cases": report.cases,
        "coverage": report.coverage,
    });
    let files = report.cases.iter().map(|it| &it.file).collect::<BTreeSet<_>>().len();
    let text = if failed == 0 {
        format!("{GOOD}ok{GOOD:#}: {all} case{} in {files} file{}\n", plural(all), plural(files))
    } else {
        let rows: Vec<_> = report.cases.iter().filter(|it| !it.passed).map(row).collect();
        let table = table(&["case", "expected", "got", "policies"], &rows);
        format!("{table}{ERROR}failed{ERROR:#}: {failed} of {all} case{}\n", plural(all))
    };
    let exit = if failed == 0 { Exit::Done } else { Exit::Failed };
    Answer::new(exit, &json, text + &covered(&report.coverage))
}

fn row(case: &CaseResult) -> Vec<String> {
    let by = |policies: Vec<&str>| if policies.is_empty() { "none".to_owned() } else { policies.join(", ") };
    let expected_by = case.expected_policies.as_ref().map(|it| by(it.iter().map(String::as_str).collect()));
    let expected = match expected_by {
        Some(policies) => format!("{} by {policies}", case.expected),
        None => case.expected.clone(),
    };
    let policies = by(case.policies.iter().map(String::as_str).collect());
    vec![format!("{}:{} {}", case.file, case.line, case.name), expected, case.got.clone(), policies]
}

fn covered(coverage: &Coverage) -> String {
    let (all, missed) = (coverage.policies, &coverage.unexercised);
    let mut text = format!("{} of {all} polic{} exercised\n", all - missed.len(), if all == 1 { "y" } else { "ies" });
    text.extend(missed.iter().map(|it| {
        let (file, id) = (plain(&it.file), plain(&it.id));
        format!("{file}:{}: {WARNING}note{WARNING:#}: no case exercises `{id}`\n", it.line)
    }));
    text
}
