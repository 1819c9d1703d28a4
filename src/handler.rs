//! What an application writes: handlers and their errors.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::invocation::Invocation;
use crate::schema::keywords;
use crate::{BoxError, BoxFuture};

/// An error that a capability announces: callers see its code and its message.
///
/// Make it a `const`, name it in [`crate::CapabilityBuilder::error`], and return it with `?`:
///
/// ```
/// # use countersign::{DeclaredError, HandlerError};
/// const NOT_ELIGIBLE: DeclaredError = DeclaredError::new("NOT_ELIGIBLE", "The order cannot be refunded.");
///
/// fn check(paid: Option<u64>) -> Result<u64, HandlerError> {
///     Ok(paid.ok_or(NOT_ELIGIBLE)?)
/// }
/// # assert!(check(None).is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeclaredError {
    /// `UPPER_SNAKE_CASE`, stable.
    pub code: Cow<'static, str>,
    /// One sentence for the caller.
    pub message: Cow<'static, str>,
}

impl DeclaredError {
    /// A code and the sentence that callers read.
    pub const fn new(code: &'static str, message: &'static str) -> Self {
        Self { code: Cow::Borrowed(code), message: Cow::Borrowed(message) }
    }

    /// The same code with another sentence, which must be safe to show. Callers read its first 2,000 characters.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Cow::Owned(message.into());
        self
    }
}

/// How a handler failed. Any error converts into it with `?`, and callers learn nothing of such an error.
///
/// It does not implement [`std::error::Error`] itself, so that this conversion can exist.
#[derive(Debug)]
pub struct HandlerError(pub(crate) Kind);

#[derive(Debug)]
pub(crate) enum Kind {
    Declared(DeclaredError),
    Unauthenticated,
    Forbidden,
    NotExecuted(BoxError),
    Unknown(BoxError),
    Other(BoxError),
}

impl HandlerError {
    /// Nobody is signed in, or the wrong way.
    pub fn unauthenticated() -> Self {
        Self(Kind::Unauthenticated)
    }

    /// The operation may not happen for this actor.
    pub fn forbidden() -> Self {
        Self(Kind::Forbidden)
    }

    /// **Nothing happened**, and an identical try may work: frees the key and allows a retry.
    pub fn not_executed(cause: impl Into<BoxError>) -> Self {
        Self(Kind::NotExecuted(cause.into()))
    }

    /// **Nobody knows whether it happened**: what was asked of another system got no answer. A write that is not declared
    /// idempotent stays unknown until somebody finds out, and its key answers `OUTCOME_UNKNOWN` (INV-11).
    pub fn unknown(cause: impl Into<BoxError>) -> Self {
        Self(Kind::Unknown(cause.into()))
    }

    /// Anything else. The caller reads "The operation failed."; the cause is for the application's middleware, which knows
    /// what of it may be written down: the engine logs that there was one.
    pub fn other(cause: impl Into<BoxError>) -> Self {
        Self(Kind::Other(cause.into()))
    }

    /// What an error was made of, for middleware that logs it: the engine never logs an application's cause, since nobody
    /// but the application knows what of it may be written down (INV-9).
    pub fn cause(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Kind::NotExecuted(cause) | Kind::Unknown(cause) | Kind::Other(cause) => Some(&**cause),
            Kind::Declared(_) | Kind::Unauthenticated | Kind::Forbidden => None,
        }
    }

    /// The same error, whose cause was found by the engine itself.
    #[cfg(feature = "http")]
    pub(crate) fn found_by_engine(self) -> Self {
        Self(match self.0 {
            Kind::NotExecuted(cause) => Kind::NotExecuted(Found(cause).into()),
            Kind::Unknown(cause) => Kind::Unknown(Found(cause).into()),
            Kind::Other(cause) => Kind::Other(Found(cause).into()),
            kind @ (Kind::Declared(_) | Kind::Unauthenticated | Kind::Forbidden) => kind,
        })
    }
}

/// A cause that the engine itself found. It says nothing of a payload, so it is logged.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Found(pub(crate) BoxError);

impl<E: std::error::Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(cause: E) -> Self {
        Self::other(cause)
    }
}

impl From<DeclaredError> for HandlerError {
    fn from(error: DeclaredError) -> Self {
        Self(Kind::Declared(error))
    }
}

/// An application's own error type for handlers: lists the codes that it may show, and turns into one.
///
/// A capability whose handler returns it declares its codes without being told.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a capability handler",
    label = "this handler returns `Result<_, {Self}>`",
    note = "return `Result<_, HandlerError>`: `?` converts any error into it",
    note = "or implement `countersign::IntoHandlerError` for `{Self}` to show callers codes of your own"
)]
pub trait IntoHandlerError: Send + 'static {
    /// Every code that callers may see.
    const DECLARED: &'static [DeclaredError] = &[];

    /// What the engine works with.
    fn into_handler_error(self) -> HandlerError;
}

impl IntoHandlerError for HandlerError {
    fn into_handler_error(self) -> HandlerError {
        self
    }
}

