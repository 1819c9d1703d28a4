//! What a command prints, for machines and for people.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::ops::ControlFlow;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::Value;

use super::exit::{Exit, Side, next_step};
use crate::{Error, masking};

pub(super) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(super) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(super) const HINT: Style = AnsiColor::Cyan.on_default();
pub(super) const STRONG: Style = Style::new().bold();
pub(super) const FAINT: Style = Style::new().dimmed();

/// What a command came to, in both forms.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) exit: Exit,
    json: String,
    text: String,
    /// Whether the text is an error. For machines it is an answer like any other.
    refused: bool,
    /// What was done, which an answer that cannot be printed must not hide.
    done: Option<String>,
}

impl Answer {
    pub(super) fn new(exit: Exit, json: &impl Serialize, text: impl Into<String>) -> Self {
        // Plain data serialises; and if it did not, an empty document is no wrong one.
        let json = serde_json::to_string(json).unwrap_or_default();
        Self { exit, json, text: text.into(), refused: false, done: None }
    }

    /// A list: for machines an array with one element a line.
    pub(super) fn list(json: &[impl Serialize], text: impl Into<String>) -> Self {
        let lines: Vec<_> = json.iter().map(|it| serde_json::to_string(it).unwrap_or_default()).collect();
        let json = if lines.is_empty() { "[]".into() } else { format!("[\n{}\n]", lines.join(",\n")) };
        Self { exit: Exit::Done, json, text: text.into(), refused: false, done: None }
    }

    /// What was done before there was an answer to print.
    pub(super) fn having_done(self, what: impl Into<String>) -> Self {
        Self { done: Some(what.into()), ..self }
    }

    /// The engine's answer to something other than a call: `{"status":"failed","error":{..}}` for machines.
    pub(super) fn refused(error: &Error, side: Side) -> Self {
        Self::refused_with(error, next_step(error.code, side))
    }

    /// As [`Self::refused`], where something else than usual comes next.
    pub(super) fn refused_with(error: &Error, next: &str) -> Self {
        let json = serde_json::json!({"status": "failed", "error": error});
        Self::new(Exit::of_code(error.code), &json, failed(error, next)).on_standard_error()
    }

    /// Nothing to be said at the end: it was said before.
    pub(super) fn silent(exit: Exit) -> Self {
        Self { exit, json: String::new(), text: String::new(), refused: false, done: None }
    }

    /// The text goes to standard error.
    pub(super) fn on_standard_error(self) -> Self {
        Self { refused: true, ..self }
    }

    pub(super) fn print(self, json: bool) -> Exit {
        if self.refused && !json {
            print_error(&self.text);
            return self.exit;
        }
        let text = match json {
            true if self.json.is_empty() => String::new(),
            true => self.json + "\n",
            false => self.text,
        };
        match (written(&text), self.done) {
            (Ok(_), _) => self.exit,
            (Err(error), None) => unwritten(&error),
            (Err(error), Some(done)) => {
                print_error(&format!(
                    "error: the output cannot be written: {error}; but the command ran: {done}\n  next: see it on the trail \
                     (`countersign audit tail`), rather than repeat it\n"
                ));
                if self.exit == Exit::Done { Exit::Failed } else { self.exit }
            }
        }
    }
}

/// A refusal or failure, with the next step.
pub(super) fn failed(error: &Error, next: &str) -> String {
    let mut text = format!("{ERROR}error:{ERROR:#} {} ({})\n", plain(&error.message), error.code);
    for detail in &error.details {
        let detail = serde_json::to_value(detail).unwrap_or_default();
        let members = detail.as_object().into_iter().flatten();
        let members: Vec<_> = members.map(|(name, value)| format!("{name} {}", plain(&unquoted(value)))).collect();
        let _ = writeln!(text, "  {}", members.join(", ")); // into a String: cannot fail
    }
    let again = if error.retryable { ", or send the same call again" } else { "" };
    let _ = writeln!(text, "  {HINT}next:{HINT:#} {next}{again}");
    text
}

fn unquoted(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), |it| if it.is_empty() { "(root)".into() } else { it.into() })
}

/// Whether somebody still reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    There,
    /// Whoever has gone away has seen enough.
    Gone,
}

/// To standard output.
pub(super) fn print(text: &str) -> Exit {
    written(text).map_or_else(|error| unwritten(&error), |_| Exit::Done)
}

/// To standard output, at once.
fn written(text: &str) -> io::Result<Reader> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(error),
    }
}

