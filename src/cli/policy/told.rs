//! How a policy looks: where it stands, its lines, and which of its parts hold.

use std::fmt::Write as _;

use super::super::screen::{ERROR, FAINT, GOOD, STRONG, WARNING, plain};
use crate::policy::{Holds, Nearest, Part, Told};
use crate::workbench::life;

/// One policy.
pub(super) fn shown(it: &Told) -> String {
    let place = plain(&it.place.to_string());
    let mut text = format!("\n{} {STRONG}{}{STRONG:#} {FAINT}{place}{FAINT:#}\n", it.effect, plain(&it.id));
    text += &numbered(&it.source, it.place.line);
    if let Some(gate) = &it.gate {
        let people = if gate.quorum == 1 { "1 person".to_owned() } else { format!("{} people", gate.quorum) };
        let (kind, life) = (plain(&gate.kind), life(gate.expires_in_seconds));
        // into a String: cannot fail
        let _ = writeln!(text, "  lifted by an approval of type {kind} from {people}; a request expires in {life}");
    }
    // The lines themselves say it all where everything holds.
    if it.parts.iter().any(|it| it.holds != Holds::Yes) {
        it.parts.iter().for_each(|it| text += &part(it));
    }
    text
}

/// What was nearest to permitting a call.
pub(super) fn nearest(it: &Nearest) -> String {
    if it.permits.is_empty() {
        return "  no permit is for this capability, or for anybody like this actor\n".into();
    }
    let more = if it.more == 0 { String::new() } else { format!("\nand {} more\n", it.more) };
    let permits: String = it.permits.iter().map(shown).collect();
    format!("\nno permit holds; the nearest:\n{permits}{more}")
}

fn numbered(source: &str, first: usize) -> String {
    let count = source.lines().count();
    let width = (first + count).to_string().len();
    let line = |(at, it): (usize, &str)| {
        let it = plain(&it.replace('\t', " "));
        match first {
            0 => format!("  {FAINT}|{FAINT:#} {it}\n"), // it stands in no file
            _ => format!("  {FAINT}{:width$} |{FAINT:#} {it}\n", first + at),
        }
    };
    source.lines().enumerate().map(line).collect()
}

fn part(it: &Part) -> String {
    let word = match &it.holds {
        Holds::Yes => format!("{GOOD}holds{GOOD:#}      "),
        Holds::No => format!("{ERROR}fails{ERROR:#}      "),
        Holds::Failed(_) => format!("{ERROR}error{ERROR:#}      "),
        Holds::Unknown => format!("{WARNING}unknown{WARNING:#}    "),
        Holds::NotReached => format!("{FAINT}not reached{FAINT:#}"),
    };
    let error = match &it.holds {
        Holds::Failed(kind) => format!(": {kind}"),
        Holds::Yes | Holds::No | Holds::Unknown | Holds::NotReached => String::new(),
    };
    let text = match &*it.of {
        "when" | "unless" => format!("{} {}", it.of, it.text),
        _ => it.text.clone(), // a scope's text names its part
    };
    format!("  {word} {}{error}\n", plain(&text))
}
