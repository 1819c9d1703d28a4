//! Queries, as strictly as bodies: what is not known is refused, so that a misspelled filter is no wider answer.

use url::form_urlencoded;

use super::problem::Problem;
use crate::Timestamp;

/// The parameters of a query.
#[derive(Debug)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Takes a query apart. `names` says which parameters there are.
    pub(crate) fn parse(text: Option<&str>, names: &[&str]) -> Result<Self, Problem> {
        let given: Vec<_> = form_urlencoded::parse(text.unwrap_or_default().as_bytes()).into_owned().collect();
        // An unknown name can be payload: it is not repeated.
        if given.iter().any(|(name, _)| !names.contains(&name.as_str())) {
            return Err(Problem::one("", "additionalProperties", None));
        }
        Ok(Self(given))
    }

    /// Every value of a parameter that may be repeated.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|it| it.0 == name).map(|it| it.1.clone()).collect()
    }

    /// The value of a parameter that may be there once.
    pub(crate) fn one(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut found = self.0.iter().filter(|it| it.0 == name).map(|it| it.1.as_str());
        match (found.next(), found.next()) {
            (value, None) => Ok(value),
            (_, Some(_)) => Err(Problem::one(&format!("/{name}"), "duplicate member", None)),
        }
    }

    /// A whole number within bounds.
    pub(crate) fn number(&self, name: &str, least: i64, most: i64) -> Result<Option<i64>, Problem> {
        let digits = |it: &str| it.bytes().all(|it| it.is_ascii_digit()).then(|| it.parse().ok()).flatten();
        self.read(name, |it| digits(it).filter(|it| (least..=most).contains(it)))
    }

    /// A time (RFC 3339).
    pub(crate) fn time(&self, name: &str) -> Result<Option<Timestamp>, Problem> {
        self.read(name, Timestamp::parse)
    }

    /// What can be the name of something on record: 1 to 512 bytes without control characters.
    pub(crate) fn name(&self, name: &str) -> Result<Option<String>, Problem> {
        let is_name = |it: &str| (1..=512).contains(&it.len()) && !it.chars().any(char::is_control);
        self.read(name, |it| is_name(it).then(|| it.to_owned()))
    }

    /// The same, read by a function; what it does not take is refused.
    pub(crate) fn read<T>(&self, name: &str, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Problem> {
        let Some(text) = self.one(name)? else { return Ok(None) };
        read(text).map(Some).ok_or_else(|| Problem::one(&format!("/{name}"), "enum", None))
    }
}
