//! How changed decisions look, and what could not be asked again.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use super::super::screen::{STRONG, WARNING, markdown, plain, print_error, table};
use super::args::Look;
use super::plural;
use crate::workbench::{About, Change, Changes, Class, Missing, Replay, Side};

/// How many capabilities a sentence names.
const NAMED: usize = 5;

impl Look {
    pub(super) fn table(self, headings: &[&str], rows: &[Vec<String>]) -> String {
        match self {
            Self::Table => table(headings, rows),
            Self::Markdown => markdown(headings, rows),
        }
    }

    pub(super) fn heading(self, text: &str) -> String {
        match self {
            Self::Table => format!("{STRONG}{text}{STRONG:#}\n"),
            Self::Markdown => format!("## {text}\n\n"),
        }
    }

    /// Sentences of their own.
    pub(super) fn said(self, lines: &[String]) -> String {
        let end = if self == Self::Markdown { "\n\n" } else { "\n" };
        lines.join(end) + "\n"
    }

    fn note(self, text: &str) -> String {
        match self {
            Self::Table => format!("{WARNING}note{WARNING:#}: {text}"),
            Self::Markdown => format!("**Note:** {text}"),
        }
    }
}

/// The changes as a table, widening first. Of the matrix, surfaces with the same change share a row.
pub(super) fn shown(changes: &Changes, look: Look) -> String {
    let with_input = changes.listed.iter().any(|it| it.input.is_some());
    let mut rows: Vec<(Class, Vec<String>, Vec<&str>)> = Vec::new();
    for change in &changes.listed {
        let row = row(change, with_input);
        let surface = match &change.about {
            About::Matrix { surface, .. } => Some(surface.as_str()),
            About::Case { .. } | About::Trail { .. } => None,
        };
        match rows.iter_mut().find(|it| surface.is_some() && it.1 == row) {
            Some(same) => same.2.extend(surface),
            None => rows.push((change.class, row, surface.into_iter().collect())),
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    rows.sort_by_key(|it| it.0); // stable: the rest keeps its order
    let rows: Vec<_> = rows.into_iter().map(|(_, row, surfaces)| over(row, &surfaces)).collect();
    let mut headings = vec!["change", "of", "before", "after", "policies"];
    if with_input {
        headings.push("input");
    }
    let table = look.table(&headings, &rows);
    match changes.count() - changes.listed.len() {
        0 => table,
        more => format!("{table}\nand {more} more\n"),
    }
}

fn over(mut row: Vec<String>, surfaces: &[&str]) -> Vec<String> {
    if let Some(of) = row.get_mut(1).filter(|_| !surfaces.is_empty()) {
        *of = format!("{of} over {}", surfaces.join(", "));
    }
    row
}

fn row(change: &Change, with_input: bool) -> Vec<String> {
    let of = match &change.about {
        About::Case { file, line, name } => format!("{file}:{line} {name}"),
        About::Matrix { capability, actor, .. } => format!("{capability} for {actor}"),
        About::Trail { execution, capability, actor, .. } => format!("{capability} for {actor}, {execution}"),
    };
    let Change { class, before, after, .. } = change;
    let mut row =
        vec![class.as_str().to_owned(), of, before.outcome.clone(), after.outcome.clone(), policies(before, after)];
    if with_input {
        row.push(change.input.as_ref().map(ToString::to_string).unwrap_or_default());
    }
    row
}

/// `-` was behind it, `+` is now; without a sign is both.
fn policies(before: &Side, after: &Side) -> String {
    let mut signs: BTreeMap<&str, &str> = before.policies.iter().map(|it| (it.as_str(), "-")).collect();
    for id in &after.policies {
        signs.entry(id).and_modify(|it| *it = "").or_insert("+");
    }
    let all: Vec<_> = signs.iter().map(|(id, sign)| format!("{sign}{id}")).collect();
    all.join(" ")
}

/// `2 widening, 1 gate`.
pub(super) fn counted(changes: &Changes) -> String {
    let each: Vec<_> = changes.counts.iter().map(|(class, count)| format!("{count} {}", class.as_str())).collect();
    each.join(", ")
}

/// What became of the trail, and what to do about what could not be asked again.
pub(super) fn replayed(replay: &Replay, look: Look) -> Vec<String> {
    let Replay { decisions, exact, without_input, not_replayed, inputs_not_kept } = replay;
    let mut lines = vec![format!(
        "{decisions} decision{} on record: {exact} asked again exactly, {without_input} without the input, {} not at all",
        plural(*decisions),
        replay.missed(),
    )];
    for (why, count) in not_replayed {
        let (what, next) = match why {
            Missing::InputNotKept => (
                "it depends on the input, and events hold hashes only",
                format!("set `decision_record` on these capabilities: {}", names(inputs_not_kept.iter())),
            ),
            Missing::ActorUnknown => {
                ("the record has the actor's name only, and nobody is known by it", "name them: `--actors`".into())
            }
            Missing::CapabilityGone => ("there is no such capability any more", "nothing can be done".into()),
            Missing::Unreadable => {
                ("the event was cut, or another version wrote it", "look at it: `countersign audit list`".into())
            }
        };
        lines.push(look.note(&format!("{count} could not be asked again: {what}; {next}")));
    }
    lines
}

fn names<'a>(all: impl ExactSizeIterator<Item = &'a crate::CapabilityId>) -> String {
    let more = all.len().saturating_sub(NAMED);
    let named: Vec<_> = all.take(NAMED).map(|it| plain(it)).collect();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    named.join(", ") + &more
}

/// Tells a person who waits how far it is; nobody else.
pub(super) fn progress(decisions: usize) {
    if std::io::stderr().is_terminal() {
        print_error(&format!("\r{decisions} decisions"));
    }
}

/// The line is free again.
pub(super) fn progress_ends() {
    if std::io::stderr().is_terminal() {
        print_error("\r\u{1b}[K");
    }
}
