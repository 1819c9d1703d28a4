//! From what is wrong with a value to what may be said about it: declared paths and keywords, never a value (INV-8,
//! INV-9). Undeclared names are payload too.

use std::collections::BTreeSet;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use super::declared::{self, Facets};
use super::near::nearest;
use crate::canonical::{Fault, MAX_PROBLEMS, Segment, push, push_name};
use crate::outcome::Detail;

/// Problems of one value, each once, in a stable order.
pub(super) struct Problems<'a> {
    document: &'a Value,
    found: BTreeSet<Entry>,
    /// Declared members that nothing evaluated: an echo of a choice that failed, unless none did.
    echoes: BTreeSet<Entry>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    path: String,
    keyword: String,
    nearest: Option<String>,
    /// The declared part of `path`.
    declared: String,
}

/// The deepest declared place on a path.
struct Located<'a> {
    path: String,
    facets: Facets<'a>,
    /// Whether that is the whole path.
    whole: bool,
}

impl<'a> Problems<'a> {
    pub(super) fn new(document: &'a Value) -> Self {
        Self { document, found: BTreeSet::new(), echoes: BTreeSet::new() }
    }

    /// What is wrong with the text.
    pub(super) fn fault(&mut self, fault: &Fault) {
        let at = self.locate(fault.path.iter().cloned());
        self.add(at.path, fault.kind.keyword());
    }

    /// What breaks the schema. `value` tells an index from a member whose name is a number.
    pub(super) fn error(&mut self, value: &Value, error: &ValidationError<'_>) {
        let at = self.locate(segments(value, error.instance_path().as_str()));
        let keyword = error.kind().keyword();
        match error.kind() {
            ValidationErrorKind::Required { property } => {
                // Its name comes from the schema. Below an undeclared member it would say where that is.
                let name = property.as_str().filter(|_| at.whole);
                self.add(name.map_or_else(|| at.path.clone(), |it| join(&at.path, it)), keyword);
            }
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                for name in unexpected {
                    self.undeclared(&at, name, keyword);
                }
            }
            ValidationErrorKind::FalseSchema => self.add(at.path, "false"),
            ValidationErrorKind::OneOfNotValid { context } | ValidationErrorKind::AnyOf { context } => {
                self.add(at.path, keyword);
                if let Some(branch) = intended(context, error.instance_path().as_str()) {
                    for inner in branch {
                        self.error(value, inner);
                    }
                }
            }
            _ => self.add(at.path, keyword),
        }
    }

    /// The whole value is wrong.
    pub(super) fn whole(&mut self, keyword: &str) {
        self.add(String::new(), keyword);
    }

    fn undeclared(&mut self, at: &Located<'_>, name: &str, keyword: &str) {
        if at.whole && declared::names(&at.facets).any(|it| it == name) {
            let path = join(&at.path, name);
            self.echoes.insert(Entry { declared: path.clone(), path, keyword: keyword.to_owned(), nearest: None });
            return;
        }
        let Some(near) = nearest(declared::names(&at.facets), name).filter(|_| at.whole) else {
            return self.add(at.path.clone(), keyword);
        };
        self.insert(Entry {
            path: join(&at.path, name),
            keyword: keyword.to_owned(),
            nearest: Some(near.to_owned()),
            declared: at.path.clone(),
        });
    }

    fn add(&mut self, path: String, keyword: &str) {
        self.insert(Entry { declared: path.clone(), path, keyword: keyword.to_owned(), nearest: None });
    }

    /// The first in order are kept, however many there are (INV-12).
    fn insert(&mut self, entry: Entry) {
        self.found.insert(entry);
        if self.found.len() > MAX_PROBLEMS {
            self.found.pop_last();
        }
    }

    fn locate(&self, segments: impl Iterator<Item = Segment>) -> Located<'a> {
        let mut at = Located { path: String::new(), facets: declared::root(self.document), whole: true };
        for segment in segments {
            at.facets = match &segment {
                Segment::Index(index) => declared::element(self.document, &at.facets, *index),
                Segment::Member(name) => {
                    let found = declared::member(self.document, &at.facets, name);
                    if found.is_empty() {
                        return Located { whole: false, ..at };
                    }
                    found
                }
            };
            push(&mut at.path, &segment);
        }
        at
    }

    /// All in order, without echoes of what is named anyway.
    pub(super) fn settle(mut self) -> Self {
        let has_choice = |it: &Entry| matches!(it.keyword.as_str(), "oneOf" | "anyOf");
        if !self.found.iter().any(has_choice) {
            for echo in std::mem::take(&mut self.echoes) {
                self.insert(echo);
            }
        }
        self
    }

    /// What a caller may read.
    pub(super) fn outward(&self) -> Vec<Detail> {
        let details = self.found.iter().map(|it| Detail::Input {
            path: it.path.clone(),
            keyword: it.keyword.clone(),
            nearest: it.nearest.clone(),
        });
        details.collect()
    }

    /// Declared paths, for events.
    pub(super) fn paths(&self) -> Vec<String> {
        let paths: BTreeSet<&String> = self.found.iter().map(|it| &it.declared).collect();
        paths.into_iter().cloned().collect()
    }

    /// For the log.
    pub(super) fn lines(&self) -> Vec<String> {
        let lines: BTreeSet<String> =
            self.found.iter().map(|it| format!("`{}`: {}", it.declared, it.keyword)).collect();
        lines.into_iter().collect()
    }
}

/// The one branch whose kind fits: all others fail on a tag (`const`, `enum`) or a type, here or one level down.
fn intended<'e>(context: &'e [Vec<ValidationError<'static>>], here: &str) -> Option<&'e Vec<ValidationError<'static>>> {
    let is_other_kind = |error: &ValidationError<'_>| {
        let below = error.instance_path().as_str().strip_prefix(here).is_some_and(|it| it.matches('/').count() <= 1);
        match error.kind() {
            ValidationErrorKind::Constant { .. } | ValidationErrorKind::Enum { .. } => below,
            ValidationErrorKind::Type { .. } => error.instance_path().as_str() == here,
            _ => false,
        }
    };
    let mut fitting = context.iter().filter(|branch| !branch.iter().any(is_other_kind));
    let found = fitting.next()?;
    fitting.next().is_none().then_some(found)
}

fn join(path: &str, name: &str) -> String {
    let mut out = format!("{path}/");
    push_name(&mut out, name);
    out
}

/// The steps of `pointer` into `value`.
fn segments<'v>(value: &'v Value, pointer: &'v str) -> impl Iterator<Item = Segment> + 'v {
    let mut at = Some(value);
    pointer.split('/').skip(1).map(move |escaped| {
        let name = escaped.replace("~1", "/").replace("~0", "~");
        let index = at.and_then(Value::as_array).and_then(|_| name.parse().ok());
        at = match index {
            Some(index) => at.and_then(|it| it.get::<usize>(index)),
            None => at.and_then(|it| it.get(&name)),
        };
        index.map_or(Segment::Member(name), Segment::Index)
    })
}
