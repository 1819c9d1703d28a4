//! A capability as the snapshot has it.

use serde::{Deserialize, Serialize};

use super::schema;
use crate::actor::Surface;
use crate::audit::canonical;
use crate::capability::{ApprovalRule, Governed, Idempotency, Meta, Risk, SideEffect};
use crate::clock::micros;
use crate::policy::GateOutline;

/// Everything but code. Lists are sorted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct CapabilityRecord {
    pub(super) id: String,
    pub(super) description: String,
    pub(super) side_effect: SideEffect,
    pub(super) risk: Risk,
    pub(super) expose: Vec<Surface>,
    /// The gate that it declares itself.
    pub(super) approval: Option<GateOutline>,
    pub(super) tags: Vec<String>,
    pub(super) tool_name: String,
    /// Of what decides in the schema.
    pub(super) input_schema: String,
    pub(super) output_schema: String,
    pub(super) errors: Vec<String>,
    pub(super) timeout_us: i64,
    /// Additional attempts.
    pub(super) retries: u32,
    pub(super) idempotent: bool,
    pub(super) idempotency: Keeping,
    pub(super) redact_output: Vec<String>,
    pub(super) redact_display: Vec<String>,
    pub(super) redact_function: bool,
    pub(super) resource: Option<About>,
    pub(super) decision_record: bool,
    pub(super) run_on_approval: bool,
    pub(super) reconcile: bool,
    /// Where its code is, if a manifest says so. Absent from snapshots of the time before it was in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) procedure: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reconcile_procedure: Option<String>,
    /// Of what readers read: the schemas with their remarks, the sentences of errors.
    pub(super) texts: String,
    /// Of everything that was agreed to, its texts too: the digest that approvals bind.
    pub(super) governance: String,
}

/// How outcomes are kept under a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Keeping {
    pub(super) ttl_us: i64,
    pub(super) store_output: bool,
    pub(super) on_reads: bool,
}

/// The application's entity that a call is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    pub(super) entity: String,
    pub(super) id: String,
}

impl CapabilityRecord {
    pub(super) fn of(it: &Governed) -> Self {
        // Every member by name: one more does not compile until it is here.
        let Meta {
            description,
            risk: _,
            expose,
            tags,
            errors,
            timeout,
            retries,
            idempotent,
            idempotency,
            approval,
            redact,
            resource,
            decision_record,
            run_on_approval,
            tool_name: _,
            reconcile,
            located,
        } = &it.meta;
        Self {
            id: it.id.to_string(),
            description: description.clone(),
            side_effect: it.side_effect,
            risk: it.risk,
            expose: expose.clone(),
            approval: approval.as_ref().map(gate),
            tags: tags.clone(),
            tool_name: it.tool_name.clone(),
            input_schema: schema::digest(&it.input_schema),
            output_schema: schema::digest(&it.output_schema),
            errors: sorted(errors.iter().map(|it| it.code.to_string())),
            timeout_us: micros(*timeout),
            retries: *retries,
            idempotent: *idempotent,
            idempotency: keeping(idempotency),
            redact_output: sorted(redact.output.iter().cloned()),
            redact_display: sorted(redact.display.iter().cloned()),
            redact_function: redact.function.is_some(),
            resource: resource.as_ref().map(|it| About { entity: it.entity.clone(), id: it.id.clone() }),
            decision_record: *decision_record,
            run_on_approval: *run_on_approval,
            reconcile: reconcile.is_some(),
            procedure: located.as_ref().map(|it| it.procedure.clone()),
            reconcile_procedure: located.as_ref().and_then(|it| it.reconcile.clone()),
            texts: texts(it),
            governance: it.digest.clone(),
        }
    }
}

fn gate(rule: &ApprovalRule) -> GateOutline {
    GateOutline { kind: rule.kind.clone(), quorum: rule.quorum, expires_in_seconds: rule.expires_in.as_secs() }
}

fn keeping(it: &Idempotency) -> Keeping {
    Keeping { ttl_us: micros(it.ttl), store_output: it.store_output, on_reads: it.on_reads }
}

fn texts(it: &Governed) -> String {
    let errors: Vec<_> = it.meta.errors.iter().map(|it| (&it.code, &it.message)).collect();
    let all = canonical(&(&it.input_schema, &it.output_schema, errors));
    crate::canonical::sha256(&["countersign/texts/v1\n", &all])
}

fn sorted(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<_> = all.collect();
    all.sort();
    all.dedup();
    all
}
