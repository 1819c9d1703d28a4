//! A TOML table, read field by field: whatever is missing, of another sort or never asked for is a problem that names the
//! file, the line and the field, and the reading goes on, so that every problem is told at once. Values are never repeated:
//! what stands in the wrong place may be a secret.

use std::time::Duration;

use toml::de::{DeTable, DeValue};

use crate::builder::Problem;
use crate::duration;

/// One file, and what is wrong with it so far.
pub(super) struct Found<'t> {
    /// How problems name it.
    name: String,
    text: &'t str,
    problems: Vec<(usize, Problem)>,
}

impl<'t> Found<'t> {
    pub(super) fn new(name: String, text: &'t str) -> Self {
        Self { name, text, problems: Vec::new() }
    }

    /// Notes a problem of a field that stands at this byte.
    pub(super) fn problem(&mut self, at: usize, field: &str, what: impl AsRef<str>, fix: impl Into<String>) {
        let line = self.line(at);
        let place = if field.is_empty() { String::new() } else { format!("`{field}`: ") };
        let problem = Problem::new(format!("{}:{line}", self.name), format!("{place}{}", what.as_ref()), fix);
        self.problems.push((line, problem));
    }

    pub(super) fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|it| *it == b'\n').count() + 1
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.problems.len()
    }

    pub(super) fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// All of them, from the top of the file.
    pub(super) fn into_problems(mut self) -> Vec<Problem> {
        self.problems.sort_by_key(|(line, _)| *line);
        self.problems.into_iter().map(|(_, it)| it).collect()
    }
}

/// A value, its field's whole name, and where it is.
#[derive(Clone)]
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) field: String,
    pub(super) at: usize,
}

impl<T> Placed<T> {
    /// Notes a problem of this field.
    pub(super) fn problem(&self, found: &mut Found<'_>, what: impl AsRef<str>, fix: impl Into<String>) {
        found.problem(self.at, &self.field, what, fix);
    }

    fn with<U>(&self, value: U) -> Placed<U> {
        Placed { value, field: self.field.clone(), at: self.at }
    }
}

/// A value of TOML as something of ours.
pub(super) trait Read: Sized {
    /// What it must be, for people.
    const SORT: &'static str;

    fn read(value: &DeValue<'_>) -> Option<Self>;
}

impl Read for String {
    const SORT: &'static str = "a string";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        value.as_str().map(Into::into)
    }
}

impl Read for bool {
    const SORT: &'static str = "`true` or `false`";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        value.as_bool()
    }
}

impl Read for u32 {
    const SORT: &'static str = "a whole number, not negative";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        let digits = value.as_integer()?;
        u32::from_str_radix(digits.as_str(), digits.radix()).ok()
    }
}

impl Read for Duration {
    const SORT: &'static str = duration::SORT;

    fn read(value: &DeValue<'_>) -> Option<Self> {
        duration::parse(value.as_str()?)
    }
}

impl Read for Vec<String> {
    const SORT: &'static str = "a list of strings";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        value.as_array()?.iter().map(|it| it.get_ref().as_str().map(Into::into)).collect()
    }
}

/// A table whose fields are taken one by one.
pub(super) struct Fields<'t> {
    /// `handler.`, or nothing for the file's own fields.
    prefix: String,
    at: usize,
    left: DeTable<'t>,
    asked: Vec<&'static str>,
}

impl<'t> Fields<'t> {
    pub(super) fn root(table: DeTable<'t>) -> Self {
        Self { prefix: String::new(), at: 0, left: table, asked: Vec::new() }
    }

    /// The table of a field, if it is one.
    pub(super) fn of(given: Placed<DeValue<'t>>, found: &mut Found<'_>) -> Option<Self> {
        match given.value {
            DeValue::Table(left) => {
                Some(Self { prefix: format!("{}.", given.field), at: given.at, left, asked: Vec::new() })
            }
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => {
                found.problem(given.at, &given.field, "it must be a table", "write it as `{ .. }`");
                None
            }
        }
    }

    /// The table's own name: `handler`.
    pub(super) fn name(&self) -> &str {
        self.prefix.trim_end_matches('.')
    }

    /// Where the table itself is.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// A field's value as it stands there.
    pub(super) fn raw(&mut self, name: &'static str) -> Option<Placed<DeValue<'t>>> {
        self.asked.push(name);
        let value = self.left.remove(name)?;
        let at = value.span().start;
        Some(Placed { value: value.into_inner(), field: format!("{}{name}", self.prefix), at })
    }

    /// A field that may be absent.
    pub(super) fn optional<T: Read>(&mut self, name: &'static str, found: &mut Found<'_>) -> Option<Placed<T>> {
        let given = self.raw(name)?;
        let read = T::read(&given.value);
        if read.is_none() {
            given.problem(found, format!("it must be {}", T::SORT), "correct it");
        }
        read.map(|it| given.with(it))
    }

    /// A field that must be there; `fix` says what to write.
    pub(super) fn required<T: Read>(
        &mut self,
        name: &'static str,
        fix: &str,
        found: &mut Found<'_>,
    ) -> Option<Placed<T>> {
        self.demand(name, fix, found);
        self.optional(name, found)
    }

    /// Notes a problem if the field is not there.
    pub(super) fn demand(&self, name: &str, fix: &str, found: &mut Found<'_>) {
        if !self.left.contains_key(name) {
            found.problem(self.at, &format!("{}{name}", self.prefix), "it is missing", fix);
        }
    }

    /// The table of a field.
    pub(super) fn table(&mut self, name: &'static str, found: &mut Found<'_>) -> Option<Self> {
        Self::of(self.raw(name)?, found)
    }

    /// Every field of a table whose names are the author's to choose.
    pub(super) fn open(self) -> impl Iterator<Item = (String, Placed<DeValue<'t>>)> {
        let prefix = self.prefix;
        self.left.into_iter().map(move |(name, value)| {
            let (name, at) = (name.into_inner().into_owned(), value.span().start);
            let field = format!("{prefix}{name}");
            (name, Placed { value: value.into_inner(), field, at })
        })
    }

    /// What nobody asked for does not exist: it is a mistake, never ignored.
    pub(super) fn end(self, found: &mut Found<'_>) {
        for name in self.left.keys() {
            let near = self.asked.iter().map(|it| (strsim::osa_distance(it, name.get_ref()), it));
            let near = near.filter(|(distance, _)| *distance <= 2).min_by_key(|(distance, _)| *distance);
            let fix = match near {
                Some((_, near)) => format!("did you mean `{near}`?"),
                None => format!("remove it; there are: {}", self.asked.join(", ")),
            };
            found.problem(
                name.span().start,
                &format!("{}{}", self.prefix, name.get_ref()),
                "there is no such field",
                fix,
            );
        }
    }
}
