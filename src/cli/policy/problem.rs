//! How a problem of a policy looks.

use std::fmt::Write as _;

use super::super::screen::{ERROR, FAINT, HINT, WARNING, plain};
use crate::{PolicyProblem, Severity};

/// Where, what, the line itself with a mark under the place, and the next step.
pub(in crate::cli) fn render(it: &PolicyProblem) -> String {
    let (style, word) = match it.severity {
        Severity::Error => (ERROR, "error"),
        Severity::Warning => (WARNING, "warning"),
        Severity::Note => (HINT, "note"),
    };
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
        let _ = writeln!(text, "  {HINT}next:{HINT:#} {}", plain(help)); // into a String: cannot fail
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
        let _ = writeln!(text, "  {:margin$} {FAINT}|{FAINT:#} {:before$}{ERROR}^{ERROR:#}", "", "");
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
            severity: Severity::Error,
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
