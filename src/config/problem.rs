//! What is wrong with a document, in words for whoever wrote it. Values are not repeated: a secret in the wrong place
//! would end in a log.

use toml::de::Error;

use super::document::{Origin, PREFIX};
use crate::builder::Problem;

/// Something that is no TOML.
pub(super) fn of_syntax(file: &str, line: usize, error: &Error) -> Problem {
    Problem::new(format!("{file}:{line}"), format!("no TOML: {}", error.message()), "correct the line")
}

/// The member that is missing, if that is what is wrong.
pub(super) fn missing(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.strip_suffix('`')
}

/// A part that the settings do not have or cannot take. `keys` lead to it; of a missing member to where it is missing.
pub(super) fn of_settings(origin: &Origin<'_>, keys: &[&str], message: &str) -> Problem {
    let at = match origin {
        Origin::File { file, line } => format!("{file}:{line}"),
        Origin::Variable(name) => (*name).to_owned(),
    };
    let key = keys.join(".");
    if let Some(name) = missing(message) {
        let within = if keys.is_empty() { String::new() } else { format!(" in `{key}`") };
        return Problem::new(at, format!("`{name}` is missing{within}"), format!("write `{name} = ..`"));
    }
    if let Some(known) = message.strip_prefix("unknown field `").map(names) {
        let last = keys.last().copied().unwrap_or_default();
        let fix = suggestion(origin, keys, last, &known).unwrap_or_else(|| all(&known));
        return Problem::new(at, format!("unknown key `{key}`"), fix);
    }
    let named = if keys.is_empty() { String::new() } else { format!("`{key}`: ") };
    if let Some(known) = message.strip_prefix("unknown variant `").map(names) {
        return Problem::new(at, format!("{named}unknown word"), all(&known));
    }
    Problem::new(at, format!("{named}{}", without_value(message)), "correct the value")
}

/// The names behind the first one of serde's `x`, expected one of `a`, `b`.
fn names(rest: &str) -> Vec<&str> {
    rest.split('`').skip(2).step_by(2).collect()
}

fn all(known: &[&str]) -> String {
    match known {
        [] => "remove it: there is nothing to set here".into(),
        _ => format!("there are {}", known.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ")),
    }
}

/// What was probably meant.
fn suggestion(origin: &Origin<'_>, keys: &[&str], name: &str, known: &[&str]) -> Option<String> {
    let close = known.iter().map(|it| (strsim::damerau_levenshtein(name, it), *it));
    let close = close.filter(|(distance, it)| *distance <= (it.len().max(name.len()) / 3).max(1));
    let begun = known.iter().find(|it| name.len() >= 3 && it.starts_with(name)).copied();
    let nearest = close.min_by_key(|it| it.0).map(|it| it.1).or(begun);
    let parents = keys.split_last().map_or(&[][..], |it| it.1);
    match (nearest, origin) {
        (Some(it), Origin::File { .. }) => Some(format!("did you mean `{it}`?")),
        (Some(it), Origin::Variable(_)) => Some(format!("did you mean `{}`?", variable(parents, it))),
        (None, Origin::Variable(_)) => {
            // COUNTERSIGN_HTTP_X: one underscore where two belong.
            let (section, rest) = known.iter().find_map(|it| Some((*it, name.strip_prefix(it)?.strip_prefix('_')?)))?;
            Some(format!("did you mean `{}`? Sections end with two underscores", variable(&[section], rest)))
        }
        (None, Origin::File { .. }) => None,
    }
}

fn variable(parents: &[&str], name: &str) -> String {
    let path: Vec<String> = parents.iter().chain([&name]).map(|it| it.to_uppercase()).collect();
    format!("{PREFIX}{}", path.join("__"))
}

/// serde's messages say what was found, `invalid type: string "..", expected ..`, and name types of Rust.
fn without_value(given: &str) -> String {
    if given == "wanted string or table" {
        return "no text in quotes".into();
    }
    let message = ["invalid type: string", "invalid value: string"].iter().find_map(|found| {
        let (_, expected) = given.strip_prefix(found)?.rsplit_once("\", expected ")?;
        Some(format!("{found}, expected {expected}"))
    });
    let message = message.unwrap_or_else(|| given.lines().next().unwrap_or_default().to_owned());
    let Some((found, expected)) = message.rsplit_once(", expected ") else { return message };
    let expected = match expected {
        "usize" | "u64" | "u32" | "u16" | "u8" => "a whole number, not below 0",
        "i64" | "i32" | "i16" | "i8" => "a whole number",
        "path string" | "a string" => "a text in quotes",
        other => other,
    };
    format!("{found}, expected {expected}")
}
