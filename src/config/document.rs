//! A TOML document with what environment variables say over it, of which every part knows where it comes from.
//!
//! Settings are read by serde, which stops at the first thing that is wrong. So what is wrong is taken out of the document
//! and the rest is read again, until nothing is.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer, Error};

use super::problem;
use crate::builder::Problem;
use crate::secret::SecretRef;

/// What every variable begins with.
pub(super) const PREFIX: &str = "COUNTERSIGN_";

/// Variables that are none of the configuration's.
const RESERVED: [&str; 4] = ["LOG", "SERVER", "TOKEN", "TOKEN_FILE"];

/// More problems than anybody reads; and an end for whatever would have none.
const MAX_PROBLEMS: usize = 100;

/// Places that a variable has behind the end of the file: one for each step of its path, the last one for its value.
const PLACES: usize = 64;

/// The document.
pub(super) struct Document<'a> {
    file: String,
    text: &'a str,
    root: Spanned<DeTable<'a>>,
    variables: &'a [(String, String)],
    /// Members that were taken out, by the place of their table: they are not missing.
    removed: Vec<(Range<usize>, String)>,
}

/// Where a part of the document comes from.
pub(super) enum Origin<'a> {
    /// A line of the file.
    File { file: &'a str, line: usize },
    /// An environment variable.
    Variable(&'a str),
}

/// The way to a part of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

impl<'a> Document<'a> {
    /// # Errors
    /// Everything that is no TOML.
    pub(super) fn parse(file: String, text: &'a str) -> Result<Self, Vec<Problem>> {
        let (root, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            return Ok(Self { file, text, root, variables: &[], removed: Vec::new() });
        }
        let lines = errors.iter().map(|it| (line(text, it.span().unwrap_or_default().start), it));
        let mut lines: Vec<_> = lines.take(MAX_PROBLEMS).collect();
        lines.sort_by_key(|it| it.0);
        Err(lines.into_iter().map(|(line, it)| problem::of_syntax(&file, line, it)).collect())
    }

    /// Sets what variables say, but for those that are somebody else's. What cannot be set is a problem.
    pub(super) fn set_all(&mut self, variables: &'a [(String, String)], others: &BTreeSet<String>) -> Vec<Problem> {
        self.variables = variables;
        let mut problems = Vec::new();
        for (at, (name, text)) in variables.iter().enumerate() {
            let rest = &name[PREFIX.len()..];
            let is_ours = !RESERVED.contains(&rest) && !is_platforms(rest) && !others.contains(name);
            if is_ours && !text.is_empty() {
                problems.extend(self.set(at, name, text).err());
            }
        }
        problems
    }

    /// The directory of manifests, before variables are set.
    pub(super) fn manifests(&self) -> Option<&str> {
        let DeValue::Table(section) = self.root.get_ref().get("capabilities")?.get_ref() else { return None };
        let DeValue::String(directory) = section.get("directory")?.get_ref() else { return None };
        Some(directory)
    }

    /// Every variable that is spoken of, wherever: each is a secret's, or one that is passed on.
    pub(super) fn spoken_of(&self, names: &mut BTreeSet<String>) {
        self.root.get_ref().iter().for_each(|(_, it)| spoken_of(it.get_ref(), names));
    }

    fn set(&mut self, at: usize, name: &str, text: &'a str) -> Result<(), Problem> {
        let path: Vec<String> = name[PREFIX.len()..].split("__").map(str::to_lowercase).collect();
        if path.iter().any(String::is_empty) || path.len() >= PLACES {
            let next = "write `COUNTERSIGN_KEY` or `COUNTERSIGN_SECTION__KEY`";
            return Err(Problem::new(name, "names no key", next));
        }
        let start = self.text.len() + 1 + at * PLACES;
        let value = value(name, text, start + PLACES - 1)?;
        let Some((last, tables)) = path.split_last() else { return Ok(()) };
        let mut table = self.root.get_mut();
        for (depth, step) in tables.iter().enumerate() {
            let place = start + depth..start + depth + 1;
            let key = Spanned::new(place.clone(), Cow::Owned(step.clone()));
            let next = table.entry(key).or_insert_with(|| Spanned::new(place, DeValue::Table(DeTable::new())));
            table = match next.get_mut() {
                DeValue::Table(it) => it,
                _ => {
                    return Err(Problem::new(name, format!("`{step}` is no section in the file"), "set it as a whole"));
                }
            };
        }
        table.remove(last.as_str()); // the key, too: it knows where it comes from
        let place = start + tables.len()..start + tables.len() + 1;
        table.insert(Spanned::new(place, Cow::Owned(last.clone())), value);
        Ok(())
    }

    /// Every `{ env = ".." }` and `{ file = ".." }`, with the key that has it.
    pub(super) fn secrets(&self) -> Vec<(String, SecretRef)> {
        let mut found = Vec::new();
        collect_secrets(self.root.get_ref(), "", &mut found);
        found
    }

    /// Reads the settings.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub(super) fn settings<T: DeserializeOwned>(mut self) -> Result<T, Vec<Problem>> {
        let mut problems = Vec::new();
        while problems.len() < MAX_PROBLEMS {
            match T::deserialize(Deserializer::from(self.root.clone())) {
                Ok(settings) if problems.is_empty() => return Ok(settings),
                Err(error) if self.takes_back(&error) || self.take_out(&error, &mut problems) => {}
                Ok(_) | Err(_) => break,
            }
        }
        problems.sort_by_key(|it| it.0); // serde reads in the order of the names
        Err(problems.into_iter().map(|it| it.1).collect())
    }

    /// A variable whose text looks like a number or a date may be meant as the text that it is. True if it was.
    fn takes_back(&mut self, error: &Error) -> bool {
        let Some(span) = error.span() else { return false };
        let Some(at) = self.variable_at(span.start) else { return false };
        let (path, text) = (path_to(self.root.get_ref(), &span), self.variables[at].1.as_str());
        let Some(value) = path.and_then(|it| node(self.root.get_mut(), &it)) else { return false };
        let is_scalar = !matches!(value.get_ref(), DeValue::String(_) | DeValue::Array(_) | DeValue::Table(_));
        if is_scalar && error.message().starts_with("invalid type") {
            *value.get_mut() = DeValue::String(Cow::Borrowed(text));
            return true;
        }
        false
    }

    /// Tells what is wrong and removes it. False if that cannot be done.
    fn take_out(&mut self, error: &Error, problems: &mut Vec<(usize, Problem)>) -> bool {
        let span = error.span().unwrap_or_default();
        let path = path_to(self.root.get_ref(), &span).unwrap_or_default();
        let missing = problem::missing(error.message());
        let was_removed = missing.is_some_and(|it| self.removed.iter().any(|(at, name)| *at == span && name == it));
        if !was_removed {
            let keys = path.iter().filter_map(|it| if let Step::Key(it) = it { Some(&**it) } else { None });
            let keys: Vec<&str> = keys.collect();
            problems.push((span.start, problem::of_settings(&self.origin(span.start), &keys, error.message())));
        }
        let Some((last, parents)) = path.split_last() else { return false };
        if let Step::Key(name) = last {
            let table = node(self.root.get_mut(), parents).map(|it| it.span());
            let table = table.unwrap_or_else(|| self.root.span());
            self.removed.push((table, name.clone()));
        }
        remove(self.root.get_mut(), last, parents);
        true
    }

    fn origin(&self, start: usize) -> Origin<'_> {
        match self.variable_at(start) {
            Some(at) => Origin::Variable(&self.variables[at].0),
            None => Origin::File { file: &self.file, line: line(self.text, start) },
        }
    }

    fn variable_at(&self, start: usize) -> Option<usize> {
        let at = start.checked_sub(self.text.len() + 1)? / PLACES;
        (at < self.variables.len()).then_some(at)
    }
}

