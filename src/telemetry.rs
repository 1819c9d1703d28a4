//! The spans of a call, for whoever operates the engine, and their way and that of the metrics to an OpenTelemetry collector.
//!
//! `docs/telemetry.md` lists them. They hold ids and words of closed sets; no input, output, reason or error text (INV-9).

#[cfg(feature = "otel")]
mod conventions;
#[cfg(feature = "otel")]
mod endpoint;
#[cfg(feature = "otel")]
mod export;
#[cfg(feature = "otel")]
mod metrics;
#[cfg(feature = "http")]
mod settings;

use tracing::Span;
use tracing::field::{Empty, display};

#[cfg(feature = "otel")]
pub use conventions::Conventional;
#[cfg(feature = "otel")]
pub use export::{Export, layer, otlp};
#[cfg(feature = "http")]
pub use settings::TelemetrySettings;

use crate::capability::Governed;
use crate::outcome::{ErrorCode, Outcome};
use crate::{ApprovalId, CapabilityId, ExecutionId, Surface};

/// What is called, of calls to what is not registered: callers make no names here.
const UNKNOWN: &str = "unknown";

/// The whole execution.
pub(crate) fn execution(execution: &ExecutionId, surface: Surface) -> Span {
    tracing::info_span!(
        "countersign.execution",
        %execution,
        surface = surface.as_str(),
        capability = Empty,
        effect = Empty,
        risk = Empty,
        attempts = Empty,
        approval = Empty,
        outcome = Empty,
        code = Empty,
    )
}

/// Stage 7: what the policies say, with what has to be fetched for it.
pub(crate) fn policy() -> Span {
    tracing::info_span!("countersign.policy", outcome = Empty, code = Empty)
}

/// Stage 8: whether somebody agreed, must be asked, or need not be.
pub(crate) fn approval() -> Span {
    tracing::info_span!("countersign.approval", approval = Empty, outcome = Empty, code = Empty)
}

/// One attempt of the procedure, with the middleware around it.
pub(crate) fn handler(capability: &CapabilityId, attempt: u32) -> Span {
    tracing::info_span!("countersign.handler", %capability, attempt, outcome = Empty, code = Empty)
}

/// What an execution came to.
pub(crate) fn ended(span: &Span, capability: Option<&std::sync::Arc<Governed>>, attempts: u32, outcome: &Outcome) {
    span.record("capability", capability.map_or(UNKNOWN, |it| it.id.as_str()));
    if let Some(it) = capability {
        span.record("effect", it.side_effect.as_str()).record("risk", it.risk.as_str());
    }
    span.record("attempts", attempts);
    match outcome {
        Outcome::Completed { replayed: true, .. } => told(span, "replayed", None),
        Outcome::Completed { .. } => told(span, "completed", None),
        Outcome::ApprovalRequired { approval, .. } => settled(span, "approval_required", Some(&approval.id)),
        Outcome::Failed { error, .. } => told(span, "failed", Some(error.code)),
        Outcome::Cancelled { error, .. } => told(span, "cancelled", Some(error.code)),
    }
}

/// What a stage came to.
pub(crate) fn told(span: &Span, outcome: &'static str, code: Option<ErrorCode>) {
    span.record("outcome", outcome);
    if let Some(code) = code {
        span.record("code", code.as_str());
    }
}

/// As [`told`], with the approval that it is about.
pub(crate) fn settled(span: &Span, outcome: &'static str, approval: Option<&ApprovalId>) {
    if let Some(id) = approval {
        span.record("approval", display(id));
    }
    told(span, outcome, None);
}

/// Makes a span part of the trace that a caller said it is part of (W3C Trace Context: ids and flags in hexadecimal).
#[cfg(feature = "otel")]
pub(crate) fn continues(span: &Span, trace: &str, parent: &str, flags: &str) {
    use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    let (Ok(trace), Ok(parent)) = (TraceId::from_hex(trace), SpanId::from_hex(parent)) else { return };
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).unwrap_or(0)) & TraceFlags::SAMPLED;
    let remote = SpanContext::new(trace, parent, flags, true, TraceState::default());
    // Refused where no spans are exported: then there is no trace to be part of.
    let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(remote));
}

#[cfg(all(feature = "http", not(feature = "otel")))]
pub(crate) fn continues(_: &Span, _: &str, _: &str, _: &str) {}
