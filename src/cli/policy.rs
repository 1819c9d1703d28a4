//! `policy check`, and how a problem of a policy looks.

use serde_json::json;

use super::args::{Policy, PolicyCommand};
use super::exit::Exit;
use super::failure::Failure;
use super::open::{registry, source};
use super::screen::{Answer, ERROR, FAINT, GOOD, HINT, WARNING, plain};
use crate::{PolicyProblem, policy};

pub(super) fn run(args: Policy) -> Result<Answer, Failure> {
    let PolicyCommand::Check { dir, .. } = args.command;
    let source = source(dir.as_deref())?;
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

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Where, what, the line itself with a mark under the place, and the next step.
pub(super) fn render(it: &PolicyProblem) -> String {
    let (style, word) = if it.fatal { (ERROR, "error") } else { (WARNING, "note") };
    let place = match (&*it.file, it.line) {
        ("", _) => String::new(),
        (file, 0) => format!("{}: ", plain(file)),
        (file, line) => format!("{}:{line}:{}: ", plain(file), it.column),
    };
    let policy = it.policy.as_deref().map(|id| format!(" (policy `{}`)", plain(id))).unwrap_or_default();
    let mut text = format!("{place}{style}{word}{style:#}: {}{policy}\n", plain(&it.what));
    if let Some(excerpt) = it.excerpt.as_deref().filter(|_| it.line > 0) {
        text += &marked(excerpt, it.line, it.column);
    }
    if let Some(help) = &it.help {
        text += &format!("  {HINT}next:{HINT:#} {}\n", plain(help));
    }
    text
}

fn marked(excerpt: &str, line: usize, column: usize) -> String {
    let number = line.to_string();
    let (margin, before) = (number.len(), column.saturating_sub(1));
    // Tabs count as one column, so they are shown as one.
    let excerpt = excerpt.trim_end().replace('\t', " ");
    let mut text = format!("  {FAINT}{number} |{FAINT:#} {}\n", plain(&excerpt));
    if (1..=excerpt.chars().count()).contains(&column) {
        // Escapes make what stands before the mark longer.
        let before = plain(&excerpt.chars().take(before).collect::<String>()).chars().count();
        text += &format!("  {:margin$} {FAINT}|{FAINT:#} {:before$}{ERROR}^{ERROR:#}\n", "", "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_shows_its_place() {
        let problem = PolicyProblem {
            file: "limits.cedar".into(),
            line: 12,
            column: 8,
            policy: Some("limit".into()),
            what: "there is no capability `orders.refnd`".into(),
            help: Some("did you mean `orders.refund`?".into()),
            excerpt: Some("\taction == Action::\"orders.refnd\",".into()),
            fatal: true,
        };
        let shown = anstream::adapter::strip_str(&render(&problem)).to_string();
        insta::assert_snapshot!(shown, @r#"
        limits.cedar:12:8: error: there is no capability `orders.refnd` (policy `limit`)
          12 |  action == Action::"orders.refnd",
             |        ^
          next: did you mean `orders.refund`?
        "#);
    }
}