fn unwritten(error: &io::Error) -> Exit {
    print_error(&format!(
        "error: the output cannot be written: {error}\n  next: see the records with `countersign audit list`\n"
    ));
    Exit::CouldNotRun
}

/// Lines that are printed as they come: for machines a document a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    pub(super) json: bool,
}

impl Lines {
    /// Breaks off, with how the process ends, once nobody reads any more.
    pub(super) fn print(self, json: &impl Serialize, text: &str) -> ControlFlow<Exit> {
        let line = if self.json { serde_json::to_string(json).unwrap_or_default() } else { text.to_owned() };
        match written(&(line + "\n")) {
            Ok(Reader::There) => ControlFlow::Continue(()),
            Ok(Reader::Gone) => ControlFlow::Break(Exit::Done),
            Err(error) => ControlFlow::Break(unwritten(&error)),
        }
    }
}

/// To standard error. If that is closed nobody listens.
pub(super) fn print_error(text: &str) {
    let _ = anstream::stderr().write_all(text.as_bytes());
}

/// No column is padded to more: a longer cell pushes the rest of its own line.
const MAX_WIDTH: usize = 120;

/// Rows under headings, in columns as wide as they need to be, without what looks like a secret. The last column is not padded.
pub(super) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let rows = rows.iter().map(|row| row.iter().map(|it| plain(&masking::text(it))).collect());
    let rows: Vec<Vec<String>> = rows.collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|it| it.chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0).min(MAX_WIDTH)
    };
    let widths: Vec<_> = (0..headings.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded: Vec<_> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        padded.join("  ").trim_end().to_owned()
    };
    let mut text = format!("{STRONG}{}{STRONG:#}\n", line(headings.to_vec()));
    for row in &rows {
        text.push_str(&line(row.iter().map(String::as_str).collect()));
        text.push('\n');
    }
    text
}

/// A row of a table whose other rows come later: cells are padded to these widths, longer ones push the rest.
pub(super) fn row(widths: &[usize], cells: &[String]) -> String {
    let padded: Vec<_> = cells.iter().zip(widths).map(|(cell, width)| format!("{:width$}", plain(cell))).collect();
    padded.join("  ").trim_end().to_owned()
}

/// The same for pull requests.
pub(super) fn markdown(headings: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<&str>| {
        let cells: Vec<_> = cells.iter().map(|it| plain(&it.replace('|', "\\|").replace('\n', " "))).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = format!("|{}\n", "---|".repeat(headings.len()));
    let rows = rows.iter().map(|it| line(it.iter().map(String::as_str).collect()));
    line(headings.to_vec()) + &rule + &rows.collect::<String>()
}

/// Names and values, one a line.
pub(super) fn facts(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| {
        let value = plain(value).replace('\n', &format!("\n{:1$}", "", width + 4));
        format!("  {FAINT}{name:width$}{FAINT:#}  {value}\n")
    };
    rows.iter().map(line).collect()
}

/// JSON for people.
pub(super) fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Text that a terminal shows as it is. Whoever decides must see what will run: characters that steer a terminal,
/// reorder a line or are not seen at all are written as escapes.
pub(super) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if (character.is_control() && character != '\n') || is_invisible(character) {
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(character)); // into a String: cannot fail
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Unicode's format characters (general category Cf), line separators, and fillers without ink.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_reaches_it() {
        let text = plain("pay\u{202e}001$\u{1b}[2J\u{200b}\u{9b}31m\r\nü");
        assert_eq!(text, "pay\\u{202e}001$\\u{1b}[2J\\u{200b}\\u{9b}31m\\u{d}\nü");
    }

    #[test]
    fn columns_are_as_wide_as_they_need_to_be() {
        let rows = [vec!["1".into(), "capability.requested".into()], vec!["12".into(), "short".into()]];
        let shown = anstream::adapter::strip_str(&table(&["seq", "type"], &rows)).to_string();
        assert_eq!(shown, "seq  type\n1    capability.requested\n12   short\n");
    }

    #[test]
    fn a_cell_of_any_length_is_shown() {
        let long = "x".repeat(70_000);
        let rows = [vec![long.clone(), "one".into()], vec!["short".into(), "two".into()]];
        let shown = anstream::adapter::strip_str(&table(&["name", "count"], &rows)).to_string();
        assert!(shown.contains(&format!("{long}  one\n")), "it is not cut");
    }
}
