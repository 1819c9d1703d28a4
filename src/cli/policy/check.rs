//! `policy check`: everything that loading checks.

use serde_json::json;

use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::open::{registry, source};
use super::super::screen::{Answer, GOOD};
use super::args::Check;
use super::plural;
use super::problem::render;
use crate::policy::{self, PolicySet};
use crate::{PolicyProblem, Severity};

pub(super) fn run(args: &Check) -> Result<Answer, Failure> {
    let source = source(args.dir.as_deref())?;
    Ok(match policy::load(&source, &registry()?) {
        Ok((set, problems)) => loaded(&set, &problems, args.deny_warnings),
        Err(problems) => {
            let fatal = problems.iter().filter(|it| it.is_fatal()).count();
            let text = format!("{}{fatal} problem{}: this set would not load\n", shown(&problems), plural(fatal));
            Answer::new(Exit::Invalid, &json!({"ok": false, "hash": null, "problems": problems}), text)
        }
    })
}

fn loaded(set: &PolicySet, problems: &[PolicyProblem], deny_warnings: bool) -> Answer {
    let warnings = problems.iter().filter(|it| it.severity == Severity::Warning).count();
    let is_denied = deny_warnings && warnings > 0;
    let exit = if is_denied { Exit::Invalid } else { Exit::Done };
    let files = set.files();
    let verdict = if is_denied {
        format!("{warnings} warning{}: this set would load, and warnings are denied\n", plural(warnings))
    } else {
        format!("{GOOD}ok{GOOD:#}: {files} file{}, {}\n", plural(files), &**set.hash())
    };
    let json = json!({"ok": !is_denied, "hash": &**set.hash(), "problems": problems});
    Answer::new(exit, &json, shown(problems) + &verdict)
}

fn shown(problems: &[PolicyProblem]) -> String {
    problems.iter().map(render).collect()
}
