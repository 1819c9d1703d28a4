//! What the metadata of a capability must be. Every problem says what to do.

use std::time::Duration;

use serde_json::Value;

use crate::builder::Problem;
use crate::capability::{ApprovalRule, Draft, Meta};
use crate::outcome::ErrorCode;
use crate::redact::RedactPath;
use crate::schema;

/// Ids that policies use for something else: `Action::"invoke"` is the group of all capabilities.
const RESERVED: [&str; 1] = ["invoke"];

const MAX_DESCRIPTION: usize = 4096;
const MAX_TAGS: usize = 16;
const MAX_TAG: usize = 64;
const MAX_ERRORS: usize = 64;
const MAX_CODE: usize = 64;
const MAX_MESSAGE: usize = 512;
const MAX_PATHS: usize = 64;
const MAX_TOOL_NAME: usize = 128;
const MAX_RETRIES: u32 = 10;
const MAX_QUORUM: u32 = 16;
const MAX_APPROVAL_TYPE: usize = 64;
const DAY: Duration = Duration::from_hours(24);
const MAX_APPROVAL_LIFE: Duration = Duration::from_hours(24 * 30);
const MAX_TTL: Duration = Duration::from_hours(24 * 366);

/// Problems of one capability.
struct Check<'a> {
    at: &'a str,
    problems: Vec<Problem>,
}

impl Check<'_> {
    /// Reports `what`, unless it is `right`.
    fn demand(&mut self, right: bool, what: impl FnOnce() -> String, fix: &str) {
        if !right {
            self.problems.push(Problem::new(self.at, what(), fix));
        }
    }
}

/// Everything that is wrong with the metadata, schemas and redaction apart.
pub(super) fn all(draft: &Draft, tool_name: &str) -> Vec<Problem> {
    let mut check = Check { at: &draft.id, problems: Vec::new() };
    names(&mut check, draft, tool_name);
    words(&mut check, &draft.meta);
    errors(&mut check, &draft.meta);
    limits(&mut check, draft);
    if let Some(rule) = &draft.meta.approval {
        approval(&mut check, rule, &draft.meta);
    }
    effects(&mut check, draft);
    check.problems
}

fn names(check: &mut Check<'_>, draft: &Draft, tool_name: &str) {
    let fix = "use lower-case letters, digits, `_` and single dots, at most 128: `orders.refund`";
    check.demand(draft.id.is_well_formed(), || "the id is not a dot path".into(), fix);
    let is_free = !RESERVED.contains(&&*draft.id);
    check.demand(is_free, || "the id is reserved: it is a group of actions in policies".into(), "choose another id");
    let is_tool = (1..=MAX_TOOL_NAME).contains(&tool_name.len())
        && tool_name.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'-' | b'.'));
    let fix = "give it one of 1 to 128 letters, digits, `_`, `-` and `.` with `tool_name`";
    check.demand(
        is_tool || draft.meta.tool_name.is_none(),
        || format!("the tool name `{tool_name}` is not legal"),
        fix,
    );
}

fn words(check: &mut Check<'_>, meta: &Meta) {
    let description = meta.description.trim();
    let fix = "say with `description` what it does and when to use it";
    check.demand(!description.is_empty(), || "it has no description".into(), fix);
    let fix = "shorten it: agents read it at every listing";
    let is_short = meta.description.len() <= MAX_DESCRIPTION;
    check.demand(is_short, || format!("the description has more than {MAX_DESCRIPTION} bytes"), fix);
    check.demand(!meta.description.contains('\0'), || "the description holds a NUL".into(), "remove it");
    check.demand(meta.risk.is_some(), || "it has no risk".into(), "say with `risk` how bad a wrong call is");
    check.demand(meta.tags.len() <= MAX_TAGS, || format!("it has more than {MAX_TAGS} tags"), "remove some");
    for tag in &meta.tags {
        let legal = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || matches!(it, b'_' | b'-');
        let right = (1..=MAX_TAG).contains(&tag.len()) && tag.bytes().all(legal);
        let fix = "use 1 to 64 lower-case letters, digits, `_` and `-`";
        check.demand(right, || format!("the tag `{tag}` is not legal"), fix);
    }
}

fn errors(check: &mut Check<'_>, meta: &Meta) {
    check.demand(
        meta.errors.len() <= MAX_ERRORS,
        || format!("it declares more than {MAX_ERRORS} errors"),
        "remove some",
    );
    for error in &meta.errors {
        let code = &*error.code;
        let fix = "use 1 to 64 capital letters, digits and `_`, a letter first: `NOT_ELIGIBLE`";
        check.demand(is_code(code), || format!("the error code `{code}` is not legal"), fix);
        let is_ours = ErrorCode::ALL.iter().any(|it| it.as_str() == code);
        let fix = "choose another code: callers could not tell the two apart";
        check.demand(!is_ours, || format!("the error code `{code}` is one of the engine's own"), fix);
        let right = !error.message.trim().is_empty() && error.message.len() <= MAX_MESSAGE;
        let fix = "give it one sentence of at most 512 bytes that callers may read";
        check.demand(right, || format!("the error `{code}` has no message, or a long one"), fix);
    }
    // Sorted and without repetition: what still has the same code differs in its message.
    for pair in meta.errors.windows(2).filter(|it| it[0].code == it[1].code) {
        let code = &pair[0].code;
        let fix = "declare it once, and change the sentence with `with_message` where it is returned";
        check.demand(false, || format!("the error code `{code}` is declared with two messages"), fix);
    }
}

