//! `/openapi.json`: the API's description (OpenAPI 3.1), made from the code that answers: statuses from the one mapping of
//! errors, schemas from the types that are serialised. The same for everybody: it names no capability.

mod operations;
mod schemas;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use utoipa::openapi::path::{HttpMethod, Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::Response as Answer;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, Header, InfoBuilder, Object, ObjectBuilder, OpenApiBuilder, PathItem,
    PathsBuilder, Ref, RefOr, Required, ResponseBuilder, Schema, Type,
};

use self::operations::{Body, Described, Given, Kind, OPERATIONS, Where};
use super::problem::status;
use crate::outcome::{Detail, Error, ErrorCode};

/// Serialised once.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| described().to_string());

/// `GET /openapi.json`
pub(super) async fn document() -> Response {
    ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "public, max-age=300")], DOCUMENT.as_str()).into_response()
}

/// The whole description.
fn described() -> Value {
    let paths = OPERATIONS
        .iter()
        .fold(PathsBuilder::new(), |paths, it| paths.path(it.path, PathItem::new(it.method.clone(), operation(it))));
    let about = "Lets AI agents request an application's capabilities, and people decide about them. Every call passes one \
                 pipeline; every error is `application/problem+json` with a stable code.";
    let info = InfoBuilder::new().title("Countersign").version(env!("CARGO_PKG_VERSION")).description(Some(about));
    let token = "A static token, or a JWT of a configured issuer. Without one a request is a party without an actor, and \
                 whatever it asks for is refused on record.";
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(token)).build();
    let components =
        all_problems(headers(ComponentsBuilder::new())).security_scheme("bearer", SecurityScheme::Http(bearer));
    let description = OpenApiBuilder::new().info(info).paths(paths).components(Some(components.build())).build();
    let mut document = serde_json::to_value(description).unwrap_or_default();
    document["components"]["schemas"] = Value::Object(schemas::all());
    document
}

fn operation(it: &Described) -> Operation {
    let mut operation = OperationBuilder::new().operation_id(Some(it.id)).tag(it.tag).summary(Some(it.summary));
    let headers = if it.is_open { &[] } else { operations::HEADERS };
    for given in headers.iter().chain(it.parameters) {
        operation = operation.parameter(parameter(given));
    }
    operation = match it.body {
        Body::None => operation,
        Body::Optional(schema) => operation.request_body(Some(body(schema, Required::False))),
        Body::Required(schema) => operation.request_body(Some(body(schema, Required::True))),
    };
    operation = if it.is_open {
        operation.security(SecurityRequirement::default())
    } else {
        operation.security(SecurityRequirement::new("bearer", [""; 0]))
    };
    for (status, media, schema, about) in it.answers {
        let answer = marked(ResponseBuilder::new().description(*about), it, *status);
        let content = ContentBuilder::new().schema(Some(reference(schema))).build();
        operation = operation.response(status.to_string(), answer.content(*media, content).build());
    }
    for (status, codes) in problems(it) {
        let reference = Ref::from_response_name(shared(it, status, &codes));
        operation = operation.response(status.to_string(), RefOr::<Answer>::Ref(reference));
    }
    operation.build()
}

/// Every status that its errors have, with their codes.
fn problems(it: &Described) -> BTreeMap<u16, Vec<&'static str>> {
    let mut found = BTreeMap::<u16, Vec<&'static str>>::new();
    for code in it.codes {
        for status in statuses(*code) {
            found.entry(status).or_default().push(code.as_str());
        }
    }
    for transport in it.transport() {
        found.entry(transport.status().as_u16()).or_default().push(transport.as_str());
    }
    found
}

/// A code has another status with some details.
fn statuses(code: ErrorCode) -> Vec<u16> {
    let of = |details| status(&Error { code, message: String::new(), retryable: false, details }).as_u16();
    let no_json = Detail::Input { path: String::new(), keyword: "not JSON".into(), nearest: None };
    let declared = Detail::Code { code: String::new() };
    let mut all = vec![of(Vec::new()), of(vec![no_json]), of(vec![declared])];
    all.sort_unstable();
    all.dedup();
    all
}

/// The name of an answer: operations that end alike say so once.
fn shared(it: &Described, status: u16, codes: &[&str]) -> String {
    let words = |it: &&str| it.split('_').map(capitalised).collect::<String>();
    let more = if it.problem_has_more(status) { ".WithProblems" } else { "" };
    let shown = if codes.len() > 4 { it.id.into() } else { codes.iter().map(words).collect::<Vec<_>>().join(".") };
    format!("{status}.{shown}{more}")
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().into_iter().chain(letters.map(|it| it.to_ascii_lowercase())).collect()
}

