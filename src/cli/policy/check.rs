//! `policy check`: everything that loading checks.

use serde_json::json;

use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::open::{registry, source};
use super::super::screen::{Answer, GOOD};
use super::args::Check;
use super::plural;
use super::problem::render;
use crate::policy;

pub(super) fn run(args: &Check) -> Result<Answer, Failure> {
    let source = source(args.dir.as_deref())?;
    Ok(match policy::load(&source, &registry()?) {
        Ok((set, notes)) => {
            let shown: String = notes.iter().map(render).collect();
            let files = set.files();
            let text = format!("{shown}{GOOD}ok{GOOD:#}: {files} file{}, {}\n", plural(files), &**set.hash());
            Answer::new(Exit::Done, &json!({"ok": true, "hash": &**set.hash(), "problems": notes}), text)
        }
        Err(problems) => {
            let shown: String = problems.iter().map(render).collect();
            let fatal = problems.iter().filter(|it| it.fatal).count();
            let text = format!("{shown}{fatal} problem{}: this set would not load\n", plural(fatal));
            Answer::new(Exit::Invalid, &json!({"ok": false, "hash": null, "problems": problems}), text)
        }
    })
}