fn is_code(code: &str) -> bool {
    code.len() <= MAX_CODE
        && code.bytes().next().is_some_and(|it| it.is_ascii_uppercase())
        && code.bytes().all(|it| it.is_ascii_uppercase() || it.is_ascii_digit() || it == b'_')
}

fn limits(check: &mut Check<'_>, draft: &Draft) {
    let meta = &draft.meta;
    let right = (Duration::from_millis(1)..=DAY).contains(&meta.timeout);
    check.demand(right, || "the timeout is out of bounds".into(), "choose 1 ms to 24 h");
    check.demand(meta.retries <= MAX_RETRIES, || format!("it has more than {MAX_RETRIES} retries"), "choose 0 to 10");
    // INV-11: a write is never retried by the engine unless declared idempotent.
    let right = meta.retries == 0 || draft.side_effect.is_read() || meta.idempotent;
    let fix = "remove `retries`, or declare with `idempotent` that running twice with one key is running once";
    check.demand(right, || format!("a {} that is not idempotent is retried", draft.side_effect.as_str()), fix);
    let ttl = meta.idempotency.ttl;
    let right = (Duration::from_secs(1)..=MAX_TTL).contains(&ttl);
    check.demand(right, || "the ttl of idempotency keys is out of bounds".into(), "choose 1 s to 366 d");
}

fn approval(check: &mut Check<'_>, rule: &ApprovalRule, meta: &Meta) {
    let legal = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'-' | b'.');
    let right = (1..=MAX_APPROVAL_TYPE).contains(&rule.kind.len()) && rule.kind.bytes().all(legal);
    let fix = "use 1 to 64 letters, digits, `_`, `-` and `.`: `manager`";
    check.demand(right, || format!("the approval type `{}` is not legal", rule.kind), fix);
    let right = (1..=MAX_QUORUM).contains(&rule.quorum);
    check.demand(right, || "the quorum of the approval is out of bounds".into(), "choose 1 to 16 people");
    let right = (Duration::from_secs(1)..=MAX_APPROVAL_LIFE).contains(&rule.expires_in);
    check.demand(right, || "the life of the approval is out of bounds".into(), "choose 1 s to 30 d with `expires_in`");
    // IDM-6: a key that is forgotten before its approval expires would let the call be filed again.
    let right = meta.idempotency.ttl >= rule.expires_in;
    let fix = "raise the ttl in `idempotency` to the approval's `expires_in` at least";
    check.demand(right, || "its idempotency keys are forgotten before its approvals expire".into(), fix);
}

fn effects(check: &mut Check<'_>, draft: &Draft) {
    let meta = &draft.meta;
    let is_read = draft.side_effect.is_read();
    let fix = "remove `reconcile`: nothing is ever unknown about a capability that changes nothing";
    check.demand(!is_read || meta.reconcile.is_none(), || "it has a reconcile hook, but no effect".into(), fix);
    let fix = "remove `on_reads`: a computation has nothing that a key could protect";
    let right = draft.side_effect != crate::SideEffect::None || !meta.idempotency.on_reads;
    check.demand(right, || "it uses idempotency keys, but has no effect".into(), fix);
    if let Some(resource) = &meta.resource {
        let right = !resource.entity.trim().is_empty();
        check.demand(right, || "its resource has no entity type".into(), "name one of `schema.cedarschema`");
        let right = schema::has_required_string(&draft.input_schema, &resource.id);
        let fix = "name a required string member of the input, as a JSON Pointer: `/orderId`";
        check.demand(right, || format!("its resource's id is at `{}`, where no string must be", resource.id), fix);
    }
}

/// Compiles redaction paths. One that the schema does not have would protect nothing.
pub(super) fn paths(
    at: &str,
    method: &str,
    paths: &[String],
    schema: &Value,
    problems: &mut Vec<Problem>,
) -> Vec<RedactPath> {
    let mut check = Check { at, problems: Vec::new() };
    check.demand(paths.len() <= MAX_PATHS, || format!("`{method}` has more than {MAX_PATHS} paths"), "use `*`");
    let mut out = Vec::new();
    for path in paths {
        let fix = "write a JSON Pointer, `/customer/email`, with `*` for every member or element";
        match RedactPath::compile(path) {
            Err(error) => check.demand(false, || format!("`{method}`: `{path}` is no path: {error}"), fix),
            Ok(compiled) if !compiled.is_declared_in(schema) => {
                let fix = "correct it, or declare the member in the schema; members of a map are `*`";
                check.demand(false, || format!("`{method}`: the schema has no `{path}`"), fix);
            }
            Ok(compiled) => out.push(compiled),
        }
    }
    problems.append(&mut check.problems);
    out
}
