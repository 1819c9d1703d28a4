//! Which trace a procedure is told that it runs in (W3C Trace Context).

use crate::invocation::Invocation;

/// The attempt's own span where spans are exported, else what the caller said, as it said it.
pub(super) fn parent<C>(cx: &Invocation<C>) -> Option<String> {
    of_span(&cx.span()).or_else(|| cx.trace().map(Into::into))
}

#[cfg(feature = "otel")]
fn of_span(span: &tracing::Span) -> Option<String> {
    use opentelemetry::trace::TraceContextExt as _;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    let context = span.context();
    let parent = context.span().span_context().clone();
    let sampled = u8::from(parent.is_sampled());
    parent.is_valid().then(|| format!("00-{}-{}-{sampled:02x}", parent.trace_id(), parent.span_id()))
}

#[cfg(not(feature = "otel"))]
fn of_span(_: &tracing::Span) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "otel")]
    #[test]
    fn a_trace_is_named_to_the_other_side_and_where_there_is_none_nothing_is() {
        use super::of_span;
        use opentelemetry::trace::TracerProvider as _;
        use tracing_subscriber::layer::SubscriberExt as _;

        assert_eq!(of_span(&tracing::info_span!("no trace")), None);
        let provider = opentelemetry_sdk::trace::SdkTracerProvider::builder().build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let parent = of_span(&tracing::info_span!("a trace")).unwrap();
            let lengths: Vec<usize> = parent.split('-').map(str::len).collect();
            assert_eq!((lengths, &parent[..3], &parent[52..]), (vec![2, 32, 16, 2], "00-", "-01"), "{parent}");
        });
    }
}