/// What container platforms set for a service that is called countersign.
fn is_platforms(rest: &str) -> bool {
    rest == "SERVICE_HOST" || rest == "PORT" || rest.starts_with("SERVICE_PORT") || rest.starts_with("PORT_")
}

fn spoken_of(value: &DeValue<'_>, names: &mut BTreeSet<String>) {
    match value {
        DeValue::String(text) if text.starts_with(PREFIX) => _ = names.insert(text.to_string()),
        DeValue::Array(all) => all.iter().for_each(|it| spoken_of(it.get_ref(), names)),
        DeValue::Table(all) => all.iter().for_each(|(_, it)| spoken_of(it.get_ref(), names)),
        DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {}
    }
}

/// A variable's text: TOML if it is that, else a string.
fn value<'a>(name: &str, text: &'a str, place: usize) -> Result<Spanned<DeValue<'a>>, Problem> {
    let mut value = match DeValue::parse(text) {
        Ok(value) => value.into_inner(),
        Err(error) if text.trim_start().starts_with(['[', '{', '"', '\'']) => {
            let what = format!("is no TOML value: {}", error.message());
            return Err(Problem::new(name, what, "quote strings in it: `[\"one\", \"two\"]`"));
        }
        Err(_) => DeValue::String(Cow::Borrowed(text)),
    };
    place_all(&mut value, place);
    Ok(Spanned::new(place..place + 1, value))
}

