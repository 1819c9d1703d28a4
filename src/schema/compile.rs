//! From a schema as written to one that validates, or everything that is wrong with it.

use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, ValidationError, ValidationOptions, Validator};
use serde_json::{Value, json};

use super::defaults::Defaults;
use super::lint::{lint, lint_root};
use super::{InputSchema, OutputSchema, declared};
use crate::builder::Problem;
use crate::canonical;

/// URI schemes that make a link run code. RFC 3986 has nothing against them.
const ACTIVE_SCHEMES: [&str; 3] = ["javascript:", "vbscript:", "data:"];

/// Compiles schemas with the same settings.
pub(crate) struct Compiler {
    options: ValidationOptions<'static>,
}

impl Compiler {
    pub(crate) fn new() -> Self {
        let mut options = base().with_pattern_cache(jsonschema::PatternCache::new());
        for name in ["uri", "uri-reference", "iri", "iri-reference"] {
            options = options.with_format(name, passive(name));
        }
        Self { options }
    }

    #[cfg(test)]
    pub(super) fn options(&self) -> &ValidationOptions<'static> {
        &self.options
    }

    /// An input schema of the capability `at`, or nothing and a problem at least.
    pub(crate) fn input(
        &self,
        at: &str,
        document: &Arc<Value>,
        decodes: fn(&Value) -> bool,
        problems: &mut Vec<Problem>,
    ) -> Option<InputSchema> {
        let known = problems.len();
        problems.extend(lint_root(document, at));
        let validator = self.checked(at, "input", document, problems, true);
        let defaults = Defaults::plan(document, document);
        if defaults.is_err() {
            let what = "input schema: its defaults add members without end, or more than 4,096";
            problems.push(Problem::new(at, what, "remove the `default` of the member that contains itself"));
        }
        let validator = validator.filter(|_| problems.len() == known)?;
        Some(InputSchema { document: Arc::clone(document), validator, defaults: defaults.ok()?, decodes })
    }

    /// An output schema of the capability `at`, or nothing and a problem at least.
    pub(crate) fn output(&self, at: &str, document: &Arc<Value>, problems: &mut Vec<Problem>) -> Option<OutputSchema> {
        let validator = self.checked(at, "output", document, problems, false)?;
        Some(OutputSchema { document: Arc::clone(document), validator })
    }

    fn checked(
        &self,
        at: &str,
        side: &'static str,
        document: &Value,
        problems: &mut Vec<Problem>,
        defaults_matter: bool,
    ) -> Option<Validator> {
        let is_format = |name: &str| self.options.is_known_format(Draft::Draft202012, name);
        let found = lint(document, at, side, &is_format);
        let clean = found.problems.is_empty();
        problems.extend(found.problems);
        // What the lint refuses is never compiled: it could recurse without end, or ask for another document.
        let built = if clean { Some(self.options.build(document)) } else { None };
        match built {
            Some(Ok(validator)) => {
                if defaults_matter && !found.defaults.is_empty() {
                    problems.extend(self.check_defaults(at, document, &found.defaults));
                }
                Some(validator)
            }
            Some(Err(error)) => {
                let known = problems.len();
                problems.extend(invalid(at, side, document));
                if problems.len() == known {
                    problems.push(problem(at, side, &error));
                }
                None
            }
            None => {
                problems.extend(invalid(at, side, document));
                None
            }
        }
    }

    fn check_defaults(&self, at: &str, document: &Value, defaults: &[(String, &Value)]) -> Vec<Problem> {
        let Ok(validators) = self.options.build_map(document) else { return Vec::new() }; // it was built before
        let mut problems = Vec::new();
        for (pointer, default) in defaults {
            let Some(validator) = validators.get(&format!("#{pointer}")) else { continue };
            let accepts = |it: &Value| validator.is_valid(it);
            if !canonical::adopt(default).is_ok_and(|it| accepts(&it) || accepts(&completed(document, pointer, it))) {
                let what = format!("input schema: `{pointer}`: its own schema refuses the `default`");
                problems.push(Problem::new(at, what, "correct the `default`, or remove it"));
            }
        }
        problems
    }
}

/// A default with the defaults of its own members.
fn completed(document: &Value, pointer: &str, mut default: Value) -> Value {
    let schema = document.pointer(pointer);
    if let Some(Ok(Some(inner))) = schema.map(|it| Defaults::plan(document, it)) {
        inner.apply(&mut default);
    }
    default
}

fn base() -> ValidationOptions<'static> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .should_validate_formats(true)
        .should_ignore_unknown_formats(false)
        .with_pattern_options(PatternOptions::regex())
        .offline()
}

/// A built-in format, without links that run code.
fn passive(format: &'static str) -> impl Fn(&str) -> bool + Send + Sync + 'static {
    let built_in = base().build(&json!({ "format": format })).ok();
    move |text| {
        let is_active = |scheme: &&str| text.get(..scheme.len()).is_some_and(|it| it.eq_ignore_ascii_case(scheme));
        !ACTIVE_SCHEMES.iter().any(is_active)
            && built_in.as_ref().is_some_and(|it| it.is_valid(&Value::String(text.to_owned())))
    }
}

/// Where the document is no schema at all.
fn invalid(at: &str, side: &str, document: &Value) -> Vec<Problem> {
    match jsonschema::draft202012::meta::validate(document) {
        Ok(()) => Vec::new(),
        Err(error) => vec![problem(at, side, &error)],
    }
}

fn problem(at: &str, side: &str, error: &ValidationError<'_>) -> Problem {
    let pointer = error.instance_path().as_str();
    if pointer.ends_with("/pattern") {
        let what = format!("{side} schema: `{pointer}`: it is not a regular expression that is matched in linear time");
        return Problem::new(at, what, "correct it; look-around and back-references are not supported");
    }
    let place = if pointer.is_empty() { String::new() } else { format!("`{pointer}`: ") };
    Problem::new(
        at,
        format!("{side} schema: {place}{error}"),
        "correct it; JSON Schema 2020-12 says what is allowed there",
    )
}

/// Whether the input always has a string at `pointer`: every step is a declared and required member.
pub(crate) fn has_required_string(document: &Value, pointer: &str) -> bool {
    use declared::{Combine, flatten};
    let Some(steps) = pointer.strip_prefix('/') else { return false };
    let mut facets = flatten(document, vec![document], &Combine::Always);
    for step in steps.split('/') {
        let name = step.replace("~1", "/").replace("~0", "~");
        let required = facets.iter().filter_map(|it| it.get("required")?.as_array()).flatten();
        if !required.into_iter().any(|it| it.as_str() == Some(&name)) {
            return false;
        }
        let found = facets.iter().filter_map(|it| it.get("properties")?.as_object()?.get(&name)).collect();
        facets = flatten(document, found, &Combine::Always);
    }
    facets.iter().any(|it| it.get("type").and_then(Value::as_str) == Some("string"))
}
