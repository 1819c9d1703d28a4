//! The strict parser: a visitor over `serde_json` that tracks where it is, in one pass.

use std::fmt::{self, Write as _};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use super::{MAX_BYTES, MAX_DEPTH, MAX_PROBLEMS, MAX_SAFE};

/// `serde_json` gives objects whose first member has such a name a meaning of its own when it reads them again: what
/// was approved would not be what runs (INV-5).
const RESERVED: &str = "$serde_json::private::";

/// Longer member names are not repeated in a fault's path: no schema declares them, and faults must stay small.
const MAX_NAME: usize = 256;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    Member(String),
    Index(usize),
}

/// Why a text is not acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    NotJson,
    Size,
    Depth,
    Duplicate,
    Nul,
    NumberRange,
    SafeInteger,
    Surrogate,
    Reserved,
}

impl FaultKind {
    /// What stands for the schema keyword in an answer.
    pub(crate) fn keyword(self) -> &'static str {
        match self {
            Self::NotJson => "not JSON",
            Self::Size => "size",
            Self::Depth => "depth",
            Self::Duplicate => "duplicate member",
            Self::Nul => "NUL",
            Self::NumberRange => "number range",
            Self::SafeInteger => "safe integer",
            Self::Surrogate => "lone surrogate",
            Self::Reserved => "reserved member",
        }
    }
}

/// A fault and where it is. The path may hold names from the input: cut it before it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) path: Vec<Segment>,
}

/// At least one fault, and whether the text is well-formed JSON all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Faults {
    pub(crate) all: Vec<Fault>,
    pub(crate) well_formed: bool,
}

impl Faults {
    /// One fault, of the whole.
    pub(crate) fn one(kind: FaultKind, well_formed: bool) -> Self {
        Self { all: vec![Fault { kind, path: Vec::new() }], well_formed }
    }
}

pub(super) fn from_text(text: &str) -> Result<Value, Faults> {
    let mut run = Run::default();
    let mut parser = serde_json::Deserializer::from_str(text);
    let parsed = Seed { run: &mut run, at: &Place::ROOT, depth: 0 }
        .deserialize(&mut parser)
        .and_then(|value| parser.end().map(|()| value));
    let error = match parsed {
        Ok(value) if run.faults.is_empty() => return Ok(value),
        Ok(_) => return Err(Faults { all: run.faults, well_formed: true }),
        Err(error) => error,
    };
    // Only now is it worth a second look at the text, with a parser that checks grammar alone.
    let well_formed = serde_json::from_str::<IgnoredAny>(text).is_ok();
    if !well_formed {
        return Err(Faults::one(FaultKind::NotJson, false));
    }
    if run.faults.is_empty() {
        let kind = if error.to_string().starts_with("number out of range") {
            FaultKind::NumberRange
        } else {
            FaultKind::Surrogate
        };
        run.faults.push(Fault { kind, path: run.broke_at.unwrap_or_default() });
    }
    Err(Faults { all: run.faults, well_formed })
}

pub(super) fn from_value(value: &Value) -> Result<Value, Faults> {
    let mut run = Run::default();
    match (Seed { run: &mut run, at: &Place::ROOT, depth: 0 }).deserialize(value) {
        Ok(value) if run.faults.is_empty() => Ok(value),
        _ => Err(Faults { all: run.faults, well_formed: true }),
    }
}

/// What one pass finds.
#[derive(Default)]
struct Run {
    faults: Vec<Fault>,
    /// The innermost place at which the parser itself gave up.
    broke_at: Option<Vec<Segment>>,
    /// A lower bound of the text's length: an already parsed value has no text that could be measured.
    bytes: usize,
}

impl Run {
    fn fault(&mut self, kind: FaultKind, at: &Place<'_>) {
        if self.faults.len() < MAX_PROBLEMS {
            self.faults.push(Fault { kind, path: at.segments() });
        }
    }

    fn broke(&mut self, at: &Place<'_>) {
        if self.broke_at.is_none() {
            self.broke_at = Some(at.segments());
        }
    }

    /// Counts what a value takes at least, and stops the pass when it is too much.
    fn count<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.bytes += bytes;
        if self.bytes <= MAX_BYTES {
            return Ok(());
        }
        self.fault(FaultKind::Size, &Place::ROOT);
        Err(E::custom("too long"))
    }
}

/// Where the visitor is: a list on the stack, so that keeping track costs nothing.
#[derive(Clone, Copy)]
enum Place<'a> {
    Root,
    Member(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
}