impl IntoHandlerError for std::convert::Infallible {
    fn into_handler_error(self) -> HandlerError {
        match self {}
    }
}

const UNDECODABLE: &str = "the input does not decode as the type that the handler takes";

/// A handler with its types erased: JSON in, JSON out.
pub(crate) type Procedure<C> =
    Arc<dyn Fn(Invocation<C>, Arc<Value>) -> BoxFuture<Result<Value, HandlerError>> + Send + Sync>;

pub(crate) fn erase<C, F, I, O, E, Fut>(handler: F) -> Procedure<C>
where
    C: Send + Sync + 'static,
    F: Fn(Invocation<C>, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, E>> + Send + 'static,
    I: DeserializeOwned,
    O: Serialize,
    E: IntoHandlerError,
{
    Arc::new(move |cx, input| {
        // Each attempt decodes its own copy: what a handler does to its input changes nothing else (INV-6).
        let ran = match decode::<I>(&input) {
            Ok(input) => handler(cx, input),
            // The schema stage decoded it before. The decoder's message would repeat the value (INV-9).
            Err(_) => return Box::pin(std::future::ready(Err(HandlerError::not_executed(UNDECODABLE)))),
        };
        Box::pin(async move {
            let output = ran.await.map_err(IntoHandlerError::into_handler_error)?;
            Ok(serde_json::to_value(output)?)
        })
    })
}

/// Whether `input` decodes: part of the schema stage, since a schema cannot say all that a type demands.
pub(crate) fn decodes<I: DeserializeOwned>(input: &Value) -> bool {
    decode::<I>(input).is_ok()
}

/// `()` takes nothing, which JSON Schema and MCP can only say as an empty object.
pub(crate) fn decode<I: DeserializeOwned>(input: &Value) -> Result<I, serde_json::Error> {
    if input.as_object().is_some_and(serde_json::Map::is_empty) {
        return I::deserialize(input).or_else(|error| I::deserialize(&Value::Null).map_err(|_| error));
    }
    I::deserialize(input)
}

/// The schema of what a handler takes: an object, closed at the root unless the type says otherwise.
pub(crate) fn input_schema<I: JsonSchema>() -> Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<I>().to_value();
    standardise(&mut schema);
    forget_name(&mut schema);
    close_root(&mut schema);
    schema
}

/// The schema of what a handler gives: as serde writes it, which is not always as serde reads it.
pub(crate) fn output_schema<O: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<O>().to_value();
    standardise(&mut schema);
    forget_name(&mut schema);
    schema
}

/// Renaming a Rust type is no change of the contract.
fn forget_name(schema: &mut Value) {
    schema.as_object_mut().and_then(|it| it.remove("title"));
}

/// schemars writes `format: uint32` without bounds. No standard knows the format, so a strict validator refuses it,
/// and without bounds 2^32 would pass the schema and fail to decode. Beyond 2^53-1 no JSON integer is safe.
fn standardise(schema: &mut Value) {
    keywords::for_each_mut(schema, &mut |members| {
        let Some(format) = members.get("format").and_then(Value::as_str) else { return };
        if let Some((minimum, maximum)) = bounds(format) {
            members.remove("format");
            members.entry("minimum").or_insert(minimum.into());
            members.entry("maximum").or_insert(maximum.into());
        } else if matches!(format, "float" | "double") {
            members.remove("format");
        }
    });
}

/// The least and the largest value of an integer format of schemars, as far as JSON carries it.
fn bounds(format: &str) -> Option<(i64, i64)> {
    const SAFE: i64 = (1 << 53) - 1;
    Some(match format {
        "int8" => (i64::from(i8::MIN), i64::from(i8::MAX)),
        "int16" => (i64::from(i16::MIN), i64::from(i16::MAX)),
        "int32" => (i64::from(i32::MIN), i64::from(i32::MAX)),
        "int64" | "int128" | "int" => (-SAFE, SAFE),
        "uint8" => (0, i64::from(u8::MAX)),
        "uint16" => (0, i64::from(u16::MAX)),
        "uint32" => (0, i64::from(u32::MAX)),
        "uint64" | "uint128" | "uint" => (0, SAFE),
        _ => return None,
    })
}

/// Makes `()` an empty object, and closes an object that does not say whether it is open: serde would drop unknown
/// members silently. `additionalProperties` does not see through `oneOf` and friends, `unevaluatedProperties` does.
fn close_root(schema: &mut Value) {
    let Some(root) = schema.as_object_mut() else { return };
    let composed = ["allOf", "anyOf", "oneOf", "$ref"].iter().any(|it| root.contains_key(*it));
    match root.get("type").and_then(Value::as_str) {
        Some("null" | "object") => {}
        None if composed => {}
        _ => return, // not an object: registration reports it
    }
    root.insert("type".into(), "object".into());
    if !root.contains_key("additionalProperties") && !root.contains_key("unevaluatedProperties") {
        root.insert(if composed { "unevaluatedProperties" } else { "additionalProperties" }.into(), false.into());
    }
}
