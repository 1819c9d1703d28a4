//! Files of a policy set, places in them, and what is wrong there.

/// A file as it was read.
pub(crate) struct SourceFile {
    pub(crate) name: String,
    pub(crate) text: String,
}

const MAX_EXCERPT: usize = 120;
/// The most problems of one file: each place is searched for.
pub(super) const MAX_PROBLEMS: usize = 200;
/// The most characters of a problem's texts.
const MAX_TEXT: usize = 1_000;

/// One thing that is wrong with a policy set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyProblem {
    /// The file, as it is named in the directory.
    pub file: String,
    /// Counts from 1; 0 if it is about the whole file.
    pub line: usize,
    /// Counts from 1, in characters.
    pub column: usize,
    /// The policy's `@id`, if it has one.
    pub policy: Option<String>,
    /// What is wrong; at most 1,000 characters.
    pub what: String,
    /// The next step.
    pub help: Option<String>,
    /// The line itself, cut to 120 characters.
    pub excerpt: Option<String>,
    /// Whether the set loads all the same.
    pub severity: Severity,
}

/// What a problem of a policy set means for it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The set does not load.
    Error,
    /// It loads, and says or leaves out something that its author should look at.
    Warning,
    /// It loads, and nothing need be done.
    Note,
}

impl PolicyProblem {
    /// Whether the set does not load because of it.
    pub fn is_fatal(&self) -> bool {
        self.severity == Severity::Error
    }

    /// The checker itself failed: then nothing loads.
    pub(crate) fn internal(cause: &crate::BoxError) -> Self {
        Self {
            file: String::new(),
            line: 0,
            column: 0,
            policy: None,
            what: format!("the policies could not be checked: {cause}"),
            help: None,
            excerpt: None,
            severity: Severity::Error,
        }
    }

    /// A problem of a whole file.
    pub(crate) fn of_file(file: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line: 0,
            column: 0,
            policy: None,
            what: what.into(),
            help: None,
            excerpt: None,
            severity: Severity::Error,
        }
    }

    pub(super) fn policy(mut self, id: &str) -> Self {
        self.policy = Some(id.to_owned());
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(super) fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    /// Only a note: the set loads all the same.
    pub(super) fn note(self) -> Self {
        Self { severity: Severity::Note, ..self }
    }

    /// Only a warning: the set loads all the same.
    pub(super) fn warning(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }
}

impl SourceFile {
    /// A problem at this byte.
    pub(crate) fn problem(&self, offset: usize, what: impl Into<String>) -> PolicyProblem {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let start = before.rfind('\n').map_or(0, |it| it + 1);
        let line = self.text.get(start..).and_then(|it| it.lines().next()).unwrap_or_default();
        PolicyProblem {
            line: before.matches('\n').count() + 1,
            column: before.get(start..).unwrap_or_default().chars().count() + 1,
            excerpt: Some(printable(line.trim_start_matches('\u{feff}'))),
            ..PolicyProblem::of_file(&self.name, what)
        }
    }

    /// A problem where this word first stands after `from`, else at `from`.
    pub(crate) fn problem_at_word(&self, from: usize, word: &str, what: impl Into<String>) -> PolicyProblem {
        let found = self.text.get(from..).and_then(|it| find_word(it, word));
        self.problem(from + found.unwrap_or(0), what)
    }
}

/// Where a word stands that is not a part of a longer one.
pub(super) fn find_word(text: &str, word: &str) -> Option<usize> {
    let joins = |it: Option<char>| it.is_some_and(|it| it.is_alphanumeric() || it == '_');
    text.match_indices(word)
        .map(|(at, _)| at)
        .find(|at| !joins(text[..*at].chars().next_back()) && !joins(text[at + word.len()..].chars().next()))
}

/// Characters that turn text around: they could make a policy read as another one.
pub(super) fn is_bidirectional(it: char) -> bool {
    matches!(it, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// One line of at most 120 characters that does nothing to a terminal.
pub(super) fn printable(line: &str) -> String {
    let mut out = String::new();
    for it in line.chars().take(MAX_EXCERPT) {
        if it == '\t' {
            out.push(' ');
        } else if it.is_control() || is_bidirectional(it) {
            out.extend(it.escape_unicode());
        } else {
            out.push(it);
        }
    }
    out.trim_end().to_owned()
}

/// Sorted, and one for each place: what is wrong there first often causes the rest.
pub(super) fn settle(mut problems: Vec<PolicyProblem>) -> Vec<PolicyProblem> {
    let place = |it: &PolicyProblem| (it.file.clone(), it.line, it.column);
    problems.sort_by(|one, two| {
        place(one).cmp(&place(two)).then(one.severity.cmp(&two.severity)).then_with(|| one.cmp(two))
    });
    problems.dedup();
    let mut out: Vec<(PolicyProblem, usize)> = Vec::new();
    for problem in problems {
        match out.last_mut() {
            Some((last, more)) if problem.line > 0 && place(last) == place(&problem) => *more += 1,
            _ => out.push((problem, 0)),
        }
    }
    out.into_iter().map(|(it, more)| with_count(clipped(it), more)).collect()
}

/// Cedar repeats what is written, whatever its length.
fn clipped(mut problem: PolicyProblem) -> PolicyProblem {
    for text in std::iter::once(&mut problem.what).chain(&mut problem.help).chain(&mut problem.policy) {
        if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
            text.truncate(end);
            text.push_str("..");
        }
    }
    problem
}

fn with_count(mut problem: PolicyProblem, more: usize) -> PolicyProblem {
    if more > 0 {
        problem.what = format!("{} (and {more} more here)", problem.what);
    }
    problem
}

/// ``did you mean `..`?`` for the nearest known name, if it is near.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let limit = (name.chars().count() / 3).clamp(1, 3);
    let nearest = known.into_iter().map(|it| (distance(name, it), it)).min()?;
    (nearest.0 <= limit).then(|| format!("did you mean `{}`?", nearest.1))
}

/// Levenshtein distance.
fn distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.chars().collect();
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in two.iter().enumerate() {
            let change = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[two.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_offered_and_a_far_one_is_not() {
        let known = ["orders.refund", "customers.get"];
        assert_eq!(did_you_mean("orders.refnd", known).as_deref(), Some("did you mean `orders.refund`?"));
        assert_eq!(did_you_mean("zzz", known), None);
    }

    #[test]
    fn columns_count_characters_and_excerpts_are_harmless() {
        let file = SourceFile { name: "a.cedar".into(), text: "one\n\t\u{e9}\u{202e}x".into() };
        let problem = file.problem(file.text.len() - 1, "w");
        assert_eq!((problem.line, problem.column), (2, 4));
        assert_eq!(problem.excerpt.as_deref(), Some(" \u{e9}\\u{202e}x"));
    }

    #[test]
    fn problems_of_one_place_are_one_and_the_fatal_one_is_shown() {
        let file = SourceFile { name: "a.cedar".into(), text: "x".into() };
        let problems = vec![file.problem(0, "a note").note(), file.problem(0, "an error"), file.problem(0, "an error")];
        let shown = settle(problems);
        assert_eq!(shown.len(), 1);
        assert_eq!(shown[0].what, "an error (and 1 more here)");
        assert!(shown[0].is_fatal());
    }
}
