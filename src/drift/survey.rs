//! A capability as the snapshot has it.

use serde::{Deserialize, Serialize};

use super::schema;
use crate::actor::Surface;
use crate::capability::{Governed, Risk, SideEffect};
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
        let meta = &it.meta;
        let approval = meta.approval.as_ref().map(|rule| GateOutline {
            kind: rule.kind.clone(),
            quorum: rule.quorum,
            expires_in_seconds: rule.expires_in.as_secs(),
        });
        let keeping = &meta.idempotency;
        Self {
            id: it.id.to_string(),
            description: meta.description.clone(),
            side_effect: it.side_effect,
            risk: it.risk,
            expose: meta.expose.clone(),
            approval,
            tags: meta.tags.clone(),
            tool_name: it.tool_name.clone(),
            input_schema: schema::digest(&it.input_schema),
            output_schema: schema::digest(&it.output_schema),
            errors: sorted(meta.errors.iter().map(|it| it.code.to_string())),
            timeout_us: micros(meta.timeout),
            retries: meta.retries,
            idempotent: meta.idempotent,
            idempotency: Keeping {
                ttl_us: micros(keeping.ttl),
                store_output: keeping.store_output,
                on_reads: keeping.on_reads,
            },
            redact_output: sorted(meta.redact.output.iter().cloned()),
            redact_display: sorted(meta.redact.display.iter().cloned()),
            redact_function: meta.redact.function.is_some(),
            resource: meta.resource.as_ref().map(|it| About { entity: it.entity.clone(), id: it.id.clone() }),
            decision_record: meta.decision_record,
            run_on_approval: meta.run_on_approval,
            reconcile: meta.reconcile.is_some(),
            governance: it.digest.clone(),
        }
    }
}

fn sorted(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<_> = all.collect();
    all.sort();
    all.dedup();
    all
}
