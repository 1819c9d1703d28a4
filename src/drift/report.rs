//! What a drift looks like: for a terminal, as annotations of GitHub Actions, and for a pull request.

use std::fmt::Write as _;

use super::{Class, Difference, Drift, Subject};

impl Subject {
    /// What it is, and its name.
    fn named(&self) -> (&'static str, &str) {
        match self {
            Self::Capability(id) => ("capability", id),
            Self::Policy(id) => ("policy", id),
            Self::Types => ("types", "of policies"),
        }
    }
}

impl Difference {
    fn line(&self) -> String {
        let (kind, name) = self.subject.named();
        format!("{}: {kind} `{name}`: {}", self.class.as_str(), self.says)
    }
}

impl Drift {
    /// `2 differences: 1 widening, 1 neutral`.
    pub fn summary(&self) -> String {
        let count = self.differences.len();
        if count == 0 {
            return format!("no drift: {} capabilities, {} policies", self.capabilities, self.policies);
        }
        let each: Vec<_> = self.counts().iter().map(|(class, count)| format!("{count} {}", class.as_str())).collect();
        format!("{count} difference{}: {}", if count == 1 { "" } else { "s" }, each.join(", "))
    }

    /// A line a difference, and the summary. What it quotes may have any character.
    pub fn text(&self) -> String {
        let lines: String = self.differences.iter().map(|it| it.line() + "\n").collect();
        format!("{lines}{}\n", self.summary())
    }

    /// Workflow commands, one a line: an error for what widens, a warning for what is to be reviewed, a notice for the
    /// rest. They stand at `file`, the snapshot as the repository names it.
    pub fn github(&self, file: &str) -> String {
        let mut text = String::new();
        for difference in &self.differences {
            let level = match difference.class {
                Class::Widening => "error",
                Class::Review => "warning",
                Class::Narrowing | Class::Neutral => "notice",
            };
            let title = property(&format!("Governance: {}", difference.class.as_str()));
            let (file, line) = (property(file), data(&difference.line()));
            let _ = writeln!(text, "::{level} file={file},title={title}::{line}"); // into a String: cannot fail
        }
        text + &data(&self.summary()) + "\n"
    }

    /// A table for a pull request. Nothing that it quotes is markup there, mentions somebody or leads elsewhere.
    pub fn markdown(&self) -> String {
        let mut text = String::from("## Governance\n\n");
        if !self.is_none() {
            text += "| change | of | what |\n|---|---|---|\n";
            for Difference { class, subject, says, .. } in &self.differences {
                let (kind, name) = subject.named();
                let _ = writeln!(text, "| {} | {kind} {} | {} |", class.as_str(), code(name), prose(says)); // as above
            }
            text += "\n";
        }
        text + &self.summary() + "\n"
    }
}

/// A value of a workflow command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a workflow command, which ends at a comma or colon, too.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// What stands between backticks is code; everything is text.
fn prose(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts.map(|(at, part)| if at % 2 == 1 { code(part) } else { escaped(part) }).collect()
}

/// In GitHub's Markdown `@name` mentions somebody, and `#1` and addresses become links, but not in code.
fn code(text: &str) -> String {
    format!("<code>{}</code>", escaped(text))
}

/// Every character that could be markup as a character reference (`CommonMark` 0.31, 2.5), which never is markup; what is
/// not seen, or turns a line around, by its number.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        let number = u32::from(character);
        let _ = match character {
            ' ' | ',' | ';' | '/' | '-' | '+' | '=' | '"' | '\'' | '(' | ')' | '?' => write!(out, "{character}"),
            _ if character.is_alphanumeric() => write!(out, "{character}"),
            _ if character.is_ascii_graphic() => write!(out, "&#{number};"),
            _ => write!(out, "U+{number:04X}"),
        }; // into a String: cannot fail
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drift() -> Drift {
        let policy = Subject::Policy("a|b\n<b>@octocat</b> https://x.example 100%, :".into());
        let differences = vec![
            Difference::new(Class::Widening, policy, "removed", "the gate is gone, over `orders.refund`"),
            Difference::new(Class::Review, Subject::Types, "policySchema", "they are others"),
            Difference::new(Class::Neutral, Subject::Capability("a.b".into()), "description", "it is another one"),
        ];
        Drift { differences, capabilities: 2, policies: 1 }
    }

    #[test]
    fn annotations_cannot_be_broken_out_of() {
        insta::assert_snapshot!(drift().github("a,b:c%.snap"), @r#"
        ::error file=a%2Cb%3Ac%25.snap,title=Governance%3A widening::widening: policy `a|b%0A<b>@octocat</b> https://x.example 100%25, :`: the gate is gone, over `orders.refund`
        ::warning file=a%2Cb%3Ac%25.snap,title=Governance%3A review::review: types `of policies`: they are others
        ::notice file=a%2Cb%3Ac%25.snap,title=Governance%3A neutral::neutral: capability `a.b`: it is another one
        3 differences: 1 widening, 1 review, 1 neutral
        "#);
    }

    #[test]
    fn nothing_quoted_is_markup_in_a_pull_request() {
        insta::assert_snapshot!(drift().markdown(), @r#"
        ## Governance

        | change | of | what |
        |---|---|---|
        | widening | policy <code>a&#124;bU+000A&#60;b&#62;&#64;octocat&#60;/b&#62; https&#58;//x&#46;example 100&#37;, &#58;</code> | the gate is gone, over <code>orders&#46;refund</code> |
        | review | types <code>of policies</code> | they are others |
        | neutral | capability <code>a&#46;b</code> | it is another one |

        3 differences: 1 widening, 1 review, 1 neutral
        "#);
    }

    #[test]
    fn no_difference_is_one_line() {
        let none = Drift { differences: Vec::new(), ..drift() };
        assert_eq!(none.text(), "no drift: 2 capabilities, 1 policies\n");
        assert_eq!(none.markdown(), "## Governance\n\nno drift: 2 capabilities, 1 policies\n");
    }
}
