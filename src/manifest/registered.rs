//! What registration would say of a manifest's capability, told with the manifest's own words.

use toml::de::{DeTable, DeValue};

use super::fields::Found;
use crate::capability::Capability;
use crate::registry::Registry;

/// What registration says of a capability belongs to a field of a manifest. Its problems are worded for builders, whose
/// methods have mostly the same names; the first of these words that a problem holds says which.
const FIELDS: [(&str, &str); 22] = [
    ("input schema", "input_schema"),
    ("output schema", "output_schema"),
    ("`redact_output`", "redact.output"),
    ("`redact_display`", "redact.display"),
    ("idempotency keys, but", "idempotency.on_reads"),
    ("idempotency keys", "idempotency.ttl"),
    ("quorum", "approval.quorum"),
    ("life of the approval", "approval.expires_in"),
    ("approval type", "approval.type"),
    ("resource's id", "resource.id"),
    ("resource", "resource.entity"),
    ("retries", "retry.max_attempts"),
    ("retried", "retry.max_attempts"),
    ("timeout", "timeout"),
    ("reconcile hook", "reconcile"),
    ("error", "errors"),
    ("tool name", "tool_name"),
    ("tag", "tags"),
    ("description", "description"),
    ("risk", "risk"),
    ("the id", "id"),
    ("", "id"),
];

/// Checks a capability as the engine will, so that its problems are told with file, line and field.
pub(super) fn registered<C>(capability: &Capability<C>, text: &str, found: &mut Found<'_>) {
    let Err(problems) = Registry::new(vec![capability.draft.clone()]) else { return };
    for problem in problems {
        let field = FIELDS.iter().find(|(word, _)| problem.what.contains(word)).map_or("id", |(_, field)| field);
        found.problem(place_of(field, text), field, problem.what, problem.fix);
    }
}

/// Where a field is; the top of the file if it is not there.
fn place_of(field: &str, text: &str) -> usize {
    let Ok(document) = DeTable::parse(text) else { return 0 };
    let mut table = document.get_ref();
    let mut at = 0;
    for name in field.split('.') {
        let file = format!("{name}_file"); // a schema may be elsewhere
        let Some(value) = table.get(name).or_else(|| table.get(&*file)) else { return at };
        at = value.span().start;
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => return at,
        }
    }
    at
}
