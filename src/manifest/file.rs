//! One manifest: the metadata of a capability, and where its procedure is.

use std::path::Path;
use std::time::Duration;

use toml::de::DeTable;

use super::fields::{Fields, Found, Placed};
use super::json;
use super::origins::Origins;
use super::procedure::Procedure;
use super::registered::registered;
use super::secrets::Vault;
use crate::Surface;
use crate::builder::Problem;
use crate::capability::{ApprovalRule, Capability, CapabilityBuilder, Idempotency, Risk, SideEffect};
use crate::handler::DeclaredError;

/// What every manifest of a directory is read with.
pub(super) struct Around<'a> {
    pub(super) directory: &'a Path,
    pub(super) origins: &'a Origins,
    pub(super) vault: Vault<'a>,
    pub(super) guard: Option<&'a Path>,
    pub(super) client: &'a reqwest::Client,
}

/// A capability, and where its file names it.
pub(super) struct Manifest<C> {
    pub(super) capability: Capability<C>,
    /// `FILE:LINE` of its id.
    pub(super) place: String,
}

/// Reads a manifest, or says everything that is wrong with it.
pub(super) fn read<C: Send + Sync + 'static>(
    name: &str,
    text: &str,
    around: &Around<'_>,
) -> Result<Manifest<C>, Vec<Problem>> {
    let mut found = Found::new(name.to_owned(), text);
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().map_or(0, |it| it.start);
        found.problem(at, "", format!("it is not TOML: {}", error.message()), "correct it");
    }
    if !errors.is_empty() {
        return Err(found.into_problems()); // what could be read all the same would be guessed
    }
    let mut fields = Fields::root(document.into_inner());
    let id = fields.required::<String>("id", "give it an id: `orders.refund`", &mut found);
    let place = format!("{name}:{}", found.line(id.as_ref().map_or(0, |it| it.at)));
    let capability = capability(id, fields, around, &mut found);
    if let Some(capability) = &capability
        && found.is_clean()
    {
        registered(capability, text, &mut found);
    }
    match capability {
        Some(capability) if found.is_clean() => Ok(Manifest { capability, place }),
        Some(_) | None => Err(found.into_problems()),
    }
}

fn capability<C: Send + Sync + 'static>(
    id: Option<Placed<String>>,
    mut fields: Fields<'_>,
    around: &Around<'_>,
    found: &mut Found<'_>,
) -> Option<Capability<C>> {
    let effect = one_of(&mut fields, "side_effect", &SideEffect::ALL.map(|it| (it.as_str(), it)), found);
    let id = id.map_or_else(String::new, |it| it.value);
    // A field that is wrong is a problem already; what it would have been does not matter then.
    let mut builder = Capability::builder(id, effect.unwrap_or(SideEffect::Destructive));
    builder = words(builder, &mut fields, found);
    let timeout = fields.optional::<Duration>("timeout", found).map_or(Duration::from_secs(30), |it| it.value);
    builder = limits(builder.timeout(timeout), &mut fields, found);
    builder = rules(builder, &mut fields, found);
    let errors = errors(&mut fields, found);
    builder = errors.iter().fold(builder, |builder, it| builder.error(it.clone()));
    let input = json::schema(&mut fields, ("input_schema", "input_schema_file"), around.directory, found);
    let output = json::schema(&mut fields, ("output_schema", "output_schema_file"), around.directory, found);
    fields.demand("handler", "say where the procedure is: `[handler]` with `kind = \"http\"` or `\"command\"`", found);
    let handler = fields.table("handler", found);
    let handler = handler.and_then(|it| Procedure::read(it, around, (timeout, &errors), found));
    let reconciler = fields.table("reconcile", found);
    let reconciler = reconciler.and_then(|it| Procedure::reconciler(it, around, handler.as_ref(), found));
    fields.end(found);
    effect?;
    Some(handler?.complete(builder, reconciler, input?, output?))
}