impl Place<'_> {
    const ROOT: Place<'static> = Place::Root;

    fn segments(&self) -> Vec<Segment> {
        let mut out = Vec::new();
        let mut at = self;
        loop {
            at = match at {
                Place::Root => break,
                Place::Member(parent, name) if name.len() > MAX_NAME => {
                    out.clear();
                    parent
                }
                Place::Member(parent, name) => {
                    out.push(Segment::Member((*name).to_owned()));
                    parent
                }
                Place::Index(parent, index) => {
                    out.push(Segment::Index(*index));
                    parent
                }
            };
        }
        out.reverse();
        out
    }
}

struct Seed<'r> {
    run: &'r mut Run,
    at: &'r Place<'r>,
    depth: usize,
}

impl Seed<'_> {
    fn integer<E: serde::de::Error>(self, value: Option<i64>) -> Result<Value, E> {
        self.run.count(1)?;
        // RFC 8785 writes integers as doubles: beyond this two of them would have the same bytes and one hash.
        if let Some(safe) = value.filter(|it| (-MAX_SAFE..=MAX_SAFE).contains(it)) {
            return Ok(safe.into());
        }
        self.run.fault(FaultKind::SafeInteger, self.at);
        Ok(Value::Null)
    }

    fn string<E: serde::de::Error>(self, text: String) -> Result<Value, E> {
        self.run.count(text.len() + 2)?;
        if text.as_bytes().contains(&0) {
            self.run.fault(FaultKind::Nul, self.at);
        }
        Ok(Value::String(text))
    }

    /// One level down, if there is one.
    fn enter<E: serde::de::Error>(&mut self) -> Result<(), E> {
        self.run.count(2)?;
        if self.depth == MAX_DEPTH {
            self.run.fault(FaultKind::Depth, self.at);
            return Err(E::custom("too deep"));
        }
        Ok(())
    }

    fn name<E: serde::de::Error>(&mut self, name: &str) -> Result<(), E> {
        self.run.count(name.len() + 3)?;
        if name.as_bytes().contains(&0) {
            self.run.fault(FaultKind::Nul, self.at);
        }
        if name.starts_with(RESERVED) {
            self.run.fault(FaultKind::Reserved, self.at);
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        self.run.count(1)?;
        Ok(Value::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Value, E> {
        self.run.count(1)?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        self.integer(Some(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        self.integer(i64::try_from(value).ok())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        if value.fract() == 0.0 {
            #[expect(clippy::cast_possible_truncation, reason = "saturates, which is refused like the value itself")]
            return self.integer(Some(value as i64));
        }
        self.run.count(1)?;
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        self.string(text.to_owned())
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Value, E> {
        self.string(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut out = Vec::new();
        loop {
            let at = Place::Index(self.at, out.len());
            let seed = Seed { run: &mut *self.run, at: &at, depth: self.depth + 1 };
            match items.next_element_seed(seed) {
                Ok(Some(item)) => out.push(item),
                Ok(None) => return Ok(Value::Array(out)),
                Err(error) => {
                    self.run.broke(&at);
                    return Err(error);
                }
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut out = Map::new();
        loop {
            // An error in a name is its object's.
            let Some(name) = members.next_key::<String>().inspect_err(|_| self.run.broke(self.at))? else {
                return Ok(Value::Object(out));
            };
            self.name(&name)?;
            let at = Place::Member(self.at, &name);
            let seed = Seed { run: &mut *self.run, at: &at, depth: self.depth + 1 };
            let value = members.next_value_seed(seed).inspect_err(|_| self.run.broke(&at))?;
            match out.entry(name) {
                Entry::Vacant(free) => {
                    free.insert(value);
                }
                // Never last-wins: a policy and a handler could be shown different ones.
                Entry::Occupied(taken) => self.run.fault(FaultKind::Duplicate, &Place::Member(self.at, taken.key())),
            }
        }
    }
}

/// Appends one step to a JSON Pointer.
pub(crate) fn push(pointer: &mut String, segment: &Segment) {
    pointer.push('/');
    match segment {
        Segment::Index(index) => {
            let _ = write!(pointer, "{index}"); // writing to a string does not fail
        }
        Segment::Member(name) => push_name(pointer, name),
    }
}

/// Appends a member's name, escaped.
pub(crate) fn push_name(pointer: &mut String, name: &str) {
    for char in name.chars() {
        match char {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}