/// Every answer that is a problem, by name.
fn all_problems(components: ComponentsBuilder) -> ComponentsBuilder {
    OPERATIONS.iter().fold(components, |components, it| {
        problems(it).into_iter().fold(components, |components, (status, codes)| {
            components.response(shared(it, status, &codes), problem(it, status, &codes))
        })
    })
}

fn problem(it: &Described, status: u16, codes: &[&str]) -> Answer {
    let schema = if it.problem_has_more(status) { "PolicyProblems" } else { "Problem" };
    let content = ContentBuilder::new().schema(Some(reference(schema))).build();
    let answer = marked(ResponseBuilder::new().description(codes.join(", ")), it, status);
    answer.content("application/problem+json", content).build()
}

/// With the headers that it has.
fn marked(answer: ResponseBuilder, it: &Described, status: u16) -> ResponseBuilder {
    let mut names = vec!["X-Request-Id"];
    match StatusCode::from_u16(status) {
        Ok(StatusCode::UNAUTHORIZED) => names.push("WWW-Authenticate"),
        Ok(StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::CONFLICT) => {
            names.push("Retry-After");
        }
        Ok(StatusCode::ACCEPTED) => names.push("Location"),
        _ => {}
    }
    if it.runs && matches!(status, 200 | 202) {
        names.extend(["Preference-Applied", "Idempotent-Replayed", "Countersign-Recorded"]);
    }
    let reference = |name: &str| Ref::new(format!("#/components/headers/{name}"));
    names.into_iter().fold(answer, |answer, name| answer.header_ref(name, reference(name)))
}

/// Every header of answers.
fn headers(components: ComponentsBuilder) -> ComponentsBuilder {
    let all = [
        ("X-Request-Id", Type::String, "The request's own id, or the one that was made for it."),
        ("WWW-Authenticate", Type::String, "`Bearer`"),
        ("Retry-After", Type::Integer, "In how many seconds it makes sense to ask again, if it does."),
        ("Location", Type::String, "Where the approval is: a locator, never an authority."),
        ("Preference-Applied", Type::String, "How long the call was held, if `Prefer` asked for it."),
        ("Idempotent-Replayed", Type::String, "`true`: an earlier call with the same key made this answer."),
        ("Countersign-Recorded", Type::String, "`false`: it ran, and its end is not on record yet."),
    ];
    all.into_iter().fold(components, |components, (name, kind, about)| {
        let schema = Schema::Object(Object::with_type(kind));
        components.header(name, Header::builder().schema(Some(schema)).description(Some(about)).build())
    })
}

fn body(schema: &str, required: Required) -> utoipa::openapi::request_body::RequestBody {
    let content = ContentBuilder::new().schema(Some(reference(schema))).build();
    RequestBodyBuilder::new().content("application/json", content).required(Some(required)).build()
}

fn parameter(given: &Given) -> Parameter {
    let (place, required) = match given.place {
        Where::Path => (ParameterIn::Path, Required::True),
        Where::Query => (ParameterIn::Query, Required::False),
        Where::Header => (ParameterIn::Header, Required::False),
    };
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let schema: RefOr<Schema> = match given.kind {
        Kind::Any => text().build().into(),
        Kind::Text { most } => text().min_length(Some(1)).max_length(Some(most)).build().into(),
        // Header values are trimmed, and what is not visible ASCII is somebody else's.
        Kind::Visible { most } => text().pattern(Some(format!("^[!-~]{{1,{most}}}$"))).build().into(),
        Kind::Time => text().format(Some(utoipa::openapi::SchemaFormat::Custom("date-time".into()))).build().into(),
        Kind::Number { least, most } => {
            let number = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(least));
            number.maximum(Some(most)).build().into()
        }
        Kind::Word(words) => text().enum_values(Some(words.iter().copied())).build().into(),
        Kind::Texts => utoipa::openapi::Array::new(text().build()).into(),
    };
    let parameter = ParameterBuilder::new().name(given.name).parameter_in(place).required(required);
    parameter.description(Some(given.about)).schema(Some(schema)).build()
}

fn reference(schema: &str) -> Ref {
    Ref::from_schema_name(schema)
}

/// A route as metrics name it: there are not more than are described.
pub(super) fn route(path: &str) -> &'static str {
    OPERATIONS.iter().find(|it| it.path == path).map_or("none", |it| it.path)
}

/// The document, for tests.
#[cfg(feature = "testing")]
pub fn description() -> &'static str {
    &DOCUMENT
}

/// Every route and method, for tests.
#[cfg(feature = "testing")]
pub fn listed() -> Vec<(&'static str, &'static str)> {
    OPERATIONS.iter().map(|it| (it.path, if it.method == HttpMethod::Get { "GET" } else { "POST" })).collect()
}