/// A field that is one of some words.
pub(super) fn one_of<T: Copy>(
    fields: &mut Fields<'_>,
    name: &'static str,
    words: &[(&'static str, T)],
    found: &mut Found<'_>,
) -> Option<T> {
    let all = words.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let given = fields.required::<String>(name, &format!("write one of {all}"), found)?;
    let word = words.iter().find(|(word, _)| *word == given.value).map(|(_, it)| *it);
    if word.is_none() {
        given.problem(found, "there is no such word", format!("write one of {all}"));
    }
    word
}

/// What it is called and what is said of it.
fn words(mut builder: CapabilityBuilder, fields: &mut Fields<'_>, found: &mut Found<'_>) -> CapabilityBuilder {
    let fix = "say what it does and when to use it";
    if let Some(text) = fields.required::<String>("description", fix, found) {
        builder = builder.description(text.value);
    }
    if let Some(risk) = one_of(fields, "risk", &Risk::ALL.map(|it| (it.as_str(), it)), found) {
        builder = builder.risk(risk);
    }
    if let Some(given) = fields.optional::<Vec<String>>("expose", found) {
        for name in &given.value {
            if let Some(surface) = Surface::ALL.into_iter().find(|it| it.as_str() == name) {
                builder = builder.expose([surface]);
            } else {
                let all = Surface::ALL.map(|it| format!("`{}`", it.as_str())).join(", ");
                given.problem(found, "it lists what is no surface", format!("there are: {all}"));
            }
        }
    }
    if let Some(tags) = fields.optional::<Vec<String>>("tags", found) {
        builder = builder.tags(tags.value);
    }
    if let Some(name) = fields.optional::<String>("tool_name", found) {
        builder = builder.tool_name(name.value);
    }
    builder
}

/// How often it may run, and how its outcomes are kept.
fn limits(mut builder: CapabilityBuilder, fields: &mut Fields<'_>, found: &mut Found<'_>) -> CapabilityBuilder {
    if let Some(mut retry) = fields.table("retry", found) {
        let fix = "say how many additional attempts there may be: `max_attempts = 2`";
        if let Some(attempts) = retry.required::<u32>("max_attempts", fix, found) {
            builder = builder.retries(attempts.value);
        }
        retry.end(found);
    }
    if fields.optional::<bool>("idempotent", found).is_some_and(|it| it.value) {
        builder = builder.idempotent();
    }
    if let Some(mut keys) = fields.table("idempotency", found) {
        let mut kept = Idempotency::default();
        kept.ttl = keys.optional("ttl", found).map_or(kept.ttl, |it| it.value);
        kept.store_output = keys.optional("store_output", found).map_or(kept.store_output, |it| it.value);
        kept.on_reads = keys.optional("on_reads", found).map_or(kept.on_reads, |it| it.value);
        keys.end(found);
        builder = builder.idempotency(kept);
    }
    builder
}

/// Who must agree, what nobody sees, what it is about.
fn rules(mut builder: CapabilityBuilder, fields: &mut Fields<'_>, found: &mut Found<'_>) -> CapabilityBuilder {
    if let Some(rule) = fields.table("approval", found).and_then(|it| approval(it, found)) {
        builder = builder.approval(rule);
    }
    if let Some(mut redact) = fields.table("redact", found) {
        if let Some(paths) = redact.optional::<Vec<String>>("output", found) {
            builder = builder.redact_output(paths.value);
        }
        if let Some(paths) = redact.optional::<Vec<String>>("display", found) {
            builder = builder.redact_display(paths.value);
        }
        redact.end(found);
    }
    if let Some(mut resource) = fields.table("resource", found) {
        let entity = resource.required::<String>("entity", "name a type of `schema.cedarschema`", found);
        let id = resource.required::<String>("id", "say where in the input its id is: `/orderId`", found);
        resource.end(found);
        if let (Some(entity), Some(id)) = (entity, id) {
            builder = builder.resource(entity.value, id.value);
        }
    }
    if fields.optional::<bool>("run_on_approval", found).is_some_and(|it| it.value) {
        builder = builder.run_on_approval();
    }
    let keep = fields.optional::<bool>("decision_record", found);
    keep.into_iter().fold(builder, |builder, it| builder.decision_record(it.value))
}

/// The approval that every call needs; none with `required = false`.
fn approval(mut fields: Fields<'_>, found: &mut Found<'_>) -> Option<ApprovalRule> {
    let is_required = fields.optional::<bool>("required", found).is_none_or(|it| it.value);
    let kind = fields.required::<String>("type", "name the type of the approval: `manager`", found);
    let mut rule = ApprovalRule::of(kind.as_ref().map_or("", |it| &it.value));
    rule.quorum = fields.optional("quorum", found).map_or(rule.quorum, |it| it.value);
    rule.expires_in = fields.optional("expires_in", found).map_or(rule.expires_in, |it| it.value);
    fields.end(found);
    (kind.is_some() && is_required).then_some(rule)
}

/// Codes and their sentences.
fn errors(fields: &mut Fields<'_>, found: &mut Found<'_>) -> Vec<DeclaredError> {
    let Some(table) = fields.table("errors", found) else { return Vec::new() };
    let mut out = Vec::new();
    for (code, given) in table.open() {
        match given.value.as_str() {
            Some(message) => out.push(DeclaredError { code: code.into(), message: message.to_owned().into() }),
            None => given.problem(found, "it must be a string", "write the sentence that callers read"),
        }
    }
    out
}
