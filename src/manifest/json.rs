//! JSON in a manifest: written as TOML, as JSON text, or in a file beside it.

use std::path::Path;

use serde_json::{Map, Number, Value};
use toml::de::DeValue;

use super::fields::{Fields, Found, Placed};
use crate::canonical;

/// The schema of one side: `NAME` as a table or as JSON text, or `NAME_file` as a path from the manifest.
pub(super) fn schema(
    fields: &mut Fields<'_>,
    (name, file): (&'static str, &'static str),
    directory: &Path,
    found: &mut Found<'_>,
) -> Option<Value> {
    let at = fields.at();
    match (fields.raw(name), fields.optional::<String>(file, found)) {
        (Some(here), Some(there)) => {
            there.problem(found, format!("`{}` says it too", here.field), "keep one of the two");
            None
        }
        (Some(here), None) => match &here.value {
            DeValue::String(text) => parsed(text, &here, found),
            other => match value(other) {
                Ok(value) => Some(value),
                Err(what) => {
                    here.problem(found, what, "write it as JSON can say it");
                    None
                }
            },
        },
        (None, Some(there)) => match super::source::text(&directory.join(&there.value)) {
            Ok(text) => parsed(&text, &there, found),
            Err(error) => {
                there.problem(found, error.to_string(), "name a file of JSON, from the manifests' directory");
                None
            }
        },
        (None, None) => {
            let fix = format!("write a JSON Schema as `{name} = {{ .. }}`, or name its file with `{file}`");
            found.problem(at, name, "it is missing", fix);
            None
        }
    }
}

fn parsed<T>(text: &str, from: &Placed<T>, found: &mut Found<'_>) -> Option<Value> {
    match canonical::parse(text) {
        Ok(value) => Some(value),
        Err(faults) => {
            let kinds: Vec<&str> = faults.all.iter().map(|it| it.kind.keyword()).collect();
            let what = format!("its text is not strict JSON: {}", kinds.join(", "));
            from.problem(found, what, "write JSON without repeated members");
            None
        }
    }
}

/// TOML as JSON, or what JSON cannot say.
fn value(given: &DeValue<'_>) -> Result<Value, &'static str> {
    Ok(match given {
        DeValue::String(text) => Value::String(text.clone().into_owned()),
        DeValue::Integer(digits) => {
            let number = i64::from_str_radix(digits.as_str(), digits.radix());
            Value::Number(number.map_err(|_| "it holds a number that is too large")?.into())
        }
        DeValue::Float(digits) => {
            let number = digits.as_str().parse().ok().and_then(Number::from_f64);
            Value::Number(number.ok_or("it holds a number that JSON has not")?)
        }
        DeValue::Boolean(it) => Value::Bool(*it),
        DeValue::Datetime(_) => return Err("it holds a date, which JSON has not: write it as a string"),
        DeValue::Array(items) => Value::Array(items.iter().map(|it| value(it.get_ref())).collect::<Result<_, _>>()?),
        DeValue::Table(members) => {
            let member = |(name, it): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
                let name: &toml::de::DeString<'_> = name.get_ref();
                Ok((name.clone().into_owned(), value(it.get_ref())?))
            };
            Value::Object(members.iter().map(member).collect::<Result<Map<_, _>, &'static str>>()?)
        }
    })
}
