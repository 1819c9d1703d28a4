//! The metrics in the Prometheus text format (version 0.0.4).

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::family::{Family, Points, Value};

/// All of them, under the engine's own name.
pub(super) fn of(families: Vec<Family>) -> String {
    let mut registry = Registry::with_prefix("countersign");
    registry.register_collector(Box::new(Told(families)));
    let mut text = String::new();
    // Writing to a string cannot fail, and no label does.
    let _ = prometheus_text::encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Told(Vec<Family>);

impl Collector for Told {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|it| family(it, &mut to))
    }
}

fn family(Family { name, help, points }: &Family, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let kind = match points {
        Points::Counts(_) => MetricType::Counter,
        Points::Gauges(_) => MetricType::Gauge,
        Points::Durations(_) => MetricType::Histogram,
    };
    let mut metric = to.encode_descriptor(name, help, None, kind)?;
    match points {
        Points::Counts(points) => points.iter().try_for_each(|(labels, count)| {
            metric.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(count, None)
        }),
        Points::Gauges(points) => points.iter().try_for_each(|(labels, value)| {
            if labels.is_empty() {
                gauge(&mut metric, *value)
            } else {
                gauge(&mut metric.encode_family(labels)?, *value)
            }
        }),
        Points::Durations(points) => points.iter().try_for_each(|(labels, seen)| {
            let mut metric = metric.encode_family(labels)?;
            metric.encode_histogram::<NoLabelSet>(seen.seconds, seen.count, &seen.classes, None)
        }),
    }
}

fn gauge(metric: &mut MetricEncoder<'_>, value: Value) -> fmt::Result {
    match value {
        Value::Whole(value) => metric.encode_gauge(&value),
        Value::Real(value) => metric.encode_gauge(&value),
    }
}