/// All of a variable's value is at one place.
fn place_all(value: &mut DeValue<'_>, place: usize) {
    match value {
        DeValue::Array(all) => {
            for it in all.iter_mut() {
                place_all(it.get_mut(), place);
                *it = Spanned::new(place..place + 1, std::mem::replace(it.get_mut(), DeValue::Boolean(false)));
            }
        }
        DeValue::Table(all) => {
            let entries: Vec<_> = std::mem::take(all).into_iter().collect();
            for (key, mut it) in entries {
                place_all(it.get_mut(), place);
                let key = Spanned::new(place..place + 1, key.into_inner());
                all.insert(key, Spanned::new(place..place + 1, it.into_inner()));
            }
        }
        DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {}
    }
}

/// The outermost key or value at this place, but of tables that begin at one place the innermost.
fn path_to(table: &DeTable<'_>, span: &Range<usize>) -> Option<Vec<Step>> {
    for (key, value) in table {
        let step = || Step::Key(key.get_ref().to_string());
        let is_it = key.span() == *span || value.span() == *span;
        if let Some(mut path) = below(value, span) {
            path.insert(0, step());
            return Some(path);
        }
        if is_it {
            return Some(vec![step()]);
        }
    }
    None
}

fn below(value: &Spanned<DeValue<'_>>, span: &Range<usize>) -> Option<Vec<Step>> {
    match value.get_ref() {
        DeValue::Table(table) => path_to(table, span),
        DeValue::Array(all) => all.iter().enumerate().find_map(|(at, it)| {
            let path = below(it, span).or_else(|| (it.span() == *span).then(Vec::new));
            path.map(|mut path| {
                path.insert(0, Step::Index(at));
                path
            })
        }),
        DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {
            None
        }
    }
}

fn node<'t, 'a>(root: &'t mut DeTable<'a>, path: &[Step]) -> Option<&'t mut Spanned<DeValue<'a>>> {
    let (first, rest) = path.split_first()?;
    let Step::Key(first) = first else { return None };
    rest.iter().try_fold(root.get_mut(first.as_str())?, |value, step| match (value.get_mut(), step) {
        (DeValue::Table(table), Step::Key(key)) => table.get_mut(key.as_str()),
        (DeValue::Array(all), Step::Index(at)) => all.get_mut(*at),
        _ => None,
    })
}

fn remove(root: &mut DeTable<'_>, last: &Step, parents: &[Step]) {
    match (node(root, parents).map(Spanned::get_mut), last) {
        (None, Step::Key(key)) => {
            root.remove(key.as_str());
        }
        (Some(DeValue::Table(table)), Step::Key(key)) => {
            table.remove(key.as_str());
        }
        (Some(DeValue::Array(all)), Step::Index(at)) if *at < all.len() => {
            let kept = all.iter().enumerate().filter(|(place, _)| place != at).map(|it| it.1.clone());
            *all = kept.collect();
        }
        _ => {}
    }
}

fn collect_secrets(table: &DeTable<'_>, at: &str, found: &mut Vec<(String, SecretRef)>) {
    for (key, value) in table {
        let path = if at.is_empty() { key.get_ref().to_string() } else { format!("{at}.{}", key.get_ref()) };
        match value.get_ref() {
            DeValue::Array(all) => {
                for it in all.iter().map(Spanned::get_ref) {
                    collect_below(it, &path, found);
                }
            }
            other => collect_below(other, &path, found),
        }
    }
}

fn collect_below(value: &DeValue<'_>, path: &str, found: &mut Vec<(String, SecretRef)>) {
    let DeValue::Table(inner) = value else { return };
    let is_one = inner.len() == 1;
    let text = |name: &str| match inner.get(name).map(Spanned::get_ref) {
        Some(DeValue::String(it)) if is_one => Some(it.to_string()),
        _ => None,
    };
    match (text("env"), text("file")) {
        (Some(name), _) => found.push((path.to_owned(), SecretRef::Env(name))),
        (_, Some(file)) => found.push((path.to_owned(), SecretRef::File(PathBuf::from(file)))),
        (None, None) => collect_secrets(inner, path, found),
    }
}

/// Counts from 1.
fn line(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|it| *it == b'\n').count() + 1
}

/// A text as a basic string of TOML. What JSON escapes, TOML reads, but for the one control character that JSON leaves.
pub(crate) fn toml_string(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
