//! One hash over all that was agreed to about a capability.

use serde::Serialize;
use serde_json::Value;

use crate::actor::Surface;
use crate::canonical;
use crate::capability::{ApprovalRule, Governed, Idempotency, Located, ResourceMapping, Risk, SideEffect};
use crate::clock::micros;
use crate::handler::DeclaredError;

/// Everything but code. A member more or less changes every digest: that is what it is for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
struct Governance<'a> {
    id: &'a str,
    side_effect: SideEffect,
    risk: Risk,
    description: &'a str,
    expose: &'a [Surface],
    tags: &'a [String],
    tool_name: &'a str,
    input_schema: &'a Value,
    output_schema: &'a Value,
    errors: &'a [DeclaredError],
    timeout_us: i64,
    retries: u32,
    idempotent: bool,
    idempotency: &'a Idempotency,
    approval: &'a Option<ApprovalRule>,
    redact_output: Vec<&'a String>,
    redact_display: Vec<&'a String>,
    redact_function: bool,
    resource: &'a Option<ResourceMapping>,
    decision_record: bool,
    reconcile: bool,
    // Left out where it is not so: what was agreed to before there was such a thing has the digest that it had.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    run_on_approval: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    located: Option<&'a Located>,
}

/// `sha256:` and hexadecimal. Lists whose order means nothing are sorted.
pub(super) fn of(governed: &Governed) -> String {
    let meta = &governed.meta;
    let governance = Governance {
        id: &governed.id,
        side_effect: governed.side_effect,
        risk: governed.risk,
        description: &meta.description,
        expose: &meta.expose,
        tags: &meta.tags,
        tool_name: &governed.tool_name,
        input_schema: &governed.input_schema,
        output_schema: &governed.output_schema,
        errors: &meta.errors,
        timeout_us: micros(meta.timeout),
        retries: meta.retries,
        idempotent: meta.idempotent,
        idempotency: &meta.idempotency,
        approval: &meta.approval,
        redact_output: sorted(&meta.redact.output),
        redact_display: sorted(&meta.redact.display),
        redact_function: meta.redact.function.is_some(),
        resource: &meta.resource,
        decision_record: meta.decision_record,
        reconcile: meta.reconcile.is_some(),
        run_on_approval: meta.run_on_approval,
        located: meta.located.as_ref(),
    };
    canonical::sha256(&["countersign/governance/v1\n", &crate::audit::canonical(&governance)])
}

fn sorted(paths: &[String]) -> Vec<&String> {
    let mut out: Vec<_> = paths.iter().collect();
    out.sort();
    out
}
