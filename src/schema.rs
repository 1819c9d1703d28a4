//! Compiled JSON Schemas: strict parsing, normalising, validating, decoding, hashing. The only user of `jsonschema`.
//!
//! Draft 2020-12, formats asserted, patterns in linear time, nothing ever fetched.

mod compile;
pub(crate) mod declared;
mod defaults;
pub(crate) mod keywords;
mod lint;
mod near;
mod problems;

use std::sync::Arc;

use jsonschema::Validator;
use serde_json::Value;

pub(crate) use compile::{Compiler, has_required_string};
use defaults::Defaults;
use problems::Problems;

use crate::CapabilityId;
use crate::canonical::{self, FaultKind, Faults};
use crate::caught::caught;
use crate::outcome::Detail;

/// Above this size only the first problem is named: collecting them all takes several hundred bytes for each (INV-12).
const ALL_PROBLEMS_UP_TO: usize = 64 * 1024;

/// Input as it arrived.
pub(crate) enum Given<'a> {
    Text(&'a str),
    Value(&'a Value),
}

/// Input that is valid, normalised, and hashed once (INV-6).
#[derive(Clone, Debug)]
pub(crate) struct Accepted {
    pub(crate) value: Arc<Value>,
    /// RFC 8785 text of `value`.
    pub(crate) canonical: Arc<str>,
    /// `sha256:` and hexadecimal.
    pub(crate) hash: Arc<str>,
    /// The same before defaults were applied (IDM-3).
    pub(crate) given_hash: Arc<str>,
}

/// Why input was refused: up to 64 problems, never a value. `outward` may name an undeclared member that is nearly a
/// declared one; `paths` holds declared paths only, for events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) outward: Vec<Detail>,
    pub(crate) paths: Vec<String>,
    /// Whether it was well-formed JSON all the same (HTTP 422 rather than 400).
    pub(crate) well_formed: bool,
}

/// A compiled input schema.
pub(crate) struct InputSchema {
    document: Arc<Value>,
    validator: Validator,
    defaults: Option<Defaults>,
    decodes: fn(&Value) -> bool,
}

/// A compiled output schema.
pub(crate) struct OutputSchema {
    document: Arc<Value>,
    validator: Validator,
}

impl InputSchema {
    /// Parses, normalises, validates, decodes and hashes. What is accepted is accepted again in its canonical form,
    /// with the same hash (INV-5).
    pub(crate) fn accept(&self, capability: &CapabilityId, given: &Given<'_>) -> Result<Accepted, Refused> {
        let parsed = match given {
            Given::Text(text) => canonical::parse(text),
            Given::Value(value) => canonical::adopt(value),
        };
        let mut value = parsed.map_err(|it| self.faulty(&it))?;
        let given_text = self.canonical(&value)?;
        let completed = self.defaults.as_ref().is_some_and(|it| it.apply(&mut value));
        if completed && !canonical::is_shallow(&value) {
            return Err(self.faulty(&Faults::one(FaultKind::Depth, true)));
        }
        let text = if completed { Some(self.canonical(&value)?) } else { None };
        self.validate(&value, given_text.len())?;

        let given_hash: Arc<str> = canonical::input_hash(capability, &given_text).into();
        let (text, hash) = match text {
            Some(text) => {
                let hash = canonical::input_hash(capability, &text).into();
                (text, hash)
            }
            None => (given_text, Arc::clone(&given_hash)),
        };
        Ok(Accepted { value: Arc::new(value), canonical: text.into(), hash, given_hash })
    }

    /// RFC 8785 text within the cap: the canonical form of a number can be longer than what was given.
    fn canonical(&self, value: &Value) -> Result<String, Refused> {
        match canonical::text(value) {
            Ok(text) if text.len() <= canonical::MAX_BYTES => Ok(text),
            Ok(_) | Err(_) => Err(self.faulty(&Faults::one(FaultKind::Size, true))),
        }
    }

    fn validate(&self, value: &Value, size: usize) -> Result<(), Refused> {
        let mut problems = Problems::new(&self.document);
        if !self.validator.is_valid(value) {
            if size <= ALL_PROBLEMS_UP_TO {
                self.validator.iter_errors(value).for_each(|it| problems.error(value, &it));
            } else if let Err(first) = self.validator.validate(value) {
                problems.error(value, &first);
            }
        } else if caught(|| (self.decodes)(value)) == Ok(true) {
            return Ok(());
        } else {
            problems.whole("type"); // a type can demand what its schema does not say
        }
        Err(refused(problems, true))
    }

    fn faulty(&self, faults: &Faults) -> Refused {
        let mut problems = Problems::new(&self.document);
        faults.all.iter().for_each(|it| problems.fault(it));
        refused(problems, faults.well_formed)
    }
}

fn refused(problems: Problems<'_>, well_formed: bool) -> Refused {
    let problems = problems.settle();
    Refused { outward: problems.outward(), paths: problems.paths(), well_formed }
}

impl OutputSchema {
    /// Where the output breaks its schema, for the log: keywords and paths, never values.
    pub(crate) fn check(&self, output: &Value) -> Result<(), Vec<String>> {
        if self.validator.is_valid(output) {
            return Ok(());
        }
        let mut problems = Problems::new(&self.document);
        // The first is enough for the log, and an output has no bound yet.
        if let Err(first) = self.validator.validate(output) {
            problems.error(output, &first);
        }
        Err(problems.settle().lines())
    }
}

#[cfg(test)]
mod tests;
